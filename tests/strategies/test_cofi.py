"""Partitions that begin while nodes disagree: which plans, in which order, where they end, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from hand_made import MS, Trace

from undermine.analysis.agreement.message_kinds import kinds_of_messages
from undermine.analysis.agreement.samples import Variable, samples_of
from undermine.analysis.agreement.states import State
from undermine.api.planning import learnt_by
from undermine.model.columns import Columns
from undermine.model.fault_limits import FaultLimits
from undermine.model.faults import Partition
from undermine.model.plan import Compare, FirstUnseen, Plan, When
from undermine.model.point import Point
from undermine.model.run import Moment
from undermine.protocols import History, PastRun, asked_by
from undermine.strategies.cofi import Cofi
from undermine.testing import CAPABILITIES, history

FAULT_FREE = 1
NODE_ONLY = Cofi.Options(cuts=("node",))
LASTING = 10
"""The first run of the strategy."""


def shows(trace: Trace, node: str, text: str | None, key: str = "n3", name: str = "status") -> None:
    """The node's value of a variable changes."""
    more = {"content": text or "", "size": int(text is not None), "end_ns": 0}
    trace.did("variable.sample", "read", node=node, target=name, resource=key, **more)


def gossip(*statuses: str | None, nodes: Sequence[str] = ("n1", "n2"), name: str = "status", key: str = "n3") -> Trace:
    """The first node tells the others the status of n3, each time that it changes, and again."""
    trace = Trace()
    for node in nodes:
        shows(trace, node, statuses[0], key, name)
    trace.did("client.op", "put", node="client")
    for status in statuses:
        shows(trace, nodes[0], status, key, name)
        for node in nodes[1:]:
            for _ in range(2):
                trace.message(nodes[0], node, "tell")
                shows(trace, node, status, key, name)
    return trace


def partitioned(*messages: tuple[str, str, str], left: str | None = "LEFT") -> Trace:
    """A run in which n1 is cut off while it has LEFT and n2 has NORMAL. These messages fail: sender, receiver, function.

    Before the last one, n1's value becomes `left`.
    """
    trace = Trace()
    shows(trace, "n1", "LEFT")
    shows(trace, "n2", "NORMAL")
    for message in messages:
        if message is messages[-1]:
            shows(trace, "n1", left)
        sender, receiver, function = message
        trace.did("net.connect", function, node=sender, target=f"peer:{receiver}", error="EHOSTUNREACH")
    return trace


def told(trace: Trace, *past: tuple[Plan, Point | None], others: Mapping[int, Trace] | None = None, **more: object) -> History:
    """The history after these runs of the strategy, each with the kind of message before which its partition ended."""
    runs = [PastRun(10 + number, 0, number, plan, "fired", False) for number, (plan, _) in enumerate(past)]
    nodes = ("n1", "n2", "n3")
    limits = FaultLimits(
        ("partition",), capabilities=dict.fromkeys(nodes, CAPABILITIES), node_roles=dict.fromkeys(nodes, "n"),
        partition_levels=("operation",),
    )  # fmt: skip
    third = Trace()
    third.did("net.connect", "join", node="n3", target="peer:n1")
    points, settled = [*trace.points(), *third.points()], frozenset(plan.id for plan, _ in past)
    return msgspec.structs.replace(
        history(points, runs, batch=100, limits=limits, settled=settled),
        fault_free=(FAULT_FREE,),
        columns=lambda run: Columns.of((others or {}).get(run, trace if run == FAULT_FREE else Trace()).events),
        ended=lambda run: None if (end := past[run - 10][1]) is None else Moment(0, end["node"], 0, end),
        **more,
    )


def plans(given: History, options: Cofi.Options = NODE_ONLY) -> list[Plan]:
    return [candidate.plan for candidate in Cofi(options).propose(given)]


def until(plan: Plan) -> FirstUnseen:
    (step,) = plan.steps
    assert isinstance(step.until, FirstUnseen)
    return step.until


