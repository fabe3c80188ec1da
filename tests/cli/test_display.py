"""What a person sees: text from targets is text, and without a terminal every run is a line."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from rich.console import Console
from rich.text import Text

from undermine.analysis.coverage import Reached, Share
from undermine.api import HuntResult, PlanResult, Predicted
from undermine.campaign.experiments import News
from undermine.campaign.replaying import ReplayedRun, ReplayResult
from undermine.campaign.stored_plans import DroppedBy, DroppedPlan, Planned, StandsIn, StoredPlans
from undermine.cli import display
from undermine.model.faults import Crash
from undermine.model.finding import Finding, Realism, Variant
from undermine.model.plan import At, Plan, Step
from undermine.model.run import Verdict
from undermine.policies.pruning import Example, Explanation
from undermine.testing import point

HOSTILE = "\x1b[2J\x1b]0;owned\x07 [bold red]x[/bold red] \u202e\x00"


def shown(text: str) -> str:
    """What a console makes of it."""
    out = io.StringIO()
    Console(file=out, width=500, color_system=None).print(text)
    return out.getvalue()


def test_control_characters_are_replaced_and_line_breaks_stay() -> None:
    assert display.plain("a\x1b[31mb\x07\x00\u202e\r\tc\nd") == "a?[31mb???? c\nd"


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


def done(symptom: str = "", status: str = "fired", run: int = 7, **more: Any) -> News:
    return News("done", "", {"run": run, "strategy": "random", "status": status, "symptom": symptom, **more})


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


# --- coverage


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


@pytest.mark.parametrize(
    ("given", "end"),
    [
        (reached(), COVERAGE),
        (reached(classes=1, since=0), "; 1 recovery class (the last run showed a new one)"),
        (reached(classes=0), "23 of 40 source locations; no recovery was seen"),
        (
            reached(recovery_points_fired=2),
            "23 of 40 source locations and 2 recovery points; 12 recovery classes (last new one 31 runs ago)",
        ),
        (Reached(points=5, locations=2), "faults fired at 0 of 5 points, 0 of 2 source locations"),
    ],
)
def test_coverage_in_words(given: Reached, end: str) -> None:
    assert display.coverage_words(given).endswith(end)


def test_without_a_terminal_a_run_says_what_it_brought_and_others_say_nothing(lines: Callable[..., list[str]]) -> None:
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


def test_a_campaign_that_goes_on_says_once_where_it_stands(lines: Callable[..., list[str]]) -> None:
    said = lines(News("coverage", "9 experiments so far", {"coverage": reached()}), done(coverage=reached(10)), done())
    assert said[0].endswith(f"9 experiments so far: {COVERAGE}")
    assert not any("new:" in line for line in said[1:])


def test_coverage_that_is_told_late_takes_nothing_back() -> None:
    assert "23 of 40 source locations" in board(done(coverage=reached(9)), done(coverage=reached(8, 22)))


def test_the_board_shows_coverage_once_there_is_some() -> None:
    assert COVERAGE in board(done(coverage=reached()))
    assert "source locations" not in board(done())


def test_the_last_line_of_a_hunt_has_coverage_and_what_each_strategy_gave(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    out = io.StringIO()
    monkeypatch.setattr(display, "console", lambda: Console(file=out, width=500, color_system=None))
    shares = {"random": Share(5, 4, 3, 2, 1), "other": Share(1, 1, 1, 1, 1)}
    result = HuntResult("", (), reached(by_strategy=shares), {"fired": 9}, 3.0)
    display.show_hunt(result, tmp_path / "report.html")
    said = out.getvalue()
    assert f"this session took 3 s; {COVERAGE}\n" in said
    assert "random: 5 experiments, 4 points, 3 source locations, 2 recovery classes, 1 of them first\n" in said
    assert "other: 1 experiment, 1 point, 1 source location, 1 recovery class, 1 of them first\n" in said


def test_a_stored_campaign_without_experiments_has_no_coverage(capsys: pytest.CaptureFixture[str]) -> None:
    display.show_coverage(Reached(points=5))
    assert capsys.readouterr().out == ""
    display.show_coverage(reached())
    assert capsys.readouterr().out == f"\n9 experiments; {COVERAGE}\n"


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


def decided(kind: str, text: str) -> News:
    return News(kind, f"{text}: lost 3 writes", {"symptom": "lost 3 writes"})


def test_the_board_shows_what_is_thought_of_a_symptom() -> None:
    first = done("lost 3 writes")
    assert "lost 3 writes (being confirmed)" in board(first, decided("suspect", "confirming"))
    confirming = decided("confirming", "confirming 2/3")
    assert "lost 3 writes (confirming 2/3)" in board(first, decided("suspect", "confirming"), confirming)
    last = decided("flaky", "flaky, it fails without the fault too (3/3, 1/3 without the fault)")
    assert "(flaky, it fails without the fault too (3/3, 1/3" in board(first, confirming, last)


@pytest.mark.parametrize("kind", ["suspect", "confirmed", "flaky", "not confirmed", "dropped"])
def test_without_a_terminal_a_decision_is_a_line(lines: Callable[..., list[str]], kind: str) -> None:
    (line,) = lines(decided(kind, "so it is"))
    assert line.endswith("so it is: lost 3 writes")


def test_without_a_terminal_re_runs_are_lines_only_when_they_are_over(lines: Callable[..., list[str]]) -> None:
    assert lines(decided("confirming", "confirming 1/3")) == []


# --- findings


def finding(number: int = 1, **more: Any) -> Finding:
    fields: dict[str, Any] = {
        "id": f"F{number}",
        "symptom": "lost 3 writes",
        "title": f"title {number}",
        "plan": PLAN,
        "runs": (1, 2),
        "strategies": ("random",),
        "verdicts": (),
        "tries": 3,
        "hits": 3,
        "control_tries": 3,
    }
    return Finding(**{**fields, **more})


PLAN = Plan((Step(At(point()), Crash()),))


def said(capsys: pytest.CaptureFixture[str], *findings: Finding, **more: Any) -> str:
    display.show_findings(findings, **more)
    return capsys.readouterr().out


def test_findings_are_shown_with_plan_rate_evidence_and_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    verdict = Verdict("fail", "x", "lost 4 writes", ("evidence one", "evidence two"), "ledger")
    other = Verdict("fail", "y", "another", ("evidence of another",), "hang")
    found = finding(verdicts=(other, verdict), strategies=("random", "exhaustive"), faults=("crash", "delay"))
    text = said(capsys, found, new_logs={"F1": tuple(f"new {n}" for n in range(5))})
    for part in (
        "F1 title 1\n",
        "seen      in 2 runs, by random, exhaustive, with crash, delay",
        "again     reproduced 3/3, 0/3 without the fault",
        "evidence  evidence one",
        "evidence  evidence two",
        "new log   new 2",
        "replay    undermine replay F1\n",
        "bundle    undermine bundle F1\n",
    ):
        assert part in text
    assert "of another" not in text
    assert "new 3" not in text


def test_text_of_a_target_is_text_in_a_finding(capsys: pytest.CaptureFixture[str]) -> None:
    verdict = Verdict("fail", HOSTILE, "s", (HOSTILE,), "ledger")
    plan = Plan((Step(At(point(target=HOSTILE)), Crash()),))
    hostile = finding(title=HOSTILE, symptom="s", plan=plan, verdicts=(verdict,), variants=(Variant("", plan, 2),))
    text = said(capsys, hostile, remarks={"F1": HOSTILE}, new_logs={"F1": [HOSTILE]})
    text += said(capsys, finding(title=HOSTILE, suppressed=HOSTILE))
    assert text.replace("\n", "").isprintable()
    assert text.count("[bold red]x") == 8


@pytest.mark.parametrize(
    ("more", "part"),
    [
        ({"hits": 0}, "title 1 (not reproduced)"),
        ({"control_hits": 1}, "title 1 (flaky: it fails without the fault too)"),
        ({"control_hits": 1}, "reproduced 3/3, 1/3 without the fault"),
        ({"tries": 0, "hits": 0, "control_tries": 0}, "again     not tried yet"),
        ({"tries": 0, "hits": 0, "elsewhere": 2}, "2 re-runs say nothing: the fault fired elsewhere or not at all"),
        ({"runs": (1,)}, "in 1 run, by random"),
    ],
)
def test_doubts_are_said(capsys: pytest.CaptureFixture[str], more: dict[str, Any], part: str) -> None:
    text = said(capsys, finding(**more))
    assert part in text
    assert "reproduced not" not in text


def test_variants_are_shown_but_not_all(capsys: pytest.CaptureFixture[str]) -> None:
    variants = tuple(Variant(f"s{n}", Plan((Step(At(point(loc=f"a:f#{n}")), Crash()),)), n, n) for n in range(1, 6))
    text = said(capsys, finding(variants=variants))
    assert "also by   crash before file.write data at a:f#1 on n1 (1 run)" in text
    assert "a:f#3 on n1 (3 runs)" in text
    assert "a:f#4" not in text
    assert "also by   faults at 2 other places" in text


def test_what_no_device_causes_has_a_section_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    unreal = finding(realism=Realism("dropped", f"the disk was slow and {HOSTILE}"))
    text = said(capsys, unreal)
    assert text.startswith("\ndropped: no slow device causes these delays, so they are no bugs\n\nF1 title 1\n")
    assert "reason    the disk was slow and" in text
    assert text.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    ("realism", "part"),
    [
        (Realism("realistic", "it took 10.0 s"), "device    it took 10.0 s\n"),
        (Realism("unchecked", "not root"), "device    not checked: not root\n"),
    ],
)
def test_what_a_slow_device_showed_is_said(capsys: pytest.CaptureFixture[str], realism: Realism, part: str) -> None:
    assert part in said(capsys, finding(realism=realism))
    assert "device" not in said(capsys, finding(realism=realism, hits=0))


def test_a_suppressed_finding_is_two_lines(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, finding(suppressed="until 2027-01-31: issue 12"))
    assert text == "\nF1 title 1\n   suppressed until 2027-01-31: issue 12\n"


def test_a_suppression_that_is_over_is_remembered(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, finding(), remarks={"F1": "was suppressed until 2026-01-31: issue 12"})
    assert "note      was suppressed until 2026-01-31: issue 12" in text


def test_the_most_certain_come_first(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(
        capsys,
        finding(1, suppressed="x"),
        finding(2, control_hits=1),
        finding(3, hits=0),
        finding(4, tries=0, hits=0, control_tries=0),
        finding(5),
        finding(6),
    )
    assert re.findall(r"^F(\d)", text, re.MULTILINE) == ["5", "6", "4", "3", "2", "1"]


def test_options_that_find_the_campaign_are_in_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, finding(), options=" -c [x] --campaign y")
    assert "undermine replay F1 -c [x] --campaign y\n" in text
    assert "undermine bundle F1 -c [x] --campaign y\n" in text


def test_no_findings_are_said_to_be_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no findings" in said(capsys)


# --- replays


def replayed(kind: Literal["fault", "control"] = "fault", symptom: str = "", **more: Any) -> ReplayedRun:
    fields: dict[str, Any] = {"run": 1, "counted": True, "status": "fired", "reason": "", "verdicts": ()}
    return ReplayedRun(kind=kind, symptom=symptom, **{**fields, **more})


def result(**more: Any) -> ReplayResult:
    fields: dict[str, Any] = {"finding": "F1", "plan": PLAN, "tries": 5, "fired": 5, "hits": 5, "symptoms": ("lost",)}
    return ReplayResult(**{**fields, **more})


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (
            {"control_tries": 5, "control_fired": 5},
            "failed 5 of 5 in which the fault fired, 0 of 5 without the fault",
        ),
        ({}, "failed 5 of 5 in which the fault fired"),
        ({"fired": 0, "hits": 0}, "the fault never fired (5 runs)"),
        (
            {"fired": 3, "hits": 2, "control_tries": 1},
            "failed 2 of 3 in which the fault fired; without the fault its moment never came (1 run)",
        ),
        ({"plan": Plan(), "hits": 0}, "failed 0 of 5 without any fault"),
    ],
)
def test_a_replay_says_how_often_with_and_without(more: dict[str, Any], words: str) -> None:
    assert display.replay_words(result(**more)) == words


def test_runs_that_do_not_count_say_why(capsys: pytest.CaptureFixture[str]) -> None:
    runs = (
        replayed(symptom="lost"),
        replayed(counted=False, status="not_fired", reason="skipped: there is no node n7", run=2),
        replayed("control", counted=False, status="broken", reason="port in use", run=3),
    )
    display.show_replays([result(runs=runs, hits=1, warnings=("Python was 2 there",), folder="/x")])
    text = capsys.readouterr().out
    assert "different: Python was 2 there" in text
    assert "  1 × lost\n" in text
    assert "run 2 did not fire: skipped: there is no node n7" in text
    assert "run 3 without the fault broke: port in use" in text
    assert "runs are kept in /x" in text


def test_a_plan_of_ones_own_is_shown_with_what_the_checkers_said(capsys: pytest.CaptureFixture[str]) -> None:
    verdicts = (Verdict("fail", "gone", "lost", ("line",), "mine"), Verdict("unknown", HOSTILE, "", (), "other"))
    own = result(finding="", runs=(replayed(symptom="lost", verdicts=verdicts),))
    display.show_replays([own, own, result(finding=HOSTILE)])
    text = capsys.readouterr().out
    assert "run 1: mine fails: gone\n      line\n" in text
    assert "run 1: other cannot tell: " in text
    assert text.replace("\n", "").isprintable()
    assert text.count("runs are kept") == 1
    display.show_replays([result(runs=own.runs)])
    assert "mine" not in capsys.readouterr().out


def test_a_control_that_fails_shows_how(capsys: pytest.CaptureFixture[str]) -> None:
    run = replayed("control", "lost", verdicts=(Verdict("fail", "gone", "lost", (), "mine"),), run=9)
    display.show_replays([result(runs=(run,), control_tries=1, control_fired=1, control_hits=1)])
    text = capsys.readouterr().out
    assert "1 of 1 without the fault" in text
    assert "run 9 without the fault: mine fails: gone" in text


def test_a_prediction_that_explains_says_how_many_it_leaves_out(capsys: pytest.CaptureFixture[str]) -> None:
    rules = (Explanation("policy a", 12_345, (Example("one", "x two"),)), Explanation("policy b", 1, (Example("three"),)))
    result = PlanResult((Predicted("some", "is some", (PLAN,), 1, rules),), 1, 1, {}, {})
    display.show_plan(result, explain=True)
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("  dropped 12345: policy a")
    assert lines[at + 1 :] == [
        "       one; for it stands x two",
        "       … and 12,344 more",
        "  dropped 1: policy b",
        "       three",
    ]
    display.show_plan(result)
    assert "more" not in capsys.readouterr().out


def test_text_of_a_target_is_text_in_stored_plans(capsys: pytest.CaptureFixture[str]) -> None:
    stands = StandsIn("id", HOSTILE, HOSTILE)
    rule = DroppedBy(HOSTILE, 2, 2, (DroppedPlan("id", HOSTILE, "other " + HOSTILE, stands),))
    plan = Plan((Step(At(point(target=HOSTILE)), Crash()),))
    display.show_stored_plans(StoredPlans("folder", (Planned(HOSTILE, 1, 1, (plan,), (rule,)),)))
    out = capsys.readouterr().out
    assert not set("\x1b\x07\x00\u202e") & set(out)
    assert out.count("[bold red]x[/bold red]") == 7


def test_a_campaign_without_plans_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    display.show_stored_plans(StoredPlans("campaigns/then", ()))
    assert capsys.readouterr().out.splitlines() == ["campaign then", "no strategy has proposed anything yet"]
