"""Crashes and lost messages where correct runs show that the time of the fault matters: which plans, in which order, and why."""

from __future__ import annotations

import json

import msgspec
import pytest
from hand_made import MS, Trace

from undermine.analysis.conflicts.awaited import LIMITED
from undermine.analysis.conflicts.doubts import WHOLE
from undermine.analysis.conflicts.left_behind import SEEN
from undermine.model.columns import Columns
from undermine.model.fault_limits import FaultLimits
from undermine.model.faults import Crash, Drop, Error, Reboot, nodes_of
from undermine.model.plan import At, Plan, Then, final_at, point_at
from undermine.model.point import client_point
from undermine.model.predictions.candidate import Candidate
from undermine.protocols import Dropped, History, PastRun, Profile
from undermine.strategies.fcatch import Fcatch
from undermine.strategies.observed_conflicts import NO_FAULT
from undermine.testing import CAPABILITIES, history

FAULT_FREE, FAULTY = 1, 2
PUT = client_point("put", "n1")


def waiting(limit_ns: int = 0, trace: Trace | None = None) -> Trace:
    """n1 handles a request of m3, waits, and a message of m2 ends the wait."""
    trace = trace or Trace()
    trace.did("file.read", "load", node="m2")
    trace.message("m3", "n1", "ask")
    wait = trace.did("event.wait", "wait", resource="e@1", size=limit_ns)
    trace.message("m2", "n1", "report", thread="T2")
    trace.did("event.set", "handle", resource="e@1", thread="T2")
    trace.events[trace.events.index(wait)] = msgspec.structs.replace(wait, end_ns=(trace.now + 1) * MS)
    trace.did("file.write", "after")
    return trace


def storing() -> Trace:
    """n1 finds nothing at its start; while clients are served, it creates and fills a file."""
    trace = Trace()
    trace.did("file.open", "load", "boot", target="state", resource="/1/state", error="ENOENT")
    trace.did("client.op", "put", node="client")
    trace.did("file.create", "save", target="state", resource="/1/state")
    trace.did("file.write", "save", target="state", resource="/1/state")
    return trace


def crashed(*, late: bool = False) -> Trace:
    """The same, but n1 dies before it saves, or afterwards, and starts again."""
    trace = storing()
    if not late:
        trace.events = trace.events[:2]
    trace.now = 100
    trace.did("file.open", "load", "boot", target="state", resource="/1/state", life=2)
    trace.did("file.read", "load", "boot", target="state", resource="/1/state", life=2)
    return trace


def told(
    trace: Trace, faulty: Trace | None = None, runs: tuple[PastRun, ...] = (), limits: FaultLimits | None = None
) -> History:
    points = dict.fromkeys([*trace.points(), *(faulty.points() if faulty else ()), PUT])
    given = history([*points], runs, settled=frozenset(run.plan.id for run in runs), limits=limits)
    return msgspec.structs.replace(
        given,
        fault_free=(FAULT_FREE,),
        columns=lambda run: Columns.of((trace if run == FAULT_FREE else faulty or trace).events),
        fired_ns=lambda _: 50 * MS,
        faulty=(FAULTY,) if faulty else (),
    )


def observed(strategy: Fcatch, given: History, *, failed: bool = False) -> tuple[PastRun, ...]:
    """The runs that the strategy wants to learn from, covered by others: only `faulty` ones are learnt from here."""
    plans = [each.plan for each in strategy.propose(given) if isinstance(each, Candidate)]
    return tuple(PastRun(100 + n, 0, n, plan, "fired", failed, covered=True) for n, plan in enumerate(plans))


def predicted(
    trace: Trace, faulty: Trace | None = None, limits: FaultLimits | None = None
) -> tuple[list[Plan], list[Dropped]]:
    strategy = Fcatch()
    runs = observed(strategy, told(trace, faulty, limits=limits))
    found = list(strategy.propose(told(trace, faulty, runs, limits)))
    plans = [each.plan for each in found if isinstance(each, Candidate)]
    return plans, [each for each in found if isinstance(each, Dropped)]


@pytest.mark.parametrize(("crash", "nth"), [("early", 3), ("middle", 5), ("late", 9)])
def test_it_learns_from_a_crash_of_each_role_while_clients_are_served(crash: str, nth: int) -> None:
    strategy = Fcatch(Fcatch.Options(crash=crash))  # type: ignore[arg-type]
    given = told(waiting())
    often = tuple(msgspec.structs.replace(seen, count=10) if seen.point == PUT else seen for seen in given.points)
    plans = [run.plan for run in observed(strategy, msgspec.structs.replace(given, points=often))]
    assert all(plan.steps[0].trigger == At(PUT, nth=nth) for plan in plans)
    hit = {(type(plan.steps[0].fault), nodes_of(plan.steps[0].fault)) for plan in plans}
    assert {(Crash, ("n1",)), (Reboot, ("n1",)), (Crash, ("m2",)), (Reboot, ("m2",))} <= hit


