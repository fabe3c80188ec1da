"""Measures Undermine on Apache ZooKeeper beside the figures of papers. Prints one line of JSON last.

    python -m bench.zookeeper [facts] [--version 3.6.3] [--judge 30]

The part `facts` counts the I/O operations that the class files show, in regions and in groups, with seconds and memory. It
records one fault-free run and compares its call sites with those of the class files. `--judge N` prints N random candidates
with their reasons, to be read against the source; the sample depends only on the facts.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import msgspec

from bench.news import print_news
from bench.processes import children_cpu_s, linked, set_up
from undermine.api.tracing import record
from undermine.config.load import load
from undermine.model.codec import read_columns
from undermine.model.columns import Columns
from undermine.program import Compiled, Facts, StaticPoint
from undermine.runtimes import jvm_agent, jvm_classes
from undermine.runtimes.base import ClassFiles
from undermine.store.rundir import RunDir

PACK = Path(__file__).parents[1] / "examples" / "zookeeper"
CUSTOMISED = tuple(
    (f"org.apache.jute:Record.{name}", op) for name, op in (("serialize", "msg.send"), ("deserialize", "msg.recv"))
)
"""The I/O operations of ZooKeeper's own that the Sieve paper names."""
PAPER = {"all": 1905, "in_regions": 1266, "grouped": 856}
"""Table 8 of the Sieve paper, for ZooKeeper 3.9.0."""
PARTS = ("facts",)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=list(PARTS), metavar="PART", help="facts")
    parser.add_argument("--version", default="3.6.3")
    parser.add_argument("--judge", type=int, default=0, metavar="N")
    options = parser.parse_args()
    set_up(PACK, options.version)
    found: dict[str, object] = {"bench": "zookeeper", "release": options.version}
    if "facts" in options.parts:
        found["facts"] = facts(options.version, options.judge)
    print(json.dumps(found))


def facts(version: str, judged: int) -> dict[str, object]:
    files = ClassFiles((str(PACK / "versions" / version / "*"),), packages())
    jvm_agent.agent_jar(print)
    plain, customised = alone(files, ()), alone(files, CUSTOMISED)
    known = jvm_classes.read(files, CUSTOMISED).facts()
    for point in random.Random(0).sample(known.in_regions(), judged):
        show(point)
    return {"paper": PAPER, "jdk": plain, "with_records": customised, "recorded": compared(version, known)}


def packages() -> tuple[str, ...]:
    return tuple(load(PACK / "undermine.toml").roles["server"].packages)


def alone(files: ClassFiles, named: tuple[tuple[str, str], ...]) -> dict[str, object]:
    """`measured` in a process of its own, whose only child is the analyser."""
    with ProcessPoolExecutor(1) as process:
        return process.submit(measured, files, named).result()


def measured(files: ClassFiles, named: tuple[tuple[str, str], ...]) -> dict[str, object]:
    """The counts of an analysis that isn't cached, and what it takes."""
    with tempfile.TemporaryDirectory() as folder:
        request = msgspec.structs.replace(files, path=(*files.path, folder))  # the same classes, but not in the cache
        begun, used_s = time.perf_counter(), children_cpu_s()
        compiled: Compiled = jvm_classes.read(request, named)
        read_s, cpu_s = time.perf_counter() - begun, children_cpu_s() - used_s
    counts = compiled.facts().counts
    return {
        **{name: getattr(counts, name) for name in ("files", "all", "synchronized", "timed", "in_regions", "grouped")},
        "seconds": round(read_s, 1),
        "cpu_s": round(cpu_s, 1),
        "seconds_with_join": round(time.perf_counter() - begun, 1),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024),
        "troubles": len(compiled.troubles),
    }


def compared(version: str, known: Facts) -> dict[str, object]:
    """How many operations of a recorded run are at a call site that the class files show."""
    with tempfile.TemporaryDirectory() as home:
        config = load(linked(PACK, Path(home)) / "undermine.toml", {"version": version})
        columns = read_columns(RunDir(record(config, print_news).folder).trace)
    seen = recorded_sites(columns, packages())
    missing = sorted(pair for pair in seen if known.at(pair[0]) is None)
    for loc, op in missing:
        print(f"not a point: {op} at {loc}", file=sys.stderr)
    return {"pairs": len(seen), "are_points": len(seen) - len(missing)}


def recorded_sites(columns: Columns, packages: Iterable[str]) -> set[tuple[str, str]]:
    """The pairs of call site and operation on files and sockets, in the target's own code."""
    own = tuple(f"{package}{sign}" for package in packages for sign in ".:")
    found = set()
    for row in range(len(columns)):
        op, loc = columns.text(int(columns.op[row])), columns.stacks[int(columns.stack[row])][0]
        if op.startswith(("file.", "net.")) and loc.startswith(own):
            found.add((loc, op))
    return found


def show(point: StaticPoint) -> None:
    print(f"{point.loc}  {point.op}  {point.call}  {point.file}:{point.line}", file=sys.stderr)
    for region in point.regions[:3]:
        print(f"    {region.kind} (depth {region.depth}): {region.why} ({region.where})", file=sys.stderr)


if __name__ == "__main__":
    main()
