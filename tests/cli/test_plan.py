"""Predicted and stored plans as a person sees them."""

from __future__ import annotations

import pytest

from undermine.api import PlanResult, Predicted
from undermine.cli.plan import cut_reason, show_plan, show_stored_plans
from undermine.model.faults import Crash
from undermine.model.plan import At, Plan, Step
from undermine.policies.pruning import Example, Explanation
from undermine.store.stored_plans import DroppedBy, DroppedPlan, Planned, Representative, StoredPlans
from undermine.testing import point

HOSTILE = "\x1b[2J\x1b]0;owned\x07 [bold red]x[/bold red] \u202e\x00"

PLAN = Plan((Step(At(point()), Crash()),))


def test_explain_shows_how_many_dropped_plans_are_not_listed(capsys: pytest.CaptureFixture[str]) -> None:
    rules = (
        Explanation("policy a", 12_345, (Example("one", "x two"),)),
        Explanation("policy b", 1, (Example("three"),)),
    )
    result = PlanResult((Predicted("some", "is some", (PLAN,), 1, rules),), 1, 1, {}, {})
    show_plan(result, explain=True)
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("  12,345 dropped by policy a")
    assert lines[at + 1 :] == [
        "       one; represented by x two",
        "       … and 12,344 more",
        "  1 dropped by policy b",
        "       three",
    ]
    show_plan(result)
    assert "more" not in capsys.readouterr().out


def test_markup_of_a_target_is_text_in_stored_plans(capsys: pytest.CaptureFixture[str]) -> None:
    stands = Representative("id", HOSTILE, HOSTILE)
    rule = DroppedBy(HOSTILE, 2, 2, (DroppedPlan("id", HOSTILE, "other " + HOSTILE, stands),))
    plan = Plan((Step(At(point(target=HOSTILE)), Crash()),))
    show_stored_plans(StoredPlans("folder", (Planned(HOSTILE, 1, 0, 1, (plan,), (rule,)),)))
    out = capsys.readouterr().out
    assert not set("\x1b\x07\x00\u202e") & set(out)
    assert out.count("[bold red]x[/bold red]") == 7


def test_a_campaign_without_plans_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    show_stored_plans(StoredPlans("campaigns/then", ()))
    assert capsys.readouterr().out.splitlines() == ["campaign then", "no strategy has proposed anything yet"]


def test_plans_that_read_alike_are_told_apart_and_shared_reasons_are_cut(capsys: pytest.CaptureFixture[str]) -> None:
    whys = ("slow: under a lock; a limit of 5 s", "slow: under a lock; a limit of 7 s", "slow: under a lock; a limit of 7 s", "")
    plans = tuple(Plan((Step(At(point()), Crash()),), seed, why=why) for seed, why in enumerate(whys))
    show_plan(PlanResult((Predicted("some", "is some", plans, 4, apart={plans[1].id: "called by f"}),), 1, 1, {}, {}))
    lines = capsys.readouterr().out.splitlines()[3:]
    assert lines[1::2][0] == "       slow: under a lock; a limit of 5 s"
    assert lines[3:5] == ["       called by f", "       …; a limit of 7 s"]
    assert lines[6] == "       for the same reason"
    assert len(lines) == 8


def test_a_reason_that_all_plans_share_is_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    plans = tuple(Plan((Step(At(point(node=node)), Crash()),), why="because") for node in ("n1", "n2"))
    show_plan(PlanResult((Predicted("some", "is some", plans, 2, reasoned=True), Predicted("none", "is none", ())), 1, 1, {}, {}))
    lines = capsys.readouterr().out.splitlines()[2:]
    told = [line.strip() for line in lines if "." not in line]
    assert told == ["some: is some", "each: because", "", "none: is none", "no plan"]
    show_plan(PlanResult((Predicted("some", "is some", plans, 2),), 1, 1, {}, {}))
    assert "because" not in capsys.readouterr().out, "a strategy that only counts has no reasons to show"


def test_a_reason_that_only_lacks_a_part_is_shown_in_full() -> None:
    assert cut_reason("a; b", "a; b; c") == "a; b"
    assert cut_reason("a; b; c", "a; b") == "…; c"
    assert cut_reason("", "") == ""


def test_plans_that_are_proposed_later_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    planned = Planned("some", 6, 0, 0, (), later=100), Planned("random", 6, 0, 1, (PLAN,), later=None)
    show_stored_plans(StoredPlans("x", planned))
    out = capsys.readouterr().out
    assert "some: 6 run, 0 still to run, at least 100 to be proposed later" in out
    assert "random: 6 run, 1 still to run, and it never runs out of others" in out