def state(plan: Plan) -> tuple[Compare, ...]:
    (step,) = plan.steps
    assert isinstance(step.trigger, When)
    return step.trigger.state


def test_a_partition_begins_while_nodes_disagree_and_cuts_off_each_of_them() -> None:
    found = plans(told(gossip("NORMAL", "NORMAL", "LEFT")))
    both = (Compare("n1.status[n3]", "==", "LEFT"), Compare("n2.status[n3]", "==", "NORMAL"))
    assert [(state(plan), plan.steps[0].fault, plan.steps[0].until) for plan in found] == [
        (both, Partition((node,), level="operation", loss="error"), None) for node in ("n1", "n2")
    ]


def test_a_missing_key_is_a_value_like_any_other() -> None:
    found = plans(told(gossip("NORMAL", "NORMAL", None)))
    assert (Compare("n1.status[n3]", "==", None), Compare("n2.status[n3]", "==", "NORMAL")) in map(state, found)


def test_the_next_partition_ends_before_a_message_that_the_first_one_let_fail() -> None:
    trace, shown = gossip("NORMAL", "NORMAL", "LEFT"), partitioned(("n1", "n2", "tell"), ("n2", "n1", "ask"))
    first, other = plans(told(trace))
    again = plans(told(trace, (first, None), others={LASTING: shown}))
    assert [plan.steps[0].fault for plan in again] == [other.steps[0].fault, first.steps[0].fault]
    end = until(again[1])
    assert end.involves == ("n1",)
    assert end.state == (("n1.status[n3]",), ("n2.status[n3]",))
    assert "like that of n1 to n2 in app:tell#1 while LEFT, NORMAL" in str(again[1])
    (seen,) = end.seen
    assert (seen.get("node"), seen.get("target"), seen.get("state")) == ("n2", "peer:n1", "LEFT, NORMAL"), "fails again"


def test_messages_in_a_state_that_the_partition_led_to_come_first_and_then_those_between_the_two_nodes() -> None:
    trace = gossip("NORMAL", "NORMAL", "LEFT")
    shown = partitioned(("n1", "n4", "report"), ("n1", "n2", "tell"), ("n2", "n1", "ask"), left=None)
    columns = Columns.of(shown.events)
    one, other = Variable("n1", "status", "n3"), Variable("n2", "status", "n3")
    kinds = kinds_of_messages(columns, samples_of(columns), State(one, other, ("LEFT", "NORMAL")), ("n1",), 0, 1000 * MS)
    past: list[tuple[Plan, Point | None]] = [(plans(told(trace))[0], None)]
    wanted = []
    while ending := [plan for plan in plans(told(trace, *past, others={LASTING: shown})) if plan.steps[0].until]:
        (kind,) = set(kinds) - set(until(ending[0]).seen)
        wanted.append((kind.get("target"), kind.get("state")))
        past.append((ending[0], kind))
    assert wanted == [("peer:n1", "∅, NORMAL"), ("peer:n2", "LEFT, NORMAL"), ("peer:n4", "LEFT, NORMAL")]


def test_the_state_of_a_message_is_that_when_it_was_sent_even_if_the_send_waited() -> None:
    trace = Trace()
    shows(trace, "n1", "LEFT")
    shows(trace, "n2", "NORMAL")
    trace.did("net.connect", "tell", target="peer:n2", error="ETIMEDOUT", end_ns=100 * MS)
    trace.now += 50
    shows(trace, "n2", "LEFT")
    columns = Columns.of(trace.events)
    one, other = Variable("n1", "status", "n3"), Variable("n2", "status", "n3")
    (kind,) = kinds_of_messages(columns, samples_of(columns), State(one, other, ("LEFT", "NORMAL")), ("n1",), 0, 1000 * MS)
    assert kind["state"] == "LEFT, NORMAL"


