"""Policies decide which plans are run, and name the rule that drops a plan."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import msgspec
import pytest

from undermine.model.errors import UserError
from undermine.model.faults import Crash, Fault, Reboot
from undermine.model.plan import At, Plan, Step
from undermine.policies.plan_view import PlanView, plan_view
from undermine.policies.pruning import (
    DROPPED_MAX,
    Example,
    Policy,
    Pruned,
    Refusal,
    cluster_policy,
    compose,
    explain,
    filter_policy,
    prune,
    refusals,
)
from undermine.protocols import Dropped
from undermine.testing import point


def plan(number: int, strategy: str = "random") -> Plan:
    return Plan((Step(At(point(), nth=number), Crash()),), 0, strategy)


def pair(*args, **more) -> tuple[list[Plan], list[Dropped]]:
    made = prune(*args, **more)
    return list(made.kept), list(made.dropped)


def keep_all(plans: Sequence[Plan]) -> list[str]:
    return [""] * len(plans)


def test_fresh_plans_are_kept_in_their_order() -> None:
    plans = [plan(3), plan(1), plan(2)]
    assert pair(plans, {}, keep_all) == (plans, [])


def test_a_plan_that_the_strategy_proposed_before_is_dropped() -> None:
    kept, dropped = pair([plan(1), plan(2)], {plan(1).id}, keep_all)
    assert kept == [plan(2)]
    assert [(d.plan, d.rule) for d in dropped] == [(plan(1), "already proposed")]


def test_a_plan_that_is_proposed_twice_runs_once() -> None:
    twin = msgspec.structs.replace(plan(1), why="another reason")
    kept, dropped = pair([plan(1), twin], {}, keep_all)
    assert kept == [plan(1)]
    assert [(d.plan, d.rule) for d in dropped] == [(twin, "already proposed")]


def test_the_users_policies_are_asked_only_about_fresh_plans_and_name_themselves() -> None:
    asked: list[Plan] = []

    def user(plans: Sequence[Plan]) -> list[str]:
        asked.extend(plans)
        return ["no_twos" if p == plan(2) else "" for p in plans]

    kept, dropped = pair([plan(1), plan(2), plan(3)], {plan(1).id: "random"}, user)
    assert asked == [plan(2), plan(3)]
    assert kept == [plan(3)]
    assert [d.rule for d in dropped] == ["already proposed", "policy no_twos"]


def test_the_callers_table_of_taken_plans_is_not_changed() -> None:
    taken: dict[str, str] = {}
    pair([plan(1)], taken, keep_all)
    assert taken == {}


def test_too_few_answers_of_policies_raise_an_error() -> None:
    with pytest.raises(ValueError, match="shorter"):
        pair([plan(1), plan(2)], {}, lambda plans: [""])


def test_no_proposed_plans_means_no_kept_plans() -> None:
    assert pair([], {}, keep_all) == ([], [])


# --- composition


def at(name: str, node: str = "n1", fault: Fault | None = None) -> Step:
    return Step(At(point(node=node, loc=f"app:{name}#1")), fault or Crash())


def many(count: int, classes: int) -> list[Plan]:
    """Plans of two steps; the last step decides their class."""
    return [Plan((at(f"first{i}"), at(f"last{i % classes}"))) for i in range(count)]


def by_last(fs: PlanView) -> str:
    return fs.last["loc"]


def alike(a: PlanView, b: PlanView) -> bool:
    return a.last["loc"] == b.last["loc"]


def no_reboots(fs: PlanView) -> bool:
    return all(task["failure"] != "reboot" for task in fs)


def refuses(*names: str) -> Policy:
    return filter_policy(lambda fs: fs.last["func"].removeprefix("app:") not in names, f"not {'/'.join(names)}")


def test_without_policies_all_plans_are_kept() -> None:
    plans = many(3, 1)
    assert compose([], plans, 0) == Pruned(tuple(plans))


def test_a_filter_refuses_plans_one_by_one_and_is_named() -> None:
    plans = [Plan((at("a"),)), Plan((at("a", fault=Reboot()),)), Plan((at("b"),))]
    pruned = compose([filter_policy(no_reboots)], plans, 0)
    assert pruned.kept == (plans[0], plans[2])
    assert pruned.dropped == (Dropped(plans[1], "no_reboots"),)
    assert pruned.counts == {"no_reboots": 1}


@pytest.mark.parametrize("function", [by_last, alike])
def test_a_cluster_keeps_one_plan_of_each_class_and_names_the_representative(function) -> None:
    plans = many(12, 3)
    pruned = compose([cluster_policy(function)], plans, 0)
    assert sorted(plan_view(p).last["loc"] for p in pruned.kept) == ["app:last0#1", "app:last1#1", "app:last2#1"]
    assert pruned.counts == {function.__name__: 9}
    ids = {p.id: p for p in pruned.kept}
    assert {d.plan.id for d in pruned.dropped} == {p.id for p in plans} - set(ids)
    for one in pruned.dropped:
        assert plan_view(ids[one.instead]).last == plan_view(one.plan).last
    assert pruned.stands == {name: str(p) for name, p in ids.items()}


@pytest.mark.parametrize("function", [by_last, alike])
def test_the_representative_depends_on_the_seed_and_not_on_the_order(function) -> None:
    plans = many(40, 4)
    shuffled = random.Random(1).sample(plans, len(plans))
    policy = cluster_policy(function)
    chosen = {seed: frozenset(p.id for p in compose([policy], plans, seed).kept) for seed in range(8)}
    assert all(chosen[s] == {p.id for p in compose([policy], shuffled, s).kept} for s in chosen)
    assert len(set(chosen.values())) > 4
    first = {p.id for p in plans[:4]}
    assert any(not first & ids for ids in chosen.values()), "not just the first ones"


def test_classes_are_in_the_order_of_their_first_members() -> None:
    """Sequences are proposed in order of value, so the representative takes the place of its class's first member."""
    plans = many(30, 7)
    left = compose([cluster_policy(by_last)], plans, 3).kept
    assert [by_last(plan_view(p)) for p in left] == list(dict.fromkeys(by_last(plan_view(p)) for p in plans))


