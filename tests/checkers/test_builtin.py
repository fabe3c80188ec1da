"""The checkers that every campaign has."""

from __future__ import annotations

import pytest

from undermine.checkers.builtin import BUILTIN, Deaths, Exits, Hang, Liveness, WorkloadResult
from undermine.model import run as runs
from undermine.model.event import AgentInfo, Event, Trace
from undermine.model.faults import Corrupt, Error
from undermine.model.plan import At, Plan, Step
from undermine.model.run import NodeExit, Op, OpStatus, Phase, Receipt, RunRecord, RunView, Settling
from undermine.model.stacks import Doing, ProcessStacks
from undermine.testing import event, point, run_view

SECOND = 1_000_000_000
TRACEBACK = """starting
Traceback (most recent call last):
  File "/srv/app/main.py", line 17, in <module>
    main()
ValueError: bad record 4711 in /var/data/n1/log.17
"""


def ended(node: str = "n1", code: int = 1, t_ns: int = 100, *, log_tail: str = "", expected: bool = False) -> NodeExit:
    return NodeExit(node, 1, code, 1, t_ns, expected, log_tail)


def test_a_run_in_which_nothing_happened_passes_all_of_them() -> None:
    view = run_view(workload=runs.WorkloadResult("ok"), settling=Settling(final="ok"))
    assert {checker.name: checker.check(view).answer for checker in BUILTIN} == dict.fromkeys(
        ("exits", "deaths", "hang", "gray", "liveness", "workload"), "pass"
    )


# --- exits


def test_a_node_that_ended_by_itself_fails_the_run() -> None:
    verdict = Exits().check(run_view(exits=(ended(log_tail=TRACEBACK),)))
    assert verdict.answer == "fail"
    assert verdict.text == "n1 ended by itself with exit code 1: ValueError: bad record 4711 in /var/data/n1/log.17"
    assert (
        verdict.symptom
        == "server ends by itself with exit code 1: ValueError: bad record <n> in <path>, at main.py:<module>"
    )
    assert verdict.evidence[0] == "n1 (start 1) ended with exit code 1"
    assert verdict.evidence[-1].startswith("ValueError")


def test_a_signal_is_called_so_and_silence_too() -> None:
    verdict = Exits().check(run_view(exits=(ended(code=-11),)))
    assert verdict.text == "n1 ended by itself with signal 11: it said nothing"


def test_expected_and_excused_exits_are_not_reported() -> None:
    plan = Plan((Step(At(point()), Error("EIO")),))
    view = run_view(
        plan,
        receipts=(Receipt(0, "n1", "error", 50),),
        exits=(ended("n1"), ended("n2", expected=True)),
        nodes=("n1", "n2"),
    )
    assert Exits().check(view).answer == "pass"


def test_a_damaged_receipt_excuses_nothing_and_breaks_nothing() -> None:
    view = run_view(
        Plan((Step(At(point()), Error("EIO")),)), receipts=(Receipt(7, "n1", "error", 50),), exits=(ended(),)
    )
    assert Exits().check(view).answer == "fail"
    assert Liveness().check(view).answer == "pass"


def test_the_first_exit_that_is_not_excused_gives_the_symptom() -> None:
    view = run_view(exits=(ended("n1", expected=True), ended("n2", 3, log_tail="oh no"), ended("n3", 4)))
    verdict = Exits().check(view)
    assert verdict.symptom == "n2 ends by itself with exit code 3: oh no"
    assert verdict.evidence[:2] == ("n2 (start 1) ended with exit code 3", "n3 (start 1) ended with exit code 4")


def test_the_symptom_recurs_although_numbers_and_paths_differ() -> None:
    other = TRACEBACK.replace("4711", "12").replace("/var/data/n1/log.17", "/tmp/run-9/n3/log.1")
    symptoms = {Exits().check(run_view(exits=(ended(log_tail=tail),))).symptom for tail in (TRACEBACK, other)}
    assert len(symptoms) == 1


