"""Charts of growing coverage as inline SVG: a step for each experiment that brought something new.

Colours are classes (`gr-…`) of the page's style sheet, for light and dark. Contains no text of a target.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from undermine.analysis.coverage import CoverageSample, Reached
from undermine.report.text import count

_WIDTH = 400
_LEFT = 34
_RIGHT = 388
_TOP = 10
_BOTTOM = 122
_HEIGHT = 154
_INTERVALS_MAX = 5
_PLACES_MAX = 600
"""A chart cannot show more steps than this."""

Place = tuple[int, int]
"""(experiments, value)"""


@dataclass(frozen=True)
class Curve:
    """One chart with its caption."""

    number: str
    words: str
    note: str
    picture: str


def curves(reached: Reached, stages: Sequence[CoverageSample]) -> tuple[Curve, ...]:
    """The charts of locations hit and of recovery classes; none before the second experiment."""
    if reached.runs < 2 or not stages:
        return ()
    hit = [(stage.runs, stage.locations_fired) for stage in stages]
    classes = [(stage.runs, stage.recovery_classes) for stage in stages]
    at = f"after {count(reached.runs, 'experiment')}"
    return (
        Curve(
            f"{reached.locations_fired:,}",
            "source location hit" if reached.locations_fired == 1 else "source locations hit",
            f"dashed line: all {reached.locations:,}",
            _chart(
                hit, reached.runs, reached.locations, f"{count(reached.locations_fired, 'source location')} {at}", "hit"
            ),
        ),
        Curve(
            f"{reached.recovery_classes:,}",
            "recovery class" if reached.recovery_classes == 1 else "recovery classes",
            f"{reached.since_new}; {reached.recovery_classes_by_location:,} by source location",
            _chart(
                classes,
                reached.runs,
                0,
                f"{count(reached.recovery_classes, 'recovery class', 'recovery classes')} {at}",
            ),
        ),
    )


def _chart(places: Sequence[Place], runs: int, of: int, summary: str, kind: str = "class") -> str:
    """A step line over the number of experiments; `of` is the largest possible value, 0 if unknown."""
    return "".join(_Drawing(_thin(_steps(places)), runs, of, kind).parts(summary))


def _steps(places: Sequence[Place]) -> list[Place]:
    """Only the places at which the value changes."""
    kept: list[Place] = []
    for runs, value in places:
        if value != (kept[-1][1] if kept else 0):
            kept.append((runs, value))
    return kept


def _thin(places: Sequence[Place]) -> list[Place]:
    """At most _PLACES_MAX places, so that the page stays small; the last one is kept."""
    stride = -(-len(places) // _PLACES_MAX) or 1
    return list(places[::-1][::stride][::-1])


def ticks(most: int) -> list[int]:
    """A few round numbers, from 0 to the first one that is at least `most`."""
    steps = (nice * 10**digits for digits in range(len(str(most))) for nice in (1, 2, 5))
    step = next(step for step in steps if most <= step * _INTERVALS_MAX)
    return list(range(0, most + step, step))[: -(-most // step) + 1]


class _Drawing:
    """Draws one chart."""

    def __init__(self, places: Sequence[Place], runs: int, of: int, kind: str) -> None:
        self.places = places
        self.runs = max(1, runs)
        self.of = of
        self.kind = kind
        self.top = max(1, ticks(max([of, *(value for _, value in places)]))[-1])

    def x(self, runs: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * runs / self.runs

    def y(self, value: float) -> float:
        return _BOTTOM - (_BOTTOM - _TOP) * value / self.top

    def parts(self, summary: str) -> Iterator[str]:
        yield (
            f'<svg class="gr" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{summary}"><title>{summary}</title>'
        )
        yield from self._scales()
        if self.of:
            y = self.y(self.of)
            yield f'<line class="gr-all" x1="{_LEFT}" y1="{y:.1f}" x2="{_RIGHT}" y2="{y:.1f}"/>'
        line = f"M{_LEFT} {_BOTTOM}" + "".join(
            f"H{self.x(runs):.1f}V{self.y(value):.1f}" for runs, value in self.places
        )
        yield f'<path class="gr-area gr-{self.kind}" d="{line}H{_RIGHT}V{_BOTTOM}Z"/>'
        yield f'<path class="gr-line gr-{self.kind}" d="{line}H{_RIGHT}"/>'
        yield "</svg>"

    def _scales(self) -> Iterator[str]:
        for value in ticks(self.top):
            y = self.y(value)
            kind = "gr-grid" if value else "gr-rule"
            yield f'<line class="{kind}" x1="{_LEFT}" y1="{y:.1f}" x2="{_RIGHT}" y2="{y:.1f}"/>'
            yield f'<text class="gr-tick" x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:,}</text>'
        for runs in ticks(self.runs):
            if runs <= self.runs:
                anchor = "end" if self.x(runs) > _RIGHT - 12 else "middle"
                yield f'<text class="gr-tick" x="{self.x(runs):.1f}" y="{_BOTTOM + 15}" text-anchor="{anchor}">{runs:,}</text>'
        middle = (_LEFT + _RIGHT) / 2
        yield f'<text class="gr-tick" x="{middle:.1f}" y="{_BOTTOM + 29}" text-anchor="middle">experiments</text>'
