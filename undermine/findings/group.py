"""Groups failing runs into findings: runs with the same symptom, and re-runs of the same plan whatever their symptom.

Pure: landed runs in, findings out. Faults at different sites do not split a finding: the sites are its variants. A symptom keeps
its number; new numbers follow the order of the first failing runs.
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
from undermine.model.finding import Finding, LandedRun, Variant
from undermine.model.plan import Plan, describe_trigger
from undermine.model.point import PHASE, Point
from undermine.model.rounds import RoundKind
from undermine.model.run import Verdict

VARIANTS_MAX = 12

VerdictsOf = Callable[[int], tuple[Verdict, ...]]
SuppressionOf = Callable[[Finding], str]
"""The reason that the user gave for suppressing a finding; "" if it is not suppressed."""


class Suspicion(msgspec.Struct, frozen=True):
    """A finding so far, and the attempts to reproduce it with each plan that led to it."""

    finding: Finding
    attempts: tuple[Attempt, ...]
    normal: bool
    """Fault-free runs showed the symptom too, so there is nothing to try."""
    lasting: bool = False
    """Its promise is broken for good: waiting longer would not help."""


# --- which symptoms are the same

_QUOTED = re.compile(r"(?<!\w)'[^']*'|\"[^\"]*\"")
"""An apostrophe within a word (`can't`) doesn't begin a quotation."""
_PATH = re.compile(r"(?<![\w<])\.{0,2}(/[^\s/:,;)\]]+)+/?")
_MASKED = re.compile(r"<(?:n|hex|path)>")
_NUMBER = re.compile(r"(?<!signal )(?<!exit code )(?<![#\d])\d+(\.\d+)*")
"""The numbers of signals, exit codes and calls (`module:function#2`) are kept: they distinguish symptoms."""


@lru_cache(maxsize=4096)
def template(symptom: str) -> str:
    """The symptom with quoted text, paths and numbers masked."""
    text = _QUOTED.sub("<*>", symptom)
    for pattern in (_MASKED, _PATH, _NUMBER):
        text = pattern.sub("<*>", text)
    return " ".join(text.split())


class _Group:
    def __init__(self, symptom: str) -> None:
        self.symptom = symptom
        self.experiments: list[LandedRun] = []
        """Failing runs of strategies, and benign runs."""
        self.sites: set[str] = set()
        self.runs: list[int] = []


def _grouped(runs: Sequence[LandedRun]) -> list[_Group]:
    """Group runs by symptom. A re-run with another symptom belongs to the finding that its plan caused first.

    A later run with that other symptom does too, if its fault hit a site of this finding; elsewhere it may be another bug.
    """
    by_symptom: dict[str, _Group] = {}
    also_shown: dict[str, list[_Group]] = {}
    by_plan: dict[str, tuple[_Group, LandedRun]] = {}
    groups: list[_Group] = []
    for run in runs:
        if not run.symptom or run.kind in (RoundKind.CONTROL, RoundKind.REALISM):
            continue
        name = template(run.symptom)
        group = by_symptom.get(name)
        if run.kind == RoundKind.CONFIRM:
            if group is None and run.plan_id in by_plan:
                group, first = by_plan[run.plan_id]
                if fired_alike(run, first):  # else it may be another bug
                    also_shown.setdefault(name, []).append(group)
        else:
            here = site(run)
            if group is None:
                group = next((other for other in also_shown.get(name, ()) if here in other.sites), None)
            if group is None:
                group = by_symptom[name] = _Group(run.symptom)
                groups.append(group)
            group.experiments.append(run)
            group.sites.add(here)
            by_plan.setdefault(run.plan_id, (group, run))
        if group:
            group.runs.append(run.run)
    return groups


# --- findings


def suspicions(
    runs: Sequence[LandedRun],
    verdicts_of: VerdictsOf,
    numbers: Mapping[str, int] | None = None,
    fault_free: Sequence[str] = (),
    suppression_of: SuppressionOf = lambda _: "",
    lacking: Lacking | None = None,
) -> tuple[Suspicion, ...]:
    """One suspicion for each symptom, by number; `numbers` are those that symptoms already have.

    `fault_free` has the symptom of each fault-free run, "" if it passed: a symptom that also occurs there is flaky.
    `lacking` gives the reason why a device cannot be slow here; None means that realism is not checked.
    """
    groups, reruns = _grouped(runs), Reruns(runs, lacking)
    claimed = {template(group.symptom) for group in groups}
    taken = {template(symptom): number for symptom, number in (numbers or {}).items()}
    made = []
    for group in groups:
        number = taken.setdefault(template(group.symptom), max(taken.values(), default=0) + 1)
        others = claimed - {template(group.symptom)}
        attempts = _attempts(group.experiments, reruns, lambda symptom: template(symptom) in others)  # noqa: B023 - asked at once
        normal = sum(template(symptom) == template(group.symptom) for symptom in fault_free)
        finding = _finding(number, group, best(attempts), verdicts_of)
        if normal:
            finding = msgspec.structs.replace(
                finding,
                control_tries=finding.control_tries + len(fault_free),
                control_hits=finding.control_hits + normal,
            )
        finding = msgspec.structs.replace(finding, suppressed=suppression_of(finding))
        lasting = any(v.lasting and v.symptom == group.symptom for v in verdicts_of(group.experiments[0].run))
        made.append(Suspicion(finding, attempts, bool(normal), lasting))
    return tuple(sorted(made, key=lambda suspicion: int(suspicion.finding.id[1:])))