def test_a_crash_that_fails_teaches_nothing_so_another_time_follows() -> None:
    strategy, runs = Fcatch(), tuple[PastRun, ...]()
    times = []
    for _ in range(4):
        given = told(waiting(), runs=runs)
        often = tuple(msgspec.structs.replace(seen, count=10) if seen.point == PUT else seen for seen in given.points)
        new = observed(strategy, msgspec.structs.replace(given, points=often), failed=True)
        moments = (final_at(run.plan.steps[0].trigger) for run in new)
        times.append({moment.nth for moment in moments if moment and moment.point == PUT})
        runs += new
    assert times == [{3}, {5}, {9}, set()]


def updating(*, also: str = "first", recovers: bool = False) -> Trace:
    """While clients are served, m2 asks n1 twice. Each request changes an attribute of the same object. m3 and m4 do the same, m4
    from the function `also`. In the recovery, n1 may look at the first attribute."""
    trace = Trace()
    trace.did("client.op", "put", node="client")
    for node, begins in (("m2", "first"), ("m3", "first"), ("m4", also)):
        for number, function in enumerate((begins, "second")):
            name, thread = f"app:jobs['a'].x{number}", f"{node} {number}"
            trace.message(node, "n1", function, thread=thread)
            trace.did("heap.write", f"change{number}", thread=thread, resource=name, target=name)
            ends = f"10.0.0.1:{3000 + trace.now}", "10.0.0.2:20001"
            trace.did("net.send", "reply", thread=thread, resource=f"{ends[0]}>{ends[1]}/1", size=5, result=5)
            trace.did("net.recv", "receive", node=node, resource=f"{ends[1]}>{ends[0]}/1", size=9, result=5)
    trace.now = 100
    trace.did("file.read", "boot", node="m2", life=2, target="state", resource="/2/state")
    if recovers:
        trace.did("heap.read", "take_over", resource="app:jobs['a'].x0", target="app:jobs['a'].x0")
    return trace


def learning(strategy: Fcatch, faulty: Trace, runs: tuple[PastRun, ...], also: str = "first") -> list[Plan]:
    """The further runs to learn from."""
    found = strategy.propose(told(updating(also=also), faulty, runs))
    return [each.plan for each in found if isinstance(each, Candidate) and not each.reasons]


def test_work_that_no_recovery_took_up_again_is_interrupted_too() -> None:
    strategy, faulty = Fcatch(), updating()
    runs = observed(strategy, told(updating(), faulty))
    (plan,) = learning(strategy, faulty, runs)
    assert isinstance(plan.steps[0].fault, Crash)
    assert plan.steps[0].trigger == At(point_at(plan.steps[0].trigger), "before")
    assert point_at(plan.steps[0].trigger).get("loc") == "app:first#1"
    assert strategy.remarks() == ["more runs to learn from (1): no recovery has read what an update changes"]
    assert strategy.heap
    done = PastRun(200, 1, 0, plan, "fired", False, covered=True)
    assert learning(strategy, faulty, (*runs, done)) == [], "once is enough"


def test_work_that_a_recovery_took_up_again_is_not_interrupted() -> None:
    strategy, faulty = Fcatch(), updating(recovers=True)
    runs = observed(strategy, told(updating(), faulty))
    assert learning(strategy, faulty, runs) == []


def test_if_a_crash_before_an_update_teaches_nothing_another_one_follows() -> None:
    strategy, faulty = Fcatch(), updating()
    runs = observed(strategy, told(updating(also="third"), faulty))
    begins = []
    for number in range(3):
        plans = learning(strategy, faulty, runs, also="third")
        begins.append([point_at(plan.steps[0].trigger).get("loc") for plan in plans])
        runs += tuple(PastRun(200 + number, 1, number, plan, "fired", True) for plan in plans)
    assert begins == [["app:first#1"], ["app:third#1"], []]


def test_few_updates_of_a_role_are_interrupted() -> None:
    trace = updating()
    for number in range(6):
        command = {"store": "redis:1/0", "kind": "redis", "do": [("SET", [f"key{'abcdef'[number]}"], ["x"])]}
        trace.did("db.write", f"save{number}", resource=json.dumps(command))
    strategy = Fcatch()
    runs = observed(strategy, told(trace, trace))
    proposed = [each.plan for each in strategy.propose(told(trace, trace, runs)) if isinstance(each, Candidate)]
    begins = [point_at(plan.steps[0].trigger).get("loc") for plan in proposed]
    assert begins == ["app:first#1", *(f"app:save{number}#1" for number in range(4))]


