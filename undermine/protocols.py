"""The protocols of strategies and checkers, and the data that they get. Imports only the model and the facts of a program."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import msgspec

from undermine.model.columns import Columns
from undermine.model.faults import Fault, Injection
from undermine.model.plan import At, Place, Plan, Step
from undermine.model.point import SCRIPT, Point
from undermine.model.predictions.candidate import Candidate, plan_of
from undermine.model.predictions.landings import Landings
from undermine.model.predictions.outcome import Outcome, outcome_of
from undermine.model.run import Moment, Rank, RunStatus, RunView, Verdict

if TYPE_CHECKING:
    from undermine.program import Facts
    from undermine.program.dependence import Questions


class PointSeen(msgspec.Struct, frozen=True):
    """A point as one run, or all fault-free runs together, showed it."""

    point: Point
    count: int
    """The most occurrences in one process of a run. Of several runs that showed it, the fewest: later ones may not recur."""
    runs: int
    """The number of fault-free runs that showed it."""
    order: int
    """Its rank by first appearance."""
    line: int = 0
    after: int = 0
    """The most occurrences in one process after the last fault; without a fault, in the whole run."""
    first: bool = True
    """Did it occur at least once other than as the continuation of a read?"""
    frames: tuple[str, ...] = ()
    """The functions of its call stack, innermost first."""
    rank: int = 0
    """Its rank among the points since the last fault, from 1, by their first occurrence since then; 0 if there is none."""


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
    covered: bool = False
    """The plan did not run itself: the faults of another run, `id`, landed where its faults would have landed."""
    confirmed: bool = False
    """It failed, and a confirmed finding has it."""

    @property
    def outcome(self) -> Outcome:
        return outcome_of(self.status, failed=self.failed, odd=self.odd, confirmed=self.confirmed)


class PossibleFault(msgspec.Struct, frozen=True):
    """A fault that could be injected at a point, or the reason why it cannot."""

    point: Point
    place: Place
    fault: Fault
    skipped: str = ""
    nth: int = 1
    """The occurrence of the point."""
    why: str = ""
    """Why this occurrence is tried, if it isn't the first one."""

    @property
    def step(self) -> Step:
        """The step that injects it."""
        return Step(At(self.point, self.place, self.nth), self.fault)


class Later(msgspec.Struct, frozen=True):
    """A later occurrence of a point that differs from the first one in all fault-free runs, and how, in words."""

    nth: int
    why: str


class Profile(msgspec.Struct, frozen=True):
    """The points of one run, or of all fault-free runs together."""

    points: frozenset[Point] = frozenset()
    after: frozenset[Point] = frozenset()
    """The points seen after the last fault; all points if there was no fault."""
    first: frozenset[Point] = frozenset()
    """The points that occurred at least once other than as the continuation of a read."""


_Shown = TypeVar("_Shown")
_Item = TypeVar("_Item")


def recovery(shown: Iterable[_Shown], usual: AbstractSet[_Shown]) -> frozenset[_Shown]:
    """The recovery path: the points, or their numbers, that a run showed and no fault-free run did."""
    return frozenset(shown) - usual


Frames = Callable[[Point], tuple[str, ...]]
"""The functions of a point's call stack, innermost first."""
ShownBefore = Callable[[int, str], frozenset[Point]]
"""By run and id of a point: the points that the run showed since its last fault and before the first occurrence of that point
since then; none if it didn't occur or if the order isn't known."""


def functions_of(points: Iterable[Point], frames: Frames) -> frozenset[str]:
    """All functions on the call stacks of these points."""
    return frozenset(function for point in points for function in frames(point))


class Experiment(msgspec.Struct, frozen=True):
    """A finished run that a strategy proposed, or its re-run: where its faults fired, and the points of its recovery."""

    run: int
    strategy: str
    fired: tuple[tuple[str, str], ...] = ()
    """(id of the point, fault) for each step that took effect."""
    recovery: frozenset[Point] = frozenset()
    plan: str = ""
    """The id of its plan."""
    is_rerun: bool = False
    """It confirms another run. It counts only for what all runs of the plan share."""
    prefixes: tuple[str, ...] = ()
    """The ids of the plans with only its first steps, shortest first."""


def in_source(scripts: Mapping[str, str], role: str, loc: str) -> str:
    """The call site of an event as the source names it: with the module that the role runs as a script."""
    module, colon, rest = loc.partition(":")
    return f"{scripts.get(role, module)}{colon}{rest}" if module == SCRIPT else loc


def _no_dependence() -> Questions:
    from undermine.program import Dependence, Program  # imported late, so that workload processes start fast

    return Dependence(Program(()))


