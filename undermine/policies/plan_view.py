"""Plans as policies see them, the results of earlier experiments, and functions that drop keys that do not matter.

A `StepView` is one fault at one moment; a `PlanView` has the steps of one plan in order. The functions of this module answer from
the experiments of the campaign that `using` binds; without one, as if there had been no experiment. Never runs a plan.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import cached_property, lru_cache
from typing import Any, Protocol, SupportsIndex, TypeVar, overload

from undermine.model.faults import Injection, failure_of, is_fault, scope_of, stays_down
from undermine.model.plan import Plan, Step, describe_step, final_at, nodes_hit, place_of, point_at
from undermine.model.point import ALL_KEYS, CLIENT, CONTENT, DIRECTED, KEYS, Point
from undermine.protocols import Frames, PastRun, Profile, ShownBefore, functions_of, recovery

DERIVED_KEYS = ("func", "io_type", "io_target", "sender", "receiver", "content")
"""Keys that are computed from a point's own keys."""

_Item = TypeVar("_Item")
_REMEMBERED = 1 << 15
_LOADED = 64
"""The number of profiles that are cached: the profile of a large run takes a fifth of a megabyte."""


# --- points and steps


def value_of(point: Point, key: str) -> str:
    """The value of one of the point's keys or of a derived key."""
    if key in KEYS:
        return point.get(key)
    match key:
        case "func":
            loc = point.get("loc")
            return loc.rpartition("#")[0] or loc
        case "io_type":
            return point.io_type
        case "io_target":
            return "disk" if point.kind == "file" else point.kind
        case "sender":
            return _ends(point)[0]
        case "receiver":
            return _ends(point)[1]
        case "content":
            return point.get(CONTENT) or point.message_kind
    raise KeyError(f"a point has no key {key!r}; its keys are {', '.join((*KEYS, *DERIVED_KEYS))}")


def _ends(point: Point) -> tuple[str, str]:
    """The sender and the receiver; "" if there is none or it is unknown."""
    here = point.get("node")
    if point.kind == CLIENT:
        return here, point.get("target")
    if point.kind not in DIRECTED:
        return "", ""
    return (point.peer, here) if point.io_type == "read" else (here, point.peer)


