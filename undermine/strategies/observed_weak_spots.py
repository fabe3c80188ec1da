"""The target's weak spots as a campaign knows them: facts of its source, joined with the exposures of all runs so far.

Pure except for caches: computing a cached result again would give the same result. Never reads the source itself.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

import msgspec

from undermine.analysis.exposure.compared_limits import ObservedNumbers
from undermine.analysis.exposure.exposure import Exposure, Spot, exposures, merged
from undermine.analysis.exposure.outages import OVER
from undermine.analysis.exposure.weak_spots import WeakSpot, WeakSpots
from undermine.analysis.possible_faults import injectable
from undermine.analysis.reading.rows import observed_in_full
from undermine.model.columns import Columns
from undermine.model.faults import Delay, Fault, Reboot
from undermine.model.point import LEAVING_TRACES, Point
from undermine.program import Facts
from undermine.protocols import History, PossibleFault
from undermine.runtimes.table import runtime_of

_LEAST_S = 0.01
_TROUBLES_MAX = 5
_NOT_IN_FULL = (
    "the fault-free runs were not observed in full, since this campaign was begun without the strategy: locks and time "
    "limits are known from its own runs only; start a new campaign to learn more"
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
    """The seconds of a delay that exceeds the time limit; the user's `delay_s` if there is no limit."""
    return max(limit_s * OVER if limit_s else history.delay_s, _LEAST_S)


def _is_short_reboot(fault: Fault, history: History) -> bool:
    """Is it a reboot of the node itself, and not a long outage?"""
    return isinstance(fault, Reboot) and not fault.nodes and not history.is_long(fault)


class ObservedWeakSpots:
    """The weak spots of one campaign. Each run may add some."""

    def __init__(self, folders: tuple[str, ...] = ()) -> None:
        self._folders = folders
        self._seen: dict[bool, _Exposures] = {False: _Exposures(), True: _Exposures()}
        self._joined: WeakSpots | None = None
        self.remarks: list[str] = []
        """Remarks that the user has not been shown yet."""

    def spots(self, history: History, *, later: bool = False) -> list[WeakSpot]:
        """The weak spots among the operations that runs showed before their first fault; with `later`, among all operations.

        Operations after a fault are left out by default: if only a slow operation leads to them, a plan that begins with them
        never fires.
        """
        joined, seen = self._from_source(history), self._seen[later]
        for run in history.fault_free:
            seen.add(run, history)
        for past in history.runs:
            if past.status in ("fired", "not_fired"):  # if no step fired, all of it counts, as in a fault-free run
                seen.add(past.id, history, whole=later)
        return joined.of(seen.exposures, seen.numbers)

    def look_at(self, run: int, history: History) -> None:
        """Add the exposures of one more run, whichever strategy proposed it."""
        self._seen[True].add(run, history)

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
            elif _is_short_reboot(possible.fault, history) and spot.op in LEAVING_TRACES:
                found[spot] = msgspec.structs.replace(found.get(spot, FaultsAtSpot()), reboot=possible)
        return found

    def _from_source(self, history: History) -> WeakSpots:
        """The facts of the target's source, read once."""
        if self._joined is None:
            program = history.program(self._folders)
            traces = [history.columns(run) for run in history.fault_free]
            self._joined = WeakSpots(program, same := _same_interpreter(traces))
            self.remarks += _remarks(program.facts, same, observed_in_full(traces))
        return self._joined


class _Exposures:
    """The exposures and numbers of all runs together; each run is analysed once."""

    def __init__(self) -> None:
        self.exposures: dict[Spot, Exposure] = {}
        self.numbers = ObservedNumbers()
        self._runs: set[int] = set()

    def add(self, run: int, history: History, *, whole: bool = True) -> None:
        """Add the whole run, or only the part before its first step fired."""
        if run not in self._runs:
            self._runs.add(run)
            before_ns = 0 if whole else history.fired_ns(run)
            columns = history.columns(run)
            self.exposures = merged((self.exposures, exposures(columns, before_ns)))
            self.numbers.add(columns, before_ns)


def _remarks(facts: Facts, same_interpreter: bool, in_full: bool) -> list[str]:
    return [*_remarks_on_source(facts, same_interpreter), *([] if in_full else [_NOT_IN_FULL])]


def _remarks_on_source(facts: Facts, same_interpreter: bool) -> list[str]:
    counts = facts.counts
    troubles = [f"{trouble.file} was left out: {trouble.why}" for trouble in facts.troubles[:_TROUBLES_MAX]]
    if not counts.files:
        advice = ": set sources in [strategies.sieve]" if not troubles else ""
        found = "was not found" if not troubles else "could not be read"
        return [f"the target's source {found}, so only runs can show locks and time limits{advice}", *troubles]
    texts = [
        f"{counts.lines:,} lines of source: {counts.all} I/O operations, {counts.in_regions} of them synchronized or "
        f"timeout-protected, {counts.grouped} groups"
    ]
    texts += troubles
    if not same_interpreter:
        texts.append("the nodes run another release of Python than this tool: each operation gets the regions of all its callers")
    return texts


def _same_interpreter(traces: Iterable[Columns]) -> bool:
    """Do the nodes number call sites as this interpreter does?"""
    own = f"{sys.version_info.major}.{sys.version_info.minor}."
    processes = [process for columns in traces for process in columns.processes]
    return all(own in process.runtime for process in processes if runtime_of(process).traits.call_sites_vary_by_release)