class TargetProgram(msgspec.Struct, frozen=True):
    """The facts of the target's source, together with the calls that fault-free runs have shown."""

    facts: Facts
    scripts: Mapping[str, str] = {}
    """By role: the module that its command runs as a script."""
    dependence: Questions = msgspec.field(default_factory=_no_dependence)
    """Answers what depends on an operation. It keeps the parsed source; a strategy that doesn't ask lets it go."""

    def stack(self, role: str, stack: Sequence[str]) -> tuple[str, ...]:
        """A recorded call stack as the source names it, for questions to `dependence`."""
        return tuple(in_source(self.scripts, role, loc) for loc in stack)


def no_program(_: Sequence[str] = ()) -> TargetProgram:
    """A program without any known source."""
    from undermine.program import Facts  # imported late, so that workload processes start fast

    return TargetProgram(Facts())


def no_profile(_: int) -> Profile:
    """An empty profile."""
    return Profile()


def no_columns(_: int) -> Columns:
    """The columns of a run without a trace: no events."""
    return Columns.of(())


class History(msgspec.Struct, frozen=True):
    """Everything that a strategy may base its decision on. Equal histories give equal proposals."""

    points: tuple[PointSeen, ...]
    baseline_runs: int
    possible_faults: tuple[PossibleFault, ...]
    runs: tuple[PastRun, ...]
    """The results of this strategy's plans, in (round, index) order, not in the order in which they ended. The campaign does not
    run a plan if the faults of another run landed where its faults would land; that run then counts for the plan (`covered`)."""
    settled: frozenset[str]
    """Ids of plans that this strategy need not propose again: stored, or dropped by a policy."""
    round_index: int
    seed: int
    batch: int
    steps_max: int = 2
    baseline: Profile = Profile()
    profile: Callable[[int], Profile] = no_profile
    """Returns the profile of a run, by its number."""
    possible_faults_at: Callable[[Sequence[Point]], tuple[PossibleFault, ...]] = lambda _: ()
    """Returns the faults that are possible at points, also at points that no fault-free run shows."""
    frames: Frames = lambda _: ()
    """Returns the functions of a point's call stack, innermost first."""
    fault_free: tuple[int, ...] = ()
    """The fault-free runs to learn from, by number."""
    columns: Callable[[int], Columns] = no_columns
    """Returns all events of a run, by its number; for `traced` strategies, everything that agents can observe."""
    fired_ns: Callable[[int], int] = lambda _: 0
    """Returns the time at which the first step of a run fired, by the run's number; 0 if none did."""
    ended: Callable[[int], Moment | None] = lambda _: None
    """Returns the operation before which the fault of a run's last step ended; None if it lasted until healing."""
    exchanged: Callable[[int], Mapping[str, str]] = lambda _: {}
    """Returns which nodes took the place of nodes of a run's plan (`Step.alike`), by the run's number."""
    served: Callable[[int], tuple[int, int]] = lambda _: (0, sys.maxsize)
    """Returns the time at which the first client of a run began, and that at which everything was healed. No trigger fires
    later."""
    exits: Callable[[int], Sequence[tuple[str, int]]] = lambda _: ()
    """Returns the nodes that died in a run, each with the time."""
    metadata: Mapping[str, str] = {}
    """By name of a variable: the metadata that it holds. Only variables with the same metadata are compared."""
    program: Callable[[Sequence[str]], TargetProgram] = no_program
    """Reads the target's program. The argument has the files and folders of its source, if the user configured them; otherwise
    the tool finds them."""
    delay_s: float = 5.0
    """The user's delay for operations whose time limit is not known."""
    is_long: Callable[[Injection], bool] = lambda _: False
    """Is this fault a long outage?"""
    later: Mapping[Point, Later] = {}
    """By point: the later occurrence at which faults are tried too."""
    landings: Landings = msgspec.field(default_factory=Landings)
    """Where the faults of all runs of the campaign landed, whichever strategy proposed them."""
    others: Callable[[], tuple[PastRun, ...]] = tuple
    """Returns the finished runs of all strategies, each run once, in (round, index) order."""
    faulty: tuple[int, ...] = ()
    """Runs with one fault that went well, by number: at rest, and in the middle of the workload. They are observed in full if a
    strategy is `Traced`."""
    changed: Callable[[Step], bool] = lambda _: False
    """Does a step inject its fault at an operation whose call stack runs through a changed function (`--changed-since`)?"""

    def changed_first(self, items: Iterable[_Item], steps_of: Callable[[_Item], Sequence[Step]]) -> list[_Item]:
        """Put items first that inject a fault in changed code. Otherwise they keep their order."""
        return sorted(items, key=lambda item: not any(map(self.changed, steps_of(item))))


class Dropped(msgspec.Struct, frozen=True):
    """A plan that will not run, the rule that dropped it, and its representative."""

    plan: Plan
    rule: str
    instead: str = ""
    """The id of its representative, if it has one."""


def plans_of(proposed: Iterable[Plan | Candidate | Dropped]) -> list[Plan]:
    """The plans to run, with or without reasons, without those that the strategy drops."""
    return [plan_of(each) for each in proposed if not isinstance(each, Dropped)]


