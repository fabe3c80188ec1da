"""One slow I/O operation where it hurts most: under a lock, before a barrier, or within a time limit.

As in Sieve's Algorithm 1, each synchronized or timeout-protected operation is delayed once in every context (call stack) in which
a run reaches it, with one delay in each run. The strategy ends when runs show no new context. It proposes plans only from
finished runs, so parallel runs never explore the same context. `mode` leaves out parts of the algorithm; `delays` and `crash` add
more faults to plans whose first fault fired. Never starts a process.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Literal

import msgspec

from undermine.analysis.exposure.exposure import Spot
from undermine.analysis.exposure.outages import OVER
from undermine.analysis.exposure.weak_spots import WeakSpot, representatives
from undermine.model.faults import Delay, Fault, lasts_alike
from undermine.model.plan import At, Plan, Step, Then, Trigger, point_at
from undermine.model.point import REST, phase_point
from undermine.model.predictions.candidate import Candidate, Reason
from undermine.protocols import History, PastRun, Predicts
from undermine.strategies.next_steps import extended
from undermine.strategies.observed_weak_spots import ObservedWeakSpots, lasting, over_limit, usual_spots

Mode = Literal["sieve", "insensitive", "ungrouped"]

UNDER = 2 / 3
"""A delay that must stay below a time limit lasts this part of it."""
_MORE_MAX = 1000
"""The most plans with more than one fault that are proposed at a time."""
DUE = At(phase_point(REST))
"""Operations that serve clients are delayed only after this moment, not while nodes start."""


class Sieve:
    """One delay at one synchronized or timeout-protected operation, in every context."""

    class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
        """[strategies.sieve]"""

        long_s: Annotated[float, msgspec.Meta(gt=0, le=86400)] = 300.0
        """A delay that is longer than all time limits of target and workload; it ends when clients have finished or hang."""
        delays: Annotated[int, msgspec.Meta(ge=1, le=4)] = 1
        """The most delays in a run."""
        crash: bool = False
        """Also reboot a node after a delay."""
        sources: tuple[str, ...] = ()
        """The files and folders of the target's source, if the tool does not find them."""
        mode: Mode = "sieve"
        """`insensitive`: each call site once, for all call stacks. `ungrouped`: all operations of a basic block."""
        cap: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 10_000
        """The most experiments in a campaign."""

    name = "sieve"
    summary = "one slow I/O where it hurts most: under a lock, before a barrier, within a time limit"
    traced = True

    def __init__(self, options: Options = Options()) -> None:  # noqa: B008 - frozen
        self.cap = options.cap
        self._options = options
        self._known = ObservedWeakSpots(options.sources)

    def remarks(self) -> list[str]:
        """Remarks for the user, each once."""
        new, self._known.remarks = self._known.remarks, []
        return new

    def propose(self, history: History) -> Iterator[Candidate]:
        """Yield all new delays, the most promising first; if there are none, plans with additional faults, if configured."""
        proposed = False
        for candidate in self.predict(history, None):
            proposed = True
            yield candidate
        if not proposed:
            yield from itertools.islice(self._more(history), _MORE_MAX)

    def predict(self, history: History, after: PastRun | None) -> Iterator[Candidate]:
        """Yield delays of weak spots that the run showed after its last fault; without a run, all new delays of one operation.
        The most promising come first."""
        if after is None:
            yield from _in_turns(self._single(self.weak_spots(history), PastDelays(history.runs), history))
            return
        self._known.look_at(after.id, history)
        weak = {found.spot: found for found, _ in self.weak_spots(history, later=True)}
        usual = usual_spots(history)
        possible = self._known.at(history.profile(after.id).after, history)
        for spot in sorted(possible, key=lambda spot: spot in usual):  # spots that no fault-free run shows come first
            if (found := weak.get(spot)) and (delay := possible[spot].delay):
                over_s = over_limit(found.limit_s, history)
                delay_s = max(self._options.long_s, over_s) if found.synchronized else over_s
                plan = _one_step(At(spot.point), lasting(delay, delay_s), history, self.name, "another slow operation")
                reasons = found.reasons(synchronized=found.synchronized)
                yield Candidate(plan, reasons, score=float(spot not in usual))

    def weak_spots(self, history: History, *, later: bool = False) -> list[tuple[WeakSpot, Delay]]:
        """The weak spots of the runs so far that are worth a delay and can be delayed."""
        delays = self._known.delays(history)
        every = self._known.spots(history, later=later)
        spots = [weak for weak in every if (weak.synchronized or weak.timed) and weak.spot in delays]
        if self._options.mode == "sieve":
            spots = list(representatives(spots))
        found = [(weak, delays[weak.spot]) for weak in spots]
        return list(_by_call_site(found)) if self._options.mode == "insensitive" else found

    # --- one delay

    def _single(
        self, spots: Iterable[tuple[WeakSpot, Delay]], tried: PastDelays, history: History
    ) -> Iterator[tuple[WeakSpot, Candidate]]:
        for weak, delay in spots:
            for delay_s, why in self._durations(weak, tried.of(weak.spot), history):
                plan = _one_step(_trigger(weak, tried), lasting(delay, delay_s), history, self.name, why)
                reasons = weak.reasons(synchronized=delay_s >= self._options.long_s)
                yield weak, Candidate(plan, reasons, score=float(weak.shown) + weak.exposure.rivals)

    def _durations(self, weak: WeakSpot, before: Sequence[PastRun], history: History) -> Iterator[tuple[float, str]]:
        """The next durations, each with the reason: a long one if others wait for the operation, one over its shortest time limit
        and one over the longest, if any, and another duration if the others changed only the log output."""
        long_s, overs = self._options.long_s, _over_limits(weak, history)
        longs = [run for run in before if _delay_of(run) >= long_s]
        shorts = sorted(_delay_of(run) for run in before if _delay_of(run) < long_s)
        timed = [over_s for over_s in overs if over_s < long_s]
        if (weak.synchronized or len(timed) < len(overs)) and not longs:
            yield max((long_s, *overs)), f"synchronized: {weak.why(synchronized=True)}"
        if uncrossed := [over_s for over_s in timed if not any(_crosses(delay_s, over_s) for delay_s in shorts)]:
            yield from ((over_s, f"timeout-protected: {weak.why(synchronized=False)}") for over_s in uncrossed)
        elif any(run.odd for run in before) and not any(run.failed for run in before):
            other_s = timed[0] * UNDER / OVER if timed else min(history.delay_s, long_s / 2)
            if not shorts or (timed and _crosses(shorts[0], timed[0])):
                yield other_s, "another duration: the first changed only the log output"

    # --- more faults

    def _more(self, history: History) -> Iterator[Candidate]:
        """Extend each plan that fired and passed by one more fault at a point seen after the delay. Points that no fault-free run
        shows come first."""
        reboots = Reboots(self.name, self._known)
        found: list[Candidate] = []
        for run in history.runs:
            if run.status != "fired" or run.failed or not _all_delays(run.plan):
                continue
            more = [self] if len(run.plan.steps) < self._options.delays else []
            predictors: list[Predicts] = [*more, *([reboots] if self._options.crash else [])]
            found += extended(history, predictors, run, self.name)
        fresh = (candidate for candidate in found if candidate.plan.id not in history.settled)
        return iter(sorted(fresh, key=lambda candidate: -candidate.score))


