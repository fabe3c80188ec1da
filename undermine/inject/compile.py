"""Compiles a plan to decision tables for agents and cuts between nodes, or says why it cannot run. Pure: it does no I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from undermine.inject.alternatives import expanded
from undermine.model.faults import (
    AT_WIRE,
    Delay,
    Drop,
    Error,
    Injection,
    Partition,
    capability,
    carried_out_by,
    fault_kind,
    is_fault,
    lacking,
    nodes_named,
    nodes_of,
    row_of,
)
from undermine.model.plan import (
    At,
    FirstUnseen,
    Plan,
    Step,
    Then,
    Trigger,
    When,
    misplaced,
    unbindable,
    variables_named,
)
from undermine.model.point import CLIENT, PHASE

Row = dict[str, Any]
Cut = tuple[str, str]
"""Source and destination of lost packets."""


# --- tables


def compile_steps(plan: Plan, node: str, slots: Mapping[str, int], role: str = "") -> list[Row]:
    """The decision table for the agents of one node (or the clients): the steps with a trigger half that can match there.

    `slots` maps each variable (`NODE.NAME`) to its place in the shared state. `role` is the node's role, "" if points name nodes.
    """
    table = []
    for index, step in enumerate(plan.steps):
        triggers = [step.trigger, *([step.until] if step.until else [])]
        if not any(_may_match(half, node, role) for trigger in triggers for half in _halves(trigger)):
            continue
        fault = msgspec.to_builtins(step.fault)
        until = _rows(step.until, slots) if step.until else None
        same = {"same": step.same} if step.same else {}
        table.append({"step": index, **same, **_rows(step.trigger, slots), "fault": fault, "until": until})
    return table


def _rows(trigger: Trigger, slots: Mapping[str, int]) -> Row:
    if isinstance(trigger, Then):
        together = {"together": trigger.same} if trigger.same else {}
        return {"first": _row(trigger.first, slots), "second": _row(trigger.second, slots), **together}
    return {"first": None, "second": _row(trigger, slots)}


def _row(half: At | When | FirstUnseen, slots: Mapping[str, int]) -> Row:
    match half:
        case At(point=point, place=place, nth=nth):
            return {"match": point.as_dict(), "place": place, "nth": nth}
        case FirstUnseen(keys=keys, seen=seen, point=point, place=place, state=state, involves=involves):
            known = sorted({tuple(other.get(key) for key in keys) for other in seen})
            unseen: Row = {"keys": list(keys), "seen": [list(values) for values in known]}
            if state:
                unseen["state"] = [[slots[name] for name in part] for part in state]
            row: Row = {"match": point.as_dict(), "place": place, "nth": 1, "unseen": unseen}
            return {**row, "involves": list(involves)} if involves else row
        case When(state=state):
            compared = [
                {"slot": slots[c.variable], "is": c.op} | ({"other": slots[c.other]} if c.other else {"value": c.value})
                for c in state
            ]
            return {"match": {}, "place": "before", "nth": 1, "when": compared}


def _halves(trigger: Trigger) -> tuple[At | When | FirstUnseen, ...]:
    return (trigger.first, trigger.second) if isinstance(trigger, Then) else (trigger,)


def _may_match(half: At | When | FirstUnseen, node: str, role: str) -> bool:
    if isinstance(half, When):
        return node in nodes_compared(half)
    if role and not half.point.get("node") and half.point.get("role", role) != role:
        return False
    return half.point.get("node", node) == node and (node != CLIENT or isinstance(half, At))


def nodes_compared(trigger: When) -> set[str]:
    """The nodes whose variables the trigger compares each time that one of these nodes sends or receives."""
    return {name.partition(".")[0] for name in variables_named(trigger)}


def variable_slots(plan: Plan) -> dict[str, int]:
    """The slot of the shared state that holds each variable that the plan names; the same for all processes of a run."""
    triggers = [trigger for step in plan.steps for trigger in (step.trigger, step.until)]
    names = dict.fromkeys(name for trigger in triggers for name in variables_named(trigger))
    return {name: slot for slot, name in enumerate(names)}


def split_variable(name: str) -> tuple[str, str, str]:
    """The node, the name and the key of `NODE.NAME[KEY]`; the key is "" if there is none."""
    node, _, rest = name.partition(".")
    plain, bracket, key = rest.partition("[")
    return node, plain, key[:-1] if bracket else ""


def meets_phases(plan: Plan) -> bool:
    """Does a trigger of the plan name a moment of the run, such as the cluster at rest?"""
    triggers = [trigger for step in plan.steps for trigger in (step.trigger, step.until) if trigger]
    return any(_is_phase(half) for trigger in triggers for half in _halves(trigger))


def _is_phase(trigger: Trigger) -> bool:
    last = _halves(trigger)[-1]
    return isinstance(last, At) and last.point.get("op") == PHASE


# --- partitions


def sides(fault: Partition, here: str, nodes: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The nodes on both sides of the partition; `here` is the node at whose operation the step fired."""
    inside = fault.nodes or (here,)
    return inside, tuple(node for node in fault.others or nodes if node not in inside)


