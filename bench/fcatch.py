"""The strategy `fcatch` on our targets, in the form of its paper's Tables 3, 4 and 5, and beside random crashes.

For each target, in a temporary folder:

1. *Fault-free runs* in turn without agents, with a full trace, and with accesses to the heap in addition.
2. A campaign that *learns*: fault-free runs, and one crash for each role and time of the crash. It is analysed in several ways
   and injects nothing else.
3. A *hunt* with the strategy: which predictions are right.
4. A hunt with *random* crashes.

    python -m bench.fcatch --targets granary --budget 3m --parts predict,trigger
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import msgspec

from bench import fcatch_tables as tables
from bench.fcatch_learnt import ROUNDS, Learnt
from bench.fcatch_reports import Ran, reports_of
from bench.fcatch_tables import KINDS, TIMES, NamesShared, Row, Times
from bench.heap import agreement
from bench.news import print_news
from bench.options import duration, some_of
from bench.processes import set_up
from bench.sieve import cell_of, seconds_of
from bench.sieve_tables import Cell, Points
from bench.trace import EXAMPLES, without_agents
from undermine import plugins
from undermine.api.opening import build_agents, opened
from undermine.campaign.limits import Limits
from undermine.campaign.loop import Campaign
from undermine.config.load import load
from undermine.config.schema import Config
from undermine.model.codec import read_columns
from undermine.model.errors import UserError
from undermine.model.plan import Plan
from undermine.model.predictions.candidate import Candidate
from undermine.model.run import Conditions
from undermine.protocols import Dropped, History, Strategy
from undermine.run.engine import open_engine
from undermine.store.database import CampaignStore
from undermine.store.rundir import RunDir
from undermine.strategies.fcatch import Fcatch

Measure = TypeVar("Measure")
"""The row of one target."""
PACKS: dict[str, dict[str, str]] = {
    "granary": {},
    "pysyncobj": {"version": "0.3.17"},
    "rq": {"version": "1.14.1"},
    "dask": {"version": "2024.7.0"},
    "zookeeper": {"version": "3.6.3"},
}
"""Parameters of the targets. The example has all its bugs."""
Part = Literal["predict", "trigger", "sensitivity", "heap", "names", "random"]
PARTS: tuple[Part, ...] = get_args(Part)
UNLIMITED_S = 24 * 3600.0
PLAIN, TRACED, HEAP = "plain", "traced", "heap"


class Options(msgspec.Struct, frozen=True):
    """The options of the command line."""

    targets: tuple[str, ...]
    parts: tuple[Part, ...]
    budget_s: float
    seed: int
    random_runs: int

    def wants(self, *parts: Part) -> bool:
        return not set(parts).isdisjoint(self.parts)


# --- campaigns


def configuration(target: str, use: str, seed: int, folder: Path) -> Config:
    """The pack's configuration, with a folder of its own for each use."""
    config = load(EXAMPLES / target, PACKS[target])
    own = msgspec.structs.replace(config.campaign, dir=str(folder / target / use))
    return msgspec.structs.replace(config, campaign=own, hunt=msgspec.structs.replace(config.hunt, seed=seed))


def options_of(config: Config) -> Fcatch.Options:
    return msgspec.convert(config.strategies.get(Fcatch.name, {}), Fcatch.Options)


@contextlib.contextmanager
def hunted(config: Config, strategies: Sequence[Strategy], limits: Limits) -> Iterator[tuple[Campaign, CampaignStore]]:
    """Run a whole campaign, and open its results."""
    build_agents(config, print_news)
    with opened(config, config.dir / "campaign", strategies, print_news, fresh=True) as (campaign, store, _):
        campaign.run(limits)
        yield campaign, store


class Learning(Fcatch):
    """Proposes only the runs to learn from, with the crash at each of these times."""

    def __init__(self, options: Fcatch.Options, times: Sequence[str]) -> None:
        super().__init__(options)
        self._by_time = {each: Fcatch(msgspec.convert(_with(options, crash=each), Fcatch.Options)) for each in times}
        self.plans: dict[str, list[str]] = {each: [] for each in times}
        """By time of the crash: the ids of its plans."""

    def propose(self, history: History) -> Iterator[Candidate | Dropped]:
        if history.round_index:
            return
        known: set[str] = set()
        for each, strategy in self._by_time.items():
            for found in strategy.propose(history):
                if isinstance(found, Candidate) and not found.reasons:
                    self.plans[each].append(found.plan.id)
                    if found.plan.id not in known:
                        known.add(found.plan.id)
                        yield found


def _with(options: Fcatch.Options, **more: object) -> dict[str, object]:
    return {**msgspec.to_builtins(options), **more}


