"""Puts failing runs into groups that become findings. Pure.

A run may show several symptoms; the first one groups it. If that finding is ruled out (suppressed, flaky or dropped), the next
symptom of the run is a suspicion too, and so on. A re-run of a plan joins the plan's group whatever its symptom. Faults at
different sites do not split a group: the sites are the variants of its finding. Other circumstances do (`circumstances.py`): the
same promise may be broken in two ways, unless both kinds of faults did it at the same operation. So does a fault between two
sites that did no harm (`windows.py`). Two promises that plans of both groups break by turns, now the one and now the other, have
one cause.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import lru_cache

import msgspec

from undermine.findings.circumstances import Circumstances, circumstances_of, harmed, when
from undermine.findings.confirm import fired_alike
from undermine.findings.windows import Moment, Windows
from undermine.model.finding import WHEN, LandedRun, named
from undermine.model.plan import Plan, describe_trigger
from undermine.model.point import PHASE, Point, is_standard
from undermine.model.rounds import RoundKind
from undermine.model.run import Symptom

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


# --- groups

_Operation = tuple[frozenset[str], str, str]
"""Whom a fault hit, and the role and call stack of the operation that it hit."""


class Group:
    """Failing runs that become one finding."""

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

    def shares_an_operation(self, other: Group) -> bool:
        """Did faults of different kinds do the same harm to the same role at the same operation?"""
        return self.joined.isdisjoint(other.joined) and not self.operations.isdisjoint(other.operations)

    def alternates_with(self, other: Group) -> bool:
        """In the same circumstances, did plans of both groups break both promises? Then each is an outcome of one cause."""
        both = {template(self.symptom), template(other.symptom)}
        alike = bool(self.circumstances) and not self.joined.isdisjoint(other.joined)
        return alike and len(both) == 2 and both <= self.outcomes & other.outcomes

    def join(self, other: Group) -> None:
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


def templates_of(run: LandedRun) -> list[str]:
    """The masked symptoms of a run."""
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
        self._by_symptom: dict[str, list[Group]] = {}
        self._also_shown: dict[str, list[Group]] = {}
        self._by_plan: dict[str, tuple[Group, LandedRun]] = {}

    def end(self) -> list[Group]:
        """The groups of all runs. No run can be added afterwards."""
        alike = [group for groups in self._by_symptom.values() for group in self._joined(groups, Group.shares_an_operation)]
        kept = self._joined(sorted(alike, key=lambda group: group.rank.order), Group.alternates_with)
        return [group for group in alike if group in kept]

    def _joined(self, groups: Iterable[Group], have_one_cause: Callable[[Group, Group], bool]) -> list[Group]:
        """Join groups that have one cause. Each group joins the first such group. A group that is ruled out joins none: it must
        hide none."""
        kept: list[Group] = []
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

    def _groups_of_rerun(self, run: LandedRun) -> list[Group]:
        group, first = self._by_plan.get(run.plan_id, (None, run))
        if group and fired_alike(run, first):  # else it may be another bug
            if group.key in self._replaced:
                return self._groups_of_experiment(msgspec.structs.replace(run, strategy=first.strategy))
            group.outcomes.update(templates_of(run))
            for symptom in run.symptoms:
                if not self._found(symptom, run):
                    self._also_shown.setdefault(template(symptom.text), []).append(group)
        known = filter(None, (self._found(symptom, run) for symptom in run.symptoms))
        return self._up_to_a_suspicion(known) or ([group] if group else [])

    def _groups_of_experiment(self, run: LandedRun) -> list[Group]:
        here = site(run)
        joined = self._up_to_a_suspicion(self._found_or_begun(symptom, run, here) for symptom in run.symptoms)
        for group in joined:
            group.experiments.append(run)
            group.outcomes.update(templates_of(run))
            group.sites.add(here)
            group.moments.setdefault((_function(run), self._windows.moment(run)))
            if (operation := self._operation(run)) and group.circumstances:
                group.operations.add(operation)
        self._by_plan.setdefault(run.plan_id, (joined[-1], run))
        return joined

    def _operation(self, run: LandedRun) -> _Operation | None:
        point = operation_hit(run)
        return (harmed(run, self._roles), point.get("role"), point.get("stack")) if point else None

    def _found(self, symptom: Symptom, run: LandedRun) -> Group | None:
        """The group that this symptom of the run belongs to."""
        circumstances = circumstances_of(symptom, run, self._roles)
        groups = [group for group in self._by_symptom.get(template(symptom.text), ()) if group.circumstances <= circumstances]
        return next((group for group in groups if not self._is_divided(group, run)), None)

    def _is_divided(self, group: Group, run: LandedRun) -> bool:
        """Is a moment without harm between this run and each run of the group? One function is one way to break a promise."""
        function, moment = _function(run), self._windows.moment(run) if group.circumstances else None
        if not function or moment is None:
            return False
        others = group.moments
        return bool(others) and all(
            there != function and then is not None and self._windows.divided(moment, then) for there, then in others
        )

    def _found_or_begun(self, symptom: Symptom, run: LandedRun, here: str) -> Group:
        if group := self._found(symptom, run):
            return group
        name = template(symptom.text)
        for other in self._also_shown.get(name, ()):
            if here in other.sites and not self._is_ruled_out(other):
                return other
        circumstances = circumstances_of(symptom, run, self._roles)
        alike = self._by_symptom.setdefault(name, [])
        begun = Group(symptom, circumstances)
        for group in alike:
            if group.circumstances == circumstances:  # so they are divided
                group.function = _function(group.experiments[0])
                begun.function = _function(run)
        alike.append(begun)
        return begun

    def _up_to_a_suspicion(self, groups: Iterable[Group]) -> list[Group]:
        """The groups up to the first one that is not ruled out."""
        joined: list[Group] = []
        for group in groups:
            joined.append(group)
            if not self._is_ruled_out(group):
                break
        return joined

    def _is_ruled_out(self, group: Group) -> bool:
        return group.key in self._ruled_out or group.key in self._replaced


def grouped(
    runs: Sequence[LandedRun], ruled_out: Set[str], replaced: Set[str], roles: Mapping[str, str], windows: Windows
) -> list[Group]:
    """The groups of all failing runs. `ruled_out` and `replaced` have the keys of groups that hide
    no other symptom of their runs, `roles` the role of each node."""
    grouping = _Grouping(ruled_out, replaced, roles, windows)
    for run in runs:
        if run.symptoms and run.kind is RoundKind.COMPARE:
            grouping.compare(run)
        elif run.symptoms and run.kind not in (RoundKind.CONTROL, RoundKind.REALISM, RoundKind.SHRINK, RoundKind.BOUNDS):
            grouping.add(run)
    return grouping.end()


# --- where a fault hit


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
