"""The shipped policies, each on a small example; those of the paper on the paper's own examples."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path

import pytest
from tables import for_each

from undermine.analysis.possible_faults import AT_REST
from undermine.model.errors import UserError
from undermine.model.faults import Corrupt, Crash, Delay, Drop, Error, Fault, Pause, PowerLoss, Reboot
from undermine.model.plan import At, Place, Plan, Step
from undermine.model.point import Point, client_point
from undermine.policies.library import DEFAULT, SHIPPED, FailureModel, parse_policy
from undermine.policies.plan_view import CampaignProfiles, PlanView, all_points, plan_view, using
from undermine.policies.pruning import Policy, cluster_policy, compose, filter_policy
from undermine.protocols import Profile
from undermine.testing import point
from undermine.userland import registry

RACKS = {"r1": ("n1", "n2"), "r2": ("n3", "n4")}


def step(at: Point, fault: Fault | None = None, **more) -> Step:
    return Step(At(at, **more), fault or Crash())


def plan(*steps: Step) -> Plan:
    return Plan(steps)


def kept(policy: str | Policy, *plans: Plan, seed: int = 0) -> list[Plan]:
    made = parse_policy(policy, RACKS) if isinstance(policy, str) else policy
    return list(compose([made], plans, seed).kept)


def keeps(policy: str, *steps: Step) -> bool:
    return bool(kept(policy, plan(*steps)))


def on(node: str, loc: str = "app:f#1", op: str = "file.write", target: str = "data", **more: str) -> Point:
    return Point.of(point(op, node, loc, target).as_dict() | more)


# --- figure 4 and fault types


@pytest.fixture
def in_setup() -> Iterator[Point]:
    """A point that is reached while `setup` is executed."""
    inside = on("n1", "app:forward#1")
    frames = {inside: ("app:forward", "app:Pipeline.setup", "app:main")}
    with using(CampaignProfiles(frames=lambda at: frames.get(at, ()))):
        yield inside


def test_figure_4_only_crashes_within_a_function(in_setup: Point) -> None:
    outside = on("n1", "app:transfer#1")
    assert keeps("only_in(setup)", step(in_setup), step(in_setup, Reboot()))
    assert not keeps("only_in(setup)", step(in_setup), step(outside))
    assert not keeps("only_in(setup)", step(in_setup, Error("EIO")))
    assert keeps("only_in(setup, disk)", step(in_setup, Error("EIO")))
    assert not keeps("only_in(setup, disk)", step(in_setup))


@pytest.mark.parametrize(
    ("function", "found"), [("app:Pipeline.setup", True), ("Pipeline.setup", True), ("up", False), ("Pipeline", False)]
)
def test_a_function_is_named_by_its_last_words(in_setup: Point, function: str, found: bool) -> None:
    assert keeps(f"only_in({function})", step(in_setup)) == found


def test_a_policy_may_keep_only_some_types_of_faults() -> None:
    read = on("n1", op="file.read")
    assert keeps("fault_types(crash, disk)", step(read), step(read, Error("EIO")))
    assert not keeps("fault_types(crash, disk)", step(read), step(read, Delay()))


# --- figure 7 and any k nodes


def test_figure_7_the_same_failures_on_other_nodes_are_one_class() -> None:
    d = {node: step(on(node, "hdfs:write#1")) for node in ("n1", "n2", "n3")}
    e = step(on("n2", "hdfs:ack#1"))
    pairs = [plan(d["n1"], d["n2"]), plan(d["n2"], d["n3"]), plan(d["n1"], e), plan(d["n3"], e)]
    left = kept("any_nodes", *pairs)
    assert len(left) == 2
    assert {p in pairs[:2] for p in left} == {True, False}
    other_fault = plan(d["n1"], step(on("n3", "hdfs:write#1"), Reboot()))
    assert len(kept("any_nodes", pairs[0], other_fault)) == 2


def test_any_k_nodes_treats_nodes_as_equal_but_not_one_node_as_two() -> None:
    def sends(a: str, b: str) -> Plan:
        return plan(step(on(a, op="net.send", target=f"peer:{b}")), step(on(b)))

    assert len(kept("any_k_nodes(2)", sends("n1", "n2"), sends("n2", "n3"), sends("n3", "n1"))) == 1
    same, two = plan(step(on("n1"), Reboot()), step(on("n1"))), plan(step(on("n1"), Reboot()), step(on("n2")))
    assert len(kept("any_k_nodes(2)", same, two)) == 2
    assert len(kept("any_nodes", same, two)) == 1
    assert kept("any_k_nodes(1)", same, two) == [same]


def test_any_k_nodes_looks_at_the_nodes_that_faults_and_clients_name() -> None:
    rack, other = Crash(("n1", "n2")), Crash(("n3", "n4"))
    assert len(kept("any_k_nodes(2)", plan(step(on("n1"), rack)), plan(step(on("n3"), other)))) == 1
    assert len(kept("any_k_nodes(2)", plan(step(on("n1"), rack)), plan(step(on("n1"), other)))) == 2
    assert kept("any_k_nodes(1)", plan(step(on("n1"), rack))) == []
    put = [plan(step(client_point("put", node), Crash((node,)))) for node in ("n1", "n2")]
    assert len(kept("any_k_nodes(1)", *put)) == 1


# --- figures 8 and 9


def test_figure_8_keeps_new_points_and_drops_explored_ones() -> None:
    with using(CampaignProfiles(injected=[on("n1", "app:old#1")])):
        assert not keeps("new_location", step(on("n2", "app:old#1")))
        assert keeps("new_location", step(on("n2", "app:new#1")))
        assert keeps("new_location", step(on("n1", "app:old#1")), step(on("n1", "app:new#1")))
        assert not keeps("new_location", step(on("n1", "app:new#1")), step(on("n1", "app:old#1")))


def test_figures_8_and_9_together_try_each_new_location_once() -> None:
    first = step(on("n1", "app:old#1"))
    plans = [plan(first, step(on(node, f"app:{name}#1"))) for name, node in product(("old", "m", "n"), ("n1", "n2"))]
    with using(CampaignProfiles(injected=[on("n1", "app:old#1")])):
        pruned = compose([parse_policy("new_location"), parse_policy("same_location")], plans, 0)
    assert [p.steps[-1].trigger.point["loc"] for p in pruned.kept] == ["app:m#1", "app:n#1"]
    assert pruned.counts == {"new_location": 2, "same_location": 2}


# --- figures 5 and 10 to 13: the recovery of the paper's table 2 and figure 12


def io(name: str, node: int, generation: int = 1) -> Point:
    return on(f"n{node}", f"hdfs:{name}#1", "net.send", f"generation {generation}")


def ios(names: str, nodes: Iterable[int]) -> set[Point]:
    """A point of recovery: an operation that recovery repeats has another context than without a fault."""
    return {io(name, node, 2) for name in names for node in nodes}


def others(node: int) -> list[int]:
    return [other for other in (1, 2, 3) if other != node]


def recovery_of(name: str, node: int) -> set[Point]:
    """A crash during pipeline setup starts again with a fourth node; after a later crash, the two nodes left continue."""
    if name in "AB":
        return ios("ABCDE", [*others(node), 4])
    extra = {("C", 1): "I", ("C", 2): "J"}.get((name, node), "")
    return ios("FG" + extra, others(node)) | ios("CDE", others(node))


WRITES = [*product("AC", (1, 2)), *product("BDE", (1, 2, 3))]
"""The 13 operations of the write protocol."""


@pytest.fixture
def writing() -> Iterator[None]:
    usual = frozenset(io(name, node) for name, node in WRITES)
    runs = {plan(step(io(*at))).steps_id: [Profile(usual | recovery_of(*at))] for at in WRITES}
    with using(CampaignProfiles(Profile(usual, usual, usual), runs)):
        yield


def then_crash_at_f(at: tuple[str, int]) -> Plan:
    return plan(step(io(*at)), step(io("F", 1, 2)))


@pytest.mark.usefixtures("writing")
@pytest.mark.parametrize(
    ("policy", "in_table_2", "in_figure_12", "after_d_and_e"),
    [
        ("recovery_by_location", 4, 4, 1),
        ("recovery_by_location_and_node", 6, 8, 3),
        ("recovery_by_everything", 6, 8, 3),
    ],
)
def test_the_recovery_classes_equal_those_of_the_paper(
    policy: str, in_table_2: int, in_figure_12: int, after_d_and_e: int
) -> None:
    table_2 = [("A", 1), ("B", 2), ("C", 1), ("C", 2), ("D", 1), ("E", 2)]
    assert len(kept(policy, *map(then_crash_at_f, table_2))) == in_table_2
    assert len(kept(policy, *map(then_crash_at_f, WRITES))) == in_figure_12
    assert len(kept(policy, *(then_crash_at_f(at) for at in product("DE", (1, 2, 3))))) == after_d_and_e


@pytest.mark.usefixtures("writing")
def test_recovery_classes_never_mix_different_last_faults() -> None:
    plans = [plan(step(io(*at)), step(io(name, 3, 2))) for at in WRITES for name in "FG"]
    assert len(kept("recovery_by_location", *plans)) == 8


@pytest.mark.usefixtures("writing")
def test_single_faults_are_all_kept_by_recovery_policies() -> None:
    plans = [plan(step(io(*at))) for at in WRITES]
    assert kept("recovery_by_location", *plans) == plans


@pytest.mark.parametrize("policy", ["recovery_by_function", "same_place"])
def test_a_first_fault_is_the_same_on_every_node_of_a_role(policy: str) -> None:
    plans = [plan(step(on(node, stack=way))) for node in ("n1", "n2") for way in ("x", "y")]
    assert len(kept(policy, *plans)) == 2
    others = [on("n1", role="other", stack="x"), on("n1", target="b", stack="x"), on("n1", "app:g#1", stack="x")]
    assert len(kept(policy, *plans, *(plan(step(at)) for at in others))) == 5


def test_recoveries_through_the_same_functions_are_one_class() -> None:
    again, later, elect = (on("n2", f"app:{name}#1") for name in ("again", "later", "elect"))
    frames = {again: ("app:save", "app:repair"), later: ("app:send", "app:repair"), elect: ("app:send", "app:elect")}
    usual = on("n2", "app:usual#1")
    shown = {"a": {again, later}, "b": {again, later, usual}, "c": {later, elect}}
    first = {name: step(on("n1", f"app:{name}#1")) for name in shown}
    runs = {plan(first[name]).steps_id: [Profile(frozenset(points))] for name, points in shown.items()}
    baseline = {usual: ("app:save", "app:send")}
    told = CampaignProfiles(
        Profile(frozenset(baseline)), runs, frames=lambda at: (frames | baseline).get(at, ())
    )
    plans = [plan(first[name], step(later)) for name in shown]
    with using(told):
        assert len(kept("recovery_by_function", *plans)) == 2
        assert len(kept("same_place", *plans, plan(first["c"], step(elect)))) == 2


def test_a_second_fault_of_the_same_node_is_another_class() -> None:
    first = step(on("n1", "app:write#1"))
    runs = {plan(first).steps_id: [Profile(frozenset({on("n2", "app:again#1")}))]}
    plans = [plan(first, step(on(node, "app:again#1", stack="x"))) for node in ("n1", "n2", "n3")]
    with using(CampaignProfiles(runs=runs)):
        again, other = sorted(p.steps[1].trigger.point["node"] for p in kept("recovery_by_function", *plans))
    assert again == "n1"
    assert other in ("n2", "n3")


def test_same_place_makes_one_class_of_a_place_in_all_recoveries() -> None:
    plans = [plan(step(on("n1", f"app:{name}#1")), step(on("n2", stack=name))) for name in "abc"]
    assert len(kept("same_place", *plans)) == 1
    assert len(kept("same_place", *plans, plan(step(on("n1")), step(on("n1"))))) == 2, "the same node again"


def test_in_recovery_requires_later_failures_in_recovery_code() -> None:
    first, usual, again = step(on("n1")), on("n2", "app:usual#1"), on("n2", "app:again#1")
    runs = {plan(first).steps_id: [Profile(frozenset({usual, again}))]}
    with using(CampaignProfiles(Profile(frozenset({usual})), runs)):
        assert keeps("in_recovery", first)
        assert keeps("in_recovery", first, step(again))
        assert not keeps("in_recovery", first, step(usual))
        assert not keeps("in_recovery", first, step(again), step(again)), "nobody has seen the recovery from both"


def test_more_context_distinguishes_more_recoveries() -> None:
    runs = {
        plan(step(on("n1", f"app:{name}#1"))).steps_id: [Profile(frozenset({on("n2", "app:again#1", target=name)}))]
        for name in "ab"
    }
    plans = [plan(step(on("n1", f"app:{name}#1")), step(on("n2", "app:again#1"))) for name in "ab"]
    with using(CampaignProfiles(runs=runs)):
        assert len(kept("recovery_by_location_and_node", *plans)) == 1
        assert len(kept("recovery_by_everything", *plans)) == 2


def test_a_recovery_without_a_profile_is_a_class_of_its_own() -> None:
    plans = [plan(step(on("n1", f"app:{name}#1")), step(on("n2"))) for name in "abc"]
    assert kept("recovery_by_location", *plans) == plans


def figure_5(fs1: PlanView, fs2: PlanView) -> bool:
    """The policy as the paper prints it."""

    def rec(fs: PlanView) -> frozenset[Point]:
        return all_points(fs) - all_points(())

    same = rec(fs1[:-1]) == rec(fs2[:-1])
    return same and fs1[-1] == fs2[-1] and len(fs1) >= 2 and len(fs2) >= 2


@pytest.mark.usefixtures("writing")
@pytest.mark.parametrize("seed", range(3))
def test_figure_5_as_printed_and_as_a_key_keep_the_same(seed: int) -> None:
    plans = [plan(step(io(*at)), step(io(name, 3, 2))) for at in WRITES for name in "FG"]
    assert kept(cluster_policy(figure_5), *plans, seed=seed) == kept("recovery_by_everything", *plans, seed=seed)


# --- figures 14, 16 and 17


def test_crashes_around_clients_operations_are_all_kept() -> None:
    """A node without an agent has no other points, and after an answer it has promised something."""
    at = client_point("put", "n1")
    for place in ("before", "after"):
        assert keeps("crash_before_writes", step(at, Crash(("n1",)), place=place))


def test_crashes_of_another_node_are_all_kept() -> None:
    """A broker that dies after a command of a worker has answered it."""
    for at in (on("n1", op="db.read"), on("n1", op="db.write"), AT_REST):
        for place in ("before", "after"):
            assert keeps("crash_before_writes", step(at, Crash(("redis",)), place=place))
    assert not keeps("crash_before_writes", step(on("n1", op="db.read"), Crash(("n1", "redis"))))



@pytest.mark.parametrize("fault", [Crash(), Reboot(), Crash(("n1", "n2"))])
def test_figure_14_crashes_only_before_writes(fault: Fault) -> None:
    write, read = on("n1"), on("n1", op="file.read")
    assert keeps("crash_before_writes", step(write, fault))
    assert not keeps("crash_before_writes", step(write, fault, place="after"))
    assert not keeps("crash_before_writes", step(write), step(read, fault))
    assert keeps("crash_before_writes", step(read, Error("EIO")), step(write, fault))


@pytest.mark.parametrize("place", ["before", "after"])
def test_a_power_loss_may_hurt_at_any_moment(place: Place) -> None:
    for op in ("file.write", "file.fsync", "net.send"):
        assert keeps("crash_before_writes", step(on("n1", op=op), PowerLoss(), place=place))


def to(node: str, peer: str) -> Point:
    return on(node, "app:send#1", "net.send", f"peer:{peer}")


def test_figure_16_no_crash_before_sending_to_the_dead() -> None:
    policy = "no_crash_towards_the_dead"
    assert not keeps(policy, step(on("n2")), step(to("n1", "n2")))
    assert not keeps(policy, step(on("n2")), step(to("n1", "n2"), Reboot()))
    assert keeps(policy, step(on("n2")), step(to("n1", "n3")))
    assert keeps(policy, step(to("n1", "n2")), step(on("n2"))), "it died later"
    assert keeps(policy, step(on("n2"), Reboot()), step(to("n1", "n2"))), "it is up again"
    assert keeps(policy, step(on("n2")), step(to("n1", "n2"), Delay())), "no crash"
    assert keeps(policy, step(on("n2")), step(on("n1"))), "no message"
    assert keeps(policy, step(on("n2")), step(to("n1", "n2"), Crash(("n1", "n3")))), "n3 dies with it"
    assert not keeps(policy, step(to("n3", "n1"), Crash(("n2", "n4"))), step(to("n1", "n4")))


@pytest.mark.parametrize(
    ("op", "fault"),
    [
        ("file.read", Error("EIO")),
        ("file.read", Corrupt()),
        ("net.recv", Error("ECONNRESET")),
        ("net.recv", Corrupt()),
    ],
)
def test_figure_17_only_the_first_of_continued_reads_fails(op: str, fault: Fault) -> None:
    first, second = on("n1", "app:header#1", op), on("n1", "app:body#1", op)
    both = frozenset({first, second})
    with using(CampaignProfiles(Profile(both, both, frozenset({first})))):
        assert keeps("first_reads_only", step(first, fault))
        assert not keeps("first_reads_only", step(second, fault))
        assert keeps("first_reads_only", step(second, Delay()))
        assert keeps("first_reads_only", step(second))


def test_the_run_that_showed_a_read_says_whether_it_is_a_first_read() -> None:
    read = on("n1", "app:body#1", "file.read")
    seen, crash = frozenset({read}), step(on("n2"))
    runs = {plan(crash).steps_id: [Profile(seen, seen, seen)]}
    with using(CampaignProfiles(Profile(seen, seen, frozenset()), runs)):
        assert not keeps("first_reads_only", step(read, Error("EIO")))
        assert keeps("first_reads_only", crash, step(read, Error("EIO")))


def test_first_reads_can_be_required_for_some_failures_only() -> None:
    read = on("n1", op="file.read")
    with using(CampaignProfiles(Profile(frozenset({read}), frozenset({read}), frozenset()))):
        assert not keeps("first_reads_only(disk)", step(read, Error("EIO")))
        assert keeps("first_reads_only(disk)", step(read, Corrupt()))
        assert keeps("first_reads_only(net)", step(read, Error("EIO")))


def test_no_network_failure_with_a_dead_node_at_either_end() -> None:
    policy, reset = "first_reads_only", Error("ECONNRESET")
    received = on("n1", "app:recv#1", "net.recv", "peer:n2")
    assert not keeps(policy, step(on("n2")), step(to("n1", "n2"), reset))
    assert not keeps(policy, step(on("n2")), step(received, reset))
    assert not keeps(policy, step(on("n2")), step(to("n1", "n2"), Drop()))
    assert keeps(policy, step(on("n3")), step(received, reset))
    assert keeps(policy, step(on("n2"), Reboot()), step(received, reset))
    assert keeps("first_reads_only(disk)", step(on("n2")), step(received, reset))


# --- probability and racks


def test_probability_depends_on_the_failures_and_on_the_racks() -> None:
    model = FailureModel(0.1, 0.5, 0.2, tuple(RACKS.values()))

    def chance(*steps: Step) -> float:
        return model.probability(plan_view(plan(*steps)))

    assert chance() == 1
    assert chance(step(on("n1"))) == pytest.approx(0.1)
    assert chance(step(on("n1")), step(on("n2"))) == pytest.approx(0.05)
    assert chance(step(on("n1")), step(on("n3"))) == pytest.approx(0.01)
    assert chance(step(on("n1"), Reboot()), step(on("n1"))) == pytest.approx(0.01)
    assert chance(step(on("n1"), Crash(("n1", "n2")))) == pytest.approx(0.05)
    assert chance(step(on("n1"), Error("EIO")), step(on("n1"), Pause())) == pytest.approx(0.02)


def test_only_likely_plans_are_kept() -> None:
    together, apart = (step(on("n1")), step(on("n2"))), (step(on("n1")), step(on("n3")))
    assert keeps("likely(0.02)", *together)
    assert not keeps("likely(0.02)", *apart)
    assert keeps("likely(0.02, node=0.3)", *apart)
    assert not keeps("likely(0.02, rack=0.1)", *together)
    assert not keeps("likely(0.1)", step(on("n1"))), "as likely as that is not more likely"


def test_a_policy_may_keep_failures_of_one_rack() -> None:
    assert keeps("same_rack", step(on("n1")), step(on("n2")))
    assert keeps("same_rack", step(on("n3"), Crash(("n3", "n4"))))
    assert not keeps("same_rack", step(on("n1")), step(on("n3")))
    assert not keeps("same_rack", step(on("n5")))
    assert not keeps("same_rack(r2)", step(on("n1")), step(on("n2")))
    assert keeps("same_rack(r1, r2)", step(on("n1")))


def test_a_policy_may_keep_failures_of_whole_racks() -> None:
    assert keeps("whole_racks", step(on("n1"), Crash(("n2", "n1"))))
    assert not keeps("whole_racks", step(on("n1")))
    assert not keeps("whole_racks(r2)", step(on("n1"), Crash(("n1", "n2"))))


# --- from a configuration


def test_every_shipped_policy_says_where_it_comes_from_what_it_does_and_how_it_is_written() -> None:
    for name, shipped in SHIPPED.items():
        assert shipped.name == name
        assert shipped.origin.startswith(("Figure", "Section"))
        assert shipped.summary.endswith(".")
        assert shipped.usage.startswith(name)
    assert SHIPPED["likely"].usage == "likely(threshold, node=0.1, rack=0.5, other=0.1)"
    assert SHIPPED["only_in"].usage == "only_in(function, failures…)"


def test_the_default_composition_is_made_of_shipped_ones() -> None:
    assert [parse_policy(text).name for text in DEFAULT] == list(DEFAULT)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("any_nodes", "any_nodes"),
        (" any_nodes ( ) ", "any_nodes"),
        ("only_in( setup )", "only_in(setup)"),
        ("only_in(function=app:Pipeline.setup)", "only_in(app:Pipeline.setup)"),
        ("fault_types(crash,disk)", "fault_types(crash, disk)"),
        ("any_k_nodes(k = 2)", "any_k_nodes(2)"),
        ("likely(1e-3, rack=0.9)", "likely(0.001)"),
    ],
)
def test_policies_are_written_by_name_with_arguments(text: str, name: str) -> None:
    assert parse_policy(text).name == name


@for_each(
    ("text", "why"),
    [
        ("any_node", r"did you mean any_nodes\?"),
        ("zzz", "there is no policy"),
        ("", "cannot be read"),
        ("any nodes", "cannot be read"),
        ("only_in(a(b))", "cannot be read"),
        ("only_in(setup", "cannot be read"),
        ("any_nodes(1)", "takes no argument"),
        ("only_in", "function is missing; write it as only_in"),
        ("only_in(a b)", '"a b" is not a name'),
        ("only_in(setup, crahs)", '"crahs" is unknown'),
        ("fault_types", "at least one"),
        ("fault_types(crash,)", "empty argument"),
        ("any_k_nodes(two)", "k must be a whole number"),
        ("any_k_nodes(0)", "at least 1"),
        ("any_k_nodes(1, 2)", "takes 1 argument"),
        ("any_k_nodes(1, k=2)", "given twice"),
        ("any_k_nodes(n=2)", "it has no parameter 'n'"),
        ("likely(node=0.1, 0.2)", "must come before"),
        ("likely(1.5)", "probability from 0 to 1"),
        ("likely(nan)", "probability from 0 to 1"),
        ("likely(node=0.5)", "threshold is missing"),
        ("first_reads_only(crash)", '"crash" is unknown'),
        ("same_rack", r"declare some in \[groups\]"),
        ("likely(0.1, groups=x)", "it has no parameter 'groups'"),
    ],
)
def test_an_invalid_policy_text_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        parse_policy(text)


def test_an_unknown_rack_is_reported_with_the_known_ones() -> None:
    with pytest.raises(UserError, match='"r3" is unknown; use one of r1, r2'):
        parse_policy("same_rack(r3)", RACKS)


# --- the page about them

PAGE = Path(__file__).resolve().parents[2] / "docs" / "policies.md"


def test_the_page_lists_every_shipped_policy_and_no_other_and_names_the_default() -> None:
    text = PAGE.read_text()
    listed = re.findall(r"^\| `(\w+)[^`]*` \| (filter|cluster|filter, cluster) \|", text, re.MULTILINE)
    kinds = {"any_k_nodes": "filter, cluster"}
    for name, kind in listed:
        policy = parse_policy(
            {"only_in": "only_in(f)", "fault_types": "fault_types(crash)"}.get(name, _given(name)), RACKS
        )
        assert kind == kinds.get(name, "filter" if policy.kind == "filter" else "cluster")
    assert sorted(name for name, _ in listed) == sorted(SHIPPED)
    assert ", ".join(f"`{name}`" for name in DEFAULT) in text.replace("\n", " ")


def _given(name: str) -> str:
    return {"any_k_nodes": "any_k_nodes(2)", "likely": "likely(0.1)"}.get(name, name)


def test_the_examples_of_the_page_work(tmp_path: Path) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    file = tmp_path / "mine.py"
    file.write_text(code)
    declared = registry.load(file)
    assert list(declared.policies) == ["crashes_of_the_journal", "same_functions", "same_recovery"]
    own = [
        filter_policy(declared.filters[n]) if kind == "filter" else cluster_policy(declared.clusters[n])
        for n, kind in declared.policies.items()
    ]
    log = [plan(step(on(f"n{i}", f"app:f{i % 2}#1", target="journal"))) for i in range(6)]
    pruned = compose(own, [*log, plan(step(on("n1")))], 0)
    assert pruned.counts == {"crashes_of_the_journal": 1, "same_functions": 4}