class StepView:
    """One fault at one moment. Its values are `step["node"]`, `step["failure"]`, …

    Two views are equal if their triggers and faults are equal; the steps before them do not matter.
    """

    __slots__ = ("_before", "_hash", "_values", "step")

    def __init__(self, step: Step, before: tuple[Step, ...] = ()) -> None:
        self.step = step
        self._before = before
        self._values = _values(step)
        self._hash: int | None = None

    @property
    def point(self) -> Point:
        return point_at(self.step.trigger)

    @property
    def fault(self) -> Injection:
        return self.step.fault

    @property
    def failure(self) -> str:
        return str(self._values["failure"])

    @property
    def prefix(self) -> PlanView:
        """The steps before this one."""
        return plan_view(Plan(self._before))

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that the fault hits."""
        return nodes_hit(self.step)

    @property
    def frames(self) -> tuple[str, ...]:
        """The functions on the call stack (`module:qualified.name`), innermost first; only one if no run showed the point."""
        return _current.get().frames(self.point) or tuple(filter(None, [self._values["func"]]))

    def __getitem__(self, key: str) -> Any:
        try:
            return self._values[key]
        except KeyError:
            raise KeyError(f"a step has no key {key!r}; its keys are {', '.join(self._values)}") from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StepView) and self.step == other.step

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(self.step)
        return self._hash

    def __str__(self) -> str:
        return describe_step(self.step)

    def __repr__(self) -> str:
        return f"<{self}>"


@lru_cache(_REMEMBERED)
def _values(step: Step) -> dict[str, Any]:
    """The values of a step by key. Cached, since the same steps recur in very many plans."""
    point, moment = point_at(step.trigger), final_at(step.trigger)
    return {key: value_of(point, key) for key in (*KEYS, *DERIVED_KEYS)} | {
        "failure": failure_of(step.fault, point),
        "fault": step.fault,
        "scope": scope_of(step.fault),
        "place": place_of(step.trigger),
        "nth": moment.nth if moment else 1,
    }


class PlanView(tuple[StepView, ...]):
    """The steps of a plan, in order. It also has all attributes of the plan."""

    plan: Plan

    @property
    def steps(self) -> tuple[Step, ...]:
        return self.plan.steps

    @property
    def last(self) -> StepView:
        return self[-1]

    @cached_property
    def prefix(self) -> PlanView:
        """All steps but the last."""
        return self[:-1]

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> StepView: ...
    @overload
    def __getitem__(self, index: slice, /) -> PlanView: ...
    def __getitem__(self, index: SupportsIndex | slice, /) -> StepView | PlanView:
        if not isinstance(index, slice):
            return tuple.__getitem__(self, index)
        plan = self.plan
        return plan_view(Plan(plan.steps[index], plan.seed, plan.strategy, plan.why))

    def __getattr__(self, name: str) -> Any:
        if name == "plan":  # it is not set yet
            raise AttributeError(name)
        return getattr(self.plan, name)

    def __str__(self) -> str:
        return str(self.plan)


def plan_view(plan: Plan) -> PlanView:
    """The plan as policies see it."""
    steps = tuple(plan.steps)
    made = PlanView(StepView(step, steps[:index]) for index, step in enumerate(steps))
    made.plan = plan
    return made


# --- dropping keys


@overload
def abstract_in(what: Point, *keys: str) -> Point: ...
@overload
def abstract_in(what: StepView, *keys: str) -> tuple[tuple[str, Any], ...]: ...
@overload
def abstract_in(what: set[Any] | frozenset[Any], *keys: str) -> frozenset[Any]: ...
@overload
def abstract_in(what: tuple[Any, ...] | list[Any], *keys: str) -> tuple[Any, ...]: ...
def abstract_in(what: Any, *keys: str) -> Any:
    """A point or step with only these keys; for a plan, list or set, each of its items. The result is hashable."""
    if isinstance(what, Point):
        if all(key in KEYS for key in keys):
            return what.abstract_in(keys)
        return Point.of({key: value_of(what, key) for key in keys})
    if isinstance(what, StepView):
        return _kept(what.step, tuple(sorted(keys)))
    return _set_in(what, keys) if isinstance(what, frozenset) else _each(what, lambda item: abstract_in(item, *keys))


@lru_cache(_LOADED)
def _set_in(what: frozenset[Any], keys: tuple[str, ...]) -> frozenset[Any]:
    """The items of a set with only these keys. Cached, since each extension of a plan asks for the same recovery."""
    return frozenset(abstract_in(item, *keys) for item in what)


@lru_cache(_REMEMBERED)
def _kept(step: Step, keys: tuple[str, ...]) -> tuple[tuple[str, Any], ...]:
    view = StepView(step)
    return tuple((key, view[key]) for key in keys)


_OWN_OF_STEP = (*ALL_KEYS, "place", "nth", "fault")
"""The keys that distinguish a step from others."""


@overload
def abstract_out(what: Point, *keys: str) -> Point: ...
@overload
def abstract_out(what: StepView, *keys: str) -> tuple[tuple[str, Any], ...]: ...
@overload
def abstract_out(what: set[Any] | frozenset[Any], *keys: str) -> frozenset[Any]: ...
@overload
def abstract_out(what: tuple[Any, ...] | list[Any], *keys: str) -> tuple[Any, ...]: ...
def abstract_out(what: Any, *keys: str) -> Any:
    """A point or step without these keys; for a plan, list or set, each of its items. A step keeps its fault, place and `nth`
    unless they are named."""
    if isinstance(what, Point):
        _check(keys, ALL_KEYS)
        return what.abstract_out(keys)
    if isinstance(what, StepView):
        _check(keys, (*_OWN_OF_STEP, "failure"))
        left = (*keys, "fault") if "failure" in keys else keys
        return _kept(what.step, tuple(key for key in _OWN_OF_STEP if key not in left))
    return _each(what, lambda item: abstract_out(item, *keys))


def _check(keys: Iterable[str], known: Collection[str]) -> None:
    for key in keys:
        if key not in known:
            raise KeyError(f"{key!r} cannot be left out; the keys that can be are {', '.join(known)}")


def _each(many: Any, function: Callable[[Any], Hashable]) -> Any:
    """Apply the function to each item; a set gives a frozenset, a tuple or list a tuple."""
    if isinstance(many, set | frozenset):
        return frozenset(function(item) for item in many)
    if isinstance(many, tuple | list):
        return tuple(function(item) for item in many)
    raise TypeError(f"{many!r:.80} is not a point, step or plan, nor a set or list of them")


# --- results of experiments


Some = PlanView | Plan | tuple[StepView, ...] | list[StepView]
"""A plan in any form that a policy may have; `()` means the fault-free runs."""


class Profiles(Protocol):
    """The results of a campaign's experiments so far. The functions of the same names at the end of this module explain them."""

    def has_run(self, fs: Some) -> bool: ...
    def all_points(self, fs: Some) -> frozenset[Point]: ...
    def post_injection_points(self, fs: Some) -> frozenset[Point]: ...
    def recovery_path(self, fs: Some, *keys: str) -> frozenset[Point]: ...
    def recovery_functions(self, fs: Some) -> frozenset[str]: ...
    def first_read(self, view: StepView) -> bool: ...
    def explored(self, what: Point | StepView, *keys: str) -> bool: ...
    def frames(self, point: Point) -> tuple[str, ...]: ...


