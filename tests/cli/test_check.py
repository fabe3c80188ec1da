"""The screen of `undermine check`: suggested variables, what strategies have learnt, and notes."""

from __future__ import annotations

import io
import tomllib
from typing import Any

import pytest
from rich.console import Console

from undermine.analysis.agreement.suggestions import Suggestion, Suggestions
from undermine.analysis.points import Recurrence
from undermine.api.checking import CheckResult
from undermine.cli.check import show_check


def shown(suggestions: Suggestions | None, monkeypatch: pytest.MonkeyPatch, **more: Any) -> str:
    out = io.StringIO()
    monkeypatch.setattr("undermine.cli.check.console", lambda: Console(file=out, width=80, highlight=False))
    show_check(CheckResult((), (), Recurrence(0, 0, 0, {}), (1.0,), 0, {}, (), suggestions=suggestions, **more))
    return out.getvalue()


def test_suggested_variables_are_a_part_of_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    best = (
        Suggestion("status", "app:Members._view[*][0]", "status", ("store",), "UP, DOWN; nodes agree " + "always " * 20, 0.9),
        Suggestion("leader", "app:Node.leader", "leader", (), "s1, [bold]; often", 0.5),
        Suggestion("term", "app:Node.term", "term", ("master", "store"), "1, 2", 0.5),
        Suggestion("members", "app:Registry.members", "status", ("master",), "UP", 0.5),
    )
    text = shown(Suggestions(best, 1234), monkeypatch)
    _, heading, block = text.partition("of 1,234 attributes, the best first:\n")
    assert heading
    block, _, hint = block.partition("paste the lines")
    assert tomllib.loads(block) == {
        "variables": {"leader": "app:Node.leader"},
        "roles": {
            "store": {"variables": {"status": "app:Members._view[*][0]", "term": "app:Node.term"}},
            "master": {
                "variables": {
                    "term": "app:Node.term",
                    "members": {"path": "app:Registry.members", "metadata": "status"},
                }
            },
        },
    }
    assert "# s1, [bold]; often" in block
    assert "undermine hunt" in hint


def test_without_suggestions_the_reasons_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(Suggestions((), 30, {"on one node": 10, "never changes": 20}), monkeypatch)
    assert "no variables to suggest" in text
    assert text.index("20: never changes") < text.index("10: on one node")
    assert "suggest" not in shown(None, monkeypatch)


def test_what_a_strategy_has_learnt_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    many = tuple(f"v{number} is equal on s1 and s2 (9 messages, 90% of them)" for number in range(15))
    text = shown(None, monkeypatch, learnt={"cofi": many, "other": ()})
    assert "cofi\n  learnt from the fault-free runs:\n    v0 is equal on s1 and s2 (9 messages, 90% of them)\n" in text
    assert "… and 3 more" in text
    assert "other" not in text


def test_notes_of_fault_free_runs_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(None, monkeypatch, notes=[("n2 ends by itself with exit code 1", [1, 3])])
    assert "without any fault: n2 ends by itself with exit code 1 (2 runs, first in run 1)" in " ".join(text.split())
    assert "without any fault" not in shown(None, monkeypatch)
