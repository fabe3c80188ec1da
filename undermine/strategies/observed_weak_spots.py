"""The target's weak spots as far as a campaign knows them: facts of its source, joined with what every run so far has shown.

Pure: it keeps only results that would be the same if they were computed again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

import msgspec

from undermine.analysis.exposure.exposure import Exposure, Spot, exposures, merged
from undermine.analysis.exposure.weak_spots import WeakSpot, WeakSpots
from undermine.analysis.possible_faults import injectable
from undermine.model.columns import Columns
from undermine.model.faults import Delay, Reboot
from undermine.model.point import CLIENT, LEAVING_TRACES, Point
from undermine.program import Facts
from undermine.protocols import History, PossibleFault

OVER = 3 / 2
"""Of the time limit that is to be crossed."""
_LEAST_S = 0.01
_TROUBLES_MAX = 5
_NOT_IN_FULL = (
    "the fault-free runs were not observed in full, since this campaign was begun without the strategy: locks and limits "
    "are known from its own runs only; a new campaign knows more"
)


class FaultsAtSpot(msgspec.Struct, frozen=True):
    """The delay and the reboot that are possible at a spot."""

    delay: Delay | None = None
    reboot: PossibleFault | None = None


def lasting(delay: Delay, delay_s: float) -> Delay:
    """A copy with duration `delay_s`."""
    return msgspec.structs.replace(delay, delay_s=round(delay_s, 3))


def usual_spots(history: History) -> set[Spot]:
    """The spots of the fault-free runs."""
    return {Spot.of(point) for point in history.baseline.points}


def over_limit(limit_s: float, history: History) -> float:
    """A delay that crosses a time limit; where none was seen, the delay that the user wants."""
    return max(limit_s * OVER if limit_s else history.delay_s, _LEAST_S)


class ObservedWeakSpots:
    """The weak spots of one campaign; they become more with its runs."""

    def __init__(self, folders: tuple[str, ...] = ()) -> None:
        self._folders = folders
        self._seen: dict[bool, _Exposures] = {False: _Exposures(), True: _Exposures()}
        self._joined: WeakSpots | None = None
        self.remarks: list[str] = []
        """Remarks for the user that nobody has taken yet."""

    def spots(self, history: History, *, later: bool = False) -> list[WeakSpot]:
        """The operations that runs showed before their first fault, with all that is known of each; with `later`, all
        operations.

        A run that begins with a delay never reaches an operation that only a slow operation leads to.
        """
        joined, seen = self._from_source(history), self._seen[later]
        for run in history.fault_free:
            seen.add(run, history)
        for past in history.runs:
            if past.status == "fired":
                seen.add(past.id, history, whole=later)
            elif past.status == "not_fired":  # it shows as much as a fault-free run
                seen.add(past.id, history)
        return joined.of(seen.exposures)

    def delays(self, history: History) -> dict[Spot, Delay]:
        """The delay that is possible at each spot of the runs so far."""
        points = set(history.baseline.points)
        for run in history.runs:
            points |= history.profile(run.id).points
        return {spot: found.delay for spot, found in self.at(points, history).items() if found.delay}

    def at(self, points: Iterable[Point], history: History) -> dict[Spot, FaultsAtSpot]:
        """The faults that are possible at these points, by spot."""
        found: dict[Spot, FaultsAtSpot] = {}
        for possible in injectable(history.possible_faults_at(sorted(points))):
            spot = Spot.of(possible.point)
            if isinstance(possible.fault, Delay):
                found[spot] = msgspec.structs.replace(found.get(spot, FaultsAtSpot()), delay=possible.fault)
            elif isinstance(possible.fault, Reboot) and not possible.fault.nodes and spot.op in LEAVING_TRACES:
                found[spot] = msgspec.structs.replace(found.get(spot, FaultsAtSpot()), reboot=possible)
        return found

    def _from_source(self, history: History) -> WeakSpots:
        """Facts of the source, read once."""
        if self._joined is None:
            program = history.program(self._folders)
            traces = [history.columns(run) for run in history.fault_free]
            self._joined = WeakSpots(program, same := _same_interpreter(traces))
            self.remarks += _remarks(program.facts, same, observed_in_full(traces))
        return self._joined


class _Exposures:
    """The exposures of all runs together; each run is looked at once."""

    def __init__(self) -> None:
        self.exposures: dict[Spot, Exposure] = {}
        self._runs: set[int] = set()

    def add(self, run: int, history: History, *, whole: bool = True) -> None:
        """Add a run: the whole of it, or what it showed before its first step fired."""
        if run not in self._runs:
            self._runs.add(run)
            before_ns = 0 if whole else history.fired_ns(run)
            self.exposures = merged((self.exposures, exposures(history.columns(run), before_ns)))


def observed_in_full(traces: Iterable[Columns]) -> bool:
    """Did agents record everything? Only then clients carry one."""
    return any(process.node == CLIENT for columns in traces for process in columns.processes)


def _remarks(facts: Facts, same_interpreter: bool, in_full: bool) -> list[str]:
    return [*_of_source(facts, same_interpreter), *([] if in_full else [_NOT_IN_FULL])]


def _of_source(facts: Facts, same_interpreter: bool) -> list[str]:
    counts = facts.counts
    if not counts.files:
        return [
            "no source of the target was found, so only what runs show counts: say where it is with [strategies.sieve] sources"
        ]
    said = [
        f"{counts.lines:,} lines of source: {counts.all} I/O operations, {counts.in_regions} of them synchronized or "
        f"timeout-protected, {counts.grouped} groups"
    ]
    said += [f"{trouble.file} was left out: {trouble.why}" for trouble in facts.troubles[:_TROUBLES_MAX]]
    if not same_interpreter:
        said.append("the nodes run another release of Python than this tool: regions are those of all callers together")
    return said


def _same_interpreter(traces: Iterable[Columns]) -> bool:
    """Do the nodes number call sites as this interpreter does?"""
    own = f"{sys.version_info.major}.{sys.version_info.minor}."
    said = {process.runtime for columns in traces for process in columns.processes if process.agent}
    return all(own in runtime for runtime in said if "python" in runtime)