Longer = Callable[[str], Iterable[tuple[frozenset[Point], frozenset[Point]]]]


class CampaignProfiles:
    """Answers from profiles in memory: one for the fault-free runs, and others by the `steps_id` of their plans.

    A plan may have several profiles, one for each of its runs. Only what all of them share counts, since the rest is chance.
    Its recovery is also compared with the runs of longer plans that begin with its steps (see `analysis/coverage.py`). For the
    `steps_id` of a plan, `longer` yields the points that its run showed before the point of a longer run's next fault, and all
    points of that longer run.
    """

    def __init__(
        self,
        baseline: Profile = Profile(),  # noqa: B008 - frozen
        runs: Mapping[str, Sequence[Profile]] | None = None,
        injected: Iterable[Point] = (),
        frames: Frames = lambda _: (),
        longer: Longer = lambda _: (),
    ) -> None:
        self._longer = longer
        self._baseline = baseline
        self._runs: Mapping[str, Sequence[Profile]] = runs or {}
        self._injected = frozenset(injected)
        self._abstract: dict[tuple[str, ...], frozenset[Point]] = {}
        self._recoveries: dict[tuple[str, tuple[str, ...]], frozenset[Point]] = {}
        self._same: dict[frozenset[Point], frozenset[Point]] = {}
        self._functions: dict[str, frozenset[str]] = {}
        self.frames = frames

    def profiles(self, fs: Some) -> Sequence[Profile]:
        """The profiles of the runs with exactly these steps."""
        steps = _steps(fs)
        return self._runs.get(Plan(steps).steps_id, ()) if steps else (self._baseline,)

    def has_run(self, fs: Some) -> bool:
        return bool(self.profiles(fs))

    def all_points(self, fs: Some) -> frozenset[Point]:
        return _shared(profile.points for profile in self.profiles(fs))

    def post_injection_points(self, fs: Some) -> frozenset[Point]:
        return _shared(profile.after for profile in self.profiles(fs))

    def recovery_path(self, fs: Some, *keys: str) -> frozenset[Point]:
        """Computed once for each plan, since very many plans have it as their prefix. Points that differ only in other keys are
        shared."""
        name = (Plan(_steps(fs)).steps_id, keys)
        if name not in self._recoveries:
            paths = (recovery(profile.points, self._baseline.points) for profile in self.profiles(fs))
            path = _shared(abstract_in(path, *keys) if keys else path for path in paths)
            for early, shown in self._longer(name[0]):
                path -= abstract_in(early, *keys) - abstract_in(shown, *keys) if keys else early - shown
            self._recoveries[name] = self._same.setdefault(path, path)  # comparing an object with itself is fast
        return self._recoveries[name]

    def recovery_functions(self, fs: Some) -> frozenset[str]:
        """Computed once for each plan, like the recovery path."""
        name = Plan(_steps(fs)).steps_id
        if name not in self._functions:
            functions = _shared(functions_of(profile.points, self.frames) for profile in self.profiles(fs))
            for early, shown in self._longer(name):
                functions -= functions_of(early, self.frames) - functions_of(shown, self.frames)
            self._functions[name] = functions - self._usual
        return self._functions[name]

    @cached_property
    def _usual(self) -> frozenset[str]:
        return functions_of(self._baseline.points, self.frames)

    def first_read(self, view: StepView) -> bool:
        """Answer from the experiment with the steps before this one; true if it did not show the point."""
        profiles = self.profiles(view.prefix)
        return view.point not in self.all_points(view.prefix) or any(view.point in each.first for each in profiles)

    def explored(self, what: Point | StepView, *keys: str) -> bool:
        point = what.point if isinstance(what, StepView) else what
        if not keys:
            return point in self._injected
        if keys not in self._abstract:
            self._abstract[keys] = frozenset(abstract_in(p, *keys) for p in self._injected)
        return abstract_in(point, *keys) in self._abstract[keys]


