"""The strategy deminer finds the example's crash between two writes, and nothing once it is fixed."""

from __future__ import annotations

import pathlib

import pytest
from granary_hunts import Hunt

from undermine.api.hunting import HuntResult

pytestmark = [pytest.mark.first, pytest.mark.timeout(900)]
HUNT = Hunt("deminer", "keys", "reboot")


def test_it_finds_the_crash_between_snapshot_and_epoch(tmp_path: pathlib.Path) -> None:
    def found(result: HuntResult) -> bool:
        """Several operations lie between the snapshot and the epoch, and a crash before any of them shows the bug."""
        ended = [each for each in result.believed if "process has ended" in each.title]
        return any("snapshot epoch" in each.symptom and "shard/snapshot.json" in str(each.reasons) for each in ended)

    is_found, result = HUNT.run_until(found, tmp_path, "", runs_max=4)
    assert is_found, [(finding.title, finding.symptom, finding.reasons) for finding in result.believed]


def test_it_finds_nothing_once_that_is_fixed(tmp_path: pathlib.Path) -> None:
    result = HUNT.run(tmp_path, "epoch-first", runs_max=10)
    assert result.statuses["fired"] >= 5, "predictions were tried"
    assert not [finding.title for finding in result.believed]
