"""Which points a run showed, and how well they recur."""

from __future__ import annotations

import pytest

from undermine.analysis.points import operations_by_kind, points_of, recurrence
from undermine.model.event import Event, Trace
from undermine.model.point import client_point, point_of
from undermine.model.run import Op
from undermine.protocols import PointSeen
from undermine.testing import event, point

LATE = 1_000_000


def seen_in(
    *events: Event, ops: tuple[Op, ...] = (), healed_ns: int = LATE, since_ns: int = 0
) -> tuple[PointSeen, ...]:
    return points_of(Trace(events), ops, healed_ns, since_ns)


def test_the_count_is_the_most_that_one_process_met() -> None:
    events = [event(pid=1, seq=n, t_ns=n) for n in range(3)] + [event(pid=2, seq=n, t_ns=n) for n in range(5)]
    (only,) = seen_in(*events)
    assert only == PointSeen(point_of(events[0]), 5, 1, 0, 1, after=5, frames=("app:write",))


def test_points_are_ranked_by_first_appearance_whatever_the_order_of_the_events() -> None:
    late, early = event(loc="a:late#1", t_ns=20), event(loc="z:early#1", t_ns=10)
    again = event(loc="a:late#1", t_ns=5, line=42)
    assert [(s.point["loc"], s.order) for s in seen_in(late, early)] == [("z:early#1", 0), ("a:late#1", 1)]
    assert [(s.point["loc"], s.line) for s in seen_in(late, early, again)] == [("a:late#1", 42), ("z:early#1", 1)]


def test_points_that_appear_at_the_same_moment_are_always_ranked_alike() -> None:
    events = [event(loc=f"m:f{n}#1") for n in range(5)]
    assert seen_in(*events) == seen_in(*events[::-1])


def test_points_are_also_ranked_by_their_first_occurrence_since_the_last_fault() -> None:
    events = [event(loc=f"m:{name}#1", t_ns=t_ns) for name, t_ns in (("a", 1), ("b", 2), ("b", 12), ("c", 11), ("a", 14))]
    assert {s.point["loc"]: s.rank for s in seen_in(*events, since_ns=10)} == {"m:c#1": 1, "m:b#1": 2, "m:a#1": 3}
    assert [s.rank for s in seen_in(*events, since_ns=13)] == [1, 0, 0]
    assert [s.rank for s in seen_in(*events)] == [0, 0, 0], "there was no fault"


def test_a_point_that_occurs_only_after_healing_does_not_count() -> None:
    before, at, after = event(t_ns=99), event(loc="a:b#1", t_ns=100), event(t_ns=101)
    (only,) = seen_in(before, at, after, healed_ns=100)
    assert (only.point["loc"], only.count) == ("app:write#1", 1)


@pytest.mark.parametrize("op", ["thread.start", "lock.acquire", "queue.get", "sleep", "task.die"])
def test_operations_that_are_only_observed_are_no_points(op: str) -> None:
    assert seen_in(event(op)) == ()


@pytest.mark.parametrize("key", ["loc", "target", "node", "op"])
def test_events_that_differ_in_a_key_are_different_points(key: str) -> None:
    other = {"loc": "m:g#1", "target": "else", "node": "n2", "op": "file.read"}[key]
    assert len(seen_in(event(), event(**{key: other}))) == 2


def test_the_same_place_on_another_call_path_is_another_point() -> None:
    assert len(seen_in(event(stack=("m:f#1", "m:a#1")), event(stack=("m:f#1", "m:b#1")))) == 2


def test_operations_of_clients_are_points_too_but_not_the_final_reads() -> None:
    ops = (Op(0, "c1", "put", "n1", start_ns=5), Op(1, "c2", "put", "n1", start_ns=6), Op(2, "c1", "get", start_ns=4))
    final = Op(3, "c1", "read", "n1", phase="final", start_ns=7)
    found = seen_in(event(t_ns=5_000), ops=(*ops, final))
    assert [(s.point, s.count) for s in found] == [
        (client_point("get", ""), 1),
        (client_point("put", "n1"), 2),
        (point(), 1),
    ]


def test_a_clients_operation_after_healing_does_not_count_either() -> None:
    assert seen_in(ops=(Op(0, "c1", "put", start_ns=100),), healed_ns=100) == ()


