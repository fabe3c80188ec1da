"""The receipts of a slow device are matched to operations by their times."""

from __future__ import annotations

import pytest

from undermine.deployments.slow.device import Slowed, Slowness


@pytest.mark.parametrize(
    ("begun", "ended", "found"), [(0, 5, ""), (0, 10, "a"), (15, 16, "ab"), (21, 40, "b"), (31, 40, "")]
)
def test_what_waited_during_an_operation(begun: int, ended: int, found: str) -> None:
    slowness = Slowness((Slowed("a", "/x", 10, 10, "delayed"), Slowed("b", "/y", 15, 15, "delayed")))
    assert "".join(one.what for one in slowness.during(begun, ended)) == found
