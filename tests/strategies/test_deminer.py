"""Crashes between two operations that store common data: which plans, in which order, and why."""

from __future__ import annotations

import itertools

import msgspec
from hand_made import MS, Trace

from undermine.model.columns import Columns
from undermine.model.fault_limits import FaultLimits
from undermine.model.faults import POWER_LOSS, Crash, PowerLoss, Reboot
from undermine.model.plan import At, Plan, Then, point_at
from undermine.model.point import REST, Point, client_point, phase_point
from undermine.protocols import History, PastRun, Profile, asked_by
from undermine.strategies.deminer import Deminer
from undermine.testing import CAPABILITIES, history

FAULT_FREE, FAULTY = 1, 2


def told(trace: Trace, faulty: Trace | None = None, limits: FaultLimits | None = None, shown: tuple[Point, ...] = ()) -> History:
    given = history(trace.points(), limits=limits, profiles={7: Profile(after=frozenset(shown))})
    return msgspec.structs.replace(
        given,
        fault_free=(FAULT_FREE,),
        columns=lambda run: Columns.of((trace if run == FAULT_FREE else faulty or trace).events),
        fired_ns=lambda _: 50 * MS,
        faulty=(FAULTY,) if faulty else (),
    )


def stored(trace: Trace, *places: str, node: str = "n1") -> None:
    """The node writes these files, each from a call site of its own."""
    for place in places:
        trace.did("file.write", f"write_{place}", "handle", target=place, resource=f"/{node}/{place}", node=node)


def handled(*places: str) -> Trace:
    """n1 handles a message of m2 and writes these files."""
    trace = Trace()
    trace.did("client.op", "put", node="client")
    trace.message("m2", "n1", "ask")
    stored(trace, *places)
    return trace


def sites(plan: Plan) -> tuple[str, str]:
    trigger = plan.steps[0].trigger
    assert isinstance(trigger, Then)
    return trigger.first.point.get("loc"), trigger.second.point.get("loc")


def test_a_crash_after_the_first_write_and_before_the_second_in_the_same_process() -> None:
    (candidate, *_) = Deminer().propose(told(handled("snapshot", "epoch")))
    (step,) = candidate.plan.steps
    assert isinstance(step.trigger, Then)
    assert (step.trigger.first.place, step.trigger.second.place, step.trigger.same) == ("after", "before", "process")
    assert sites(candidate.plan) == ("app:write_snapshot#1", "app:write_epoch#1")
    assert candidate.plan.why == "after it changed file snapshot and before it changed file epoch"
    evidence = [str(each) for each in candidate.reasons[0].evidence]
    assert evidence[2] == "both are part of the handling of one message"


def remote_score(*relays: str) -> float:
    """m2 lets n1 write two files. Its second message comes through these nodes. The score of a crash between the two writes."""
    trace = Trace()
    trace.did("client.op", "put", node="client")
    trace.message("m2", "n1", "ask", thread="one")
    trace.did("file.write", "write_a", target="a", resource="/n1/a", thread="one")
    for sender, receiver in itertools.pairwise(("m2", *relays, "n1")):
        trace.message(sender, receiver, f"tell_{receiver}", thread="two" if receiver == "n1" else "T")
    trace.did("file.write", "write_b", target="b", resource="/n1/b", thread="two")
    found = [each for each in Deminer().propose(told(trace)) if sites(each.plan) == ("app:write_a#1", "app:write_b#1")]
    return found[0].score


def test_a_remote_activity_counts_less_the_farther_it_is_away() -> None:
    assert remote_score() > remote_score("n3") > remote_score("n3", "n4")


def test_every_pair_is_tried_once_before_any_is_tried_with_another_crash() -> None:
    trace = handled("a", "b", "c")
    nodes = {point.get("node"): "server" for point in trace.points()}
    limits = FaultLimits(capabilities=dict.fromkeys(nodes, CAPABILITIES), node_roles=nodes, long_outage_s=6.0)
    plans = [candidate.plan for candidate in Deminer().propose(told(trace, limits=limits))]
    assert len({sites(plan) for plan in plans[:2]}) == 2
    faults = [plan.steps[0].fault for plan in plans if sites(plan) == sites(plans[0])]
    assert faults == [Reboot(0.3), Crash(), Reboot(0.3, ("m2", "n1")), Reboot(6.0)]


def test_all_nodes_are_also_those_without_an_agent() -> None:
    trace = handled("a", "b")
    roles = {"n1": "n", "m2": "m", "redis": "store"}
    limits = FaultLimits(("reboot",), capabilities=dict.fromkeys(("n1", "m2"), CAPABILITIES), node_roles=roles)
    given = told(trace, limits=limits)
    seen = history([*trace.points(), client_point("put", "")], limits=limits)
    given = msgspec.structs.replace(given, possible_faults=seen.possible_faults)
    faults = [candidate.plan.steps[0].fault for candidate in Deminer().propose(given)]
    assert Reboot(0.3, ("m2", "n1", "redis")) in faults


