"""Tests of the durations of held operations, from hand-made events."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from undermine.deployments.slow.device import Slowness
from undermine.model.event import Event
from undermine.model.faults import Hold
from undermine.model.plan import At, Plan, Step
from undermine.model.point import point_of
from undermine.model.run import Moment, SlowOp
from undermine.run.slow_devices import SlowDevices, SlowPeriod
from undermine.run.slow_operations import slow_operations
from undermine.testing import event

JOURNAL = "/data/n1/journal"
READ = event("file.map_read", resource=JOURNAL, t_ns=10, end_ns=20, seq=3)
HELD = Moment(0, READ.node, 10, point_of(READ), JOURNAL, READ.seq, READ.pid)


def measured(*events: Event) -> SlowOp:
    """The held read, measured by these events while the disk is slow."""
    devices = SimpleNamespace(delay_s=10.0, periods={0: SlowPeriod(0, ("disk",), 5)}, seen=lambda step: Slowness())
    plan = Plan((Step(At(HELD.point), Hold("delay")),))
    [op] = slow_operations(plan, cast(SlowDevices, devices), [HELD], events, [], 100)
    return op


@pytest.mark.parametrize(
    ("earlier", "cached"),
    [
        (event("file.create", resource=JOURNAL), True),
        (event("file.open", resource=JOURNAL), False),
        (event("file.create", resource="/data/n1/other"), False),
        (event("file.create", resource=JOURNAL, pid=READ.pid + 1), False),
        (event("file.create", resource=JOURNAL, t_ns=30, seq=4), False),
    ],
)
def test_the_cache_holds_a_file_that_the_process_created_before(earlier: Event, cached: bool) -> None:
    assert measured(earlier, READ).cached == cached


def test_an_operation_without_a_record_proves_nothing() -> None:
    assert measured().unknown == "its agent did not record when it ended"
