"""Plans: their ids, their JSON and their descriptions."""

from __future__ import annotations

import hashlib
import re
import typing

import msgspec
import pytest
from tables import for_each

from undermine.model.faults import (
    FAULT_KINDS,
    Crash,
    Delay,
    Error,
    Hold,
    Injection,
    Partition,
    Pause,
    Reboot,
)
from undermine.model.plan import (
    At,
    Compare,
    FirstUnseen,
    Plan,
    Step,
    Then,
    Trigger,
    When,
    Work,
    describe_step,
    describe_trigger,
    final_at,
    unbindable,
)
from undermine.model.point import REST, Point, client_point, phase_point
from undermine.testing import point

AT = At(point(), "after", 3)
FAULTS: dict[type, Injection] = {row.struct: row.struct() for row in FAULT_KINDS.values()} | {
    Crash: Crash(("n2",)),
    Reboot: Reboot(0.5, ("n1",)),
    Delay: Delay(7.5),
    Error: Error("ENOSPC", "disk"),
    Partition: Partition(("n1", "n2")),
    Pause: Pause(1.0, ("n3",)),
    Hold: Hold(),
}
TRIGGERS: dict[type, Trigger] = {
    At: AT,
    Then: Then(At(point("net.send")), AT, same="process"),
    When: When((Compare("n1.leader", "!=", other="n2.leader"),)),
    FirstUnseen: FirstUnseen(("op", "loc"), (point(), Point.of({"op": "x"}))),
}


def test_these_tests_know_the_whole_closed_sets() -> None:
    assert set(FAULTS) == set(typing.get_args(Injection))
    assert set(TRIGGERS) == set(typing.get_args(Trigger))


@for_each("fault", FAULTS.values())
@for_each("trigger", TRIGGERS.values())
def test_every_fault_and_trigger_survives_json(fault: Injection, trigger: Trigger) -> None:
    plan = Plan((Step(trigger, fault), Step(AT, Crash(), until=trigger)), 7, "someone", "because")
    again = msgspec.json.decode(msgspec.json.encode(plan), type=Plan)
    assert again == plan
    assert again.id == plan.id
    assert again.steps_id == plan.steps_id


def test_an_unknown_fault_is_refused_on_reading() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"fault": "meteor"}', type=Injection)


def test_a_scope_outside_the_closed_set_is_refused_on_reading() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"fault": "error", "error": "EIO", "scope": "galaxy"}', type=Injection)


def test_the_id_does_not_depend_on_who_proposed_the_plan_or_why() -> None:
    steps = (Step(AT, Crash()),)
    assert Plan(steps, 1, "random", "drawn").id == Plan(steps, 1, "exhaustive", "next").id


@pytest.mark.parametrize(
    "other",
    [
        Plan((Step(AT, Crash()),), 2),
        Plan((Step(AT, Reboot()),), 1),
        Plan((Step(At(point(), "after", 2), Crash()),), 1),
        Plan((Step(At(point(), "before", 3), Crash()),), 1),
        Plan((Step(At(point("file.read"), "after", 3), Crash()),), 1),
        Plan((Step(AT, Crash()), Step(AT, Crash())), 1),
        Plan((Step(AT, Crash(), until=AT),), 1),
        Plan((Step(AT, Crash(), same="process"),), 1),
        Plan((Step(AT, Crash()),), 1, work=Work(("reads",))),
        Plan((Step(AT, Crash()),), 1, work=Work(operations_max=3)),
        Plan((), 1),
    ],
)
def test_the_id_depends_on_every_part_of_steps_and_seed(other: Plan) -> None:
    assert other.id != Plan((Step(AT, Crash()),), 1).id


def test_a_part_of_the_workload_stays_with_the_plan() -> None:
    plan = Plan((Step(AT, Crash()), Step(AT, Delay())), 1, work=Work(("reads", "locks"), 3))
    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan
    assert plan.control.work == plan.last_control.work == plan.work
    assert plan.prefix_ids == (Plan(plan.steps[:1], 1, work=plan.work).id,)
    assert plan.steps_id == Plan(plan.steps).steps_id
    assert str(plan).endswith(", with only reads, locks of the workload and at most 3 operations for each client")
    assert b"work" not in msgspec.json.encode(Plan(plan.steps)), "stored plans stay as they are"


