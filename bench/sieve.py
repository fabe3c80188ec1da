"""The strategy `sieve` and the rivals of its paper, on our targets, in the form of the paper's Tables 6, 8 and 9.

Each mode has a campaign of its own on each target, with the same workload, checkers, re-runs and controls. A mode is one of the
strategy's own or a rival (`bench/sieve_rivals.py`). Its time is that of its own runs; fault-free runs and re-runs of suspects are
extra. With `--folder` a later session continues: with the same budget it only prints, with a larger one each mode gets what is
missing.

    python -m bench.sieve --targets granary --modes sieve fate --budget 2m --folder runs
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

import undermine
from bench import sieve_tables as tables
from bench.news import print_news
from bench.options import duration
from bench.processes import set_up
from bench.sieve_rivals import RIVALS, spots_of
from bench.sieve_tables import NAMES, SIEVE, Cell, Points, Report, Row, State, Static
from bench.trace import without_agents
from undermine import api, plugins
from undermine.analysis.exposure.exposure import Spot
from undermine.api.helpers import helpers, sources_of
from undermine.campaign.loop import Campaign
from undermine.config.load import load
from undermine.config.schema import Config
from undermine.model.errors import UserError
from undermine.model.faults import Delay
from undermine.model.finding import Finding, landings
from undermine.model.plan import Plan, point_at
from undermine.model.rounds import RoundKind
from undermine.model.run import RunRecord
from undermine.program import Named, Program
from undermine.protocols import History, Strategy, plans_of
from undermine.run.engine import open_engine
from undermine.run.target_sources import Sources
from undermine.store.campaign_dirs import open_store
from undermine.store.database import CampaignStore
from undermine.store.rundir import RunDir, load_record
from undermine.strategies.observed_weak_spots import ObservedWeakSpots

EXAMPLES = Path(__file__).parents[1] / "examples"
PACKS: dict[str, dict[str, str]] = {
    "granary": {"fixes": "recovery-supersede,commit-lease,open-watch,epoch-first,gossip-tombstone"},
    "rq": {"version": "1.16.1"},
    "pysyncobj": {"version": "0.3.17"},
}
"""Parameters of the targets; the example keeps the bug that needs a slow operation."""
STRATEGY = "sieve"
MODES = (SIEVE, "ungrouped", "insensitive", "fate", "legolas", "chronos", "random")
"""In the order in which they run."""
BARE_RUNS = 5
SESSIONS_MAX = 5
"""Re-runs of suspicions use a session's time, so a mode may need several sessions to use up its budget."""
NS = 1e9
MEASURED, BARE = "measured.json", "bare.json"

Runs = list[dict[str, Any]]


class Options(msgspec.Struct, frozen=True):
    """The options of the command line."""

    targets: tuple[str, ...]
    modes: tuple[str, ...]
    budget_s: float
    runs_max: int
    seed: int
    jobs: int
    folder: Path


# --- hunting


def configuration(target: str, mode: str, options: Options) -> Config:
    """The pack's configuration, with this mode if it is one of the strategy's own. Its campaign is below the folder."""
    config = load(EXAMPLES / target, PACKS[target])
    own = msgspec.structs.replace(config.campaign, dir=str(options.folder / target / mode))
    table = config.strategies.get(STRATEGY, {}) | ({} if mode in RIVALS else {"mode": mode})
    return msgspec.structs.replace(config, campaign=own, strategies=config.strategies | {STRATEGY: table})


def strategy_of(config: Config, mode: str) -> Strategy:
    """A rival, or the strategy itself with the mode that its configuration has."""
    return RIVALS[mode]() if mode in RIVALS else plugins.strategies(config, (STRATEGY,))[0]


def hunt(config: Config, mode: str, options: Options) -> None:
    """Hunt until the mode has used its time or its runs, or until nothing is left to try."""
    before = -1
    for _ in range(SESSIONS_MAX):
        runs = own_runs(stored_rows(config))
        left_s, left_runs = left(runs, options)
        if left_s <= 0 or left_runs == 0 or len(runs) == before:
            return
        before = len(runs)
        api.hunt(
            config,
            strategies=(strategy_of(config, mode),),
            budget_s=left_s,
            runs_max=max(0, left_runs),
            seed=options.seed,
            jobs=options.jobs,
            resume=is_begun(config),
            listener=print_news,
        )


