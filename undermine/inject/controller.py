"""The decisions of one run, without I/O: agents' requests go in, answers and instructions come out.

    waiting --(the step before fired)--> armed --(a claim is granted)--> fired --(its `until` is claimed, or its time)--> over

Sockets, shared memory and processes live in `server.py` and in the runner.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, assert_never

import msgspec

from undermine.agent_protocol import WIRE
from undermine.inject.compile import Cut, cuts, lasting_partition, resets_connections
from undermine.model.event import AgentInfo
from undermine.model.faults import (
    Corrupt,
    Crash,
    Delay,
    Drop,
    Error,
    Hold,
    Injection,
    Kept,
    Partition,
    Pause,
    PowerLoss,
    Reboot,
    nodes_of,
    restart_after_s,
    row_of,
)
from undermine.model.plan import Plan
from undermine.model.point import Point
from undermine.model.run import Moment

VERSION = WIRE.version
_STATES = WIRE.state.step_states
WAITING, ARMED, FIRED, OVER = _STATES.waiting, _STATES.armed, _STATES.fired, _STATES.over


class SetStep(msgspec.Struct, frozen=True):
    """Write the state of a step to shared memory."""

    step: int
    state: int


class BindStep(msgspec.Struct, frozen=True):
    """Write to shared memory the only place at which a step may fire: a process id, or 1 + the index of a node."""

    step: int
    place: int


class NewGeneration(msgspec.Struct, frozen=True):
    """The set of lasting faults has changed: agents must ask again."""


class ExpectCrash(msgspec.Struct, frozen=True):
    """The node's agent is about to kill it."""

    step: int
    node: str
    reboot_after_s: float | None


class KillNodes(msgspec.Struct, frozen=True):
    """The tool must kill all these nodes before the agent gets its answer."""

    step: int
    nodes: tuple[str, ...]
    reboot_after_s: float | None


class CutPower(msgspec.Struct, frozen=True):
    """The tool must kill all these nodes and let their disks lose data, before the agent gets its answer."""

    step: int
    nodes: tuple[str, ...]
    kept: Kept
    at: float
    reboot_after_s: float


class StartNodes(msgspec.Struct, frozen=True):
    """The crash is over: start the dead ones among these nodes again on their data."""

    step: int
    nodes: tuple[str, ...]


class FreezeNodes(msgspec.Struct, frozen=True):
    """Freeze all these nodes for at most `for_s`."""

    step: int
    nodes: tuple[str, ...]
    for_s: float


class CutNetwork(msgspec.Struct, frozen=True):
    """Drop all packets between these pairs of nodes; `nodes` are the ones that the fault names."""

    step: int
    nodes: tuple[str, ...]
    cuts: tuple[Cut, ...]


class LoseMessages(msgspec.Struct, frozen=True):
    """The agents on both sides cut these nodes off from now on; the tool writes the receipt."""

    step: int
    nodes: tuple[str, ...]


class Note(msgspec.Struct, frozen=True):
    """Only record that a hold fired."""

    step: int
    node: str
    pid: int
    seq: int


class EndFault(msgspec.Struct, frozen=True):
    """The step's `until` fired on this node: end everything that the tool does for the step."""

    step: int
    node: str


class EndAfter(msgspec.Struct, frozen=True):
    """Ask the controller to end the step's fault after `seconds`."""

    step: int
    seconds: float


class EndInTime(msgspec.Struct, frozen=True):
    """The time of the step's fault is over: end everything that the tool does for it."""

    step: int


Instruction = (
    SetStep
    | BindStep
    | NewGeneration
    | ExpectCrash
    | KillNodes
    | CutPower
    | StartNodes
    | FreezeNodes
    | CutNetwork
    | LoseMessages
    | Note
    | EndFault
    | EndAfter
    | EndInTime
)


class Lasting(msgspec.Struct, frozen=True):
    """A fault that stays in force on a node after its step fired; `what` is its form on the wire."""

    step: int
    node: str
    what: dict[str, Any]


class Claim(msgspec.Struct, frozen=True):
    """An agent reached a step's trigger or its `until` and asks whether to act."""

    step: int
    node: str
    incarnation: int
    pid: int
    t_ns: int = 0
    seq: int = 0
    point: dict[str, str] = {}
    resource: str = ""
    half: Literal["second", "until"] = "second"
    peer: str = ""
    """The target of the transfers that an error at a logical operation hits, if it takes effect there."""


