"""Formats the results of `bench.fcatch` like the paper's Tables 3, 4 and 5, and its further comparisons. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Literal

import msgspec

from bench.sieve_tables import Cell, met, ratio
from bench.sieve_tables import Row as Bugs
from bench.table import table
from undermine.model.predictions.outcome import OUTCOMES, Outcome

Kind = Literal["awaited", "left", "doubtful"]
KINDS: dict[Kind, str] = {"awaited": "awaited message", "left": "left-behind write", "doubtful": "doubtful write"}
"""Doubtful writes are left-behind writes about which the strategy has a doubt. They are tried last and are not reports."""
TIMES = ("early", "middle", "late", "random")
SLOWDOWN_GOAL, SHARE_GOAL, NAMES_GOAL = 3.0, 0.8, 95.0


class Report(msgspec.Struct, frozen=True):
    """One predicted moment, with all faults that the strategy proposed there."""

    kind: Kind
    spot: str
    """The operation, its call stack and the place. It is the same in all campaigns."""
    outcome: Outcome = "not_reached"
    bugs: tuple[str, ...] = ()
    """The symptoms of the confirmed findings that have a run of it."""


class Times(msgspec.Struct, frozen=True):
    """Seconds: each list has one entry for each run, or for each analysis of one fault-free run and one run with a crash."""

    plain: tuple[float, ...]
    """Fault-free runs without agents."""
    plain_crash: tuple[float, ...]
    """Runs with a crash, without agents."""
    traced: tuple[float, ...]
    """Fault-free runs with everything observed that the strategy asks for."""
    crash: tuple[float, ...]
    """Runs with the same crashes, observed in the same way."""
    source: tuple[float, ...]
    """Reading the target's source."""
    awaited: tuple[float, ...]
    left: tuple[float, ...]

    @property
    def overall(self) -> float:
        """The paper's tracing and analysis: one fault-free run, one run with a crash, and the analysis of both."""
        return sum(map(middle, (self.traced, self.crash, self.source, self.awaited, self.left)))

    @property
    def slowdown(self) -> float | None:
        return ratio(self.overall, middle(self.plain))

    @property
    def crash_slowdown(self) -> float | None:
        """The same, compared with a run with a crash. It leaves out what the target itself needs for its recovery."""
        return ratio(self.overall, middle(self.plain_crash))


class Rules(msgspec.Struct, frozen=True):
    """The pairs of conflicting operations: how many are kept, and how many each rule drops, or how many each doubt concerns."""

    kept: int
    dropped: dict[str, int]


class CrashTime(msgspec.Struct, frozen=True):
    """The predictions that runs with a crash at one time of the workload lead to."""

    runs: int
    well: int
    """The runs that went well. Only these are learnt from."""
    spots: dict[Kind, tuple[str, ...]]


class Heap(msgspec.Struct, frozen=True):
    """With or without accesses to the heap."""

    reports: dict[Kind, int]
    run_s: tuple[float, ...]
    analysis_s: tuple[float, ...]


class NamesShared(msgspec.Struct, frozen=True):
    """Between each two fault-free runs: the accesses to the heap, and the percentage whose name both runs have."""

    accesses: tuple[int, ...]
    exact: tuple[float, ...]
    masked: tuple[float, ...]


class Row(msgspec.Struct, frozen=True):
    """One target. A part that was not measured is empty."""

    target: str
    reports: tuple[Report, ...] = ()
    times: Times | None = None
    rules: dict[Kind, Rules] = {}
    crash_times: dict[str, CrashTime] = {}
    heap: dict[str, Heap] = {}
    names: NamesShared | None = None
    hunts: tuple[Cell, ...] = ()
    """The hunts with the strategy and with random crashes."""
    trouble: tuple[str, ...] = ()


def middle(numbers: Iterable[float]) -> float:
    """The median, or 0 if there are no numbers."""
    listed = list(numbers)
    return float(median(listed)) if listed else 0.0


# --- Table 3