def left(runs: Runs, options: Options) -> tuple[float, int]:
    """The seconds and runs that the mode has left. 0 seconds if they are too few for an average run; -1 runs: no limit."""
    took_s, counted = [seconds_of(row) for row in runs], counting(runs)
    left_s = options.budget_s - sum(took_s) / options.jobs
    enough = left_s > tables.mean(took_s) / 2
    return left_s if enough else 0.0, max(0, options.runs_max - len(counted)) if options.runs_max else -1


def is_begun(config: Config) -> bool:
    try:
        return bool(api.campaign_dir(config))
    except UserError:
        return False


def stored_rows(config: Config) -> Runs:
    if not is_begun(config):
        return []
    with open_store(api.campaign_dir(config)) as store:
        return store.run_rows()


def own_runs(rows: Iterable[dict[str, Any]]) -> Runs:
    """The experiments in order, with broken ones, which also took time."""
    return [row for row in rows if row["kind"] is RoundKind.STRATEGY]


def counting(rows: Iterable[dict[str, Any]]) -> Runs:
    return [row for row in rows if row["status"] != "broken"]


def seconds_of(row: dict[str, Any]) -> float:
    """The duration of a run; 0 if it was interrupted."""
    return float(row["timing"].get("total_s", 0.0))


# --- the results of a campaign


def measure(config: Config, mode: str) -> tuple[Cell, Static]:
    """Read the figures from the stored campaign, without a run. They are cached until the runs or the tool change."""
    kept, basis = config.dir / MEASURED, f"{len(stored_rows(config))} {newest_source()}"
    with contextlib.suppress(OSError, msgspec.DecodeError):
        known, cell, static = msgspec.json.decode(kept.read_bytes(), type=tuple[str, Cell, Static])
        if known == basis:
            return cell, static
    folder = api.campaign_dir(config)
    with open_store(folder, exclusive=True) as store, open_engine(config, folder) as engine:
        strategy = strategy_of(config, mode)
        campaign = Campaign(engine, store, (strategy,), (), print_news, helpers=helpers(config))
        history = campaign.history_of(strategy, 1)
        sure = [run.id for run in history.runs if run.status != "broken"]
        records = [load_record(RunDir(campaign.plan_runner.folder(run))) for run in sure]
        found = counted_points(mode, strategy, history, records, to_come(campaign, store, strategy, mode, history))
        cell, static = cell_of(mode, store.run_rows(), records, store.findings(), found), static_of(
            sources_of(config, campaign.preparing.newest)
        )
    kept.write_bytes(msgspec.json.encode((basis, cell, static)))
    return cell, static


def newest_source() -> int:
    """The time of the last change to the tool or this benchmark."""
    folders = (Path(undermine.__file__).parent, Path(__file__).parent)
    return max(path.stat().st_mtime_ns for folder in folders for path in folder.rglob("*.py"))


def cell_of(mode: str, rows: Runs, records: Sequence[RunRecord], findings: Sequence[Finding], points: Points) -> Cell:
    """The figures of one mode. `records`: those of the mode's own runs that count."""
    own = own_runs(rows)
    return Cell(
        mode=mode,
        runs=len(counting(own)),
        seconds=sum(map(seconds_of, own)),
        injected=sum(len(spots_hit(record)) for record in records),
        points=points,
        reports=tuple(report_of(finding, own) for finding in findings),
        fault_free_s=tuple(seconds_of(row) for row in counting(rows) if row["kind"] is RoundKind.BASELINE),
        test_s=tables.mean(seconds_of(row) for row in counting(own)),
        delay_s=tables.mean(in_force_s(record) for record in records),
    )


