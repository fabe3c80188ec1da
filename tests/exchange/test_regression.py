"""Regression tests that the tool writes: they hold the plan, and no text of a target becomes code."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from ci_samples import HOSTILE, finding, hostile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from undermine.exchange import plan_file, regression
from undermine.model.errors import UserError
from undermine.model.faults import Crash
from undermine.model.finding import Finding
from undermine.model.plan import At, Plan, Step, Then, looser
from undermine.model.point import Point
from undermine.testing import point


def write(folder: Path, found: Finding, **more: Any) -> regression.Written:
    options: dict[str, Any] = {"times": 3, "params": {}, "campaign": "2026-11-18-120000", **more}
    return regression.write(found, folder / "undermine.toml", folder / "tests", **options)


def marker(written: regression.Written) -> dict[str, Any]:
    """The arguments of the one marked function of the file, which does nothing else."""
    tree = ast.parse(Path(written.test).read_text())
    text, imported, function = tree.body
    assert isinstance(text, ast.Expr)
    assert isinstance(imported, ast.Import)
    assert isinstance(function, ast.FunctionDef)
    assert [type(each) for each in function.body] == [ast.Pass]
    (call,) = function.decorator_list
    assert isinstance(call, ast.Call)
    return {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}


def test_the_test_replays_the_plan_of_the_finding(tmp_path: Path) -> None:
    found = finding(when="a store stops")
    written = write(tmp_path, found)
    name = "test_acknowledged_put_lost_when_a_store_stops"
    assert marker(written) == {"config": "../undermine.toml", "replay": f"{name}.plan.json", "times": 3}
    assert Path(written.test) == tmp_path / "tests" / f"{name}.py"
    (plan,) = plan_file.read(Path(written.plan))
    assert plan.id == found.plan.id
    text = Path(written.test).read_text()
    assert f"def {name}():" in text
    assert "# injected: crash before file.write data at app:write#1 on n1\n" in text
    assert "# found as F1 of campaign 2026-11-18-120000: reproduced 3/3, 0/3 without the fault\n" in text


def test_a_test_says_what_happened_in_lines_that_fit(tmp_path: Path) -> None:
    told = "s1 was killed after it wrote a; " + "then: k1 is gone, and so are more " * 9
    lines = Path(write(tmp_path, finding(), told=told).test).read_text().splitlines()
    comment = [line.removeprefix("# ") for line in lines if line.startswith("# ")]
    assert told.strip() in " ".join(comment)
    assert max(map(len, lines)) <= 120


def test_long_names_that_begin_alike_are_two_tests(tmp_path: Path) -> None:
    one, other = (write(tmp_path, finding(symptom=f"worker ends by itself {'x' * 50} at {place}")) for place in "ab")
    assert one.new
    assert other.new


def test_a_finding_that_is_not_reported_is_named(tmp_path: Path) -> None:
    assert write(tmp_path, finding()).doubt == ""
    assert "fails without the fault" in write(tmp_path, finding(2, symptom="flaky one", control_hits=1)).doubt


def test_parameters_of_the_campaign_are_in_the_test(tmp_path: Path) -> None:
    assert marker(write(tmp_path, finding(), params={"mode": "a'b"}))["params"] == {"mode": "a'b"}


def test_a_test_that_exists_is_left_as_it_is(tmp_path: Path) -> None:
    first = write(tmp_path, finding())
    Path(first.test).write_text("edited")
    again = write(tmp_path, finding(4), times=9)
    assert (first.new, again.new, again.test) == (True, False, first.test)
    assert Path(first.test).read_text() == "edited"


def test_a_folder_that_cannot_be_written_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "tests").write_text("a file")
    with pytest.raises(UserError, match="choose another folder with --dir"):
        write(tmp_path, finding())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(text=st.text(), target=st.text(st.characters(exclude_categories=["Cs"])))
def test_no_text_becomes_code(tmp_path: Path, text: str, target: str) -> None:
    found = finding(symptom=text, when="", plan=Plan((Step(At(point(target=target)), Crash()),)))
    written = write(tmp_path, found)
    marker(written)
    (plan,) = plan_file.read(Path(written.plan))
    assert plan.id == found.plan.id
    Path(written.test).unlink()


def test_hostile_text_becomes_no_code(tmp_path: Path) -> None:
    written = write(tmp_path, hostile(), campaign=HOSTILE, told=HOSTILE)
    marker(written)
    assert Path(written.test).parent == tmp_path / "tests"
    assert "\x1b" not in Path(written.test).read_text()


def test_looser_plans_fire_at_the_most_similar_operations_first() -> None:
    first, second = At(point(loc="a:f#1")), At(point(loc="a:g#2"), "after", 3)
    gone = []
    for loose in looser(Plan((Step(Then(first, second), Crash(), until=first),), 7)):
        (step,) = loose.steps
        assert isinstance(step.trigger, Then)
        assert isinstance(step.until, At)
        for now, before in ((step.trigger.first, first), (step.trigger.second, second), (step.until, first)):
            assert now.point.matches(before.point)
            assert (now.place, now.nth) == (before.place, before.nth)
            assert "op" in now.point.as_dict()
        gone.append(set(first.point.as_dict()) - set(step.until.point.as_dict()))
    assert gone == [{"stack"}, {"stack", "target"}, {"stack", "loc"}]
    assert not list(looser(Plan((Step(At(Point.of({"op": "file.write"})), Crash()),)))), "it is loose already"
