"""The strategy `cofi` on our targets: the cost of reading variables, its invariants and states, and hunts beside random ones.

For each target, in a temporary folder:

1. *overhead*: fault-free runs in turn without agents, with agents, and with agents that read variables.
2. *hunt*: a hunt with the strategy (the paper's Tables 4 and 5). The labels of `triage.toml` tell true findings from false ones.
3. *rival*: a hunt with random partitions for the same time.

    python -m bench.cofi --targets granary --parts hunt,rival
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from bench.fcatch import configuration, hunt_of, hunted, measured
from bench.hunt import HERE
from bench.options import HuntOptions, hunt_options
from bench.recording import Kind, Recording, recorded, slowdown, without_variables
from bench.sieve import cell_of
from bench.sieve_tables import Cell, Points
from bench.table import table
from bench.trace import without_agents
from bench.triage import NOT_JUDGED, Label, matches, read_labels
from undermine import plugins
from undermine.campaign.limits import Limits
from undermine.config.schema import Config
from undermine.model.errors import UserError
from undermine.model.finding import Finding
from undermine.model.rounds import RoundKind
from undermine.strategies.cofi import Cofi

PACKS = {"granary": "", "pysyncobj": "0.3.17", "dask": "2024.7.0", "zookeeper": "3.6.3"}
"""The targets and their releases; `bench.fcatch` has their parameters."""
Part = Literal["overhead", "hunt", "rival"]
PARTS: tuple[Part, ...] = get_args(Part)
Options = HuntOptions[Part]
PLAIN, AGENTS, READING = "plain", "agents", "variables"
RIVAL = "random"
LABELS = HERE / "bench" / "triage.toml"
FINDINGS = ("true", "false", "not judged", "false share")
FALSE_GOAL = 0.2
"""The largest share of false findings over all targets."""
GOAL = 1.3
"""The longest time of a run that reads variables, over that of one without agents."""


class Findings(msgspec.Struct, frozen=True):
    """Confirmed findings, judged by reading the source: bugs, and others (by design, an artefact, a mistake of the pack)."""

    true: int = 0
    false: int = 0
    not_judged: int = 0

    @staticmethod
    def of(findings: Iterable[Finding], labels: Sequence[Label]) -> Findings:
        """Judge the confirmed ones by the first label that matches."""
        found: Counter[str] = Counter()
        for finding in findings:
            if finding.confirmed and finding.believed:
                found[next((label.judgement for label in labels if matches(label, finding)), NOT_JUDGED)] += 1
        return Findings(found["bug"], found.total() - found["bug"] - found[NOT_JUDGED], found[NOT_JUDGED])

    @property
    def figures(self) -> tuple[int, ...]:
        return self.true, self.false, self.not_judged

    @property
    def false_share(self) -> str:
        """The share of false findings among those that were judged."""
        judged = self.true + self.false
        return f"{self.false / judged:.0%}" if judged else "-"


class Hunt(msgspec.Struct, frozen=True):
    """A hunt with the strategy."""

    cell: Cell
    mined: int
    kept: int
    states: int
    """The states in which nodes disagreed, whichever nodes of a role, in fault-free runs and in the strategy's own."""
    fired: int
    not_fired: int
    findings: Findings = Findings()

    @property
    def figures(self) -> tuple[int, ...]:
        """The figures that can be summed up."""
        return self.mined, self.kept, self.states, self.fired, self.not_fired


class Row(msgspec.Struct, frozen=True):
    """One target."""

    target: str
    overhead: dict[str, Recording] = {}
    hunt: Hunt | None = None
    rival: Cell | None = None

    def slowdown(self, kind: str) -> dict[str, float]:
        return slowdown(self.overhead, kind, PLAIN)


# --- one target


def only_partitions(config: Config) -> Config:
    """The same with one partition in each run, as in the paper."""
    return msgspec.structs.replace(config, faults=msgspec.structs.replace(config.faults, kinds=("partition",), max_steps=1))


KINDS = {PLAIN: Kind(change=without_agents), AGENTS: Kind(change=without_variables), READING: Kind()}


