"""Helpers for tests of strategies, checkers and plug-ins: events, points, histories and runs made by hand.

Never starts a process. A `FakeTarget` replaces the cluster: it says whether a plan makes the target fail. `simulate` runs a
strategy against it, round by round, as a campaign would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from undermine import agent_protocol
from undermine.analysis.possible_faults import AT_REST, possible_faults_at
from undermine.model.baseline import Baseline
from undermine.model.event import Event, Trace
from undermine.model.fault_limits import FaultLimits
from undermine.model.faults import FAULT_NAMES, Fault
from undermine.model.plan import Plan
from undermine.model.point import Point, point_of
from undermine.model.run import LogLine, NodeInfo, Op, Receipt, RunRecord, RunView, as_if
from undermine.protocols import History, Later, PastRun, PointSeen, Profile, Strategy, plans_of

CAPABILITIES = tuple(agent_protocol.CAPABILITIES)


def event(
    op: str = "file.write", node: str = "n1", loc: str = "app:write#1", target: str = "data", **more: object
) -> Event:
    """An event with a value for every field."""
    fields: dict[str, object] = {
        "node": node,
        "role": "server",
        "incarnation": 1,
        "pid": 100,
        "seq": 1,
        "t_ns": 1,
        "op": op,
        "loc": loc,
        "line": 1,
        "stack": (loc,),
        "target": target,
        "resource": target,
    }
    return Event(**{**fields, **more})  # type: ignore[arg-type]


def point(op: str = "file.write", node: str = "n1", loc: str = "app:write#1", target: str = "data") -> Point:
    return point_of(event(op, node, loc, target))


def history(
    points: Sequence[Point],
    runs: Sequence[PastRun] = (),
    *,
    seed: int = 0,
    batch: int = 4,
    round_index: int = 0,
    limits: FaultLimits | None = None,
    settled: frozenset[str] = frozenset(),
    profiles: Mapping[int, Profile] | None = None,
    frames: Mapping[Point, tuple[str, ...]] | None = None,
    later: Mapping[Point, Later] | None = None,
) -> History:
    """The history that a strategy gets after fault-free runs that showed these points. `profiles` has profiles by run number;
    `later` has the later occurrences that differ from the first ones."""
    seen = tuple(PointSeen(p, 3, 3, order, after=3) for order, p in enumerate(points))
    nodes = {p.get("node"): p.get("role") for p in points}
    limits = limits or FaultLimits(FAULT_NAMES, capabilities=dict.fromkeys(nodes, CAPABILITIES), node_roles=nodes)
    profiles, frames = profiles or {}, frames or {}
    at = possible_faults_at(limits)
    return History(
        seen,
        3,
        at([AT_REST, *points]),
        tuple(runs),
        settled,
        round_index,
        seed,
        batch,
        baseline=shown(points),
        profile=lambda run: profiles.get(run, Profile()),
        possible_faults_at=at,
        frames=lambda at: frames.get(at, ()),
        is_long=limits.is_long,
        later=later or {},
    )


def shown(
    points: Iterable[Point], after: Iterable[Point] | None = None, first: Iterable[Point] | None = None
) -> Profile:
    """A profile. By default all points were seen after the last fault, and none is only the continuation of a read."""
    every = frozenset(points)
    return Profile(every, every if after is None else frozenset(after), every if first is None else frozenset(first))


def run_view(
    plan: Plan = Plan(),  # noqa: B008 - frozen
    *,
    ops: Sequence[Op] = (),
    events: Sequence[Event] = (),
    receipts: Sequence[Receipt] = (),
    nodes: Sequence[str] = ("n1",),
    logs: Sequence[LogLine] = (),
    baseline: Baseline = Baseline(),  # noqa: B008 - frozen
    faults: Sequence[tuple[Fault, Event]] = (),
    **record: object,
) -> RunView:
    """A finished run made by hand.

    `faults` replace the plan: each fired before its event. Give each event of a node its own `seq`, since the event of a fault is
    found by node, process and `seq`.
    """
    infos = tuple(NodeInfo(node, "server", "127.0.0.1", 1, {"main": 1}, "/nowhere") for node in nodes)
    fields: dict[str, object] = {"nodes": infos, "receipts": tuple(receipts), **record}
    made = RunRecord(1, plan, "fired", **fields)  # type: ignore[arg-type]
    made = as_if(made, faults) if faults else made
    return RunView(made, tuple(ops), lambda: Trace(tuple(events)), lambda: tuple(logs), lambda: baseline)


FakeTarget = Callable[[Plan], bool]
"""True if the plan makes the target fail."""


def simulate(
    strategy: Strategy,
    points: Sequence[Point],
    fails: FakeTarget,
    runs_max: int = 100_000,
    shows: Callable[[Plan], Profile] | None = None,
) -> list[PastRun]:
    """Run a strategy against a fake target until it proposes no plan. `shows` returns the profile of a plan's run."""
    done: list[PastRun] = []
    profiles: dict[int, Profile] = {}
    for round_index in range(runs_max):
        settled = frozenset(run.plan.id for run in done)
        known = history(points, done, round_index=round_index, settled=settled, profiles=profiles)
        plans = plans_of(strategy.propose(known))
        if not plans or len(done) >= runs_max:
            break
        plans = plans[: runs_max - len(done)]
        done += [
            PastRun(len(done) + index, round_index, index, plan, "fired", fails(plan))
            for index, plan in enumerate(plans)
        ]
        if shows:
            profiles = {run.id: shows(run.plan) for run in done}
    return done
