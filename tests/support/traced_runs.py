"""Hand-made traces for strategies that choose slow operations, and histories with these traces."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from undermine.model.columns import Columns
from undermine.model.event import Event
from undermine.model.faults import Delay
from undermine.model.plan import Plan, point_at
from undermine.model.point import Point, point_of
from undermine.protocols import History, PastRun, Profile
from undermine.testing import event, history

MS = 1_000_000


class Trace:
    """A hand-made fault-free run: one operation after the other on one thread."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def did(self, op: str, *stack: str, resource: str = "data", **more: object) -> Event:
        now = len(self.events) + 1
        times: dict[str, object] = {"t_ns": now * MS, "end_ns": now * MS + 1, "seq": now}
        stack = tuple(f"app:{loc}#1" for loc in stack)
        self.events.append(event(op, loc=stack[0], target=resource, stack=stack, thread="T", **{**times, **more}))
        return self.events[-1]

    def locked(self, op: str, *stack: str) -> Event:
        """Add an operation under a lock that the outermost function acquires."""
        self.did("lock.acquire", stack[-1], resource="lock@1", result=1)
        found = self.did(op, *stack)
        self.did("lock.release", stack[-1], resource="lock@1")
        return found

    def limited(self, op: str, *stack: str, limit_s: float) -> Event:
        now = len(self.events) + 1
        self.did("timeout", stack[-1], resource="scope", size=int(limit_s * 1e9), end_ns=(now + 2) * MS - 1)
        return self.did(op, *stack)

    @property
    def points(self) -> list[Point]:
        return list(dict.fromkeys(point_of(e) for e in self.events if e.kind in ("file", "net", "db", "msg")))


def told(
    trace: Trace, runs: Sequence[PastRun] = (), after: Trace | None = None, fired_ns: int = 10**15, delay_s: float = 5.0
) -> History:
    """The history after a fault-free run, and after runs that all showed the points of `after`."""
    shown = Profile(frozenset(after.points), frozenset(after.points)) if after else Profile()
    return msgspec.structs.replace(
        history(trace.points, runs, settled=frozenset(run.plan.id for run in runs)),
        fault_free=(900,),
        columns=lambda run: Columns.of((trace if run == 900 else after or trace).events),
        profile=lambda _: shown,
        fired_ns=lambda _: fired_ns,
        delay_s=delay_s,
    )


def ran(plans: Sequence[Plan], status: str = "fired", **more: bool) -> list[PastRun]:
    return [
        PastRun(number, 0, number, plan, status, more.get("failed", False), odd=more.get("odd", False))  # type: ignore[arg-type]
        for number, plan in enumerate(plans)
    ]


def places(plans: Sequence[Plan]) -> list[tuple[str, float]]:
    return [(point_at(plan.steps[0].trigger).get("loc"), delay_of(plan)) for plan in plans]


def delay_of(plan: Plan) -> float:
    fault = plan.steps[-1].fault
    assert isinstance(fault, Delay)
    return fault.delay_s
