"""Watching a workload while it runs: its history as it grows, and the health of nodes."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import msgspec
import pytest
from waiting import HANG_S

from undermine.model.run import Op, OpStatus
from undermine.run.watching import PROBE_S_MAX, SAMPLES_MAX, HealthLog, Operations


class Clock:
    """Stands still unless it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Watched:
    """A history that a test writes, and who follows it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "history.jsonl"
        self.clock = Clock()
        self.operations = Operations(self.path, self.clock)

    def write(self, data: bytes) -> None:
        with open(self.path, "ab") as stream:
            stream.write(data)
        self.operations.follow()

    def op(self, index: int, status: OpStatus = "pending", node: str = "") -> None:
        self.write(line(index, status, node=node))

    def later(self, seconds: float) -> None:
        self.clock.now += seconds


def line(index: int, status: OpStatus = "pending", value: object = None, node: str = "") -> bytes:
    return msgspec.json.encode(Op(index, "c1", "put", node, status=status, value=value)) + b"\n"


@pytest.fixture
def seen(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


# --- operations


def test_pending_operations_and_successes_are_known_as_they_are_written(seen: Watched) -> None:
    seen.op(0)
    seen.op(1)
    assert seen.operations.state == ({0, 1}, 0)
    seen.op(0, "ok")
    seen.op(1, "unknown")
    seen.op(2)
    assert seen.operations.state == ({2}, 1)


def test_only_what_was_added_is_read(seen: Watched) -> None:
    for index in range(50):
        seen.op(index)
        seen.op(index, "ok")
    size = seen.path.stat().st_size
    os.truncate(seen.path, 0)
    os.truncate(seen.path, size)  # what was read is gone
    seen.op(50, "ok")
    assert seen.operations.successes == 51


def test_a_line_that_is_still_being_written_counts_when_it_is_whole(seen: Watched) -> None:
    whole = line(0, "ok", "x" * 100)
    seen.write(whole[:70])
    assert seen.operations.successes == 0
    seen.write(whole[70:])
    assert seen.operations.successes == 1


NESTED = b'{"index":0,"value":' + b"[" * 100_000 + b"\n"


@pytest.mark.parametrize(
    "garbage",
    [b"{\n", b"\xff\xfe\n", b"[]\n", b'{"index":"x"}\n', b'{"index":0,"status":"?"}\n', NESTED],
    ids=["torn", "no text", "no object", "no number", "no status", "nested"],
)
def test_lines_that_are_no_operations_are_skipped(seen: Watched, garbage: bytes) -> None:
    seen.write(line(0) + garbage + line(0, "ok"))
    assert seen.operations.state == (frozenset(), 1)


def test_a_history_longer_than_what_is_read_at_once_is_read_whole(seen: Watched) -> None:
    seen.write(b"".join(line(index, "ok", "x" * 1000) for index in range(6000)))
    assert seen.operations.successes == 6000


def test_without_a_history_nothing_is_known(seen: Watched) -> None:
    seen.operations.follow()
    assert not seen.operations.kept
    seen.write(b"")
    assert seen.operations.kept


def test_quiet_is_the_time_since_the_last_success(seen: Watched) -> None:
    seen.later(3)
    assert seen.operations.quiet_s() == 3
    seen.op(0, "fail")
    assert seen.operations.quiet_s() == 3
    seen.op(1, "ok")
    seen.later(2)
    assert (seen.operations.quiet_s(), seen.operations.age_s()) == (2, 5)


def test_who_waits_longest_is_known(seen: Watched) -> None:
    assert seen.operations.waited_s() == 0
    seen.op(0)
    seen.later(2)
    seen.op(1)
    seen.later(1)
    assert seen.operations.waited_s() == 3
    seen.op(0, "fail")
    assert seen.operations.waited_s() == 1


def test_a_stall_needs_somebody_who_waits(seen: Watched) -> None:
    seen.later(10)
    assert not seen.operations.stalled(8)
    seen.op(0)
    assert seen.operations.stalled(8)
    seen.op(1, "ok")
    assert not seen.operations.stalled(8)


def test_a_workload_that_still_gets_on_has_not_stalled_though_somebody_waits(seen: Watched) -> None:
    seen.op(0)
    seen.later(20)
    seen.op(1, "ok")
    seen.later(1)
    assert not seen.operations.stalled(2)


def test_answers_are_those_of_the_operations_that_were_pending(seen: Watched) -> None:
    seen.op(0)
    seen.op(1)
    then = seen.operations.state
    seen.op(2)
    seen.op(2, "ok")
    seen.op(0, "ok")
    assert not seen.operations.answered_since(then)
    seen.op(3)
    seen.op(1, "fail")
    assert seen.operations.answered_since(then), "later operations do not count"


def test_if_none_was_pending_a_success_shows_that_clients_are_answered(seen: Watched) -> None:
    seen.op(0, "ok")
    then = seen.operations.state
    seen.op(1)
    assert not seen.operations.answered_since(then)
    seen.op(1, "fail")
    assert not seen.operations.answered_since(then)
    seen.op(2, "ok")
    assert seen.operations.answered_since(then)


def test_a_client_that_waits_long_is_suspicious_as_long_as_it_waits(seen: Watched) -> None:
    seen.op(0)
    seen.later(1)
    assert not seen.operations.suspicious(1)
    seen.later(0.5)
    assert [seen.operations.suspicious(1) for _ in range(2)] == [True, True]
    seen.op(0, "ok")
    assert not seen.operations.suspicious(1)


def test_a_slow_failure_is_suspicious_once_and_a_quick_one_after_a_success_never(seen: Watched) -> None:
    seen.op(0)
    seen.later(1.5)
    seen.op(0, "unknown")
    assert [seen.operations.suspicious(1) for _ in range(2)] == [True, False]
    seen.op(1, "ok")
    seen.op(2)
    seen.later(0.1)
    seen.op(2, "fail")
    assert not seen.operations.suspicious(1)


def test_quick_failures_are_suspicious_when_nothing_else_came_for_long(seen: Watched) -> None:
    for index in range(3):
        seen.op(index)
        seen.later(0.4)
        seen.op(index, "fail")
        assert seen.operations.suspicious(1) == (index == 2)
    seen.op(3)
    assert seen.operations.suspicious(1), "it still waits"
    seen.op(3, "ok")
    seen.op(4, "fail")
    assert not seen.operations.suspicious(1)


def test_a_client_that_is_served_at_one_node_may_get_only_errors_from_another(seen: Watched) -> None:
    seen.op(0, node="n1")
    seen.op(0, "fail", node="n1")
    seen.later(1.5)
    seen.op(1, "ok", node="n2")
    seen.op(2, "fail", node="n1")
    assert seen.operations.suspicious(1)


# --- health


class Asked:
    """Nodes that answer as told; the ones in `hanging` do not before they are let go."""

    def __init__(self, *nodes: str) -> None:
        self.answers = dict.fromkeys(nodes, "")
        self.hanging: set[str] = set()
        self.go = threading.Event()
        self.clock = Clock()
        self.times: list[float] = []
        self.log = HealthLog(nodes, self.ask, self.clock)

    def ask(self, node: str, timeout_s: float) -> str:
        self.times.append(timeout_s)
        if node in self.hanging:
            assert self.go.wait(HANG_S)
        return self.answers[node]

    def round(self) -> None:
        """Ask, and wait for those that do not hang."""
        self.log.ask()
        for node, thread in self.log._threads.items():
            if node not in self.hanging:
                thread.join(HANG_S)

    @property
    def said(self) -> list[tuple[str, str]]:
        return sorted((sample.node, sample.answer) for sample in self.log.samples)


def test_every_node_is_asked_and_what_it_says_is_kept() -> None:
    nodes = Asked("n1", "n2")
    nodes.answers["n2"] = "no leader"
    nodes.round()
    assert nodes.said == [("n1", ""), ("n2", "no leader")]
    assert all(sample.t_ns > 0 for sample in nodes.log.samples)
    assert nodes.times == [PROBE_S_MAX] * 2


def test_nobody_is_asked_again_at_once() -> None:
    nodes = Asked("n1")
    nodes.round()
    nodes.clock.now += 0.2
    nodes.round()
    assert len(nodes.said) == 1
    nodes.clock.now += 0.2
    nodes.round()
    assert len(nodes.said) == 2


def test_a_node_that_hangs_delays_neither_the_others_nor_who_asks() -> None:
    nodes = Asked("n1", "n2")
    nodes.hanging.add("n1")
    for _ in range(3):
        nodes.round()
        nodes.clock.now += 1
    assert nodes.said == [("n2", "")] * 3
    nodes.go.set()
    nodes.log.wait()
    assert nodes.said == [("n1", ""), *[("n2", "")] * 3]


def test_an_answer_that_comes_too_late_does_not_count_and_nobody_is_asked_then() -> None:
    nodes = Asked("n1")
    nodes.hanging.add("n1")
    nodes.round()
    nodes.log.stop()
    nodes.go.set()
    nodes.log.wait()
    nodes.clock.now += 1
    nodes.round()
    assert nodes.said == []
    assert len(nodes.times) == 1


def test_there_are_never_more_than_so_many_samples() -> None:
    nodes = Asked(*(f"n{number}" for number in range(7)))
    for _ in range(SAMPLES_MAX // 7 + 3):
        nodes.round()
        nodes.clock.now += 1
    assert len(nodes.said) == SAMPLES_MAX


def test_a_question_that_breaks_is_an_answer_too() -> None:
    def fail(node: str, timeout_s: float) -> str:
        raise OSError("no such namespace")

    log = HealthLog(["n1"], fail)
    log.ask()
    log.wait()
    assert [sample.answer for sample in log.samples] == ["it could not be asked: OSError: no such namespace"]


@pytest.mark.parametrize("answer", ["x" * 5000, "a\x1b[31mb\nc"])
def test_what_a_node_says_is_short_and_printable(answer: str) -> None:
    nodes = Asked("n1")
    nodes.answers["n1"] = answer
    nodes.round()
    (sample,) = nodes.log.samples
    assert len(sample.answer) <= 300
    assert sample.answer.isprintable()


def test_nobody_is_asked_where_nobody_can_answer() -> None:
    made = Asked()
    made.round()
    assert made.log.samples == ()
