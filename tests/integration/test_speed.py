"""Faster clocks in a whole run: clients live in the target's time too, and the tool's own faults last the N-th part."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from integration_project import LOST, TOML

from undermine.config.load import load
from undermine.model.faults import Pause
from undermine.model.plan import At, Plan, Step
from undermine.model.point import REST, phase_point
from undermine.model.run import Conditions
from undermine.run.engine import Engine, open_engine

pytestmark = pytest.mark.slow
SPEED = 50
REST_S = 100.0
"""By clients' clocks: 2 s of true time."""
HUNT = f"""
import json
import time
import undermine

@undermine.workload
def workload(s):
    def rest():
        begun = time.monotonic()
        time.sleep({REST_S})
        return time.monotonic() - begun
    s.attempt("rest", rest, client="c1")

@undermine.final
def final(s):
    s.attempt("clock", time.monotonic, client="c1")
"""


@pytest.fixture
def engine(project) -> Iterator[Engine]:
    (project.folder / "hunt.py").write_text(HUNT)
    project.write(TOML.replace("hang_s = 2", f"hang_s = 300\nspeed = {SPEED}").replace("timeout_s = 5", "timeout_s = 90"))
    with open_engine(load(project.folder), project.results / "test") as opened:
        yield opened


def test_clients_have_the_same_clock_as_nodes_and_their_history_has_true_times(engine: Engine, tmp_path: Path) -> None:
    begun_ns = time.monotonic_ns()
    view = engine.runner.execute(tmp_path / "run", 1, Plan(), conditions=Conditions(speed=SPEED))
    ended_ns = time.monotonic_ns()
    rest, clock = view.history
    assert rest.value >= REST_S - 0.1
    assert rest.value / SPEED <= (rest.end_ns - rest.start_ns) / 1e9 < REST_S
    assert begun_ns < rest.start_ns < rest.end_ns < clock.start_ns < ended_ns
    assert clock.value > ended_ns / 1e9, "the final reads have the faster clock too"
    assert view.record.conditions.speed == SPEED


def test_a_fault_of_the_tool_lasts_the_nth_part(engine: Engine, tmp_path: Path) -> None:
    step = Step(At(phase_point(REST)), Pause(REST_S / 2, ("n1",)))
    view = engine.runner.execute(tmp_path / "run", 1, Plan((step,)), conditions=Conditions(speed=SPEED))
    assert view.record.status == "fired", view.record.reason
    assert view.plan.steps == (step,), "the record has the plan in the target's time"
    (lasted,) = view.record.timing.faults
    assert (lasted.speed, lasted.why) == (SPEED, "its time")
    assert REST_S / 2 / SPEED <= lasted.seconds < REST_S / 2


def test_a_bug_found_at_a_higher_speed_is_confirmed_at_speed_1(project) -> None:
    project.write(TOML.replace("hang_s = 2", "hang_s = 10\nspeed = 5"))
    done = project.run("hunt", "-s", "exhaustive", "--max-runs", "4", "--budget", "10m")
    assert done.returncode == 1, done.stdout + done.stderr
    found = next(one for one in project.json("report")["findings"] if one["symptom"] == LOST)
    assert found["confirmed"]
    records = [json.loads(path.read_text()) for path in sorted(project.results.glob("campaigns/*/runs/*/record.json"))]
    speeds = {record["plan"]["strategy"]: record["conditions"]["speed"] for record in records}
    assert (speeds["exhaustive"], speeds["confirm"], speeds["control"]) == (5, 1, 1)
    project.write(TOML.replace("hang_s = 2", "hang_s = 10"))
    refused = project.run("hunt", "--resume")
    assert "run.speed was removed" in refused.stderr
