"""The protocols of plug-ins, strategies and checkers, and the data that they are given. Imports the model and program facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import msgspec

from undermine.model.columns import Columns
from undermine.model.faults import Fault
from undermine.model.plan import Place, Plan
from undermine.model.point import Point
from undermine.model.run import Rank, RunStatus, RunView, Verdict

if TYPE_CHECKING:
    from undermine.program import Facts


class PointSeen(msgspec.Struct, frozen=True):
    """A point as one run, or all fault-free runs together, showed it."""

    point: Point
    count: int
    """The most occurrences in one process of one run."""
    runs: int
    """The number of fault-free runs that showed it."""
    order: int
    """Its rank by first appearance."""
    line: int = 0
    after: int = 0
    """The most occurrences in one process after the last fault; without a fault, in the whole run."""
    first: bool = True
    """Did it occur at least once without merely continuing the read before?"""
    frames: tuple[str, ...] = ()
    """The functions of its call stack, innermost first."""


class PastRun(msgspec.Struct, frozen=True):
    """A finished run as strategies see it."""

    id: int
    round_index: int
    index: int
    plan: Plan
    status: RunStatus
    failed: bool
    odd: bool = False
    """It passed, but its nodes logged entries that fault-free and benign runs do not have."""


class PossibleFault(msgspec.Struct, frozen=True):
    """A fault that could be injected at a point, or the reason why it cannot."""

    point: Point
    place: Place
    fault: Fault
    skipped: str = ""


class Profile(msgspec.Struct, frozen=True):
    """The points of one run, or of all fault-free runs together."""

    points: frozenset[Point] = frozenset()
    after: frozenset[Point] = frozenset()
    """Those seen after the last fault; all of them where there was none."""
    first: frozenset[Point] = frozenset()
    """Those that occurred at least once without merely continuing the read before."""


_Shown = TypeVar("_Shown")


def recovery(shown: Iterable[_Shown], usual: AbstractSet[_Shown]) -> frozenset[_Shown]:
    """The recovery path: the points, or their numbers, that a run showed and no fault-free run did."""
    return frozenset(shown) - usual


Frames = Callable[[Point], tuple[str, ...]]
"""The functions of a point's call stack, innermost first."""


def functions_of(points: Iterable[Point], frames: Frames) -> frozenset[str]:
    """All functions that are executed at one of these points."""
    return frozenset(function for point in points for function in frames(point))


class Experiment(msgspec.Struct, frozen=True):
    """A run that a strategy proposed and that is over: where its faults fired, and what recovery from them showed."""

    run: int
    strategy: str
    fired: tuple[tuple[str, str], ...] = ()
    """(id of the point, fault) for each step that took effect."""
    recovery: frozenset[Point] = frozenset()


class TargetProgram(msgspec.Struct, frozen=True):
    """What the source of the target says, together with the calls that fault-free runs have shown."""

    facts: Facts
    scripts: Mapping[str, str] = {}
    """By role: the module that is run as a script."""


def no_program(_: Sequence[str] = ()) -> TargetProgram:
    """A program of which no source is known."""
    from undermine.program import Facts  # not before it is needed: processes of workloads start fast

    return TargetProgram(Facts())


def no_profile(_: int) -> Profile:
    """The profile of a run of which nothing is known."""
    return Profile()


def no_columns(_: int) -> Columns:
    """The events of a run without a trace."""
    return Columns.of(())


class History(msgspec.Struct, frozen=True):
    """Everything that a strategy decides from. Equal histories give equal proposals."""

    points: tuple[PointSeen, ...]
    baseline_runs: int
    possible_faults: tuple[PossibleFault, ...]
    runs: tuple[PastRun, ...]
    """This strategy's own runs, and other strategies' runs that already cover its plans, in (round, index) order whatever
    order they ended in."""
    settled: frozenset[str]
    """Ids of plans that need not be proposed again: run for any strategy, or dropped by a policy."""
    round_index: int
    seed: int
    batch: int
    steps_max: int = 2
    baseline: Profile = Profile()
    profile: Callable[[int], Profile] = no_profile
    """Of a run, by its number."""
    possible_faults_at: Callable[[Sequence[Point]], tuple[PossibleFault, ...]] = lambda _: ()
    """The faults that are possible at points, also at those that no fault-free run shows."""
    frames: Frames = lambda _: ()
    """The functions of a point's call stack, innermost first."""
    fault_free: tuple[int, ...] = ()
    """The fault-free runs to learn from, by number."""
    columns: Callable[[int], Columns] = no_columns
    """All events of a run, by its number; for `traced` strategies, with everything that agents can observe."""
    fired_ns: Callable[[int], int] = lambda _: 0
    """When the first step of a run fired, by its number; 0 if none did."""
    program: Callable[[Sequence[str]], TargetProgram] = no_program
    """The target's program, read when a strategy asks for it. The argument: files and folders of its source, if the user
    has named them to the strategy; else they are found."""
    delay_s: float = 5.0
    """The user's delay for operations whose time limit is not known."""


class Dropped(msgspec.Struct, frozen=True):
    """A plan that will not run, the rule that dropped it, and its representative."""

    plan: Plan
    rule: str
    instead: str = ""
    """The id of its representative, if it has one."""


class Strategy(Protocol):
    """A pure function from history to the next plans; none means that it is over.

    It is asked when all that it proposed before is over. It may propose a few plans (`history.batch`) or, lazily, a whole
    level.

    Everything else that a strategy can do is optional, and a protocol of its own: `HasPolicies`, `Arranges`, `Capped`,
    `Traced`, `Remarks`. A strategy has an ability if it has the attribute of that name; it need not import or inherit
    anything. A base class with defaults would need both, and a plug-in that forgot to inherit from it would fail late.
    """

    name: str
    summary: str

    def propose(self, history: History) -> Iterable[Plan]: ...


@runtime_checkable
class HasPolicies(Protocol):
    """A strategy whose plans are pruned by the policies that it names, in this order; by the default ones if it names none."""

    @property
    def policies(self) -> Sequence[str]: ...


@runtime_checkable
class Arranges(Protocol):
    """A strategy that puts the plans in order that policies have kept."""

    def arrange(self, plans: Sequence[Plan], history: History) -> Iterable[Plan]: ...


@runtime_checkable
class Capped(Protocol):
    """A strategy that has at most `cap` experiments in a campaign; 0 means no limit."""

    @property
    def cap(self) -> int: ...


@runtime_checkable
class Traced(Protocol):
    """A strategy in whose runs agents record everything that they can observe, if `traced` is true. So they do in the
    fault-free runs before them."""

    @property
    def traced(self) -> bool: ...


@runtime_checkable
class Remarks(Protocol):
    """A strategy that is asked after each round for what the user should know."""

    def remarks(self) -> Iterable[str]: ...


@runtime_checkable
class TakesOptions(Protocol):
    """A class of strategies that is configured by a table [strategies.NAME], as the struct `Options` describes it."""

    Options: type[msgspec.Struct]

    def __call__(self, options: Any, /) -> Strategy: ...


class Checker(Protocol):
    """Judges one run; pure, so that it can be run again on stored runs. An entry point names a class without arguments."""

    name: str
    rank: Rank
    """How bad its symptom is."""
    summary: str
    """One line: when it fails."""

    def check(self, run: RunView) -> Verdict: ...
