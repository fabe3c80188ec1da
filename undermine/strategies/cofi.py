"""Partitions that begin while two nodes disagree and end before each kind of message, after CoFI.

Fault-free runs show which variables usually have equal values on two nodes. Nodes disagree for a short time whenever a change
is under way. A partition at that moment preserves the disagreement. In a first run it lasts, and shows which kinds of messages
fail. Then it ends before one kind of message after another: its call stack, its sender, its receiver, and the state of the two
nodes. Such a message meets nodes that disagree, which the program may not expect.

Never starts a process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Annotated, Literal, NamedTuple

import msgspec

from undermine.analysis.agreement.alike import groups_named, renamed_state
from undermine.analysis.agreement.invariants import Invariant
from undermine.analysis.agreement.message_kinds import KIND
from undermine.analysis.agreement.states import State
from undermine.model.faults import Partition
from undermine.model.plan import FirstUnseen, Plan, Step, When, renamed_nodes
from undermine.model.point import CLIENT, Point
from undermine.model.predictions.candidate import Candidate, Evidence, Reason
from undermine.protocols import History, PastRun
from undermine.strategies.observed_states import Disagreement, ObservedStates
from undermine.strategies.remarks import NewRemarks

Cut = Literal["node", "group", "out", "in"]
_ANOTHER_OF_ITS_CLASS, _BRIEF, _STARTING, _OTHER_CUT, _NEEDS_PARTITION, _DID_NOT_RECUR = 2.0, 3.0, 4.0, 6.0, 8.0, 8.0
"""How many runs a series waits. In this order: for each earlier series with the same values; if its state is hard to meet; if no
client was served yet; if it doesn't cut off one node both ways; if only a partition led to its state, which may not occur without
one; for each plan that waited for its state in vain, while no plan met it."""
_BRIEF_NS = 1_000_000
"""A state that lasts for a shorter time, on average, is hard to meet again."""
_SAME_STATE = 3
"""How many kinds of messages in each later state come before the first kind in the state in which the partition began."""
_MISSED_MAX = 3
"""A kind of message is given up if this many partitions should have ended before it, and ended before new kinds instead."""
_NO_VARIABLES = (
    "no fault-free run showed a variable of the nodes, so there is nothing that nodes can disagree about: name some in "
    "[variables] (`undermine check --suggest-variables` finds some), or write `variables = \"auto\"`, and start a new campaign"
)


class _Series(NamedTuple):
    """Partitions that begin in one state and cut off the same nodes. They end at different messages."""

    found: Disagreement
    node: str
    fault: Partition
    alike: tuple[tuple[str, ...], ...] = ()
    """Nodes that may take each other's place."""

    @property
    def state(self) -> State:
        return self.found.state

    @property
    def trigger(self) -> When:
        return When(self.state.comparisons())

    @property
    def looks(self) -> tuple[object, ...]:
        """Equal for series that look alike to a program: the same values of a variable, and the same side is cut off."""
        state = self.state if self.node == self.state.one.node else self.state.flipped()
        return state.one.name, state.values, state.order

    def until(self, wanted: Point, seen: Sequence[Point]) -> FirstUnseen:
        """Before a message of this kind, or of one that isn't among those seen."""
        return FirstUnseen(KIND, tuple(seen), state=self.state.watched(), involves=self.fault.nodes, wanted=wanted)


