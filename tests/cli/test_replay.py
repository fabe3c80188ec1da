"""The result of a replay as a person sees it."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any, Literal

import pytest

from undermine.campaign.replaying import ReplayedRun, ReplayResult
from undermine.cli.replay import _ask_to_run, replay_words, show_replays
from undermine.exchange import unpacking
from undermine.exchange.manifest import Manifest
from undermine.model.errors import UserError
from undermine.model.faults import Crash
from undermine.model.finding import Finding
from undermine.model.plan import At, Plan, Step
from undermine.model.run import Verdict
from undermine.testing import point

HOSTILE = "\x1b[2J\x1b]0;owned\x07 [bold red]x[/bold red] \u202e\x00"

PLAN = Plan((Step(At(point()), Crash()),))


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
            "failed in 5 of 5 runs with the fault, in 0 of 5 without it",
        ),
        ({}, "failed in 5 of 5 runs with the fault"),
        ({"fired": 0, "hits": 0}, "the fault never fired in 5 runs"),
        (
            {"fired": 3, "hits": 2, "control_tries": 1},
            "failed in 2 of 3 runs with the fault; 1 control run never reached the moment of the fault",
        ),
        ({"plan": Plan(), "hits": 0}, "failed in 0 of 5 runs without a fault"),
    ],
)
def test_a_replay_shows_both_failure_rates(more: dict[str, Any], words: str) -> None:
    assert replay_words(result(**more)) == words


def test_runs_that_do_not_count_show_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    runs = (
        replayed(symptom="lost", verdicts=(Verdict.fail("k1 is lost", "lost"), Verdict.fail("it is slow", "slow"))),
        replayed(counted=False, status="not_fired", reason="skipped: there is no node n7", run=2),
        replayed("control", counted=False, status="broken", reason="port in use", run=3),
    )
    show_replays([result(runs=runs, hits=1, symptoms=("lost", "slow"), warnings=("Python was 2 there",), folder="/x")])
    text = capsys.readouterr().out
    assert "difference: Python was 2 there" in text
    assert "  1 × lost\n  1 × slow\n" in text
    assert "run 2 did not fire: skipped: there is no node n7" in text
    assert "run 3 without the fault broke: port in use" in text
    assert "the runs are in /x" in text


def test_a_plan_of_a_file_is_shown_with_its_verdicts(capsys: pytest.CaptureFixture[str]) -> None:
    verdicts = (Verdict("fail", "gone", "lost", ("line",), "mine"), Verdict("unknown", HOSTILE, "", (), "other"))
    own = result(finding="", runs=(replayed(symptom="lost", verdicts=verdicts),))
    show_replays([own, own, result(finding=HOSTILE)])
    text = capsys.readouterr().out
    assert "run 1: mine fails: gone\n      line\n" in text
    assert "run 1: other is undecided: " in text
    assert text.replace("\n", "").isprintable()
    assert text.count("the runs are in") == 1
    show_replays([result(runs=own.runs)])
    assert "mine" not in capsys.readouterr().out


def test_a_failing_control_shows_its_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    run = replayed("control", "lost", verdicts=(Verdict("fail", "gone", "lost", (), "mine"),), run=9)
    show_replays([result(runs=(run,), control_tries=1, control_fired=1, control_hits=1)])
    text = capsys.readouterr().out
    assert "in 1 of 1 without it" in text
    assert "run 9 without the fault: mine fails: gone" in text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("answer", ["y", "n"])
def test_the_commands_of_a_bundle_are_shown_before_the_question(
    answer: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    finding = Finding(id="F1", symptom="", title="", plan=PLAN, runs=(1,), strategies=(), verdicts=())
    manifest = Manifest(1, "", finding, "undermine.toml", commands={"kv": ("sh", "-c", HOSTILE)})
    monkeypatch.setattr(unpacking, "read_manifest", lambda path: manifest)
    monkeypatch.setattr(sys, "stdin", Terminal(f"{answer}\n"))
    if answer == "n":
        with pytest.raises(UserError, match="nothing was unpacked or run"):
            _ask_to_run(Path("b.undermine"), yes=False)
    else:
        _ask_to_run(Path("b.undermine"), yes=False)
    shown = capfd.readouterr().err
    assert "sh -c" in shown
    assert "\x1b" not in shown
    _ask_to_run(Path("b.undermine"), yes=True)
    assert not capfd.readouterr().err
