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
import dataclasses
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import cycle, pairwise
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import msgspec
import numpy as np

from bench import fcatch_tables as tables
from bench.fcatch_tables import KINDS, TIMES, CrashTime, Heap, Kind, NamesShared, Outcome, Report, Row, Rules, Times
from bench.heap import agreement
from bench.news import print_news
from bench.processes import set_up
from bench.sieve import cell_of, seconds_of
from bench.sieve_tables import Cell, Points
from bench.trace import EXAMPLES, without_agents
from undermine import plugins
from undermine.api.opening import build_agents, opened
from undermine.campaign.limits import Limits
from undermine.campaign.loop import Campaign
from undermine.config.load import load
from undermine.config.schema import Config, parse_duration
from undermine.model.codec import read_columns
from undermine.model.columns import NARROW, WIDE, Columns
from undermine.model.errors import UserError
from undermine.model.finding import Finding
from undermine.model.plan import Plan, Trigger, place_of, point_at
from undermine.model.predictions.candidate import Candidate
from undermine.model.rounds import RoundKind
from undermine.model.run import Conditions
from undermine.protocols import Dropped, History, PastRun, Strategy
from undermine.run.engine import open_engine
from undermine.store.database import CampaignStore
from undermine.store.rundir import RunDir
from undermine.strategies.fcatch import Fcatch

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
ROUNDS = 3
"""The number of runs and of analyses whose median is shown."""
UNLIMITED_S = 24 * 3600.0
PLAIN, TRACED, HEAP = "plain", "traced", "heap"
Result = TypeVar("Result")


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


def configuration(target: str, use: str, options: Options, folder: Path) -> Config:
    """The pack's configuration, with a folder of its own for each use."""
    config = load(EXAMPLES / target, PACKS[target])
    own = msgspec.structs.replace(config.campaign, dir=str(folder / target / use))
    return msgspec.structs.replace(config, campaign=own, hunt=msgspec.structs.replace(config.hunt, seed=options.seed))


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


# --- reports


class Ran(msgspec.Struct, frozen=True):
    """The results of a campaign that say what became of a prediction."""

    past: Sequence[PastRun] = ()
    not_fired: Collection[str] = ()
    """The ids of plans that ran and did not fire, also of those that would be tried again."""
    findings: Sequence[Finding] = ()

    @staticmethod
    def of(store: CampaignStore) -> Ran:
        rows = store.run_rows()
        missed = {row["plan"].id for row in rows if row["kind"] is RoundKind.STRATEGY and row["status"] == "not_fired"}
        return Ran(store.past_runs(Fcatch.name), missed, store.findings())

    def bugs(self, runs: Collection[int]) -> tuple[str, ...]:
        """The symptoms of the confirmed findings that have one of these runs."""
        sure = (finding for finding in self.findings if finding.confirmed and finding.believed)
        return tuple(finding.symptom for finding in sure if not set(finding.runs).isdisjoint(runs))


def reports_of(candidates: Iterable[Candidate], ran: Ran = Ran()) -> tuple[Report, ...]:  # noqa: B008 - frozen
    """One report for each moment. Different faults at one moment are one report; if one of them awaits a message, all do."""
    moments: dict[Trigger, list[Candidate]] = {}
    for candidate in candidates:
        moments.setdefault(candidate.plan.steps[0].trigger, []).append(candidate)
    return tuple(_report(trigger, found, ran) for trigger, found in moments.items())


def _report(trigger: Trigger, candidates: Sequence[Candidate], ran: Ran) -> Report:
    plans = {candidate.plan.id for candidate in candidates}
    runs = [run for run in ran.past if run.plan.id in plans]
    outcomes = {outcome_of(run, ran) for run in runs} | ({"not_fired"} if plans & set(ran.not_fired) else set())
    outcome: Outcome = next((each for each in tables.OUTCOMES if each in outcomes), "not_reached")
    kind: Kind = "awaited" if any(map(awaits, candidates)) else "left"
    return Report(kind, spot_of(trigger), outcome, ran.bugs({run.id for run in runs if run.failed}))


def outcome_of(run: PastRun, ran: Ran) -> Outcome:
    if run.status == "broken":
        return "not_reached"
    if run.status == "not_fired":
        return "not_fired"
    if run.failed:
        return "confirmed" if ran.bugs({run.id}) else "unconfirmed"
    return "benign" if run.odd else "false"


def awaits(candidate: Candidate) -> bool:
    """Is it predicted because a node waits?"""
    return any(evidence.kind == "wait" for reason in candidate.reasons for evidence in reason.evidence)