def test_the_order_of_steps_is_part_of_the_id() -> None:
    one, two = Step(AT, Crash()), Step(AT, Delay())
    assert Plan((one, two)).id != Plan((two, one)).id


def test_the_id_is_the_same_in_every_release() -> None:
    """Stored campaigns and reproduction files hold ids: a change of this value breaks them."""
    text = (
        '[[{"trigger":{"trigger":"at","point":{"items":[["op","file.write"]]},"place":"before","nth":1},'
        '"fault":{"fault":"error","error":"EIO","scope":"disk"},"until":null}],7]'
    )
    plan = Plan((Step(At(Point.of({"op": "file.write"})), Error("EIO", "disk")),), 7)
    assert plan.id == hashlib.blake2b(text.encode(), digest_size=6).hexdigest() == "7468771dcb24"


def test_steps_id_ignores_the_seed() -> None:
    steps = (Step(AT, Crash()),)
    assert Plan(steps, 1).steps_id == Plan(steps, 2).steps_id
    assert Plan(steps, 1).steps_id != Plan((*steps, *steps), 1).steps_id


def test_equal_plans_have_equal_ids_also_where_seconds_are_whole_numbers() -> None:
    whole, exact = Plan((Step(AT, Delay(5)),)), Plan((Step(AT, Delay(5.0)),))
    assert whole == exact
    assert whole.id == exact.id


def test_a_fault_at_rest_is_described() -> None:
    assert str(Plan((Step(At(phase_point(REST)), Crash(("n2",))),))) == "crash n2 at rest"


def test_final_at_is_where_the_trigger_fires() -> None:
    then = TRIGGERS[Then]
    assert isinstance(then, Then)
    assert final_at(AT) is AT
    assert final_at(then) is then.second
    assert final_at(TRIGGERS[When]) is None
    assert final_at(TRIGGERS[FirstUnseen]) is None


def test_triggers_are_described() -> None:
    once = At(Point.of({"op": "net.send", "loc": "m:f#1", "node": "n1"}))
    often = At(once.point, "after", 4)
    assert describe_trigger(once) == "before net.send at m:f#1 on n1"
    assert describe_trigger(often) == "after net.send at m:f#1 on n1 (occurrence 4)"
    assert describe_trigger(Then(often, once)) == (
        "before net.send at m:f#1 on n1, once after net.send at m:f#1 on n1 (occurrence 4) was seen"
    )
    assert describe_trigger(Then(often, once, same="node")).endswith("(occurrence 4) was seen on the same node")
    assert describe_trigger(When((Compare("x", ">", other="y"),))) == "when x is more than y"
    assert describe_trigger(When((Compare("n1.view[n2]", "==", None),))) == "when n1.view[n2] is ∅"
    assert describe_trigger(FirstUnseen(("op", "loc"))) == "before the first unseen op+loc"
    assert describe_trigger(FirstUnseen(("stack",), involves=("n1",))) == "before a message from or to n1"
    healed = FirstUnseen(("stack",), (Point.of({"stack": "a"}),), involves=("n1", "n2"))
    assert describe_trigger(healed) == "before a message from or to n1 and n2, except 1 kind of message"
    kind = Point.of({"op": "net.send", "node": "n1", "target": "peer:n3", "loc": "m:ask#1", "stack": "b", "state": "LEFT, ∅"})
    wanted = msgspec.structs.replace(healed, wanted=kind)
    assert describe_trigger(wanted) == "before a message from or to n1 and n2 like that of n1 to n3 in m:ask#1 while LEFT, ∅"


