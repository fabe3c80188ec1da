"""Compares policies for several failures in one run, in the form of PreFail's Figure 15, Table 3 and Table 4.

For every workload all policies share one pool of runs (`prefail_pool.py`). Each policy goes through the strategy's levels: one
crash, two, three. The plans that it keeps run in the strategy's order until the time is over; those of brute force run in an
order drawn by the seed. Plans that were only counted are marked. With `--folder` a later session continues this one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench import prefail_tables as tables
from bench.news import print_news
from bench.options import duration
from bench.prefail_pool import Clock, Level, Pool, crash_before_changes, open_pool, pruned_singles
from bench.prefail_tables import RANDOM, SIMPLEST, Cell, Row
from undermine.config.load import load
from undermine.config.schema import Config
from undermine.model.errors import UserError
from undermine.model.point import Point
from undermine.policies.library import DEFAULT
from undermine.protocols import PastRun

EXAMPLES = Path(__file__).parents[1] / "examples"
PACKS = {
    "granary": {"fixes": "snapshot-copy,commit-lease,open-watch,epoch-first,gossip-tombstone"},
    "pysyncobj": {},
}
"""Parameters of the targets. The example keeps the bug that needs two crashes."""
WORKLOADS = ("granary:orders", "granary:keys", "pysyncobj:count", "pysyncobj:kv")
BASE = crash_before_changes.__name__
FORCE = "BF"
POLICIES: dict[str, tuple[str, ...]] = {
    "CC": ("new_location", "same_location"),
    "default": DEFAULT,
    "deep": (*DEFAULT, "in_recovery", "same_place"),
    SIMPLEST: ("recovery_by_location",),
    "R-LN": ("recovery_by_location_and_node",),
    "R-All": ("recovery_by_everything",),
    FORCE: (),
}
"""In the order in which they run."""
OPTIMISATIONS = {
    "crash": ("crash_before_writes", "no_crash_towards_the_dead"),
    "disk": ("first_reads_only(disk)",),
    "net": ("first_reads_only(net)",),
    "corruption": ("first_reads_only(corruption)",),
}


class Options(msgspec.Struct, frozen=True):
    """The options of the command line."""

    workloads: tuple[str, ...]
    budget_s: float
    failures: int
    base: tuple[str, ...]
    cap: int
    seed: int
    jobs: int
    folder: Path


# --- one policy


class Column:
    """A policy's campaign: its own runs so far, and the result of each level."""

    def __init__(self, name: str, pool: Pool, options: Options) -> None:
        self.name = name
        self.levels: dict[int, tuple[Level, tuple[PastRun, ...]]] = {}
        self._policies = (*options.base, *POLICIES[name])
        self._pool, self._cap = pool, options.cap
        self._own: list[PastRun] = []
        self._complete = True

    def go_on(self, failures: int, clock: Clock, share: float) -> None:
        """Run the experiments with this number of failures. There are none if no run is left to extend."""
        if failures > 1 and not self.levels[failures - 1][1]:
            self.levels[failures] = Level((), exact=self._complete), ()
            return
        level = self._pool.next_level(self._policies, self._own, complete=self._complete)
        print(f"{self.name}, {failures}: {len(level.plans)} experiments", file=sys.stderr, flush=True)
        plans = self._pool.in_random_order(level.plans) if self.name == FORCE else level.plans
        plans = plans[: max(0, self._cap - len(self._own))]
        self._pool.run(plans, clock, share)
        ran = self._pool.runs(plans)
        self.levels[failures] = level, ran
        self._own += ran
        self._complete = level.exact and len(ran) == len(level.plans)

    def cells(self, believed: dict[int, str]) -> list[Cell]:
        return [
            cell_of(self.name, count, len(level.plans), ran, believed, exact=level.exact)
            for count, (level, ran) in self.levels.items()
        ]


def cell_of(
    policy: str, failures: int, count: int, ran: Sequence[PastRun], believed: dict[int, str], *, exact: bool = True
) -> Cell:
    """Count results. An experiment failed if all its failures happened and a checker failed; a bug is a confirmed symptom."""
    fired = [run for run in ran if run.status == "fired"]
    failed = [run for run in fired if run.failed]
    bugs = tuple(sorted({believed[run.id] for run in failed if run.id in believed}))
    return Cell(policy, failures, count, exact, len(ran), len(fired), len(failed), bugs)


# --- one workload


def shares(failures: int, last: int) -> tuple[float, float, float]:
    """The shares of a level's time after which policies, then brute force, then random failures must stop.

    With one failure brute force adds nothing to the recovery policies' runs. With two it should run completely.
    """
    if failures == last:
        return 0.6, 0.85, 1.0
    return (0.3, 0.3, 0.3) if failures == 1 else (0.6, 0.85, 0.95)


def measure(pool: Pool, options: Options) -> tuple[list[Cell], list[str]]:
    """Run all policies level by level, then brute force and random failures. Then decide which symptoms are bugs."""
    clock = Clock(options.budget_s)
    columns = {name: Column(name, pool, options) for name in POLICIES}
    at_random: dict[int, tuple[int, tuple[PastRun, ...]]] = {}
    for failures in range(1, options.failures + 1):
        level, (of_policies, of_force, of_random) = clock.rest(), shares(failures, options.failures)
        for name, column in columns.items():
            column.go_on(failures, level, of_force if name == FORCE else of_policies)
        wanted = len(columns[SIMPLEST].levels[failures][1])
        if wanted and failures > 1:
            plans = pool.random_plans(failures, wanted, options.base)
            pool.run(plans, level, of_random)
            at_random[failures] = len(plans), pool.runs(plans)
    believed = pool.confirm()
    cells = [cell for column in columns.values() for cell in column.cells(believed)]
    cells += [cell_of(RANDOM, count, wanted, ran, believed) for count, (wanted, ran) in at_random.items()]
    return cells, pool.doubted()


