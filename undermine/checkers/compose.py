"""All checkers on one run, and what their verdicts mean together: the run's symptoms, how bad they are, and new log output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from undermine.checkers.logs import Logs
from undermine.checkers.registry import BUILTIN
from undermine.model.run import Rank, RunView, Symptom, Verdict
from undermine.protocols import Checker

UserChecks = Callable[[], Sequence[Verdict]]

NEWS_CHECKER = Logs.name
"""The checker whose passing verdict lists the log entries that the baseline does not have."""
_BY_NAME = {checker.name: checker for checker in BUILTIN}


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
    """The verdicts without ranks and frames, to compare them with verdicts that were stored before these existed."""
    return tuple(msgspec.structs.replace(verdict, rank="", frame="") for verdict in verdicts)


def symptoms_of(verdicts: Iterable[Verdict]) -> tuple[Symptom, ...]:
    """The symptoms of the failing verdicts. Findings are grouped by the first one that isn't ruled out.

    Broken promises come first, worst rank first. Then an exit or a dead thread: it names the cause, and its consequences, such
    as a node that does not serve again, look alike for many causes. Then the rest, worst rank first.
    """
    failing = sorted((verdict for verdict in verdicts if verdict.answer == "fail"), key=_naming_order)
    found: dict[str, Symptom] = {}
    for verdict in failing:
        found.setdefault(name_of(verdict), Symptom(name_of(verdict), rank_of(verdict), verdict.frame))
    return tuple(found.values())


def symptom_of(verdicts: Iterable[Verdict]) -> str:
    """The first symptom of a run; "" if no verdict fails."""
    return next((symptom.text for symptom in symptoms_of(verdicts)), "")


def name_of(verdict: Verdict) -> str:
    """The symptom of a failing verdict; a checker may have given none."""
    return verdict.symptom or verdict.text or f"{verdict.checker} fails"


def _naming_order(verdict: Verdict) -> tuple[int, int]:
    checker, rank = _BY_NAME.get(verdict.checker), rank_of(verdict)
    names_cause = checker is not None and checker.explains
    return 0 if rank is Rank.PROMISE else 1 if names_cause else 2, rank.order


def rank_of(verdict: Verdict) -> Rank:
    """How bad the verdict's symptom is: the rank of its built-in checker, else the rank that is stored with it."""
    if checker := _BY_NAME.get(verdict.checker):
        return checker.rank
    return next((rank for rank in Rank if rank.value == verdict.rank), Rank.PROMISE)


def news_of(verdicts: Iterable[Verdict]) -> tuple[str, ...]:
    """The log entries of a run that the baseline does not have, if that is all there is against its logs."""
    passed = (verdict for verdict in verdicts if verdict.checker == NEWS_CHECKER and verdict.answer == "pass")
    return next((verdict.evidence for verdict in passed), ())