def test_the_symptom_is_what_was_said_and_not_when_or_by_whom() -> None:
    said = "04:57:0{n}.214 CRITICAL n1 [worker-{n}] app.process: epoch {n} is newer than ours, refusing to start"
    verdicts = [Exits().check(run_view(exits=(ended(code=65, log_tail=said.format(n=n)),))) for n in (1, 2)]
    assert {verdict.symptom for verdict in verdicts} == {
        "server ends by itself with exit code 65: epoch <n> is newer than ours, refusing to start"
    }
    assert verdicts[0].text == "n1 ended by itself with exit code 65: epoch 1 is newer than ours, refusing to start"


def test_an_exception_that_ended_the_process_is_named_by_its_place_also_if_the_last_word_is_another() -> None:
    log_tail = f"{TRACEBACK}04:57:01 CRITICAL stopping: thread sender is gone\n"
    symptom = Exits().check(run_view(exits=(ended(code=70, log_tail=log_tail),))).symptom
    assert symptom == "server ends by itself with exit code 70: stopping: thread sender is gone, at main.py:<module>"


# --- deaths


def died(op: str = "thread.die", t_ns: int = 5 * SECOND) -> Event:
    return event(op, target="KeyError", resource="'k9'", loc="app:loop#1", t_ns=t_ns, stack=("app:loop#1", "app:run#2"))


@pytest.mark.parametrize(("op", "what"), [("thread.die", "thread"), ("task.die", "task")])
def test_a_death_whose_process_lives_on_fails_the_run(op: str, what: str) -> None:
    verdict = Deaths().check(run_view(events=(event(), died(op))))
    assert verdict.answer == "fail"
    assert verdict.symptom == f"{what} of a server dies with KeyError at app:loop#1 and its process lives on"
    assert verdict.text == f"a {what} of n1 died with KeyError: 'k9', and its process lived on"
    assert verdict.evidence == ("KeyError: 'k9'", "  at app:loop#1", "  at app:run#2")


@pytest.mark.parametrize(("later_ns", "answer"), [(0, "pass"), (2 * SECOND - 1, "pass"), (2 * SECOND, "fail")])
def test_a_process_that_goes_down_soon_after_took_its_thread_along(later_ns: int, answer: str) -> None:
    view = run_view(events=(died(),), exits=(ended(t_ns=5 * SECOND + later_ns),))
    assert Deaths().check(view).answer == answer


def test_the_end_of_another_node_or_start_excuses_nothing() -> None:
    other_node = ended("n2", t_ns=5 * SECOND)
    other_start = NodeExit("n1", 2, 1, 1, 5 * SECOND, False)
    assert Deaths().check(run_view(events=(died(),), exits=(other_node, other_start))).answer == "fail"


def test_a_later_death_is_seen_behind_an_excused_one() -> None:
    first = event("thread.die", node="n2", target="OSError", t_ns=1)
    view = run_view(events=(first, died()), exits=(ended("n2", t_ns=2),), nodes=("n1", "n2"))
    assert "KeyError" in Deaths().check(view).symptom


def test_threads_that_end_well_are_no_deaths() -> None:
    assert Deaths().check(run_view(events=(event("thread.end"), event("thread.start")))).answer == "pass"


def test_where_no_event_file_can_be_read_nothing_is_known() -> None:
    def view(trace: Trace) -> RunView:
        return RunView(RunRecord(1, Plan(), "fired"), (), lambda: trace)

    agent = AgentInfo("n1", 1, 1, "python", "3.11", 1)
    assert Deaths().check(view(Trace(problems=("torn",)))).answer == "unknown"
    assert "torn" in Deaths().check(view(Trace(problems=("torn",)))).text
    assert Deaths().check(view(Trace(agents=(agent,), problems=("torn",)))).answer == "pass"
    assert Deaths().check(view(Trace())).answer == "pass"


