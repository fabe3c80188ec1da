"""The released bugs that must be found: the file is valid and names the expected symptom, never the place."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from bench.case import Case, Found, Hunt, Watcher, cases, configuration
from undermine import plugins
from undermine.campaign.running import Notice
from undermine.checkers.processes import Deaths, Exits
from undermine.config.schema import parse_duration
from undermine.exchange import plan_file
from undermine.model.run import NodeExit
from undermine.testing import event, run_view

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CODE = re.compile(r"[a-z][A-Z]|_|\w\(|\.py\b|#\d|\w:\w|\b[a-z]+\.[a-z]+\b")
"""Matches names of functions, variables and places."""

every_case = pytest.mark.parametrize("case", cases().values(), ids=lambda case: case.id)


@pytest.fixture
def fetched(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The case's releases seem to be fetched: a JVM pack whose class path is empty cannot be loaded."""
    shutil.copytree(EXAMPLES / case.pack, tmp_path / case.pack, ignore=shutil.ignore_patterns("versions", "client", ".undermine"))
    versions = tmp_path / case.pack / "versions"
    for params in (case.bad, case.good):
        (versions / params["version"]).mkdir(parents=True, exist_ok=True)
        (versions / params["version"] / "release.jar").touch()
    monkeypatch.setattr("bench.case.EXAMPLES", tmp_path)


def test_every_case_has_a_unique_id() -> None:
    text = (Path(__file__).resolve().parents[2] / "bench" / "cases.toml").read_text()
    assert text.count("[[case]]") == len(cases()) > 0


@every_case
@pytest.mark.usefixtures("fetched")
def test_a_case_can_be_run(case: Case) -> None:
    assert parse_duration(case.budget) > 0
    assert case.bad != case.good
    for params in (case.bad, case.good):
        config = configuration(case, params)
        assert config.params | params == config.params
        for name, value in case.faults.items():
            assert getattr(config.faults, name) == tuple(value)
        assert [strategy.name for strategy in plugins.strategies(config, (case.strategy,))] == [case.strategy]


@every_case
def test_a_case_names_no_code_of_the_target(case: Case) -> None:
    assert not CODE.search(case.finding)
    assert not CODE.search(re.sub(r"\b[A-Z]\w+Error\b", "", case.symptom))  # a raised error is part of a symptom
    assert " at " not in case.symptom.partition("dies with")[2]


@pytest.mark.parametrize(
    "text", ["it dies in readAll", "in read_all", "at app.py", "app:run#3", "send() fails", "app.run"]
)
def test_names_of_code_are_recognised(text: str) -> None:
    assert CODE.search(text)


@every_case
@pytest.mark.usefixtures("fetched")
def test_a_pack_names_no_module_of_its_target(case: Case) -> None:
    """The pack configures no operation or place that would give the bug away, and variables only for cofi, which needs some,
    unless the hunt chooses them itself."""
    pack = EXAMPLES / case.pack
    config = configuration(case, case.bad)
    assert not any(role.operations for role in config.roles.values())
    assert bool(config.variable_names) == (case.strategy == "cofi" and case.variables == "pack")
    assert config.auto_variables == (case.variables == "auto")
    named = re.sub(r"(?m)^\[variables\](.|\n)*?(?=^\[)", "", (pack / "undermine.toml").read_text())
    text = (pack / "hunt.py").read_text() + named.replace(f"examples/{case.pack}.", "")
    assert not re.search(rf"\b{case.pack}\.[a-z_]", text), "what it exports to everybody begins with a capital letter"


@every_case
def test_a_case_expects_a_symptom_that_a_checker_reports(case: Case) -> None:
    """The symptom is a dead thread whose process lives on, a process that ended with certain words, or one of the pack's
    checkers."""
    assert not re.search(case.symptom, "final reads fail after healing: TimeoutError")
    if " ends by itself " in case.symptom:
        ended = Exits().check(run_view(exits=(NodeExit("n1", 1, 1, 1, 100, False, "other words"),))).symptom
        assert case.symptom.startswith(f"^{ended.partition(': ')[0]}: ")
        assert not re.search(case.symptom, ended)
        return
    if not case.symptom.startswith("^thread"):
        said_by_pack = re.findall(r"[a-z][a-z ]+[a-z]", case.symptom)
        assert said_by_pack
        assert all(words in (EXAMPLES / case.pack / "hunt.py").read_text() for words in said_by_pack)
        return
    said = {name: _symptom(name, "thread.die") for name in ("OSError", "AttributeError", "TypeError")}
    assert any(re.search(case.symptom, symptom) for symptom in said.values())
    assert not re.search(case.symptom, _symptom("OSError", "task.die"))


def _symptom(error: str, op: str) -> str:
    died = event(op, loc="app:tick#1", target=error, role="node", resource="it went wrong")
    return Deaths().check(run_view(events=(died,))).symptom


# -- ending a hunt


SYMPTOM = "thread dies"


def watcher() -> Watcher:
    return Watcher(Hunt("exhaustive", {"version": "1"}, 0), f"^{SYMPTOM}$")


def done(run: int, strategy: str = "exhaustive", symptom: str = "", *more: str) -> Notice:
    told = {"run": run, "strategy": strategy, "status": "fired", "symptom": symptom}
    return Notice("done", f"plan {run}", told | {"symptoms": [symptom, *more] if symptom else []})


def confirmed(symptom: str) -> Notice:
    return Notice("confirmed", "", {"symptom": symptom, "rate": "2/2"})


def test_the_expected_finding_ends_a_hunt_and_is_dated_by_its_first_failing_run() -> None:
    watch = watcher()
    for news in (done(1, "baseline"), done(2), done(3, symptom=SYMPTOM), done(4), done(5, "confirm", SYMPTOM)):
        watch(news)
    with pytest.raises(Found):
        watch(confirmed(SYMPTOM))
    assert (watch.hunt.found, watch.hunt.runs, watch.hunt.runs_all, watch.hunt.plan) == (True, 2, 5, "plan 3")


def test_another_finding_does_not_end_a_hunt() -> None:
    watch = watcher()
    watch(done(1, symptom="something else"))
    watch(confirmed("something else"))
    assert not watch.hunt.found
    assert watch.hunt.others == ["something else (plan 1, 2/2)"]


def test_a_lesser_finding_of_the_same_kind_does_not_end_a_hunt() -> None:
    watch = Watcher(Hunt("exhaustive", {"version": "1"}, 0), SYMPTOM, "^serves nobody$")
    watch(done(1, "exhaustive", f"{SYMPTOM} while it stops", "stays"))
    watch(confirmed(f"{SYMPTOM} while it stops"))
    assert not watch.hunt.found
    watch(done(2, "exhaustive", f"{SYMPTOM} at work", "serves nobody"))
    with pytest.raises(Found):
        watch(confirmed(f"{SYMPTOM} at work"))


def test_a_finding_that_no_plan_of_the_strategy_showed_does_not_count() -> None:
    watch = watcher()
    watch(done(1, "benign", SYMPTOM))
    watch(confirmed(SYMPTOM))
    assert not watch.hunt.found


def test_every_plan_of_a_finding_can_be_read_and_is_named_on_its_page() -> None:
    files = sorted(EXAMPLES.glob("*/plans/*.json"))
    assert files
    for file in files:
        (plan,) = plan_file.read(file)
        assert plan.steps
        pages = EXAMPLES.parent / "docs" / "findings"
        assert f"examples/{file.relative_to(EXAMPLES)}" in (pages / f"{file.parts[-3]}.md").read_text()
