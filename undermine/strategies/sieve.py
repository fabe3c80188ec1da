"""One slow I/O operation at the worst place: under a lock, before a barrier, or within a time limit.

As in Sieve's Algorithm 1, each operation that is synchronized or timeout-protected is delayed once in every context (call
stack) in which a run meets it, one delay a run, and the strategy is over when nothing new is met. What is to be explored is
known from runs that are over, so runs side by side never explore the same context. `mode` compares with other ways to choose;
`delays` and `crash` add more faults to runs that took the first one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Literal

import msgspec

from undermine.analysis.exposure import Spot
from undermine.analysis.weak_spots import WeakSpot, representatives
from undermine.model.plan import At, Delay, Plan, Step, Then, Trigger, point_at
from undermine.model.point import REST, phase_point
from undermine.protocols import History, PastRun
from undermine.strategies.compared import WAYS
from undermine.strategies.slow_known import Known

Mode = Literal["sieve", "insensitive", "ungrouped", "random", "fate", "legolas", "chronos"]

OVER, UNDER = 3 / 2, 2 / 3
"""Of the time limit that is to be crossed; and what just does not cross it."""
DUE = At(phase_point(REST))
"""What is met while clients are served is delayed there, not while nodes start."""


class Sieve:
    """One delay at one synchronized or timeout-protected operation, in every context."""

    class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
        """[strategies.sieve]"""

        long_s: Annotated[float, msgspec.Meta(gt=0, le=86400)] = 300.0
        """Longer than all time limits of target and workload; it ends when clients have finished or hang."""
        delays: Annotated[int, msgspec.Meta(ge=1, le=4)] = 1
        """How many delays a run may have."""
        crash: bool = False
        """Also a crash + reboot after a delay."""
        sources: tuple[str, ...] = ()
        """Where the target's source is, if it is not found by itself."""
        mode: Mode = "sieve"
        """`sieve`; or what it is compared with."""
        cap: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 10_000
        """How many experiments there may be in all."""

    name = "sieve"
    summary = "one slow I/O at the worst place: under a lock, before a barrier, within a time limit"
    traced = True

    def __init__(self, options: Options = Options()) -> None:  # noqa: B008 - frozen
        self.cap = options.cap
        self._options = options
        self._known = Known(options.sources)

    def remarks(self) -> list[str]:
        """What the user should know, once."""
        told, self._known.remarks = self._known.remarks, []
        return told

    def propose(self, history: History) -> Iterator[Plan]:
        """All that is new, the most telling first; then, if that is wanted, faults on top of it."""
        if self._options.mode in WAYS:
            spots, delays = self._known.spots(history), self._known.delays(history)
            for plan in WAYS[self._options.mode](spots, delays, history):
                yield msgspec.structs.replace(plan, strategy=self.name)
            return
        weak = self.weak_spots(history)
        tried = Tried(history.runs)
        proposed = False
        for plan in _in_turns(self._single(weak, tried, history)):
            proposed = True
            yield plan
        if not proposed:
            yield from self._more(history)

    def weak_spots(self, history: History) -> list[WeakSpot]:
        """What is worth a delay, as runs have shown it so far."""
        return self._worth_it(self._known.spots(history))

    def _worth_it(self, every: Iterable[WeakSpot]) -> list[WeakSpot]:
        spots = [weak for weak in every if weak.synchronized or weak.timed]
        if self._options.mode == "sieve":
            return list(representatives(spots))
        return spots if self._options.mode == "ungrouped" else list(_by_place(spots))

    # --- one delay

    def _single(self, spots: Iterable[WeakSpot], tried: Tried, history: History) -> Iterator[tuple[WeakSpot, Plan]]:
        delays = self._known.delays(history)
        for weak in spots:
            chance = delays.get(weak.spot) or next((delays[s] for s in delays if _same_place(s, weak.spot)), None)
            if chance is None:
                continue
            for delay_s, why in self._durations(weak, tried.of(weak.spot), history):
                trigger = _trigger(weak, tried)
                step = Step(trigger, msgspec.structs.replace(chance.fault, delay_s=round(delay_s, 3)))
                yield weak, Plan((step,), history.seed, self.name, why)

    def _durations(self, weak: WeakSpot, before: Sequence[PastRun], history: History) -> Iterator[tuple[float, str]]:
        """How long it is delayed next, and why: as what others wait for, as what has a limit, and once more otherwise where the
        first showed nothing but other words in logs."""
        long_s = self._options.long_s
        longs = [run for run in before if _delay_of(run) >= long_s]
        shorts = [run for run in before if _delay_of(run) < long_s]
        limit_s = weak.exposure.limit_s
        if weak.synchronized and not longs:
            yield long_s, f"synchronized: {weak.why(synchronized=True)}"
        if weak.timed and not shorts:
            delay_s = min(limit_s * OVER, long_s / 2) if limit_s else history.delay_s
            yield delay_s, f"timeout-protected: {weak.why(synchronized=False)}"
        elif len(shorts) < 1 + weak.timed and any(run.odd for run in before) and not any(run.failed for run in before):
            first = _delay_of(shorts[0]) if shorts else 0.0
            other = first * UNDER / OVER if first else history.delay_s
            yield other, "another duration: the first changed only what the logs say"

    # --- more faults

    def _more(self, history: History) -> Iterator[Plan]:
        """Runs that took their delay and passed, with one more fault at what they showed after it; what no fault-free run shows
        comes first."""
        options = self._options
        if options.delays == 1 and not options.crash:
            return
        usual = {Spot.of(point) for point in history.baseline.points}
        weak = {found.spot: found for found in self._worth_it(self._known.spots(history, later=True))}
        rows: tuple[list[Plan], list[Plan]] = ([], [])
        for run in history.runs:
            if run.status != "fired" or run.failed or not _all_delays(run.plan):
                continue
            after = history.profile(run.id).after
            for spot, chances in self._known.at(after, history).items():
                taken = rows[spot in usual]
                here = weak.get(spot)
                if here and len(run.plan.steps) < options.delays and chances.delay:
                    delay_s = options.long_s if here.synchronized else here.exposure.limit_s * OVER or history.delay_s
                    fault = msgspec.structs.replace(chances.delay.fault, delay_s=round(delay_s, 3))
                    taken.append(
                        self._extended(run, Step(At(spot.point), fault), history, "another slow operation after it")
                    )
                if options.crash and chances.reboot:
                    step = Step(
                        At(chances.reboot.point.abstract_out(["target"]), chances.reboot.place), chances.reboot.fault
                    )
                    taken.append(self._extended(run, step, history, "a crash while it is slow"))
        for row in rows:
            yield from (plan for plan in row if plan.id not in history.settled)

    def _extended(self, run: PastRun, step: Step, history: History, why: str) -> Plan:
        return Plan((*run.plan.steps, step), history.seed, self.name, why)


