"""The strategy `deminer` on our targets: the cost of recording, its predictions, and what others need for the same bugs.

For each target, in a temporary folder:

1. *recording*: fault-free runs in turn without agents, as in a hunt, and observed as each kind of evidence needs.
2. *pairs*: related operations of the runs that were recorded in full, and how the kinds of evidence agree.
3. *hunt*: a hunt with the strategy.
4. *rivals*: hunts with random crashes and with `prefail`, with the same kinds of faults and the same time.

    python -m bench.deminer --targets granary,rq --parts recording,pairs
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from bench.fcatch import configuration, hunt_of, hunted, measured, only_crashes
from bench.labels import Tiers, against_labels, flows, quality
from bench.options import HuntOptions, hunt_options
from bench.recording import Kind, Recording, recorded, slowdown
from bench.sieve import cell_of
from bench.sieve_tables import Cell, Points
from bench.table import table
from bench.trace import without_agents
from undermine import plugins
from undermine.agent_protocol import AGENTS
from undermine.analysis.common_data.labels import LABELS
from undermine.analysis.common_data.moved_data import moved_data
from undermine.analysis.common_data.pairs import Pair, Tier, related
from undermine.analysis.conflicts.origins import Origins
from undermine.analysis.pipeline import analyse
from undermine.campaign.limits import Limits
from undermine.config.schema import Config
from undermine.model.codec import read_columns
from undermine.model.errors import UserError
from undermine.model.rounds import RoundKind
from undermine.model.run import Conditions
from undermine.strategies.deminer import Deminer

PACKS = {"granary": "", "rq": "1.14.1", "pysyncobj": "0.3.17", "zookeeper": "3.6.3"}
"""The targets and their releases; `bench.fcatch` has their parameters."""
Part = Literal["recording", "pairs", "hunt", "rivals"]
PARTS: tuple[Part, ...] = get_args(Part)
Options = HuntOptions[Part]
PLAIN = "plain"
RECORDED = {
    PLAIN: Kind(change=without_agents),
    "test": Kind(),
    "activity": Kind(Conditions(observe_all=True)),
    "value": Kind(Conditions(observe_all=True, content=True)),
    "label": Kind(Conditions(observe_all=True, content=True, labels=True)),
}
"""The kinds of fault-free runs: without agents, as in a hunt, and observed as each kind of evidence needs."""
GOALS = {"test": 1.2, "activity": 1.3, "value": 1.5, "label": 4.0}
RIVALS = ("random", "prefail")


class Pairs(msgspec.Struct, frozen=True):
    """The related operations of one run."""

    events: int
    operations: int
    by_tier: dict[Tier, int]
    sites: int
    """Pairs of call sites."""


class Hunt(msgspec.Struct, frozen=True):
    """A hunt with the strategy."""

    cell: Cell
    plans: int
    fired: int
    not_fired: int


class Row(msgspec.Struct, frozen=True):
    """One target."""

    target: str
    recording: dict[str, Recording] = {}
    pairs: tuple[Pairs, ...] = ()
    tiers: dict[str, Tiers] = {}
    """The other kinds of evidence against labels."""
    hunt: Hunt | None = None
    rivals: tuple[Cell, ...] = ()

    def slowdown(self, kind: str) -> dict[str, float]:
        """How much longer runs of this kind take than runs without agents."""
        return slowdown(self.recording, kind, PLAIN)


# --- one target


def kinds_of(config: Config) -> dict[str, Kind]:
    """The kinds of fault-free runs. Only Python programs have labels."""
    agents = [AGENTS[name] for role in config.roles if (name := config.runtime(role).name) in AGENTS]
    has_labels = any(LABELS not in agent.operations_missing for agent in agents)
    return {kind: how for kind, how in RECORDED.items() if kind != "label" or has_labels}


def pairs_of(trace: Path) -> Pairs:
    analysis = analyse(read_columns(trace))
    found = related(Origins(analysis), moved_data(analysis))
    rows = {row for pair in found for row in (pair.first.row, pair.second.row)}
    tiers = Counter(pair.tier for pair in found)
    return Pairs(len(analysis), len(rows), dict(tiers), len({_sites(pair, analysis.columns.stack) for pair in found}))


def _sites(pair: Pair, stack: Any) -> tuple[int, int]:
    return int(stack[pair.first.row]), int(stack[pair.second.row])


def hunt(target: str, options: Options, folder: Path) -> Hunt:
    config = only_crashes(configuration(target, "hunt", options.seed, folder))
    (strategy,) = plugins.strategies(config, (Deminer.name,))
    with hunted(config, (strategy,), Limits(options.budget_s)) as (campaign, store):
        own = [row for row in store.run_rows() if row["kind"] is RoundKind.STRATEGY]
        statuses = Counter(row["status"] for row in own)
        plans = len(list(strategy.propose(campaign.history_of(strategy, 1))))
        cell = cell_of(Deminer.name, store.run_rows(), (), store.findings(), Points())
    return Hunt(cell, plans, statuses["fired"], statuses["not_fired"])


def row_of(target: str, options: Options, folder: Path) -> Row:
    row = Row(target)
    if {"recording", "pairs"} & set(options.parts):
        config = partial(configuration, target, seed=options.seed, folder=folder)
        recording, traces = recorded(target, kinds_of(config(PLAIN)), config, folder)
        tiers = against_labels(read_columns(traces["label"][-1])) if "label" in traces else {}
        row = msgspec.structs.replace(row, recording=recording, pairs=tuple(map(pairs_of, traces["value"][:2])), tiers=tiers)
    if {"hunt", "rivals"} & set(options.parts):
        row = msgspec.structs.replace(row, hunt=hunt(target, options, folder))
    if "rivals" in options.parts:
        limits = Limits(options.budget_s)
        cells = [hunt_of(name, rival(target, name, options, folder), limits) for name in RIVALS]
        row = msgspec.structs.replace(row, rivals=tuple(cells))
    return row


def rival(target: str, strategy: str, options: Options, folder: Path) -> Config:
    return only_crashes(configuration(target, strategy, options.seed, folder))


# --- tables


def report(rows: Sequence[Row]) -> str:
    parts = [_recording(rows), _pairs(rows), _tiers(rows), _hunts(rows), _bugs(rows)]
    return "\n\n".join(filter(None, parts))


def _recording(rows: Sequence[Row]) -> str:
    head = ("target", *(f"{kind} (goal {goal})" for kind, goal in GOALS.items()))
    shown = [row for row in rows if row.recording]
    body = [(row.target, *(_slower(row, kind) for kind in GOALS)) for row in shown]
    return f"Slowdown of the workload (of the whole run)\n{table(head, body)}" if body else ""


def _slower(row: Row, kind: str) -> str:
    return "{workload_s}x ({run_s}x)".format(**row.slowdown(kind)) if kind in row.recording else "-"


def _tiers(rows: Sequence[Row]) -> str:
    head = ("target", "evidence", "pairs", "precision", "recall", "recall of second call sites")
    body = [
        (row.target, tier, *map(str, (one.pairs, one.precision, one.recall, one.seconds)))
        for row in rows
        for tier, one in row.tiers.items()
    ]
    return f"Evidence against labels\n{table(head, body)}" if body else ""


def _pairs(rows: Sequence[Row]) -> str:
    head = ("target", "events", "storage operations", "by label", "by value", "by activity", "remote", "call sites")
    body = [
        (row.target, *map(str, (one.events, one.operations, *(one.by_tier.get(tier, 0) for tier in get_args(Tier)), one.sites)))
        for row in rows
        for one in row.pairs
    ]
    return f"Related operations of fault-free runs\n{table(head, body)}" if body else ""


def _hunts(rows: Sequence[Row]) -> str:
    head = ("target", "plans", "fired", "did not fire", "confirmed", "own runs, min")
    body = []
    for row in rows:
        if found := row.hunt:
            figures = found.plans, found.fired, found.not_fired, len(found.cell.confirmed), round(found.cell.seconds / 60, 1)
            body.append((row.target, *map(str, figures)))
    return f"Hunts (the paper: 290 to 2108 plans, 56 to 264 hours)\n{table(head, body)}" if body else ""


def _bugs(rows: Sequence[Row]) -> str:
    head = ("target", "symptom", Deminer.name, *RIVALS)
    body = []
    for row in rows:
        for found in row.hunt.cell.confirmed if row.hunt else ():
            others = [cell.report(found.symptom) for cell in row.rivals]
            runs = (str(found.run), *(str(one.run) if one and one.state == "found" else "-" for one in others))
            body.append((row.target, found.symptom[:70], *runs, *("-" for _ in range(len(RIVALS) - len(others)))))
    return f"Runs of each strategy until a bug of {Deminer.name} was seen\n{table(head, body)}" if body else ""


# --- all of it


def parse(arguments: Sequence[str]) -> Options:
    return hunt_options(arguments, "make bench-deminer", __doc__, PACKS, PARTS)


def main() -> int:
    options = parse(sys.argv[1:])
    rows = measured(
        options.targets, lambda target: filter(None, [PACKS[target]]), lambda name, folder: row_of(name, options, folder), report
    )
    figures = {row.target: {kind: row.slowdown(kind) for kind in row.recording if kind in GOALS} for row in rows}
    said = msgspec.to_builtins((options, rows, quality(flows())))
    print(json.dumps({"bench": "deminer", **said[0], "slowdown": figures, "flows": said[2], "rows": said[1]}))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UserError as error:
        sys.exit(f"bench.deminer: {error}")
