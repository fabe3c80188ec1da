"""The benchmark of slow operations: its counts, and that it marks everything not run, not reported or not finished."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from bench import sieve as bench
from bench import sieve_tables as tables
from bench.sieve_rivals import RIVALS
from bench.sieve_tables import Cell, Points, Report, Row, Static
from undermine.analysis.exposure.exposure import Spot
from undermine.config.load import load
from undermine.model.columns import Columns
from undermine.model.errors import UserError
from undermine.model.faults import Crash, Delay, Fault
from undermine.model.finding import Finding, Realism
from undermine.model.plan import At, Plan, Step
from undermine.model.point import point_of
from undermine.model.rounds import RoundKind
from undermine.model.run import Receipt, RunRecord
from undermine.protocols import History, PastRun
from undermine.strategies.sieve import Mode
from undermine.testing import event, history, point

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
OPTIONS = bench.Options(("granary",), ("sieve",), 60.0, 0, 0, 1, Path("unused"))


def delay(name: str, fault: Fault = Delay(5.0)) -> Plan:  # noqa: B008 - frozen
    return Plan((Step(At(point(loc=f"app:{name}#1")), fault),))


def ran(
    run: int,
    symptom: str = "",
    total_s: float = 2.0,
    status: str = "fired",
    strategy: str = "sieve",
    kind: RoundKind = RoundKind.STRATEGY,
) -> dict[str, Any]:
    timing = {"total_s": total_s} if total_s else {}
    return {"run": run, "strategy": strategy, "kind": kind, "status": status, "symptom": symptom, "timing": timing}


def finding(symptom: str, **more: Any) -> Finding:
    return Finding("F1", symptom, symptom, delay("a"), more.pop("runs", (1,)), ("sieve",), (), **more)


# --- the time that delays were in force


def record(*receipts: Receipt, plan: Plan = Plan(), healed_ns: int = 100) -> RunRecord:  # noqa: B008 - frozen
    return RunRecord(1, plan, "fired", receipts=receipts, healed_ns=healed_ns)


def held(step: int, begun_ns: int, ended_ns: int = 0) -> list[Receipt]:
    """The two receipts of an agent: at the begin and at the end."""
    begun = Receipt(step, "n1", "delay", begun_ns, pid=1, seq=step)
    ended = Receipt(step, "n1", "delay", ended_ns, pid=1, seq=step, held_ns=ended_ns - begun_ns)
    return [begun, ended] if ended_ns else [begun]


@pytest.mark.parametrize(
    ("receipts", "ns"),
    [
        ([], 0),
        (held(0, 10, 40), 30),
        (held(0, 10), 90),  # its process died, or it ended with the run
        ([*held(0, 10, 40), *held(1, 20, 60), *held(2, 30, 35)], 50),
        ([*held(1, 70, 80), *held(0, 10, 40)], 40),
        ([Receipt(0, "n1", "pause", 60, held_ns=50)], 0),
    ],
)
def test_overlapping_delays_count_once(receipts: Sequence[Receipt], ns: int) -> None:
    assert bench.in_force_s(record(*receipts)) == pytest.approx(ns / 1e9)


# --- the first run that showed a symptom


def test_a_report_names_its_first_run_and_the_time_until_then() -> None:
    own = [ran(7), ran(8, total_s=3.0, status="broken"), ran(9, "it hangs"), ran(12, "it hangs")]
    found = bench.report_of(finding("it hangs", hits=2, tries=2, runs=(9, 12)), own)
    assert (found.state, found.run, found.seconds) == ("found", 2, 7.0)
    lesser = bench.report_of(finding("it is slow", runs=(9,)), own)
    assert (lesser.run, lesser.seconds) == (2, 7.0), "the run is named by a worse symptom"


def test_a_symptom_of_a_fault_at_rest_counts_for_no_run_of_the_mode() -> None:
    found = bench.report_of(finding("it hangs", hits=2, tries=2), [ran(7)])
    assert (found.run, found.seconds) == (0, 0.0)


@pytest.mark.parametrize(
    ("more", "state"),
    [
        ({"hits": 1, "tries": 2}, "found"),
        ({}, "found"),
        ({"tries": 2}, "not reproduced"),
        ({"elsewhere": 2}, "not reproduced"),
        ({"hits": 2, "tries": 2, "control_hits": 1, "control_tries": 2}, "flaky"),
        ({"hits": 2, "tries": 2, "realism": Realism("dropped", "it waits in memory")}, "dropped"),
        ({"hits": 2, "tries": 2, "realism": Realism("unchecked", "not root")}, "found"),
        ({"hits": 2, "tries": 2, "suppressed": "known"}, "suppressed"),
    ],
)
def test_the_state_of_a_report(more: dict[str, Any], state: str) -> None:
    assert bench.state_of(finding("it hangs", **more)) == state


def test_a_cell_has_only_the_modes_own_runs_and_the_fault_free_runs() -> None:
    rows = [
        ran(1, total_s=1.0, strategy="", kind=RoundKind.BASELINE),
        ran(2, total_s=9.0, strategy="", kind=RoundKind.BASELINE, status="broken"),
        ran(3, total_s=8.0, strategy="", kind=RoundKind.BENIGN),
        ran(4, total_s=4.0),
        ran(5, total_s=1.0, status="broken"),
        ran(6, "it hangs", total_s=2.0),
        ran(7, "it hangs", total_s=20.0, strategy="", kind=RoundKind.CONFIRM),
    ]
    hit = record(*held(0, 10, 30), plan=delay("a"))
    hangs = finding("it hangs", tries=1, hits=1, runs=(6, 7))
    cell = bench.cell_of("fate", rows, [hit, record(plan=delay("b"))], [hangs], Points())
    assert (cell.runs, cell.seconds, cell.injected, cell.fault_free_s) == (2, 7.0, 1, (1.0,))
    assert cell.test_s == 3.0
    assert cell.delay_s == pytest.approx(10 / 1e9)
    assert [(r.run, r.seconds) for r in cell.reports] == [(2, 7.0)]


# --- points


class Proposes:
    """A strategy that proposes these plans if nothing has run."""

    name, summary = "sieve", ""

    def __init__(self, *plans: Plan) -> None:
        self._plans = plans

    def propose(self, history: History) -> Sequence[Plan]:
        return () if history.runs else self._plans


def told(*plans: Plan) -> History:
    runs = [PastRun(number, 1, number, plan, "fired", False) for number, plan in enumerate(plans)]
    return history([], runs)


def counted(to_come: Sequence[Plan]) -> Points:
    """The count after two of three plans were tried and one of them hit its point. `to_come` are the plans left to run."""
    strategy = Proposes(*map(delay, "abc"))
    hit = record(*held(0, 10, 20), plan=delay("a"))
    missed = record(plan=delay("b"))
    return bench.counted_points("sieve", strategy, told(delay("a"), delay("b")), [hit, missed], to_come)


def test_points_are_counted_as_far_as_they_are_known() -> None:
    assert counted([delay("c"), delay("d"), delay("a", Delay(9.0))]) == Points(3, 4, 2, 1, complete=False)


def test_a_mode_is_complete_if_no_plans_are_left() -> None:
    assert counted([]) == Points(3, 2, 2, 1, complete=True)


def test_other_faults_do_not_count_as_slow_operations() -> None:
    assert bench.spots_of([delay("a", Crash())]) == set()
    crashed = record(Receipt(0, "n1", "crash", 5), plan=delay("a", Crash()))
    assert bench.spots_hit(crashed) == []


def test_without_contexts_an_operation_counts_once() -> None:
    """The spot as the plan names it, whatever led there in the run."""
    place = Spot("server", "file.write", "app:a#1", "")
    plan = Plan((Step(At(place.point), Delay(5.0)),))
    assert set(bench.spots_hit(record(*held(0, 10, 20), plan=plan))) == {place}


def test_only_operations_that_can_be_delayed_are_drawn() -> None:
    events = [
        event(
            "timeout", loc="app:wait#1", t_ns=1, end_ns=50, seq=1, size=2_000_000_000, stack=("app:wait#1",), thread="T"
        ),
        event("file.write", loc="app:limited#1", t_ns=10, end_ns=11, seq=2, stack=("app:limited#1",), thread="T"),
        event("file.write", loc="app:free#1", t_ns=60, end_ns=61, seq=3, stack=("app:free#1",), thread="T"),
    ]
    known = msgspec.structs.replace(
        history([point_of(e) for e in events[1:]]), fault_free=(1,), columns=lambda _: Columns.of(events)
    )
    assert {spot.loc for spot in bench.drawn_from("random", known)} == {"app:limited#1", "app:free#1"}
    assert {spot.loc for spot in bench.drawn_from("chronos", known)} == {"app:limited#1"}


# --- sessions


@pytest.mark.parametrize(
    ("runs", "more", "expected"),
    [
        ([], {}, (60.0, -1)),
        ([ran(1, total_s=20.0)], {}, (40.0, -1)),
        ([ran(1, total_s=20.0)], {"jobs": 2}, (50.0, -1)),
        ([ran(1, total_s=28.0), ran(2, total_s=28.0)], {}, (0.0, -1)),  # too little time for another run
        ([ran(1, total_s=0.0, status="broken"), ran(2, total_s=10.0)], {"runs_max": 3}, (50.0, 2)),
        ([ran(1, total_s=1.0)] * 4, {"runs_max": 3}, (56.0, 0)),
    ],
)
def test_a_mode_gets_the_rest_of_its_budget(
    runs: bench.Runs, more: dict[str, Any], expected: tuple[float, int]
) -> None:
    assert bench.left(runs, msgspec.structs.replace(OPTIONS, **more)) == expected


class Sessions:
    """Fake hunts, each with the given number of runs of ten seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *counts: int) -> None:
        self.rows: bench.Runs = [ran(0, total_s=50.0, strategy="", kind=RoundKind.CONFIRM)]
        self.asked: list[tuple[float, int, bool]] = []
        self._counts = list(counts)
        monkeypatch.setattr(bench, "stored_rows", lambda _: self.rows)
        monkeypatch.setattr(bench, "is_begun", lambda _: len(self.asked) > 1)
        monkeypatch.setattr(bench.api, "hunt", self._hunt)

    def _hunt(self, config: Any, *, budget_s: float, runs_max: int, **more: Any) -> None:
        self.asked.append((budget_s, runs_max, more["resume"]))
        self.rows = self.rows + [ran(1, total_s=10.0)] * self._counts.pop(0)


