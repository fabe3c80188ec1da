"""Accesses to the heap in the example: the permission to commit, and names that agree between two runs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.heap import agreement
from undermine.config.load import load
from undermine.model.codec import read_columns
from undermine.model.columns import Columns
from undermine.model.event import Event
from undermine.model.faults import Crash
from undermine.model.plan import At, Plan, Step
from undermine.model.point import point_of
from undermine.model.run import Conditions, RunView
from undermine.run.engine import Engine, open_engine

pytestmark = pytest.mark.slow
GRANARY = Path(__file__).resolve().parents[2] / "examples" / "granary"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    project = tmp_path_factory.mktemp("granary") / "project"
    shutil.copytree(GRANARY, project, ignore=shutil.ignore_patterns(".undermine", "__pycache__"))
    with open_engine(load(project), project / "results") as opened:
        yield opened


def execute(engine: Engine, folder: Path, *steps: Step) -> tuple[RunView, Columns]:
    view = engine.runner.execute(folder, 1, Plan(steps), conditions=Conditions(observe_all=True, heap=True))
    return view, read_columns(folder / "trace")


@pytest.fixture(scope="module")
def fault_free(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> tuple[RunView, Columns]:
    return execute(engine, tmp_path_factory.mktemp("fault-free") / "run")


def permissions(columns: Columns) -> list[Event]:
    """The accesses to the records that say which attempt may commit."""
    found = [event for event in columns.events() if event.kind == "heap" and event.resource.endswith("['permitted']")]
    return [event for event in found if event.loc.startswith("granary.jobs:Jobs.can_commit#")]


def test_the_workload_goes_well_and_names_agree(engine: Engine, fault_free: tuple[RunView, Columns], tmp_path: Path) -> None:
    view, columns = fault_free
    assert view.record.status == "fired"
    assert {op.status for op in view.history} == {"ok"}
    assert view.trace.problems == ()
    _, other = execute(engine, tmp_path / "other")
    agreed = agreement(columns, other)
    assert agreed.accesses > 1000
    assert agreed.masked >= 0.95 * agreed.accesses


def test_two_attempts_access_the_same_permission(
    engine: Engine, fault_free: tuple[RunView, Columns], tmp_path: Path
) -> None:
    """The store of the first attempt dies between permission and commit. In the handler of the second attempt, the master
    reads what it wrote in that of the first (FCatch, Figure 1)."""
    renames = [e for e in fault_free[1].events() if e.op == "file.rename" and "granary.tasks:TaskRunner._run" in str(e.stack)]
    wrote = [event for event in permissions(fault_free[1]) if event.op == "heap.write"]
    assert renames
    assert wrote
    _, columns = execute(engine, tmp_path / "run", Step(At(point_of(renames[0])), Crash()))
    accesses = permissions(columns)
    writes = {event.resource: event for event in accesses if event.op == "heap.write"}
    reads = [event for event in accesses if event.op == "heap.read"]
    unset = {(event.resource, event.loc) for event in reads if event.content == "None"}
    later = [event for event in reads if event.content == "0" and (event.resource, event.loc) in unset]
    assert later, "where the first attempt found no permission, the second one finds that of the first"
    assert writes[later[0].resource].t_ns < later[0].t_ns
    assert later[0].resource in {event.resource for event in wrote}, "the fault-free run has the same name for it"