class Reboots:
    """Predicts that a reboot hurts while an operation is slow: at each operation that leaves something behind."""

    def __init__(self, name: str, known: ObservedWeakSpots) -> None:
        self.name = name
        self._known = known

    def predict(self, history: History, after: PastRun | None) -> Iterator[Candidate]:
        usual = usual_spots(history)
        profile = history.profile(after.id) if after else history.baseline
        for spot, possible in self._known.at(profile.after, history).items():
            if reboot := possible.reboot:
                at = At(spot.point, reboot.place)
                plan = _one_step(at, reboot.fault, history, self.name, "a crash while the first operation is slow")
                yield Candidate(plan, (Reason(plan.why),), score=float(spot not in usual))


def _one_step(trigger: Trigger, fault: Fault, history: History, strategy: str, why: str) -> Plan:
    return Plan((Step(trigger, fault),), history.seed, strategy, why)


class PastDelays:
    """The runs with a single delay, by the spot that was delayed."""

    def __init__(self, runs: Iterable[PastRun]) -> None:
        self._by_spot: dict[Spot, list[PastRun]] = {}
        self._missed: set[Spot] = set()
        for run in runs:
            if len(run.plan.steps) == 1 and isinstance(run.plan.steps[0].fault, Delay):
                self._add(run, run.plan.steps[0].trigger)

    def _add(self, run: PastRun, trigger: Trigger) -> None:
        """Add a run. A delay that waited for clients and did not fire is tried again, from the start of the nodes on."""
        spot = Spot.of(point_at(trigger))
        if run.status == "not_fired" and isinstance(trigger, Then):
            self._missed.add(spot)
        else:
            self._by_spot.setdefault(spot, []).append(run)

    def of(self, spot: Spot) -> list[PastRun]:
        return self._by_spot.get(spot, [])

    def missed(self, spot: Spot) -> bool:
        return spot in self._missed


