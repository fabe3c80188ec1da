"""What `check` says about fault-free runs at a higher speed."""

from __future__ import annotations

from pathlib import Path

from fake_engine import configured

from undermine.api.speeds import FaultFree, compare
from undermine.model.point import Point
from undermine.testing import point

POINTS = frozenset(point(loc=f"app:f{number}#1") for number in range(20))
SLOW = FaultFree(1, 2, (), POINTS, POINTS, workload_s=4.0, run_s=6.0)


def fast(points: frozenset[Point], *failed_as: str) -> FaultFree:
    return FaultFree(10, 3, failed_as, points, points, workload_s=0.5, run_s=2.0)


def test_the_same_points_and_no_failure_are_the_same_run(tmp_path: Path) -> None:
    config = configured(tmp_path)
    found = compare(config, SLOW, fast(POINTS - {min(POINTS)} | {point(loc="app:new#1")}))
    assert found.same
    assert found.sentences == (
        "the fault-free run is the same at speed 10 as at speed 1",
        "19 of the 20 points of all runs at speed 1 occurred at speed 10 (95%)",
        "1 point of all runs at speed 10 never occurred at speed 1",
        "at speed 1 the workload takes 4.0 s, a run 6.0 s; all checkers pass",
        "at speed 10 the workload takes 0.5 s, a run 2.0 s; all checkers pass",
    )


def test_a_failure_makes_it_another_run(tmp_path: Path) -> None:
    found = compare(configured(tmp_path), SLOW, fast(POINTS, "no leader"))
    assert not found.same
    assert found.sentences[0] == (
        "the fault-free run differs at speed 10 from that at speed 1, which passes: no leader; lower run.speed"
    )
    assert found.sentences[-1].endswith("failures: no leader")


def test_so_do_missing_points(tmp_path: Path) -> None:
    found = compare(configured(tmp_path), SLOW, fast(frozenset(sorted(POINTS)[:17])))
    assert not found.same
    assert found.sentences[0] == "the fault-free run differs at speed 10 from that at speed 1; lower run.speed"
