"""Failing runs that show the same symptom are one finding; so are runs of the same plan.

Pure: rows of the store in, findings out. A finding's number is that of its first failing run among the findings, so it
stays when more runs come.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from undermine.model.finding import Finding
from undermine.model.plan import Plan
from undermine.model.run import Verdict

FailingRun = tuple[int, str, str, Plan]
"""(run, strategy, symptom, plan)"""
Confirmation = tuple[str, str, str]
"""(plan id, status, symptom)"""


class _Group:
    def __init__(self, symptom: str, plan: Plan) -> None:
        self.symptom = symptom
        self.plan = plan
        self.runs: list[int] = []
        self.strategies: list[str] = []


def group(
    failing: Sequence[FailingRun],
    confirmations: Sequence[Confirmation],
    verdicts_of: Callable[[int], tuple[Verdict, ...]],
) -> tuple[Finding, ...]:
    """One finding for each symptom; another symptom of a plan that is being confirmed belongs to the same bug."""
    by_symptom: dict[str, _Group] = {}
    by_plan: dict[str, _Group] = {}
    groups: list[_Group] = []
    for run, strategy, symptom, plan in failing:
        found = by_symptom.get(symptom) or (by_plan.get(plan.id) if strategy == "confirm" else None)
        if found is None:
            found = _Group(symptom, plan)
            groups.append(found)
        by_symptom.setdefault(symptom, found)
        by_plan.setdefault(plan.id, found)
        found.runs.append(run)
        if strategy != "confirm" and strategy not in found.strategies:
            found.strategies.append(strategy)
    return tuple(_finding(number, g, confirmations, verdicts_of) for number, g in enumerate(groups, 1))


def _finding(
    number: int,
    found: _Group,
    confirmations: Sequence[Confirmation],
    verdicts_of: Callable[[int], tuple[Verdict, ...]],
) -> Finding:
    tried = [symptom for plan_id, status, symptom in confirmations if plan_id == found.plan.id and status == "fired"]
    verdicts = tuple(v for v in verdicts_of(found.runs[0]) if v.answer == "fail")
    title = next((v.text for v in verdicts if v.symptom == found.symptom), found.symptom)
    return Finding(
        id=f"F{number}",
        symptom=found.symptom,
        title=title,
        plan=found.plan,
        runs=tuple(found.runs),
        strategies=tuple(found.strategies),
        verdicts=verdicts,
        tries=len(tried),
        hits=sum(bool(symptom) for symptom in tried),
    )
