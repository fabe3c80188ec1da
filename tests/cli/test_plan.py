"""Predicted and stored plans as a person sees them."""

from __future__ import annotations

import pytest

from undermine.api import PlanResult, Predicted
from undermine.campaign.stored_plans import DroppedBy, DroppedPlan, Planned, Representative, StoredPlans
from undermine.cli.plan import show_plan, show_stored_plans
from undermine.model.faults import Crash
from undermine.model.plan import At, Plan, Step
from undermine.policies.pruning import Example, Explanation
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