def cuts(fault: Partition, here: str, nodes: Sequence[str]) -> tuple[Cut, ...]:
    """The pairs of nodes between which packets are lost."""
    inside, outside = sides(fault, here, nodes)
    out = {(a, b) for a in inside for b in outside} if fault.direction != "in" else set()
    back = {(b, a) for a in inside for b in outside} if fault.direction != "out" else set()
    return tuple(sorted(out | back))


def lasting_partition(fault: Partition, here: str, nodes: Sequence[str]) -> dict[str, Row]:
    """For each node on both sides: the messages that its agents drop, and whether its program gets errors."""
    inside, outside = sides(fault, here, nodes)
    leaves, comes = fault.direction != "in", fault.direction != "out"
    lost: dict[str, Row] = {}
    for node in inside if outside else ():
        lost[node] = {"peers": list(outside), "out": leaves, "in": comes, "loss": fault.loss}
    for node in outside:
        lost[node] = {"peers": list(inside), "out": comes, "in": leaves, "loss": fault.loss}
    return lost


def resets_connections(fault: Partition) -> bool:
    """Must agents reset the connections that the partition cut when it ends, so that nothing is delivered late? After errors they
    always do."""
    return bool(fault.resets) or (fault.level == "operation" and fault.loss == "error")


# --- why a plan cannot run


def unsupported(
    plan: Plan,
    capabilities: Mapping[str, Iterable[str]] | None,
    features: Collection[str] = (),
    variables: Mapping[str, bool] = MappingProxyType({}),
    nodes: Collection[str] | None = None,
) -> str:
    """Why this plan cannot run; "" if it can.

    `capabilities` are those of each node's agents (None: not known yet), `features` those of the deployment. `nodes` are the
    existing ones (None: any node), `variables` the existing `NODE.NAME`, each with the answer to: does it have keys?"""
    if why := unbindable(plan):
        return why
    for step in expanded(plan).compiled.steps:
        why = (
            _unknown_variable(step, variables)
            or lacking(step.fault, features)
            or _beyond_clients(step)
            or misplaced(step)
        )
        if not why and nodes is not None:
            why = _unknown_node(step.fault, nodes)
        if not why and capabilities is not None:
            why = _beyond_agents(step, capabilities)
        if why:
            return why
    return ""


def _unknown_variable(step: Step, variables: Mapping[str, bool]) -> str:
    for name in (*variables_named(step.trigger), *variables_named(step.until)):
        plain = name.partition("[")[0]
        if plain not in variables:
            return f"no variable {plain} is configured"
        if variables[plain] != ("[" in name):
            return f"the variable {plain} {'needs' if variables[plain] else 'has'} {'a key' if variables[plain] else 'no keys'}"
    return ""


def _unknown_node(fault: Injection, nodes: Collection[str]) -> str:
    unknown = [name for name in nodes_named(fault) if name not in (*nodes, CLIENT)]
    return f"there is no node {unknown[0]}" if unknown else ""


def _beyond_agents(step: Step, capabilities: Mapping[str, Iterable[str]]) -> str:
    """Why agents cannot carry out this step: each node that must act or notice the trigger needs a capable agent."""
    needed: list[tuple[str, str]] = []
    if carried_out_by(step.fault) == "agent":
        own = (capability(step.fault), *((AT_WIRE,) if is_at_wire(step) else ()))
        needed += [(node, word) for node in nodes_of(step.fault) or _nodes_noticing(step.trigger) for word in own]
    words = (*_words_for(step.trigger), *(("same",) if step.same else ()))
    needed += [(node, word) for node in _nodes_noticing(step.trigger) for word in words]
    if step.until:
        words = ("until", *_words_for(step.until))
        needed += [(node, word) for node in _nodes_noticing(step.until) - {CLIENT} for word in words]
    for node, word in sorted(needed):
        if word not in capabilities.get(node, ()):
            return f"the agent of {node} does not offer {word}"
    return ""


def is_at_wire(step: Step) -> bool:
    """Does the fault take effect below a logical operation?"""
    return isinstance(step.fault, Delay | Error | Drop) and step.fault.logical == AT_WIRE


def _words_for(trigger: Trigger) -> tuple[str, ...]:
    """The capabilities that an agent needs to notice this trigger, without those that every agent has."""
    if isinstance(trigger, Then):
        return ("same",) if trigger.same else ()
    return ("when",) if isinstance(trigger, When) else ("unseen",) if isinstance(trigger, FirstUnseen) else ()


def _nodes_noticing(trigger: Trigger) -> set[str]:
    """The nodes at which the trigger's last half can fire; empty: any node."""
    last = _halves(trigger)[-1]
    if isinstance(last, When):
        return nodes_compared(last)
    return {last.point.get("node")} - {""}


def _beyond_clients(step: Step) -> str:
    """Why the step cannot involve clients: faults never hit them, and only the network can cut them off."""
    fault = step.fault
    if CLIENT in _nodes_noticing(step.trigger) and not nodes_of(fault) and is_fault(fault):
        where = "a moment of the run" if _is_phase(step.trigger) else "a client's operation"
        return f"{fault_kind(fault)} at {where} must name its nodes"
    if row_of(fault).hits == "links" and carried_out_by(fault) != "network" and CLIENT in nodes_named(fault):
        return "clients can be cut off only at the level of the network"
    return ""
