"""Groups failing runs into findings: runs with the same symptom, and re-runs of the same plan whatever their symptom.

Pure: landed runs in, findings out. A run may show several symptoms; the first one groups it. If that finding is ruled out
(suppressed, flaky or dropped), the next symptom of the run is a suspicion too, and so on. Faults at different sites do not split
a finding: the sites are its variants. Other circumstances do (`circumstances.py`): the same promise may be broken in two ways,
unless both kinds of faults did it at the same operation. So does a fault between two sites that did no harm (`windows.py`).
Two promises that plans of both findings break by turns, now the one and now the other, have one cause.
A finding keeps its number; new numbers follow the order of the first failing runs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import cache, lru_cache, partial

import msgspec

from undermine.checkers.compose import name_of, rank_of
from undermine.findings.bounds import Bounded, bounded
from undermine.findings.circumstances import Circumstances, all_circumstances, circumstances_of, harmed, when
from undermine.findings.confirm import (
    CANDIDATES_MAX,
    DROPPED_MAX,
    Attempt,
    Reruns,
    best,
    fired_alike,
)
from undermine.findings.realism import Lacking
from undermine.findings.shrink import Shrunk, shrunk, worth_it
from undermine.findings.windows import Moment, Order, Windows
from undermine.model.faults import fault_kind
from undermine.model.finding import WHEN, FailingFrame, Finding, LandedRun, ShownSymptom, Variant, named
from undermine.model.plan import Plan, describe_trigger
from undermine.model.point import PHASE, Point, is_standard
from undermine.model.rounds import SEQUELS, RoundKind
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


_Operation = tuple[frozenset[str], str, str]
"""Whom a fault hit, and the role and call stack of the operation that it hit."""


class _Group:
    def __init__(self, symptom: Symptom, circumstances: Circumstances) -> None:
        self.symptom = symptom.text
        self.rank = symptom.rank
        self.circumstances = circumstances
        self.function = ""
        """The function that its first fault hit, if other groups have the same symptom and circumstances."""
        self.moments: dict[tuple[str, Moment | None], None] = {}
        """The functions and moments that its faults hit, each once."""
        self.joined: set[Circumstances] = {circumstances}
        """The circumstances of all groups that are part of this one."""
        self.operations: set[_Operation] = set()
        """The operations at which a single fault did harm."""
        self.outcomes: set[str] = set()
        """The masked symptoms of all runs and re-runs of its plans."""
        self.experiments: list[LandedRun] = []
        """Failing runs of strategies, and benign runs."""
        self.sites: set[str] = set()
        self.runs: list[int] = []

    @property
    def when(self) -> str:
        return f"{when(self.circumstances)} in {self.function}" if self.function else when(self.circumstances)

    @property
    def key(self) -> str:
        """The same for each run of the group, and for no other group."""
        return key_of(named(self.symptom, self.when))

    def shares_an_operation(self, other: _Group) -> bool:
        """Did faults of different kinds do the same harm to the same role at the same operation?"""
        return self.joined.isdisjoint(other.joined) and not self.operations.isdisjoint(other.operations)

    def alternates_with(self, other: _Group) -> bool:
        """In the same circumstances, did plans of both groups break both promises? Then each is an outcome of one cause."""
        both = {template(self.symptom), template(other.symptom)}
        alike = bool(self.circumstances) and not self.joined.isdisjoint(other.joined)
        return alike and len(both) == 2 and both <= self.outcomes & other.outcomes

    def join(self, other: _Group) -> None:
        """Make the other group part of this one."""
        self.outcomes |= other.outcomes
        self.joined |= other.joined
        self.operations |= other.operations
        self.moments |= other.moments
        self.sites |= other.sites
        self.experiments = sorted((*self.experiments, *other.experiments), key=lambda run: run.run)
        self.runs = sorted({*self.runs, *other.runs})


def key_of(name: str) -> str:
    """The name of a finding with the symptom masked. Its circumstances are kept: roles may differ in a number only."""
    symptom, comma, circumstances = name.rpartition(WHEN)
    return template(symptom) + comma + circumstances if comma else template(name)


def _names(run: LandedRun) -> list[str]:
    return [template(symptom.text) for symptom in run.symptoms]


class _Grouping:
    """Groups runs by symptom, circumstances and window. `ruled_out` has the keys of groups whose findings are ruled out, and
    `replaced` of those whose re-runs showed only milder symptoms. `roles` has the role of each node.

    A run with several faults joins a group whose circumstances are part of its own. A re-run with another symptom belongs to the
    finding that its plan caused first. A later run with that other symptom does too, if its fault hit a site of this finding and
    the finding isn't ruled out; elsewhere it may be another bug.
    """

    def __init__(self, ruled_out: Set[str], replaced: Set[str], roles: Mapping[str, str], windows: Windows) -> None:
        self._ruled_out = ruled_out
        self._replaced = replaced
        self._roles = roles
        self._windows = windows
        self._by_symptom: dict[str, list[_Group]] = {}
        self._also_shown: dict[str, list[_Group]] = {}
        self._by_plan: dict[str, tuple[_Group, LandedRun]] = {}

    def end(self) -> list[_Group]:
        """The groups of all runs. No run can be added afterwards."""
        alike = [group for groups in self._by_symptom.values() for group in self._joined(groups, _Group.shares_an_operation)]
        kept = self._joined(sorted(alike, key=lambda group: group.rank.order), _Group.alternates_with)
        return [group for group in alike if group in kept]

    def _joined(self, groups: Iterable[_Group], have_one_cause: Callable[[_Group, _Group], bool]) -> list[_Group]:
        """Join groups that have one cause. Each group joins the first such group. A group that is ruled out joins none: it must
        hide none."""
        kept: list[_Group] = []
        for group in groups:
            first = next((one for one in kept if have_one_cause(one, group) and not self._is_ruled_out(one)), None)
            if first and not self._is_ruled_out(group):
                first.join(group)
            else:
                kept.append(group)
        return kept

    def add(self, run: LandedRun) -> None:
        joined = self._groups_of_rerun(run) if run.kind is RoundKind.CONFIRM else self._groups_of_experiment(run)
        for group in joined:
            group.runs.append(run.run)

    def compare(self, run: LandedRun) -> None:
        """Note for each known symptom of the run that its fault did this harm at its operation, too. It begins no group."""
        operation = self._operation(run)
        for group in filter(None, (self._found(symptom, run) for symptom in run.symptoms)):
            if operation and group.circumstances:
                group.operations.add(operation)
                group.runs.append(run.run)

    def _groups_of_rerun(self, run: LandedRun) -> list[_Group]:
        group, first = self._by_plan.get(run.plan_id, (None, run))
        if group and fired_alike(run, first):  # else it may be another bug
            if group.key in self._replaced:
                return self._groups_of_experiment(msgspec.structs.replace(run, strategy=first.strategy))
            group.outcomes.update(_names(run))
            for symptom in run.symptoms:
                if not self._found(symptom, run):
                    self._also_shown.setdefault(template(symptom.text), []).append(group)
        known = filter(None, (self._found(symptom, run) for symptom in run.symptoms))
        return self._up_to_a_suspicion(known) or ([group] if group else [])

    def _groups_of_experiment(self, run: LandedRun) -> list[_Group]:
        here = site(run)
        joined = self._up_to_a_suspicion(self._found_or_begun(symptom, run, here) for symptom in run.symptoms)
        for group in joined:
            group.experiments.append(run)
            group.outcomes.update(_names(run))
            group.sites.add(here)
            group.moments.setdefault((_function(run), self._windows.moment(run)))
            if (operation := self._operation(run)) and group.circumstances:
                group.operations.add(operation)
        self._by_plan.setdefault(run.plan_id, (joined[-1], run))
        return joined

    def _operation(self, run: LandedRun) -> _Operation | None:
        point = operation_hit(run)
        return (harmed(run, self._roles), point.get("role"), point.get("stack")) if point else None

    def _found(self, symptom: Symptom, run: LandedRun) -> _Group | None:
        """The group that this symptom of the run belongs to."""
        circumstances = circumstances_of(symptom, run, self._roles)
        groups = [group for group in self._by_symptom.get(template(symptom.text), ()) if group.circumstances <= circumstances]
        return next((group for group in groups if not self._is_divided(group, run)), None)

    def _is_divided(self, group: _Group, run: LandedRun) -> bool:
        """Is a moment without harm between this run and each run of the group? One function is one way to break a promise."""
        function, moment = _function(run), self._windows.moment(run) if group.circumstances else None
        if not function or moment is None:
            return False
        others = group.moments
        return bool(others) and all(
            there != function and then is not None and self._windows.divided(moment, then) for there, then in others
        )

    def _found_or_begun(self, symptom: Symptom, run: LandedRun, here: str) -> _Group:
        if group := self._found(symptom, run):
            return group
        name = template(symptom.text)
        for other in self._also_shown.get(name, ()):
            if here in other.sites and not self._is_ruled_out(other):
                return other
        circumstances = circumstances_of(symptom, run, self._roles)
        alike = self._by_symptom.setdefault(name, [])
        begun = _Group(symptom, circumstances)
        for group in alike:
            if group.circumstances == circumstances:  # so they are divided
                group.function = _function(group.experiments[0])
                begun.function = _function(run)
        alike.append(begun)
        return begun

    def _up_to_a_suspicion(self, groups: Iterable[_Group]) -> list[_Group]:
        """The groups up to the first one that is not ruled out."""
        joined: list[_Group] = []
        for group in groups:
            joined.append(group)
            if not self._is_ruled_out(group):
                break
        return joined

    def _is_ruled_out(self, group: _Group) -> bool:
        return group.key in self._ruled_out or group.key in self._replaced


def _grouped(
    runs: Sequence[LandedRun], ruled_out: Set[str], replaced: Set[str], roles: Mapping[str, str], windows: Windows
) -> list[_Group]:
    grouping = _Grouping(ruled_out, replaced, roles, windows)
    for run in runs:
        if run.symptoms and run.kind is RoundKind.COMPARE:
            grouping.compare(run)
        elif run.symptoms and run.kind not in (RoundKind.CONTROL, RoundKind.REALISM, RoundKind.SHRINK, RoundKind.BOUNDS):
            grouping.add(run)
    return grouping.end()


class _Sought:
    """The symptom of one group, among those of all groups."""

    def __init__(self, group: _Group, claimed: Set[str]) -> None:
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


# --- findings


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
        groups = _grouped(runs, ruled_out, replaced, names, windows)
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
    groups: Sequence[_Group],
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


def _number(group: _Group, keys: Set[str], taken: dict[str, int]) -> int:
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
        by_site_and_kind.setdefault((site(run), kinds(run)), {}).setdefault(run.plan_id, run)
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
    return (*kinds(run), *(key for _, point in run.landed for key in (point.get("op"), point.get("stack"))))


def _candidates(attempts: Sequence[Attempt]) -> int:
    """The number of attempts without the dropped ones, of which at most `DROPPED_MAX` are excluded."""
    dropped = sum(attempt.dropped for attempt in attempts)
    return len(attempts) - min(dropped, DROPPED_MAX)


def _finding(number: int, group: _Group, attempt: Attempt, sought: _Sought, verdicts_of: VerdictsOf) -> Finding:
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
        faults=tuple(dict.fromkeys(kind for run in group.experiments for kind in kinds(run))),
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


def _shown_elsewhere(group: _Group, attempt: Attempt, sought: _Sought) -> list[ShownSymptom]:
    """The symptoms of the group's other plans that no run of this plan showed and that are no findings of their own."""
    own = {name for run in (attempt.first, *attempt.counted) for name in _names(run)}
    shown = _ranked(group.experiments, _times_shown(group.experiments))
    return [one for one in shown if template(one.text) not in own and not sought.is_others_name(template(one.text))]