def test_only_messages_that_involve_the_node_count() -> None:
    messages = [("n2", "n4", "report"), ("n1", "n2", "tell"), ("n4", "n1", "ask")]
    columns = Columns.of(partitioned(*messages).events)
    one, other = Variable("n1", "status", "n3"), Variable("n2", "status", "n3")
    kinds = kinds_of_messages(columns, samples_of(columns), State(one, other, ("LEFT", "NORMAL")), ("n1",), 0, 1000 * MS)
    assert [(kind["node"], kind["target"]) for kind in kinds] == [("n1", "peer:n2"), ("n4", "peer:n1")]


def test_a_partition_that_ended_before_a_new_kind_of_message_lets_that_kind_fail_the_next_time() -> None:
    """The kind that it should have ended before is tried again, until three partitions ended before new ones."""
    trace, shown = gossip("NORMAL", "NORMAL", "LEFT"), partitioned(("n1", "n2", "tell"), ("n2", "n1", "ask"))
    past: list[tuple[Plan, Point | None]] = [(plans(told(trace))[0], None)]
    wanted, new = [], []
    for number in range(4):
        (plan,) = (plan for plan in plans(told(trace, *past, others={LASTING: shown})) if plan.steps[0].until)
        assert set(new) <= set(until(plan).seen)
        wanted.append({kind["target"] for kind in until(plan).seen if kind not in new})
        new.append(Point.of({"node": "n1", "target": "peer:n2", "stack": f"new {number}", "state": "LEFT, NORMAL"}))
        past.append((plan, new[-1]))
    assert wanted == [{"peer:n1"}, {"peer:n1"}, {"peer:n1"}, {"peer:n2"}], "the other kind fails again"


def test_a_kind_of_message_that_did_not_recur_is_not_tried_again() -> None:
    trace, shown = gossip("NORMAL", "NORMAL", "LEFT"), partitioned(("n1", "n2", "tell"), ("n2", "n1", "ask"))
    past: list[tuple[Plan, Point | None]] = [(plans(told(trace))[0], None)]
    wanted = []
    while ending := [plan for plan in plans(told(trace, *past, others={LASTING: shown})) if plan.steps[0].until]:
        wanted.append({kind["target"] for kind in until(ending[0]).seen})
        past.append((ending[0], None))
    assert wanted == [{"peer:n1"}, {"peer:n2"}]


def test_a_series_is_over_when_a_partition_met_no_message() -> None:
    trace = gossip("NORMAL", "NORMAL", "LEFT")
    first, other = plans(told(trace))
    assert plans(told(trace, (first, None))) == [other]
    assert plans(told(trace, (first, None), (other, None))) == []


def test_a_series_whose_state_did_not_recur_is_not_proposed_again() -> None:
    trace = gossip("NORMAL", "NORMAL", "LEFT")
    first, other = plans(told(trace))
    given = told(trace, (first, None))
    (run,) = given.runs
    given = msgspec.structs.replace(given, runs=(msgspec.structs.replace(run, status="not_fired"),))
    assert plans(given) == [other]


def test_states_of_runs_with_a_partition_join_the_queue_behind_those_of_fault_free_runs() -> None:
    trace = gossip("NORMAL", "NORMAL", "LEFT")
    first, other = plans(told(trace))
    found = plans(told(trace, (first, None), others={LASTING: partitioned(("n1", "n2", "tell"), left=None)}))
    new = (Compare("n1.status[n3]", "==", None), Compare("n2.status[n3]", "==", "NORMAL"))
    assert state(found[0]) == state(other)
    assert [state(plan) for plan in found].count(new) == 2
    assert {state(plan) for plan in found[-2:]} == {new}, "it may need a partition"


