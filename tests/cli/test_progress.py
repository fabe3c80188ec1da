"""Progress: without a terminal every finished run is a line; on a terminal a board shows them."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from undermine.analysis.coverage import Reached
from undermine.campaign.running import Notice
from undermine.cli import progress as progress_module
from undermine.cli.progress import Board, progress
from undermine.web.status import rate_words, time_words

HOSTILE = "\x1b[2J\x1b]0;owned\x07 [bold red]x[/bold red] \u202e\x00"


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """A function that returns the lines printed for some news without a terminal."""

    def run(*news: Notice) -> list[str]:
        out = io.StringIO()
        monkeypatch.setattr(progress_module, "console", lambda: Console(file=out, width=80, highlight=False))
        with progress("hunt", 60) as listener:
            for item in news:
                listener(item)
        return out.getvalue().splitlines()

    return run


def test_warnings_stay_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    terminal = Console(file=out, width=80, force_terminal=True, color_system=None)
    monkeypatch.setattr(progress_module, "console", lambda: terminal)
    with progress("check") as listener:
        for kind in ("warning", "remark", "warning"):
            listener(Notice(kind, f"a {kind} [red]"))
        for n in range(30):
            listener(Notice("warning", f"another {n}"))
    left = out.getvalue().rpartition("╯")[2]
    assert (left.count("a warning [red]"), left.count("a remark"), left.count("another")) == (1, 0, 19)
    assert "… and 11 more warnings" in left


def done(symptom: str = "", status: str = "fired", run: int = 7, **more: Any) -> Notice:
    return Notice("done", "", {"run": run, "strategy": "random", "status": status, "symptom": symptom, **more})


def reached(runs: int = 9, locations: int = 23, classes: int = 12, since: int = 31, **more: Any) -> Reached:
    return Reached(
        runs=runs,
        points=175,
        points_fired=33,
        locations=40,
        locations_fired=locations,
        recovery_classes=classes,
        runs_since_new=since,
        **more,
    )


COVERAGE = "faults fired at 33 of 175 points, 23 of 40 source locations; 12 recovery classes (last new one 31 runs ago)"


def board(*news: Notice) -> str:
    out = io.StringIO()
    made = Board("hunt", 60.0)
    for item in news:
        made.take(item)
    Console(file=out, width=120, color_system=None).print(made)
    return out.getvalue()


def decided(kind: str, text: str) -> Notice:
    return Notice(kind, f"{text}: lost 3 writes", {"symptom": "lost 3 writes"})


def test_without_a_terminal_every_finished_run_is_a_line(lines: Callable[..., list[str]]) -> None:
    said = lines(
        Notice("run", "crash …", {"run": 7, "strategy": "random"}),
        done(),
        done("lost write", run=8),
        done("", "not_fired"),
    )
    assert len(said) == 3
    assert said[0].split()[-4:] == ["run", "7", "random", "ok"]
    assert said[1].endswith("=> lost write")
    assert said[2].rstrip().endswith("not fired")
    assert not any("\x1b" in line for line in said)


@pytest.mark.parametrize("kind", ["broken", "resume"])
def test_without_a_terminal_a_problem_is_a_line(lines: Callable[..., list[str]], kind: str) -> None:
    (line,) = lines(Notice(kind, "run 3 broke: port in use", {"run": 3}))
    assert line.endswith("run 3 broke: port in use")


def test_news_of_unknown_kind_are_not_shown(lines: Callable[..., list[str]]) -> None:
    assert lines(Notice("weather", "rain")) == []


def test_hostile_text_reaches_the_lines_as_text(lines: Callable[..., list[str]]) -> None:
    said = "".join(lines(done(HOSTILE), Notice("broken", HOSTILE, {"run": 1})))
    assert said.isprintable()
    assert said.count("[bold red]x") == 2


def test_brackets_are_shown_without_a_backslash(lines: Callable[..., list[str]]) -> None:
    assert lines(done("KeyError in list[int]"))[0].endswith("KeyError in list[int]")


def test_a_long_symptom_stays_on_its_line(lines: Callable[..., list[str]]) -> None:
    assert len(lines(done("word " * 60))) == 1


def test_without_a_terminal_only_runs_that_add_coverage_show_it(lines: Callable[..., list[str]]) -> None:
    said = lines(
        done(coverage=reached(1, 1, 0)),
        done(coverage=reached(2, 1, 1)),
        done(coverage=reached(3, 1, 1)),
        done("lost write", coverage=reached(4, 2, 2)),
    )
    assert [line.partition("(")[2] for line in said] == [
        "new: location 1 of 40)",
        "new: recovery class 1)",
        "",
        "new: location 2 of 40, recovery class 2) => lost write",
    ]


def test_a_resumed_campaign_shows_its_coverage_once(lines: Callable[..., list[str]]) -> None:
    said = lines(Notice("coverage", "9 experiments so far", {"coverage": reached()}), done(coverage=reached(10)), done())
    assert said[0].endswith(f"9 experiments so far: {COVERAGE}")
    assert not any("new:" in line for line in said[1:])


def test_coverage_that_is_reported_late_does_not_replace_newer_coverage() -> None:
    assert "23 of 40 source locations" in board(done(coverage=reached(9)), done(coverage=reached(8, 22)))


def test_the_board_shows_coverage_once_there_is_some() -> None:
    assert COVERAGE in board(done(coverage=reached()))
    assert "source locations" not in board(done())


def test_the_board_counts_runs_statuses_and_symptoms() -> None:
    drawn = board(done("lost"), done("lost", run=8), done(run=9))
    assert "hunt: 3 runs in" in drawn
    assert "runs a minute" in drawn
    assert "random 3" in drawn
    assert "fired 3" in drawn
    assert "FAIL ×2  lost" in drawn


def test_the_board_shows_a_run_until_it_is_done() -> None:
    running = Notice("run", "crash before x", {"run": 7, "strategy": "random"})
    assert "now  0.0 s  random: crash before x" in board(running)
    assert "now" not in board(running, done(run=7))


def test_the_board_counts_the_time_from_the_beginning_of_the_campaign() -> None:
    assert "1 min of 1 min left" in board()
    assert re.search(r"(1 min|5\d s) of 1 min left", board(Notice("campaign", "", {"folder": "x"})))


def test_the_time_and_the_rate_in_words() -> None:
    assert time_words(100, 600) == "8 min 20 s of 10 min left"
    assert time_words(700, 600) == "the budget of 10 min is used up; the hunt is finishing"
    assert rate_words(7, 30) == "14.0 runs a minute"
    assert rate_words(0, 30) == rate_words(3, 0) == ""


def test_the_board_counts_findings_by_what_was_decided_last() -> None:
    said = "suspect a, confirming a, confirmed a, shrunk a, suspect b, suspect c, flaky c"
    news = [Notice(kind, symptom, {"symptom": symptom}) for kind, symptom in map(str.split, said.split(", "))]
    assert "findings: 1 confirmed, 1 suspected" in board(*news)
    for kind in ("bounding", "bounded"):
        assert "findings: 1 confirmed, 1 suspected" in board(*news, Notice(kind, "a", {"symptom": "a"})), kind
    assert "findings:" not in board(*news[-2:])


def test_the_address_of_the_live_page_is_shown(lines: Callable[..., list[str]]) -> None:
    page = Notice("page", "live report: http://127.0.0.1:1/secret/", {"address": "http://127.0.0.1:1/secret/"})
    assert "live report: http://127.0.0.1:1/secret/" in board(page)
    assert lines(page)[0].endswith("live report: http://127.0.0.1:1/secret/")


def test_hostile_text_reaches_the_board_as_text() -> None:
    drawn = board(Notice("run", HOSTILE, {"run": 1, "strategy": "random"}), done(HOSTILE, run=2))
    assert drawn.replace("\n", "").isprintable()


def test_the_board_shows_the_decision_about_a_symptom() -> None:
    first = done("lost 3 writes")
    assert "lost 3 writes (being confirmed)" in board(first, decided("suspect", "confirming"))
    confirming = decided("confirming", "confirming 2/3")
    assert "lost 3 writes (confirming 2/3)" in board(first, decided("suspect", "confirming"), confirming)
    last = decided("flaky", "flaky, it fails without the fault too (3/3, 1/3 without the fault)")
    assert "(flaky, it fails without the fault too (3/3, 1/3" in board(first, confirming, last)


@pytest.mark.parametrize("kind", ["suspect", "waiting", "confirmed", "flaky", "not reproduced", "dropped"])
def test_without_a_terminal_a_decision_is_a_line(lines: Callable[..., list[str]], kind: str) -> None:
    (line,) = lines(decided(kind, "so it is"))
    assert line.endswith("so it is: lost 3 writes")


def test_without_a_terminal_re_runs_are_lines_only_when_they_are_over(lines: Callable[..., list[str]]) -> None:
    assert lines(decided("confirming", "confirming 1/3")) == []


def test_a_failing_run_names_all_its_symptoms_the_worst_first(lines: Callable[..., list[str]]) -> None:
    (line,) = lines(done("job lost", symptoms=("exit 0", "job lost", "", "exit 0")))
    assert line.endswith("=> job lost; exit 0")


def test_a_fault_free_run_that_failed_says_so(lines: Callable[..., list[str]]) -> None:
    failed = {"round": "baseline", "symptoms": ("lost write",)}
    (line,) = lines(done(**failed))
    assert line.endswith("=> lost write")
    assert "FAIL" in line
    assert "lost write" in board(done(**failed))
    (line,) = lines(done(**{**failed, "round": "strategy"}, status="not_fired"))
    assert "not fired" in line
    assert "lost write" not in line
