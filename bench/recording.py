"""Fault-free runs of several kinds in turn, so that their times can be compared: the machine's load hits all kinds alike."""

from __future__ import annotations

import contextlib
import statistics
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from bench.news import print_news
from undermine.api.opening import build_agents
from undermine.config.schema import Config
from undermine.model.errors import UserError
from undermine.model.plan import Plan
from undermine.model.run import Conditions
from undermine.run.engine import open_engine
from undermine.store.rundir import RunDir

ROUNDS = 5
_NS = 1e9


class Kind(msgspec.Struct, frozen=True):
    """How fault-free runs of one kind are made."""

    conditions: Conditions = Conditions()
    change: Callable[[Config], Config] = lambda config: config
    """Changes the configuration, once the agents have been built."""


class Recording(msgspec.Struct, frozen=True):
    """The fault-free runs of one kind."""

    run_s: tuple[float, ...]
    workload_s: tuple[float, ...]
    """From the first client operation to the end of the last one."""


def recorded(
    name: str, kinds: Mapping[str, Kind], config: Callable[[str], Config], folder: Path
) -> tuple[dict[str, Recording], dict[str, list[Path]]]:
    """The seconds and the traces of fault-free runs of each kind, in turn. The first round fills caches and does not count."""
    seconds: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
    traces: dict[str, list[Path]] = {kind: [] for kind in kinds}
    with contextlib.ExitStack() as stack:
        runners = {}
        for kind, how in kinds.items():
            own = config(kind)
            build_agents(own, print_news)
            own = how.change(own)
            runners[kind] = stack.enter_context(open_engine(own, own.dir)).runner
        for number in range(ROUNDS + 1):
            for kind, how in kinds.items():
                place = folder / name / kind / f"run-{number}"
                view = runners[kind].execute(place, number + 1, Plan(), conditions=how.conditions)
                if view.record.status == "broken":
                    raise UserError(f"the fault-free run ({kind}) broke: {view.record.reason}")
                times = [t for op in view.history if op.phase == "workload" for t in (op.start_ns, op.end_ns) if t]
                took = view.record.timing.total_s, (max(times) - min(times)) / _NS
                print(f"{name} {kind}: {took[0]:.2f} s, workload {took[1]:.2f} s", file=sys.stderr, flush=True)
                if number:
                    seconds[kind].append(took)
                    traces[kind].append(RunDir(place).trace)
    return {kind: Recording(*zip(*found, strict=True)) for kind, found in seconds.items()}, traces


def slowdown(recording: Mapping[str, Recording], kind: str, plain: str) -> dict[str, float]:
    """How much longer runs of this kind take than plain runs: the whole run, and its workload."""
    return {
        name: round(statistics.median(getattr(recording[kind], name)) / statistics.median(getattr(recording[plain], name)), 2)
        for name in Recording.__struct_fields__
    }


def without_variables(config: Config) -> Config:
    """The same configuration, with agents that read no variables."""
    roles = {name: msgspec.structs.replace(role, variables={}) for name, role in config.roles.items()}
    return msgspec.structs.replace(config, variables={}, roles=roles)