def test_a_state_that_a_later_run_shows_without_a_partition_no_longer_waits() -> None:
    trace, shown = gossip("NORMAL", "NORMAL", "LEFT"), partitioned(("n1", "n2", "tell"), left=None)
    new = (Compare("n1.status[n3]", "==", None), Compare("n2.status[n3]", "==", "NORMAL"))
    first, other = plans(told(trace))
    given = told(trace, (first, None), (other, None), others={LASTING: shown, LASTING + 1: shown})
    (one, two) = given.runs
    scores = []
    for status in ("fired", "not_fired"):
        past = msgspec.structs.replace(given, runs=(one, msgspec.structs.replace(two, status=status)))
        scores.append({state(each.plan): each.score for each in Cofi(NODE_ONLY).propose(past)}[new])
    assert scores[0] < scores[1]


def test_a_node_that_shows_no_value_in_a_run_has_none_there() -> None:
    trace, shown = gossip("NORMAL", "NORMAL", "LEFT"), Trace()
    shown.did("net.connect", "ask", node="n2", target="peer:n1", error="EHOSTUNREACH")
    shows(shown, "n1", "LEFT")
    shown.did("net.connect", "ask", node="n2", target="peer:n1", error="EHOSTUNREACH")
    (first, _) = plans(told(trace))
    found = plans(told(trace, (first, None), others={LASTING: shown}))
    assert (Compare("n1.status[n3]", "==", None), Compare("n2.status[n3]", "==", "LEFT")) in map(state, found)


def test_states_of_a_run_whose_partition_did_not_begin_join_the_queue_without_delay() -> None:
    trace, shown = gossip("NORMAL", "NORMAL", "LEFT"), partitioned(("n1", "n2", "tell"), left=None)
    (first, _) = plans(told(trace))
    given = told(trace, (first, None), others={LASTING: shown})
    (run,) = given.runs
    given = msgspec.structs.replace(given, runs=(msgspec.structs.replace(run, status="not_fired"),))
    new = (Compare("n1.status[n3]", "==", None), Compare("n2.status[n3]", "==", "NORMAL"))
    found = {state(candidate.plan): candidate.score for candidate in Cofi(NODE_ONLY).propose(given)}
    (usual, _) = (candidate.score for candidate in Cofi(NODE_ONLY).propose(told(trace)))
    assert found[new] == usual, "it needs no partition"


def test_a_state_that_did_not_recur_waits_whichever_node_is_cut_off() -> None:
    trace = gossip("NORMAL", "NORMAL", "LEFT", None)
    first, second, *_ = found = plans(told(trace))
    assert state(first) == state(second)
    given = told(trace, (first, None))
    missed = msgspec.structs.replace(given.runs[0], status="not_fired")
    later = plans(msgspec.structs.replace(given, runs=(missed,)))
    assert later[-1] == second
    assert {*later} == {*found} - {first}
    given = told(trace, (first, None), (second, None), others={LASTING + 1: partitioned(("n1", "n2", "tell"))})
    given = msgspec.structs.replace(given, runs=(missed, given.runs[1]))
    scores = {state(each.plan): each.score for each in Cofi(NODE_ONLY).propose(given)}
    assert scores[state(first)] == -1, "another plan met the state"


def test_states_that_clients_meet_come_first_and_one_of_a_kind_before_the_others() -> None:
    trace = gossip("NORMAL", "NORMAL", "LEFT", None)
    trace.events += gossip("NORMAL", "NORMAL", "LEFT", None, key="n4").events
    given = told(trace, served=lambda _: (20 * MS, 1000 * MS))
    found = plans(given)
    kinds = [(tuple(each.value for each in state(plan)), plan.steps[0].fault.nodes[0] == "n1") for plan in found]  # type: ignore[union-attr]
    first = {kind: kinds.index(kind) for kind in kinds}
    assert sorted(first.values()) == list(range(len(first))), "each kind once before any twice"
    assert len(first) < len(kinds)