def spot_of(trigger: Trigger) -> str:
    """The operation with its call stack, and the place. Unlike the occurrence, it is the same in all campaigns."""
    return " ".join((place_of(trigger), *(f"{name}={value}" for name, value in point_at(trigger).items)))


def spots_by_kind(reports: Sequence[Report]) -> dict[Kind, tuple[str, ...]]:
    return {kind: tuple(sorted({report.spot for report in reports if report.kind == kind})) for kind in KINDS}


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
            config = configuration(target, kind, options, folder)
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
    config, seconds = without_agents(configuration(target, "crashes", options, folder)), []
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


# --- predictions


class Learnt:
    """A finished campaign that learns. Every question is answered from its runs alone."""

    def __init__(self, options: Fcatch.Options, history: History, plans: Mapping[str, Collection[str]]) -> None:
        self._options = options
        self._history = history
        self._strategy = Fcatch(options)
        """It keeps what it has analysed, so it serves only questions whose time is not measured."""
        self._by_time = {each: [run for run in history.runs if run.plan.id in ids] for each, ids in plans.items()}
        self.crashed = {run.id: run.plan for run in well(self._by_time[options.crash])}
        """The runs that went well with a crash at the time that the options say, and their plans."""

    def crash_times(self) -> dict[str, CrashTime]:
        found = {}
        for each, runs in self._by_time.items():
            reports = reports_of(self._strategy.predict(self.history(each), None))
            found[each] = CrashTime(len(runs), len(well(runs)), spots_by_kind(reports))
        return found

    def reports(self) -> tuple[Report, ...]:
        return reports_of(self._strategy.predict(self.history(self._options.crash), None))

    def rules(self) -> dict[Kind, Rules]:
        waits, left = self._strategy.conflicts(self.history(self._options.crash))
        return {"awaited": rules_of([one.pair.rule for one in waits]), "left": rules_of([one.pair.rule for one in left])}

    def analyses(self) -> tuple[tuple[float, ...], ...]:
        """Seconds to read the source, and to find awaited messages in one fault-free run, and left-behind writes in one run with
        a crash. Nothing is shared between analyses."""
        crashed = cycle(self.crashed or (0,))
        found = [self._analysis(run, next(crashed)) for run in self._history.fault_free[:ROUNDS]]
        return tuple(zip(*found, strict=True))

    def _analysis(self, fault_free: int, crashed: int) -> tuple[float, ...]:
        strategy = Fcatch(self._options)
        source_s, program = timed(lambda: self._history.program(self._options.sources))
        given = msgspec.structs.replace(
            self._history, fault_free=(fault_free,), faulty=(), runs=(), program=always(program)
        )
        awaited_s, _ = timed(lambda: list(strategy.predict(given, None)))
        both = msgspec.structs.replace(given, faulty=(crashed,) if crashed else ())
        left_s, _ = timed(lambda: list(strategy.predict(both, None)))
        return source_s, awaited_s, left_s

    def heap(self, runs: Mapping[str, Measured]) -> dict[str, Heap]:
        """The same runs, analysed with and without their accesses to the heap. Reading traces and source does not count."""
        given = self.history(self._options.crash)
        whole = {run: given.columns(run) for run in (*given.fault_free, *given.faulty)}
        traces = {"with": whole, "without": {run: without_heap(columns) for run, columns in whole.items()}}
        took: dict[str, list[float]] = {name: [] for name in traces}
        reports: dict[str, tuple[Report, ...]] = {}
        for _ in range(ROUNDS):
            for name, columns in traces.items():
                program = always(given.program(self._options.sources))
                only = msgspec.structs.replace(given, columns=columns.__getitem__, program=program)
                seconds, found = timed(partial(self._predicted_anew, only))
                took[name].append(seconds)
                reports[name] = reports_of(found)
        run_s = {"with": runs[HEAP].seconds, "without": runs[TRACED].seconds}
        return {name: Heap(counted(reports[name]), tuple(run_s[name]), tuple(took[name])) for name in traces}

    def history(self, at: str) -> History:
        """The history of a campaign that has learnt from crashes at this time only."""
        return msgspec.structs.replace(self._history, faulty=tuple(run.id for run in well(self._by_time[at])), runs=())

    def _predicted_anew(self, history: History) -> list[Candidate]:
        return list(Fcatch(self._options).predict(history, None))