def test_a_run_without_events_has_no_points() -> None:
    assert seen_in() == ()


# --- after the last fault


def test_occurrences_after_the_last_fault_are_counted_apart() -> None:
    """The operation that the step fired at began before: it is not met again by having been held."""
    fired_at, later = event(loc="m:f#1", t_ns=90, end_ns=500), event(loc="m:g#1", t_ns=101)
    ops = (Op(0, "c1", "get", start_ns=99, end_ns=300), Op(1, "c1", "put", start_ns=150))
    found = seen_in(fired_at, later, ops=ops, since_ns=100)
    assert {(s.point["loc"], s.count, s.after) for s in found} == {
        ("m:f#1", 1, 0),
        ("m:g#1", 1, 1),
        ("get", 1, 0),
        ("put", 1, 1),
    }


def test_the_moment_of_the_fault_itself_is_not_after_it() -> None:
    (only,) = seen_in(event(t_ns=99), event(t_ns=100), event(t_ns=101), since_ns=100)
    assert (only.count, only.after) == (3, 1)


def test_occurrences_after_the_fault_are_not_added_up_over_processes() -> None:
    times = {1: (10, 20, 30, 40, 110), 2: (120, 130)}
    (only,) = seen_in(*(event(pid=pid, t_ns=t) for pid in times for t in times[pid]), since_ns=100)
    assert (only.count, only.after) == (5, 2)


def test_where_no_fault_fired_everything_is_after_it() -> None:
    found = seen_in(event(t_ns=0), event(t_ns=5), ops=(Op(0, "c1", "put"),))
    assert sorted((s.count, s.after) for s in found) == [(1, 1), (2, 2)]


def test_after_healing_nothing_is_after_the_fault_either() -> None:
    (only,) = seen_in(event(t_ns=50), event(t_ns=150), healed_ns=120, since_ns=100)
    assert (only.count, only.after) == (1, 0)


# --- first reads and frames


def test_a_point_that_only_went_on_reading_is_marked() -> None:
    reads = [event("file.read", loc=f"m:{name}#1", t_ns=n) for n, name in enumerate(("head", "body", "tail"))]
    assert [s.first for s in seen_in(*reads)] == [True, False, False]


def test_once_a_first_read_is_enough() -> None:
    order = ("head", "body", "body", "body"), ("f", "f", "other", "other")
    reads = [
        event("file.read", loc=f"m:{name}#1", target="data", resource=file, t_ns=n)
        for n, (name, file) in enumerate(zip(*order, strict=True))
    ]
    assert [(s.point["loc"], s.count, s.first) for s in seen_in(*reads)] == [
        ("m:head#1", 1, True),
        ("m:body#1", 3, True),
    ]


def test_operations_of_clients_are_first_and_have_no_frames() -> None:
    (only,) = seen_in(ops=(Op(0, "c1", "read", start_ns=5),))
    assert (only.first, only.frames) == (True, ())


def test_frames_are_the_functions_of_the_stack_innermost_first() -> None:
    (only,) = seen_in(event(stack=("m:C.f.<locals>.<lambda>#12", "m:C.f#0", "__main__:main")))
    assert only.frames == ("m:C.f.<locals>.<lambda>", "m:C.f", "__main__:main")


# --- recurrence


def test_recurrence_counts_what_every_run_showed_by_node() -> None:
    rows = [("n1", 3), ("n1", 2), ("n2", 3)]
    items = [PointSeen(point(node=node, loc=f"m:f{n}#1"), 1, runs, n) for n, (node, runs) in enumerate(rows)]
    found = recurrence(items, 3)
    assert (found.runs, found.points, found.in_all) == (3, 3, 2)
    assert found.by_node == {"n1": (2, 1), "n2": (1, 1)}
    assert found.share == pytest.approx(2 / 3)


def test_recurrence_takes_a_one_pass_iterable_and_nothing_at_all() -> None:
    assert recurrence(iter([PointSeen(point(), 1, 1, 0)]), 1).in_all == 1
    assert recurrence([], 3).share == 0.0


def test_operations_are_counted_and_sorted_by_name() -> None:
    counts = operations_by_kind([event("net.send"), event("file.read"), event("net.send")])
    assert list(counts.items()) == [("file.read", 1), ("net.send", 2)]
