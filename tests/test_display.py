"""What a person sees: text from targets is text, and without a terminal every run is a line."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from rich.console import Console
from rich.text import Text

from undermine import display
from undermine.experiments import News
from undermine.model.finding import Finding
from undermine.model.plan import At, Crash, Plan, Step
from undermine.model.run import Verdict
from undermine.testing import point

HOSTILE = "\x1b[2J\x1b]0;owned\x07 [bold red]x[/bold red] \u202e\x00"


def shown(text: str) -> str:
    """What a console makes of it."""
    out = io.StringIO()
    Console(file=out, width=500, color_system=None).print(text)
    return out.getvalue()


def test_control_characters_are_replaced_and_line_breaks_stay() -> None:
    assert display.plain("a\x1b[31mb\x07\x00\u202e\r\tc\nd") == "a?[31mb?????c\nd"


@pytest.mark.parametrize(
    "text", ["[bold]x[/bold]", "[link=http://x]y[/link]", "[/]", "[red", "back\\slash[b]", "list[int]"]
)
def test_markup_is_shown_as_it_was_written(text: str) -> None:
    assert shown(display.plain(text)) == text + "\n"
    assert Text.from_markup(display.plain(text)).spans == []


def test_text_that_ends_with_a_backslash_does_not_eat_the_markup_behind_it() -> None:
    assert "[/bold]" not in shown(f"[bold]{display.plain('C:' + chr(92))}[/bold]")


def test_ordinary_text_is_left_alone() -> None:
    assert display.plain("Grüße, 世界 – 5 × 3") == "Grüße, 世界 – 5 × 3"


# --- progress without a terminal

Tell = Callable[..., str]


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """The lines that the listener prints for some news, on a console that is no terminal."""

    def run(*news: News) -> list[str]:
        out = io.StringIO()
        monkeypatch.setattr(display, "console", lambda: Console(file=out, width=80, highlight=False))
        with display.progress("hunt", 60) as listener:
            for item in news:
                listener(item)
        return out.getvalue().splitlines()

    return run


def done(symptom: str = "", status: str = "fired", run: int = 7) -> News:
    return News("done", "", {"run": run, "strategy": "random", "status": status, "symptom": symptom})


def test_without_a_terminal_every_finished_run_is_a_line(lines: Callable[..., list[str]]) -> None:
    said = lines(
        News("run", "crash …", {"run": 7, "strategy": "random"}),
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
def test_without_a_terminal_what_went_wrong_is_a_line(lines: Callable[..., list[str]], kind: str) -> None:
    (line,) = lines(News(kind, "run 3 broke: port in use", {"run": 3}))
    assert line.endswith("run 3 broke: port in use")


def test_news_of_unknown_kind_are_not_shown(lines: Callable[..., list[str]]) -> None:
    assert lines(News("weather", "rain")) == []


def test_hostile_text_reaches_the_lines_as_text(lines: Callable[..., list[str]]) -> None:
    said = "".join(lines(done(HOSTILE), News("broken", HOSTILE, {"run": 1})))
    assert said.isprintable()
    assert said.count("[bold red]x") == 2


def test_brackets_are_shown_without_a_backslash(lines: Callable[..., list[str]]) -> None:
    assert lines(done("KeyError in list[int]"))[0].endswith("KeyError in list[int]")


def test_a_long_symptom_stays_on_its_line(lines: Callable[..., list[str]]) -> None:
    assert len(lines(done("word " * 60))) == 1


# --- on a terminal


def board(*news: News) -> str:
    out = io.StringIO()
    made = display._Board("hunt", 60.0)
    for item in news:
        made.take(item)
    Console(file=out, width=120, color_system=None).print(made)
    return out.getvalue()


def test_the_board_counts_runs_statuses_and_symptoms() -> None:
    drawn = board(done("lost"), done("lost", run=8), done(run=9))
    assert "hunt: 3 runs" in drawn
    assert "random 3" in drawn
    assert "fired 3" in drawn
    assert "FAIL ×2  lost" in drawn


def test_the_board_shows_what_runs_now_until_it_is_done() -> None:
    running = News("run", "crash before x", {"run": 7, "strategy": "random"})
    assert "now  random: crash before x" in board(running)
    assert "now" not in board(running, done(run=7))


def test_hostile_text_reaches_the_board_as_text() -> None:
    drawn = board(News("run", HOSTILE, {"run": 1, "strategy": "random"}), done(HOSTILE, run=2))
    assert drawn.replace("\n", "").isprintable()


# --- findings


def test_findings_are_shown_with_plan_rate_evidence_and_how_to_replay(capsys: pytest.CaptureFixture[str]) -> None:
    verdict = Verdict("fail", HOSTILE, "s", ("evidence one", HOSTILE), "ledger")
    plan = Plan((Step(At(point(target=HOSTILE)), Crash()),))
    display.show_findings([Finding("F1", "s", HOSTILE, plan, (1, 2), ("random",), (verdict,), 3, 0)])
    text = capsys.readouterr().out
    assert text.replace("\n", "").isprintable()
    for part in (
        "F1",
        "2 run(s), by random; reproduced 0/3",
        "evidence one",
        "undermine replay F1",
        "(not reproduced)",
    ):
        assert part in text
    assert "[bold red]x" in text


def test_no_findings_are_said_to_be_none(capsys: pytest.CaptureFixture[str]) -> None:
    display.show_findings([])
    assert "no findings" in capsys.readouterr().out
