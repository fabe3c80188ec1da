"""The figures of whole hunts."""

from __future__ import annotations

from bench.hunt import covered_s


def test_time_in_which_several_runs_are_under_way_counts_once() -> None:
    spans = [(10.0, 14.0), (11.0, 12.0), (13.0, 15.0), (20.0, 21.0), (30.0, None)]
    assert covered_s([{"started": begun, "ended": ended} for begun, ended in spans]) == 6.0
