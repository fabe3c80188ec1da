"""The strategy cofi finds the example's partition bug, and nothing once it is fixed."""

from __future__ import annotations

import pathlib

import pytest
from granary_hunts import Hunt

from undermine.api.hunting import HuntResult

pytestmark = [pytest.mark.first, pytest.mark.timeout(900)]
HUNT = Hunt("cofi", "all", "partition")
OTHERS = "snapshot-copy,recovery-supersede,commit-lease,open-watch,epoch-first"


def test_it_finds_the_node_that_is_a_member_again(tmp_path: pathlib.Path) -> None:
    def found(result: HuntResult) -> bool:
        titled = [each for each in result.believed if each.title == "a decommissioned store is a member again"]
        return any("while nodes disagree about status[" in str(each.reasons) for each in titled)

    is_found, result = HUNT.run_until(found, tmp_path, OTHERS, runs_max=4)
    assert is_found, [(finding.title, finding.reasons) for finding in result.believed]


def test_it_finds_nothing_once_that_is_fixed(tmp_path: pathlib.Path) -> None:
    result = HUNT.run(tmp_path, "all", runs_max=10)
    assert result.statuses["fired"] >= 5, "predictions were tried"
    assert not [finding.title for finding in result.believed]
