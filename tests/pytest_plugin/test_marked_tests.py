"""Hunts and replays as tests: what passes, what fails and with which words. No cluster is started; the answers are made."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from ci_samples import HOSTILE, finding, results

from undermine import api
from undermine.analysis.coverage import Reached
from undermine.campaign.replaying import ReplayedRun, ReplayResult
from undermine.config.schema import Config
from undermine.model.errors import ClusterError
from undermine.model.finding import Finding
from undermine.model.plan import Plan
from undermine.model.run import Verdict
from undermine.report import html

pytest_plugins = ["pytester"]

TOML = '[roles.kv]\nnodes = ["n1"]\ncommand = "true {port}"\n[params]\nsize = 1\n[workload]\ncommand = "true"\n'
HUNT = """
import pytest

@pytest.mark.undermine(budget="60s")
def test_hunt():
    pass

def test_other():
    pass
"""
REPLAY = """
import pytest

@pytest.mark.undermine(replay="plan.json", times=2)
def test_replay():
    print("the body ran")
"""
PLAN_JSON = """{"steps": [{
    "trigger": {"trigger": "at", "point": {"op": "file.write", "node": "n1", "stack": "abc"}}, "fault": {"fault": "crash"}
}]}"""


@pytest.fixture(autouse=True)
def project(pytester: pytest.Pytester) -> Path:
    pytester.makefile(".toml", undermine=TOML)
    pytester.path.joinpath("plan.json").write_text(PLAN_JSON)
    return pytester.path


class Tool:
    """Answers hunts and replays, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Config, dict[str, Any]]] = []
        self.findings: tuple[Finding, ...] = ()
        self.answer: Callable[[Plan], ReplayResult] = lambda plan: replayed(plan)

    def hunt(self, config: Config, **options: Any) -> api.HuntResult:
        self.asked.append((config, options))
        return api.HuntResult(str(config.dir / "campaigns/c1"), self.findings, Reached(runs=3), {"fired": 3}, 1.0)

    def replay_plans(self, config: Config, plans: Sequence[Plan], times: int, **options: Any) -> tuple[ReplayResult, ...]:
        self.asked.append((config, {"plans": tuple(plans), "times": times, **options}))
        return tuple(self.answer(plan) for plan in plans)


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Tool:
    made = Tool()
    monkeypatch.setattr(api, "hunt", made.hunt)
    monkeypatch.setattr(api, "replay_plans", made.replay_plans)
    monkeypatch.setattr(api, "results", lambda config, campaign, options: results(*made.findings, options=options))
    monkeypatch.setattr(html, "write_report", lambda folder: folder / "report.html")
    return made


def replayed(plan: Plan, *symptoms: str, fired: int = 2, status: str = "fired") -> ReplayResult:
    verdicts = tuple(Verdict("fail", f"text of {symptom}", symptom, ("a line",), "ledger") for symptom in symptoms)
    run = ReplayedRun(1, "fault", fired > 0, status, "no such call", "; ".join(symptoms), verdicts)
    return ReplayResult("", plan, 2, fired, len(symptoms) and fired, symptoms, runs=(run,), folder="/runs")


# --- hunts


def test_a_hunt_without_findings_passes(pytester: pytest.Pytester, tool: Tool) -> None:
    pytester.makepyfile(HUNT)
    pytester.runpytest_inprocess("--strict-markers").assert_outcomes(passed=2)
    (config, options) = tool.asked[0]
    assert Path(config.project) == pytester.path
    assert options["budget_s"] == 60


def test_a_hunt_with_findings_fails_with_their_text_alone(pytester: pytest.Pytester, tool: Tool) -> None:
    tool.findings = (finding(), finding(2, symptom="flaky one", control_hits=1))
    pytester.makepyfile(HUNT)
    done = pytester.runpytest_inprocess()
    done.assert_outcomes(failed=1, passed=1)
    text = done.stdout.str()
    assert "undermine: 1 finding in 3 runs; report: " in text
    assert "F1 k1 was acknowledged and is gone\ninjected  crash before file.write data" in text
    assert "undermine replay F1 -c " in text
    assert "--campaign c1" in text
    assert "flaky" not in text
    assert "pytest_plugin.py" not in text, "no traceback through the tool"


