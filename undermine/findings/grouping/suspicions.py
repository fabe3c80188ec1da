"""Makes findings from groups of failing runs, and says which plans are tried to confirm them. Pure.

A finding keeps its number; new numbers follow the order of the first failing runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import cache, partial

import msgspec

from undermine.checkers.compose import name_of, rank_of
from undermine.findings.bounds import Bounded, bounded
from undermine.findings.circumstances import all_circumstances, when
from undermine.findings.confirm import CANDIDATES_MAX, DROPPED_MAX, Attempt, Reruns, best
from undermine.findings.grouping.groups import Group, grouped, key_of, site, template, templates_of
from undermine.findings.realism import Lacking
from undermine.findings.shrink import Shrunk, shrunk, worth_it
from undermine.findings.windows import Order, Windows
from undermine.model.faults import fault_kind
from undermine.model.finding import FailingFrame, Finding, LandedRun, ShownSymptom, Variant, named
from undermine.model.rounds import SEQUELS
from undermine.model.run import Rank, Symptom, Verdict

VARIANTS_MAX = 12
FRAMES_MAX = 12

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
    shrunk: Callable[..., Shrunk] | None = None
    """Reduces the plan, for `wanted` and a `workload`; None if its re-runs pass too often."""
    bounded: Callable[..., Bounded] | None = None
    """Finds the window, for a plan, its rate, `wanted` and `trail_of`; None under the same condition."""


def suspicions(
    runs: Sequence[LandedRun],
    verdicts_of: VerdictsOf,
    numbers: Mapping[str, int] | None = None,
    fault_free: Sequence[Sequence[Symptom]] = (),
    suppression_of: SuppressionOf = lambda _: "",
    lacking: Lacking | None = None,
    roles: Mapping[str, str] | None = None,
    order: Order = lambda _: None,
    harmless: Callable[[], Iterable[LandedRun]] = tuple,
) -> tuple[Suspicion, ...]:
    """One suspicion for each symptom in each kind of circumstances, by number; `numbers` are those that names of findings already
    have.

    `fault_free` has the symptoms of each fault-free run: a symptom that also occurs there is flaky.
    `lacking` gives the reason why a device cannot be slow here; None means that realism is not checked. `roles` has the role of
    each node. `order` and `harmless`, the runs whose faults did no harm, tell which moments belong together.
    """
    reruns = Reruns(runs, lacking)
    names = roles or {}
    failing = [run for run in runs if run.symptoms and run.kind not in SEQUELS]
    windows = Windows(order, failing, harmless, lambda run: all_circumstances(run, names))
    taken = {key_of(name): number for name, number in (numbers or {}).items()}
    ruled_out: set[str] = set()
    replaced: set[str] = set()
    passed = cache(lambda: frozenset(run.plan_id for run in harmless()))
    while True:
        groups = grouped(runs, ruled_out, replaced, names, windows)
        found = _suspicions(groups, reruns, verdicts_of, taken, fault_free, suppression_of, passed)
        no_more = {group.key for group, each in zip(groups, found, strict=True) if each.finding.ruled_out} - ruled_out
        milder = {group.key for group, each in zip(groups, found, strict=True) if _is_replaced(each)} - replaced - no_more
        if not no_more and not milder:
            return tuple(sorted(map(_likened(found), found), key=lambda suspicion: int(suspicion.finding.id[1:])))
        ruled_out |= no_more
        replaced |= milder


def _is_replaced(suspicion: Suspicion) -> bool:
    """Did no re-run show the symptom so far, but some a milder one? Then that one is a suspicion, too."""
    attempts = suspicion.attempts
    return not any(attempt.again.hits for attempt in attempts) and any(run.symptoms for a in attempts for run in a.counted)


def _likened(found: Sequence[Suspicion]) -> Callable[[Suspicion], Suspicion]:
    """Return a function that names in a finding the others with the same symptom."""
    by_symptom: dict[str, list[str]] = {}
    for each in found:
        by_symptom.setdefault(template(each.finding.symptom), []).append(each.finding.id)

    def likened(one: Suspicion) -> Suspicion:
        others = tuple(name for name in by_symptom[template(one.finding.symptom)] if name != one.finding.id)
        return msgspec.structs.replace(one, finding=msgspec.structs.replace(one.finding, like=others))

    return likened


def _suspicions(
    groups: Sequence[Group],
    reruns: Reruns,
    verdicts_of: VerdictsOf,
    taken: dict[str, int],
    fault_free: Sequence[Sequence[Symptom]],
    suppression_of: SuppressionOf,
    passed: Callable[[], Set[str]],
) -> list[Suspicion]:
    """One suspicion for each group. `taken` has the numbers of names, and gets those of new ones. `passed` returns the ids of
    plans that did no harm."""
    claimed, keys = {template(group.symptom) for group in groups}, {group.key for group in groups}
    made = []
    for group in groups:
        number = _number(group, keys, taken)
        sought = _Sought(group, claimed)
        candidates = [run for run in group.experiments if sought.is_in(run)]
        attempts = _attempts(candidates, reruns, sought.shown_by)
        normal = sum(any(map(sought.is_own, symptoms)) for symptoms in fault_free)
        finding = _finding(number, group, best(attempts), sought, verdicts_of)
        if normal:
            finding = msgspec.structs.replace(
                finding,
                control_tries=finding.control_tries + len(fault_free),
                control_hits=finding.control_hits + normal,
            )
        finding = msgspec.structs.replace(finding, suppressed=suppression_of(finding))
        lasting = any(v.lasting and name_of(v) == group.symptom for v in verdicts_of(candidates[0].run))
        smaller = window = None
        if worth_it(best(attempts)):
            smaller = partial(shrunk, best(attempts), made=reruns.smaller, shows=sought.is_in, passed=passed)
            window = partial(bounded, made=reruns.moved, shows=sought.is_in)
        made.append(Suspicion(finding, attempts, bool(normal), lasting, smaller, window))
    return made


def _number(group: Group, keys: Set[str], taken: dict[str, int]) -> int:
    """The group's number. A finding had a shorter name before it was divided, and no circumstances in older campaigns: the first
    group that could have had such a name keeps its number."""
    for bare in (key_of(named(group.symptom, when(group.circumstances))), template(group.symptom)):
        if group.key not in taken and bare in taken and bare not in keys:
            taken[group.key] = taken.pop(bare)
    return taken.setdefault(group.key, max(taken.values(), default=0) + 1)


def _attempts(found: Sequence[LandedRun], reruns: Reruns, shows: Callable[[LandedRun], bool]) -> tuple[Attempt, ...]:
    """The plans to try: the first for each site and kind of fault, then the second and so on.

    Another plan for a site is added while no re-run has reached the site again, or its delay was dropped as unrealistic:
    another call path to that site may block for longer.
    """
    by_site_and_kind: dict[tuple[str, tuple[str, ...]], dict[str, LandedRun]] = {}
    for run in found:
        by_site_and_kind.setdefault((site(run), _kinds(run)), {}).setdefault(run.plan_id, run)
    attempts: list[Attempt] = []
    dropped: set[tuple[str, ...]] = set()
    waiting = [iter(plans.values()) for plans in by_site_and_kind.values()]
    while waiting and _candidates(attempts) < CANDIDATES_MAX:
        for plans in list(waiting):
            first = next((run for run in plans if _call_paths(run) not in dropped), None)
            attempt = reruns.attempt(first, shows) if first else None
            if attempt:
                attempts.append(attempt)
            if attempt and attempt.dropped:
                dropped.add(_call_paths(attempt.first))
            elif attempt is None or attempt.again.tries:
                waiting.remove(plans)
    enough = next((n for n in range(len(attempts)) if _candidates(attempts[:n]) >= CANDIDATES_MAX), len(attempts))
    return tuple(attempts[:enough])


def _call_paths(run: LandedRun) -> tuple[str, ...]:
    """The kinds of the faults, and the operations and call stacks that they hit, on any node."""
    return (*_kinds(run), *(key for _, point in run.landed for key in (point.get("op"), point.get("stack"))))


def _candidates(attempts: Sequence[Attempt]) -> int:
    """The number of attempts without the dropped ones, of which at most `DROPPED_MAX` are excluded."""
    dropped = sum(attempt.dropped for attempt in attempts)
    return len(attempts) - min(dropped, DROPPED_MAX)


def _finding(number: int, group: Group, attempt: Attempt, sought: _Sought, verdicts_of: VerdictsOf) -> Finding:
    shown = _shown_by(attempt, sought)
    verdicts = tuple(sorted((v for v in verdicts_of(shown.run) if v.answer == "fail"), key=lambda v: rank_of(v).order))
    worst = sought.worst(shown).text
    return Finding(
        id=f"F{number}",
        symptom=group.symptom,
        when=group.when,
        title=next((v.text for v in verdicts if name_of(v) == worst), worst),
        plan=attempt.plan,
        runs=tuple(group.runs),
        strategies=tuple(dict.fromkeys(run.strategy or run.kind.value for run in group.experiments)),
        verdicts=verdicts,
        tries=attempt.again.tries,
        hits=attempt.again.hits,
        elsewhere=attempt.again.elsewhere,
        control_tries=attempt.control.tries,
        control_hits=attempt.control.hits,
        last_control_tries=attempt.last_control.tries if attempt.last_control else 0,
        last_control_hits=attempt.last_control.hits if attempt.last_control else 0,
        variants=tuple(_variants(group.experiments, site(attempt.first))),
        frames=_frames(group, sought),
        faults=tuple(dict.fromkeys(kind for run in group.experiments for kind in _kinds(run))),
        shown_by=shown.run,
        lasted=shown.lasted,
        realism=attempt.realism,
        symptoms=tuple(_symptoms(attempt)),
        shown_elsewhere=tuple(_shown_elsewhere(group, attempt, sought)),
    )


def _shown_by(attempt: Attempt, sought: _Sought) -> LandedRun:
    """The re-run with the worst symptom, preferably the finding's own one; else the run that failed first."""

    def order(run: LandedRun) -> tuple[int, bool]:
        return sought.worst(run).rank.order, not sought.is_in(run)

    return min(attempt.shown, key=order, default=attempt.first)


