"""What is known of the target's weak spots at a moment of a campaign: facts of its source, and what every run so far has shown.

Pure: what it keeps between calls are results that would be the same again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

import msgspec

from undermine.analysis.chances import LEAVING_TRACES, possible
from undermine.analysis.exposure import Exposure, Spot, exposures, merged, slowest_ns
from undermine.analysis.scopes import Facts, Named, Program, calls_in
from undermine.analysis.weak_spots import WeakSpot, WeakSpots
from undermine.model.columns import Columns
from undermine.model.plan import Delay, Plan, Reboot, point_at
from undermine.model.point import Point
from undermine.protocols import Chance, History, PastRun

_TROUBLES_MAX = 5


class DelayChance(msgspec.Struct, frozen=True):
    """A delay that is possible somewhere."""

    point: Point
    fault: Delay


class Possible(msgspec.Struct, frozen=True):
    """What can be done at a spot."""

    delay: DelayChance | None = None
    reboot: Chance | None = None


class Known:
    """Grows with the runs of a campaign."""

    def __init__(self, folders: tuple[str, ...] = ()) -> None:
        self._folders = folders
        self._runs: dict[tuple[int, bool], dict[Spot, Exposure]] = {}
        self._joined: WeakSpots | None = None
        self.remarks: list[str] = []
        """What the user should know of the source, since somebody last took them."""

    def spots(self, history: History, *, later: bool = False) -> list[WeakSpot]:
        """The operations that runs have shown before something was slow in them, with what is known of each; `later`: all.

        What only a slow operation leads to cannot be met by a run that begins with a delay there.
        """
        joined = self._facts(history)
        fault_free = [self._of_run(run, None, history) for run in history.fault_free]
        others = [self._of_run(run.id, None if later else run.plan, history) for run in history.runs if _counts(run)]
        return joined.of(merged([*fault_free, *others]))

    def delays(self, history: History) -> dict[Spot, DelayChance]:
        """Where runs could be delayed, and how."""
        points = set(history.baseline.points)
        for run in history.runs:
            points |= history.profile(run.id).points
        return {spot: found.delay for spot, found in self.at(points, history).items() if found.delay}

    def at(self, points: Iterable[Point], history: History) -> dict[Spot, Possible]:
        """What can be done at these."""
        found: dict[Spot, Possible] = {}
        for chance in possible(history.chances_at(sorted(points))):
            spot = Spot.of(chance.point)
            if isinstance(chance.fault, Delay):
                delay = DelayChance(chance.point, chance.fault)
                found[spot] = msgspec.structs.replace(found.get(spot, Possible()), delay=delay)
            elif isinstance(chance.fault, Reboot) and not chance.fault.nodes and spot.op in LEAVING_TRACES:
                found[spot] = msgspec.structs.replace(found.get(spot, Possible()), reboot=chance)
        return found

    def _of_run(self, run: int, plan: Plan | None, history: History) -> dict[Spot, Exposure]:
        """What a run showed; with a plan, before its first step fired."""
        key = run, plan is None
        if key not in self._runs:
            columns = history.columns(run)
            first = slowest_ns(columns, Spot.of(point_at(plan.steps[0].trigger))) if plan and plan.steps else 0
            self._runs[key] = exposures(columns, first)
        return self._runs[key]

    def _facts(self, history: History) -> WeakSpots:
        """Of the source; read once, told what the fault-free runs have shown."""
        if self._joined is None:
            sources = history.sources()
            traces = [history.columns(run) for run in history.fault_free]
            named = [Named(function, op) for function, op in sources.named]
            program = Program.read(self._folders or sources.folders, named)
            observed = {call for columns in traces for call in calls_in(columns.stacks)}
            facts = program.with_observed(sorted(observed)).facts()
            self._joined = WeakSpots(facts, sources, same := _same_interpreter(traces))
            self.remarks += _remarks(facts, same)
        return self._joined


def _counts(run: PastRun) -> bool:
    """Does it say something? One whose fault did not fire says as much as one without."""
    return run.status in ("fired", "not_fired")


def _remarks(facts: Facts, same_interpreter: bool) -> list[str]:
    counts = facts.counts
    if not counts.files:
        return [
            "no source of the target was found, so only what runs show counts: say where it is with [strategies.sieve] sources"
        ]
    said = [
        f"{counts.lines:,} lines of source: {counts.all} I/O operations, {counts.scoped} of them synchronized or "
        f"timeout-protected, {counts.grouped} groups"
    ]
    said += [f"{trouble.file} was left out: {trouble.why}" for trouble in facts.troubles[:_TROUBLES_MAX]]
    if not same_interpreter:
        said.append("the nodes run another release of Python than this tool: scopes are those of all callers together")
    return said


def _same_interpreter(traces: Iterable[Columns]) -> bool:
    """Do the nodes count places in code as the interpreter does that runs this?"""
    own = f"{sys.version_info.major}.{sys.version_info.minor}."
    said = {process.runtime for columns in traces for process in columns.processes if process.agent}
    return all(own in runtime for runtime in said if "python" in runtime)