def well(runs: Iterable[PastRun]) -> list[PastRun]:
    """The runs whose crash happened and that passed."""
    return [run for run in runs if run.status == "fired" and not run.failed]


def rules_of(rules: Sequence[str]) -> Rules:
    dropped = Counter(filter(None, rules))
    return Rules(len(rules) - sum(dropped.values()), dict(dropped))


def counted(reports: Iterable[Report]) -> dict[Kind, int]:
    found = Counter(report.kind for report in reports)
    return {kind: found[kind] for kind in KINDS}


def without_heap(columns: Columns) -> Columns:
    keep = np.ones(len(columns), bool)
    keep[columns.find("heap.read", "heap.write")] = False
    return dataclasses.replace(columns, **{name: getattr(columns, name)[keep] for name in (*WIDE, *NARROW)})


def always(value: Result) -> Callable[[object], Result]:
    return lambda _: value


def timed(work: Callable[[], Result]) -> tuple[float, Result]:
    begun = time.perf_counter()
    result = work()
    return round(time.perf_counter() - begun, 3), result


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
    config = configuration(target, "learning", options, folder)
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
            found["heap"] = known.heap(runs)
    return found


def triggered(target: str, options: Options, folder: Path) -> dict[str, Any]:
    """A hunt with the strategy alone."""
    config = configuration(target, "hunt", options, folder)
    strategy = Predicting(options_of(config))
    with hunted(config, (strategy,), Limits(options.budget_s)) as (_, store):
        reports = reports_of(strategy.predicted.values(), Ran.of(store))
        return {"reports": reports, "hunts": (cell_of(Fcatch.name, store.run_rows(), (), store.findings(), Points()),)}


def random_crashes(target: str, options: Options, folder: Path) -> Cell:
    """A hunt with crashes at random moments, with and without a restart."""
    config = configuration(target, "random", options, folder)
    config = msgspec.structs.replace(config, faults=msgspec.structs.replace(config.faults, kinds=("crash", "reboot")))
    strategies = plugins.strategies(config, ("random",))
    with hunted(config, strategies, Limits(UNLIMITED_S, options.random_runs)) as (_, store):
        return cell_of("random", store.run_rows(), (), store.findings(), Points())


# --- all of it


def parse(arguments: Sequence[str]) -> Options:
    parser = argparse.ArgumentParser(prog="make bench-fcatch", description=__doc__)
    parser.add_argument("--targets", default=",".join(PACKS), help=f"some of {','.join(PACKS)} (default: all)")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"some of {','.join(PARTS)} (default: all)")
    parser.add_argument("--budget", default="10m", help="time for each hunt with the strategy (default: 10m)")
    parser.add_argument("--random-runs", type=int, default=400, help="random crash runs on each target (default: 400)")
    parser.add_argument("--seed", type=int, default=0)
    said = parser.parse_args(arguments)
    chosen: dict[str, Any] = {}
    for name, known in (("targets", tuple(PACKS)), ("parts", PARTS)):
        chosen[name] = tuple(dict.fromkeys(getattr(said, name).split(",")))
        if unknown := [each for each in chosen[name] if each not in known]:
            parser.error(f"--{name}: unknown: {', '.join(unknown)}; known are {', '.join(known)}")
    try:
        budget_s = parse_duration(said.budget)
    except ValueError as error:
        parser.error(f"--budget: {error}")
    if said.random_runs < 1:
        parser.error("--random-runs must be at least 1")
    return Options(chosen["targets"], chosen["parts"], budget_s, said.seed, said.random_runs)


def summary(rows: Sequence[Row], options: Options) -> dict[str, Any]:
    figures = {
        row.target: {
            "reports": {kind: tables.counts(row.reports, kind) for kind in KINDS} if row.reports else {},
            "slowdown": row.times.slowdown if row.times else None,
        }
        for row in rows
    }
    return {"bench": "fcatch", **msgspec.to_builtins(options), "figures": figures, "rows": msgspec.to_builtins(rows)}


def main() -> int:
    options = parse(sys.argv[1:])
    rows = []
    for target in options.targets:
        set_up(EXAMPLES / target, *PACKS[target].values())
        with tempfile.TemporaryDirectory(prefix="um-bench-fcatch-") as folder:
            rows.append(row_of(target, options, Path(folder)))
        print(tables.report(rows[-1:]), file=sys.stderr, flush=True)
    print(tables.report(rows))
    print(json.dumps(summary(rows, options)))
    return 1 if any(row.trouble for row in rows) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UserError as error:
        sys.exit(f"bench.fcatch: {error}")
