"""The points that the runs of a campaign showed, and those at which faults fired. Never writes rounds, runs or findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

import msgspec

from undermine.model.plan import Plan
from undermine.model.point import Point
from undermine.model.rounds import RoundKind
from undermine.protocols import Experiment, PointSeen, Profile
from undermine.store.connection import Connection
from undermine.store.points import FirstSeen, PointTable

_OF_PLANS_SQL = f"r.kind IN ('{RoundKind.STRATEGY}', '{RoundKind.CONFIRM}')"
_BASELINES_SQL = (
    f"SELECT x.run FROM runs x JOIN rounds r USING (round) WHERE r.kind = '{RoundKind.BASELINE}' "
    "AND x.state = 'done' AND x.status != 'broken'"
)

CACHED_MAX = 1 << 15


@lru_cache(maxsize=CACHED_MAX)
def decoded_plan(text: str) -> Plan:
    """A plan that is stored as JSON. Cached, since the same plans are needed after every round."""
    return msgspec.json.decode(text, type=Plan)


class ShownPoints(Connection):
    """The open database of one campaign, and its table of points."""

    def __init__(self, folder: Path, *, read_only: bool = False, upgrade: bool = True) -> None:
        super().__init__(folder, read_only=read_only, upgrade=upgrade)
        self._points = PointTable()

    def baseline_points(self) -> tuple[tuple[PointSeen, ...], int]:
        """The points of all fault-free runs, by first appearance, and the number of these runs."""
        with self._lock:
            runs = self.fault_free()
            return self._points.together(self._db, runs), len(runs)

    def baselines(self) -> int:
        """The number of fault-free runs to learn from."""
        return len(self.fault_free())

    def fault_free(self) -> tuple[int, ...]:
        """The numbers of the fault-free runs to learn from."""
        return tuple(run for (run,) in self._all(_BASELINES_SQL))

    def profile(self, run: int) -> Profile:
        """The profile of a run; empty if it broke or is not over."""
        with self._lock:
            return self._points.profile(self._db, [run])

    def shown_before(self, run: int, point: str) -> frozenset[Point]:
        """The points that a run showed since its last fault and before the first occurrence of this point since then; none if it
        didn't occur or if the order isn't known."""
        with self._lock:
            return self._points.before(self._db, run, point)

    def baseline_profile(self) -> Profile:
        """The profile of all fault-free runs together."""
        with self._lock:
            return self._points.profile(self._db, self.fault_free())

    def first_seen(self, point: Point) -> FirstSeen | None:
        """The first time that a run showed a point; None if none did."""
        with self._lock:
            return self._points.first_seen(self._db, point)

    def frames(self, point: Point) -> tuple[str, ...]:
        """The functions of a point's call stack, innermost first; none if no run showed it."""
        with self._lock:
            return self._points.frames(self._db, point)

    def reachable(self) -> tuple[Point, ...]:
        """The points of the fault-free runs at which a fault can fire."""
        names = self.meta("reachable")
        points = (seen.point for seen in self.baseline_points()[0])
        if names is None:
            return tuple(points)
        wanted = frozenset(names)
        return tuple(point for point in points if point.id in wanted)

    def impossible(self) -> dict[str, frozenset[str]]:
        """By reason: the ids of the points of the fault-free runs at which some fault cannot be injected for it. Empty in
        campaigns of older versions."""
        return {why: frozenset(ids) for why, ids in self.meta("impossible", {}).items()}

    def located(self) -> Iterator[tuple[str, Point, int]]:
        """All points that runs showed, with their ids and source lines (0 if unknown), by first appearance."""
        for name, keys, line in self._all("SELECT point, keys, line FROM points ORDER BY number"):
            yield name, msgspec.json.decode(keys, type=Point), line

    def experiments(self, run: int = 0) -> Iterator[Experiment]:
        """The finished experiments and their re-runs, without broken ones, in the order in which they ended; only number `run`
        if it is not 0.

        Fast, since points of fault-free runs are compared by their numbers and never decoded.
        """
        rows = self._all(
            "SELECT x.run, r.strategy, s.plan, r.kind FROM runs x JOIN rounds r USING (round) JOIN slots s USING (round, idx) "
            f"WHERE x.state = 'done' AND x.status != 'broken' AND {_OF_PLANS_SQL} AND ?1 IN (0, x.run) ORDER BY x.ended, x.run",
            run,
        )
        fired: dict[int, list[tuple[str, str]]] = {}
        steps = "SELECT run, point, detail FROM fired WHERE fault != 'hold' AND ?1 IN (0, run) ORDER BY run, step"
        for number, point, detail in self._all(steps, run):
            fired.setdefault(number, []).append((point, detail))
        with self._lock:
            usual = self._points.numbers(self._db, self.fault_free())
        for number, strategy, text, kind in rows:
            with self._lock:
                shown = self._points.recovery(self._db, number, usual)
            landed, is_rerun = tuple(fired.get(number, ())), kind == RoundKind.CONFIRM
            plan = decoded_plan(text)
            yield Experiment(number, strategy, landed, shown, plan.id, is_rerun, plan.prefix_ids)

    def replace_points(self, run: int, points: Iterable[PointSeen]) -> None:
        """Replace the points of a finished run."""
        with self._change() as db:
            self._points.put(db, run, points)

    def fired_points(self) -> dict[int, tuple[str, ...]]:
        """By run: the ids of the points at which its steps fired, in their order."""
        found: dict[int, tuple[str, ...]] = {}
        for run, point in self._all("SELECT run, point FROM fired ORDER BY run, step"):
            found[run] = (*found.get(run, ()), point)
        return found
