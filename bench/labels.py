"""Measures labels: precision and recall on flows with known truth, and the cost of recording them.

The flows are those of `tests/agent/labels/flows.py`. Precision and recall of one flow count pairs: an element of the result, and
a byte that it was made from. A flow without labels has precision 1, one without a truth has recall 1. Each flow counts the same.

The other kinds of evidence of `deminer` are measured against labels: a pair of operations is right if they have common bytes, and
a pair of call sites that labels relate is found if the other evidence relates it too.

The cost is a ratio of medians, as in `bench.heap`: the CPU of all processes of a run, and the time from the first client
operation to the last, in turn with a full trace, with tokens of contents, and with labels.

    python -m bench.labels [flows | ROUNDS [SYSTEM …]]
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from bench.processes import children_cpu_s, linked, set_up
from bench.trace import EXAMPLES, NS
from undermine.analysis.common_data.labels import LABELS, Piece
from undermine.analysis.common_data.moved_data import MovedData, moved_data
from undermine.analysis.common_data.pairs import TIERS, Pair, Tier, related
from undermine.analysis.common_data.storage import Storage
from undermine.analysis.conflicts.origins import Origins
from undermine.analysis.pipeline import analyse
from undermine.config.load import load
from undermine.model.codec import read_columns
from undermine.model.columns import Columns
from undermine.model.plan import Plan
from undermine.model.run import Conditions
from undermine.resources import python_agent_dir
from undermine.run.engine import open_engine
from undermine.runtimes import accelerator
from undermine.store.rundir import RunDir

FLOWS = Path(__file__).resolve().parents[1] / "tests" / "agent" / "labels" / "flows.py"
SYSTEMS = ("granary",)
KINDS = {
    "traced": Conditions(observe_all=True),
    "content": Conditions(observe_all=True, content=True),
    "labels": Conditions(observe_all=True, labels=True),
    "both": Conditions(observe_all=True, content=True, labels=True),
}
ROUNDS = 5


class Flow(msgspec.Struct, frozen=True):
    """The labels of one flow's result, as numbers of pairs."""

    wanted: int
    found: int
    right: int

    @property
    def precision(self) -> float:
        return self.right / self.found if self.found else 1.0

    @property
    def recall(self) -> float:
        return self.right / self.wanted if self.wanted else 1.0


class Quality(msgspec.Struct, frozen=True):
    """How good labels are on all flows."""

    flows: int
    precision: float
    recall: float
    lost: tuple[str, ...]
    """Flows that lose labels."""
    wide: tuple[str, ...]
    """Flows with too many labels."""


def quality(flows: Mapping[str, Flow]) -> Quality:
    return Quality(
        len(flows),
        round(statistics.mean(flow.precision for flow in flows.values()), 4),
        round(statistics.mean(flow.recall for flow in flows.values()), 4),
        tuple(name for name, flow in flows.items() if flow.recall < 1),
        tuple(name for name, flow in flows.items() if flow.precision < 1),
    )


def flows(python: str = sys.executable) -> dict[str, Flow]:
    """Run all flows with labels."""
    accelerator.ensure(python)
    command = [python, str(FLOWS), str(python_agent_dir()), str(accelerator.folder())]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return {name: msgspec.convert(flow, Flow) for name, flow in json.loads(done.stdout)["flows"].items()}


class Tiers(msgspec.Struct, frozen=True):
    """The pairs of one kind of evidence, compared with labels."""

    pairs: int
    precision: float
    recall: float


def against_labels(columns: Columns) -> dict[Tier, Tiers]:
    """Compare the evidence of one run with its labels."""
    analysis = analyse(columns)
    data = moved_data(analysis)
    by_tier: dict[Tier, list[Pair]] = {tier: [] for tier in TIERS}
    for pair in related(Origins(analysis), data):
        by_tier[pair.tier].append(pair)
    wanted = {_sites(pair, columns) for pair in by_tier["label"]}
    found = {}
    for tier, pairs in by_tier.items():
        right = sum(bool(_pieces(data, pair.first) & _pieces(data, pair.second)) for pair in pairs)
        known = {_sites(pair, columns) for pair in pairs} & wanted
        found[tier] = Tiers(len(pairs), round(right / max(len(pairs), 1), 3), round(len(known) / max(len(wanted), 1), 3))
    return found


def _pieces(data: MovedData, stored: Storage) -> frozenset[Piece]:
    return data.pieces.get(stored.row, frozenset())


def _sites(pair: Pair, columns: Columns) -> tuple[int, int]:
    return int(columns.stack[pair.first.row]), int(columns.stack[pair.second.row])


def compare(name: str, rounds: int) -> dict[str, object]:
    """Run one system in turn with each kind of recording. The first round fills caches and does not count."""
    set_up(EXAMPLES / name)
    runs: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory(prefix="um-bench-") as text:
        home = linked(EXAMPLES / name, Path(text))
        for number in range(rounds + 1):
            for kind, some in runs.items():
                one = measured(str(home), kind, str(number))
                print(f"{name} {kind}: {json.dumps(one)}", file=sys.stderr)
                if number:
                    some.append(one)
        tiers = against_labels(read_columns(Path(runs["both"][-1]["trace"])))
    costs = {key: ratios(runs, key) for key in ("cpu_s", "workload_s", "events", "labelled")}
    return costs | {"tiers": msgspec.to_builtins(tiers)}


def ratios(runs: Mapping[str, Sequence[Mapping[str, Any]]], key: str) -> dict[str, float]:
    """The median of each kind, and its ratio to a full trace."""
    found = {kind: round(statistics.median(one[key] for one in some), 3) for kind, some in runs.items()}
    base = found["traced"]
    return found | {f"{kind} ratio": round(found[kind] / base, 3) for kind in found if kind != "traced" and base}


def measured(*words: str) -> dict[str, Any]:
    """Run in a separate process, so that its children's CPU is its own."""
    done = subprocess.run([sys.executable, "-m", "bench.labels", "one", *words], stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def one(home: Path, kind: str, number: int) -> dict[str, object]:
    """Do one fault-free run. Return the CPU of all its processes, the duration of its workload, and how much it recorded."""
    folder = home / f"{kind}-{number}"
    with open_engine(load(home), home / f"results-{kind}-{number}") as engine:
        view = engine.runner.execute(folder, 1, Plan(), conditions=KINDS[kind])
    times = [t for op in view.history if op.phase == "workload" for t in (op.start_ns, op.end_ns) if t]
    columns = read_columns(RunDir(folder).trace)
    return {
        "cpu_s": round(children_cpu_s(), 2),
        "workload_s": round((max(times) - min(times)) / NS, 3),
        "status": view.record.status,
        "outcome": view.record.workload.outcome,
        "events": len(columns),
        "labelled": len(columns.find(LABELS)),
        "trace": str(RunDir(folder).trace),
    }


def main(rounds: int, systems: Sequence[str]) -> None:
    found: dict[str, object] = {"bench": "labels", "rounds": rounds, "flows": msgspec.to_builtins(quality(flows()))}
    for name in (systems or SYSTEMS) if rounds else ():
        found[name] = compare(name, rounds)
    print(json.dumps(found))


if __name__ == "__main__":
    if sys.argv[1:2] == ["one"]:
        print(json.dumps(one(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))))
    elif sys.argv[1:2] == ["flows"]:
        main(0, ())
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS, sys.argv[2:])
