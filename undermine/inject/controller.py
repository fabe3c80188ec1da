"""The decisions of one run, pure: what an agent asked goes in, an answer and instructions come out.

    waiting --(the step before fired)--> armed --(a claim is granted)--> fired

Sockets, shared memory and processes live in `server.py` and in the runner.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from undermine.model.event import AgentInfo
from undermine.model.plan import At, Crash, Delay, Error, Fault, Plan, Reboot, Then, Trigger, fault_kind

VERSION = 1
WAITING, ARMED, FIRED = 0, 1, 2


class SetStep(msgspec.Struct, frozen=True):
    """Write the state of a step to shared memory."""

    step: int
    state: int


class NewGeneration(msgspec.Struct, frozen=True):
    """The set of lasting errors changed: agents must ask again."""


class ExpectCrash(msgspec.Struct, frozen=True):
    """The node's agent is about to kill it."""

    step: int
    node: str
    reboot_after_s: float | None


class KillNode(msgspec.Struct, frozen=True):
    """The tool must kill the node before the answer is given."""

    step: int
    node: str
    reboot_after_s: float | None


Instruction = SetStep | NewGeneration | ExpectCrash | KillNode


class Lasting(msgspec.Struct, frozen=True):
    """An error that goes on after its step fired."""

    step: int
    node: str
    error: str
    scope: str
    value: str


class Claim(msgspec.Struct, frozen=True):
    """An agent met a step's trigger and asks whether it is to act."""

    step: int
    node: str
    incarnation: int
    pid: int
    t_ns: int = 0
    seq: int = 0
    point: dict[str, str] = {}
    resource: str = ""


class Controller:
    """The state of one plan while it runs."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.states = [WAITING] * len(plan.steps)
        self.claims: dict[int, Claim] = {}
        self.lasting: list[Lasting] = []
        self.healed = False

    def begin(self) -> list[Instruction]:
        """Arm the first step."""
        return self._arm_next()

    def hello(self, hello: AgentInfo) -> dict[str, Any]:
        if hello.version != VERSION:
            return {"type": "refused", "why": f"agent speaks version {hello.version}, the tool {VERSION}"}
        return {"type": "welcome", "lasting": self.lasting_of(hello.node)}

    def lasting_of(self, node: str) -> list[dict[str, Any]]:
        return [
            {"step": item.step, "error": item.error, "scope": item.scope, "value": item.value}
            for item in self.lasting
            if item.node == node
        ]

    def claim(self, claim: Claim) -> tuple[dict[str, Any], list[Instruction]]:
        """Grant a claim at most once a step, in the plan's order."""
        if self.healed or not 0 <= claim.step < len(self.states) or self.states[claim.step] != ARMED:
            return {"type": "no"}, []
        self.states[claim.step] = FIRED
        self.claims[claim.step] = claim
        instructions: list[Instruction] = [SetStep(claim.step, FIRED)]
        external = self._carry_out(claim, self.plan.steps[claim.step].fault, instructions)
        instructions += self._arm_next()
        answer: dict[str, Any] = {"type": "go"}
        if external:
            answer["external"] = True
        return answer, instructions

    def heal(self) -> None:
        self.healed = True
        self.lasting.clear()

    def fired(self) -> list[int]:
        return [step for step, state in enumerate(self.states) if state == FIRED]

    def _carry_out(self, claim: Claim, fault: Fault, out: list[Instruction]) -> bool:
        """Add what the fault needs; true if the tool itself does it."""
        match fault:
            case Crash(node=node) | Reboot(node=node):
                after_s = fault.after_s if isinstance(fault, Reboot) else None
                if node and node != claim.node:
                    out.append(KillNode(claim.step, node, after_s))
                    return True
                out.append(ExpectCrash(claim.step, claim.node, after_s))
            case Error(error=error, scope=scope) if scope != "once":
                value = {"file": claim.resource, "peer": claim.point.get("target", "")}.get(scope, "")
                self.lasting.append(Lasting(claim.step, claim.node, error, scope, value))
                out.append(NewGeneration())
            case Error() | Delay():
                pass
            case _:
                raise ValueError(f"no agent offers {fault}")
        return False

    def _arm_next(self) -> list[Instruction]:
        step = next((i for i, state in enumerate(self.states) if state != FIRED), None)
        if step is None or self.states[step] == ARMED:
            return []
        self.states[step] = ARMED
        return [SetStep(step, ARMED)]


def compile_steps(plan: Plan, node: str) -> list[dict[str, Any]]:
    """The decision table for the agents of one node: the steps of which a half can match there."""
    table = []
    for index, step in enumerate(plan.steps):
        halves = _halves(step.trigger)
        if halves is None or not any(_may_match(half, node) for half in halves if half):
            continue
        first, second = halves
        table.append(
            {
                "step": index,
                "first": _row(first) if first else None,
                "second": _row(second),
                "fault": msgspec.to_builtins(step.fault),
            }
        )
    return table


def unsupported(plan: Plan, capabilities: Mapping[str, Iterable[str]]) -> str:
    """Why this plan cannot run with these agents ("" if it can)."""
    for step in plan.steps:
        halves = _halves(step.trigger)
        if halves is None:
            return f"no agent offers the trigger {step.trigger.__class__.__name__}"
        if step.until is not None:
            return "no agent offers an end of a step (until)"
        node = halves[1].point.get("node")
        name = fault_kind(step.fault)
        if getattr(step.fault, "node", ""):
            if name not in ("crash", "reboot"):
                return f"{name} of another node is not offered"
        elif node and name not in capabilities.get(node, ()):
            return f"the agent of {node} does not offer {name}"
    return ""


def _halves(trigger: Trigger) -> tuple[At | None, At] | None:
    if isinstance(trigger, At):
        return None, trigger
    return (trigger.first, trigger.second) if isinstance(trigger, Then) else None


def _may_match(at: At, node: str) -> bool:
    return at.point.get("node", node) == node


def _row(at: At) -> dict[str, Any]:
    return {"match": at.point.as_dict(), "place": at.place, "nth": at.nth}
