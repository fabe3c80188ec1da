"""Compares fault-free runs at `run.speed` with runs at speed 1, for `undermine check`. Injects no fault."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from undermine.api.opening import opened
from undermine.campaign.running import Listener, Notice
from undermine.config.schema import Config
from undermine.model.errors import ClusterError
from undermine.model.point import Point
from undermine.model.rounds import RoundKind
from undermine.protocols import Strategy
from undermine.report.text import count
from undermine.runtimes.clock import cannot_load
from undermine.store.database import CampaignStore

RUNS = 2
"""Fault-free runs at speed 1."""
ALIKE = 0.9
"""The part of the points of speed 1 that must recur, so that a hunt at the higher speed sees the same program."""


class FaultFree(msgspec.Struct, frozen=True):
    """The fault-free runs at one speed."""

    speed: int
    runs: int = 0
    """Those that passed."""
    failed_as: tuple[str, ...] = ()
    """The symptoms of those that failed."""
    stable: frozenset[Point] = frozenset()
    """The points that all passing runs showed."""
    points: frozenset[Point] = frozenset()
    workload_s: float = 0.0
    """The mean true time of the workload."""
    run_s: float = 0.0
    """The mean true time of a run."""


class SpeedCheck(msgspec.Struct, frozen=True):
    """Whether a fault-free run is the same at a higher speed as at speed 1."""

    speed: int
    same: bool
    sentences: tuple[str, ...]


def at_speed_1(config: Config, strategies: Sequence[Strategy], listener: Listener) -> FaultFree:
    """Make fault-free runs at speed 1."""
    listener(Notice("speed", f"first {RUNS} fault-free runs at speed 1, to compare with speed {config.run.speed}"))
    slow = msgspec.structs.replace(
        config,
        run=msgspec.structs.replace(config.run, speed=1),
        hunt=msgspec.structs.replace(config.hunt, baseline_runs=RUNS),
    )
    with opened(slow, config.dir / "check-speed-1", strategies, listener, fresh=True, survey=True) as (campaign, store, _):
        campaign.baseline()
        return fault_free(1, store, campaign.preparing.learn().failed_as)


def fault_free(speed: int, store: CampaignStore, failed_as: Sequence[str] = ()) -> FaultFree:
    """The fault-free runs of this campaign."""
    points, runs = store.baseline_points()
    passed = set(store.fault_free())
    timings = [row["timing"] for row in store.run_rows() if row["kind"] is RoundKind.BASELINE and row["run"] in passed]
    return FaultFree(
        speed,
        len(passed),
        tuple(failed_as),
        frozenset(seen.point for seen in points if seen.runs == runs),
        frozenset(seen.point for seen in points),
        _mean(timing["workload_s"] for timing in timings),
        _mean(timing["total_s"] for timing in timings),
    )


def too_fast(error: ClusterError, speed: int) -> ClusterError:
    """The error for a cluster that passes at speed 1 but never at this speed."""
    hint = f"At speed 1 it passes: lower run.speed ({speed}), or use a machine that is less busy"
    return ClusterError(f"at speed {speed} {error}. {hint}")


def compare(config: Config, slow: FaultFree, fast: FaultFree) -> SpeedCheck:
    """The comparison of the runs at both speeds, in sentences."""
    recurring = slow.stable & fast.points
    share = len(recurring) / len(slow.stable) if slow.stable else 0.0
    same = not fast.failed_as and share >= ALIKE
    return SpeedCheck(fast.speed, same, (_verdict(slow, fast, same), *_details(slow, fast, share), *_true_clocks(config)))


def _verdict(slow: FaultFree, fast: FaultFree, same: bool) -> str:
    if same:
        return f"the fault-free run is the same at speed {fast.speed} as at speed 1"
    passes = ", which passes" if fast.failed_as and not slow.failed_as else ""
    failed = f": {'; '.join(fast.failed_as)}" if fast.failed_as else ""
    return f"the fault-free run differs at speed {fast.speed} from that at speed 1{passes}{failed}; lower run.speed"


def _details(slow: FaultFree, fast: FaultFree, share: float) -> Iterator[str]:
    recurring, new = len(slow.stable & fast.points), len(fast.stable - slow.points)
    stable = count(len(slow.stable), "point")
    yield f"{recurring} of the {stable} of all runs at speed 1 occurred at speed {fast.speed} ({share:.0%})"
    yield f"{count(new, 'point')} of all runs at speed {fast.speed} never occurred at speed 1"
    for each in (slow, fast):
        failures = f"failures: {'; '.join(each.failed_as)}" if each.failed_as else "all checkers pass"
        yield f"at speed {each.speed} the workload takes {each.workload_s:.1f} s, a run {each.run_s:.1f} s; {failures}"


def _true_clocks(config: Config) -> Iterator[str]:
    """The nodes that keep the true clock, as far as their programs show it."""
    for role in config.roles.values():
        if why := cannot_load(config.program(role.name)):
            yield f"{', '.join(role.nodes)} keep the true clock, since {why}"


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found) if found else 0.0
