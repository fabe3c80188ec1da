"""The picture of the operations that a verdict names."""

from __future__ import annotations

import re
from typing import Any

from report_campaigns import at_s, op

from undermine.model.run import Op
from undermine.report.drawing.operations import OPERATIONS_MAX, described, operations

OPS = (
    op(0, "c1", "put", 1.0, 1.2, args={"key": "k", "value": 1}),
    op(1, "c2", "put", 1.5, 1.6, "unknown", args={"key": "k", "value": 2}),
    op(2, "c3", "get", 2.0, 2.4, args={"key": "k"}, value=3),
)


def bars(picture: str) -> list[tuple[str, float, float]]:
    """The status, left and right end of each bar."""
    found = re.findall(r'class="tl-op tl-(\w+)" x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', picture)
    return [(status, float(left), float(left) + float(width)) for status, left, width in found]


def test_each_operation_has_a_bar_from_its_start_to_its_end() -> None:
    picture = operations(OPS[::-1], at_s(0))
    (_, left, right), (unknown, begun, never), (_, last, end) = bars(picture)
    assert left < right < begun < last < end < never, "an operation without a known end extends beyond all others"
    assert unknown == "unknown"
    assert picture.index("c1: put k 1") < picture.index("c2: put k 2") < picture.index("c3: get k → 3")


def test_at_most_some_are_drawn() -> None:
    picture = operations([op(n, "c", "put", n, n + 0.5) for n in range(OPERATIONS_MAX + 3)], at_s(0))
    assert len(bars(picture)) == OPERATIONS_MAX
    assert "3 more operations are not shown" in picture
    assert operations((), 0) == ""


def test_texts_of_targets_are_escaped_and_short() -> None:
    bad: Any = "<script>" + "x" * 5000
    picture = operations([op(0, bad, bad, 1.0, 1.1, args={"key": bad}, value=[bad] * 1000)], at_s(0))
    assert "<script>" not in picture
    assert len(picture) < 3000


def test_operations_are_described_in_words() -> None:
    assert described(Op(0, "c", "read", "", {}, "ok", [1, 2])) == "c: read → [1, 2]"
    assert described(Op(0, "c", "read", "", {}, "unknown")) == "c: read"