def test_a_message_that_another_node_waits_for_is_lost_in_three_ways() -> None:
    plans, _ = predicted(waiting())
    assert [type(plan.steps[0].fault) for plan in plans] == [Crash, Error, Drop]
    assert {point_at(plan.steps[0].trigger).get("loc") for plan in plans} == {"app:report#1"}
    assert plans[0].why == "n1 waits for this message without a time limit"


@pytest.mark.parametrize(("since", "found"), [(60, {"app:report#1"}), (10, set())])
def test_as_a_next_step_it_also_loses_messages_that_only_recovery_waits_for(since: int, found: set[str]) -> None:
    """The run's last fault is at 50 ms."""
    recovered = storing()
    recovered.now = since
    recovered = waiting(trace=recovered)
    after = frozenset(recovered.points())
    given = msgspec.structs.replace(told(storing(), recovered), profile=lambda _: Profile(after=after))
    candidates = list(Fcatch().predict(given, PastRun(7, 0, 0, Plan(), "fired", failed=False)))
    assert {point_at(each.plan.steps[0].trigger).get("loc") for each in candidates} == found


def test_a_plan_that_a_rule_drops_names_the_rule() -> None:
    plans, dropped = predicted(waiting(limit_ns=100_000 * MS))
    assert plans == []
    assert [(one.rule, point_at(one.plan.steps[0].trigger).get("loc")) for one in dropped] == [
        (LIMITED, "app:report#1")
    ]


def test_a_crash_after_each_write_whose_state_recovery_has_not_found() -> None:
    plans, dropped = predicted(storing(), crashed())
    moments = {final_at(plan.steps[0].trigger) for plan in plans}
    assert {(at.point.get("op"), at.place) for at in moments if at} == {
        ("file.create", "after"),
        ("file.write", "after"),
    }
    assert all(isinstance(plan.steps[0].fault, Reboot) for plan in plans), "the restarted node reads it"
    assert [one.rule for one in dropped] == [SEEN], "the first start found nothing"


def test_a_moment_that_is_tried_is_not_listed_as_dropped() -> None:
    """A second read of recovery comes after the node has written the file anew."""
    faulty = crashed()
    for op, function in (("file.create", "repair"), ("file.open", "verify"), ("file.read", "verify")):
        faulty.did(op, function, "boot", target="state", resource="/1/state", life=2)
    plans, dropped = predicted(storing(), faulty)
    tried = {plan.steps[0].trigger for plan in plans}
    assert len(tried) == 2
    assert tried.isdisjoint(one.plan.steps[0].trigger for one in dropped)
    assert [type(one.plan.steps[0].fault) for one in dropped] == [Reboot], "the fault that would be tried"


def test_doubtful_writes_come_last_and_say_why() -> None:
    """The file is complete once it is filled. Nobody knows more about the folder than its names."""
    trace = storing()
    for each in waiting().events:
        trace.events.append(msgspec.structs.replace(each, t_ns=each.t_ns + 60 * MS, end_ns=each.end_ns + 60 * MS))
    plans, _ = predicted(trace, crashed())
    assert [point_at(plan.steps[0].trigger).get("op") for plan in plans] == [
        *("net.send", "file.create", "net.send", "net.send"),
        "file.write",
    ]
    assert [plan.why.partition("; doubtful: ")[2] for plan in plans] == ["", "", "", "", WHOLE]


def test_the_remark_counts_doubtful_writes_apart() -> None:
    strategy, given = Fcatch(), told(storing(), crashed())
    runs = observed(strategy, given)
    strategy.remarks()
    plans = [each.plan for each in strategy.propose(told(storing(), crashed(), runs)) if isinstance(each, Candidate)]
    assert "; to try: 1, then 1 doubtful; " in strategy.remarks()[0]
    tried = tuple(PastRun(200 + n, 1, n, plan, "fired", n == 0, odd=n == 1) for n, plan in enumerate(plans))
    list(strategy.propose(told(storing(), crashed(), (*runs, *tried))))
    (said,) = strategy.remarks()
    assert said.endswith("; 1 tried: 1 not confirmed; 1 doubtful tried: 1 benign exception")


def test_confirmed_predictions_come_first_in_the_remarks() -> None:
    strategy = Fcatch()
    runs = observed(strategy, told(waiting()))
    plans = [each.plan for each in strategy.propose(told(waiting(), runs=runs)) if isinstance(each, Candidate)]
    strategy.remarks()
    tried = [PastRun(200 + n, 1, n, plan, "fired", n == 1, confirmed=n == 1) for n, plan in enumerate(plans)]
    given = told(waiting(), runs=(*runs, *tried))
    list(strategy.propose(given))
    first, said = strategy.remarks()
    assert first == f"confirmed: {plans[1]}: {plans[1].why}"
    assert said.endswith("; 3 tried: 1 confirmed, 2 not reproduced")
    list(strategy.propose(given))
    assert strategy.remarks() == [said], "each confirmed one is named once"