def test_a_node_stays_down_first_if_others_can_see_a_destination() -> None:
    trace = handled("a")
    trace.message("n1", "m2", "tell")
    plans = [candidate.plan for candidate in Deminer().propose(told(trace))]
    faults = [plan.steps[0].fault for plan in plans if sites(plan) == ("app:write_a#1", "app:tell#1")]
    assert faults[0] == Crash()


def test_the_user_chooses_the_crashes() -> None:
    strategy = Deminer(Deminer.Options(crashes=("never",)))
    assert [candidate.plan.steps[0].fault for candidate in strategy.propose(told(handled("a", "b")))] == [Crash()]
    limits = FaultLimits(("reboot",), capabilities={"n1": CAPABILITIES}, node_roles={"n1": "n"})
    allowed = [type(each.plan.steps[0].fault) for each in Deminer().propose(told(handled("a", "b"), limits=limits))]
    assert set(allowed) == {Reboot}


def test_power_losses_come_last_if_the_user_allows_them() -> None:
    limits = FaultLimits(
        power=True, features={POWER_LOSS}, capabilities={"n1": CAPABILITIES}, node_roles={"n1": "n"}
    )
    faults = [each.plan.steps[0].fault for each in Deminer().propose(told(handled("a", "b"), limits=limits))]
    assert faults[-3:] == [PowerLoss("names"), PowerLoss("none"), PowerLoss("prefix")]
    assert not any(isinstance(fault, PowerLoss) for fault in faults[:-3])
    without = Deminer(Deminer.Options(crashes=("at once",))).propose(told(handled("a", "b"), limits=limits))
    assert [type(each.plan.steps[0].fault) for each in without] == [Reboot]


def test_a_loop_is_one_pair_and_says_how_often_it_occurred() -> None:
    trace = handled()
    for _ in range(10):
        stored(trace, "log", "index")
    candidates = list(Deminer(Deminer.Options(crashes=("never",))).propose(told(trace)))
    by_sites = {sites(candidate.plan): candidate for candidate in candidates}
    there = by_sites["app:write_log#1", "app:write_index#1"]
    assert len(candidates) == 2, "the other one goes from the index back to the log"
    assert "10 times at these call sites" in str(there.reasons[0])
    assert there.plan.steps[0].trigger.first.nth == 1  # type: ignore[union-attr]


def test_pairs_that_crash_a_node_at_the_same_operation_are_one_candidate() -> None:
    """The fault-free runs disagree about what the node stores before it stores c for the first time."""
    given = msgspec.structs.replace(told(handled("a", "c"), handled("b", "c")), fault_free=(FAULT_FREE, FAULTY), faulty=())
    (candidate,) = Deminer(Deminer.Options(crashes=("never",))).propose(given)
    reasons = {reason.text for reason in candidate.reasons}
    assert reasons == {f"after it changed file {one} and before it changed file c" for one in "ab"}
    candidates = list(Deminer(Deminer.Options(crashes=("never",))).propose(told(handled("a", "c", "b", "c"))))
    expected = {("app:write_a#1", "app:write_c#1"), ("app:write_b#1", "app:write_c#1"), ("app:write_c#1", "app:write_b#1")}
    assert {sites(each.plan) for each in candidates} == expected, "the second time, c is another operation"


def test_files_that_recovery_reads_come_first() -> None:
    trace, faulty = handled("a", "b"), handled("a", "b")
    trace.message("m2", "n1", "other")
    stored(trace, "snapshot", "epoch")
    faulty.now = 100
    for place in ("snapshot", "epoch"):
        faulty.did("file.open", "load", "boot", target=place, resource=f"/n1/{place}", life=2)
    first = next(iter(Deminer().propose(told(trace, faulty))))
    assert sites(first.plan) == ("app:write_snapshot#1", "app:write_epoch#1")
    assert "recovery reads file epoch and file snapshot" in str(first.reasons[0])


def test_a_client_that_is_answered_too_early_comes_before_other_messages() -> None:
    trace = handled("a")
    trace.did("net.send", "reply", target="accepted", resource="c9")
    stored(trace, "late")
    trace.message("n1", "m2", "tell")
    best = next(iter(Deminer().propose(told(trace))))
    assert sites(best.plan) == ("app:reply#1", "app:write_late#1")
    assert "a client has the answer before the data is stored" in str(best.reasons[0])


