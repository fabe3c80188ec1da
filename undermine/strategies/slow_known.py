"""What is known of the target's weak spots at a moment of a campaign: facts of its source, and what every run so far has shown.

Pure: what it keeps between calls are results that would be the same again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

import msgspec

from undermine.analysis.exposure.exposure import Exposure, Spot, exposures, merged
from undermine.analysis.exposure.weak_spots import WeakSpot, WeakSpots
from undermine.analysis.possible_faults import LEAVING_TRACES, injectable
from undermine.model.columns import Columns
from undermine.model.plan import Delay, Reboot
from undermine.model.point import CLIENT, Point
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


class Possible(msgspec.Struct, frozen=True):
    """What can be done at a spot."""

    delay: Delay | None = None
    reboot: PossibleFault | None = None


def lasting(delay: Delay, delay_s: float) -> Delay:
    """The same for so long."""
    return msgspec.structs.replace(delay, delay_s=round(delay_s, 3))


def usual_spots(history: History) -> set[Spot]:
    """What runs without a fault show."""
    return {Spot.of(point) for point in history.baseline.points}


def over_limit(limit_s: float, history: History) -> float:
    """What crosses a time limit; where none was seen, what the user says."""
    return max(limit_s * OVER if limit_s else history.delay_s, _LEAST_S)


class Known:
    """Grows with the runs of a campaign."""

    def __init__(self, folders: tuple[str, ...] = ()) -> None:
        self._folders = folders
        self._seen: dict[bool, _Seen] = {False: _Seen(), True: _Seen()}
        self._joined: WeakSpots | None = None
        self.remarks: list[str] = []
        """What the user should know of the source, since somebody last took them."""

    def spots(self, history: History, *, later: bool = False) -> list[WeakSpot]:
        """The operations that runs have shown before something was slow in them, with what is known of each; `later`: all.

        What only a slow operation leads to cannot be met by a run that begins with a delay there.
        """
        joined, seen = self._facts(history), self._seen[later]
        for run in history.fault_free:
            seen.add(run, history)
        for past in history.runs:
            if past.status == "fired":
                seen.add(past.id, history, whole=later)
            elif past.status == "not_fired":  # it says as much as one without a fault
                seen.add(past.id, history)
        return joined.of(seen.exposures)

    def delays(self, history: History) -> dict[Spot, Delay]:
        """Where runs could be delayed, and how."""
        points = set(history.baseline.points)
        for run in history.runs:
            points |= history.profile(run.id).points
        return {spot: found.delay for spot, found in self.at(points, history).items() if found.delay}

    def at(self, points: Iterable[Point], history: History) -> dict[Spot, Possible]:
        """What can be done at these."""
        found: dict[Spot, Possible] = {}
        for possible in injectable(history.possible_faults_at(sorted(points))):
            spot = Spot.of(possible.point)
            if isinstance(possible.fault, Delay):
                found[spot] = msgspec.structs.replace(found.get(spot, Possible()), delay=possible.fault)
            elif isinstance(possible.fault, Reboot) and not possible.fault.nodes and spot.op in LEAVING_TRACES:
                found[spot] = msgspec.structs.replace(found.get(spot, Possible()), reboot=possible)
        return found

    def _facts(self, history: History) -> WeakSpots:
        """Of the source; read once, told what the fault-free runs have shown."""
        if self._joined is None:
            program = history.program(self._folders)
            traces = [history.columns(run) for run in history.fault_free]
            self._joined = WeakSpots(program, same := _same_interpreter(traces))
            self.remarks += _remarks(program.facts, same, observed_in_full(traces))
        return self._joined


class _Seen:
    """What runs have shown together; each is looked at once."""

    def __init__(self) -> None:
        self.exposures: dict[Spot, Exposure] = {}
        self._runs: set[int] = set()

    def add(self, run: int, history: History, *, whole: bool = True) -> None:
        """What this run showed; if not the whole of it, before its first step fired."""
        if run not in self._runs:
            self._runs.add(run)
            before_ns = 0 if whole else history.fired_ns(run)
            self.exposures = merged((self.exposures, exposures(history.columns(run), before_ns)))


def observed_in_full(traces: Iterable[Columns]) -> bool:
    """Clients carry the agent only where everything is observed."""
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
    """Do the nodes count places in code as the interpreter does that runs this?"""
    own = f"{sys.version_info.major}.{sys.version_info.minor}."
    said = {process.runtime for columns in traces for process in columns.processes if process.agent}
    return all(own in runtime for runtime in said if "python" in runtime)
