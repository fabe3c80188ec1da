"""The time axis of the still picture: places are in order and within the picture, whatever the times are."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from undermine.report.drawing.axis import Axis

LEFT, RIGHT = 100.0, 900.0
TIMES = st.lists(st.integers(0, 3_600_000_000_000), min_size=2, max_size=40)


@given(TIMES)
def test_later_times_are_never_left_of_earlier_ones(times: list[int]) -> None:
    axis = Axis(min(times), max(times), times, LEFT, RIGHT)
    places = [axis.x(t) for t in sorted(times)]
    assert all(a <= b + 1e-6 for a, b in pairwise(places))


@given(TIMES, st.integers(-(10**13), 10**13))
def test_every_time_is_within_the_picture(times: list[int], t: int) -> None:
    axis = Axis(min(times), max(times), times, LEFT, RIGHT)
    assert LEFT - 1e-6 <= axis.x(t) <= RIGHT + 1e-6


@given(TIMES)
def test_stretches_leave_no_gap(times: list[int]) -> None:
    axis = Axis(min(times), max(times), times, LEFT, RIGHT)
    for one, following in pairwise(axis.stretches):
        assert one.to_ns == following.from_ns
        assert abs(one.right - following.left) < 1e-6