def test_the_options_of_pytest_apply(pytester: pytest.Pytester, tool: Tool) -> None:
    tool.findings = (finding(),)
    pytester.makepyfile(HUNT)
    pytester.runpytest_inprocess("-k", "other").assert_outcomes(passed=1, deselected=1)
    pytester.runpytest_inprocess("--collect-only")
    assert not tool.asked, "nothing hunts unless its test runs"
    pytester.runpytest_inprocess("-x").assert_outcomes(failed=1)
    pytester.makepyfile(HUNT.replace("@pytest", "@pytest.mark.skip\n@pytest"))
    pytester.runpytest_inprocess().assert_outcomes(skipped=1, passed=1)
    pytester.makepyfile(HUNT.replace("@pytest", "@pytest.mark.xfail\n@pytest"))
    pytester.runpytest_inprocess().assert_outcomes(xfailed=1, passed=1)
    assert len(tool.asked) == 2


def test_a_finding_is_in_the_junit_file_of_pytest(pytester: pytest.Pytester, tool: Tool) -> None:
    tool.findings = (finding(),)
    pytester.makepyfile(HUNT)
    pytester.runpytest_inprocess("--junitxml=j.xml")
    case = next(case for case in ET.parse(pytester.path / "j.xml").iter("testcase") if case.attrib["name"] == "test_hunt")
    assert "k1 was acknowledged and is gone" in "".join(case.itertext())
    assert [found.attrib for found in case.iter("property")] == [{"name": "undermine_campaign", "value": "c1"}]


def test_a_hostile_text_is_cleaned(pytester: pytest.Pytester, tool: Tool) -> None:
    tool.findings = (finding(title=HOSTILE, symptom=HOSTILE),)
    tool.answer = lambda plan: replayed(plan, HOSTILE)
    pytester.makepyfile(HUNT, test_replayed=REPLAY)
    done = pytester.runpytest_inprocess("--color=no")
    done.assert_outcomes(failed=2, passed=1)
    assert "owned" in done.stdout.str()
    assert done.stdout.str().replace("\n", "").isprintable()


def test_a_test_that_takes_the_result_judges_it_itself(pytester: pytest.Pytester, tool: Tool) -> None:
    tool.findings = (finding(),)
    pytester.makepyfile("""
        import pytest
        pytestmark = pytest.mark.undermine(max_runs=5, strategies=["random"], seed=7, params={"size": 2},
                                            changed_since="main", baseline="known.toml")

        def test_own(undermine_result):
            assert undermine_result.hunt.coverage.runs == 3
            assert [found.id for found in undermine_result.hunt.believed] == ["F1"]

        def test_usual(undermine_result):
            undermine_result.check()
    """)
    pytester.runpytest_inprocess().assert_outcomes(passed=1, failed=1)
    (config, options) = tool.asked[0]
    assert config.params == {"size": 2}
    assert (options["runs_max"], options["strategies"], options["seed"]) == (5, ("random",), 7)
    assert (options["changed_since"], options["baseline"]) == ("main", pytester.path / "known.toml")


# --- replays


def test_a_replay_without_a_failure_passes_and_the_body_runs(pytester: pytest.Pytester, tool: Tool) -> None:
    pytester.makepyfile(REPLAY)
    done = pytester.runpytest_inprocess("-s")
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines("*the body ran*")
    ((config, options),) = tool.asked
    assert (options["times"], options["control"]) == (2, False)
    assert config.dir.parent == pytester.path / ".undermine" / "pytest"


