"""The tables of `make bench-deminer`, and the runs that they count."""

from __future__ import annotations

import msgspec
import pytest

from bench import deminer as bench
from bench.fcatch import PACKS
from bench.sieve_tables import Cell, Report


def recording(factor: float) -> bench.Recording:
    return bench.Recording((2.0 * factor, 2.0 * factor, 9.0), (1.0 * factor, 1.0 * factor, 9.0))


ROW = bench.Row(
    "granary",
    {"plain": recording(1.0), "test": recording(1.1), "activity": recording(1.25), "value": recording(1.5)},
    (bench.Pairs(1000, 90, {"value": 20, "activity": 60}, 11),),
    {"value": bench.Tiers(20, 0.6, 0.3, 0.9)},
    bench.Hunt(
        Cell(
            "deminer",
            runs=12,
            seconds=120.0,
            reports=(
                Report("store ends", "found", run=3),
                Report("at rest", "found", run=0),
                Report("gone", "not reproduced", run=5),
            ),
        ),
        plans=40,
        fired=11,
        not_fired=1,
    ),
    (Cell("random", reports=(Report("store ends", "found", run=70),)), Cell("prefail")),
)


def test_the_slowdown_compares_medians_with_runs_without_agents() -> None:
    assert ROW.slowdown("value") == {"run_s": 1.5, "workload_s": 1.5}
    assert "granary  1.1x (1.1x)" in bench.report([ROW])


def test_a_bug_names_the_runs_of_each_strategy_that_confirmed_it() -> None:
    lines = bench.report([ROW]).splitlines()
    assert [line.split() for line in lines if "store ends" in line] == [["granary", "store", "ends", "3", "70", "-"]]
    assert not [line for line in lines if "at rest" in line or "gone" in line]


def test_the_tables_show_pairs_and_plans() -> None:
    lines = [line.split() for line in bench.report([ROW]).splitlines()]
    assert ["granary", "1000", "90", "0", "20", "60", "0", "11"] in lines
    assert ["granary", "40", "11", "1", "1", "2.0"] in lines


def test_evidence_is_compared_with_labels() -> None:
    assert ["granary", "value", "20", "0.6", "0.3", "0.9"] in [line.split() for line in bench.report([ROW]).splitlines()]


def test_parts_that_did_not_run_have_no_table() -> None:
    assert bench.report([bench.Row("granary")]) == ""


def test_the_options_name_known_targets_and_parts(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.parse(["--targets", "rq", "--parts", "pairs", "--budget", "90s"]) == bench.Options(("rq",), ("pairs",), 90.0, 0)
    with pytest.raises(SystemExit):
        bench.parse(["--parts", "everything"])
    assert "known are recording, pairs, hunt, rivals" in capsys.readouterr().err


def test_both_benchmarks_use_the_same_releases() -> None:
    assert {target: PACKS[target].get("version", "") for target in bench.PACKS} == bench.PACKS


def test_the_last_line_can_be_read_again() -> None:
    assert msgspec.convert(msgspec.to_builtins(ROW), bench.Row) == ROW