def test_the_first_write_of_a_kind_stands_for_the_one_that_recovery_reads() -> None:
    trace = Trace()
    trace.did("file.list", "boot")
    trace.did("client.op", "put", node="client")
    for number in (1, 2):
        for op in ("file.create", "file.write"):
            trace.did(op, "save", target="job-<n>.log", resource=f"/1/job-{number}.log")
    faulty = Trace()
    faulty.events, faulty.now = list(trace.events[:2]), 100
    for op in ("file.open", "file.read"):
        faulty.did(op, "load", "boot", target="job-<n>.log", resource="/1/job-2.log", life=2)
    plans, _ = predicted(trace, faulty)
    moments = [final_at(plan.steps[0].trigger) for plan in plans]
    assert {moment.nth for moment in moments if moment and moment.point.get("op") == "file.create"} == {1}


def test_a_state_that_any_recovery_has_found_is_not_tried() -> None:
    plans, dropped = predicted(storing(), crashed(late=True))
    assert [point_at(plan.steps[0].trigger).get("op") for plan in plans] == ["file.create"]
    assert {one.rule for one in dropped} == {SEEN}


def test_a_frequent_operation_is_found_again_by_a_rare_one_before_it() -> None:
    trace = storing()
    for _ in range(9):
        trace.did("file.write", "log", target="log", resource="/1/log")
    trace.did("file.stat", "rotate", target="log", resource="/1/log")
    trace.did("file.write", "log", target="state", resource="/1/state")
    plans, _ = predicted(trace, crashed())
    (trigger,) = [plan.steps[0].trigger for plan in plans if isinstance(plan.steps[0].trigger, Then)]
    assert isinstance(trigger, Then)
    assert (trigger.first.point.get("loc"), trigger.second.point.get("loc")) == ("app:rotate#1", "app:log#1")
    assert (trigger.second.nth, trigger.same) == (1, "process")


def test_only_the_faults_that_the_user_allows() -> None:
    nodes = {"n1": "n", "m2": "m", "m3": "m"}
    limits = FaultLimits(("drop",), capabilities=dict.fromkeys(nodes, CAPABILITIES), node_roles=nodes)
    plans, _ = predicted(waiting(), limits=limits)
    assert [type(plan.steps[0].fault) for plan in plans] == [Drop]


def test_pairs_that_no_fault_can_hit_are_counted() -> None:
    """The user allows no fault that loses a message or stops a node, or no operation near the message can be hit."""
    limits = FaultLimits(("delay",), capabilities={"n1": CAPABILITIES}, node_roles={"n1": "n"})
    unseen = waiting()
    unseen.events = [
        msgspec.structs.replace(each, op=each.op.replace("net.", "raw.")) if each.loc.startswith("app:report") else each
        for each in unseen.events
        if each.op != "file.read"
    ]
    for trace, allowed in ((waiting(), limits), (unseen, None)):
        said = remark(trace, limits=allowed)
        assert said == f"awaited messages: 1; writes that recovery may find: 0; to try: 0; 1 dropped: {NO_FAULT}"
    assert f"writes that recovery may find: 3; to try: 0; 2 dropped: {NO_FAULT}; " in remark(storing(), crashed(), limits)


def remark(trace: Trace, faulty: Trace | None = None, limits: FaultLimits | None = None) -> str:
    """The remark of a strategy that has nothing to try."""
    strategy = Fcatch()
    runs = observed(strategy, told(trace, faulty, limits=limits))
    strategy.remarks()
    assert [each for each in strategy.propose(told(trace, faulty, runs, limits)) if isinstance(each, Candidate)] == []
    (said,) = strategy.remarks()
    return said


def test_it_says_what_it_found_and_dropped() -> None:
    strategy = Fcatch()
    given = told(waiting())
    runs = observed(strategy, given)
    assert strategy.remarks() == ["first come the runs to learn from; the predictions follow when they have finished"]
    list(strategy.propose(told(waiting(limit_ns=100_000 * MS), runs=runs)))
    assert strategy.remarks() == [
        f"awaited messages: 1; writes that recovery may find: 0; to try: 0; 1 dropped: {LIMITED}"
    ]
    assert strategy.remarks() == []


def test_waits_and_writes_take_turns() -> None:
    trace = waiting()
    for each in storing().events:
        trace.events.append(msgspec.structs.replace(each, t_ns=each.t_ns + 60 * MS, end_ns=each.end_ns + 60 * MS))
    faulty = crashed()
    plans, _ = predicted(trace, faulty)
    assert [point_at(plan.steps[0].trigger).get("op") for plan in plans[:3]] == ["net.send", "file.create", "net.send"]