# --- workload


def test_a_workload_that_raised_fails_with_its_first_line() -> None:
    result = runs.WorkloadResult("raised", "AssertionError: lost 3 of 40\nTraceback …\n  File …")
    verdict = WorkloadResult().check(run_view(workload=result))
    assert (verdict.answer, verdict.symptom) == ("fail", "workload fails: AssertionError: lost <n> of <n>")
    assert verdict.evidence == ("AssertionError: lost 3 of 40", "Traceback …", "  File …")


def test_a_workload_that_raised_without_a_word_still_fails() -> None:
    verdict = WorkloadResult().check(run_view(workload=runs.WorkloadResult("raised")))
    assert (verdict.answer, bool(verdict.symptom)) == ("fail", True)


@pytest.mark.parametrize(("outcome", "answer"), [("ok", "pass"), ("hung", "pass"), ("not_run", "unknown")])
def test_other_outcomes_of_the_workload(outcome: str, answer: str) -> None:
    view = run_view(workload=runs.WorkloadResult(outcome))  # type: ignore[arg-type]
    assert WorkloadResult().check(view).answer == answer


# --- hang


def op(
    index: int, f: str, status: OpStatus, start_ns: int, end_ns: int = 0, client: str = "c1", phase: Phase = "workload"
) -> Op:
    return Op(index, client, f, "n1", {"k": 1}, status, start_ns=start_ns, end_ns=end_ns, phase=phase)


HUNG = runs.WorkloadResult("hung")


def test_the_oldest_open_operation_names_the_hang() -> None:
    ops = (op(1, "get", "pending", 20, client="c2"), op(2, "put", "pending", 10), op(3, "put", "ok", 11, 12))
    verdict = Hang().check(run_view(ops=ops, workload=HUNG, healed_ns=10 + 3 * SECOND))
    assert verdict.symptom == "put is never answered, also not after healing"
    assert "while 1 later operations were answered" in verdict.text
    assert len(verdict.evidence) == 2
    assert "c1: put at n1 {'k': 1} open; 3.0 s when everything was healed" in verdict.evidence


def test_a_hang_of_everybody_is_said_to_be_one() -> None:
    ops = (op(1, "put", "ok", 1, 2), op(2, "put", "pending", 10))
    assert "nobody else made progress" in Hang().check(run_view(ops=ops, workload=HUNG)).text


def test_a_hang_without_an_open_operation_is_the_workloads_own() -> None:
    ops = (op(1, "put", "ok", 1, 2), op(2, "read", "pending", 3, phase="final"))
    assert Hang().check(run_view(ops=ops, workload=HUNG)).symptom == "workload never ends"


def test_an_open_operation_of_a_workload_that_ended_is_no_hang() -> None:
    view = run_view(ops=(op(1, "put", "pending", 1),), workload=runs.WorkloadResult("ok"))
    assert Hang().check(view).answer == "pass"


def locked(name: str, *own: str, waits: str = "") -> Doing:
    return Doing(name, own, own, (), waits)


def test_a_hang_is_named_by_where_the_lock_was_taken_that_others_wait_for() -> None:
    held = "lock 1, held by sender since app.sync:send:7, at app.shard:Shard:9"
    doing = (
        locked("sender", "app.sync:send"),
        locked("rpc-1", "app.shard:Shard.put", "app.rpc:serve", waits=held),
        locked("rpc-2", "app.shard:Shard.put", "app.rpc:serve", waits=held),
        locked("rpc-3", "app.shard:Shard.get", "app.rpc:serve", waits=held),
        *(locked(f"idle-{n}", "app.pool:worker", waits="in queue:Queue.get") for n in range(9)),
    )
    stacks = (ProcessStacks("n1", 1, 100, 5, doing),)
    verdict = Hang().check(run_view(ops=(op(1, "put", "pending", 10),), workload=HUNG, stacks=stacks))
    assert verdict.symptom == "put is never answered, also not after healing, behind a lock taken in app.sync:send"
    assert f"n1: thread rpc-3 in app.shard:Shard.get < app.rpc:serve waits for {held}" in verdict.evidence
    assert verdict.evidence[-1] == "n1: thread sender in app.sync:send"
    assert verdict.evidence[-2] == "n1: thread idle-0 in app.pool:worker, and 8 more"