def hunt(target: str, options: Options, folder: Path) -> Hunt:
    config = only_partitions(configuration(target, "hunt", options.seed, folder))
    (strategy,) = plugins.strategies(config, (Cofi.name,))
    with hunted(config, (strategy,), Limits(options.budget_s)) as (campaign, store):
        own = [row for row in store.run_rows() if row["kind"] is RoundKind.STRATEGY]
        statuses = Counter(row["status"] for row in own)
        history = campaign.history_of(strategy, 1)
        assert isinstance(strategy, Cofi)
        observed = strategy.observed_states(history)
        runs = (*history.fault_free, *(run.id for run in history.runs if run.status != "broken" and not run.covered))
        states = {found.state for run in runs for found in observed.alike(run)}
        cell = cell_of(Cofi.name, store.run_rows(), (), store.findings(), Points())
        judged = Findings.of(store.findings(), [label for label in read_labels(LABELS) if label.target == target])
    kept = observed.invariants
    return Hunt(cell, kept.mined, len(kept.invariants), len(states), statuses["fired"], statuses["not_fired"], judged)


def row_of(target: str, options: Options, folder: Path) -> Row:
    row = Row(target)
    config = partial(configuration, target, seed=options.seed, folder=folder)
    if "overhead" in options.parts:
        row = msgspec.structs.replace(row, overhead=recorded(target, KINDS, config, folder)[0])
    if "hunt" in options.parts:
        row = msgspec.structs.replace(row, hunt=hunt(target, options, folder))
    if "rival" in options.parts:
        cell = hunt_of(RIVAL, only_partitions(config(RIVAL)), Limits(options.budget_s))
        row = msgspec.structs.replace(row, rival=cell)
    return row


# --- tables


def report(rows: Sequence[Row]) -> str:
    return "\n\n".join(filter(None, (_overhead(rows), _hunts(rows), _bugs(rows))))


def _overhead(rows: Sequence[Row]) -> str:
    head = ("target", AGENTS, f"{READING} (goal {GOAL})")
    body = [
        (row.target, *("{workload_s}x ({run_s}x)".format(**row.slowdown(kind)) for kind in (AGENTS, READING)))
        for row in rows
        if row.overhead
    ]
    return f"Slowdown of the workload (of the whole run)\n{table(head, body)}" if body else ""


def _hunts(rows: Sequence[Row]) -> str:
    head = ("target", "mined", "kept", "states", "fired", "did not fire", "own runs, min", *FINDINGS)
    hunts = {row.target: row.hunt for row in rows if row.hunt}
    body = [_hunted(target, one.figures, one.cell.seconds, one.findings) for target, one in hunts.items()]
    if body:
        figures = [sum(numbers) for numbers in zip(*(one.figures for one in hunts.values()), strict=True)]
        findings = Findings(*map(sum, zip(*(one.findings.figures for one in hunts.values()), strict=True)))
        body.append(_hunted("total", figures, sum(one.cell.seconds for one in hunts.values()), findings))
    title = "Hunts (the paper: 32 to 513 invariants mined, 8 to 99 kept, 250 to 9366 runs, 24 to 240 hours, 15 true, 33 false)"
    goal = f"Goal for the false share of judged findings, in total: at most {FALSE_GOAL:.0%}"
    return f"{title}\n{table(head, body)}\n{goal}" if body else ""


def _hunted(target: str, figures: Sequence[int], seconds: float, findings: Findings) -> tuple[str, ...]:
    minutes = round(seconds / 60, 1)
    return target, *map(str, (*figures, minutes, *findings.figures)), findings.false_share


def _bugs(rows: Sequence[Row]) -> str:
    head = ("target", "symptom", Cofi.name, f"{RIVAL} partitions")
    body = []
    for row in rows:
        cells = [row.hunt.cell if row.hunt else None, row.rival]
        symptoms = dict.fromkeys(one.symptom for cell in cells if cell for one in cell.confirmed)
        body += [(row.target, symptom[:70], *(_run(cell, symptom) for cell in cells)) for symptom in symptoms]
    return f"Runs of each strategy until a symptom was seen\n{table(head, body)}" if body else ""


def _run(cell: Cell | None, symptom: str) -> str:
    found = cell.report(symptom) if cell else None
    return str(found.run) if found and found.state == "found" else "-"


# --- all of it


def parse(arguments: Sequence[str]) -> Options:
    return hunt_options(arguments, "make bench-cofi", __doc__, PACKS, PARTS)


def main() -> int:
    options = parse(sys.argv[1:])
    rows = measured(
        options.targets, lambda target: filter(None, [PACKS[target]]), lambda name, folder: row_of(name, options, folder), report
    )
    slowed = [row for row in rows if row.overhead]
    figures: dict[str, Any] = {row.target: {kind: row.slowdown(kind) for kind in (AGENTS, READING)} for row in slowed}
    said = msgspec.to_builtins((options, rows))
    print(json.dumps({"bench": "cofi", **said[0], "slowdown": figures, "rows": said[1]}))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UserError as error:
        sys.exit(f"bench.cofi: {error}")