def report_of(finding: Finding, own: Runs) -> Report:
    """Describe a finding: which of the mode's counting runs showed it first, and after how many seconds of its runs."""
    run, seconds = 0, 0.0
    first = next((n for n, row in enumerate(own) if row["run"] in finding.runs), None)
    if first is not None:
        met = own[: first + 1]
        run, seconds = len(counting(met)), sum(map(seconds_of, met))
    state = state_of(finding)
    return Report(
        symptom=finding.symptom,
        state=state,
        run=run,
        seconds=seconds,
        rate=finding.rate,
        plan=str(finding.plan),
        realism=finding.realism.answer,
        reason=finding.suppressed if state == "suppressed" else finding.realism.text,
    )


def state_of(finding: Finding) -> State:
    if finding.believed:
        return "found"
    if finding.suppressed:
        return "suppressed"
    if finding.dropped:
        return "dropped"
    return "flaky" if finding.flaky else "not reproduced"


def in_force_s(record: RunRecord) -> float:
    """The seconds with at least one delay in force. A delay ends when the agent recorded its end, or else at healing."""
    spans: dict[tuple[int, str, int, int], tuple[int, int]] = {}
    for receipt in record.receipts:
        if receipt.action == "delay":
            key = (receipt.step, receipt.node, receipt.pid, receipt.seq)
            begun, ended = spans.get(key, (receipt.begun_ns, 0))
            spans[key] = min(begun, receipt.begun_ns), max(ended, receipt.t_ns if receipt.held_ns > 0 else 0)
    total_ns, covered_ns = 0, 0
    for begun, ended in sorted((begun, ended or record.healed_ns) for begun, ended in spans.values()):
        total_ns += max(0, ended - max(begun, covered_ns))
        covered_ns = max(covered_ns, ended)
    return total_ns / NS


# --- points


def counted_points(
    mode: str, strategy: Strategy, history: History, records: Sequence[RunRecord], to_come: Sequence[Plan] | None
) -> Points:
    """Count points. `to_come`: plans that are still to run; None for a mode that draws from known points and never ends."""
    beginning = msgspec.structs.replace(history, runs=(), settled=frozenset())
    tried = spots_of(run.plan for run in history.runs)
    explored = {spot for record in records for spot in spots_hit(record)}
    if to_come is None:
        first, all_known = drawn_from(mode, beginning), drawn_from(mode, history) | tried
    else:
        first = spots_of(plans_of(strategy.propose(beginning)))
        all_known = tried | spots_of(to_come)
    return Points(len(first), len(all_known), len(tried), len(explored), complete=to_come is not None and not to_come)


def to_come(campaign: Campaign, store: CampaignStore, strategy: Strategy, mode: str, history: History) -> Sequence[Plan] | None:
    """The plans that are stored but have not run, and those that would be proposed now."""
    if mode in ("random", "chronos"):
        return None
    waiting = [slot.plan for slot in store.open_slots(strategy.name)]
    return [*waiting, *campaign.proposing.ask(strategy, history).pruned.kept]


def drawn_from(mode: str, history: History) -> set[Spot]:
    """The operations, as seen in runs, from which a mode draws at random."""
    known = ObservedWeakSpots()
    delays = known.delays(history)
    if mode == "chronos":
        return {weak.spot for weak in known.spots(history) if weak.timed and weak.spot in delays}
    return {spot for seen in history.points if (spot := Spot.of(seen.point)) in delays}


def spots_hit(record: RunRecord) -> list[Spot]:
    """The delayed spots as the plan names them, without a context if the plan has none."""
    steps = [record.plan.steps[number] for number, _ in landings(record)]
    return [Spot.of(point_at(step.trigger)) for step in steps if isinstance(step.fault, Delay)]


def static_of(sources: Sources) -> Static:
    named = [Named(function, op) for function, op in sources.named]
    counts = Program.read(sources.folders, named).facts().counts
    return Static(counts.all, counts.in_regions, counts.grouped)


# --- one target


def row_of(target: str, options: Options) -> Row:
    """Measure all modes on a target. If one cannot run, its reason is kept and the others continue."""
    row = Row(target, ())
    try:
        row = msgspec.structs.replace(row, bare_s=bare_runs(target, options))
    except UserError as error:
        row = msgspec.structs.replace(row, trouble=f"without agents: {error}")
    for mode in options.modes:
        print(f"--- {target}, {NAMES[mode]}", file=sys.stderr, flush=True)
        cell, static = cell_for(target, mode, options)
        row = msgspec.structs.replace(row, cells=(*row.cells, cell), static=static if static.all else row.static)
    return row


