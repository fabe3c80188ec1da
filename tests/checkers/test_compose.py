"""All checkers on one run, and the one symptom that names it."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from tables import for_each

from undermine.checkers.answers import Hang
from undermine.checkers.base import BuiltinChecker
from undermine.checkers.compose import check_all, news_of, rank_of, symptom_of, symptoms_of
from undermine.checkers.registry import BUILTIN
from undermine.model.plan import Plan
from undermine.model.run import Rank, RunRecord, RunView, Symptom, Verdict
from undermine.testing import run_view


class Says:
    """A checker with a fixed answer, which counts how often it was asked."""

    def __init__(self, name: str, answer: Verdict | Exception) -> None:
        self.name = name
        self._answer = answer
        self.asked = 0

    def check(self, run: RunView) -> Verdict:
        self.asked += 1
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def test_every_verdict_bears_the_name_of_its_checker_and_the_users_come_last() -> None:
    checkers = [Says("a", Verdict.ok()), Says("b", Verdict("fail", "t", "s", checker="liar"))]
    verdicts = check_all(run_view(), checkers, lambda: [Verdict("pass", checker="mine")])
    assert [(v.checker, v.answer) for v in verdicts] == [("a", "pass"), ("b", "fail"), ("mine", "pass")]


def test_a_checker_that_crashes_says_unknown_and_the_others_are_still_asked() -> None:
    last = Says("last", Verdict.ok())
    first, second, _ = check_all(run_view(), [Says("bad", KeyError("k")), last], lambda: [Verdict.ok()])
    assert (first.checker, first.answer, first.symptom) == ("bad", "unknown", "")
    assert "KeyError: 'k'" in first.text
    assert second.answer == "pass"
    assert last.asked == 1


def test_a_broken_run_is_not_judged_at_all() -> None:
    checker = Says("a", Verdict.fail("x"))
    view = RunView(RunRecord(1, Plan(), "broken"), (), lambda: pytest.fail("nobody may read the trace"))
    assert check_all(view, [checker], lambda: pytest.fail("nor ask the user's checkers")) == ()
    assert checker.asked == 0


def failing(checker: str) -> Verdict:
    return Verdict("fail", "text", f"symptom of {checker}", checker=checker)


NAMING_ORDER = ["some_user_checker", "deaths", "exits", "liveness", "hang", "agreement", "workload", "gray", "logs"]
"""Many causes look alike as a hang, or as a node that does not serve again. A death and an exit say where they arose."""


@for_each(("higher", "lower"), list(itertools.combinations(NAMING_ORDER, 2)))
def test_a_broken_promise_comes_first_then_a_cause_then_the_worst(higher: str, lower: str) -> None:
    for verdicts in ([failing(higher), failing(lower)], [failing(lower), failing(higher)]):
        assert symptom_of(verdicts) == f"symptom of {higher}"
        assert [symptom.text for symptom in symptoms_of(verdicts)] == [f"symptom of {name}" for name in (higher, lower)]


def test_a_symptom_has_the_rank_of_its_verdict_and_is_listed_once() -> None:
    twice = [failing("hang"), Verdict("fail", "t", "symptom of hang", checker="theirs", rank="gray"), failing("gray")]
    assert symptoms_of(twice) == (Symptom("symptom of hang", Rank.HANG), Symptom("symptom of gray", Rank.GRAY))


def test_every_builtin_checker_has_its_rank_in_these_tests() -> None:
    assert {*(checker.name for checker in BUILTIN), "some_user_checker"} == set(NAMING_ORDER)


def test_of_two_checkers_of_the_user_the_first_names_the_run() -> None:
    assert symptom_of([failing("zeta"), failing("alpha")]) == "symptom of zeta"


def test_only_failing_verdicts_have_a_say() -> None:
    loud = Verdict("unknown", "t", "symptom of exits", checker="exits")
    assert symptom_of([loud, Verdict.ok(), failing("liveness")]) == "symptom of liveness"
    assert symptom_of([loud, Verdict.ok()]) == ""
    assert symptom_of([]) == ""


def test_a_checker_that_names_no_symptom_still_fails_the_run() -> None:
    assert symptom_of([Verdict("fail", "a write is gone", checker="mine")]) == "a write is gone"
    assert symptom_of([Verdict("fail", checker="mine")]) == "mine fails"


# --- how bad a symptom is


class Ranked(Says):
    """A checker of another package that says how bad its symptom is."""

    rank = Rank.GRAY
    summary = "says so"


def test_a_verdict_keeps_the_rank_of_its_checker() -> None:
    theirs, ours, without = check_all(
        run_view(), [Ranked("theirs", Verdict.fail("x")), Hang(), Says("old", Verdict.fail("y"))], tuple
    )
    assert [rank_of(verdict) for verdict in (theirs, ours, without)] == [Rank.GRAY, Rank.HANG, Rank.PROMISE]


@pytest.mark.parametrize("kind", BUILTIN, ids=lambda kind: kind.name)
def test_a_stored_verdict_without_a_rank_is_ranked_by_the_name_of_its_checker(kind: type[BuiltinChecker]) -> None:
    stored = msgspec.json.decode(b'{"answer": "fail", "text": "t", "checker": "%s"}' % kind.name.encode(), type=Verdict)
    assert rank_of(stored) is kind.rank


def test_the_users_own_checkers_rank_worst_and_so_do_unknown_ranks() -> None:
    assert rank_of(failing("my_ledger")) is Rank.PROMISE
    assert rank_of(Verdict("fail", checker="theirs", rank="of a later version")) is Rank.PROMISE
    assert Rank.PROMISE.order == 0


# --- new log output


def test_news_are_the_evidence_of_logs_that_passed() -> None:
    assert news_of([Verdict("pass", evidence=("new",), checker="logs")]) == ("new",)
    assert news_of([Verdict("fail", evidence=("bad",), checker="logs"), Verdict("pass", evidence=("x",))]) == ()


def test_a_checker_of_another_package_may_have_no_rank_that_we_know() -> None:
    class Foreign:
        name = "foreign"
        rank = "gray"
        summary = "never"

        def check(self, run: RunView) -> Verdict:
            return Verdict.ok()

    [verdict] = check_all(run_view(), [Foreign()], tuple)  # type: ignore[list-item]
    assert (verdict.checker, verdict.rank) == ("foreign", "")
    assert rank_of(verdict) is Rank.PROMISE