def test_states_in_which_only_the_nodes_differ_are_one() -> None:
    trace = gossip("NORMAL", "NORMAL", "LEFT", nodes=("n2", "n4", "n1"))
    found = plans(told(trace))
    assert [(state(plan), plan.steps[0].fault) for plan in found] == [
        (state(plan), plan.steps[0].fault) for plan in plans(told(gossip("NORMAL", "NORMAL", "LEFT")))
    ]
    assert {plan.steps[0].alike for plan in found} == {(("n1", "n2", "n3", "n4"),)}


def test_the_messages_of_a_run_count_for_the_nodes_whose_place_its_nodes_took() -> None:
    trace, shown = gossip("NORMAL", "NORMAL", "LEFT", nodes=("n1", "n2", "n4")), Trace()
    shows(shown, "n2", "LEFT")
    shows(shown, "n4", "NORMAL")
    shown.did("net.connect", "tell", node="n2", target="peer:n4", error="EHOSTUNREACH")
    shown.did("net.connect", "ask", node="n4", target="peer:n2", error="EHOSTUNREACH")
    first, _ = plans(told(trace))
    taken = {"n1": "n2", "n2": "n4", "n4": "n1"}
    more = {"others": {LASTING: shown}, "exchanged": lambda _: taken}
    given = told(trace, (first, None), **more)  # type: ignore[arg-type]
    (second,) = (plan for plan in plans(given) if plan.steps[0].until)
    (seen,) = until(second).seen
    assert (seen.get("node"), seen.get("target"), seen.get("state")) == ("n2", "peer:n1", "LEFT, NORMAL")
    ended = Point.of({**shown.points()[0].as_dict(), "state": "LEFT, NORMAL"})
    given = told(trace, (first, None), (second, ended), **more)  # type: ignore[arg-type]
    (third,) = (plan for plan in plans(given) if plan.steps[0].until)
    assert [each.get("node") for each in until(third).seen] == ["n1"]


def test_states_of_a_starting_cluster_wait() -> None:
    trace = gossip("NORMAL", "NORMAL", "LEFT", None)
    begun_ns = next(each.t_ns for each in trace.events if each.op == "variable.sample" and not each.size)
    found = list(Cofi(NODE_ONLY).propose(told(trace, served=lambda _: (begun_ns, 1000 * MS))))
    scores = {state(candidate.plan)[0].value: candidate.score for candidate in found}
    assert scores["LEFT"] < scores[None], "n1 has LEFT only before clients begin"


def test_states_after_the_workload_are_not_tried() -> None:
    trace = gossip("NORMAL", "NORMAL", "LEFT")
    assert plans(told(trace, served=lambda _: (0, trace.now * MS)))
    assert not plans(told(trace, served=lambda _: (0, 5 * MS)))


def test_states_that_are_hard_to_meet_come_later() -> None:
    trace = gossip("NORMAL", "NORMAL", "LEFT", "LEFT", None)
    late = next(n for n, each in enumerate(trace.events) if each.content == "LEFT" and each.node == "n1")
    soon = trace.events[late]
    trace.events[late] = msgspec.structs.replace(soon, t_ns=trace.events[late + 3].t_ns - 1000)  # n2 follows at once
    assert state(plans(told(trace))[0])[0].value is None


def test_numbers_that_grow_make_states_by_their_order() -> None:
    numbers = [str(number) for number in range(12)]
    trace = gossip(*numbers, name="term")
    found = plans(told(trace))
    assert [state(plan) for plan in found] == [(Compare("n1.term[n3]", ">", other="n2.term[n3]"),)] * 2
    scores = {candidate.score for candidate in Cofi(NODE_ONLY).propose(told(trace))}
    assert len(scores) == 1, "to cut off the higher node isn't the same as to cut off the lower one"
    given = told(trace, (found[0], None), others={LASTING: partitioned(("n1", "n2", "tell"))})
    (ending,) = (plan for plan in plans(given) if plan.steps[0].until)
    assert until(ending).state == (("n1.term[n3]", "n2.term[n3]"),)


