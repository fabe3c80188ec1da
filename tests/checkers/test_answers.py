"""The workload's own result, answers that never come, and recovery after healing."""

from __future__ import annotations

import pytest

from undermine.checkers.answers import Hang, Liveness, WorkloadResult
from undermine.model import run as runs
from undermine.model.event import ProcessStacks, ThreadStack
from undermine.model.faults import Corrupt
from undermine.model.plan import At, Plan, Step
from undermine.model.run import Op, OpStatus, Phase, Receipt, Settling
from undermine.testing import point, run_view

SECOND = 1_000_000_000


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
    assert verdict.symptom == "put is never answered, not even after healing"
    assert "while 1 later operations were answered" in verdict.text
    assert len(verdict.evidence) == 2
    assert "c1: put at n1 {'k': 1} had waited 3.0 s when everything was healed" in verdict.evidence


def test_a_hang_of_everybody_is_said_to_be_one() -> None:
    ops = (op(1, "put", "ok", 1, 2), op(2, "put", "pending", 10))
    assert "no other client made progress" in Hang().check(run_view(ops=ops, workload=HUNG)).text


def test_a_hang_without_an_open_operation_is_the_workloads_own() -> None:
    ops = (op(1, "put", "ok", 1, 2), op(2, "read", "pending", 3, phase="final"))
    assert Hang().check(run_view(ops=ops, workload=HUNG)).symptom == "workload never ends"


def test_an_open_operation_of_a_workload_that_ended_is_no_hang() -> None:
    view = run_view(ops=(op(1, "put", "pending", 1),), workload=runs.WorkloadResult("ok"))
    assert Hang().check(view).answer == "pass"


def locked(name: str, *own: str, waits: str = "") -> ThreadStack:
    return ThreadStack(name, own, own, (), waits)


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
    assert verdict.symptom == "put is never answered, not even after healing, behind a lock taken in app.sync:send"
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
    assert verdict.symptom == "put is never answered, not even after healing"
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
