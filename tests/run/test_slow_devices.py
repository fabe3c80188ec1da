"""Slow devices of a run: which become slow when, and what the operations above them did."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from undermine.deployments.slow.device import Slowed, Slowness
from undermine.model.event import Event
from undermine.model.faults import Crash, Hold
from undermine.model.plan import At, Plan, Step
from undermine.model.point import Point, point_of
from undermine.model.run import Moment, NodeExit, SlowOp
from undermine.run import slow_devices
from undermine.run.slow_devices import SlowDevices, SlowPeriod, held_steps
from undermine.run.slow_operations import slow_operations
from undermine.testing import event, point

SECOND = 1_000_000_000
DELAY_S = 10.0
HEALED = 100 * SECOND


class FakeDevice:
    def __init__(self, said: Slowness = Slowness()) -> None:  # noqa: B008 - frozen
        self.done: list[str] = []
        self._said = said

    def start(self, delay_s: float = 0.0) -> None:
        self.done.append(f"slow by {delay_s:g}")

    def stop(self) -> None:
        self.done.append("fast")

    def receipts(self) -> Slowness:
        return self._said

    def close(self) -> None:
        self.done.append("closed")


def holding(*points: Point) -> Plan:
    return Plan(tuple(Step(At(at), Hold("delay")) for at in points))


class Run:
    """One held operation, the devices below it, and what its agent wrote."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, plan: Plan) -> None:
        self.network = FakeDevice()
        monkeypatch.setattr(slow_devices, "SlowNetwork", lambda namespace: self.network)
        monkeypatch.setattr(slow_devices.slow_disk, "missing", lambda: "no disks here")
        self.plan = plan
        folders = {"n1": [tmp_path]}
        self.devices = SlowDevices(plan, DELAY_S, folders, FakePlace(), None)  # type: ignore[arg-type]


class FakePlace:
    def namespace(self, member: str) -> str:
        return f"/namespace/{member}"


SEND = point("net.send", target="peer:n2")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    return Run(monkeypatch, tmp_path, holding(SEND))


def timed(*events: Event, at: int = 0, slowed: tuple[Slowed, ...] = (), **more: object) -> SlowOp:
    """The slow operation of the event with that number, which was held from its beginning to second 1."""
    held = events[at]
    moment = Moment(0, held.node, held.t_ns, point_of(held), held.resource, held.seq, held.pid)

    class Devices:
        delay_s = DELAY_S

        def __init__(self) -> None:
            self.periods = {0: SlowPeriod(0, point_of(held).devices, SECOND)}

        def seen(self, step: int) -> Slowness:
            return Slowness(slowed, **{k: v for k, v in more.items() if k == "blind"})  # type: ignore[arg-type]

    exits: tuple[NodeExit, ...] = more.get("exits", ())  # type: ignore[assignment]
    plan = holding(point_of(held))
    (op,) = slow_operations(plan, Devices(), [moment], events, exits, HEALED)  # type: ignore[arg-type]
    return op


