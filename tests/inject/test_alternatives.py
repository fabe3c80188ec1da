"""Steps whose nodes may take each other's place."""

from __future__ import annotations

from undermine.inject.alternatives import ALTERNATIVES_MAX, expanded
from undermine.inject.compile import unsupported
from undermine.model.faults import Crash, Partition
from undermine.model.plan import At, Compare, FirstUnseen, Plan, Step, When
from undermine.model.point import Point
from undermine.testing import point

NODES = ("n1", "n2", "n3")
LEADS = When((Compare("n1.leader", "==", "n1"), Compare("n2.leader", "==", None)))


def alike(trigger: When = LEADS, *nodes: str, group: tuple[str, ...] = NODES) -> Plan:
    return Plan((Step(trigger, Partition(nodes or ("n1",)), alike=(group,)),))


def test_each_choice_of_nodes_is_an_alternative_and_the_plan_itself_comes_first() -> None:
    found = expanded(alike()).compiled.steps
    assert found[0] == Step(LEADS, Partition(("n1",)))
    assert found[-1] == Step(
        When((Compare("n3.leader", "==", "n3"), Compare("n2.leader", "==", None))), Partition(("n3",))
    )
    assert len(set(found)) == 6


def test_alternatives_that_begin_alike_and_hit_the_same_nodes_are_one() -> None:
    one = When((Compare("n1.leader", "==", "n1"),))
    assert len(expanded(alike(one)).compiled.steps) == 3
    assert len(expanded(alike(one, "n2", "n3")).compiled.steps) == 3, "n2 and n3 are hit together"


def test_keys_values_and_messages_name_the_other_nodes_too() -> None:
    trigger = When((Compare("n1.view[n3]", "==", "{n1, n2}"), Compare("n2.view[n3]", "!=", other="n1.view[n3]")))
    seen = (Point.of({"node": "n1", "target": "tell peer:n2", "stack": "n1", "state": "n1, NORMAL"}),)
    until = FirstUnseen(("node", "target", "stack", "state"), seen, state=(("n1.view[n3]",),), involves=("n1",))
    other = Step(trigger, Partition(("n1",)), until).renamed({"n1": "n3", "n3": "n1"})
    assert other.trigger == When((Compare("n3.view[n1]", "==", "{n2, n3}"), Compare("n2.view[n1]", "!=", other="n3.view[n1]")))
    assert other.until == FirstUnseen(
        ("node", "target", "stack", "state"),
        (Point.of({"node": "n3", "target": "tell peer:n2", "stack": "n1", "state": "n3, NORMAL"}),),
        state=(("n3.view[n1]",),),
        involves=("n3",),
    )


def test_names_are_whole_words() -> None:
    state = (Compare("n1.leader", "==", "n10"), Compare("n1.peer", "==", "a-n1 n1:80"))
    (first, second) = Step(When(state), Crash()).renamed({"n1": "n2"}).trigger.state  # type: ignore[union-attr]
    assert (first.value, second.value) == ("n10", "a-n1 n2:80")


def test_the_record_has_the_plan_as_it_ran() -> None:
    plan = expanded(alike())
    number = next(n for n, step in enumerate(plan.compiled.steps) if step.fault == Partition(("n3",)))
    ran, exchanged = plan.as_run([number])
    assert (ran.steps, exchanged["n1"]) == ((plan.compiled.steps[number],), "n3")
    assert plan.step_of(number) == 0
    assert plan.as_run([]) == (plan.planned, {})


def test_other_plans_have_no_alternatives() -> None:
    plan = Plan((Step(At(point()), Crash()), Step(At(point()), Crash())))
    assert expanded(plan).compiled is plan
    assert expanded(plan).as_run([0, 1]) == (plan, {})
    assert [expanded(plan).step_of(number) for number in (0, 1)] == [0, 1]


def test_large_roles_have_a_limited_number_of_alternatives() -> None:
    group = tuple(f"n{number}" for number in range(1, 41))
    assert len(expanded(alike(group=group)).compiled.steps) == ALTERNATIVES_MAX


def test_all_nodes_that_may_take_a_place_need_the_variables() -> None:
    variables = dict.fromkeys(("n1.leader", "n2.leader"), False)
    assert unsupported(alike(group=("n1", "n2")), None, variables=variables) == ""
    assert unsupported(alike(), None, variables=variables) == "no variable n3.leader is configured"
    (step,) = alike().steps
    assert "only in a plan with one step" in unsupported(Plan((step, step)), None, variables=variables)