def configuration(target: str, work: str, seed: int) -> Config:
    """The pack's configuration with this part of its workload, and only crashes of one node each."""
    config = load(EXAMPLES / target, {**PACKS[target], "work": work})
    faults = msgspec.structs.replace(config.faults, kinds=("crash",), groups=())
    return msgspec.structs.replace(config, faults=faults, hunt=msgspec.structs.replace(config.hunt, seed=seed))


def idle_points(target: str, options: Options) -> frozenset[Point]:
    """The points that the cluster shows without clients."""
    config = configuration(target, "none", options.seed)
    with open_pool(config, options.folder / f"{target}-none", options.jobs, print_news) as pool:
        return pool.store.baseline_profile().points


def row_of(target: str, work: str, options: Options) -> Row:
    config, idle = configuration(target, work, options.seed), idle_points(target, options)
    folder = options.folder / f"{target}-{work.replace(',', '+')}"
    with open_pool(config, folder, options.jobs, print_news, idle) as pool:
        singles, with_idle = single_failures(pool), single_failures(pool, idle=True)
        cells, doubted = measure(pool, options) if options.failures else ([], [])
        return Row(target, work, tuple(cells), singles, with_idle, pool.count, pool.seconds_a_run(), tuple(doubted))


def single_failures(pool: Pool, *, idle: bool = False) -> dict[str, tuple[int, int]]:
    """The number of failures of each kind, with and without the optimisation. `idle`: points of idle nodes count too."""
    plans = pool.singles_of(("crash", "error", "corrupt"), idle=idle)
    return {kind: pruned_singles(plans, kind, policies, pool.profiles) for kind, policies in OPTIMISATIONS.items()}


def prepare(target: str) -> None:
    """Fetch the target, if the pack has a script for that."""
    script = EXAMPLES / target / "setup.py"
    if script.exists():
        subprocess.run([sys.executable, script], check=True, stdout=subprocess.DEVNULL)


# --- all of it


def parse(arguments: Sequence[str]) -> Options:
    parser = argparse.ArgumentParser(prog="python -m bench.prefail", description=__doc__)
    parser.add_argument("workloads", nargs="*", help=f"target:part,part… (default: {' '.join(WORKLOADS)})")
    parser.add_argument("--budget", type=duration, default="12m", help="time for the experiments of each workload (default: 12m)")
    parser.add_argument("--failures", type=int, default=3, help="0: Table 4 only (default: 3)")
    parser.add_argument(
        "--base", action="append", help=f"a policy of every column, BF and random too (default: {BASE}); or none"
    )
    parser.add_argument("--cap", type=int, default=10_000, help="experiments of one policy (default: 10000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2 * (os.cpu_count() or 1), help="runs at a time")
    parser.add_argument("--folder", type=Path, help="keep the runs here, and continue with those that are here")
    said = parser.parse_args(arguments)
    for workload in said.workloads:
        if workload.partition(":")[0] not in PACKS:
            parser.error(f"{workload} must be target:part with one of the targets {', '.join(PACKS)}")
    base = tuple(policy for policy in said.base or (BASE,) if policy != "none")
    folder = (said.folder or Path(tempfile.mkdtemp(prefix="um-bench-prefail-"))).resolve()
    workloads = tuple(said.workloads) or WORKLOADS
    return Options(workloads, said.budget, said.failures, base, said.cap, said.seed, said.jobs, folder)


def report(rows: Sequence[Row], options: Options) -> str:
    failures, policies = range(2, options.failures + 1), (*POLICIES, RANDOM)
    parts = []
    if options.failures:
        base = ", ".join(options.base) or "none"
        parts += [
            f"Policies of every column, also of BF and random: {base}. No fault hits operations that idle nodes also do.",
            tables.figure_15(rows, tuple(POLICIES), range(1, options.failures + 1), options.cap),
            tables.table_3(rows, failures),
            tables.bugs_by_policy(rows, policies, failures),
        ]
    parts.append(tables.table_4(rows))
    for row in rows:
        parts += [f"{row.name}: {symptom}" for symptom in sorted({s for cell in row.cells for s in cell.bugs})]
        parts += [f"{row.name}, not believed: {symptom}" for symptom in row.doubted]
    return "\n\n".join(parts)


def main() -> int:
    options = parse(sys.argv[1:])
    print(f"runs are kept in {options.folder}", file=sys.stderr, flush=True)
    rows = []
    for workload in options.workloads:
        target, _, work = workload.partition(":")
        prepare(target)
        rows.append(row_of(target, work or "all", options))
        print(report(rows[-1:], options), file=sys.stderr, flush=True)
    print(report(rows, options))
    summary = {
        "bench": "prefail",
        **{key: value for key, value in msgspec.to_builtins(options, enc_hook=str).items() if key != "folder"},
        "rows": msgspec.to_builtins(rows),
    }
    print(json.dumps(summary))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UserError as error:
        sys.exit(f"bench.prefail: {error}")