def _times_shown(runs: Iterable[LandedRun]) -> Counter[str]:
    """In how many of the runs each symptom came."""
    return Counter(name for run in runs for name in set(_names(run)))


def _ranked(runs: Iterable[LandedRun], times: Mapping[str, int]) -> list[ShownSymptom]:
    """Each symptom of the runs, worst first, with its number of `times`."""
    found: dict[str, Symptom] = {}
    for run in runs:
        for symptom in run.symptoms:
            found.setdefault(template(symptom.text), symptom)
    by_rank = sorted(found.items(), key=lambda item: item[1].rank.order)
    return [ShownSymptom(symptom.text, times.get(name, 0)) for name, symptom in by_rank]


def _frames(group: _Group, sought: _Sought) -> tuple[FailingFrame, ...]:
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


def kinds(run: LandedRun) -> tuple[str, ...]:
    """The kinds of the faults that fired."""
    steps = [run.plan.steps[step] for step, _ in run.landed] or run.plan.steps
    return tuple(dict.fromkeys(fault_kind(step.fault) for step in steps))


def operation_hit(run: LandedRun) -> Point | None:
    """The operation that the only fault of a run hit; None if it hit several, or none with a call stack in the target.

    A stack without a frame of the target is the same for operations that have nothing in common.
    """
    if len(run.landed) != 1:
        return None
    ((_, point),) = run.landed
    return point if point.get("stack") and not is_standard(point.get("loc")) else None


def site(run: LandedRun) -> str:
    """The site in the target that the last fault hit: role, operation and function, without node and call number."""
    if not run.landed or not run.landed[-1][1].items:
        return _last_trigger(run.plan)
    return _site_of(run.landed[-1][1])


def _function(run: LandedRun) -> str:
    """The function of the target that the last fault hit; "" if it hit none."""
    return run.landed[-1][1].get("loc").partition("#")[0] if run.landed else ""


@lru_cache(maxsize=4096)
def _site_of(point: Point) -> str:
    function = point.get("loc").partition("#")[0]
    if point.get("op") == PHASE:
        return f"at {function}"
    of = f" of {point.get('role')}" if point.get("role") else ""
    return f"{point.get('op') or 'any operation'}{of}" + (f" at {function}" if function else "")


def _last_trigger(plan: Plan) -> str:
    return describe_trigger(plan.steps[-1].trigger) if plan.steps else "no fault"