Answer = dict[str, Any]
_NO: Answer = {"type": "no"}
_RESET = "reset"


class Controller:
    """The state of one plan while it runs. `nodes` are all nodes of the run. With `alternatives`, only one of the steps fires."""

    def __init__(self, plan: Plan, nodes: Sequence[str], *, alternatives: bool = False) -> None:
        self.plan = plan
        self._alternatives = alternatives
        self.states = [WAITING] * len(plan.steps)
        self.claims: dict[int, Claim] = {}
        self.ends: dict[int, Claim] = {}
        self.lasting: list[Lasting] = []
        self.healed = False
        self._nodes = tuple(nodes)

    def begin(self) -> list[Instruction]:
        """Arm the first step, or all alternatives."""
        if self._alternatives:
            self.states = [ARMED] * len(self.states)
            return [SetStep(step, ARMED) for step in range(len(self.states))]
        return self._arm_next()

    def hello(self, hello: AgentInfo) -> Answer:
        if hello.version != VERSION:
            return {"type": "refused", "why": f"agent speaks version {hello.version}, the tool {VERSION}"}
        return {"type": "welcome", "lasting": self.lasting_of(hello.node)}

    def lasting_of(self, node: str) -> list[dict[str, Any]]:
        return [{"step": item.step, **item.what} for item in self.lasting if item.node == node]

    def claim(self, claim: Claim) -> tuple[Answer, list[Instruction]]:
        """Grant each step's trigger and `until` at most once, in the plan's order."""
        wanted = ARMED if claim.half == "second" else FIRED
        if self.healed or not 0 <= claim.step < len(self.states) or self.states[claim.step] != wanted:
            return _NO, []
        if claim.half == "until":
            return self._end(claim)
        return self._fire(claim) if self._is_where_bound(claim) else (_NO, [])

    def _is_where_bound(self, claim: Claim) -> bool:
        """Agents compare the place themselves and count nothing elsewhere. A new process may have the id of a dead one."""
        same = self.plan.steps[claim.step].same
        if not same:
            return True
        before = self.claims[claim.step - 1]
        if same == "node":
            return claim.node == before.node
        return (claim.node, claim.incarnation, claim.pid) == (before.node, before.incarnation, before.pid)

    def heal(self) -> None:
        self.healed = True
        left = [item for item in self.lasting if item.what["kind"] == _RESET]
        in_force = [step for step, state in enumerate(self.states) if state == FIRED]
        self.lasting = [*left, *(reset for step in in_force for reset in self._resets(step))]

    def fired(self) -> list[int]:
        return [step for step, state in enumerate(self.states) if state in (FIRED, OVER)]

    def moments(self) -> list[Moment]:
        """Where each fired step fired, by step."""
        return [_moment(self.claims[step]) for step in self.fired()]

    def ended(self) -> list[Moment]:
        """Where each `until` that was reached was reached, by step."""
        return [_moment(self.ends[step]) for step in sorted(self.ends)]

    def _fire(self, claim: Claim) -> tuple[Answer, list[Instruction]]:
        """Grant the step. Its fault is in force before agents see the step as fired, so that it cannot end before it begins."""
        self.states[claim.step] = FIRED
        self.claims[claim.step] = claim
        fault = self.plan.steps[claim.step].fault
        external, instructions = self._carry_out(claim, fault)
        instructions += [SetStep(claim.step, FIRED), *(self._disarm() if self._alternatives else self._arm_next())]
        if isinstance(fault, Partition) and fault.lasts_s:
            instructions.append(EndAfter(claim.step, fault.lasts_s))
        return ({"type": "go", "external": True} if external else {"type": "go"}), instructions

    def _carry_out(self, claim: Claim, fault: Injection) -> tuple[bool, list[Instruction]]:
        """Whether the tool carries out the fault instead of the agent, and the instructions for the tool."""
        step, nodes = claim.step, self._nodes_hit(claim.step)
        match fault:
            case Crash() | Reboot():
                if nodes == (claim.node,):
                    return False, [ExpectCrash(step, claim.node, restart_after_s(fault))]
                return True, [KillNodes(step, nodes, restart_after_s(fault))]
            case PowerLoss(kept=kept, at=at, after_s=after_s):
                return True, [CutPower(step, nodes, kept, at, after_s)]
            case Pause(pause_s=pause_s):
                return True, [FreezeNodes(step, nodes, pause_s)]
            case Partition(level=level):
                if level == "network":
                    return True, [CutNetwork(step, nodes, cuts(fault, claim.node, self._nodes))]
                for node, lost in lasting_partition(fault, claim.node, self._nodes).items():
                    self.lasting.append(Lasting(step, node, {"kind": "partition", **lost}))
                return True, [NewGeneration(), LoseMessages(step, nodes)]
            case Hold():
                return True, [Note(step, claim.node, claim.pid, claim.seq)]
            case Error(scope="once") | Delay() | Drop() | Corrupt():
                return False, []
            case Error(error=error, scope=scope):
                value = {"file": claim.resource, "peer": claim.peer or claim.point.get("target", "")}.get(scope, "")
                what = {"kind": "error", "error": error, "scope": scope, "value": value}
                self.lasting.append(Lasting(step, claim.node, what))
                return False, [NewGeneration()]
        assert_never(fault)

    def _end(self, claim: Claim) -> tuple[Answer, list[Instruction]]:
        """End the step's fault. Agents that delay or drop for it see its new state in shared memory."""
        if self.plan.steps[claim.step].until is None:
            return _NO, []
        self.ends[claim.step] = claim
        instructions = self._over(claim.step)
        if row_of(self.plan.steps[claim.step].fault).kills:
            instructions.append(StartNodes(claim.step, self._nodes_hit(claim.step)))
        return {"type": "go"}, [*instructions, EndFault(claim.step, claim.node)]

    def end_in_time(self, step: int) -> list[Instruction]:
        """End the step's fault because its time is over, unless it has ended before."""
        if self.healed or self.states[step] != FIRED:
            return []
        return [*self._over(step), EndInTime(step)]

    def _over(self, step: int) -> list[Instruction]:
        """Its fault is no longer in force on any node."""
        self.states[step] = OVER
        lasting = [*(item for item in self.lasting if item.step != step), *self._resets(step)]
        if lasting == self.lasting:
            return [SetStep(step, OVER)]
        self.lasting = lasting
        return [SetStep(step, OVER), NewGeneration()]

    def _resets(self, step: int) -> list[Lasting]:
        """The entries that a partition leaves when it ends, if agents must reset the connections that it cut.

        They stay for the rest of the run, for processes that learn of the end late.
        """
        fault = self.plan.steps[step].fault
        if not isinstance(fault, Partition) or not resets_connections(fault):
            return []
        cut = lasting_partition(fault, self.claims[step].node, self._nodes)
        return [Lasting(step, node, {"kind": _RESET, "peers": lost["peers"]}) for node, lost in cut.items()]

    def _nodes_hit(self, step: int) -> tuple[str, ...]:
        return nodes_of(self.plan.steps[step].fault) or (self.claims[step].node,)

    def _arm_next(self) -> list[Instruction]:
        step = next((i for i, state in enumerate(self.states) if state in (WAITING, ARMED)), None)
        if step is None or self.states[step] == ARMED:
            return []
        self.states[step] = ARMED
        return [*self._bind(step), SetStep(step, ARMED)]

    def _disarm(self) -> list[Instruction]:
        armed = [step for step, state in enumerate(self.states) if state == ARMED]
        for step in armed:
            self.states[step] = WAITING
        return [SetStep(step, WAITING) for step in armed]

    def _bind(self, step: int) -> list[Instruction]:
        same, before = self.plan.steps[step].same, self.claims.get(step - 1)
        if not same or before is None:
            return []
        number = self._nodes.index(before.node) + 1 if before.node in self._nodes else 0  # 0: fired at a client
        return [BindStep(step, before.pid if same == "process" else number)]


def _moment(claim: Claim) -> Moment:
    return Moment(claim.step, claim.node, claim.t_ns, Point.of(claim.point), claim.resource, claim.seq, claim.pid)
