"""The baseline that is learnt from runs that passed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from undermine.checkers.logs import Logs
from undermine.findings.baseline import learn, unanswered
from undermine.model.baseline import Baseline
from undermine.model.event import Trace
from undermine.model.plan import Plan
from undermine.model.run import LogLine, Op, RunRecord, RunView, Settling, WorkloadResult


def run(
    *lines: str,
    ops: Sequence[Op] = (),
    workload_s: float = 0.0,
    settle_s: float = 0.0,
    baseline: Baseline = Baseline(),  # noqa: B008 - frozen
    node: str = "n1",
) -> RunView:
    logs = tuple(LogLine(node, "err", line, 1) for text in lines for line in text.splitlines())
    workload = WorkloadResult("ok", "", workload_s)
    record = RunRecord(1, Plan(), "fired", workload=workload, settling=Settling({}, "ok", "", settle_s))
    return RunView(record, tuple(ops), Trace, lambda: logs, lambda: baseline)


def op(f: str, took_s: float, status: str = "ok", phase: str = "workload") -> Op:
    return Op(0, "c", f, status=status, phase=phase, start_ns=10**9, end_ns=10**9 + int(took_s * 1e9))  # type: ignore[arg-type]


def test_nothing_is_learnt_from_nothing() -> None:
    assert learn([], []) == Baseline()


def test_lines_that_differ_in_numbers_are_one_template() -> None:
    learnt = learn([run("2026-11-16 04:00:01 INFO put 1 took 0.5 s", "2026-11-16 04:00:02 INFO put 2 took 1 s")], [])
    assert learnt.templates == ("INFO put <n> took <n> s",)


def test_lines_that_differ_in_a_word_are_generalised() -> None:
    learnt = learn([run("INFO store: key apple was put", "INFO store: key pear was put")], [])
    assert learnt.templates == ("INFO store: key <*> was put",)


def test_lines_of_all_runs_and_nodes_are_one_vocabulary() -> None:
    learnt = learn([run("INFO ready"), run("INFO bye now", node="n2")], [run("WARN connection refused")])
    assert learnt.templates == ("INFO bye now", "INFO ready", "WARN connection refused")
    assert (learnt.runs, learnt.benign) == (2, 1)


TRACE = """\
{header}
Traceback (most recent call last):
  File "/srv/app/peer.py", line 3, in send
    raise
{error}: peer 3 is down"""


def test_a_logged_traceback_is_one_template() -> None:
    learnt = learn([run(TRACE.format(header="ERROR sending failed", error="OSError"))], [])
    assert learnt.templates == ("OSError@peer.py:send ERROR sending failed",)


def test_what_nobody_caught_is_kept_word_for_word_so_that_another_one_is_news() -> None:
    header = "Exception in thread Thread-1 (send):"
    normal = run(TRACE.format(header=header, error="OSError"), TRACE.format(header=header, error="EOFError"))
    learnt = learn([normal], [])
    assert learnt.templates == ("uncaught EOFError at peer.py:send", "uncaught OSError at peer.py:send")
    for error, answer in (("OSError", "pass"), ("KeyError", "fail")):
        assert Logs().check(run(TRACE.format(header=header, error=error), baseline=learnt)).answer == answer


@pytest.mark.parametrize("count", [1, 3000])
def test_what_was_learnt_from_is_known(count: int) -> None:
    words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta"]
    lines = [
        f"{words[i % 7]} {words[i % 5]} {words[i % 3]} [{i}] /var/x/{i} {words[i % 2]} {words[i // 7 % 7]} done"
        for i in range(count)
    ]
    learnt = learn([run(*lines)], [])
    assert Logs().check(run(*lines, baseline=learnt)).evidence == ()
    assert Logs().check(run("ERROR nobody said this before", baseline=learnt)).evidence


def test_hostile_lines_do_not_become_a_template_for_everything() -> None:
    lines = [f"{'ab'[i % 2]}{chr(97 + i % 26)} {'xy'[i % 2]}{chr(97 + i // 26)}" for i in range(600)]
    learnt = learn([run("<*> <*> <*>", "x" * 100_000, "\x1b[2J", *lines)], [])
    assert len(learnt.templates) > 1
    assert all(set(template.split()) != {"<*>"} for template in learnt.templates)
    assert Logs().check(run("ERROR split brain", baseline=learnt)).evidence == ("n1: ERROR split brain",)


def test_the_slowest_successful_operation_of_the_workload_counts() -> None:
    first = run(ops=[op("put", 0.5), op("put", 0.2), op("put", 9, status="fail"), op("get", 8, phase="final")])
    second = run(ops=[op("put", 0.75), op("get", 0.1), op("get", 7, status="pending")])
    learnt = learn([first, second], [run(ops=[op("put", 6)])])
    assert learnt.slowest_s == pytest.approx({"put": 0.75, "get": 0.1})


def test_operations_that_never_succeed_are_named_with_their_error() -> None:
    bad = Op(0, "c", "push", status="unknown", error="AttributeError: no pusch")
    first = run(ops=[bad, op("put", 1, "unknown"), op("cas", 1, "fail"), op("watch", 0, "pending")])
    assert unanswered([first, run(ops=[op("put", 1)])]) == {"push": "AttributeError: no pusch", "watch": "it never ends"}
    assert unanswered([]) == {}


def test_durations_are_the_longest_and_benign_ones_are_recovery() -> None:
    learnt = learn(
        [run(workload_s=1, settle_s=0.5), run(workload_s=2, settle_s=0.25)], [run(workload_s=9, settle_s=4)]
    )
    assert (learnt.workload_s, learnt.settle_s, learnt.recovery_s) == (2, 0.5, 4)


def test_flakiness_is_kept_with_its_symptoms() -> None:
    learnt = learn([run(), run(), run()], [], ["it breaks", "it breaks"])
    assert (learnt.failed, learnt.failed_as) == (2, ("it breaks",))
    assert learnt.flaky == "2 of 5 fault-free runs failed (it breaks)"


def test_a_settings_file_in_the_current_folder_changes_nothing(tmp_path, monkeypatch) -> None:
    (tmp_path / "drain3.ini").write_text("[DRAIN]\nsim_th = 0.01\ndepth = 3\n")
    lines = ["INFO one a b c d", "INFO two e f g h"]
    before = learn([run(*lines)], [])
    monkeypatch.chdir(tmp_path)
    assert learn([run(*lines)], []) == before
    assert len(before.templates) == 2
