"""Measures labels: precision and recall on flows with known truth, and of the other evidence of `deminer` against them.

The flows are those of `tests/agent/labels/flows.py`. Precision and recall of one flow count pairs: an element of the result, and
a byte that it was made from. A flow without labels has precision 1, one without a truth has recall 1. Each flow counts the same.

The other kinds of evidence of `deminer` are measured against labels: a pair of operations is right if they have common bytes. A
pair of call sites that labels relate is found if the other evidence relates it too. A second call site is found if the other
evidence has any pair for it: the node then crashes there, too.

    python -m bench.labels
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from undermine.analysis.common_data.labels import Piece
from undermine.analysis.common_data.moved_data import MovedData, moved_data
from undermine.analysis.common_data.pairs import TIERS, Pair, related
from undermine.analysis.common_data.storage import Storage
from undermine.analysis.conflicts.origins import Origins
from undermine.analysis.pipeline import analyse
from undermine.model.columns import Columns
from undermine.resources import python_agent_dir
from undermine.runtimes import accelerator

FLOWS = Path(__file__).resolve().parents[1] / "tests" / "agent" / "labels" / "flows.py"
EITHER = "value or activity"

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
    seconds: float
    """The share of second call sites that are found."""


def against_labels(columns: Columns) -> dict[str, Tiers]:
    """Compare the evidence of one run with its labels."""
    analysis = analyse(columns)
    data = moved_data(analysis)
    by_tier: dict[str, list[Pair]] = {tier: [] for tier in (*TIERS, EITHER)}
    for pair in related(Origins(analysis), data):
        by_tier[pair.tier].append(pair)
        if pair.tier in EITHER:
            by_tier[EITHER].append(pair)
    wanted = {_sites(pair, columns) for pair in by_tier["label"]}
    found = {}
    for tier, pairs in by_tier.items():
        right = sum(bool(_pieces(data, pair.first) & _pieces(data, pair.second)) for pair in pairs)
        sites = {_sites(pair, columns) for pair in pairs}
        seconds, wanted_seconds = ({second for _, second in each} for each in (sites, wanted))
        shares = (right, len(pairs)), (len(sites & wanted), len(wanted)), (len(seconds & wanted_seconds), len(wanted_seconds))
        found[tier] = Tiers(len(pairs), *(round(part / max(whole, 1), 3) for part, whole in shares))
    return found


def _pieces(data: MovedData, stored: Storage) -> frozenset[Piece]:
    return data.pieces.get(stored.row, frozenset())


def _sites(pair: Pair, columns: Columns) -> tuple[int, int]:
    return int(columns.stack[pair.first.row]), int(columns.stack[pair.second.row])


if __name__ == "__main__":
    print(json.dumps({"bench": "labels", **msgspec.to_builtins(quality(flows()))}))