def _symptoms(attempt: Attempt) -> list[ShownSymptom]:
    """The symptoms that runs of the plan showed, worst first, and in how many re-runs each came back."""
    return _ranked((attempt.first, *attempt.counted), _times_shown(attempt.counted))


def _shown_elsewhere(group: Group, attempt: Attempt, sought: _Sought) -> list[ShownSymptom]:
    """The symptoms of the group's other plans that no run of this plan showed and that are no findings of their own."""
    own = {name for run in (attempt.first, *attempt.counted) for name in templates_of(run)}
    shown = _ranked(group.experiments, _times_shown(group.experiments))
    return [one for one in shown if template(one.text) not in own and not sought.is_others_name(template(one.text))]


def _times_shown(runs: Iterable[LandedRun]) -> Counter[str]:
    """In how many of the runs each symptom came."""
    return Counter(name for run in runs for name in set(templates_of(run)))


def _ranked(runs: Iterable[LandedRun], times: Mapping[str, int]) -> list[ShownSymptom]:
    """Each symptom of the runs, worst first, with its number of `times`."""
    found: dict[str, Symptom] = {}
    for run in runs:
        for symptom in run.symptoms:
            found.setdefault(template(symptom.text), symptom)
    by_rank = sorted(found.items(), key=lambda item: item[1].rank.order)
    return [ShownSymptom(symptom.text, times.get(name, 0)) for name, symptom in by_rank]