class Cofi:
    """A partition that begins while two nodes disagree, and ends before a message of a new kind."""

    class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
        """[strategies.cofi]"""

        loss: Literal["error", "silent", "network"] = "error"
        """How messages fail: the program gets an error; it gets no error, and they wait; or packets are lost at the network. Its
        connections are reset at the end."""
        cuts: tuple[Cut, ...] = ("node", "group", "out", "in")
        """The part that is cut: one of the two nodes; it and all nodes with the same value; only what it sends, or receives."""
        confidence: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.8
        """The least share of messages after which sender and receiver must agree about a variable."""
        invariant_cap: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 100
        """The most experiments for the values of one variable on two nodes."""
        cap: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 10_000
        """The most experiments in a campaign."""

    name = "cofi"
    summary = "a partition that begins while two nodes disagree, and ends before a message of a new kind"

    def __init__(self, options: Options = Options()) -> None:  # noqa: B008 - frozen
        self.cap = options.cap
        self.needs = {"loss": Partition(level="network")} if options.loss == "network" else {}
        self.traced = True
        self._options = options
        self._observed: ObservedStates | None = None
        self._ends: dict[int, Point | None] = {}
        self._kinds: dict[tuple[int, State], list[Point]] = {}
        self._remarks = NewRemarks()

    @property
    def learnt(self) -> tuple[str, ...]:
        """The invariants between nodes, the best supported first."""
        kept = self._observed.invariants.invariants if self._observed else ()
        return tuple(f"{invariant.words} ({_support(invariant)})" for invariant in kept)

    def remarks(self) -> list[str]:
        """Remarks for the user, each once."""
        return self._remarks.take()

    def propose(self, history: History) -> Iterator[Candidate]:
        """Yield the next partition of each series that isn't over, the most promising first."""
        self.traced = False  # the fault-free runs are over
        states = self.observed_states(history)
        tried = _tried(history)
        spent = Counter(_about(trigger) for (trigger, _), runs in tried.items() for _ in runs)
        waiting: list[tuple[float, int, Candidate]] = []
        vain = _in_vain(tried)
        for order, (rank, series) in enumerate(self._ranked(history, states)):
            done = tried.get((series.trigger, series.fault), [])
            plan = self._next(series, done, history)
            if plan is not None and spent[_about(series.trigger)] < self._options.invariant_cap:
                score = -(rank + len(done) + _DID_NOT_RECUR * vain[series.trigger])
                waiting.append((-score, order, Candidate(plan, (_why(series),), score)))
        self._tell(states, history)
        ranked = (candidate for *_, candidate in sorted(waiting, key=lambda each: each[:2]))
        yield from history.changed_first(ranked, lambda candidate: candidate.plan.steps)[: history.batch]

    def total(self, history: History) -> int:
        """The number of series. Each begins with one partition; how many follow is known only then."""
        return sum(1 for _ in self._ranked(history, self.observed_states(history)))

    def predict(self, history: History, after: PastRun | None) -> Iterator[Candidate]:
        """Yield partitions that last; with a run, those whose state it showed after its last fault."""
        states = self.observed_states(history)
        since = history.fired_ns(after.id) if after else 0
        runs = (after.id,) if after else history.fault_free
        allowed = _allowed(history)
        for found in (found for run in runs for found in states.of(run) if found.seen.t_ns >= since):
            for series in self._series(found, allowed):
                yield Candidate(_plan(series, None, history), (_why(series),))

    def observed_states(self, history: History) -> ObservedStates:
        """The invariants of the fault-free runs, and the states of all runs."""
        if self._observed is None:
            self._observed = ObservedStates(history, self._options.confidence)
        self._observed.learn(history.fault_free)
        return self._observed

    # --- the queue

    def _ranked(self, history: History, states: ObservedStates) -> Iterator[tuple[float, _Series]]:
        """All series, in the order in which runs showed their states, with the number of runs that others are ahead."""
        own = [run for run in history.runs if run.status != "broken" and not run.covered]
        fired_ns = {run.id: history.fired_ns(run.id) for run in own if run.status == "fired"}
        queued: dict[State, Disagreement] = {}
        unaided: set[State] = set()  # states that a run showed without a partition, or before it
        for run in (*history.fault_free, *(run.id for run in own)):
            for found in states.alike(run):
                queued.setdefault(found.state, found)
                if run not in fired_ns or found.seen.t_ns < fired_ns[run]:
                    unaided.add(found.state)
        before: Counter[object] = Counter()
        allowed = _allowed(history)
        ordered = sorted(queued.values(), key=lambda found: not found.seen.after_rest)
        for found in ordered:
            is_brief = found.seen.lasted_ns < _BRIEF_NS * found.seen.times
            needs_partition = found.state not in unaided
            for series in self._series(found, allowed):
                turn = _OTHER_CUT * (series.fault != self._fault("node", series.node, found))
                looks = series.looks, turn
                rank = turn + _ANOTHER_OF_ITS_CLASS * before[looks] + _STARTING * (not found.seen.after_rest)
                before[looks] += 1
                series = series._replace(alike=groups_named(series.state, states.groups))
                yield rank + _BRIEF * is_brief + _NEEDS_PARTITION * needs_partition, series

    def _series(self, found: Disagreement, allowed: _Allowed) -> Iterator[_Series]:
        """The series of a state: each of its nodes is cut off in each allowed way. Groups come last: one is left out if all other
        nodes are cut off already."""
        cuts: set[object] = set()
        for cut, node in product(sorted(self._options.cuts, key="group".__eq__), found.state.nodes):
            fault = self._fault(cut, node, found)
            if allowed.includes(fault) and (effect := allowed.effect(fault)) not in cuts:
                cuts.add(effect)
                yield _Series(found, node, fault)

    def _fault(self, cut: Cut, node: str, found: Disagreement) -> Partition:
        loss = self._options.loss
        how = Partition(level="operation", loss="error")
        if loss != "error":
            how = Partition(level="network") if loss == "network" else Partition(level="operation", loss=loss)
            how = msgspec.structs.replace(how, resets=True)
        nodes = found.sides[node] if cut == "group" else (node,)
        return msgspec.structs.replace(how, nodes=nodes, direction=cut if cut in ("out", "in") else "both")

    def _next(self, series: _Series, done: Sequence[PastRun], history: History) -> Plan | None:
        """The next partition of a series; None if it is over, or if its state did not recur.

        The first one lasts. Each later one ends before a message of another kind that the first one let fail, or of a kind that
        is new. If it ended before a new kind, the next one lets that kind fail, and tries the same kind as before.
        """
        plan = _plan(series, None, history)
        lasting = next((run for run in done if run.status == "fired" and run.plan.id == plan.id), None)
        if lasting is not None:
            failed = self._failed(series, lasting.id, history)
            ended = {run.id: self._end(run.id, history) for run in done}
            ends = {end for end in ended.values() if end}
            tried = ends.union(*(_wanted(run, failed) for run in done if not ended[run.id]))  # those did not recur
            missed = Counter(kind for run in done for kind in _wanted(run, failed))
            kind = next((kind for kind in failed if kind not in tried and missed[kind] < _MISSED_MAX), None)
            if kind is None:
                return None
            plan = _plan(series, series.until(kind, sorted({*failed, *ends} - {kind})), history)
        return None if plan.id in history.settled else plan

    def _failed(self, series: _Series, run: int, history: History) -> list[Point]:
        """The kinds of messages that a partition let fail, with the nodes of its plan, the most promising first: those of states
        that it led to, one of each state before the second of any, and those between the two nodes."""
        if (run, series.state) not in self._kinds:
            names = history.exchanged(run)
            nodes = renamed_nodes(series.fault.nodes, names)
            shown = self.observed_states(history).kinds(run, renamed_state(series.state, names), nodes, history.fired_ns(run))
            kinds = [kind.renamed(_inverse(names)) for kind in shown]
            begun = series.state.text
            before: Counter[str] = Counter()
            ranked = []
            for order, kind in enumerate(sorted(kinds, key=lambda kind: not _between(kind, series.state))):
                state = kind.get("state")
                ranked.append((before[state] + _SAME_STATE * (state == begun), order, kind))
                before[state] += 1
            self._kinds[run, series.state] = [kind for *_, kind in sorted(ranked)]
        return self._kinds[run, series.state]

    def _end(self, run: int, history: History) -> Point | None:
        """The kind of message before which the partition of a run ended, with the nodes of its plan; None if it lasted."""
        if run not in self._ends:
            ended = history.ended(run)
            back = _inverse(history.exchanged(run))
            self._ends[run] = ended.point.abstract_in(KIND).renamed(back) if ended else None
        return self._ends[run]

    def _tell(self, states: ObservedStates, history: History) -> None:
        if not states.has_samples:
            self._remarks.say(_NO_VARIABLES)
            return
        kept = states.invariants
        dropped = ", ".join(f"{count} {rule}" for rule, count in kept.dropped.items())
        text = f"invariants between nodes: {len(kept.invariants)} of {kept.mined}" + (f" (others: {dropped})" if dropped else "")
        distinct = {found.state for run in history.fault_free for found in states.alike(run)}
        self._remarks.say(f"{text}; states in which nodes disagree: {len(distinct)}")


