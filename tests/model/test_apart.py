"""Plans that read alike, and the words that tell them apart."""

from __future__ import annotations

from undermine.model.faults import Crash
from undermine.model.plan import At, Plan, Step, Then
from undermine.model.point import Point, stack_id
from undermine.model.predictions.apart import told_apart
from undermine.testing import event, point_of

A = ("io:write#1", "app:save#1", "app:main#1")
B = ("io:write#1", "app:load#2", "app:main#1")
C = ("io:write#1", "app:save#1", "app:stop#3")
STACKS = {stack_id(stack): stack for stack in (A, B, C)}


def at(stack: tuple[str, ...], target: str = "data") -> Point:
    return point_of(event(loc="io:write#1", target=target, stack=stack))


def crash(stack: tuple[str, ...], target: str = "data", why: str = "", seed: int = 0) -> Plan:
    return Plan((Step(At(at(stack, target)), Crash()),), seed, "some", why)


def test_a_plan_with_its_own_text_or_reason_needs_no_words() -> None:
    assert told_apart([crash(A), crash(A, "other"), crash(B, why="because")], STACKS) == {}
    assert told_apart([crash(A), crash(A)], STACKS) == {}, "one plan twice"


def test_the_innermost_caller_that_differs_is_named_and_shared_ones_are_not() -> None:
    one, other = crash(A), crash(B)
    assert told_apart([one, other], STACKS) == {one.id: "called by app:save#1", other.id: "called by app:load#2"}


def test_callers_are_added_until_all_plans_differ() -> None:
    plans = [crash(A), crash(B), crash(C)]
    assert list(told_apart(plans, STACKS).values()) == [
        "called by app:save#1, from app:main#1",
        "called by app:load#2, from app:main#1",
        "called by app:save#1, from app:stop#3",
    ]


def test_both_halves_of_a_trigger_are_told_apart() -> None:
    def pair(first: tuple[str, ...], second: tuple[str, ...]) -> Plan:
        return Plan((Step(Then(At(at(first), "after"), At(at(second))), Crash()),))

    one, other = pair(A, A), pair(B, A)
    words = told_apart([one, other], STACKS)
    assert words[one.id] == "the operation before is called by app:save#1"
    one, other = pair(A, A), pair(B, B)
    assert told_apart([one, other], STACKS)[one.id] == "called by app:save#1", "the same callers are named once"


def test_plans_without_known_callers_are_told_apart_by_their_ids() -> None:
    one, other, unknown = crash(A, seed=1), crash(A, seed=2), crash(B)
    assert told_apart([one, other], STACKS) == {one.id: f"plan {one.id}", other.id: f"plan {other.id}"}
    words = told_apart([one, unknown], {})
    assert words == {one.id: f"plan {one.id}", unknown.id: f"plan {unknown.id}"}
