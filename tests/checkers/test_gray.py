"""Gray failures: who may wait for what is slow, and what makes it an outage that nobody admits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from undermine.checkers.base import Settings
from undermine.checkers.gray import Gray, Window, windows
from undermine.model.baseline import Baseline
from undermine.model.event import ProcessStacks, ThreadStack
from undermine.model.faults import Corrupt, Crash, Delay, Drop, Error, Fault, Hold, Partition, Pause, Reboot
from undermine.model.plan import At, Plan, Step
from undermine.model.run import END, Conditions, HealthSample, Moment, NodeExit, Op, OpStatus, Receipt, RunView, Verdict
from undermine.testing import point, run_view

HIT_S, HEALED_S = 10.0, 16.0


def ns(seconds: float) -> int:
    return round(seconds * 1e9)


def op(
    client: str, begin_s: float, end_s: float = 0.0, status: OpStatus = "pending", f: str = "put", node: str = ""
) -> Op:
    """Times from the fault on."""
    end_ns = ns(HIT_S + end_s) if status != "pending" else 0
    return Op(0, client, f, node, status=status, start_ns=ns(HIT_S + begin_s), end_ns=end_ns)


def healthy(*nodes: str, answer: str = "", at_s: float = 3.0) -> tuple[HealthSample, ...]:
    return tuple(HealthSample(node, ns(HIT_S + at_s), answer) for node in nodes or ("n1", "n2"))


def run(
    ops: Sequence[Op],
    fault: Fault = Delay(20.0),  # noqa: B008 - frozen
    *more: Fault,
    health: tuple[HealthSample, ...] | None = None,
    receipts: Sequence[Receipt] | None = None,
    baseline: Baseline = Baseline(),  # noqa: B008 - frozen
    **record: Any,
) -> RunView:
    """The first fault hits at 0 s and is in force until all is healed, 6 s later."""
    held = Receipt(0, "n1", "x", ns(HEALED_S), held_ns=ns(HEALED_S - HIT_S))
    view = run_view(
        Plan(tuple(Step(At(point()), one) for one in (fault, *more))),
        ops=[Op(**{**{f: getattr(o, f) for f in o.__struct_fields__}, "index": n}) for n, o in enumerate(ops)],
        receipts=(held,) if receipts is None else receipts,
        nodes=("n1", "n2"),
        health=healthy() if health is None else health,
        **{"healed_ns": ns(HEALED_S), **record},
    )
    return RunView(view.record, view.history, lambda: view.trace, load_baseline=lambda: baseline)


def check(ops: Sequence[Op], *faults: Fault, gray_s: float = 1.0, **more: Any) -> Verdict:
    return Gray(Settings(gray_s=gray_s)).check(run(ops, *faults, **more))


DENIED = (op("a", 0.5), op("b", 0.6, 3.1, "unknown"))
"""Two clients that began when the fault had hit and were not served: the plainest gray failure."""


def test_two_clients_that_nobody_serves_while_all_nodes_are_well_are_a_gray_failure() -> None:
    moment = Moment(0, "n1", ns(HIT_S), point("net.send", loc="app:send#1"))
    verdict = check(DENIED, moments=(moment,))
    assert verdict.symptom == "clients hang while nodes say they are healthy"
    assert verdict.text == (
        "2 clients got no answer to put for up to 5.5 s, while all nodes say they are healthy; "
        "the only fault: delay of up to 20 s"
    )
    assert verdict.evidence == (
        "delay of up to 20 s at net.send data at app:send#1 on n1 (n1)",
        "a: put began +0.50 s from the fault, no answer for 5.50 s",
        "b: put began +0.60 s from the fault, unknown after 2.50 s",
        "n1 said it was healthy at +3.00 s from the fault",
        "n2 said it was healthy at +3.00 s from the fault",
    )


def test_a_run_in_which_all_were_served_passes_without_a_word() -> None:
    assert check([op("a", 0.5, 0.6, "ok"), op("b", 0.5, 1.4, "ok")]) == Verdict.ok()


# --- who may wait


def test_one_client_may_wait_for_what_is_slow_again_and_again() -> None:
    assert check([op("a", -0.1, 2.0, "unknown"), op("a", 2.1, 4.0, "unknown"), op("a", 4.1)]).answer == "pass"


@pytest.mark.parametrize("began_s", [(-0.1, -0.2), (-0.1, 0.1), (0.1, 0.2)])
def test_only_one_can_be_the_victim_whoever_waited_when_the_fault_hit(began_s: tuple[float, float]) -> None:
    assert check([op("a", began_s[0]), op("b", began_s[1])]).answer == "fail"


def test_two_who_were_hit_and_try_again_in_vain_are_denied_it_too() -> None:
    first = [op(client, -0.1, 0.8, "unknown") for client in "ab"]
    assert check([*first, *(op(client, 2.5) for client in "ab")], health=healthy(at_s=4.0)).answer == "fail"


def test_a_victim_that_waits_while_others_are_still_served_does_not_hide_a_later_outage() -> None:
    ops = [op("a", -0.1), op("b", 0.1, 0.2, "ok"), op("b", 1.0)]
    assert check(ops).answer == "fail"
    assert check([*ops, op("c", 1.1, 1.2, "ok")]).answer == "pass"


BOUND = op("a", 0.5, node="n1")
"""A client at n1 that began when the fault had hit."""


def test_one_client_is_enough_if_it_is_bound_to_a_node_and_cannot_be_the_victim() -> None:
    verdict = check([BOUND])
    assert verdict.symptom == "clients hang while nodes say they are healthy"
    assert verdict.text.startswith("client a got no answer to put for up to 5.5 s, while server says it is healthy")


@pytest.mark.parametrize(
    "before",
    [op("a", -0.1, 0.2, "ok", node="n1"), op("a", -0.1, -0.05, "fail", node="n1"), op("b", -0.1, 0.3, "unknown")],
    ids=["was served nevertheless", "failed before", "another client"],
)
def test_a_client_whose_operation_did_not_wait_for_the_slow_one_is_not_its_victim(before: Op) -> None:
    assert check([before, BOUND]).answer == "fail"


@pytest.mark.parametrize(
    "before",
    [op("a", -0.1, 0.3, "unknown", node="n1"), op("a", -0.1, 0.3, "fail", node="n2"), op("a", -0.1, 6.5, "ok")],
    ids=["no answer", "an error", "served after healing"],
)
def test_a_client_that_waited_when_the_fault_hit_may_be_its_victim_and_queue_behind(before: Op) -> None:
    assert check([before, BOUND]).answer == "pass"


def test_one_client_alone_proves_nothing_if_it_chooses_its_node_or_others_are_served() -> None:
    assert check([op("a", 0.5)]).answer == "pass"
    assert check([BOUND, op("b", 1.0, 1.1, "ok", node="n1")]).answer == "pass"
    assert check([BOUND, op("b", 1.0, 1.1, "ok", node="n2")]).answer == "fail"
    assert check([BOUND], health=healthy("n1", answer="no leader")).answer == "pass"


# --- errors instead of answers

KNOWN = Baseline(slowest_s={"put": 0.1, "get": 0.1})


def errors(client: str, *begin_s: float, node: str = "n1", f: str = "put") -> list[Op]:
    return [op(client, begin, begin + 0.1, "fail", f, node) for begin in begin_s]


def test_a_client_that_gets_only_quick_errors_is_denied_as_much_as_one_that_waits() -> None:
    ops = [*errors("a", 0.5, 2.5, 4.0), *errors("a", 1.0, f="get")]
    verdict = check(ops, baseline=KNOWN)
    assert verdict.symptom == "clients hang while nodes say they are healthy"
    assert verdict.evidence[1] == "a: put at n1 began +0.50 s from the fault, fail after 0.10 s"
    assert check(ops, baseline=KNOWN, health=healthy("n1", answer="no leader")).answer == "pass"


@pytest.mark.parametrize(
    "others",
    [
        [op("a", 2.0, 2.1, "ok", f="get", node="n1")],
        [op("b", 2.0, 2.1, "ok", node="n1")],
        [op("a", -0.1, 0.3, "unknown", node="n1")],
    ],
    ids=["an answer between", "another client is served", "it may be the victim"],
)
def test_errors_of_one_client_prove_nothing(others: list[Op]) -> None:
    ops = [*errors("a", 1.0, 1.5, 2.5), *others]
    assert check(ops, baseline=KNOWN).answer == "pass"


def test_two_clients_with_errors_are_an_outage_wherever_they_ask() -> None:
    ops = [*errors("a", 0.5, 2.5, node=""), *errors("b", 0.6, 2.6, node="")]
    assert check(ops, baseline=KNOWN).answer == "fail"
    assert check(ops[:2], baseline=KNOWN).answer == "pass"


@pytest.mark.parametrize(("last_s", "answer"), [(1.3, "pass"), (1.5, "fail")])
def test_errors_for_a_short_time_are_none(last_s: float, answer: str) -> None:
    ops = errors("a", 0.5, last_s)
    assert check(ops, baseline=KNOWN, health=healthy(at_s=1.0)).answer == answer


def test_errors_of_an_operation_that_never_succeeds_are_expected() -> None:
    assert check(errors("a", 0.5, 2.5, f="trespass"), baseline=KNOWN).answer == "pass"
    assert check(errors("a", 0.5, 2.5)).answer == "pass", "it is not known yet"


@pytest.mark.parametrize(("waits_s", "answer"), [(0.9, "pass"), (1.1, "fail")])
def test_a_short_wait_is_none(waits_s: float, answer: str) -> None:
    ops = [op("a", 1.0, 1.0 + waits_s, "unknown"), op("b", 1.0, 1.0 + waits_s, "unknown")]
    assert check(ops, health=healthy(at_s=1.5)).answer == answer


@pytest.mark.parametrize(("slowest_s", "answer"), [(0.5, "fail"), (1.0, "pass")])
def test_what_takes_long_without_a_fault_too_has_more_time(slowest_s: float, answer: str) -> None:
    ops = [op("a", 0.5, 3.0, "unknown"), op("b", 0.6, 3.1, "unknown")]
    assert check(ops, baseline=Baseline(slowest_s={"put": slowest_s, "get": 9.0})).answer == answer


def test_the_reads_after_healing_are_not_judged_here() -> None:
    final = [Op(1, c, "put", "", {}, "pending", phase="final", start_ns=ns(HIT_S + 1)) for c in "ab"]
    assert check(final).answer == "pass"


# --- an outage, not a slow answer


@pytest.mark.parametrize(
    "served", [op("c", 2.0, 2.1, "ok"), op("c", 0.61, 0.7, "ok"), op("c", 1.0, 5.9, "ok")]
)
def test_it_is_no_outage_if_somebody_is_answered_later(served: Op) -> None:
    assert check([*DENIED, served]).answer == "pass"


@pytest.mark.parametrize(
    "other",
    [
        op("c", 0.55, 0.58, "ok"),
        op("c", 0.65, 6.2, "ok"),
        op("c", 2.0, 2.1, "unknown"),
        op("c", 2.0, 2.1, "fail"),
        op("c", 2.0, 4.0, "fail"),
        op("c", 2.0, 2.1, "ok", f="get"),
        op("c", 2.0, 2.1, "ok", node="n2"),
    ],
    ids=["served before", "after it was over", "unknown soon", "refused soon", "refused late", "another kind", "another node"],
)
def test_it_is_one_whatever_else_happens(other: Op) -> None:
    assert check([*DENIED, other]).answer == "fail"


def test_clients_with_different_operations_count_together() -> None:
    ops = [op("a", 0.5, f="get"), op("b", 0.5), *(op("b", -5.0 + n / 10, -4.9 + n / 10, "ok") for n in range(5))]
    assert check(ops).symptom == "clients hang while nodes say they are healthy"
    assert "no answer to get, put" in check(ops).text


def test_a_kind_that_is_served_is_left_out_of_it() -> None:
    assert check([op("a", 0.5, f="get"), op("b", 0.5), op("c", 1.0, 1.1, "ok", f="get")]).answer == "pass"


def test_what_is_answered_once_the_workload_has_stalled_may_owe_it_to_healing() -> None:
    late = op("c", 0.65, 5.5, "ok")
    assert check([*DENIED, late]).answer == "pass"
    assert check([*DENIED, late], stalled_ns=ns(HIT_S + 5.0)).answer == "fail"


# --- what the nodes say


def test_a_node_that_admits_it_makes_it_no_gray_failure() -> None:
    verdict = check(DENIED, health=healthy(at_s=1.0) + healthy("n2", answer="disk is stalled", at_s=1.5))
    assert (verdict.answer, verdict.text) == ("pass", "2 clients got no answer to put, and n2 reported it: disk is stalled")


SICK = healthy("n2", answer="disk is stalled", at_s=4.0)


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (healthy(at_s=1.5) + SICK, "pass"),
        (healthy(at_s=1.7) + SICK, "fail"),
        (healthy("n1", at_s=1.7) + SICK, "pass"),
        (SICK + healthy(at_s=4.9), "pass"),
        (SICK + healthy(at_s=5.1), "fail"),
    ],
    ids=["in time", "late", "one of them in time", "for a moment", "not for long"],
)
def test_a_node_must_admit_it_as_soon_as_clients_have_waited_long_and_as_long_as_they_do(
    said: tuple[HealthSample, ...], answer: str
) -> None:
    assert check(DENIED, health=said).answer == answer


def test_a_node_may_be_well_again_when_its_clients_have_given_up() -> None:
    ops, sick = errors("a", 0.5, 1.0, 1.7), healthy("n1", answer="no leader", at_s=1.0)
    assert check(ops, baseline=KNOWN, health=sick + healthy("n1", at_s=5.0)).answer == "pass"
    still = errors("a", 0.5, 1.0, 1.7, 5.5)
    assert check(still, baseline=KNOWN, health=sick + healthy("n1", at_s=5.0)).answer == "fail"


def test_what_a_node_said_before_or_after_does_not_count() -> None:
    early = healthy("n1", answer="starting", at_s=0.59) + healthy("n1", answer="late", at_s=6.1)
    assert check(DENIED, health=healthy() + early).answer == "fail"


def test_only_the_nodes_that_clients_are_bound_to_are_asked() -> None:
    bound = [op("a", 0.5, node="n1"), op("b", 0.6, node="n1")]
    verdict = check(bound, health=healthy("n1") + healthy("n2", answer="sick"))
    assert verdict.symptom == "clients hang while nodes say they are healthy"
    assert check(bound, health=healthy("n2") + healthy("n1", answer="sick")).answer == "pass"
    assert check([op("a", -0.1, node="n1"), op("c", 0.6)], health=healthy("n1") + healthy("n2", answer="sick")).answer == "pass"


def test_the_node_behind_that_the_fault_hit_may_admit_it_too() -> None:
    bound = [op("a", 0.5, node="n1"), op("b", 0.6, node="n1")]
    behind = [Receipt(0, "n2", "x", ns(HEALED_S), held_ns=ns(HEALED_S - HIT_S))]
    assert check(bound, receipts=behind).answer == "fail"
    assert check(bound, receipts=behind, health=healthy("n1") + healthy("n2", answer="sick")).answer == "pass"
    assert check(bound, receipts=behind, health=healthy("n1")).answer == "fail", "it has no health check"


def test_each_node_answers_for_its_own_clients() -> None:
    """As when a stuck follower says it is well, while the leader that lost it says that it no longer leads."""
    ops = [op(client, 0.5, node=node) for client, node in (("a", "n1"), ("b", "n1"), ("c", "n2"), ("d", "n2"))]
    verdict = check(ops, health=healthy("n1") + healthy("n2", answer="not serving"))
    assert (verdict.answer, len([line for line in verdict.evidence if "put at n1" in line])) == ("fail", 2)
    assert not [line for line in verdict.evidence if "put at n2" in line]


@pytest.mark.parametrize("health", [(), healthy("n1"), healthy(at_s=0.2)])
def test_without_the_word_of_every_node_it_is_not_known(health: tuple[HealthSample, ...]) -> None:
    verdict = check(DENIED, health=health)
    assert verdict.answer == "pass"
    assert "it is unknown" in verdict.text


# --- a subset of clients that never finishes


def test_a_workload_that_halts_for_some_clients_while_others_were_served_fails_without_a_word_on_health() -> None:
    ops = [op("a", 0.5), op("b", 0.6), op("c", 0.7, 0.9, "ok", f="get")]
    verdict = check(ops, health=(), stalled_ns=ns(HEALED_S - 1))
    assert verdict.symptom == "clients hang while other clients are served"
    assert check(ops, health=healthy("n1", answer="sick"), stalled_ns=ns(HEALED_S - 1)).answer == "pass"


@pytest.mark.parametrize("health", [(), healthy()])
def test_those_who_are_left_behind_count_also_if_others_are_served_the_same(health: tuple[HealthSample, ...]) -> None:
    """As where a shard is stuck, and all clients of other shards have ended."""
    ops = [op("a", 0.5), op("b", 0.6), op("c", 0.7, 0.9, "ok")]
    verdict = check(ops, health=health, stalled_ns=ns(HEALED_S - 1))
    assert verdict.symptom.startswith("clients hang while ")
    assert check(ops, health=healthy("n1", answer="sick"), stalled_ns=ns(HEALED_S - 1)).answer == "pass"


@pytest.mark.parametrize(
    ("ops", "stalled_s"),
    [
        ([op("a", 0.5), op("b", 0.6), op("c", 0.7, 0.9, "ok")], 0.0),
        ([op("a", 0.5), op("b", 0.6, 3.0, "unknown"), op("c", 0.7, 0.9, "ok")], HEALED_S - 1),
        ([op("a", 0.5), op("b", 0.6, 3.0, "unknown"), op("b", 3.1, 3.2, "ok")], HEALED_S - 1),
    ],
    ids=["it did not halt", "one alone is open", "served itself"],
)
def test_who_is_served_later_or_waits_alone_is_not_left_behind(ops: list[Op], stalled_s: float) -> None:
    assert check(ops, stalled_ns=ns(stalled_s)).answer == "pass"


@pytest.mark.parametrize(
    ("ops", "stalled_s"),
    [
        ([op("a", 0.5), op("b", 0.6), op("c", 0.7, 0.9, "ok", f="get")], 0.0),
        ([op("a", 0.5), op("b", 0.6)], HEALED_S - 1),
        ([op("a", 0.5), op("b", 0.6), op("c", 0.1, 0.55, "ok", f="get")], HEALED_S - 1),
        ([op("a", 0.5), op("b", 0.6), op("a", 0.7, 0.9, "ok", f="get")], HEALED_S - 1),
        ([op("a", 0.5), op("b", 0.6, 3.0, "unknown"), op("c", 0.7, 0.9, "ok", f="get")], HEALED_S - 1),
    ],
    ids=["it did not halt", "nobody else", "others only before", "itself", "one alone is open"],
)
def test_other_halts_say_nothing_as_long_as_nobody_was_asked(ops: list[Op], stalled_s: float) -> None:
    assert check(ops, health=(), stalled_ns=ns(stalled_s)).answer == "pass"


# --- when


@pytest.mark.parametrize("fault", [Delay(), Drop(), Error("ECONNRESET"), Error("EIO", "disk"), Hold()])
def test_faults_that_leave_all_nodes_running_are_judged(fault: Fault) -> None:
    assert check(DENIED, fault).answer == "fail"


@pytest.mark.parametrize("fault", [Crash(), Reboot(), Pause(), Partition(), Corrupt()])
def test_faults_that_stop_or_cut_off_nodes_are_not(fault: Fault) -> None:
    assert check(DENIED, fault).answer == "pass"


def test_a_run_without_a_fault_or_whose_fault_never_fired_is_not_judged() -> None:
    assert check(DENIED, receipts=()) == Verdict.ok()
    assert Gray().check(run_view(ops=DENIED, healed_ns=ns(HEALED_S))) == Verdict.ok()
    assert check(DENIED, healed_ns=0) == Verdict.ok()


def hit(step: int, begin_s: float, end_s: float = 0.0, action: str = "x") -> Receipt:
    end_s = end_s or begin_s
    return Receipt(step, "n1", action, ns(HIT_S + end_s), held_ns=ns(end_s - begin_s))


def spans(*faults: Fault, receipts: Sequence[Receipt], **more: Any) -> list[tuple[float, float]]:
    found = windows(run((), *faults, receipts=receipts, **more))
    return [((window.begin_ns - ns(HIT_S)) / 1e9, (window.end_ns - ns(HIT_S)) / 1e9) for window in found]


def test_a_delay_is_in_force_as_long_as_it_held_and_an_error_until_all_is_healed() -> None:
    assert spans(Delay(2.0), receipts=[hit(0, 1, 3)]) == [(1, 3)]
    assert spans(Delay(20.0), receipts=[hit(0, 1, 9)]) == [(1, 6)]
    assert spans(Error("EIO"), receipts=[hit(0, 1)]) == [(1, 6)]
    assert spans(Drop(), receipts=[hit(0, 1), hit(0, 4, action=END)]) == [(1, 4)]


def test_a_delay_that_never_ended_by_itself_counts_from_the_moment_of_its_operation() -> None:
    moment = Moment(0, "n1", ns(HIT_S + 2), point())
    assert spans(Delay(9.0), receipts=(), moments=(moment,)) == [(2, 6)]


def test_where_a_node_is_dead_or_cut_off_too_nothing_is_judged_until_all_is_healed() -> None:
    for fault in (Crash(), Reboot(0.3), Partition(), Pause(1.0), Corrupt()):
        assert spans(Drop(), fault, receipts=[hit(0, 1), hit(1, 2)]) == [(1, 2)]
        assert spans(Drop(), fault, receipts=[hit(0, 3), hit(1, 2)]) == []


def test_once_it_is_known_how_long_recovery_takes_judging_goes_on_after_it() -> None:
    known = Baseline(recovery_s=0.5)
    assert spans(Drop(), Reboot(0.5), receipts=[hit(0, 1), hit(1, 2)], baseline=known) == [(1, 2), (3, 6)]
    killed = NodeExit("n1", 1, -9, 1, ns(HIT_S + 2), expected=True)
    again = spans(Drop(), Reboot(0.5), receipts=[hit(0, 1), hit(1, 2)], baseline=known, exits=(killed,))
    assert again == [(1, 2), (3, 6)]
    assert spans(Drop(), Pause(9.0), receipts=[hit(0, 1), hit(1, 2, 3)], baseline=known) == [(1, 2), (3.5, 6)]
    assert spans(Drop(), Crash(), receipts=[hit(0, 1), hit(1, 2)], baseline=known) == [(1, 2)]


def test_a_node_that_ended_by_itself_excuses_what_follows() -> None:
    gone = NodeExit("n1", 1, 74, 1, ns(HIT_S + 2), expected=False)
    assert spans(Error("EIO"), receipts=[hit(0, 1)], exits=(gone,)) == [(1, 2)]


def test_a_node_that_its_supervisor_starts_again_excuses_only_its_absence() -> None:
    repaired = NodeExit("n1", 1, 74, 1, ns(HIT_S + 2), expected=False, restart_after_s=0.5)
    known = Baseline(recovery_s=0.5)
    assert spans(Error("EIO"), receipts=[hit(0, 1)], exits=(repaired,), baseline=known) == [(1, 2), (3, 6)]


def test_each_step_is_judged_in_its_own_time() -> None:
    receipts = [hit(0, 0, 2), hit(1, 3, 6)]
    first = [op(client, 0.1, 1.9, "unknown") for client in "ab"]
    second = [op(client, 3.1) for client in "ab"]
    assert check(first, Delay(2.0), Delay(3.0), receipts=receipts, health=healthy(at_s=1.0)).answer == "fail"
    assert check(second, Delay(2.0), Delay(3.0), receipts=receipts, health=healthy(at_s=4.0)).answer == "fail"
    between = [op(client, 2.1, 3.4, "unknown") for client in "ab"]
    assert check(between, Delay(2.0), Delay(3.0), receipts=receipts, health=healthy(at_s=2.5)).answer == "pass"


def test_a_window_measures_only_what_was_waited_within_it() -> None:
    window = Window(0, 100, 200)
    assert window.waited_ns(Op(1, "a", "f", start_ns=50, end_ns=150, status="ok")) == 50
    assert window.waited_ns(Op(1, "a", "f", start_ns=150)) == 50
    assert window.waited_ns(Op(1, "a", "f", start_ns=20, end_ns=60, status="ok")) < 0


# --- where


def test_the_function_that_has_the_lock_is_named_but_does_not_make_it_another_finding() -> None:
    own, held = ("app.shard:put",), "lock 1, held by sender since app:send:7, at app.shard:put:9"
    stuck = [ThreadStack(f"rpc-{n}", own, own, waits=held) for n in range(2)]
    stacks = (ProcessStacks("n1", 1, 9, ns(HEALED_S), (ThreadStack("sender", own=("app:send",)), *stuck)),)
    verdict = check(DENIED, stacks=stacks)
    assert "for up to 5.5 s, behind a lock taken in app:send, while all nodes" in verdict.text
    assert verdict.symptom == check(DENIED).symptom
    assert f"n1: thread rpc-1 in app.shard:put waits for {held}" in verdict.evidence


def test_hundreds_of_sufferers_make_short_evidence() -> None:
    ops = [op(f"c{n}", 0.5) for n in range(500)]
    health = healthy(*["n1", "n2"] * 500)
    assert len(check(ops, health=health).evidence) < 20


def test_a_client_waits_in_the_targets_time() -> None:
    waits = (op("a", 0.5, 0.8, "unknown"), op("b", 0.6, 0.9, "unknown"))
    assert check(waits).answer == "pass"
    assert check(waits, conditions=Conditions(speed=5)).answer == "fail", "0.3 s are 1.5 s of the target"