def test_sequences_of_different_lengths_are_never_alike() -> None:
    plans = [Plan((at("x"),)), Plan((at("y"), at("x")))]
    assert compose([cluster_policy(by_last)], plans, 0).kept == tuple(plans)
    assert compose([cluster_policy(alike)], plans, 0).kept == tuple(plans)


def test_policies_are_applied_in_order_and_the_order_matters() -> None:
    plans = [Plan((at("a"), at("x"))), Plan((at("a", fault=Reboot()), at("x")))]
    filters, clusters = filter_policy(no_reboots), cluster_policy(by_last)
    seed = next(s for s in range(100) if compose([clusters], plans, s).kept == (plans[1],))
    assert compose([filters, clusters], plans, seed).kept == (plans[0],)
    both = compose([clusters, filters], plans, seed)
    assert both.kept == ()
    rules = {d.plan: (d.rule, d.instead) for d in both.dropped}
    assert rules == {plans[0]: ("by_last, then no_reboots", ""), plans[1]: ("no_reboots", "")}


def test_a_dropped_representative_is_followed_to_its_own_representative() -> None:
    def by_first_letter(fs: PlanView) -> str:
        return fs.last["func"][: len("app:x")]

    plans = [Plan((at(f"{i}"), at(name))) for i in range(5) for name in ("xa", "xb")]
    pruned = compose([cluster_policy(by_last), cluster_policy(by_first_letter)], plans, 0)
    (winner,) = pruned.kept
    assert {d.instead for d in pruned.dropped} == {winner.id}
    assert pruned.counts == {"by_last": 8, "by_first_letter": 1}
    assert {d.rule for d in pruned.dropped} == {"by_last", "by_last, then by_first_letter", "by_first_letter"}


def test_a_policy_may_consist_of_others() -> None:
    policy = msgspec.structs.replace(filter_policy(no_reboots), then=(cluster_policy(by_last),))
    plans = [*many(4, 1), Plan((at("a", fault=Reboot()), at("last0")))]
    assert compose([policy], plans, 0).counts == {"no_reboots": 1, "by_last": 3}


