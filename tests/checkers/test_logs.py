"""Log lines: patterns and uncaught errors fail a run, the rest is evidence."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from undermine.checkers.base import Settings
from undermine.checkers.logs import Logs
from undermine.model.baseline import Baseline
from undermine.model.event import Event, Trace
from undermine.model.plan import Plan
from undermine.model.run import LogLine, NodeExit, NodeInfo, RunRecord, RunView
from undermine.testing import event

NORMAL = ("INFO ready", "INFO put <*>", "WARN <*> refused")
LEARNT = Baseline(runs=3, templates=NORMAL)
DIED = """\
Exception in thread Thread-1 (apply):
Traceback (most recent call last):
  File "/srv/app/store.py", line 3, in apply
    table[key]
KeyError: 'k17'"""


def view(
    *texts: str,
    node: str = "n1",
    baseline: Baseline = LEARNT,
    events: Sequence[Event] = (),
    exits: Sequence[NodeExit] = (),
    incarnation: int = 1,
) -> RunView:
    lines = tuple(
        LogLine(node, "err" if incarnation else "app.log", line, incarnation)
        for text in texts
        for line in text.splitlines()
    )
    nodes = tuple(NodeInfo(name, "server", "127.0.0.1", 1, {}, "/nowhere") for name in ("n1", "n2"))
    record = RunRecord(1, Plan(), "fired", nodes=nodes, exits=tuple(exits))
    return RunView(record, (), lambda: Trace(tuple(events)), lambda: lines, lambda: baseline)


def test_what_is_normal_is_not_worth_a_word() -> None:
    verdict = Logs().check(view("INFO ready", "2026-11-16 04:07:23 INFO put 17", "WARN n2 refused"))
    assert (verdict.answer, verdict.text, verdict.evidence) == ("pass", "", ())


def test_a_new_template_is_evidence_and_never_a_verdict() -> None:
    verdict = Logs().check(view("INFO ready", "FATAL the disk is on fire 17", "FATAL the disk is on fire 18"))
    assert verdict.answer == "pass"
    assert verdict.evidence == ("n1: FATAL the disk is on fire 17",)
    assert verdict.text.startswith("1 kind(s)")


def test_evidence_names_files_as_the_node_knows_them() -> None:
    verdict = Logs().check(view("CRITICAL disk error: rename /nowhere/shard/a.tmp -> /nowhere/shard/a"))
    assert verdict.evidence == ("n1: CRITICAL disk error: rename shard/a.tmp -> shard/a",)


def test_evidence_is_short_however_long_lines_are() -> None:
    lengths = map(len, Logs().check(view("ERROR " + "x" * 1900, DIED.replace("k17", "y" * 1900))).evidence)
    assert max(lengths) <= 310


def test_the_most_telling_comes_first_and_at_most_twenty_are_shown() -> None:
    words = "abcdefghijklmnopqrstuvwxyz"
    texts = [f"DEBUG {a} now" for a in words] + ["WARN it is late", "ERROR it is lost"]
    verdict = Logs().check(view(*texts))
    assert verdict.evidence[:3] == ("n1: ERROR it is lost", "n1: WARN it is late", "n1: DEBUG a now")
    assert len(verdict.evidence) == 20
    assert verdict.text.startswith("28 kind(s)")


def test_without_a_baseline_nothing_is_new() -> None:
    verdict = Logs().check(view("FATAL the disk is on fire", DIED, baseline=Baseline()))
    assert (verdict.answer, verdict.evidence) == ("pass", ())


def test_a_target_that_says_nothing_as_a_rule_is_known_too() -> None:
    assert Logs().check(view("oops", baseline=Baseline(runs=1))).evidence == ("n1: oops",)


# --- what nobody caught


def test_an_uncaught_exception_fails_and_names_class_and_place() -> None:
    verdict = Logs().check(view("INFO ready", DIED, "INFO put 1"))
    assert verdict.answer == "fail"
    assert verdict.symptom == "uncaught KeyError at store.py:apply"
    assert verdict.text == (
        "uncaught exception in n1: Exception in thread Thread-1 (apply): KeyError: 'k17' at store.py:apply"
    )
    assert verdict.evidence == tuple(DIED.splitlines())


def test_evidence_has_the_frames_of_the_target_without_marks() -> None:
    agent = '  File "/opt/undermine_agent/handover/threads.py", line 9, in run\n    go()\n'
    logged = DIED.replace("    table[key]\n", "    table[key]\n    ~~~~~^^^^^\n").replace("last):\n", f"last):\n{agent}")
    assert Logs().check(view(logged)).evidence == tuple(DIED.splitlines())


def test_an_uncaught_exception_that_is_normal_here_passes_and_another_does_not() -> None:
    learnt = Baseline(runs=3, templates=(*NORMAL, "uncaught KeyError at store.py:apply"))
    assert Logs().check(view(DIED, baseline=learnt)).answer == "pass"
    assert Logs().check(view(DIED.replace("KeyError", "ValueError"), baseline=learnt)).answer == "fail"


def test_what_the_agent_saw_die_is_for_the_checker_of_deaths_but_still_told() -> None:
    verdict = Logs().check(view(DIED, events=[event("thread.die", "n1", "app:store", "KeyError")]))
    assert verdict.answer == "pass"
    assert "KeyError" in verdict.evidence[0]


@pytest.mark.parametrize(
    "other",
    [
        event("thread.die", "n2", "app:store", "KeyError"),
        event("thread.die", "n1", "app:store", "OSError"),
        event("file.write", "n1", "app:store", "KeyError"),
    ],
)
def test_another_death_is_another_matter(other: Event) -> None:
    assert Logs().check(view(DIED, events=[other])).answer == "fail"


def exited(incarnation: int, *, expected: bool, node: str = "n1") -> NodeExit:
    return NodeExit(node, incarnation, 1, 0, 5, expected)


def test_what_its_process_ended_with_is_for_the_checker_of_exits() -> None:
    assert Logs().check(view(DIED, exits=[exited(1, expected=False)])).answer == "pass"
    assert Logs().check(view(DIED, exits=[exited(1, expected=False)], incarnation=0)).answer == "pass"


@pytest.mark.parametrize(
    "other", [exited(1, expected=True), exited(2, expected=False), exited(1, expected=False, node="n2")]
)
def test_another_exit_is_another_matter(other: NodeExit) -> None:
    assert Logs().check(view(DIED, exits=[other])).answer == "fail"


# --- the user's patterns


def test_a_line_that_the_user_wants_to_hear_of_fails() -> None:
    verdict = Logs(Settings(fail_on=("split brain",))).check(
        view("INFO ready", "2026-11-16 04:07:23 ERROR split brain in term 7")
    )
    assert verdict.answer == "fail"
    assert verdict.symptom == "log says: ERROR split brain in term <n>"
    assert verdict.evidence == ("n1: 2026-11-16 04:07:23 ERROR split brain in term 7",)


def test_a_pattern_holds_for_what_is_normal_and_without_a_baseline_too() -> None:
    assert Logs(Settings(fail_on=("^INFO ready",))).check(view("INFO ready")).answer == "fail"
    assert Logs(Settings(fail_on=("^INFO ready",))).check(view("INFO ready", baseline=Baseline())).answer == "fail"


def test_a_pattern_is_looked_for_in_every_line_of_an_entry() -> None:
    verdict = Logs(Settings(fail_on=(r"table\[key\]",))).check(view(DIED))
    assert verdict.symptom == "log says: table[key]"


def test_what_the_user_ignores_neither_fails_nor_is_told() -> None:
    checker = Logs(Settings(fail_on=("brain",), ignore=("split", "KeyError", "on fire")))
    verdict = checker.check(view("ERROR split brain", DIED, "FATAL the disk is on fire"))
    assert (verdict.answer, verdict.evidence) == ("pass", ())
    assert Logs(Settings(fail_on=("brain",), ignore=("split",))).check(view("ERROR brain")).answer == "fail"