def _tried(history: History) -> Mapping[tuple[When, Partition], list[PastRun]]:
    """The runs of each series."""
    found: dict[tuple[When, Partition], list[PastRun]] = {}
    for run in history.runs:
        (step,) = run.plan.steps
        if isinstance(step.trigger, When) and isinstance(step.fault, Partition):
            found.setdefault((step.trigger, step.fault), []).append(run)
    return found


def _in_vain(tried: Mapping[tuple[When, Partition], Sequence[PastRun]]) -> Counter[When]:
    """For each state that no plan met: the plans that waited for it."""
    vain = Counter(trigger for (trigger, _), runs in tried.items() for run in runs if run.status == "not_fired")
    met = {trigger for (trigger, _), runs in tried.items() if any(run.status == "fired" for run in runs)}
    return Counter({trigger: count for trigger, count in vain.items() if trigger not in met})


class _Allowed(NamedTuple):
    """All nodes, those that no partition may hit, such as those that `faults.roles` does not list, and the directions that are
    allowed; none if nothing may be cut off."""

    nodes: frozenset[str]
    left_out: frozenset[str]
    directions: frozenset[str]

    def includes(self, fault: Partition) -> bool:
        return fault.direction in self.directions and self.left_out.isdisjoint(fault.nodes)

    def effect(self, fault: Partition) -> object:
        """Equal for partitions that stop the same messages: those of a side, in both directions, and those of the other side."""
        inside = frozenset(fault.nodes)
        return frozenset((inside, self.nodes - inside)) if fault.direction == "both" else fault


