"""The report's section on coverage: which points, source locations and fault kinds a fault has hit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from undermine.analysis.coverage import coverage_of as measured
from undermine.report.coverage.operations import Fired, Operation, Operations
from undermine.report.coverage.source import FileView, file_views
from undermine.report.coverage.strategies import StrategyRow, strategy_rows
from undermine.report.data import Row, dig, sources_of
from undermine.report.drawing.growth import Curve, curves
from undermine.store.database import CampaignStore

LOCATIONS_MAX = 300


@dataclass(frozen=True)
class KindRow:
    kind: str
    fired: int
    failed: int
    allowed: bool


@dataclass(frozen=True)
class CoverageView:
    meters: tuple[tuple[str, int, int], ...]
    """(what, tried, of)"""
    curves: tuple[Curve, ...]
    strategies: tuple[StrategyRow, ...]
    pairs: int
    kinds: tuple[KindRow, ...]
    impossible: tuple[tuple[str, int], ...]
    """Why faults could not be injected, and at how many points."""
    files: tuple[FileView, ...]
    locations: tuple[Operation, ...]
    """Operations whose source isn't in the repository."""
    locations_left_out: int


def coverage_of(store: CampaignStore, rows: Sequence[Row], finding_of: Mapping[int, str]) -> CoverageView:
    """The coverage of these runs. `finding_of`: the finding of each run that has one."""
    counted = measured(store)
    total = counted.reached
    allowed = dig(store.meta("identity"), "significant", "faults", "kinds") or ()
    allowed = [str(kind) for kind in allowed] if isinstance(allowed, list) else []
    operations = Operations(store)
    fired = list(operations.fired(rows))
    operations.count(rows, fired, finding_of)
    kinds = tuple(_kinds(fired, allowed))
    begun = min((row["started"] for row in rows), default=0.0)
    files, elsewhere = file_views(operations, sources_of(store), begun)
    locations = sorted(elsewhere, key=lambda one: (-len(one.failing), -one.fired.total(), one.loc, one.op))
    impossible = ((why, len(points)) for why, points in store.impossible().items())
    return CoverageView(
        meters=(
            ("points", total.points_fired, total.points),
            ("source locations", total.locations_fired, total.locations),
            ("fault kinds", sum(row.fired > 0 for row in kinds), len(kinds)),
            *(
                [("recovery points", total.recovery_points_fired, total.recovery_points)]
                if total.recovery_points
                else ()
            ),
        ),
        curves=curves(total, counted.growth),
        strategies=strategy_rows(store, total.by_strategy),
        pairs=total.pairs_fired,
        kinds=kinds,
        impossible=tuple(sorted(impossible, key=lambda each: -each[1])),
        files=tuple(files),
        locations=tuple(locations[:LOCATIONS_MAX]),
        locations_left_out=max(0, len(locations) - LOCATIONS_MAX),
    )


def _kinds(fired: Sequence[Fired], allowed: Sequence[str]) -> Iterator[KindRow]:
    for kind in dict.fromkeys([*allowed, *sorted({step.kind for step in fired})]):
        runs = {step.run for step in fired if step.kind == kind}
        failed = {step.run for step in fired if step.kind == kind and step.failed}
        yield KindRow(kind, len(runs), len(failed), kind in allowed)
