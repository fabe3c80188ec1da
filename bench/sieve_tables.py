"""Formats the results of `bench.sieve` like the paper's Tables 6, 8 and 9. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Literal

import msgspec

from bench.table import table
from undermine.findings.grouping.groups import template

SIEVE = "sieve"
NAMES = {
    "random": "Random",
    "fate": "FATE",
    "legolas": "Legolas",
    "chronos": "Chronos",
    "insensitive": "Sieve-I",
    "ungrouped": "Sieve-S",
    SIEVE: "Sieve",
}
"""The modes as the paper calls them, in its order."""
GOAL = 1.3
PAPER = "1.9 to 6.3"

State = Literal["found", "dropped", "flaky", "suppressed", "not reproduced"]


class Report(msgspec.Struct, frozen=True):
    """A symptom that a mode showed, and its verdict."""

    symptom: str
    state: State
    run: int = 0
    """The number of the mode's own run that showed it first; 0: only a fault at rest did, before all of them."""
    seconds: float = 0.0
    """The duration of the mode's own runs until then."""
    rate: str = ""
    plan: str = ""
    realism: str = ""
    """`realistic`, `dropped`, `unchecked` or empty."""
    reason: str = ""


class Points(msgspec.Struct, frozen=True):
    """The operations in contexts of one mode (without contexts if the mode has none)."""

    fault_free: int = 0
    """Points to explore that the fault-free runs showed."""
    known: int = 0
    """The same with the points that the mode's own runs added."""
    tried: int = 0
    explored: int = 0
    """Points that were really delayed."""
    complete: bool = False
    """Nothing is left to try."""


class Cell(msgspec.Struct, frozen=True):
    """One mode on one target."""

    mode: str
    runs: int = 0
    seconds: float = 0.0
    """The duration of its own runs."""
    injected: int = 0
    """The number of delays in its own runs."""
    points: Points = Points()
    reports: tuple[Report, ...] = ()
    fault_free_s: tuple[float, ...] = ()
    """Seconds of fault-free runs with everything observed."""
    test_s: float = 0.0
    """Average seconds of its own runs."""
    delay_s: float = 0.0
    """Average seconds with a delay in force."""
    trouble: str = ""
    """The reason why it could not run."""

    @property
    def confirmed(self) -> list[Report]:
        """The confirmed findings that one of its own runs showed."""
        return [report for report in self.reports if report.state == "found" and report.run]

    def report(self, symptom: str) -> Report | None:
        return next((report for report in self.reports if template(report.symptom) == template(symptom)), None)


class Static(msgspec.Struct, frozen=True):
    """Points in the source."""

    all: int = 0
    scoped: int = 0
    grouped: int = 0


class Row(msgspec.Struct, frozen=True):
    """One target."""

    target: str
    cells: tuple[Cell, ...]
    static: Static = Static()
    bare_s: tuple[float, ...] = ()
    """Seconds of fault-free runs without agents."""
    trouble: str = ""

    def cell(self, mode: str) -> Cell | None:
        return next((cell for cell in self.cells if cell.mode == mode), None)

    @property
    def fault_free_s(self) -> float:
        return mean(second for cell in self.cells for second in cell.fault_free_s)

    @property
    def bugs(self) -> tuple[str, ...]:
        """Symptoms that at least one mode has shown to be bugs; those that Sieve found come first."""
        best = sorted(self.cells, key=lambda cell: cell.mode != SIEVE)
        found: dict[str, str] = {}
        for report in (report for cell in best for report in cell.reports if report.state == "found"):
            found.setdefault(template(report.symptom), report.symptom)
        return tuple(found.values())


def mean(numbers: Iterable[float]) -> float:
    """The mean, or 0 if there are no numbers."""
    listed = list(numbers)
    return fmean(listed) if listed else 0.0


def modes_of(rows: Sequence[Row]) -> list[str]:
    """The measured modes, in the paper's order."""
    return [mode for mode in NAMES if any(row.cell(mode) for row in rows)]


# --- Table 6


def table_6(rows: Sequence[Row]) -> str:
    """Each bug, and the run with which each mode found it."""
    modes = modes_of(rows)
    head = ("Bug", *(NAMES[mode] for mode in modes))
    body, words = [], []
    for row in rows:
        for number, symptom in enumerate(row.bugs, 1):
            body.append((f"{row.target} {number}", *(met(row.cell(mode), symptom) for mode in modes)))
            words.append(f"  {row.target} {number}: {symptom}")
    note = (
        "✓ run (seconds): the mode's first run that showed it, and the time of its runs until then; ✗ runs (seconds): not found"
    )
    text = f"Table 6. Bugs found ({note}).\n\n" + (table(head, body) if body else "  none")
    return "\n\n".join(filter(None, (text, "\n".join(words))))


