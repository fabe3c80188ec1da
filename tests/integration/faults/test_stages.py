"""The operation at which a fault fired is in the trace, also if the fault killed the node."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from integration_project import Project

from undermine.model.injected import Stage
from undermine.model.point import point_of
from undermine.model.run import RunView
from undermine.store.rundir import RunDir, load_view

pytestmark = pytest.mark.slow

SERVING = Stage("serving", functions=["serve"])


def runs(project: Project) -> Iterator[RunView]:
    for folder in sorted((project.results / "latest" / "runs").iterdir()):
        yield load_view(RunDir(folder))


def test_each_fault_of_a_hunt_is_found_in_the_trace(hunted) -> None:
    project, _ = hunted
    faults = [fault for run in runs(project) for fault in run.faults]
    assert {"crash", "reboot"} & {fault.failure for fault in faults}
    for fault in faults:
        assert fault.event is not None, fault
        assert point_of(fault.event) == fault.point
        assert fault.event.t_ns <= fault.t_ns
        assert fault.nodes == ("n1",)
        assert fault.during(fault.frames[0].partition(":")[2])
        assert fault.run_s > 0


def test_a_fault_while_a_client_is_served_is_in_that_stage(hunted) -> None:
    project, _ = hunted
    served = [(run, fault) for run in runs(project) for fault in run.faults_in(SERVING)]
    assert served
    for run, fault in served:
        assert fault.workload_s >= 0
        assert fault in run.faults
        assert fault.before()