def counts(reports: Iterable[Report], kind: Kind) -> dict[str, int]:
    """How many reports of a kind there are, how many ran, how many had each outcome, and how many bugs they found."""
    of_kind = [report for report in reports if report.kind == kind]
    found: dict[str, int] = {outcome: sum(report.outcome == outcome for report in of_kind) for outcome in OUTCOMES}
    bugs = len({bug for report in of_kind for bug in report.bugs})
    return {"reports": len(of_kind), "tried": len(of_kind) - found["not_reached"], **found, "findings": bugs}


def table_3(rows: Sequence[Row]) -> str:
    """How many predictions were right."""
    body, total = [], dict[Kind, dict[str, int]]()
    for row in (row for row in rows if row.reports):
        for kind in KINDS:
            found = counts(row.reports, kind)
            body.append(_counted(row.target, kind, found))
            total[kind] = {name: number + total.get(kind, {}).get(name, 0) for name, number in found.items()}
    body += [_counted("total", kind, found) for kind, found in total.items()]
    head = ("Target", "Kind", "reports", "tried", *OUTCOMES.values(), "findings", "confirmed/tried")
    note = f"goal for confirmed/tried: {SHARE_GOAL:.0%}; the paper: 16 of 31; doubtful writes are tried last and don't count"
    return f"Table 3. Reports ({note}).\n\n{table(head, body)}" if body else ""


def _counted(target: str, kind: Kind, found: Mapping[str, int]) -> tuple[str, ...]:
    share = f"{found['confirmed'] / found['tried']:.0%}" if found["tried"] else "–"
    return target, KINDS[kind], *map(str, found.values()), share


# --- Table 4


def table_4(rows: Sequence[Row]) -> str:
    """The cost of a prediction."""
    head = ("Target", "plain", "plain crash", "traced", "traced crash", "source", "awaited", "left", "overall")
    body = []
    for row in rows:
        if times := row.times:
            seconds = (*map(middle, msgspec.structs.astuple(times)), times.overall)
            body.append((row.target, *map(_seconds, seconds), *map(_times, (times.slowdown, times.crash_slowdown))))
    note = f"seconds, medians; goal for overall/plain: {SLOWDOWN_GOAL:g}×; the paper: 5.6 to 15.2×, 3.8 to 8.2× of a crash run"
    return f"Table 4. Times ({note}).\n\n{table((*head, 'overall/plain', 'overall/plain crash'), body)}" if body else ""


# --- Table 5


def table_5(rows: Sequence[Row]) -> str:
    """The pairs that each rule drops or each doubt puts last."""
    with_rules = [row for row in rows if row.rules]
    body = []
    for kind, name in KINDS.items():
        known = [row.rules.get(kind, Rules(0, {})) for row in with_rules]
        rules = dict.fromkeys(rule for one in known for rule in sorted(one.dropped))
        body += [(name, rule, *(str(one.dropped.get(rule, 0)) for one in known)) for rule in rules]
        if kind != "doubtful":
            body.append((name, "kept", *(str(one.kept) for one in known)))
    head = ("Kind", "Rule or doubt", *(row.target for row in with_rules))
    return f"Table 5. Pairs that rules drop, and those that doubts put last.\n\n{table(head, body)}" if with_rules else ""


# --- further comparisons


def sensitivity(rows: Sequence[Row]) -> str:
    """Predictions by the time of the crash that they were learnt from."""
    head = ("Target", "crash", "runs", "went well", *(f"{name}s" for name in KINDS.values()), "in all", "bugs predicted")
    body = []
    for row in rows:
        for time, found in row.crash_times.items():
            numbers = (found.runs, found.well, *(len(found.spots[kind]) for kind in KINDS))
            shared = [len(shared_spots(row.crash_times.values(), kind)) for kind in KINDS]
            body.append((row.target, time, *map(str, numbers), " + ".join(map(str, shared)), _predicted(row, found)))
    note = "in all: predicted with each time of the crash; bugs: those that the hunt confirmed"
    return f"Sensitivity to the time of the crash ({note}).\n\n{table(head, body)}" if body else ""