def _by_call_site(found: Iterable[tuple[WeakSpot, Delay]]) -> Iterator[tuple[WeakSpot, Delay]]:
    """Yield the first spot of each call site, without its call stack."""
    seen: set[Spot] = set()
    for weak, delay in found:
        call_site = weak.spot._replace(stack="")
        if call_site not in seen:
            seen.add(call_site)
            yield msgspec.structs.replace(weak, spot=call_site), delay


def _over_limits(weak: WeakSpot, history: History) -> list[float]:
    """The durations that exceed the shortest and the longest time limit of a spot; none if it isn't timeout-protected. If the
    limits are near each other, one duration exceeds both."""
    if not weak.timed:
        return []
    known = weak.limits_s or (0.0,)
    chosen = known[-1:] if lasts_alike(known[0], known[-1]) else (known[0], known[-1])
    return [over_limit(limit_s, history) for limit_s in chosen]


def _crosses(delay_s: float, over_s: float) -> bool:
    """Was this delay longer than the time limit that `over_s` exceeds? A limit that differs a little from run to run leads to one
    delay."""
    return delay_s * OVER > over_s


def _trigger(weak: WeakSpot, tried: PastDelays) -> Trigger:
    at = At(weak.spot.point)
    return Then(DUE, at) if weak.exposure.serving and not tried.missed(weak.spot) else at


def _delay_of(run: PastRun) -> float:
    fault = run.plan.steps[0].fault
    return fault.delay_s if isinstance(fault, Delay) else 0.0


def _all_delays(plan: Plan) -> bool:
    return bool(plan.steps) and all(isinstance(step.fault, Delay) for step in plan.steps)


def _in_turns(found: Iterable[tuple[WeakSpot, Candidate]]) -> Iterator[Candidate]:
    """Sort candidates so that each call site has a turn before any has a second one. Operations that serve clients come before
    those of starting nodes, and spots that runs showed to be weak before those that only the source suggests."""
    turns: dict[tuple[str, str], int] = {}
    rows = []
    for order, (weak, candidate) in enumerate(sorted(found, key=lambda row: _promise(row[0]))):
        call_site = (weak.spot.role, weak.spot.loc)
        turns[call_site] = turns.get(call_site, -1) + 1
        rows.append((not weak.exposure.serving, turns[call_site], order, candidate))
    return (row[-1] for row in sorted(rows, key=lambda row: row[:3]))


def _promise(weak: WeakSpot) -> tuple[bool, int, int, int, int, Spot]:
    """The sort key of a spot; the most promising comes first. The more call sites compete for the lock, the more a delay may
    hurt. The more bytes are sent at once, the likelier the operation waits for a device. If only the source suggests the spot,
    the nearest region comes first."""
    exposure = weak.exposure
    nearest = 0 if weak.shown else min((region.depth for region in weak.regions), default=99)
    return not weak.shown, -exposure.rivals, nearest, -exposure.bytes, exposure.order, weak.spot