def test_a_plan_describes_its_steps_in_order() -> None:
    one, two = Step(AT, Crash()), Step(AT, Delay())
    assert str(Plan((one, two))) == f"{describe_step(one)}, then {describe_step(two)}"
    assert str(Plan()) == "no fault"
    assert describe_step(Step(AT, Crash(), alike=(("n1", "n2"),))) == f"{describe_step(one)}, whichever nodes these are"
    bound = msgspec.structs.replace(two, same="process", until=AT)
    assert describe_step(bound).startswith(f"{describe_step(two)}, in the process of the step before, until ")


def test_a_control_has_the_same_moments_and_no_fault() -> None:
    plan = Plan(
        (
            Step(AT, Delay(mode="operation"), until=TRIGGERS[Then]),
            Step(TRIGGERS[When], Crash(("n2",)), same="node"),
        ),
        3,
        "x",
        "y",
    )
    assert [step.fault for step in plan.control.steps] == [Hold("delay-operation"), Hold("crash")]
    assert [(s.trigger, s.until, s.same) for s in plan.control.steps] == [
        (s.trigger, s.until, s.same) for s in plan.steps
    ]
    assert (plan.control.seed, plan.control.strategy) == (3, "x")


# --- bound steps

ON_1, ON_2, ANYWHERE = At(point(node="n1")), At(point(node="n2")), At(Point.of({"op": "file.write"}))
BY_CLIENT = At(client_point("put", "n1"))


@for_each(
    ("steps", "why"),
    [
        ([Step(ON_1, Delay(), same="node")], "step 1 can never fire: it must be on the node of the step before, and no step"),
        ([Step(ON_1, Crash()), Step(ON_1, Delay(), same="process")], "step 2 .* step 1 ends the process in which it must fire"),
        ([Step(ON_1, Reboot()), Step(ANYWHERE, Delay(), same="process")], "step 1 ends the process"),
        ([Step(ON_1, Crash(("n1", "n2"))), Step(ANYWHERE, Delay(), same="process")], "step 1 ends the process"),
        ([Step(ON_1, Crash()), Step(ON_1, Delay(), same="node")], "the node on which it must fire stays down after step 1"),
        ([Step(ON_1, Delay()), Step(ON_2, Delay(), same="process")], "it and step 1 must have the same process.* n1 and n2"),
        ([Step(ON_1, Delay()), Step(At(Point.of({"role": "proxy"})), Delay(), same="node")], "name the roles server and proxy"),
        ([Step(BY_CLIENT, Pause(nodes=("n1",))), Step(ON_1, Delay(), same="node")], "a moment of the clients"),
        ([Step(At(phase_point(REST)), Hold()), Step(ON_1, Delay(), same="node")], "a moment of the clients or of the run"),
        ([Step(Then(ON_1, ON_2, same="node"), Delay())], "step 1 can never fire: the halves of its trigger .* n1 and n2"),
        ([Step(ON_1, Delay(), until=Then(BY_CLIENT, ON_1, same="process"))], "the fault of step 1 can never end: the halves"),
        (
            [Step(ON_1, Delay()), Step(ANYWHERE, Crash(("n1",)), same="node"), Step(ANYWHERE, Delay(), same="process")],
            "step 3 .* step 2 ends the process",
        ),
    ],
)
def test_a_binding_that_can_never_hold_is_explained(steps: list[Step], why: str) -> None:
    assert re.search(why, unbindable(Plan(tuple(steps))))


@for_each(
    "steps",
    [
        [Step(ON_1, Delay()), Step(ON_1, Delay(), same="process")],
        [Step(ON_1, Reboot()), Step(ON_1, Delay(), same="node")],
        [Step(ON_1, Crash(), until=ON_2), Step(ON_1, Delay(), same="node")],
        [Step(ON_1, Crash(("n2",))), Step(ON_1, Delay(), same="process")],
        [Step(ON_1, Crash()), Step(ON_1, Delay())],
        [Step(Then(ON_1, ANYWHERE, same="process"), Crash())],
        [Step(Then(BY_CLIENT, ON_1), Crash())],
    ],
)
def test_other_bindings_may_hold(steps: list[Step]) -> None:
    assert unbindable(Plan(tuple(steps))) == ""
