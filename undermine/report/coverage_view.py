"""The report's section on coverage: which points, source locations and fault kinds a fault has hit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from undermine.analysis.coverage import Share
from undermine.analysis.coverage import coverage_of as measured
from undermine.model.errors import UserError
from undermine.model.faults import fault_kind, is_fault
from undermine.model.plan import final_at
from undermine.report.data import Row, dig, run_dir
from undermine.report.drawing.growth import Curve, curves
from undermine.store.database import CampaignStore
from undermine.store.rundir import load_record

LOCATIONS_MAX = 300


@dataclass(frozen=True)
class KindRow:
    kind: str
    fired: int
    failed: int
    allowed: bool


@dataclass(frozen=True)
class LocationRow:
    op: str
    loc: str
    line: int
    nodes: str
    faults: str
    fired: int
    failed: int


@dataclass(frozen=True)
class CoverageView:
    meters: tuple[tuple[str, int, int], ...]
    """(what, tried, of)"""
    curves: tuple[Curve, ...]
    strategies: tuple[tuple[str, Share, int], ...]
    """Each strategy with its share, and how many of its plans other runs had already tried."""
    pairs: int
    kinds: tuple[KindRow, ...]
    locations: tuple[LocationRow, ...]
    locations_left_out: int


def coverage_of(store: CampaignStore, rows: Sequence[Row]) -> CoverageView:
    counted = measured(store)
    total = counted.reached
    allowed = dig(store.meta("identity"), "significant", "faults", "kinds") or ()
    allowed = [str(kind) for kind in allowed] if isinstance(allowed, list) else []
    fired = list(_fired_steps(store, rows))
    covered = store.covered()
    kinds = tuple(_kinds(fired, allowed))
    locations = sorted(_locations(store, fired), key=lambda row: (-row.failed, -row.fired, row.loc, row.op))
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
        strategies=tuple((name, share, covered.get(name, 0)) for name, share in total.by_strategy.items()),
        pairs=total.pairs_fired,
        kinds=kinds,
        locations=tuple(locations[:LOCATIONS_MAX]),
        locations_left_out=max(0, len(locations) - LOCATIONS_MAX),
    )


@dataclass(frozen=True)
class _Fired:
    run: int
    kind: str
    op: str
    loc: str
    node: str
    failed: bool


def _fired_steps(store: CampaignStore, rows: Sequence[Row]) -> Iterator[_Fired]:
    for row in rows:
        for number in sorted(_proven(store, row)):
            step = row["plan"].steps[number]
            if not is_fault(step.fault):
                continue
            at = final_at(step.trigger)
            keys = at.point.as_dict() if at else {}
            yield _Fired(
                row["run"],
                fault_kind(step.fault),
                keys.get("op", "?"),
                keys.get("loc", "?"),
                keys.get("node", ""),
                bool(row["symptom"]),
            )


def _proven(store: CampaignStore, row: Row) -> set[int]:
    """The steps of a run that have a receipt. The record is read only if some steps may not have fired."""
    steps = range(len(row["plan"].steps))
    if row["status"] == "fired":
        return set(steps)
    if row["status"] == "broken" or len(steps) < 2:
        return set()
    try:
        record = load_record(run_dir(store, row["run"]))
    except UserError:
        return set()
    return {receipt.step for receipt in record.receipts if receipt.step in steps and receipt.proves}


def _kinds(fired: Sequence[_Fired], allowed: Sequence[str]) -> Iterator[KindRow]:
    for kind in dict.fromkeys([*allowed, *sorted({step.kind for step in fired})]):
        runs = {step.run for step in fired if step.kind == kind}
        failed = {step.run for step in fired if step.kind == kind and step.failed}
        yield KindRow(kind, len(runs), len(failed), kind in allowed)


def _locations(store: CampaignStore, fired: Sequence[_Fired]) -> Iterator[LocationRow]:
    nodes: dict[tuple[str, str], set[str]] = {}
    lines: dict[tuple[str, str], int] = {}
    for seen in store.baseline_points()[0]:
        key = seen.point.get("op"), seen.point.get("loc")
        nodes.setdefault(key, set()).add(seen.point.get("node"))
        lines[key] = lines.get(key) or seen.line
    by_place: dict[tuple[str, str], list[_Fired]] = {}
    for step in fired:
        by_place.setdefault((step.op, step.loc), []).append(step)
        nodes.setdefault((step.op, step.loc), set()).add(step.node)
    for (op, loc), names in nodes.items():
        steps = by_place.get((op, loc), [])
        kinds = Counter(step.kind for step in steps)
        yield LocationRow(
            op=op,
            loc=loc,
            line=lines.get((op, loc), 0),
            nodes=", ".join(sorted(filter(None, names))),
            faults=", ".join(f"{kind} ×{n}" if n > 1 else kind for kind, n in sorted(kinds.items())),
            fired=len(steps),
            failed=len({step.run for step in steps if step.failed}),
        )
