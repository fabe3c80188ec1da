"""The operations of the target's code, each with the faults that fired there and the plans that were skipped. Never reads the
target's source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from undermine.model.errors import UserError
from undermine.model.faults import fault_kind, is_fault
from undermine.model.plan import Plan, final_at
from undermine.model.point import CLIENT, PHASE, SCRIPT, Point
from undermine.model.rounds import RoundKind
from undermine.policies.pruning import THEN
from undermine.report.data import Row, run_dir
from undermine.report.text import count
from undermine.store.database import CampaignStore
from undermine.store.rundir import load_record

Key = tuple[str, str, str]
"""Operation and call site; for a script also the role, since each role has its own script."""


@dataclass
class Operation:
    """An operation at one call site, on all nodes."""

    op: str
    loc: str
    role: str
    line: int = 0
    usual: bool = False
    """Did a fault-free run show it?"""
    reachable: bool = False
    """Can a fault fire there?"""
    nodes: set[str] = field(default_factory=set)
    fired: Counter[str] = field(default_factory=Counter)
    """By kind of fault: how often it fired."""
    failing: set[int] = field(default_factory=set)
    """The failing runs in which a fault fired here."""
    findings: set[str] = field(default_factory=set)
    not_fired: int = 0
    """The runs whose last fault belongs here and never fired."""
    dropped: Counter[str] = field(default_factory=Counter)
    """By policy: the plans that it dropped."""
    waiting: int = 0
    """The plans that are still to run."""
    impossible: set[str] = field(default_factory=set)
    """Why some faults cannot be injected."""

    @property
    def hit(self) -> bool:
        return bool(self.fired)

    @property
    def faults(self) -> str:
        """`crash, delay ×2`; "" if no fault fired."""
        return ", ".join(f"{kind} ×{n:,}" if n > 1 else kind for kind, n in sorted(self.fired.items()))

    @property
    def where(self) -> str:
        return ", ".join(sorted(filter(None, self.nodes)))

    @property
    def skipped(self) -> tuple[str, ...]:
        """What was not tried here, and by which rule."""
        return tuple(self._skipped())

    def _skipped(self) -> Iterator[str]:
        if self.dropped:
            yield "dropped: " + ", ".join(f"{number:,} by {rule}" for rule, number in self.dropped.most_common())
        if self.waiting:
            yield f"{count(self.waiting, 'plan')} still to run"
        if self.not_fired:
            yield f"never fired in {count(self.not_fired, 'run')}"
        if not self.reachable and self.usual:
            yield from sorted(self.impossible) or ["no fault is possible here"]


def _policy(rule: str) -> str:
    """The name of the policy that dropped a plan, without its arguments."""
    return rule.partition(THEN)[0].removeprefix("policy ").partition("(")[0]


@dataclass(frozen=True)
class Fired:
    """A fault that took effect in a run."""

    run: int
    kind: str
    point: Point
    failed: bool


class Operations:
    """All operations that runs showed, and those at which faults fired."""

    def __init__(self, store: CampaignStore) -> None:
        self._store = store
        self._known: dict[Key, Operation] = {}
        self._points: dict[str, Point] = {}
        for name, point, line in store.located():
            self._points[name] = point
            if operation := self._at(point):
                operation.line = operation.line or line

    def __iter__(self) -> Iterator[Operation]:
        return iter(self._known.values())

    def _at(self, point: Point) -> Operation | None:
        """The operation of a point; None if it is a client's, or no operation at all."""
        if key := _key(point):
            operation = self._known.setdefault(key, Operation(*key))
            operation.nodes.add(point.get("node"))
            return operation
        return None

    def count(self, rows: Sequence[Row], fired: Iterable[Fired], finding_of: Mapping[int, str]) -> None:
        """Count the faults that fired and everything that was skipped."""
        self._count_reachable()
        for one in fired:
            if operation := self._at(one.point):
                operation.fired[one.kind] += 1
                if one.failed:
                    operation.failing.add(one.run)
                    operation.findings |= {finding_of[one.run]} if one.run in finding_of else set()
        for row in rows:
            if row["status"] == "not_fired" and (operation := self._of_plan(row["plan"])):
                operation.not_fired += 1
        for _, rule, _, text in self._store.dropped():
            if operation := self._of_plan(msgspec.json.decode(text, type=Plan)):
                operation.dropped[_policy(rule)] += 1
        for slot in self._store.open_slots(kind=RoundKind.STRATEGY, tried=False):
            if operation := self._of_plan(slot.plan):
                operation.waiting += 1

    def _count_reachable(self) -> None:
        usual = {seen.point.id for seen in self._store.baseline_points()[0]}
        reachable = {point.id for point in self._store.reachable()}
        impossible = self._store.impossible()
        for name in usual:
            if operation := self._at(self._points[name]):
                operation.usual = True
                operation.reachable |= name in reachable
        for why, names in impossible.items():
            for name in names & self._points.keys():
                if operation := self._at(self._points[name]):
                    operation.impossible.add(why)

    def _of_plan(self, plan: Plan) -> Operation | None:
        """The operation of a plan's last fault; None if no run has shown it."""
        at = final_at(plan.steps[-1].trigger) if plan.steps else None
        key = _key(at.point) if at else None
        return self._known.get(key) if key else None

    def fired(self, rows: Sequence[Row]) -> Iterator[Fired]:
        """The faults that took effect, in the order of the runs."""
        landed = self._store.fired_points()
        for row in rows:
            names = landed.get(row["run"], ())
            for number in sorted(_proven(self._store, row)):
                step = row["plan"].steps[number]
                if is_fault(step.fault):
                    at = final_at(step.trigger)
                    name = names[number] if number < len(names) else ""
                    point = self._points.get(name) or (at.point if at else Point(()))
                    yield Fired(row["run"], fault_kind(step.fault), point, bool(row["symptom"]))


def _key(point: Point) -> Key | None:
    op, loc = point.get("op"), point.get("loc")
    if not (op and loc) or op == PHASE or point.get("node") == CLIENT:
        return None
    return op, loc, point.get("role") if loc.startswith(f"{SCRIPT}:") else ""


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
