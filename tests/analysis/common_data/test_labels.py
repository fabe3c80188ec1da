"""Labels name operations of their own process, or of the process that it was forked from."""

from __future__ import annotations

from undermine.analysis.common_data.labels import LABELS, Label, labels_by_row
from undermine.model.columns import Columns
from undermine.testing import event


def test_labels_belong_to_the_operation_with_their_number_in_their_process() -> None:
    columns = Columns.of(
        [
            event("net.recv", pid=100, seq=1, t_ns=1),
            event("file.write", pid=100, seq=2, t_ns=2),
            event("net.recv", pid=200, seq=1, t_ns=3),
            event("file.write", pid=200, seq=2, t_ns=4),
            event(LABELS, pid=100, seq=3, t_ns=5, size=2, resource="1:0-4 1:8-9"),
            event(LABELS, pid=200, seq=3, t_ns=6, size=2, resource="100_1:2-3 1:0-1"),
            event(LABELS, pid=200, seq=4, t_ns=7, size=99, resource="1:0-1"),
        ]
    )
    assert labels_by_row(columns) == {1: [Label(0, 0, 4), Label(0, 8, 9)], 3: [Label(0, 2, 3), Label(2, 0, 1)]}


def test_a_label_that_cannot_be_read_is_left_out() -> None:
    texts = "x:1-2 99:1-2 1:5-5 1 7_1:0-4 -1:0-4 1:0-² 1:2-3"
    columns = Columns.of([event("net.recv", seq=1, t_ns=1), event(LABELS, seq=2, t_ns=2, size=1, resource=texts)])
    assert labels_by_row(columns) == {0: [Label(0, 2, 3)]}


def test_a_run_without_labels_has_none() -> None:
    assert labels_by_row(Columns.of([event()])) == {}