def _frames(group: Group, sought: _Sought) -> tuple[FailingFrame, ...]:
    """The frames of the target in which runs of the group failed, most frequent first."""
    found = Counter(s.frame for run in group.experiments for s in run.symptoms if s.frame and sought.is_own(s))
    return tuple(FailingFrame(frame, runs) for frame, runs in found.most_common(FRAMES_MAX))


def _variants(found: Sequence[LandedRun], own: str) -> list[Variant]:
    """The shortest plan for each site other than `own`."""
    by_site: dict[str, list[LandedRun]] = {}
    for run in found:
        by_site.setdefault(site(run), []).append(run)
    variants = []
    for name, runs in by_site.items():
        shortest = min(runs, key=lambda run: (len(run.plan.steps), run.run))
        if name != own:
            variants.append(Variant(name, shortest.plan, shortest.run, len(runs), shortest.lasted))
    return sorted(variants, key=lambda variant: (-variant.runs, variant.run))[:VARIANTS_MAX]


def _kinds(run: LandedRun) -> tuple[str, ...]:
    """The kinds of the faults that fired."""
    steps = [run.plan.steps[step] for step, _ in run.landed] or run.plan.steps
    return tuple(dict.fromkeys(fault_kind(step.fault) for step in steps))


class _Sought:
    """The symptom of one group, among those of all groups."""

    def __init__(self, group: Group, claimed: Set[str]) -> None:
        self._own = template(group.symptom)
        self._rank = group.rank
        self._others = claimed - {self._own}

    def is_others(self, symptom: Symptom) -> bool:
        return self.is_others_name(template(symptom.text))

    def is_others_name(self, name: str) -> bool:
        return name in self._others

    def is_own(self, symptom: Symptom) -> bool:
        return template(symptom.text) == self._own

    def is_in(self, run: LandedRun) -> bool:
        """Does the run show this very symptom?"""
        return any(map(self.is_own, run.symptoms))

    def shown_by(self, run: LandedRun) -> bool:
        """Does the run show this symptom, or has it a first symptom that is as bad and isn't another finding's? Then its cause is
        the same. A milder symptom doesn't show that this one came back.

        A disagreement is only learnt, and may be normal after such a fault. So it stands for no symptom of another kind.
        """
        return self.is_in(run) or any(map(self._stands_for_own, run.symptoms[:1]))

    def _stands_for_own(self, first: Symptom) -> bool:
        if self.is_others(first) or first.rank.order > self._rank.order:
            return False
        return first.rank is self._rank or first.rank is not Rank.DISAGREEMENT

    def worst(self, run: LandedRun) -> Symptom:
        """The worst symptom of a failing run, preferably one that isn't another finding's."""
        candidates = [symptom for symptom in run.symptoms if not self.is_others(symptom)]
        return min(candidates or run.symptoms, key=lambda symptom: (symptom.rank.order, not self.is_own(symptom)))
