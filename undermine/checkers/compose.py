"""All checkers on one run, and the one symptom by which the run is grouped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from undermine.model.run import RunView, Verdict
from undermine.protocols import Checker

UserChecks = Callable[[], Sequence[Verdict]]


def check_all(run: RunView, checkers: Iterable[Checker], user_checks: UserChecks) -> tuple[Verdict, ...]:
    """Built-in checkers here, the user's in their own process; one that crashes says `unknown`."""
    if run.record.status == "broken":
        return ()
    verdicts = [_guarded(checker, run) for checker in checkers]
    return (*verdicts, *user_checks())


def _guarded(checker: Checker, run: RunView) -> Verdict:
    try:
        verdict = checker.check(run)
    except Exception as error:
        verdict = Verdict.unknown(f"the checker raised {type(error).__name__}: {error}")
    return msgspec.structs.replace(verdict, checker=checker.name)


def symptom_of(verdicts: Sequence[Verdict]) -> str:
    """The symptom of the first failing verdict; safety found by the user's own checkers outranks what never came back.

    An exit or a dead thread explains a later hang, so it comes first; what never ends says more than what ended with the
    fault.
    """
    failing = [verdict for verdict in verdicts if verdict.answer == "fail"]
    if not failing:
        return ""
    first = min(failing, key=lambda verdict: _RANK.get(verdict.checker, 2))
    return first.symptom or first.text or f"{first.checker} fails"


_RANK = {"exits": 0, "deaths": 1, "hang": 3, "gray": 4, "liveness": 5, "workload": 6, "logs": 7}
