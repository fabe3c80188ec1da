"""The strategy deminer finds the example's crash between two related writes, and nothing once it is fixed."""

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
    """Reboots alone, so that the hunt is short; runs may take long, since the machine may be busy."""
    config = load(EXAMPLE, {"work": "keys", "fixes": fixes})
    config = msgspec.structs.replace(
        config,
        campaign=msgspec.structs.replace(config.campaign, dir=str(folder)),
        faults=msgspec.structs.replace(config.faults, kinds=("reboot",)),
        hunt=msgspec.structs.replace(config.hunt, baseline_runs=2, benign_runs=1, confirm=1),
        workload=msgspec.structs.replace(config.workload, timeout_s=20.0),
    )
    return api.hunt(config, strategies=("deminer",), runs_max=runs_max, jobs=1, seed=0, budget_s=3600)


def test_it_finds_the_crash_between_snapshot_and_epoch(tmp_path: pathlib.Path) -> None:
    found = [finding for finding in hunt(tmp_path, "", runs_max=12).believed if "process has ended" in finding.title]
    assert found
    # Several operations lie between the snapshot and the epoch, and a crash before any of them shows the bug.
    assert any("snapshot epoch" in finding.symptom and "shard/snapshot.json" in str(finding.reasons) for finding in found), found


def test_it_finds_nothing_once_that_is_fixed(tmp_path: pathlib.Path) -> None:
    result = hunt(tmp_path, "epoch-first", runs_max=10)
    assert result.statuses["fired"] >= 5, "predictions were tried"
    assert not [finding.title for finding in result.believed]
