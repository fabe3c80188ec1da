"""Formats the results of `bench.prefail` like the paper's Figure 15, Table 3 and Table 4. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from bench.table import table

RANDOM = "random"
SIMPLEST = "R-L"
"""The policy of Table 3."""
_BAR = 8
"""Characters for each power of ten."""
KINDS = ("crash", "disk", "net", "corruption")


class Cell(msgspec.Struct, frozen=True):
    """One policy with one number of failures."""

    policy: str
    failures: int
    experiments: int
    """The number that it keeps."""
    exact: bool
    """False: a lower bound, because the level before was not completely run or was too large to examine."""
    ran: int
    fired: int = 0
    """Experiments in which all failures happened."""
    failed: int = 0
    """Fired experiments in which a checker failed."""
    bugs: tuple[str, ...] = ()
    """The confirmed symptoms: those that recur in re-runs and not without the failures."""

    @property
    def all_run(self) -> bool:
        return self.exact and self.ran >= self.experiments

    @property
    def begun(self) -> bool:
        return self.all_run or self.ran > 0


class Row(msgspec.Struct, frozen=True):
    """One workload."""

    target: str
    work: str
    cells: tuple[Cell, ...]
    singles: dict[str, tuple[int, int]]
    """For each kind of failure: the number with the optimisations, and without."""
    singles_with_idle: dict[str, tuple[int, int]] = {}
    """The same, including points that the cluster shows without clients: its start, elections, heartbeats."""
    runs: int = 0
    seconds_a_run: float = 0.0
    doubted: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.target} {self.work}"

    def cell(self, policy: str, failures: int) -> Cell | None:
        return next((c for c in self.cells if (c.policy, c.failures) == (policy, failures)), None)


def experiments(cell: Cell | None, cap: int) -> str:
    """Format the number of experiments. A number that was counted and not run is marked."""
    if cell is None:
        return "not reached"
    if cell.all_run:
        return _number(cell)
    over = f", the cap is {cap:,}" if cell.experiments > cap else ""
    return f"{_number(cell)} (counted; {cell.ran:,} run{over})"


def figure_15(rows: Sequence[Row], policies: Sequence[str], failures: Sequence[int], cap: int) -> str:
    """The number of experiments for each policy and workload; the bars are logarithmic."""
    lines = ["Figure 15. #Experiments with different coverage-based policies (crashes only)."]
    for count in failures:
        for row in rows:
            lines += ["", f"  {row.name}, {count} {'crashes' if count > 1 else 'crash'}"]
            for policy in policies:
                cell = row.cell(policy, count)
                lines.append(f"    {policy:8} {_bar(cell):<{5 * _BAR}} {experiments(cell, cap)}{_fewer(row, cell)}")
    return "\n".join(lines)


def _bar(cell: Cell | None) -> str:
    """A bar that is filled as far as experiments ran."""
    if cell is None or not cell.experiments:
        return ""
    full, done = (min(5 * _BAR, 1 + round(_BAR * math.log10(n))) if n else 0 for n in (cell.experiments, cell.ran))
    return "#" * done + "." * (full - done)


def _fewer(row: Row, cell: Cell | None) -> str:
    """The factor compared with brute force, if both numbers are known."""
    force = row.cell("BF", cell.failures) if cell else None
    if not cell or not force or cell is force or not cell.experiments or not cell.exact:
        return ""
    times = force.experiments / cell.experiments
    return f"   {'' if force.exact else '≥ '}{times:.1f}× fewer than BF" if times > 1 else ""


def table_3(rows: Sequence[Row], failures: Sequence[int]) -> str:
    """As in the paper: the simplest recovery policy, and random failures with the same number of runs."""
    head = ("Workload", "#F", "#Failed Exps", "#Bugs", "#Bugs_R", "runs", "runs of random")
    body = []
    for row in rows:
        before: dict[str, tuple[str, ...]] = {}
        for count in failures:
            cells = [row.cell(policy, count) for policy in (SIMPLEST, RANDOM)]
            if cells[0] is None:
                continue
            bugs = [_bugs(cell, before) for cell in cells]
            runs = [_runs(cell) if cell else "–" for cell in cells]
            failed = str(cells[0].failed) if cells[0].begun else "–"
            body.append((row.name, str(count), failed, *bugs, *runs))
            before = {cell.policy: cell.bugs for cell in cells if cell}
    return f"Table 3. #Bugs found with {SIMPLEST}, and with random failures.\n\n" + table(head, body)


def _bugs(cell: Cell | None, before: dict[str, tuple[str, ...]]) -> str:
    """The number of bugs. (*): fewer failures have already shown them."""
    if cell is None or not cell.begun:
        return "–"
    same = cell.bugs and set(cell.bugs) <= set(before.get(cell.policy, ()))
    return f"{'(*) ' if same else ''}{len(cell.bugs)}"


def _runs(cell: Cell) -> str:
    return f"{cell.ran:,}" if cell.all_run else f"{cell.ran:,} of {_number(cell)}"


def _number(cell: Cell) -> str:
    return f"{'' if cell.exact else '≥ '}{cell.experiments:,}"


def bugs_by_policy(rows: Sequence[Row], policies: Sequence[str], failures: Sequence[int]) -> str:
    """Bugs and failed experiments in each cell, of all experiments or of those that ran."""
    head = ("Workload", "#F", *policies)
    body = [
        (row.name, str(count), *(_found(row.cell(policy, count)) for policy in policies))
        for row in rows
        for count in failures
    ]
    note = "bugs / failed experiments / experiments; of N run: not all ran, so bugs may be missing"
    return f"Bugs by policy ({note}).\n\n" + table(head, body)


def _found(cell: Cell | None) -> str:
    if cell is None or not cell.begun:
        return "–"
    found = f"{len(cell.bugs)}/{cell.failed}"
    return f"{found}/{cell.ran:,}" if cell.all_run else f"{found} of {cell.ran:,} run"


def table_4(rows: Sequence[Row]) -> str:
    """Single failures, counted from fault-free runs. None of them runs."""
    head = ("Workload", "Crash", "Disk Failure", "Net Failure", "Data Corruption")
    whole = [(f"{row.name}, with operations of idle nodes", row.singles_with_idle) for row in rows if row.singles_with_idle]
    counted = [*((row.name, row.singles) for row in rows), *whole]
    body = [(name, *(_pair(singles.get(kind, (0, 0))) for kind in KINDS)) for name, singles in counted]
    note = "X/Y: with and without the optimisation; counted from fault-free runs, not run"
    return f"Table 4. Single failures ({note}).\n\n" + table(head, body)


def _pair(pair: tuple[int, int]) -> str:
    return f"{pair[0]}/{pair[1]}" if pair[1] else "N.A."
