"""The tables of `make bench-cofi`."""

from __future__ import annotations

import pathlib

import msgspec
import pytest

from bench import cofi as bench
from bench.recording import Recording, without_variables
from bench.sieve_tables import Cell, Report
from bench.triage import Label
from undermine.config.load import load
from undermine.model.finding import Finding
from undermine.model.plan import Plan


def recording(factor: float) -> Recording:
    return Recording((2.0 * factor, 2.0 * factor, 9.0), (1.0 * factor, 1.0 * factor, 9.0))


ROW = bench.Row(
    "granary",
    {"plain": recording(1.0), "agents": recording(1.1), "variables": recording(1.25)},
    bench.Hunt(
        Cell("cofi", runs=12, seconds=120.0, reports=(Report("member again", "found", run=1), Report("x", "found", run=0))),
        mined=120,
        kept=3,
        states=15,
        fired=10,
        not_fired=2,
        findings=bench.Findings(true=3, false=1),
    ),
    Cell("random", reports=(Report("member again", "not reproduced", run=7), Report("hangs", "found", run=9))),
)


def test_the_slowdown_compares_medians_with_runs_without_agents() -> None:
    assert ROW.slowdown("variables") == {"run_s": 1.25, "workload_s": 1.25}
    assert "granary  1.1x (1.1x)  1.25x (1.25x)" in bench.report([ROW])


def test_a_hunt_shows_invariants_states_and_runs() -> None:
    lines = [line.split() for line in bench.report([ROW]).splitlines()]
    assert ["granary", "120", "3", "15", "10", "2", "2.0", "3", "1", "0", "25%"] in lines


def test_the_last_line_sums_the_hunts_up() -> None:
    assert ROW.hunt
    other = msgspec.structs.replace(ROW.hunt, findings=bench.Findings(true=1, not_judged=2))
    lines = [line.split() for line in bench.report([ROW, bench.Row("dask", hunt=other)]).splitlines()]
    assert ["dask", "120", "3", "15", "10", "2", "2.0", "1", "0", "2", "0%"] in lines
    assert ["total", "240", "6", "30", "20", "4", "4.0", "4", "1", "2", "20%"] in lines


def test_the_first_label_that_matches_judges_a_confirmed_finding() -> None:
    labels = [
        Label("granary", "member again.*", "gossip", "bug", "membership.py"),
        Label("granary", "member.*", "pack", "pack", "the workload ends too early"),
    ]
    sure = Finding("F1", "member again", "it is back", Plan(), (1,), ("cofi",), (), tries=2, hits=2)
    others = [msgspec.structs.replace(sure, symptom=symptom) for symptom in ("member lost", "hangs")]
    doubted = msgspec.structs.replace(sure, hits=0)
    assert bench.Findings.of([sure, *others, doubted], labels) == bench.Findings(true=1, false=1, not_judged=1)


def test_a_symptom_names_the_run_of_each_strategy_that_confirmed_it() -> None:
    lines = [line.split() for line in bench.report([ROW]).splitlines()]
    assert ["granary", "member", "again", "1", "-"] in lines
    assert ["granary", "hangs", "-", "9"] in lines


def test_parts_that_did_not_run_have_no_table() -> None:
    assert bench.report([bench.Row("granary")]) == ""


def test_agents_read_no_variables_in_runs_that_are_compared_with_those_that_do() -> None:
    config = load(pathlib.Path(__file__).resolve().parents[2] / "examples" / "granary")
    assert config.variable_names
    assert not without_variables(config).variable_names


def test_the_options_name_known_targets_and_parts(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.parse(["--targets", "granary", "--parts", "hunt"]) == bench.Options(("granary",), ("hunt",), 600.0, 0)
    with pytest.raises(SystemExit):
        bench.parse(["--targets", "nothing"])
    assert "known are granary, pysyncobj, dask, zookeeper" in capsys.readouterr().err