class Tried:
    """What single delays were made where."""

    def __init__(self, runs: Iterable[PastRun]) -> None:
        self._by_spot: dict[Spot, list[PastRun]] = {}
        self._missed: set[Spot] = set()
        for run in runs:
            if len(run.plan.steps) == 1 and isinstance(run.plan.steps[0].fault, Delay):
                self._add(run, run.plan.steps[0].trigger)

    def _add(self, run: PastRun, trigger: Trigger) -> None:
        """A delay that waited for clients and did not come is tried once more, from the very beginning."""
        spot = Spot.of(point_at(trigger))
        if run.status == "not_fired" and isinstance(trigger, Then):
            self._missed.add(spot)
        else:
            self._by_spot.setdefault(spot, []).append(run)

    def of(self, spot: Spot) -> list[PastRun]:
        return self._by_spot.get(spot, [])

    def missed(self, spot: Spot) -> bool:
        return spot in self._missed


def _by_place(spots: Iterable[WeakSpot]) -> Iterator[WeakSpot]:
    """Each place in the code once, whatever led there: as it was met first."""
    seen: set[Spot] = set()
    for weak in spots:
        place = weak.spot._replace(stack="")
        if place not in seen:
            seen.add(place)
            yield msgspec.structs.replace(weak, spot=place)


def _same_place(one: Spot, other: Spot) -> bool:
    return not other.stack and one._replace(stack="") == other


def _trigger(weak: WeakSpot, tried: Tried) -> Trigger:
    at = At(weak.spot.point)
    return Then(DUE, at) if weak.exposure.serving and not tried.missed(weak.spot) else at


def _delay_of(run: PastRun) -> float:
    fault = run.plan.steps[0].fault
    return fault.delay_s if isinstance(fault, Delay) else 0.0


def _all_delays(plan: Plan) -> bool:
    return bool(plan.steps) and all(isinstance(step.fault, Delay) for step in plan.steps)


def _in_turns(found: Iterable[tuple[WeakSpot, Plan]]) -> Iterator[Plan]:
    """Each place in the code has a turn before any has a second one; what runs have shown comes before what only the source
    says, and what is met while clients are served before what is met while nodes start."""
    turns: dict[tuple[str, str], int] = {}
    rows = []
    for order, (weak, plan) in enumerate(sorted(found, key=lambda row: _telling(row[0]))):
        place = (weak.spot.role, weak.spot.loc)
        turns[place] = turns.get(place, -1) + 1
        rows.append((not weak.exposure.serving, turns[place], order, plan))
    return (row[-1] for row in sorted(rows, key=lambda row: row[:3]))


def _telling(weak: WeakSpot) -> tuple[bool, int, int, int, int, Spot]:
    """The more places want the lock, the more a delay may hurt; the more is sent at once, the likelier it waits for a device; of
    what only the source says, the nearest first."""
    exposure = weak.exposure
    nearest = 0 if weak.shown else min((scope.depth for scope in weak.scopes), default=99)
    return not weak.shown, -exposure.rivals, nearest, -exposure.bytes, exposure.order, weak.spot