def cell_for(target: str, mode: str, options: Options) -> tuple[Cell, Static]:
    """Hunt, then measure; if the hunt cannot continue, measure its earlier runs."""
    config, trouble = configuration(target, mode, options), ""
    try:
        hunt(config, mode, options)
    except UserError as error:
        trouble = str(error)
        print(f"{target}, {NAMES[mode]}: {trouble}", file=sys.stderr, flush=True)
    try:
        cell, static = measure(config, mode)
    except UserError as error:
        return Cell(mode, trouble=trouble or str(error)), Static()
    return msgspec.structs.replace(cell, trouble=trouble), static


def bare_runs(target: str, options: Options) -> tuple[float, ...]:
    """The seconds of fault-free runs without any agent, in nodes or clients. Measured once for a folder."""
    config = without_agents(configuration(target, BARE.partition(".")[0], options))
    kept = config.dir / BARE
    if kept.exists():
        return msgspec.json.decode(kept.read_bytes(), type=tuple[float, ...])
    few = msgspec.structs.replace(config.hunt, strategies=("random",), baseline_runs=BARE_RUNS)  # `random` needs no trace
    plain = msgspec.structs.replace(config, hunt=few, strategies={})
    print(f"--- {target}, without agents", file=sys.stderr, flush=True)
    seconds = api.check(plain, print_news).durations_s
    kept.write_bytes(msgspec.json.encode(seconds))
    return seconds


# --- all of it


def parse(arguments: Sequence[str]) -> Options:
    parser = argparse.ArgumentParser(prog="python -m bench.sieve", description=__doc__)
    parser.add_argument("--targets", nargs="+", choices=PACKS, default=list(PACKS), metavar="TARGET")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES), metavar="MODE", help=", ".join(MODES))
    parser.add_argument(
        "--budget", type=duration, default="4m", help="time for the runs of each mode on each target (default: 4m)"
    )
    parser.add_argument(
        "--runs", type=int, default=0, help="the maximum number of runs of each mode (default: as many as fit into the budget)"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time; more than one makes each run slower")
    parser.add_argument("--folder", type=Path, help="keep the campaigns here, and continue those that are here")
    said = parser.parse_args(arguments)
    if said.runs < 0 or said.jobs < 1:
        parser.error("--runs must not be negative, and --jobs at least 1")
    folder = (said.folder or Path(tempfile.mkdtemp(prefix="um-bench-sieve-"))).resolve()
    targets, modes = (tuple(dict.fromkeys(names)) for names in (said.targets, said.modes))
    return Options(targets, modes, said.budget, said.runs, said.seed, said.jobs, folder)


def report(rows: Sequence[Row]) -> str:
    parts = (tables.table_6, tables.others, tables.realism, tables.table_8, tables.table_9)
    return "\n\n".join(filter(None, (part(rows) for part in parts)))


def summary(rows: Sequence[Row], options: Options) -> dict[str, Any]:
    told = cast(dict[str, Any], msgspec.to_builtins(options, enc_hook=str))
    return {
        "bench": "sieve",
        **{key: value for key, value in told.items() if key != "folder"},
        "ratios": {row.target: {c.mode: tables.ratios(row, c) for c in row.cells if c.runs} for row in rows},
        "rows": msgspec.to_builtins(rows),
    }


def main() -> int:
    options = parse(sys.argv[1:])
    print(f"campaigns are kept in {options.folder}", file=sys.stderr, flush=True)
    rows = []
    for target in options.targets:
        set_up(EXAMPLES / target)
        rows.append(row_of(target, options))
        print(report(rows[-1:]), file=sys.stderr, flush=True)
    print(report(rows))
    print(json.dumps(summary(rows, options)))
    return 1 if any(row.trouble or any(cell.trouble for cell in row.cells) for row in rows) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UserError as error:
        sys.exit(f"bench.sieve: {error}")