def met(cell: Cell | None, symptom: str) -> str:
    """Say with which of its runs a mode found a bug, or in how many runs it did not."""
    if cell is None or (cell.trouble and not cell.runs):
        return "–"
    report = cell.report(symptom)
    if report is None:
        return f"✗ {cell.runs} ({cell.seconds:.0f} s)"
    when = f"{report.run} ({report.seconds:.0f} s)" if report.run else "at rest"
    return f"{'✓' if report.state == 'found' else report.state} {when}"


def others(rows: Sequence[Row]) -> str:
    """Findings that were not reported, with the reason, and modes that could not run."""
    lines = []
    for row in rows:
        lines += [f"  {row.target}: {row.trouble}"] if row.trouble else []
        for cell in row.cells:
            name = f"  {row.target}, {NAMES[cell.mode]}"
            lines += [f"{name}: {cell.trouble}"] if cell.trouble else []
            for report in cell.reports:
                if report.state != "found":
                    why = f": {report.reason}" if report.reason else ""
                    lines.append(f"{name}, {report.state} ({report.rate}){why}: {report.symptom}")
    return "Not reported.\n\n" + "\n".join(lines) if lines else ""


def realism(rows: Sequence[Row]) -> str:
    """The results of replacing the delays by slow devices."""
    answers = ("realistic", "dropped", "unchecked")
    head = ("Target", "Mode", "reproduced", *answers)
    body = []
    for row in rows:
        for mode in modes_of(rows):
            sure = [r for r in cell.reports if r.state in ("found", "dropped")] if (cell := row.cell(mode)) else []
            if sure:
                counts = (str(sum(report.realism == answer for report in sure)) for answer in answers)
                body.append((row.target, NAMES[mode], str(len(sure)), *counts))
    note = "reports that recurred with the delay and not without, and the result with a slow device"
    return f"Realism ({note}).\n\n" + table(head, body) if body else ""


# --- Table 8


def table_8(rows: Sequence[Row]) -> str:
    """Dynamic and static fault points."""
    modes = modes_of(rows)
    head = ("Target", *(NAMES[mode] for mode in modes), "All", "S/T", "S/T+Gr")
    body = [
        (row.target, *(points(row.cell(mode)) for mode in modes), *map(str, msgspec.structs.astuple(row.static)))
        for row in rows
    ]
    runs = [(row.target, *(_runs(row.cell(mode)) for mode in modes)) for row in rows]
    note = "explored/known (in fault-free runs); complete: nothing is left to try"
    return (
        f"Table 8. Dynamic fault points ({note}), and static ones.\n\n{table(head, body)}\n\n"
        f"  Runs/delays injected in them.\n\n{table(head[:-3], runs)}"
    )


def points(cell: Cell | None) -> str:
    """Format the explored and known points of a mode."""
    if cell is None or not cell.runs:
        return "–"
    counted = cell.points
    return f"{counted.explored}/{counted.known} ({counted.fault_free}){' complete' if counted.complete else ''}"


def _runs(cell: Cell | None) -> str:
    return f"{cell.runs}/{cell.injected}" if cell and cell.runs else "–"


# --- Table 9


def table_9(rows: Sequence[Row]) -> str:
    """The durations of runs."""
    head = ("Target", "Mode", "Baseline", "Info Collection", "Average Test", "delay in force", "rest", *RATIOS)
    body = []
    for row in rows:
        for mode in reversed(modes_of(rows)):
            cell = row.cell(mode)
            if cell and cell.runs:
                times = (mean(row.bare_s), row.fault_free_s, cell.test_s, cell.delay_s, rest_s(cell))
                found = ratios(row, cell).values()
                body.append((row.target, NAMES[mode], *map(_seconds, times), *map(_times, found)))
    note = f"seconds; rest: the average test without the delay, goal {GOAL}×; the paper's test/baseline is {PAPER}"
    return f"Table 9. Times ({note}).\n\n" + table(head, body)


RATIOS = ("rest/collection", "test/collection", "rest/baseline", "test/baseline")


def ratios(row: Row, cell: Cell) -> dict[str, float | None]:
    """The average test with and without its delay, compared with a fault-free run with and without agents.

    Work that runs in parallel with a delay is subtracted from the rest. The test with its delay is an upper bound.
    """
    pairs = [
        (took_s, usual_s) for usual_s in (row.fault_free_s, mean(row.bare_s)) for took_s in (rest_s(cell), cell.test_s)
    ]
    return dict(zip(RATIOS, (ratio(*pair) for pair in pairs), strict=True))


def rest_s(cell: Cell) -> float:
    return cell.test_s - cell.delay_s


def ratio(one: float, other: float) -> float | None:
    return round(one / other, 2) if other else None


def _seconds(number: float) -> str:
    return f"{number:.2f}" if number else "–"


def _times(number: float | None) -> str:
    return "–" if number is None else f"{number:.2f}×"
