"""The strategy fcatch finds the example's time-of-fault bugs from correct runs, and nothing once they are fixed."""

from __future__ import annotations

import pathlib

import msgspec
import pytest

from undermine import api
from undermine.api.hunting import HuntResult
from undermine.config.load import load

pytestmark = [pytest.mark.first, pytest.mark.timeout(900)]
EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "granary"


def hunt(folder: pathlib.Path, fixes: str, runs_max: int) -> HuntResult:
    """Crashes alone, so that the hunt is short; runs may take long, since the machine may be busy."""
    config = load(EXAMPLE, {"work": "keys,job", "fixes": fixes})
    config = msgspec.structs.replace(
        config,
        campaign=msgspec.structs.replace(config.campaign, dir=str(folder)),
        faults=msgspec.structs.replace(config.faults, kinds=("crash",)),
        hunt=msgspec.structs.replace(config.hunt, baseline_runs=2, benign_runs=0, confirm=1),
        workload=msgspec.structs.replace(config.workload, timeout_s=20.0),
    )
    return api.hunt(config, strategies=("fcatch",), runs_max=runs_max, jobs=1, seed=0, budget_s=3600)


def test_it_finds_both_time_of_fault_bugs(tmp_path: pathlib.Path) -> None:
    """12 runs are enough unless a plan does not fire and is tried again. A run to learn from may show a bug before it is
    predicted, so the plans of a finding's variants count too."""
    found = hunt(tmp_path, "", runs_max=45).believed
    reasons = {each.title: str((each.reasons, [variant.plan.why for variant in each.variants])) for each in found}
    waits = [title for title, why in reasons.items() if "m1 waits for this message without a time limit" in why]
    permitted = [title for title, why in reasons.items() if "['permitted']" in why]
    assert any("no leader" in title for title in waits), reasons
    assert any("job" in title for title in permitted), reasons


def test_it_finds_neither_once_they_are_fixed(tmp_path: pathlib.Path) -> None:
    result = hunt(tmp_path, "commit-lease,open-watch", runs_max=8)
    assert result.statuses["fired"] >= 4, "predictions were tried"
    assert not [finding.title for finding in result.believed if "no leader" in finding.title or "job" in finding.title]
