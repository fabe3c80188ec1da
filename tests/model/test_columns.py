"""All events of a run as columns: the same events in the same order, however the columns were built."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from undermine.model.codec import read_columns, read_trace
from undermine.model.columns import Columns
from undermine.model.event import Event, ordered

GOLDEN = Path(__file__).parents[2] / "protocol" / "golden"


def _event(seq: int, t_ns: int, op: str = "file.write", node: str = "n1", **more: object) -> Event:
    stack = ("m:f#0", "m:main#2")
    return Event(node, "store", 1, 7, seq, t_ns, op, "m:f#0", 3, stack, thread="MainThread", **more)  # type: ignore[arg-type]


def test_columns_hold_the_same_events_in_time_order() -> None:
    events = [_event(1, 50, end_ns=60, result=9), _event(2, 20, "net.send", "n2", size=5), _event(1, 20, error="EIO")]
    columns = Columns.of(events)
    assert tuple(columns.events()) == ordered(events)
    assert len(columns) == 3
    assert columns.event(1) == ordered(events)[1]
    assert [process.node for process in columns.processes] == ["n1", "n2"]


def test_rows_are_found_by_operation() -> None:
    columns = Columns.of([_event(1, 1), _event(2, 2, "net.send"), _event(3, 3, "net.recv"), _event(4, 4)])
    assert columns.find("net.send", "net.recv").tolist() == [1, 2]
    assert columns.find("net.close").tolist() == []
    assert columns.name(2) == "net.recv"
    assert columns.text(columns.id_of("MainThread")) == "MainThread"
    assert columns.id_of("nobody") == -1


def test_empty_columns() -> None:
    columns = Columns.of([])
    assert len(columns) == 0
    assert columns.find("net.send").tolist() == []
    assert list(columns.events()) == []


def test_columns_and_traces_of_a_file_hold_the_same_events() -> None:
    columns, (trace, _) = read_columns(GOLDEN), read_trace(GOLDEN)
    assert len(trace) >= 3
    assert tuple(columns.events()) == trace.events
    assert tuple(columns.processes) == trace.agents
    assert columns.t.dtype == np.int64
    assert columns.op.dtype == np.int32