def _shared(sets: Iterable[frozenset[_Item]]) -> frozenset[_Item]:
    """The items that all of these sets have; none if there is no set."""
    found = list(sets)
    return found[0].intersection(*found[1:]) if found else frozenset()


def _steps(fs: Some) -> tuple[Step, ...]:
    if isinstance(fs, Plan | PlanView):
        return fs.steps
    return tuple(view.step for view in fs)


class _LazyProfiles(Mapping[str, Sequence[Profile]]):
    """Profiles that are loaded on demand. Plans with the same prefix come one after the other, so a small cache is enough."""

    def __init__(self, runs: Mapping[str, Sequence[int]], load: Callable[[int], Profile]) -> None:
        self._runs = runs
        self.of_run = lru_cache(_LOADED)(load)

    def __getitem__(self, key: str) -> Sequence[Profile]:
        return [self.of_run(run) for run in self._runs[key]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)


def profiles_of(
    runs: Iterable[PastRun],
    load: Callable[[int], Profile],
    baseline: Profile,
    frames: Frames,
    fired_points: Mapping[int, tuple[str, ...]],
    shown_before: ShownBefore = lambda run, point: frozenset(),
) -> CampaignProfiles:
    """The profiles of finished runs. For runs with equal steps the first that fired counts, and all others that fired at the same
    points (`fired_points`, by run); if none fired, the first alone."""
    chosen: dict[str, tuple[bool, list[int]]] = {}
    injected: set[Point] = set()
    longer: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    for run in runs:
        if run.status == "broken" or not run.plan.steps or _is_control(run.plan):
            continue
        landed = fired_points.get(run.id, ())
        for count in range(1, min(len(landed) + 1, len(run.plan.steps))):
            longer.setdefault((Plan(run.plan.steps[:count]).steps_id, landed[:count]), []).append(run.id)
        fired, key = run.status == "fired", run.plan.steps_id
        if key not in chosen or (fired and not chosen[key][0]):
            chosen[key] = (fired, [run.id])
        elif fired and fired_points.get(run.id) == fired_points.get(chosen[key][1][0]):
            chosen[key][1].append(run.id)
        if fired:
            injected.update(point_at(step.trigger) for step in run.plan.steps)
    by_steps = _LazyProfiles({key: same for key, (_, same) in chosen.items()}, load)

    def compared(key: str) -> Iterator[tuple[frozenset[Point], frozenset[Point]]]:
        first = chosen[key][1][0] if key in chosen else 0
        landed = fired_points.get(first, ())
        for run in longer.get((key, landed), ()):
            end = fired_points[run][len(landed) :]  # empty: no later step fired, so all of the run counts
            early = shown_before(first, end[0]) if end else by_steps.of_run(first).points
            if early:
                yield early, by_steps.of_run(run).points

    return CampaignProfiles(baseline, by_steps, injected, frames, compared)


def _is_control(plan: Plan) -> bool:
    return not any(is_fault(step.fault) for step in plan.steps)