def test_a_pair_with_a_frequent_first_operation_is_not_hit_while_the_node_starts() -> None:
    """n1 writes a log and a state again and again while it starts, and once more for a client."""
    trace = Trace()
    for _ in range(5):
        trace.did("file.list", "load")  # the first operation is counted only between two of these
        stored(trace, "log", "state")
    trace.did("client.op", "put", node="client")
    trace.message("m2", "n1", "ask")
    stored(trace, "log", "state")
    plans = [candidate.plan for candidate in Deminer().propose(told(trace))]
    triggers = {plan.steps[0].trigger for plan in plans if point_at(plan.steps[0].trigger).get("loc") == "app:write_state#1"}
    (trigger,) = triggers
    assert isinstance(trigger, Then)
    assert (trigger.first.point, trigger.second.nth, trigger.second.place) == (phase_point(REST), 1, "before")


def test_as_a_next_step_it_counts_from_the_fault_before() -> None:
    trace = handled("a", "b")
    stored(trace, "a", "b")
    points = trace.points()
    run = PastRun(7, 0, 0, Plan(), "fired", failed=False)
    assert not list(Deminer().predict(told(trace), run)), "the run showed nothing after its fault"
    found = list(Deminer().predict(told(trace, shown=tuple(points)), run))
    assert found
    assert all(each.plan.steps[0].trigger.first.nth == 1 for each in found)  # type: ignore[union-attr]


def test_as_a_next_step_it_also_crashes_between_operations_that_only_recovery_does() -> None:
    """After the fault at 50 ms, recovery writes b once more, and then c and d."""
    recovered = handled("a", "b")
    recovered.now = max(recovered.now, 50 * MS)
    recovered.message("m2", "n1", "recover")
    stored(recovered, "b", "c", "d")
    given = told(handled("a", "b"), faulty=recovered, shown=tuple(recovered.points()))
    run = PastRun(7, 0, 0, Plan(), "fired", failed=False)
    strategy = Deminer()
    found = {sites(each.plan): each.plan.steps[0].trigger for each in strategy.predict(given, run)}
    assert ("app:write_a#1", "app:write_b#1") in found
    trigger = found["app:write_c#1", "app:write_d#1"]
    assert isinstance(trigger, Then)
    assert (trigger.first.nth, trigger.second.nth, trigger.same) == (1, 1, "process")
    before = msgspec.structs.replace(given, profile=lambda _: Profile(after=frozenset(handled("a", "b").points())))
    assert {sites(each.plan) for each in Deminer().predict(before, run)} == {("app:write_a#1", "app:write_b#1")}


def test_it_says_once_what_is_related_and_why() -> None:
    strategy = Deminer(Deminer.Options(content=False))
    list(strategy.propose(told(handled("a", "b", "c"))))
    assert strategy.remarks() == [
        "related operations: 2, at 2 pairs of call sites (2 because both are part of the handling of one message)"
    ]
    list(strategy.propose(told(handled("a", "b", "c"))))
    assert not strategy.remarks()


def test_it_says_if_the_campaign_was_begun_without_it() -> None:
    without_contents = handled("a", "b")
    with_contents = handled("a", "b")
    with_contents.did("content.tokens", "write_b", size=with_contents.now, resource="n10000")
    without_clients = Trace()
    stored(without_clients, "a", "b")
    for trace, content, warned in (
        (with_contents, True, False),
        (without_contents, True, True),
        (without_contents, False, False),
        (without_clients, False, True),
    ):
        strategy = Deminer(Deminer.Options(content=content))
        list(strategy.propose(told(trace)))
        assert any("not observed in full" in remark for remark in strategy.remarks()) == warned


def test_it_observes_contents_only_while_it_learns() -> None:
    strategy = Deminer()
    assert strategy.content
    list(strategy.propose(told(handled("a", "b"))))
    assert not strategy.content
    assert not Deminer(Deminer.Options(content=False)).content


def test_it_follows_data_only_if_the_user_asks_for_it_and_while_it_learns() -> None:
    assert not Deminer().labels
    strategy = Deminer(Deminer.Options(labels=True))
    assert "labels" in asked_by(strategy)
    list(strategy.propose(told(handled("a", "b"))))
    assert "labels" not in asked_by(strategy)


def test_an_operation_that_a_starting_node_does_often_is_counted_from_the_first_one() -> None:
    trace = Trace()
    trace.message("m2", "n1", "ask")
    for _ in range(6):
        stored(trace, "log")
    stored(trace, "index")
    (candidate, *_) = Deminer().propose(told(trace))
    trigger = candidate.plan.steps[0].trigger
    assert isinstance(trigger, Then)
    assert trigger.first == At(trigger.first.point, "after", 1)
