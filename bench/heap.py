"""Measures accesses to the heap: their cost beside a full trace, and how many of their names agree between two runs.

Each system runs its pack's own workload through the tool, in turn with a full trace, and with accesses to the heap in addition.
Figures are ratios of medians: the CPU of all processes of a run, and the time from the first client operation to the last. Names
are compared between each two runs that follow each other: the share of accesses whose place also occurs in the other run.

    python -m bench.heap [ROUNDS [SYSTEM …]]
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from bench.processes import children_cpu_s, linked, set_up
from bench.trace import EXAMPLES, NS
from undermine.config.load import load
from undermine.model.codec import read_columns
from undermine.model.columns import Columns
from undermine.model.plan import Plan
from undermine.model.run import Conditions
from undermine.run.engine import open_engine
from undermine.store.rundir import RunDir

SYSTEMS = ("granary", "pysyncobj", "rq", "zookeeper")
TRACED, HEAP = "traced", "heap"
ROUNDS = 5


class Agreement(msgspec.Struct, frozen=True):
    """How many accesses of one run have a place that the other run has too, by exact and by masked name."""

    accesses: int
    exact: int
    masked: int

    def percent(self) -> dict[str, float]:
        return {name: round(100 * getattr(self, name) / max(self.accesses, 1), 2) for name in ("exact", "masked")}


def agreement(one: Columns, other: Columns) -> Agreement:
    """Compare the accesses of one run with those of another, by role: which node leads may differ from run to run."""
    accesses, known = places(one), places(other)
    exact, masked = ({place[which] for place in known} for which in (0, 1))
    return Agreement(len(accesses), sum(a in exact for a, _ in accesses), sum(b in masked for _, b in accesses))


Place = tuple[str, str]
"""A role and a name."""


def places(columns: Columns) -> list[tuple[Place, Place]]:
    """The place of each access, by exact and by masked name."""
    found = (event for event in columns.events() if event.kind == "heap")
    return [((event.role, event.resource), (event.role, event.target)) for event in found]


def compare(name: str, rounds: int) -> dict[str, object]:
    """Run one system in turn with and without accesses to the heap. The first round fills caches and does not count."""
    set_up(EXAMPLES / name)
    runs: dict[str, list[dict[str, Any]]] = {TRACED: [], HEAP: []}
    with tempfile.TemporaryDirectory(prefix="um-bench-") as text:
        home = linked(EXAMPLES / name, Path(text))
        for number in range(rounds + 1):
            for kind, some in runs.items():
                one = measured(str(home), kind, str(number))
                print(f"{name} {kind}: {json.dumps(one)}", file=sys.stderr)
                if number:
                    some.append(one)
        traces = [read_columns(Path(one["trace"])) for one in runs[HEAP]]
        agreed = [agreement(one, other).percent() for one, other in pairwise(traces)]
    return {
        **{key: medians(runs, key) for key in ("cpu_s", "workload_s")},
        "events": {kind: statistics.median(one["events"] for one in some) for kind, some in runs.items()},
        "accesses": statistics.median(len(places(trace)) for trace in traces),
        "names_percent": {key: statistics.median(each[key] for each in agreed) for key in ("exact", "masked")} if agreed else {},
    }


def medians(runs: dict[str, list[dict[str, Any]]], key: str) -> dict[str, float]:
    traced, heap = (statistics.median(one[key] for one in runs[kind]) for kind in (TRACED, HEAP))
    return {TRACED: round(traced, 3), HEAP: round(heap, 3), "ratio": round(heap / traced, 3)}


def measured(*words: str) -> dict[str, Any]:
    """Run in a separate process, so that its children's CPU is its own."""
    done = subprocess.run([sys.executable, "-m", "bench.heap", "one", *words], stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def one(home: Path, kind: str, number: int) -> dict[str, object]:
    """Do one fault-free run. Return the CPU of all its processes, the duration of its workload, and its trace."""
    folder = home / f"{kind}-{number}"
    with open_engine(load(home), home / f"results-{kind}-{number}") as engine:
        view = engine.runner.execute(folder, 1, Plan(), conditions=Conditions(observe_all=True, heap=kind == HEAP))
    times = [t for op in view.history if op.phase == "workload" for t in (op.start_ns, op.end_ns) if t]
    trace = RunDir(folder).trace
    return {
        "cpu_s": round(children_cpu_s(), 2),
        "workload_s": round((max(times) - min(times)) / NS, 3),
        "status": view.record.status,
        "outcome": view.record.workload.outcome,
        "events": len(read_columns(trace)),
        "trace": str(trace),
    }


def main(rounds: int, systems: Sequence[str]) -> None:
    found: dict[str, object] = {"bench": "heap", "rounds": rounds}
    for name in systems or SYSTEMS:
        found[name] = compare(name, rounds)
        print(f"{name}: {json.dumps(found[name])}", file=sys.stderr)
    print(json.dumps(found))


if __name__ == "__main__":
    if sys.argv[1:2] == ["one"]:
        print(json.dumps(one(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS, sys.argv[2:])
