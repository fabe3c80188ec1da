"""The strategy cofi finds the example's partition bug, and nothing once it is fixed."""

from __future__ import annotations

import pathlib

import msgspec
import pytest

from undermine import api
from undermine.api.hunting import HuntResult
from undermine.config.load import load

pytestmark = [pytest.mark.first, pytest.mark.timeout(900)]
EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "granary"
OTHERS = "snapshot-copy,recovery-supersede,commit-lease,open-watch,epoch-first"


def hunt(folder: pathlib.Path, fixes: str, runs_max: int) -> HuntResult:
    """Partitions alone, so that the hunt is short; runs may take long, since the machine may be busy."""
    config = load(EXAMPLE, {"work": "all", "fixes": fixes})
    config = msgspec.structs.replace(
        config,
        campaign=msgspec.structs.replace(config.campaign, dir=str(folder)),
        faults=msgspec.structs.replace(config.faults, kinds=("partition",)),
        hunt=msgspec.structs.replace(config.hunt, baseline_runs=2, benign_runs=1, confirm=1),
        workload=msgspec.structs.replace(config.workload, timeout_s=20.0),
    )
    return api.hunt(config, strategies=("cofi",), runs_max=runs_max, jobs=1, seed=0, budget_s=3600)


def test_it_finds_the_node_that_is_a_member_again(tmp_path: pathlib.Path) -> None:
    result = hunt(tmp_path, OTHERS, runs_max=12)
    found = [finding for finding in result.believed if finding.title == "a decommissioned store is a member again"]
    assert found, [finding.title for finding in result.believed]
    assert "while nodes disagree about status[" in str(found[0].reasons)


def test_it_finds_nothing_once_that_is_fixed(tmp_path: pathlib.Path) -> None:
    result = hunt(tmp_path, "all", runs_max=10)
    assert result.statuses["fired"] >= 5, "predictions were tried"
    assert not [finding.title for finding in result.believed]
