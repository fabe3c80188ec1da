"""Failing runs that show the same symptom are one finding; so are re-runs of the same plan, whatever they show.

Pure: outcomes of runs in, findings out. Where a fault hit does not split a finding: those places are its variants. A number
that a symptom once had stays with it; new ones are given in the order of the first failing runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import msgspec

from undermine.findings.confirm import (
    CANDIDATES_MAX,
    DROPPED_MAX,
    Attempt,
    Reruns,
    best,
    fired_alike,
)
from undermine.findings.realism import Lacking
from undermine.model.faults import fault_kind
from undermine.model.finding import Finding, Outcome, Variant
from undermine.model.plan import Plan, describe_trigger
from undermine.model.point import PHASE, Point
from undermine.model.rounds import RoundKind
from undermine.model.run import Verdict

VARIANTS_MAX = 12

VerdictsOf = Callable[[int], tuple[Verdict, ...]]
Known = Callable[[Finding], str]
"""Why the user does not want to hear of a finding ("" if that is not so)."""


class Suspicion(msgspec.Struct, frozen=True):
    """A finding as far as it is known, and what was tried with each plan that led to it."""

    finding: Finding
    attempts: tuple[Attempt, ...]
    normal: bool
    """Fault-free runs showed the symptom too: nothing need be tried."""
    lasting: bool = False
    """It is not a matter of time."""


# --- which symptoms are the same

_QUOTED = re.compile(r"(?<!\w)'[^']*'|\"[^\"]*\"")
"""An apostrophe within a word (`can't`) begins no quotation."""
_PATH = re.compile(r"(?<![\w<])\.{0,2}(/[^\s/:,;)\]]+)+/?")
_MASKED = re.compile(r"<(?:n|hex|path)>")
_NUMBER = re.compile(r"(?<!signal )(?<!exit code )(?<![#\d])\d+(\.\d+)*")
"""Which signal and which exit code matter, and so does which call of a function (`module:function#2`)."""


@lru_cache(maxsize=4096)
def template(symptom: str) -> str:
    """What is left of a symptom without quoted text, paths and numbers."""
    text = _QUOTED.sub("<*>", symptom)
    for pattern in (_MASKED, _PATH, _NUMBER):
        text = pattern.sub("<*>", text)
    return " ".join(text.split())


class _Group:
    def __init__(self, symptom: str) -> None:
        self.symptom = symptom
        self.found: list[Outcome] = []
        """Failing runs of strategies, and of faults at rest."""
        self.sites: set[str] = set()
        self.runs: list[int] = []


def _sort(outcomes: Sequence[Outcome]) -> list[_Group]:
    """Re-runs of a plan that show something else belong to the bug that the plan was first seen to cause.

    So do later runs that show the same, if their faults hit where those of this bug did; elsewhere it may be another bug.
    """
    by_symptom: dict[str, _Group] = {}
    also_shown: dict[str, list[_Group]] = {}
    by_plan: dict[str, tuple[_Group, Outcome]] = {}
    groups: list[_Group] = []
    for outcome in outcomes:
        if not outcome.symptom or outcome.kind in (RoundKind.CONTROL, RoundKind.REALISM):
            continue
        name = template(outcome.symptom)
        group = by_symptom.get(name)
        if outcome.kind == RoundKind.CONFIRM:
            if group is None and outcome.plan_id in by_plan:
                group, first = by_plan[outcome.plan_id]
                if fired_alike(outcome, first):  # else it may be another bug, if somebody else sees it too
                    also_shown.setdefault(name, []).append(group)
        else:
            here = site(outcome)
            if group is None:
                group = next((other for other in also_shown.get(name, ()) if here in other.sites), None)
            if group is None:
                group = by_symptom[name] = _Group(outcome.symptom)
                groups.append(group)
            group.found.append(outcome)
            group.sites.add(here)
            by_plan.setdefault(outcome.plan_id, (group, outcome))
        if group:
            group.runs.append(outcome.run)
    return groups


# --- findings


def suspicions(
    outcomes: Sequence[Outcome],
    verdicts_of: VerdictsOf,
    numbers: Mapping[str, int] | None = None,
    fault_free: Sequence[str] = (),
    known: Known = lambda _: "",
    lacking: Lacking | None = None,
) -> tuple[Suspicion, ...]:
    """One for each symptom, by number; `numbers` are those that symptoms have already.

    `fault_free` is the symptom of each run without a fault, "" where it passed: what they show too is flaky.
    `lacking` says why devices cannot be slow here; None: it is not asked whether delays are realistic.
    """
    groups, reruns = _sort(outcomes), Reruns(outcomes, lacking)
    claimed = {template(group.symptom) for group in groups}
    taken = {template(symptom): number for symptom, number in (numbers or {}).items()}
    made = []
    for group in groups:
        number = taken.setdefault(template(group.symptom), max(taken.values(), default=0) + 1)
        others = claimed - {template(group.symptom)}
        attempts = _attempts(group.found, reruns, lambda symptom: template(symptom) in others)  # noqa: B023 - asked at once
        normal = sum(template(symptom) == template(group.symptom) for symptom in fault_free)
        finding = _finding(number, group, best(attempts), verdicts_of)
        if normal:
            finding = msgspec.structs.replace(
                finding,
                control_tries=finding.control_tries + len(fault_free),
                control_hits=finding.control_hits + normal,
            )
        finding = msgspec.structs.replace(finding, suppressed=known(finding))
        lasting = any(v.lasting and v.symptom == group.symptom for v in verdicts_of(group.found[0].run))
        made.append(Suspicion(finding, attempts, bool(normal), lasting))
    return tuple(sorted(made, key=lambda suspicion: int(suspicion.finding.id[1:])))


def _attempts(found: Sequence[Outcome], reruns: Reruns, others: Callable[[str], bool]) -> tuple[Attempt, ...]:
    """The plans to try: the first for each place and kind of fault, then the second and so on, for as long as none of
    the same place could be met again, or what was met is dropped: another way to that place may do more there."""
    by_place: dict[tuple[str, tuple[str, ...]], dict[str, Outcome]] = {}
    for outcome in found:
        by_place.setdefault((site(outcome), kinds(outcome)), {}).setdefault(outcome.plan_id, outcome)
    attempts: list[Attempt] = []
    dropped: set[tuple[str, ...]] = set()
    waiting = [iter(plans.values()) for plans in by_place.values()]
    while waiting and _candidates(attempts) < CANDIDATES_MAX:
        for plans in list(waiting):
            first = next((outcome for outcome in plans if _ways(outcome) not in dropped), None)
            attempt = reruns.attempt(first, others) if first else None
            if attempt:
                attempts.append(attempt)
            if attempt and attempt.dropped:
                dropped.add(_ways(attempt.first))
            elif attempt is None or attempt.again.tries:
                waiting.remove(plans)
    enough = next((n for n in range(len(attempts)) if _candidates(attempts[:n]) >= CANDIDATES_MAX), len(attempts))
    return tuple(attempts[:enough])


def _ways(outcome: Outcome) -> tuple[str, ...]:
    """What led to where it was hit, on whichever node."""
    return tuple(key for _, point in outcome.landed for key in (point.get("op"), point.get("stack")))


def _candidates(attempts: Sequence[Attempt]) -> int:
    """Those that were dropped do not count, if they are not too many."""
    dropped = sum(attempt.dropped for attempt in attempts)
    return len(attempts) - min(dropped, DROPPED_MAX)


def _finding(number: int, group: _Group, attempt: Attempt, verdicts_of: VerdictsOf) -> Finding:
    shown = _shown_by(group, attempt)
    verdicts = tuple(v for v in verdicts_of(shown.run) if v.answer == "fail")
    return Finding(
        id=f"F{number}",
        symptom=group.symptom,
        title=next((v.text for v in verdicts if v.symptom == shown.symptom), group.symptom),
        plan=attempt.plan,
        runs=tuple(group.runs),
        strategies=tuple(dict.fromkeys(outcome.strategy or outcome.kind.value for outcome in group.found)),
        verdicts=verdicts,
        tries=attempt.again.tries,
        hits=attempt.again.hits,
        elsewhere=attempt.again.elsewhere,
        control_tries=attempt.control.tries,
        control_hits=attempt.control.hits,
        variants=tuple(_variants(group.found, site(attempt.first))),
        faults=tuple(dict.fromkeys(kind for outcome in group.found for kind in kinds(outcome))),
        shown_by=shown.run,
        realism=attempt.realism,
    )


def _shown_by(group: _Group, attempt: Attempt) -> Outcome:
    """A run with the long wait, best one with the same symptom; else the run that failed first."""
    alike = [run for run in attempt.shown if template(run.symptom) == template(group.symptom)]
    return next(iter(alike or attempt.shown), attempt.first)


def _variants(found: Sequence[Outcome], own: str) -> list[Variant]:
    """The shortest plan for each other place."""
    by_site: dict[str, list[Outcome]] = {}
    for outcome in found:
        by_site.setdefault(site(outcome), []).append(outcome)
    variants = []
    for name, runs in by_site.items():
        shortest = min(runs, key=lambda outcome: (len(outcome.plan.steps), outcome.run))
        if name != own:
            variants.append(Variant(name, shortest.plan, shortest.run, len(runs)))
    return sorted(variants, key=lambda variant: (-variant.runs, variant.run))[:VARIANTS_MAX]


def kinds(outcome: Outcome) -> tuple[str, ...]:
    """Of the faults that fired."""
    steps = [outcome.plan.steps[step] for step, _ in outcome.landed] or outcome.plan.steps
    return tuple(dict.fromkeys(fault_kind(step.fault) for step in steps))


def site(outcome: Outcome) -> str:
    """Where in the target the last fault hit: role, operation and function, whichever node and call of it that was."""
    if not outcome.landed or not outcome.landed[-1][1].items:
        return _last_trigger(outcome.plan)
    return _place(outcome.landed[-1][1])


@lru_cache(maxsize=4096)
def _place(point: Point) -> str:
    place = point.get("loc").partition("#")[0]
    if point.get("op") == PHASE:
        return f"at {place}"
    of = f" of {point.get('role')}" if point.get("role") else ""
    return f"{point.get('op') or 'any operation'}{of}" + (f" at {place}" if place else "")


def _last_trigger(plan: Plan) -> str:
    return describe_trigger(plan.steps[-1].trigger) if plan.steps else "no fault"