def shared_spots(times: Iterable[CrashTime], kind: Kind) -> set[str]:
    """The places that are predicted whatever the time of the crash."""
    sets = [set(found.spots[kind]) for found in times]
    return set.intersection(*sets) if sets else set()


def bugs_predicted(reports: Iterable[Report], found: CrashTime) -> dict[str, bool]:
    """Which of the confirmed bugs are predicted at a place where the hunt showed them."""
    places = {spot for spots in found.spots.values() for spot in spots}
    known: dict[str, bool] = {}
    for report in reports:
        for bug in report.bugs:
            known[bug] = known.get(bug, False) or report.spot in places
    return known


def _predicted(row: Row, found: CrashTime) -> str:
    known = bugs_predicted(row.reports, found)
    missing = [bug for bug, is_predicted in known.items() if not is_predicted]
    lost = f", without: {'; '.join(missing)}" if missing else ""
    return f"{sum(known.values())} of {len(known)}{lost}" if known else "–"


def heap_effect(rows: Sequence[Row]) -> str:
    """Predictions and costs with and without accesses to the heap."""
    head = ("Target", "heap", *(f"{name}s" for name in KINDS.values()), "run", "analysis", "run/without", "analysis/without")
    body = []
    for row in rows:
        for name, one in row.heap.items():
            base = row.heap["without"]
            seconds = [(middle(part), middle(of)) for part, of in ((one.run_s, base.run_s), (one.analysis_s, base.analysis_s))]
            ratios = (_times(ratio(*pair)) for pair in seconds)
            body.append(
                (row.target, name, *(str(one.reports[kind]) for kind in KINDS), *(_seconds(part) for part, _ in seconds), *ratios)
            )
    note = "reports; seconds, medians; the same traces are analysed with and without heap"
    return f"Accesses to the heap ({note}).\n\n{table(head, body)}" if body else ""


def names_shared(rows: Sequence[Row]) -> str:
    head = ("Target", "accesses", "exact", "masked")
    body = []
    for row in rows:
        if names := row.names:
            percents = (f"{middle(part):.1f} %" for part in (names.exact, names.masked))
            body.append((row.target, f"{middle(names.accesses):.0f}", *percents))
    note = f"accesses to the heap whose name both runs have, goal {NAMES_GOAL:g} %"
    return f"Names that agree between two fault-free runs ({note}).\n\n{table(head, body)}" if body else ""


def found_by(rows: Sequence[Row]) -> str:
    """The bugs that the strategy and random crashes found."""
    head = ("Bug", "fcatch", "random crashes")
    body, words = [], []
    for row in rows:
        compared = Bugs(row.target, row.hunts)
        for number, symptom in enumerate(compared.bugs, 1):
            cells = (compared.cell(mode) for mode in ("fcatch", "random"))
            body.append((f"{row.target} {number}", *(met(cell, symptom) for cell in cells)))
            words.append(f"  {row.target} {number}: {symptom}")
    note = "✓ run (seconds): its first run that showed it, and the time of its runs until then; ✗ runs (seconds): not found"
    if not any(row.hunts for row in rows):
        return ""
    return f"Bugs found ({note}).\n\n" + (table(head, body) if body else "  none") + "".join(f"\n{line}" for line in ("", *words))


def troubles(rows: Sequence[Row]) -> str:
    """The parts that could not be measured."""
    return "\n".join(f"{row.target}: {text}" for row in rows for text in row.trouble)


TABLES: tuple[Callable[[Sequence[Row]], str], ...] = (
    table_3, table_4, table_5, sensitivity, heap_effect, names_shared, found_by, troubles,
)  # fmt: skip


def report(rows: Sequence[Row]) -> str:
    """All tables that have content."""
    return "\n\n".join(filter(None, (each(rows) for each in TABLES)))


def _seconds(number: float) -> str:
    return f"{number:.2f}" if number else "–"


def _times(number: float | None) -> str:
    return "–" if number is None else f"{number:.2f}×"