class Predicting(Fcatch):
    """The strategy itself. It keeps what it has predicted."""

    def __init__(self, options: Fcatch.Options) -> None:
        super().__init__(options)
        self.predicted: dict[str, Candidate] = {}

    def propose(self, history: History) -> Iterator[Candidate | Dropped]:
        for found in super().propose(history):
            if isinstance(found, Candidate) and found.reasons:
                self.predicted.setdefault(found.plan.id, found)
            yield found


# --- fault-free runs


class Measured(msgspec.Struct):
    """The fault-free runs of one kind: seconds and traces."""

    seconds: list[float] = []
    traces: list[Path] = []


def fault_free_runs(target: str, options: Options, folder: Path) -> dict[str, Measured]:
    """Run the workload in turn as each kind that the parts need. The first round fills caches and does not count."""
    wanted: dict[str, bool] = {
        PLAIN: options.wants("predict"), TRACED: options.wants("heap"), HEAP: options.wants("predict", "heap", "names"),
    }  # fmt: skip
    runs = {kind: Measured() for kind, is_wanted in wanted.items() if is_wanted}
    with contextlib.ExitStack() as stack:
        runners = {}
        for kind in runs:
            config = configuration(target, kind, options.seed, folder)
            build_agents(config, print_news)
            config = without_agents(config) if kind == PLAIN else config
            runners[kind] = stack.enter_context(open_engine(config, config.dir)).runner
        for number in range(ROUNDS + 1 if runs else 0):
            for kind, found in runs.items():
                conditions = Conditions(observe_all=kind != PLAIN, heap=kind == HEAP)
                place = folder / target / kind / f"run-{number}"
                record = runners[kind].execute(place, number + 1, Plan(), conditions=conditions).record
                if record.status == "broken":
                    raise UserError(f"the fault-free run ({kind}) broke: {record.reason}")
                print(f"{target} {kind}: {record.timing.total_s:.2f} s", file=sys.stderr, flush=True)
                if number:
                    found.seconds.append(round(record.timing.total_s, 3))
                    found.traces.append(RunDir(place).trace)
    return runs


def plain_crashes(target: str, plans: Sequence[Plan], options: Options, folder: Path) -> tuple[float, ...]:
    """The seconds of the same crashes without agents. The tool itself crashes nodes between operations of clients."""
    config, seconds = without_agents(configuration(target, "crashes", options.seed, folder)), []
    with open_engine(config, config.dir) as engine:
        for number, plan in enumerate(plans, 1):
            record = engine.runner.execute(config.dir / f"run-{number}", number, plan).record
            print(f"{target} plain crash: {record.status} {record.timing.total_s:.2f} s", file=sys.stderr, flush=True)
            if record.status == "fired":
                seconds.append(round(record.timing.total_s, 3))
    return tuple(seconds)


def names_of(traces: Sequence[Path]) -> NamesShared:
    """How well the names of each two runs that follow each other agree."""
    found = [agreement(one, other) for one, other in pairwise(map(read_columns, traces))]
    percents = [each.percent() for each in found]
    exact, masked = (tuple(each[key] for each in percents) for key in ("exact", "masked"))
    return NamesShared(tuple(each.accesses for each in found), exact, masked)


# --- one target


def row_of(target: str, options: Options, folder: Path) -> Row:
    """Measure all parts. If one cannot run, its reason is kept and the others continue."""
    row, runs = Row(target), dict[str, Measured]()

    def part(measure: Callable[[], dict[str, Any]]) -> None:
        nonlocal row
        try:
            row = msgspec.structs.replace(row, **measure())
        except UserError as error:
            print(f"{target}: {error}", file=sys.stderr, flush=True)
            row = msgspec.structs.replace(row, trouble=(*row.trouble, str(error)))

    def fault_free() -> dict[str, Any]:
        runs.update(fault_free_runs(target, options, folder))
        return {"names": names_of(runs[HEAP].traces)} if options.wants("names") else {}

    part(fault_free)
    if options.wants("predict", "sensitivity", "heap"):
        part(lambda: learnt(target, options, folder, runs))
    if options.wants("trigger"):
        part(lambda: triggered(target, options, folder))
    if options.wants("random"):
        part(lambda: {"hunts": (*row.hunts, random_crashes(target, options, folder))})
    return row


