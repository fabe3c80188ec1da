"""Measures the cost of a full trace of real systems, the result of its analysis, and the analysis of ten million events.

Each system runs its pack's own workload through the tool, in turn without agents and with agents that record everything in nodes
and clients. Figures are ratios of medians: the CPU of all processes of a run, and the time from the first client operation to the
last. Then the last trace is analysed: the share of bytes received between instrumented processes that are paired, and impossible
results (cycles, edges backwards in time).

    python -m bench.trace [ROUNDS [EVENTS [SYSTEM …]]]
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from bench import big_trace
from bench.processes import children_cpu_s, compared, linked, peak_mb, set_up
from undermine.analysis.pipeline import analyse
from undermine.analysis.trace_summary import summary
from undermine.api.tracing import record
from undermine.config.load import load
from undermine.config.schema import Config
from undermine.model.codec import read_columns
from undermine.store.rundir import RunDir, load_record, read_history

EXAMPLES = Path(__file__).parents[1] / "examples"
SYSTEMS = ("granary", "pysyncobj", "dask", "rq", "zookeeper")
PROGRAMS = Path(__file__).parents[1] / "tests" / "causal_programs" / "many.py"
PROGRAMS_COUNT = 200
JAVA_PROGRAMS_COUNT = 60
BARE, TRACED = "bare", "traced"
NS = 1_000_000_000
DEFAULTS = (5, 10_000_000)
"""The rounds, and the events of the large trace."""


def main(rounds: int, events: int, systems: Sequence[str]) -> None:
    found: dict[str, object] = {"bench": "trace", "rounds": rounds}
    for name in systems or SYSTEMS:
        found[name] = compare(name, rounds)
        print(f"{name}: {json.dumps(found[name])}", file=sys.stderr)
    if events:
        found["programs"] = programs(str(PROGRAMS_COUNT), "--fast")
        found["java_programs"] = programs(str(JAVA_PROGRAMS_COUNT), "--java")
        found["large"] = measured("large", str(events))
    print(json.dumps(found))


def compare(name: str, rounds: int) -> dict[str, object]:
    """Run one system in turn bare and traced. The first round of each fills caches and does not count."""
    set_up(EXAMPLES / name)
    runs: dict[str, list[dict[str, Any]]] = {BARE: [], TRACED: []}
    for number in range(rounds + 1):
        for kind, some in runs.items():
            one = measured("one", name, kind)
            print(f"{name} {kind}: {json.dumps(one)}", file=sys.stderr)
            if number:
                some.append(one)
    ratios = {}
    for key in ("cpu_s", "workload_s"):
        bare, traced = ([one[key] for one in runs[kind]] for kind in (BARE, TRACED))
        ratios[key] = compared(bare, traced, TRACED)
    return {**ratios, **runs[TRACED][-1]["analysis"]}


def programs(*words: str) -> dict[str, Any]:
    """The recall for each kind of edge in small concurrent programs whose graph is known."""
    done = subprocess.run([sys.executable, PROGRAMS, *words], stdout=subprocess.PIPE, text=True, check=False)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def measured(*words: str) -> dict[str, Any]:
    """Run in a separate process, so that its memory and its children's CPU are its own."""
    done = subprocess.run([sys.executable, "-m", "bench.trace", *words], stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


# --- in a separate process


def one(name: str, kind: str) -> dict[str, object]:
    """Do one run of a system. Return the CPU of all its processes, the duration of its workload and, if traced, the analysis."""
    with tempfile.TemporaryDirectory(prefix="um-bench-") as text:
        config = load(linked(EXAMPLES / name, Path(text)))
        folder = record(config if kind == TRACED else without_agents(config), lambda _: None).folder
        run = RunDir(folder)
        ops = [op for op in read_history(run.history) if op.phase == "workload"]
        times = [t for op in ops for t in (op.start_ns, op.end_ns) if t]
        found: dict[str, object] = {
            "cpu_s": round(children_cpu_s(), 2),
            "workload_s": round((max(times) - min(times)) / NS, 3),
            "outcome": load_record(run).workload.outcome,
        }
        if kind == TRACED:
            found["analysis"] = analysed(folder)
        return found


def without_agents(config: Config) -> Config:
    roles = {name: msgspec.structs.replace(role, agent="none", adapters=()) for name, role in config.roles.items()}
    return msgspec.structs.replace(config, roles=roles)


def analysed(folder: Path) -> dict[str, object]:
    traced = analyse(read_columns(RunDir(folder).trace))
    told = summary(traced)
    paired = 100 * traced.bytes_paired / traced.bytes_received if traced.bytes_received else None
    return {
        "events": len(traced),
        "received": traced.bytes_received,
        "paired_percent": round(paired, 3) if paired is not None else None,
        "messages": len(traced.messages),
        "blocking": len(traced.blocking),
        "problems": list(told.problems),
    }


def large(events: int) -> dict[str, object]:
    """Analyse a synthetic trace. Return the seconds and the peak memory."""
    folder = Path(tempfile.mkdtemp(prefix="um-bench-"))
    try:
        count = big_trace.write(folder, events)
        begun = time.perf_counter()
        columns = read_columns(folder)
        read_s = time.perf_counter() - begun
        read_mb = peak_mb()
        traced = analyse(columns)
        summary(traced)
        total_s = time.perf_counter() - begun
    finally:
        shutil.rmtree(folder)
    if traced.problems or traced.bytes_paired != traced.bytes_received:
        sys.exit(f"the analysis is wrong: {traced.problems}, {traced.bytes_paired} of {traced.bytes_received} bytes")
    return {
        "events": count,
        "read_s": round(read_s, 1),
        "analyse_s": round(total_s - read_s, 1),
        "events_per_s": round(count / total_s),
        "read_peak_mb": round(read_mb),
        "peak_mb": round(peak_mb()),
    }


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[:1] == ["one"]:
        print(json.dumps(one(*words[1:])))
    elif words[:1] == ["large"]:
        print(json.dumps(large(int(words[1]))))
    else:
        rounds, events = (*map(int, words[:2]), *DEFAULTS[len(words) :])
        main(rounds, events, words[2:])
