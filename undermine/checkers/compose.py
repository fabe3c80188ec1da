"""All checkers on one run, and what their verdicts mean together: the run's symptom, how bad it is, and new log output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from undermine.checkers.logs import Logs
from undermine.checkers.registry import BUILTIN
from undermine.model.run import Rank, RunView, Verdict
from undermine.protocols import Checker

UserChecks = Callable[[], Sequence[Verdict]]

NEWS_CHECKER = Logs.name
"""The checker whose passing verdict lists the log entries that the baseline does not have."""
_BY_NAME = {checker.name: checker for checker in BUILTIN}
_NAMES = list(_BY_NAME)


def check_all(run: RunView, checkers: Iterable[Checker], user_checks: UserChecks) -> tuple[Verdict, ...]:
    """Run the installed checkers here and the user's in their own process; a checker that raises answers `unknown`."""
    if run.record.status == "broken":
        return ()
    verdicts = [_guarded(checker, run) for checker in checkers]
    return (*verdicts, *user_checks())


def _guarded(checker: Checker, run: RunView) -> Verdict:
    try:
        verdict = checker.check(run)
    except Exception as error:
        verdict = Verdict.unknown(f"the checker raised {type(error).__name__}: {error}")
    rank = getattr(checker, "rank", None)  # a checker of another package may have none, or something else
    return msgspec.structs.replace(verdict, checker=checker.name, rank=rank.value if isinstance(rank, Rank) else "")


def unranked(verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """The verdicts without their ranks, to compare them with verdicts that were stored before ranks existed."""
    return tuple(msgspec.structs.replace(verdict, rank="") for verdict in verdicts)


def symptom_of(verdicts: Sequence[Verdict]) -> str:
    """The symptom of the failing verdict that says most about the cause; "" if none fails.

    An exit or a dead thread explains all the rest. Then come broken promises: those that the user's own checkers found.
    Then the other built-in checkers, in the order of the registry.
    """
    failing = [verdict for verdict in verdicts if verdict.answer == "fail"]
    if not failing:
        return ""
    first = min(failing, key=_naming_order)
    return first.symptom or first.text or f"{first.checker} fails"


def _naming_order(verdict: Verdict) -> tuple[int, int]:
    checker = _BY_NAME.get(verdict.checker)
    if checker is None:
        return 1, 0
    return 0 if checker.explains else 2, _NAMES.index(checker.name)


def rank_of(verdict: Verdict) -> Rank:
    """How bad the verdict's symptom is: the rank of its built-in checker, else the rank that is stored with it."""
    if checker := _BY_NAME.get(verdict.checker):
        return checker.rank
    return next((rank for rank in Rank if rank.value == verdict.rank), Rank.PROMISE)


def news_of(verdicts: Iterable[Verdict]) -> tuple[str, ...]:
    """The log entries of a run that the baseline does not have, if that is all there is against its logs."""
    passed = (verdict for verdict in verdicts if verdict.checker == NEWS_CHECKER and verdict.answer == "pass")
    return next((verdict.evidence for verdict in passed), ())