class Strategy(Protocol):
    """A pure function from history to the next plans; no plans means that the strategy has finished.

    The campaign asks it when all its earlier plans have run at least once; plans that did not fire may still run again. It may
    propose a few plans (`history.batch`), or a whole level as a generator. A strategy that predicts yields candidates: plans
    with reasons. It may also yield plans that its own rules drop, so that the tool can count them and say why.

    Everything else that a strategy can do is optional and has its own protocol: `Predicts`, `HasPolicies`, `Arranges`, `Capped`,
    `Counted`, `Follows`, `Traced`, `Heap`, `Content`, `Labels`, `Learns`, `Needs`, `Remarks`. A strategy implements a protocol by
    having its attribute; it need not import or inherit anything. A base class with defaults would require both, and a plug-in
    that forgot to inherit from it would fail late.
    """

    name: str
    summary: str

    def propose(self, history: History) -> Iterable[Plan | Candidate | Dropped]: ...


@runtime_checkable
class Predicts(Protocol):
    """A strategy that can say what to inject next in a run that has had faults already.

    `predict` yields candidates with one step each: at operations that the run showed after its last fault or, without a run, at
    those of the fault-free runs. The best come first.
    """

    name: str

    def predict(self, history: History, after: PastRun | None) -> Iterable[Candidate]: ...


@runtime_checkable
class HasPolicies(Protocol):
    """A strategy that names the policies that prune its plans, in order; if it names none, the default policies prune."""

    @property
    def policies(self) -> Sequence[str]: ...


@runtime_checkable
class Arranges(Protocol):
    """A strategy that sorts the plans that policies kept."""

    def arrange(self, plans: Sequence[Plan], history: History) -> Iterable[Plan]: ...


@runtime_checkable
class Capped(Protocol):
    """A strategy that has at most `cap` experiments in a campaign; 0 means no limit."""

    @property
    def cap(self) -> int: ...


@runtime_checkable
class Follows(Protocol):
    """A strategy that builds on the runs of other strategies: if `follows` is true, it is asked again after they have run."""

    @property
    def follows(self) -> bool: ...


@runtime_checkable
class Counted(Protocol):
    """A strategy that proposes a few plans at a time and knows how many there are in all; None means that they never end."""

    def total(self, history: History) -> int | None: ...


@runtime_checkable
class Traced(Protocol):
    """A strategy that needs full traces: if `traced` is true at first, agents record everything that they can observe in the
    fault-free and benign runs, and in its own runs until `traced` is false after a proposal."""

    @property
    def traced(self) -> bool: ...


@runtime_checkable
class Heap(Protocol):
    """A strategy that needs accesses to the heap: agents record those that happen in handlers. `heap` counts as `traced` does,
    and includes it."""

    @property
    def heap(self) -> bool: ...


@runtime_checkable
class Content(Protocol):
    """A strategy that needs to know which data operations move: agents record tokens of the bytes that are read, received,
    written and sent. `content` counts as `traced` does, and includes it."""

    @property
    def content(self) -> bool: ...


@runtime_checkable
class Labels(Protocol):
    """A strategy that needs to know which data an operation's data was made from: if `labels` is true at first, Python agents
    follow the data through the program in the fault-free runs. These runs are several times slower."""

    @property
    def labels(self) -> bool: ...


def asked_by(strategy: object) -> frozenset[str]:
    """How the strategy wants its runs to be observed now: `traced`, `heap`, `content`, `labels`."""
    traced = isinstance(strategy, Traced) and strategy.traced
    heap = isinstance(strategy, Heap) and strategy.heap
    content = isinstance(strategy, Content) and strategy.content
    labels = isinstance(strategy, Labels) and strategy.labels
    return frozenset(["traced"] * traced + ["heap"] * heap + ["content"] * content + ["labels"] * labels)


@runtime_checkable
class Needs(Protocol):
    """A strategy that is of no use if faults cannot be injected here: those that the user chose, by the name of the option."""

    @property
    def needs(self) -> Mapping[str, Fault]: ...


@runtime_checkable
class Learns(Protocol):
    """A strategy that can say what it learnt from the fault-free runs, the most important first. `check` and `plan` show it."""

    @property
    def learnt(self) -> Sequence[str]: ...


@runtime_checkable
class Remarks(Protocol):
    """A strategy that has remarks for the user; the campaign asks for them after each proposal."""

    def remarks(self) -> Iterable[str]: ...


@runtime_checkable
class TakesOptions(Protocol):
    """A class of strategies that takes the options of the table [strategies.NAME]; the struct `Options` describes them."""

    Options: type[msgspec.Struct]

    def __call__(self, options: Any, /) -> Strategy: ...


class Checker(Protocol):
    """Judges one run. It is pure, so that it can judge stored runs again. The class of an entry point takes no arguments."""

    name: str
    rank: Rank
    """How bad its symptom is."""
    summary: str
    """One line: when it fails."""

    def check(self, run: RunView) -> Verdict: ...