def _allowed(history: History) -> _Allowed:
    cuts = [(one, one.fault.direction) for one in history.possible_faults if isinstance(one.fault, Partition)]
    usable = [(one, direction) for one, direction in cuts if not one.skipped]
    nodes, hit = (frozenset(one.point.get("node") for one, _ in each) for each in (cuts, usable))
    every = frozenset(seen.point.get("node") for seen in history.points) | nodes
    return _Allowed(every - {CLIENT}, nodes - hit, frozenset(direction for _, direction in usable))


def _inverse(names: Mapping[str, str]) -> dict[str, str]:
    return {new: old for old, new in names.items()}


def _wanted(run: PastRun, failed: Sequence[Point]) -> set[Point]:
    """The kinds of messages that failed in the first run, and before which the partition of this run could end."""
    (step,) = run.plan.steps
    return set(failed) - set(step.until.seen) if isinstance(step.until, FirstUnseen) else set()


def _between(kind: Point, state: State) -> bool:
    """Is it a message between the two nodes that disagree?"""
    return {kind.get("node"), kind.peer} == set(state.nodes)


def _about(trigger: When) -> frozenset[str]:
    """The variables that a state compares, whatever their keys and values."""
    names = (name for each in trigger.state for name in (each.variable, each.other) if name)
    return frozenset(name.partition("[")[0] for name in names)


def _plan(series: _Series, until: FirstUnseen | None, history: History) -> Plan:
    step = Step(series.trigger, series.fault, until, alike=series.alike or msgspec.UNSET)
    return Plan((step,), history.seed, Cofi.name, _why(series).text)


def _why(series: _Series) -> Reason:
    seen = series.found.seen
    invariant = seen.invariant
    evidence = (
        Evidence("value", f"usually {invariant.words} after a message ({_support(invariant)})"),
        Evidence("value", f"{seen.state}, for {seen.lasted_ns / 1e9:.3f} s in run {series.found.run}", run=series.found.run),
    )
    return Reason(f"while nodes disagree about {series.state}", evidence)


def _support(invariant: Invariant) -> str:
    """`12 messages, 92% of them`"""
    return f"{invariant.support} message{'s' * (invariant.support != 1)}, {invariant.confidence:.0%} of them"