def test_sessions_continue_until_the_modes_time_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each session spends a part of its time on re-runs of suspicions."""
    sessions = Sessions(monkeypatch, 3, 2, 1)
    bench.hunt(None, "fate", OPTIONS)  # type: ignore[arg-type]
    assert [budget for budget, _, _ in sessions.asked] == [60.0, 30.0, 10.0]


def test_a_session_without_a_run_is_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = Sessions(monkeypatch, 1, 0)
    bench.hunt(None, "fate", msgspec.structs.replace(OPTIONS, runs_max=5))  # type: ignore[arg-type]
    assert [runs for _, runs, _ in sessions.asked] == [5, 4]


def test_a_mode_without_time_left_is_not_hunted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = Sessions(monkeypatch)
    sessions.rows = [ran(1, total_s=59.0)]
    bench.hunt(None, "fate", OPTIONS)  # type: ignore[arg-type]
    assert not sessions.asked


def test_a_mode_that_cannot_continue_shows_its_earlier_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: Any) -> None:
        raise UserError("the plug-in file has changed")

    options = msgspec.structs.replace(OPTIONS, folder=tmp_path)
    monkeypatch.setattr(bench, "hunt", refuse)
    cell, static = bench.cell_for("granary", "sieve", options)  # no campaign exists
    assert (cell.runs, cell.trouble, static) == (0, "the plug-in file has changed", Static())
    monkeypatch.setattr(bench, "measure", lambda config, mode: (Cell(mode, runs=3), Static(9, 8, 7)))
    cell, static = bench.cell_for("granary", "sieve", options)
    assert (cell.runs, cell.trouble, static.all) == (3, "the plug-in file has changed", 9)


def test_figures_are_cached_while_runs_and_tool_are_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = bench.configuration("granary", "sieve", msgspec.structs.replace(OPTIONS, folder=tmp_path))
    config.dir.mkdir(parents=True)
    (config.dir / bench.MEASURED).write_bytes(msgspec.json.encode(("2 7", Cell("sieve", runs=3), Static(9, 8, 7))))
    monkeypatch.setattr(bench, "newest_source", lambda: 7)
    monkeypatch.setattr(bench, "stored_rows", lambda _: [ran(1), ran(2)])
    assert bench.measure(config, "sieve") == (Cell("sieve", runs=3), Static(9, 8, 7))
    monkeypatch.setattr(bench, "newest_source", lambda: 8)
    with pytest.raises(UserError, match="there is no campaign"):  # the cached result is ignored
        bench.measure(config, "sieve")


# --- tables


def lines_of(text: str) -> list[list[str]]:
    """The rows of a table."""
    return [re.split(r"\s{2,}", line.strip()) for line in text.splitlines() if line.startswith("  ")]


def one(mode: str, *reports: Report, **more: Any) -> Cell:
    return Cell(mode, **{"runs": 9, "seconds": 30.0, "reports": reports, **more})


def test_table_6_shows_which_run_of_which_mode_found_a_bug() -> None:
    hangs = Report("it hangs", "found", 4, 12.0, "2/2", realism="realistic")
    lost = Report("a write is lost", "found")
    cells = (
        one("sieve", hangs),
        one("fate", lost, Report("it hangs", "dropped", 3, 9.0, "2/2", realism="dropped", reason="it waits in memory")),
        one("chronos"),
        one("random", runs=0, trouble="it cannot start"),
    )
    rows = [Row("system", cells)]
    head, first, second, *words = lines_of(tables.table_6(rows))
    assert head == ["Bug", "Random", "FATE", "Chronos", "Sieve"]
    assert first == ["system 1", "–", "dropped 3 (9 s)", "✗ 9 (30 s)", "✓ 4 (12 s)"]
    assert second == ["system 2", "–", "✓ at rest", "✗ 9 (30 s)", "✗ 9 (30 s)"]
    assert words == [["system 1: it hangs"], ["system 2: a write is lost"]]
    told = tables.others(rows)
    assert "system, FATE, dropped (2/2): it waits in memory: it hangs" in told
    assert "system, Random: it cannot start" in told
    assert "a write is lost" not in told
    assert lines_of(tables.realism(rows))[1:] == [
        ["system", "FATE", "2", "0", "1", "0"],
        ["system", "Sieve", "1", "1", "0", "0"],
    ]


def test_the_table_says_that_nothing_was_found() -> None:
    rows = [Row("system", (one("sieve"),))]
    assert "none" in tables.table_6(rows)
    assert tables.others(rows) == tables.realism(rows) == ""


def test_table_8_marks_complete_modes() -> None:
    cells = (
        one("sieve", points=Points(4, 5, 5, 5, complete=True), injected=9),
        one("fate", points=Points(40, 50, 10, 9), injected=8),
        one("random", runs=0),
    )
    head, counts, runs_head, runs = (
        line for line in lines_of(tables.table_8([Row("system", cells, Static(30, 20, 10))])) if len(line) > 1
    )
    assert head == ["Target", "Random", "FATE", "Sieve", "All", "S/T", "S/T+Gr"]
    assert counts == ["system", "–", "9/50 (40)", "5/5 (4) complete", "30", "20", "10"]
    assert runs_head == head[:4]
    assert runs == ["system", "–", "9/8", "9/9"]


def test_table_9_compares_with_and_without_the_delay() -> None:
    cells = (one("sieve", test_s=6.0, delay_s=3.5, fault_free_s=(2.0, 3.0)), one("fate", runs=0, fault_free_s=(2.5,)))
    row = Row("system", cells, bare_s=(1.0, 3.0))
    _, times = lines_of(tables.table_9([row]))
    assert times == ["system", "Sieve", "2.00", "2.50", "6.00", "3.50", "2.50", "1.00×", "2.40×", "1.25×", "3.00×"]
    without = tables.ratios(msgspec.structs.replace(row, bare_s=()), cells[0])
    assert list(without.values()) == [1.0, 2.4, None, None]


# --- targets and options


def test_the_command_line_has_defaults_for_everything(tmp_path: Path) -> None:
    options = bench.parse(["--folder", str(tmp_path)])
    assert (options.targets, options.modes, options.budget_s) == (tuple(bench.PACKS), bench.MODES, 240)
    some = bench.parse(["--targets", "rq", "--modes", "fate", "sieve", "--runs", "5", "--folder", str(tmp_path)])
    assert (some.targets, some.modes, some.runs_max) == (("rq",), ("fate", "sieve"), 5)


@pytest.mark.parametrize("words", ["--targets nobody", "--modes best", "--budget long", "--runs -1", "--jobs 0"])
def test_invalid_arguments_are_refused(words: str) -> None:
    with pytest.raises(SystemExit):
        bench.parse(words.split())


def test_all_modes_of_the_strategy_are_compared() -> None:
    assert set(bench.MODES) == set(tables.NAMES) == {*get_args(Mode), *RIVALS}


@pytest.mark.parametrize("target", bench.PACKS)
def test_a_mode_has_the_packs_own_configuration(target: str, tmp_path: Path) -> None:
    config = bench.configuration(target, "fate", msgspec.structs.replace(OPTIONS, folder=tmp_path))
    own = load(EXAMPLES / target)
    assert (config.strategies["sieve"], config.dir) == ({}, tmp_path / target / "fate")
    assert bench.strategy_of(config, "fate").name == "fate"
    plain = bench.configuration(target, "insensitive", msgspec.structs.replace(OPTIONS, folder=tmp_path))
    assert plain.strategies["sieve"] == {"mode": "insensitive"}
    assert bench.strategy_of(plain, "insensitive").name == "sieve"
    assert (config.checkers, config.workload, config.faults) == (own.checkers, own.workload, own.faults)
    assert config.params.get("version") == own.params.get("version")  # the release that `setup.py` fetches


def test_only_the_bug_that_needs_a_slow_operation_is_left_in_the_example() -> None:
    known = (EXAMPLES / "granary" / "granary" / "fixes.py").read_text()
    fixes = bench.PACKS["granary"]["fixes"].split(",")
    assert all(f'"{fix}"' in known for fix in fixes)
    assert len(set(fixes)) == 5
    assert "snapshot-copy" not in fixes


def test_the_summary_names_no_folder() -> None:
    rows = [Row("system", (one("sieve", test_s=6.0, delay_s=3.5, fault_free_s=(2.5,)),))]
    told = bench.summary(rows, OPTIONS)
    assert "folder" not in told
    assert told["ratios"] == {"system": {"sieve": tables.ratios(rows[0], rows[0].cells[0])}}
    assert msgspec.convert(told["rows"], list[Row]) == rows