class Memory(Protocol):
    """The part of the campaign store that this module reads."""

    def past_runs(self) -> tuple[PastRun, ...]: ...
    def profile(self, run: int) -> Profile: ...
    def baseline_profile(self) -> Profile: ...
    def frames(self, point: Point) -> tuple[str, ...]: ...
    def fired_points(self) -> dict[int, tuple[str, ...]]: ...
    def shown_before(self, run: int, point: str) -> frozenset[Point]: ...


class StoredProfiles:
    """Answers from a campaign store, which is read when a policy first asks."""

    def __init__(self, open_memory: Callable[[], Memory]) -> None:
        self._open = open_memory

    @cached_property
    def _profiles(self) -> CampaignProfiles:
        memory = self._open()
        return profiles_of(
            memory.past_runs(),
            memory.profile,
            memory.baseline_profile(),
            memory.frames,
            memory.fired_points(),
            memory.shown_before,
        )

    def has_run(self, fs: Some) -> bool:
        return self._profiles.has_run(fs)

    def all_points(self, fs: Some) -> frozenset[Point]:
        return self._profiles.all_points(fs)

    def post_injection_points(self, fs: Some) -> frozenset[Point]:
        return self._profiles.post_injection_points(fs)

    def recovery_path(self, fs: Some, *keys: str) -> frozenset[Point]:
        return self._profiles.recovery_path(fs, *keys)

    def recovery_functions(self, fs: Some) -> frozenset[str]:
        return self._profiles.recovery_functions(fs)

    def first_read(self, view: StepView) -> bool:
        return self._profiles.first_read(view)

    def explored(self, what: Point | StepView, *keys: str) -> bool:
        return self._profiles.explored(what, *keys)

    def frames(self, point: Point) -> tuple[str, ...]:
        return self._profiles.frames(point)


_current: ContextVar[Profiles] = ContextVar("profiles", default=CampaignProfiles())  # noqa: B039 - it never changes


@contextlib.contextmanager
def using(profiles: Profiles) -> Iterator[None]:
    """Bind the profiles from which this module's functions answer inside the `with` block."""
    token = _current.set(profiles)
    try:
        yield
    finally:
        _current.reset(token)


# --- functions for policies


def has_run(fs: Some) -> bool:
    """Has an experiment with exactly these steps been run?"""
    return _current.get().has_run(fs)


def all_points(fs: Some = ()) -> frozenset[Point]:
    """All points that the experiment with this plan showed, and its re-runs too; for `()`, those of the fault-free runs."""
    return _current.get().all_points(fs)


def post_injection_points(fs: Some = ()) -> frozenset[Point]:
    """The points that were seen after the last fault of the plan."""
    return _current.get().post_injection_points(fs)


def first_read(view: StepView) -> bool:
    """False if earlier experiments showed the step's operation only as a read that continues another read."""
    return _current.get().first_read(view)


def explored(what: Point | StepView, *keys: str) -> bool:
    """Has an earlier experiment injected a fault at a point with the same values of these keys (without keys: of all)?"""
    return _current.get().explored(what, *keys)


def recovery_path(fs: Some, *keys: str) -> frozenset[Point]:
    """The points that the experiment with this plan showed and the fault-free runs did not. If there are re-runs, they showed
    these points too.

    With `keys`, each point is reduced to these keys. That is faster than `abstract_in`, since the result is cached.
    """
    return _current.get().recovery_path(fs, *keys)


def recovery_functions(fs: Some) -> frozenset[str]:
    """The functions on the stacks of I/O operations in the experiment with this plan, and in its re-runs, that are in no
    fault-free run.

    Coarser than `recovery_path` and more stable: the call paths to an operation vary from run to run, the functions that
    take part in recovery hardly do.
    """
    return _current.get().recovery_functions(fs)


def crashed(fs: Some, node: str) -> bool:
    """Is the node dead after this plan? A node that the fault restarts is not dead."""
    return bool(node) and any(stays_down(view.fault) and node in view.nodes for view in _step_views(fs))


def _step_views(fs: Some) -> Iterable[StepView]:
    return plan_view(fs) if isinstance(fs, Plan) else fs