def fsync(**more: object) -> Event:
    return event("file.fsync", t_ns=SECOND // 2, **more)


WAITED = Slowed("fsync", "/run/n1/data", SECOND, 10 * SECOND, "delayed")


# --- devices


def test_only_holds_that_stand_for_delays_make_devices_slow() -> None:
    at = At(SEND)
    steps = (Step(at, Crash()), Step(at, Hold("delay")), Step(at, Hold("crash")), Step(at, Hold("delay-operation")))
    assert held_steps(Plan(steps)) == (1, 3)


def test_a_device_is_slow_from_the_moment_until_healing(run: Run) -> None:
    run.devices.begin(0, "n1", SEND, "")
    assert run.network.done == ["slow by 10"]
    assert run.devices.periods[0].devices == ("network",)
    run.devices.heal()
    run.devices.close()
    assert run.network.done == ["slow by 10", "fast", "closed"]
    assert run.devices.problem == ""


def test_a_device_that_cannot_be_slow_breaks_the_run_and_not_the_tool(run: Run) -> None:
    run.devices.begin(0, "n1", point("file.fsync"), "")
    assert "no disks here" in run.devices.problem


def test_what_is_none_of_its_steps_or_nodes_makes_nothing_slow(run: Run) -> None:
    run.devices.begin(1, "n1", SEND, "")
    run.devices.begin(0, "client", SEND, "")
    assert run.devices.periods == {}


def test_a_problem_of_a_device_is_one_of_the_run(run: Run) -> None:
    run.network._said = Slowness(problem="it was not slow")
    run.devices.begin(0, "n1", SEND, "")
    run.devices.heal()
    assert run.devices.problem == "it was not slow"


def test_packets_that_were_lost_break_the_run(run: Run) -> None:
    run.network._said = Slowness(lost=3)
    run.devices.begin(0, "n1", SEND, "")
    run.devices.heal()
    assert "3 packets were lost" in run.devices.problem


class FakeDisks:
    """Notes of which folders each disk is that is asked for."""

    problem = ""

    def __init__(self) -> None:
        self.asked: list[set[Path]] = []

    def disk(self, node: str, folders: Iterable[Path]) -> FakeDevice:
        self.asked.append(set(folders))
        return FakeDevice()


def test_all_folders_of_a_node_are_slow_and_those_of_the_files_that_are_worked_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(slow_devices, "SlowNetwork", lambda namespace: FakeDevice())
    store, sync = point("db.commit", target="COMMIT jobs"), point("file.fsync")
    own = {Path("/run/n1"), Path("/shared")}
    plan, place, disks = holding(store, sync, sync), FakePlace(), FakeDisks()
    devices = SlowDevices(plan, DELAY_S, {"n1": own}, place, disks)  # type: ignore[arg-type]
    devices.begin(0, "n1", store, "/* a comment */ COMMIT")
    devices.begin(1, "n1", sync, "/srv/a/file")
    devices.begin(2, "n1", sync, "/srv/b/file")
    assert disks.asked == [own, own | {Path("/srv/a")}, own | {Path("/srv/a"), Path("/srv/b")}]
    assert devices.problem == ""


def test_nothing_is_waited_for_if_nothing_began_or_all_is_over(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(slow_devices.time, "sleep", slept.append)
    asked: list[list[int]] = []

    def ended(steps: Iterable[int]) -> bool:
        asked.append(list(steps))
        return True

    run.devices.wait(ended)
    assert (asked, slept) == ([], [])
    run.devices.begin(0, "n1", SEND, "")
    run.devices.wait(ended)
    assert (asked, slept) == ([[0]], [])


# --- operations


def test_the_time_of_an_operation_is_its_own_without_that_of_the_hold() -> None:
    op = timed(fsync(end_ns=11 * SECOND), slowed=(WAITED,))
    assert (op.took_s, op.ended, op.device, op.unknown) == (10.0, True, "disk", "")
    assert op.waited == ("fsync data waited 10.0 s",)


def test_an_operation_that_still_waits_at_healing_took_at_least_that_long() -> None:
    op = timed(fsync(), slowed=(WAITED,))
    assert (op.took_s, op.ended, op.unknown) == (99.0, False, "")


def test_one_without_an_end_says_nothing_if_it_may_have_ended() -> None:
    assert "did not record" in timed(fsync()).unknown, "nothing waited"
    later = event("file.write", seq=2, t_ns=3 * SECOND, end_ns=4 * SECOND)
    assert "did not record" in timed(fsync(), later, slowed=(WAITED,)).unknown
    exits = (NodeExit("n1", 1, 0, 0, 5 * SECOND, False),)
    assert "died" in timed(fsync(), slowed=(WAITED,), exits=exits).unknown
    killed = Slowed("fsync", "/run/n1/data", SECOND, SECOND, "killed")
    assert "died" in timed(fsync(), slowed=(killed,)).unknown


def test_a_short_one_says_nothing_where_the_node_goes_around_what_is_slow() -> None:
    short, long = fsync(end_ns=2 * SECOND), fsync(end_ns=12 * SECOND)
    assert "io_uring" in timed(short, blind=("io_uring",)).unknown
    assert timed(long, blind=("io_uring",)).unknown == ""


def test_what_waited_on_the_own_connection_is_named_first() -> None:
    own, other = (
        Slowed("tcp in", f"{end} → 10.0.0.1:50", SECOND, SECOND, "delayed") for end in ("10.0.0.2:1", "10.0.0.3:1")
    )
    recv = event("net.recv", t_ns=SECOND, end_ns=3 * SECOND, resource="10.0.0.1:50>10.0.0.2:1/7")
    assert timed(recv, slowed=(other, own)).waited == ("tcp in 10.0.0.2:1 → 10.0.0.1:50 waited 1.0 s",)


def net(op: str, seq: int, resource: str = "a>b/1", **more: object) -> Event:
    return event(
        op,
        loc=f"app:{op}#1",
        target="peer:n2",
        seq=seq,
        t_ns=seq * 1000,
        end_ns=seq * 1000 + 1,
        resource=resource,
        **more,
    )


def test_a_receiving_is_led_to_by_the_last_sending_of_its_thread_on_its_connection() -> None:
    events = [
        net("net.send", 1),
        net("net.send", 2),
        net("net.send", 3, "a>c/2"),
        net("net.send", 4, thread="other"),
        net("net.recv", 5),
    ]
    lead = timed(*events, at=4).lead
    assert lead is not None
    assert (lead.point, lead.nth, lead.then_nth) == (point_of(events[1]), 2, 1)
    assert timed(*events[2:], at=2).lead is None
    assert timed(*events[:2], at=1).lead is None, "it does not receive"


def test_which_occurrence_the_receiving_is_after_the_sending_is_counted() -> None:
    events = [net("net.recv", 1), net("net.send", 2), net("net.recv", 3), net("net.recv", 4)]
    lead = timed(*events, at=3).lead
    assert lead is not None
    assert (lead.nth, lead.then_nth) == (1, 2)


def poll(seq: int, **more: object) -> Event:
    return event("poll", seq=seq, t_ns=seq * 1000, end_ns=seq * 1000 + 1, **more)


def polls(*events: Event) -> tuple[bool, bool | None]:
    """Whether the last one got what a poll has waited for, and whether its connection does not block."""
    op = timed(*events, at=len(events) - 1)
    return op.polled, op.unblocked


def test_a_receiving_takes_what_a_poll_has_waited_for() -> None:
    assert polls(poll(1), net("net.recv", 2)) == (True, True)
    assert polls(poll(1), net("net.recv", 2), net("net.send", 3), poll(4), net("net.recv", 5)) == (True, True)
    assert polls(poll(1), net("net.recv", 2, "a>c/2"), net("net.recv", 3)) == (True, True), "one poll for both"
    assert polls(poll(1), net("net.accept", 2, "a"), poll(3), net("net.recv", 4)) == (True, True)


def test_a_poll_for_something_else_is_none_of_this_connection() -> None:
    assert polls(net("net.recv", 2)) == (False, False)
    assert not timed(net("net.recv", 2), poll(3)).polled
    assert polls(poll(1, thread="other"), net("net.recv", 2)) == (False, False)
    assert polls(poll(1), net("net.send", 2), net("net.recv", 3)) == (False, None), "it waits for an answer"
    assert polls(poll(1), net("net.connect", 2, "b"), net("net.recv", 3)) == (False, None)
    assert polls(poll(1), net("net.recv", 2), net("net.recv", 3)) == (False, None), "the rest may still have to come"


def test_a_connection_does_not_block_if_all_that_it_received_was_polled_for() -> None:
    assert polls(poll(1), net("net.recv", 2), net("net.send", 3)) == (False, True)
    assert polls(poll(1), net("net.send", 2)) == (False, None)
    assert polls(net("net.recv", 1), poll(2), net("net.recv", 3), net("net.send", 4)) == (False, None)
    assert polls(net("net.recv", 1), net("net.send", 2)) == (False, False)


def test_a_connection_with_a_time_limit_does_block() -> None:
    limit, lifted = (net("timeout", n, size=size) for n, size in ((1, SECOND), (2, 0)))
    received = poll(3), net("net.recv", 4)
    assert polls(limit, *received) == (True, False)
    assert polls(limit, lifted, *received) == (True, True)
    assert polls(net("timeout", 1, "a>c/2", size=SECOND), *received) == (True, True), "another one's"


def test_a_connection_of_an_event_loop_does_not_block() -> None:
    task = event("task.start", seq=1, t_ns=10)
    assert polls(task, net("stream.read", 2), net("net.recv", 3)) == (False, True)
    assert polls(task, net("net.send", 3)) == (False, None), "it may be one of another library"


def test_of_messages_it_is_not_known_which_connection_they_take() -> None:
    asked, answered = (
        event(op, seq=seq, t_ns=seq * 1000, end_ns=9000) for op, seq in (("msg.send", 2), ("msg.recv", 3))
    )
    assert polls(poll(1), answered) == (True, False)
    assert polls(poll(1), asked, answered) == (False, False)
