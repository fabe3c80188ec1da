"""The behaviour that all ledgers share, and the examples of their page."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from ledger_simulator import Story, view

from undermine import ledgers
from undermine.ledgers.base import frozen, show, word, words
from undermine.model.run import Op, RunView, Verdict

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "ledgers.md").read_text()
MODELS = ("counter", "lock", "queue", "register", "set_of")
PARTS = ("ANYTHING", "IMPOSSIBLE", "UNKNOWN", "Call", "Ledger", "Loss", "Model", "at_most_lost", *MODELS)
LEDGERS = [name for name in ledgers.__all__ if name not in PARTS]


def test_the_page_has_every_ledger_with_all_its_options() -> None:
    told = {
        name: re.findall(r"\w+", options)
        for name, options in re.findall(r"^### `(\w+)\((.*)\)`$", PAGE, flags=re.MULTILINE)
    }
    assert sorted(told) == sorted(LEDGERS)
    for name, options in told.items():
        assert set(options) == set(inspect.signature(getattr(ledgers, name)).parameters) - {"name"}, name


def test_the_page_has_every_model_with_all_its_options() -> None:
    told = dict(re.findall(r"^\| `(\w+)\((.*?)\)` \|", PAGE, flags=re.MULTILINE))
    assert sorted(told) == sorted(MODELS)
    for name, options in told.items():
        assert re.findall(r"\w+", options) == list(inspect.signature(getattr(ledgers, name)).parameters), name


def test_the_examples_of_the_page_can_be_declared() -> None:
    lines = re.findall(r"^    (ledgers\.\w+\(.*\))$", PAGE, flags=re.MULTILINE)
    assert len(lines) >= len(LEDGERS)
    for line in lines:
        made = eval(line, {"ledgers": ledgers, "TASKS": ["t1"]})
        assert isinstance(made, ledgers.Ledger)
        assert made(view([])).answer == "unknown", line


@pytest.mark.parametrize("name", LEDGERS)
def test_every_ledger_can_be_given_a_name(name: str) -> None:
    needed = {"replicas_agree": {"read": "r"}, "runs_of_jobs": {"times": "exactly once", "submit": "s", "run": "r"}}
    needed["linearizable"] = {"model": ledgers.register()}
    made = getattr(ledgers, name)(**needed.get(name, {}), name="mine")
    assert (made.name, repr(made)) == ("mine", "Ledger('mine')")


def test_operations_without_times_are_not_judged_by_what_came_first() -> None:
    ops = [
        Op(0, "c1", "put", "", {"key": "k", "value": 1}, "ok"),
        Op(1, "c1", "get", "", {"key": "k"}, "ok", 2, phase="final"),
    ]
    for ledger in (ledgers.no_acknowledged_write_lost(), ledgers.no_stale_read()):
        assert "without times" in ledger(view(ops)).text
    locks = [Op(0, "c1", "lock", status="ok"), Op(1, "c2", "lock", status="ok")]
    assert "without times" in ledgers.mutual_exclusion()(view(locks)).text


def test_what_is_lost_is_lost_for_good_and_what_lags_behind_is_not() -> None:
    lost = [
        Op(0, "c1", "put", "", {"key": "k", "value": 1}, "ok", start_ns=1, end_ns=2),
        Op(1, "c1", "get", "", {"key": "k"}, "ok", None, phase="final", start_ns=3, end_ns=4),
    ]
    differ = [Op(n, f"c{n}", "get", f"n{n}", {"key": "k"}, "ok", n, phase="final", start_ns=3, end_ns=4) for n in (1, 2)]
    for ledger, ops, lasting in (
        (ledgers.no_acknowledged_write_lost(), lost, True),
        (ledgers.replicas_agree(read="get"), differ, False),
    ):
        verdict = ledger(view(ops))
        assert (verdict.answer, verdict.lasting) == ("fail", lasting), verdict


def test_a_ledger_of_ones_own() -> None:
    def judge(run: RunView) -> Verdict:
        return Verdict.ok(f"{len(run.history)} operations")

    ledger = ledgers.Ledger("counts", judge, lambda history: "" if history else "nothing yet")
    assert ledger(Story().add("x").view).text == "1 operations"
    assert ledger.settled is not None
    assert (ledger.settled(()), ledger.settled(Story().add("x").history)) == ("nothing yet", "")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ([1, {"a": [2]}], (1, {"a": (2,)}), True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ([1, 2], [2, 1], False),
        ({"a": 1}, {"a": 2}, False),
        (None, "", False),
    ],
)
def test_values_are_compared_by_what_they_hold(one: object, other: object, same: bool) -> None:
    assert (frozen(one) == frozen(other)) is same
    assert len({frozen(one), frozen(other)}) == (1 if same else 2)


def test_what_targets_answer_is_shown_short_and_printable() -> None:
    for value in ("x" * 10_000, "\x1b[31m", [["y" * 1000] * 1000] * 3, {"k\n": "\x00"}, 10**5000, frozen({"a": [1]})):
        assert len(show(value)) <= 120
        assert show(value).isprintable()
        assert len(word(value)) <= 120
        assert word(value).isprintable()
    assert show(frozen({"a": 1})) == "{'a': 1}"
    assert words(f"k{number}" for number in range(9)) == "k0, k1, k2, k3, k4 and 4 more"