def _attempts(found: Sequence[LandedRun], reruns: Reruns, others: Callable[[str], bool]) -> tuple[Attempt, ...]:
    """The plans to try: the first for each site and kind of fault, then the second and so on.

    Another plan for a site is added while no re-run has reached the site again, or its delay was dropped as unrealistic:
    another call path to that site may block for longer.
    """
    by_site_and_kind: dict[tuple[str, tuple[str, ...]], dict[str, LandedRun]] = {}
    for run in found:
        by_site_and_kind.setdefault((site(run), kinds(run)), {}).setdefault(run.plan_id, run)
    attempts: list[Attempt] = []
    dropped: set[tuple[str, ...]] = set()
    waiting = [iter(plans.values()) for plans in by_site_and_kind.values()]
    while waiting and _candidates(attempts) < CANDIDATES_MAX:
        for plans in list(waiting):
            first = next((run for run in plans if _call_paths(run) not in dropped), None)
            attempt = reruns.attempt(first, others) if first else None
            if attempt:
                attempts.append(attempt)
            if attempt and attempt.dropped:
                dropped.add(_call_paths(attempt.first))
            elif attempt is None or attempt.again.tries:
                waiting.remove(plans)
    enough = next((n for n in range(len(attempts)) if _candidates(attempts[:n]) >= CANDIDATES_MAX), len(attempts))
    return tuple(attempts[:enough])


def _call_paths(run: LandedRun) -> tuple[str, ...]:
    """The operations and call stacks that the faults hit, on any node."""
    return tuple(key for _, point in run.landed for key in (point.get("op"), point.get("stack")))


def _candidates(attempts: Sequence[Attempt]) -> int:
    """The number of attempts without the dropped ones, of which at most `DROPPED_MAX` are excluded."""
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
        strategies=tuple(dict.fromkeys(run.strategy or run.kind.value for run in group.experiments)),
        verdicts=verdicts,
        tries=attempt.again.tries,
        hits=attempt.again.hits,
        elsewhere=attempt.again.elsewhere,
        control_tries=attempt.control.tries,
        control_hits=attempt.control.hits,
        variants=tuple(_variants(group.experiments, site(attempt.first))),
        faults=tuple(dict.fromkeys(kind for run in group.experiments for kind in kinds(run))),
        shown_by=shown.run,
        realism=attempt.realism,
    )


def _shown_by(group: _Group, attempt: Attempt) -> LandedRun:
    """A failing re-run, preferably with the same symptom; else the run that failed first."""
    alike = [run for run in attempt.shown if template(run.symptom) == template(group.symptom)]
    return next(iter(alike or attempt.shown), attempt.first)


def _variants(found: Sequence[LandedRun], own: str) -> list[Variant]:
    """The shortest plan for each site other than `own`."""
    by_site: dict[str, list[LandedRun]] = {}
    for run in found:
        by_site.setdefault(site(run), []).append(run)
    variants = []
    for name, runs in by_site.items():
        shortest = min(runs, key=lambda run: (len(run.plan.steps), run.run))
        if name != own:
            variants.append(Variant(name, shortest.plan, shortest.run, len(runs)))
    return sorted(variants, key=lambda variant: (-variant.runs, variant.run))[:VARIANTS_MAX]


def kinds(run: LandedRun) -> tuple[str, ...]:
    """The kinds of the faults that fired."""
    steps = [run.plan.steps[step] for step, _ in run.landed] or run.plan.steps
    return tuple(dict.fromkeys(fault_kind(step.fault) for step in steps))


def site(run: LandedRun) -> str:
    """The site in the target that the last fault hit: role, operation and function, without node and call number."""
    if not run.landed or not run.landed[-1][1].items:
        return _last_trigger(run.plan)
    return _site_of(run.landed[-1][1])


@lru_cache(maxsize=4096)
def _site_of(point: Point) -> str:
    function = point.get("loc").partition("#")[0]
    if point.get("op") == PHASE:
        return f"at {function}"
    of = f" of {point.get('role')}" if point.get("role") else ""
    return f"{point.get('op') or 'any operation'}{of}" + (f" at {function}" if function else "")


def _last_trigger(plan: Plan) -> str:
    return describe_trigger(plan.steps[-1].trigger) if plan.steps else "no fault"