def test_groups_and_single_directions_come_last() -> None:
    trace = gossip("NORMAL", "NORMAL", "LEFT", nodes=("n1", "n2", "n4"))
    found = plans(told(trace), Cofi.Options())
    faults = [plan.steps[0].fault for plan in found]
    assert all(isinstance(fault, Partition) for fault in faults)
    whole = [len(fault.nodes) == 1 and fault.direction == "both" for fault in faults]  # type: ignore[union-attr]
    assert whole == sorted(whole, reverse=True)
    assert Partition(("n2", "n4"), level="operation", loss="error") in faults
    assert {fault.direction for fault in faults} == {"both", "out", "in"}  # type: ignore[union-attr]


def test_a_group_of_all_other_nodes_is_no_other_cut() -> None:
    trace = gossip("NORMAL", "NORMAL", "LEFT", nodes=("n1", "n2", "n3"), key="n9")
    faults = [plan.steps[0].fault for plan in plans(told(trace), Cofi.Options(cuts=("group", "node")))]
    assert faults == [Partition((node,), level="operation", loss="error") for node in ("n1", "n2")]
    alone = plans(told(trace), Cofi.Options(cuts=("group",)))
    assert [plan.steps[0].fault.nodes for plan in alone] == [("n1",)], "n2 and n3 against n1"  # type: ignore[union-attr]


def test_the_user_chooses_how_messages_fail() -> None:
    trace = gossip("NORMAL", "NORMAL", "LEFT")
    for loss, fault in {
        "error": Partition(("n1",), level="operation", loss="error"),
        "silent": Partition(("n1",), level="operation", loss="silent", resets=True),
        "network": Partition(("n1",), level="network", resets=True),
    }.items():
        (plan, _) = plans(told(trace), Cofi.Options(cuts=("node",), loss=loss))  # type: ignore[arg-type]
        assert plan.steps[0].fault == fault


def test_a_variable_on_two_nodes_has_a_largest_number_of_experiments() -> None:
    trace = gossip("NORMAL", "NORMAL", "LEFT")
    (first, _) = plans(told(trace))
    assert plans(told(trace, (first, None)), Cofi.Options(cuts=("node",), invariant_cap=1)) == []


def test_no_partitions_without_leave() -> None:
    trace = gossip("NORMAL", "NORMAL", "LEFT")
    crashes = history(trace.points(), limits=FaultLimits(("crash",))).possible_faults
    given = msgspec.structs.replace(told(trace), possible_faults=crashes)
    assert plans(given) == []


def test_nodes_of_other_roles_than_those_the_user_chose_are_not_cut_off() -> None:
    trace = gossip("NORMAL", "NORMAL", "LEFT")
    trace.message("n2", "n1", "ask")
    roles = {"n1": "server", "n2": "worker", "n3": "worker"}
    every = FaultLimits(
        ("partition",), capabilities=dict.fromkeys(roles, CAPABILITIES), node_roles=roles, partition_levels=("operation",)
    )
    for chosen, nodes in {("worker",): ["n2"], ("server", "worker"): ["n1", "n2"]}.items():
        limits = msgspec.structs.replace(every, roles=chosen)
        possible = history(trace.points(), limits=limits).possible_faults
        found = plans(msgspec.structs.replace(told(trace), possible_faults=possible))
        assert sorted({node for plan in found for node in plan.steps[0].fault.nodes}) == nodes  # type: ignore[union-attr]


def test_only_directions_that_the_user_allows_are_tried() -> None:
    trace = gossip("NORMAL", "NORMAL", "LEFT")
    nodes = ("n1", "n2")
    limits = FaultLimits(
        ("partition",), capabilities=dict.fromkeys(nodes, CAPABILITIES), node_roles=dict.fromkeys(nodes, "n"),
        partition_levels=("operation",), partition_directions=("both", "out"),
    )  # fmt: skip
    possible = history(trace.points(), limits=limits).possible_faults
    found = plans(msgspec.structs.replace(told(trace), possible_faults=possible), Cofi.Options())
    assert {plan.steps[0].fault.direction for plan in found} == {"both", "out"}  # type: ignore[union-attr]