def test_a_failure_that_comes_back_fails_the_test(pytester: pytest.Pytester, tool: Tool) -> None:
    tool.answer = lambda plan: replayed(plan, "put lost", "node ends")
    pytester.makepyfile(REPLAY)
    done = pytester.runpytest_inprocess()
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines([
        "undermine: failed in 2 of 2 runs with the fault",
        "injected  crash before file.write*",
        "evidence  text of put lost",
        "evidence  a line",
        "runs      /runs",
    ])


def test_a_moment_that_is_gone_is_replaced_by_the_most_similar_one(pytester: pytest.Pytester, tool: Tool) -> None:
    tool.answer = lambda plan: replayed(plan, fired=0 if plan.steps[0].trigger.point.get("stack") else 2)  # type: ignore[union-attr]
    pytester.makepyfile(REPLAY)
    done = pytester.runpytest_inprocess()
    done.assert_outcomes(passed=1, warnings=1)
    done.stdout.fnmatch_lines("*the exact moment no longer exists, so the test used this plan: crash before file.write on n1;*")


def test_a_fault_that_never_fires_fails_the_test(pytester: pytest.Pytester, tool: Tool) -> None:
    tool.answer = lambda plan: replayed(plan, fired=0, status="not_fired")
    pytester.makepyfile(REPLAY)
    done = pytester.runpytest_inprocess()
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(
        ["undermine: the fault never fired in 2 runs", "run 1     not_fired: no such call", "hint *remove this test"]
    )


def test_replays_of_several_tests_have_folders_of_their_own(pytester: pytest.Pytester, tool: Tool) -> None:
    pytester.makepyfile(REPLAY, test_other=REPLAY)
    pytester.runpytest_inprocess().assert_outcomes(passed=2)
    assert len({config.dir for config, _ in tool.asked}) == 2


# --- mistakes


@pytest.mark.parametrize(
    ("marker", "text"),
    [
        ("budjet='60s'", "unexpected keyword argument 'budjet'; its arguments are config, budget"),
        ("config='no.toml'", "no.toml"),
        ("replay='no.json'", "no.json cannot be read"),
        ("replay='undermine.toml'", "not a plan file"),
        ("budget='soon'", "budget "),
        ("budget='0s'", "budget must be greater than zero"),
    ],
)
def test_a_mistake_is_one_sentence(pytester: pytest.Pytester, tool: Tool, marker: str, text: str) -> None:
    pytester.makepyfile(f"import pytest\n\n@pytest.mark.undermine({marker})\ndef test_x(): pass\n")
    done = pytester.runpytest_inprocess()
    done.assert_outcomes(failed=1)
    assert text in done.stdout.str()
    assert "Traceback" not in done.stdout.str()
    assert "During handling" not in done.stdout.str()


def test_a_cluster_that_fails_without_a_fault_fails_the_test(
    pytester: pytest.Pytester, tool: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ClusterError("no fault-free run passes")

    monkeypatch.setattr(api, "hunt", fail)
    pytester.makepyfile(HUNT)
    done = pytester.runpytest_inprocess()
    done.assert_outcomes(failed=1, passed=1)
    done.stdout.fnmatch_lines("undermine: no fault-free run passes")


def test_the_result_needs_the_marker(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_x(undermine_result): pass")
    done = pytester.runpytest_inprocess()
    done.assert_outcomes(errors=1)
    assert "needs @pytest.mark.undermine(config=…)" in done.stdout.str()


def test_a_suite_without_such_tests_imports_nothing_of_the_tool(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import sys

        def test_x():
            assert "undermine.pytest_plugin" in sys.modules
            assert [name for name in sys.modules if name.startswith("undermine.")] == ["undermine.pytest_plugin"]
            assert not {"numpy", "msgspec", "typer", "rich", "jinja2"} & set(sys.modules)
    """)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:hypothesispytest", "-p", "no:xdist"]
    done = subprocess.run(command, cwd=pytester.path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