@pytest.mark.parametrize("function", [by_last, alike])
def test_an_earlier_run_represents_its_class(function) -> None:
    before, again, new = many(3, 1)[:2], many(3, 1)[2], Plan((at("p"), at("q")))
    pruned = compose([cluster_policy(function)], [again, new], 0, before)
    assert pruned.kept == (new,)
    assert [(d.plan, d.instead) for d in pruned.dropped] == [(again, before[0].id)]
    assert pruned.stands == {before[0].id: str(before[0])}


def test_plans_are_consumed_one_by_one_and_only_one_per_class_is_kept_in_memory() -> None:
    alive: set[int] = set()
    most = 0

    class Watched(str):
        """Part of a plan that notes when the plan is garbage-collected."""

        def __del__(self) -> None:
            alive.discard(id(self))

    def stream() -> Iterator[Plan]:
        nonlocal most
        for i in range(3000):
            why = Watched(i)
            alive.add(id(why))
            made = Plan((at(f"first{i % 50}"), at(f"last{i % 5}")), i, "", why)
            del why
            yield made
            most = max(most, len(alive))

    pruned = compose([filter_policy(lambda fs: fs.seed % 2 == 0, "even"), cluster_policy(by_last)], stream(), 0, (), 10)
    assert len(pruned.kept) == 5
    assert pruned.counts == {"even": 1500, "by_last": 1495}
    assert len(pruned.dropped) == 20
    assert most < 100


def test_a_hundred_thousand_sequences_are_clustered_by_key() -> None:
    firsts, lasts = [at(f"first{i}") for i in range(1000)], [at(f"last{i}") for i in range(100)]
    plans = (Plan((a, b)) for a in firsts for b in lasts)
    pruned = compose([cluster_policy(by_last)], plans, 0)
    assert len(pruned.kept) == 100
    assert pruned.counts == {"by_last": 99_900}
    assert len(pruned.dropped) == DROPPED_MAX


# --- policies that go wrong


def raises(fs: PlanView) -> bool:
    raise ValueError("my mistake")


def asks_for_what_is_not_there(fs: PlanView) -> bool:
    return fs.last["colour"] == "red"


def forgets(fs: PlanView) -> None: ...


def forgets_both(a: PlanView, b: PlanView) -> None: ...


def not_hashable(fs: PlanView) -> list[str]:
    return [fs.last["loc"]]


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        (filter_policy(raises), r"policy raises raised ValueError: my mistake \(line \d+\) for \"crash before"),
        (cluster_policy(raises), "policy raises raised ValueError"),
        (filter_policy(asks_for_what_is_not_there), "KeyError: a step has no key 'colour'; its keys are op, loc"),
        (filter_policy(forgets), "policy forgets returned nothing"),
        (cluster_policy(forgets), "policy forgets returned nothing"),
        (cluster_policy(forgets_both), "policy forgets_both returned nothing"),
        (cluster_policy(not_hashable), r"returned \['app:last0#1'\], which is not hashable"),
    ],
)
def test_a_failing_policy_is_reported_by_name(policy: Policy, why: str) -> None:
    with pytest.raises(UserError, match=why):
        compose([policy], many(3, 1), 0)


def test_a_policys_answer_is_shortened_and_made_printable() -> None:
    def loud(fs: PlanView) -> bool:
        raise ValueError("\x1b[31m" + "x" * 10_000)

    with pytest.raises(UserError) as caught:
        compose([filter_policy(loud)], many(1, 1), 0)
    assert len(str(caught.value)) < 700
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("function", [lambda: True, lambda a, b, c: True])
def test_a_cluster_takes_one_sequence_or_two(function) -> None:
    with pytest.raises(UserError, match=r"takes \d plans; let it take one"):
        cluster_policy(function)


def test_a_cluster_may_have_its_own_settings() -> None:
    def key(fs: PlanView, *, depth: int = 2) -> int:
        return depth

    def pair(a: PlanView, b: PlanView, depth: int = 2) -> bool:
        return True

    assert (cluster_policy(key).kind, cluster_policy(pair).kind) == ("key", "cluster")


# --- answers and explanations