def learnt(target: str, options: Options, folder: Path, runs: Mapping[str, Measured]) -> dict[str, Any]:
    """Everything that needs predictions, but no run that tries them."""
    config = configuration(target, "learning", options.seed, folder)
    own = options_of(config)
    few = msgspec.structs.replace(config.hunt, benign_runs=0, confirm=0)
    times = dict.fromkeys((own.crash, *TIMES)) if options.wants("sensitivity") else (own.crash,)
    strategy, found = Learning(own, tuple(times)), dict[str, Any]()
    with hunted(msgspec.structs.replace(config, hunt=few), (strategy,), Limits(UNLIMITED_S)) as (campaign, store):
        known = Learnt(own, campaign.history_of(strategy, 1), strategy.plans)
        if options.wants("predict"):
            crashed_s = tuple(round(seconds_of(row), 3) for row in store.run_rows() if row["run"] in known.crashed)
            plain, traced = (tuple(runs[kind].seconds) if kind in runs else () for kind in (PLAIN, HEAP))
            plain_crashed_s = plain_crashes(target, tuple(known.crashed.values()), options, folder)
            found["times"] = Times(plain, plain_crashed_s, traced, crashed_s, *known.analyses())
            found |= {"reports": known.reports(), "rules": known.rules()}
        if options.wants("sensitivity"):
            found["crash_times"] = known.crash_times()
        if options.wants("heap") and HEAP in runs:
            found["heap"] = known.heap({"with": runs[HEAP].seconds, "without": runs[TRACED].seconds})
    return found


def triggered(target: str, options: Options, folder: Path) -> dict[str, Any]:
    """A hunt with the strategy alone."""
    config = configuration(target, "hunt", options.seed, folder)
    strategy = Predicting(options_of(config))
    with hunted(config, (strategy,), Limits(options.budget_s)) as (_, store):
        reports = reports_of(strategy.predicted.values(), Ran.of(store))
        return {"reports": reports, "hunts": (cell_of(Fcatch.name, store.run_rows(), (), store.findings(), Points()),)}


def random_crashes(target: str, options: Options, folder: Path) -> Cell:
    """A hunt with crashes at random moments, with and without a restart."""
    config = only_crashes(configuration(target, "random", options.seed, folder))
    return hunt_of("random", config, Limits(UNLIMITED_S, options.random_runs))


def hunt_of(strategy: str, config: Config, limits: Limits) -> Cell:
    """The figures of a hunt with one strategy."""
    with hunted(config, plugins.strategies(config, (strategy,)), limits) as (_, store):
        return cell_of(strategy, store.run_rows(), (), store.findings(), Points())


def only_crashes(config: Config) -> Config:
    """The same with one crash in each run, as in the paper."""
    faults = msgspec.structs.replace(config.faults, kinds=("crash", "reboot"), max_steps=1)
    return msgspec.structs.replace(config, faults=faults)


# --- all of it


def parse(arguments: Sequence[str]) -> Options:
    parser = argparse.ArgumentParser(prog="make bench-fcatch", description=__doc__)
    parser.add_argument("--targets", type=some_of(PACKS), default=tuple(PACKS), help=f"some of {','.join(PACKS)} (default: all)")
    parser.add_argument("--parts", type=some_of(PARTS), default=tuple(PARTS), help=f"some of {','.join(PARTS)} (default: all)")
    parser.add_argument("--budget", type=duration, default="10m", help="time for each hunt with the strategy (default: 10m)")
    parser.add_argument("--random-runs", type=int, default=400, help="random crash runs on each target (default: 400)")
    parser.add_argument("--seed", type=int, default=0)
    said = parser.parse_args(arguments)
    if said.random_runs < 1:
        parser.error("--random-runs must be at least 1")
    return Options(said.targets, said.parts, said.budget, said.seed, said.random_runs)


def summary(rows: Sequence[Row], options: Options) -> dict[str, Any]:
    figures = {
        row.target: {
            "reports": {kind: tables.counts(row.reports, kind) for kind in KINDS} if row.reports else {},
            "slowdown": row.times.slowdown if row.times else None,
        }
        for row in rows
    }
    return {"bench": "fcatch", **msgspec.to_builtins(options), "figures": figures, "rows": msgspec.to_builtins(rows)}


def measured(
    targets: Iterable[str],
    releases: Callable[[str], Iterable[str]],
    row_of: Callable[[str, Path], Measure],
    report: Callable[[Sequence[Measure]], str],
) -> list[Measure]:
    """Measure one target after another, each in a temporary folder. Print the tables of each at once, and those of all at the
    end."""
    rows: list[Measure] = []
    for target in targets:
        set_up(EXAMPLES / target, *releases(target))
        with tempfile.TemporaryDirectory(prefix="um-bench-") as folder:
            rows.append(row_of(target, Path(folder)))
        print(report(rows[-1:]), file=sys.stderr, flush=True)
    print(report(rows))
    return rows


def main() -> int:
    options = parse(sys.argv[1:])
    rows = measured(
        options.targets, lambda target: PACKS[target].values(), lambda name, folder: row_of(name, options, folder), tables.report
    )
    print(json.dumps(summary(rows, options)))
    return 1 if any(row.trouble for row in rows) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UserError as error:
        sys.exit(f"bench.fcatch: {error}")