def test_a_reason_has_the_invariant_and_the_values() -> None:
    (candidate, *_) = Cofi(NODE_ONLY).propose(told(gossip("NORMAL", "NORMAL", "LEFT")))
    (reason,) = candidate.reasons
    assert reason.text == "while nodes disagree about status[n3]: n1 has LEFT, n2 has NORMAL"
    assert str(reason.evidence[0]) == "usually status[n3] is equal on n1 and n2 after a message (6 messages, 100% of them)"
    assert str(reason.evidence[1]) == "status[n3]: n1 has LEFT, n2 has NORMAL, for 0.003 s in run 1"


def test_remarks_count_invariants_and_states_or_ask_for_variables() -> None:
    strategy = Cofi()
    list(strategy.propose(told(gossip("NORMAL", "NORMAL", "LEFT"))))
    (remark,) = strategy.remarks()
    assert "states in which nodes disagree: 1" in remark
    empty = Cofi()
    silent = Trace()
    silent.message("n1", "n2", "tell")
    list(empty.propose(told(silent)))
    assert "[variables]" in empty.remarks()[0]


def test_the_number_of_plans_is_that_of_series_at_first() -> None:
    assert Cofi(NODE_ONLY).total(told(gossip("NORMAL", "NORMAL", "LEFT"))) == 2


def test_full_traces_are_needed_only_of_fault_free_runs() -> None:
    strategy = Cofi()
    assert asked_by(strategy) == {"traced"}
    list(strategy.propose(told(gossip("NORMAL", "NORMAL", "LEFT"))))
    assert asked_by(strategy) == frozenset()


def test_next_steps_are_partitions_in_states_that_the_run_showed_after_its_fault() -> None:
    trace, later = gossip("NORMAL", "NORMAL", "LEFT"), gossip("NORMAL", "NORMAL", "LEFT")
    run = PastRun(10, 0, 0, Plan(), "fired", False)
    given = told(trace, others={10: later}, fired_ns=lambda _: 0)
    strategy = Cofi(NODE_ONLY)
    shown = [candidate.plan.steps[0] for candidate in strategy.predict(given, run)]
    assert [step.fault for step in shown] == [Partition((node,), level="operation", loss="error") for node in ("n1", "n2")]
    assert all(step.until is None for step in shown)
    after = msgspec.structs.replace(given, fired_ns=lambda _: 1000 * MS)
    assert list(strategy.predict(after, run)) == []


def test_a_dead_node_has_no_value() -> None:
    trace = gossip("NORMAL", "NORMAL", "LEFT")
    died_ns = next(each.t_ns for each in trace.events if each.content == "LEFT") - 1
    assert plans(told(trace))
    assert not plans(told(trace, exits=lambda _: [("n2", died_ns), ("n2", died_ns + 2 * MS)]))


def test_it_says_which_invariants_it_learnt() -> None:
    strategy = Cofi(NODE_ONLY)
    assert strategy.learnt == ()
    list(strategy.propose(told(gossip("NORMAL", "NORMAL", "LEFT"))))
    assert strategy.learnt == ("status[n3] is equal on n1 and n2 (6 messages, 100% of them)",)
    assert learnt_by([strategy]) == {"cofi": strategy.learnt}


def test_the_trace_of_a_new_run_is_read_once() -> None:
    trace, shown = gossip("NORMAL", "NORMAL", "LEFT"), partitioned(("n1", "n2", "tell"))
    (first, _) = plans(told(trace))
    given = told(trace, (first, None), others={LASTING: shown})
    read = []

    def columns(run: int) -> Columns:
        read.append(run)
        return given.columns(run)

    assert any(plan.steps[0].until for plan in plans(msgspec.structs.replace(given, columns=columns)))
    assert sorted(read) == [FAULT_FREE, LASTING]
