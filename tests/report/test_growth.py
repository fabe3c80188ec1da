"""The small charts of how coverage grew."""

from __future__ import annotations

import re

import pytest

from undermine.analysis.coverage import CoverageSample, Reached
from undermine.report.drawing.growth import Curve, curves, ticks

REACHED = Reached(
    runs=20, locations=8, locations_fired=3, recovery_classes=2, recovery_classes_by_location=5, runs_since_new=4
)
STAGES = tuple(CoverageSample(*counts) for counts in ((1, 1, 0), (5, 2, 1), (10, 3, 1), (16, 3, 2), (20, 3, 2)))


def line(curve: Curve) -> list[tuple[float, float]]:
    """Corners of the step line, in the picture's units."""
    (path,) = re.findall(r'class="gr-line [^"]*" d="([^"]*)"', curve.picture)
    return [(float(x), float(y)) for x, y in re.findall(r"H([\d.]+)V([\d.]+)", path)]


def test_there_are_two_with_their_captions() -> None:
    hit, classes = curves(REACHED, STAGES)
    assert (hit.number, hit.words, hit.note) == ("3", "source locations hit", "dashed line: all 8")
    assert (classes.number, classes.words) == ("2", "recovery classes")
    assert classes.note == "last new one 4 runs ago; 5 by source location"
    assert 'aria-label="3 source locations after 20 experiments"' in hit.picture
    assert 'aria-label="2 recovery classes after 20 experiments"' in classes.picture


def test_a_line_has_a_step_where_its_own_value_grew() -> None:
    hit, classes = curves(REACHED, STAGES)
    assert len(line(hit)) == 3
    assert len(line(classes)) == 2
    for curve in (hit, classes):
        places = line(curve)
        assert places == sorted(places, key=lambda place: (place[0], -place[1])), "it only grows"
    assert line(hit)[1][0] == line(classes)[0][0], "both came with the fifth experiment"


def test_the_dashed_line_is_drawn_only_if_the_total_is_known() -> None:
    hit, classes = curves(REACHED, STAGES)
    assert "gr-all" in hit.picture
    assert "gr-all" not in classes.picture


@pytest.mark.parametrize(("reached", "stages"), [(Reached(), ()), (Reached(runs=1), STAGES[:1]), (Reached(runs=9), ())])
def test_without_anything_to_see_there_is_none(reached: Reached, stages: tuple[CoverageSample, ...]) -> None:
    assert curves(reached, stages) == ()


def test_thousands_of_steps_stay_small_and_end_where_they_should() -> None:
    stages = [CoverageSample(n, 1, n) for n in range(1, 10001)]
    reached = Reached(runs=10000, locations=1, locations_fired=1, recovery_classes=10000)
    _, classes = curves(reached, stages)
    assert len(classes.picture) < 20_000
    assert line(classes)[-1] == (388.0, 10.0)


@pytest.mark.parametrize(
    ("most", "wanted"),
    [
        (0, [0]),
        (1, [0, 1]),
        (5, [0, 1, 2, 3, 4, 5]),
        (7, [0, 2, 4, 6, 8]),
        (12, [0, 5, 10, 15]),
        (84, [0, 20, 40, 60, 80, 100]),
        (12345, [0, 5000, 10000, 15000]),
    ],
)
def test_ticks_are_few_and_round(most: int, wanted: list[int]) -> None:
    assert ticks(most) == wanted


def test_the_last_tick_is_the_first_that_is_not_below() -> None:
    for most in range(3000):
        made = ticks(most)
        assert made[-1] >= most
        assert len(made) <= 6
        assert all(tick < most for tick in made[1:-1])