def test_shipped_policies_come_before_the_users() -> None:
    plans = [Plan((at(name),)) for name in "abcd"]
    asked: list[Plan] = []

    def user(given):
        asked.extend(given)
        return [Refusal("mine", plans[3].id) if p == plans[2] else Refusal("") for p in given]

    kept, dropped = pair(iter(plans), {plans[0].id}, user, [refuses("b")])
    assert asked == [plans[2], plans[3]]
    assert kept == [plans[3]]
    assert [(d.plan, d.rule, d.instead) for d in dropped] == [
        (plans[1], "policy not b", ""),
        (plans[0], "already proposed", plans[0].id),
        (plans[2], "policy mine", plans[3].id),
    ]


def test_policies_also_refuse_plans_that_were_already_run() -> None:
    """Otherwise the strategy would extend the run of a plan that no policy would have kept."""
    plans = [Plan((at(name),)) for name in "ab"]
    kept, dropped = pair(iter(plans), {p.id for p in plans}, keep_all, [refuses("b")])
    assert kept == []
    assert [(d.plan, d.rule) for d in dropped] == [(plans[1], "policy not b"), (plans[0], "already proposed")]


@pytest.mark.parametrize("seed", range(5))
def test_a_plan_that_was_already_run_represents_its_class(seed: int) -> None:
    plans = [Plan((at("a", node),)) for node in ("n1", "n2", "n3")]
    tried = {plans[1].id}
    kept, dropped = pair(
        iter(plans), {}, keep_all, [cluster_policy(by_loc)], seed, tried=lambda plan: plan.id in tried
    )
    assert kept == [plans[1]]
    assert [(d.plan, d.instead) for d in dropped] == [(plans[0], plans[1].id), (plans[2], plans[1].id)]


def by_loc(fs: PlanView) -> str:
    return str(fs.last["loc"])


def test_earlier_runs_of_another_length_are_not_asked_about() -> None:
    def key(fs: PlanView) -> str:
        assert len(fs) == 2
        return by_last(fs)

    earlier = [Plan((at("a"),)), Plan((at("a"), at("x")))]
    pruned = compose([cluster_policy(key)], [Plan((at("b"), at("x"))), Plan((at("b"), at("y")))], 0, earlier)
    assert [p.steps[1] for p in pruned.kept] == [at("y")]


def test_every_plan_has_its_answer_in_order() -> None:
    plans = [Plan((at(name, node),)) for node in ("n1", "n2") for name in "ab"]
    pruned = compose([refuses("b"), cluster_policy(by_last)], plans, 0)
    (left,) = pruned.kept
    answers = refusals(pruned, plans)
    assert [one.rule for one in answers[1::2]] == ["not b", "not b"]
    assert sorted(answers[0::2]) == [Refusal(""), Refusal("by_last", left.id)]


def test_pruning_is_explained_by_policy_with_examples() -> None:
    plans = [*many(30, 1), Plan((at("x"), at("b")))]
    pruned = compose([refuses("b"), cluster_policy(by_last)], plans, 0)
    (left,) = pruned.kept
    told = explain(pruned, examples_max=3)
    assert [(one.policy, one.count, len(one.examples)) for one in told] == [("not b", 1, 1), ("by_last", 29, 3)]
    assert told[0].examples == (Example(str(plans[-1])),)
    assert {one.instead for one in told[1].examples} == {f"{left.id} {left}"}


def test_every_dropped_plan_of_a_campaign_can_be_explained() -> None:
    plans = [*many(6, 2), Plan((at("x"), at("b"))), Plan((at("y"), at("mine")))]

    def user(given):
        return [Refusal("own, then other") if plan_view(p).last["func"] == "app:mine" else Refusal("") for p in given]

    pruned = prune(plans, {plans[0].id}, user, [refuses("b"), cluster_policy(by_last)])
    assert pruned.counts == {"policy not b": 1, "policy by_last": 4, "already proposed": 1, "policy own": 1}
    told = {one.policy: one for one in explain(pruned)}
    assert {name: one.count for name, one in told.items()} == pruned.counts
    stand = {f"{p.id} {p}" for p in (*pruned.kept, plans[0])}
    assert {one.instead for one in told["policy by_last"].examples} == stand
    assert told["already proposed"].examples == (Example(str(plans[0]), f"{plans[0].id} {plans[0]}"),)
