"""Nodes that end by themselves, and threads and tasks that die."""

from __future__ import annotations

import pytest

from undermine.checkers.answers import Liveness
from undermine.checkers.processes import Deaths, Exits
from undermine.model.event import AgentInfo, Event, Trace
from undermine.model.faults import Error
from undermine.model.plan import At, Plan, Step
from undermine.model.run import NodeExit, Receipt, RunRecord, RunView
from undermine.testing import event, point, run_view

SECOND = 1_000_000_000
TRACEBACK = """starting
Traceback (most recent call last):
  File "/srv/app/main.py", line 17, in <module>
    main()
ValueError: bad record 4711 in /var/data/n1/log.17
"""


def ended(
    node: str = "n1", code: int = 1, t_ns: int = 100, *, log_tail: str = "", expected: bool = False, restarts: bool = False
) -> NodeExit:
    return NodeExit(node, 1, code, 1, t_ns, expected, log_tail, 1.0 if restarts else None)


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
    assert verdict.text == "n1 ended by itself with signal 11: it logged nothing"


def test_an_exit_with_code_0_is_not_named_by_an_exception_before_it() -> None:
    log_tail = f"{TRACEBACK}04:57:01 INFO End worker\n"
    symptom = Exits().check(run_view(exits=(ended(code=0, log_tail=log_tail),))).symptom
    assert symptom == "server ends by itself with exit code 0: End worker"


def test_expected_and_excused_exits_are_not_reported() -> None:
    plan = Plan((Step(At(point()), Error("EIO")),))
    view = run_view(
        plan,
        receipts=(Receipt(0, "n1", "error", 50),),
        exits=(ended("n1"), ended("n2", expected=True)),
        nodes=("n1", "n2"),
    )
    assert Exits().check(view).answer == "pass"


def test_an_exit_that_a_supervisor_repairs_is_a_note() -> None:
    exits = (ended(log_tail=TRACEBACK, restarts=True), ended(code=-11, restarts=True), ended(code=-11, restarts=True))
    verdict = Exits().check(run_view(exits=exits))
    assert verdict.answer == "pass"
    assert [note.partition(": ")[0] for note in verdict.notes] == [
        "server ends by itself with exit code 1",
        "server ends by itself with signal 11",
    ]


def test_an_exit_after_which_the_supervisor_gives_up_is_reported() -> None:
    verdict = Exits().check(run_view(exits=(ended(restarts=True), ended(restarts=True), ended(log_tail="oh no"))))
    assert verdict.text == "n1 ended by itself with exit code 1 after its supervisor had started it again (2×): oh no"


def test_a_permitted_exit_is_not_noted() -> None:
    plan = Plan((Step(At(point()), Error("EIO")),))
    view = run_view(plan, receipts=(Receipt(0, "n1", "error", 50),), exits=(ended("n1", restarts=True),))
    assert Exits().check(view).notes == ()


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


@pytest.mark.parametrize(
    ("error", "place"),
    [
        ("redis.exceptions.ConnectionError: Error 111 connecting to 127.0.0.1:6379", "connect"),
        ("redis.exceptions.ConnectionError: Connection closed by server.", "read_response"),
        ("redis.exceptions.TimeoutError: Timeout reading from socket", "read"),
        ("BrokenPipeError: [Errno 32] Broken pipe", "send"),
        ("OSError: [Errno 104] Connection reset by peer", "recv"),
        ("redis.exceptions.BusyLoadingError: Redis is loading the dataset in memory", "read_response"),
    ],
)
def test_a_lost_connection_is_one_symptom_wherever_it_ends_the_process(error: str, place: str) -> None:
    log_tail = f'Traceback (most recent call last):\n  File "/srv/app/net.py", line 3, in {place}\n    go()\n{error}\n'
    verdict = Exits().check(run_view(exits=(ended(code=1, log_tail=log_tail),)))
    assert verdict.symptom == "server ends by itself with exit code 1 after a lost connection"
    assert verdict.frame == f"net.py:{place}"
    assert error in verdict.text


def test_an_error_of_a_disk_is_not_a_lost_connection() -> None:
    frame = '  File "/srv/log.py", line 3, in add\n    go()\n'
    log_tail = f"Traceback (most recent call last):\n{frame}OSError: [Errno 28] No space\n"
    verdict = Exits().check(run_view(exits=(ended(code=1, log_tail=log_tail),)))
    assert "lost connection" not in verdict.symptom
    assert not verdict.frame


# --- deaths


def died(op: str = "thread.die", t_ns: int = 5 * SECOND) -> Event:
    return event(op, target="KeyError", resource="'k9'", loc="app:loop#1", t_ns=t_ns, stack=("app:loop#1", "app:run#2"))


@pytest.mark.parametrize(("op", "what"), [("thread.die", "thread"), ("task.die", "task")])
def test_a_death_whose_process_lives_on_fails_the_run(op: str, what: str) -> None:
    verdict = Deaths().check(run_view(events=(event(), died(op))))
    assert verdict.answer == "fail"
    assert verdict.symptom == f"{what} of a server dies with KeyError at app:loop#1 and its process keeps running"
    assert verdict.text == f"a {what} of n1 died with KeyError: 'k9'; its process kept running"
    assert verdict.evidence == ("KeyError: 'k9'", "  at app:loop#1", "  at app:run#2")


@pytest.mark.parametrize("error", ["ConnectionError", "java.net.SocketTimeoutException", "CommClosedError"])
def test_a_lost_connection_is_one_symptom_wherever_it_ends_the_thread(error: str) -> None:
    verdict = Deaths().check(run_view(events=(event("thread.die", target=error, resource="gone", loc="app:send#2"),)))
    assert verdict.symptom == "thread of a server dies after a lost connection and its process keeps running"
    assert error in verdict.text


def test_a_death_is_a_lost_connection_also_if_that_only_caused_it() -> None:
    said = "no queue; caused by ConnectionRefusedError: [Errno 111] Connection refused"
    verdict = Deaths().check(run_view(events=(event("thread.die", target="QueueError", resource=said, loc="app:send#2"),)))
    assert verdict.symptom == "thread of a server dies after a lost connection and its process keeps running"
    assert verdict.frame == "app:send#2"


def test_a_task_that_is_replaced_is_a_note() -> None:
    verdict = Deaths().check(run_view(events=(died("task.die"), died("task.replace"))))
    assert verdict.answer == "pass"
    assert verdict.notes == ("task of a server dies with KeyError at app:loop#1 and is replaced",)


def test_one_task_does_not_replace_two() -> None:
    assert Deaths().check(run_view(events=(died("task.die"), died("task.die"), died("task.replace")))).answer == "fail"


def test_the_thread_that_died_is_named() -> None:
    death = event("thread.die", target="KeyError", resource="'k9'", thread="ticker \x1b[31m")
    text = Deaths().check(run_view(events=(death,))).text
    assert text.startswith("thread ticker")
    assert "\x1b" not in text


def test_a_task_is_named_by_its_thread() -> None:
    death = event("task.die", target="KeyError", resource="'k9'", thread="MainThread")
    assert Deaths().check(run_view(events=(death,))).text.startswith("a task in MainThread of n1 died")


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