def test_a_hang_that_no_lock_explains_keeps_its_symptom_and_shows_what_every_thread_does() -> None:
    stacks = (
        ProcessStacks(
            "n1", 1, 100, 5, (locked("main", "app:main", waits="event 1, at app:main:9"), locked("rpc", "app:recv"))
        ),
        ProcessStacks("n2", 1, 101, 5, problem="no agent"),
    )
    verdict = Hang().check(run_view(ops=(op(1, "put", "pending", 10),), workload=HUNG, stacks=stacks))
    assert verdict.symptom == "put is never answered, also not after healing"
    assert verdict.evidence[1:] == (
        "n1: thread main in app:main waits for event 1, at app:main:9",
        "n1: thread rpc in app:recv",
        "n2: no stacks: no agent",
    )


def test_thousands_of_open_operations_and_threads_make_short_evidence() -> None:
    ops = tuple(op(n, "put", "pending", 10 + n) for n in range(3000))
    stacks = (ProcessStacks("n1", 1, 100, 5, tuple(locked(f"t{n}", "app:f" * 999) for n in range(3000))),)
    verdict = Hang().check(run_view(ops=ops, workload=HUNG, stacks=stacks))
    assert len(verdict.evidence) < 50
    assert max(map(len, verdict.evidence)) < 500


# --- liveness


def test_a_node_that_does_not_serve_again_fails_the_run() -> None:
    verdict = Liveness().check(run_view(settling=Settling({"n1": "connection to 127.0.0.1:20001 refused"})))
    assert verdict.answer == "fail"
    assert verdict.symptom == "server does not serve again after healing: connection to <n>:<n> refused"
    assert verdict.evidence == ("n1: connection to 127.0.0.1:20001 refused",)


@pytest.mark.parametrize(("final", "words"), [("failed", "final reads fail"), ("hung", "final reads never end")])
def test_final_reads_that_do_not_succeed_fail_the_run(final: str, words: str) -> None:
    settling = Settling({}, final, "NotSettled: 3 of 4\ntrace", 7.0)  # type: ignore[arg-type]
    verdict = Liveness().check(run_view(settling=settling))
    assert verdict.symptom == f"{words} after healing: NotSettled: <n> of <n>"
    assert verdict.evidence == ("NotSettled: 3 of 4", "trace")


def test_a_final_read_that_hung_without_a_word_still_fails() -> None:
    assert Liveness().check(run_view(settling=Settling(final="hung"))).answer == "fail"


@pytest.mark.parametrize("final", ["ok", "none"])
def test_a_cluster_that_came_back_is_live(final: str) -> None:
    assert Liveness().check(run_view(settling=Settling(final=final))).answer == "pass"  # type: ignore[arg-type]


def test_a_node_whose_stored_bytes_were_changed_may_refuse_to_serve_but_no_other() -> None:
    plan = Plan((Step(At(point("file.write")), Corrupt()),))
    receipts = (Receipt(0, "n1", "corrupt", 50),)

    def answer(settling: Settling) -> str:
        view = run_view(plan, receipts=receipts, nodes=("n1", "n2"), settling=settling, healed_ns=100)
        return Liveness().check(view).answer

    assert answer(Settling({"n1": "its process has ended"})) == "unknown"
    assert answer(Settling(final="failed")) == "unknown"
    assert answer(Settling({"n1": "its process has ended", "n2": "refused"})) == "fail"
    assert answer(Settling(final="ok")) == "pass"
