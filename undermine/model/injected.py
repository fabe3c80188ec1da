"""The faults of a run as checkers see them: which step each one was, where in the trace it fired, and in which stage.

A specification is rarely "no failure loses data". It says what must hold after a given failure in a given part of the protocol.
`run.faults` are the faults that took effect, `Stage` names a part of a protocol, and `run.faults_in(stage)` are the faults that
fired in it. Pure: everything is computed from the record, the history and the trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from undermine.model.errors import UserError
from undermine.model.event import Event
from undermine.model.faults import (
    Fault,
    failure_of,
    is_fault,
    row_of,
)
from undermine.model.plan import At, Lasted, Place, Step, describe_step, place_of, point_at
from undermine.model.point import CLIENT, Point

if TYPE_CHECKING:
    from undermine.model.run import Moment, Op, Receipt, RunView


class Stage(msgspec.Struct, frozen=True):
    """A part of a protocol: the time in which one of these functions is executed, or one of these client operations is open.

    Functions are named as in policies: `append`, `Replica.append` or `package.replicas:Replica.append`.
    """

    name: str
    """Its name in reports."""
    functions: Sequence[str] = ()
    """The functions of the target."""
    operations: Sequence[str] = ()
    """The names of client operations."""

    def __post_init__(self) -> None:
        for names in (self.functions, self.operations):
            if isinstance(names, str) or not all(isinstance(name, str) for name in names):
                raise UserError(f"the stage {self.name!r} got {names!r:.80}; give it a list of names")
        if not self.functions and not self.operations:
            raise UserError(f"the stage {self.name!r} is empty; name its functions or client operations")

    def __str__(self) -> str:
        return self.name

    def covers(self, frames: Sequence[str], operations: Sequence[str]) -> bool:
        """Is the target in this stage while these functions run and these client operations are open?"""
        executed = any(is_function(frame, name) for frame in frames for name in self.functions)
        return executed or any(name in operations for name in self.operations)


def is_function(frame: str, name: str) -> bool:
    """Does a frame (`module:qualified.name`) belong to the function `name`? The name may lack the module or the class."""
    return frame == name or frame.endswith((f":{name}", f".{name}"))


def operations_open(history: Sequence[Op], t_ns: int) -> tuple[Op, ...]:
    """The client operations that had begun and had not ended at this time."""
    return tuple(op for op in history if op.start_ns <= t_ns and (not op.end_ns or op.end_ns > t_ns))


class InjectedFault:
    """A fault that took effect: its kind, the nodes that it hit, and what the cluster was doing at that moment."""

    def __init__(
        self, run: RunView, index: int, fault: Fault, receipts: Sequence[Receipt], moment: Moment | None
    ) -> None:
        self._run = run
        self.fault: Fault = fault
        """The fault with its parameters."""
        self.index: int = index
        """The number of its step in the plan, from 0."""
        self.nodes: tuple[str, ...] = tuple(dict.fromkeys(receipt.node for receipt in receipts))
        """The nodes that it hit."""
        self.t_ns: int = moment.t_ns if moment else min(receipt.begun_ns for receipt in receipts)
        """When it fired, by the machine's monotonic clock, as in the history and the trace."""
        self.point: Point = moment.point if moment else point_at(self.step.trigger)
        """The operation at which it fired."""
        self._at = (moment or receipts[0]).node, (moment or receipts[0]).pid, (moment or receipts[0]).seq

    @property
    def step(self) -> Step:
        """Its step in the plan."""
        return self._run.plan.steps[self.index]

    @property
    def failure(self) -> str:
        """Its failure class, one of `FAILURES`: `crash`, `reboot`, `disk`, `net`, …"""
        return failure_of(self.fault, self.point)

    @property
    def place(self) -> Place:
        """Before or after the operation at which it fired."""
        return place_of(self.step.trigger)

    @property
    def lasted(self) -> Lasted | None:
        """How long it was in force, if it is a delay or a pause."""
        return next((one for one in self._run.record.timing.faults if one.step == self.index), None)

    @property
    def run_s(self) -> float:
        """Seconds since the run began."""
        return (self.t_ns - self._run.record.started_ns) / 1e9

    @property
    def workload_s(self) -> float:
        """Seconds since the first client operation began; negative before that."""
        begun = min((op.start_ns for op in self._run.history), default=self._run.record.started_ns)
        return (self.t_ns - begun) / 1e9

    @cached_property
    def event(self) -> Event | None:
        """The event of the operation at which it fired; None for a client operation or a moment of the run itself."""
        if self._at[0] == CLIENT:
            return None
        return next((e for e in self._run.trace if (e.node, e.pid, e.seq) == self._at), None)

    @property
    def frames(self) -> tuple[str, ...]:
        """The functions (`module:qualified.name`) on the stack where it fired, innermost first."""
        return self.event.frames if self.event else ()

    @property
    def operations(self) -> tuple[Op, ...]:
        """The client operations that were open when it fired."""
        return operations_open(self._run.history, self.t_ns)

    def during(self, where: Stage | str) -> bool:
        """Did it fire in this stage, or while this function ran?

        A fault of a whole node (crash, reboot, pause, partition) counts for every function with an open operation on that
        node. Other faults count for their own thread only.
        """
        stage = where if isinstance(where, Stage) else Stage(where, functions=(where,))
        return stage.covers(self._executed, [op.f for op in self.operations])

    @cached_property
    def _executed(self) -> tuple[str, ...]:
        """All functions that ran where it hit."""
        if row_of(self.fault).hits == "operation":
            return self.frames
        return tuple(dict.fromkeys((*self.frames, *(name for e in self._under_way() for name in e.frames))))

    def _under_way(self) -> Iterator[Event]:
        """The open operations of the nodes that it hit. Only the last start of a node counts: older operations never end."""
        begun = [e for e in self._run.trace if e.node in self.nodes and e.t_ns <= self.t_ns]
        start = {e.node: e.incarnation for e in sorted(begun, key=lambda e: e.incarnation)}
        for event in begun:
            if event.incarnation == start[event.node] and not 0 < event.end_ns <= self.t_ns:
                yield event

    def before(self, op: str = "", target: str = "", function: str = "", node: str = "") -> tuple[Event, ...]:
        """The events on the nodes that it hit, or on `node`, that began before it fired. Empty arguments match anything."""
        own = self.event if self.place == "before" else None
        return tuple(e for e in self._on(op, target, function, node) if e.t_ns <= self.t_ns and e is not own)

    def after(self, op: str = "", target: str = "", function: str = "", node: str = "") -> tuple[Event, ...]:
        """The events on the nodes that it hit, or on `node`, that began after it fired. Empty arguments match anything."""
        return tuple(e for e in self._on(op, target, function, node) if e.t_ns > self.t_ns)

    def _on(self, op: str, target: str, function: str, node: str) -> Iterator[Event]:
        nodes = (node,) if node else self.nodes
        for event in self._run.trace:
            if event.node not in nodes or (op and event.op != op) or (target and event.target != target):
                continue
            if not function or any(is_function(frame, function) for frame in event.frames):
                yield event

    def __str__(self) -> str:
        return describe_step(Step(At(self.point, self.place), self.fault), self.lasted)

    def __repr__(self) -> str:
        return f"<{self}>"


def injected_faults(run: RunView) -> tuple[InjectedFault, ...]:
    """The faults of a run that took effect, in the order of the plan, without holds."""
    found = []
    for index, step in enumerate(run.plan.steps):
        receipts = [receipt for receipt in run.receipts if receipt.step == index and receipt.proves]
        if receipts and is_fault(step.fault):
            moment = next((moment for moment in run.record.moments if moment.step == index), None)
            found.append(InjectedFault(run, index, step.fault, receipts, moment))
    return tuple(found)
