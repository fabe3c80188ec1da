"""Every fault and trigger against a real process: the receipt, the behaviour of the node and the stored data."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from undermine.config.load import load
from undermine.model.faults import Corrupt, Crash, Delay, Error, Reboot
from undermine.model.plan import At, Plan, Step, Then
from undermine.model.point import Point, client_point
from undermine.model.run import RunView
from undermine.run.engine import Engine, open_engine

pytestmark = pytest.mark.slow

WRITE = Point.of({"op": "file.write", "target": "log.txt"})
CREATE = Point.of({"op": "file.create", "target": "log.txt"})
OPEN = Point.of({"op": "file.open", "target": "log.txt"})
SEND = Point.of({"op": "net.send", "target": "accepted"})
RECV = Point.of({"op": "net.recv", "target": "accepted"})


@pytest.fixture
def behaviour() -> str:
    return "sound"


@pytest.fixture
def mode() -> str:
    return ""


@pytest.fixture
def engine(project, behaviour: str, mode: str) -> Iterator[Engine]:
    config = load(project.folder, {"behaviour": behaviour, "mode": mode})
    with open_engine(config, project.results / "test") as opened:
        yield opened


class Runs:
    def __init__(self, engine: Engine, folder: Path) -> None:
        self._engine = engine
        self._folder = folder
        self._count = 0

    def __call__(self, *steps: Step) -> RunView:
        self._count += 1
        return self._engine.runner.execute(self._folder / str(self._count), self._count, Plan(steps))


@pytest.fixture
def run(engine: Engine, tmp_path: Path) -> Runs:
    return Runs(engine, tmp_path / "runs")


def outcomes(view: RunView) -> list[str]:
    return [op.status for op in view.history if op.f == "put"]


def final_reads(view: RunView) -> list[str]:
    return [op.value for op in view.history if op.f == "get" and op.status == "ok"][-6:]


def test_no_fault_no_receipt(run) -> None:
    view = run()
    assert view.record.status == "fired"
    assert view.receipts == ()
    assert outcomes(view) == ["ok"] * 6
    assert final_reads(view) == [f"v{n}" for n in range(6)]


def test_crash_before_a_write_stops_the_node_until_healed(run) -> None:
    view = run(Step(At(WRITE, "before", 3), Crash()))
    assert view.record.status == "fired"
    assert outcomes(view) == ["ok", "ok", "unknown", "unknown", "unknown", "unknown"]
    (receipt,) = view.receipts
    assert (receipt.node, receipt.action) == ("n1", "crash")
    (death,) = view.record.exits
    assert death.expected
    assert death.code == -9
    assert final_reads(view)[:3] == ["v0", "v1", "none"]
    assert {event.incarnation for event in view.trace} == {1, 2}


def test_crash_after_a_write_keeps_what_was_written(run) -> None:
    view = run(Step(At(WRITE, "after", 3), Crash()))
    assert final_reads(view)[:3] == ["v0", "v1", "v2"]


@pytest.mark.parametrize("mode", ["slow"])
def test_reboot_brings_the_node_back_during_the_workload(run) -> None:
    view = run(Step(At(WRITE, "before", 1), Reboot(0.0)))
    assert view.record.status == "fired"
    assert view.receipts[0].action == "reboot"
    assert view.record.exits[0].t_ns < view.record.healed_ns
    assert outcomes(view)[0] == "unknown"
    assert outcomes(view)[-1] == "ok"


def test_delay_holds_the_operation_and_says_how_long(run) -> None:
    view = run(Step(At(WRITE, "before", 2), Delay(0.3)))
    (receipt,) = view.receipts
    assert receipt.held_ns >= 300_000_000
    assert outcomes(view) == ["ok"] * 6


def test_a_long_delay_ends_with_healing(run) -> None:
    view = run(Step(At(SEND, "before", 6), Delay(600)))
    (receipt,) = view.receipts
    assert receipt.held_ns < 60_000_000_000
    assert view.record.settling.final == "ok"


def test_a_transient_disk_error_occurs_once(run) -> None:
    view = run(Step(At(WRITE, "before", 2), Error("EIO")))
    assert view.record.status == "fired"
    (exit_,) = view.record.exits  # the server ends itself on EIO
    assert (exit_.code, exit_.expected) == (3, False)
    assert "Input/output error" in exit_.log_tail


def test_a_lasting_disk_error_outlives_the_process_and_ends_with_healing(run) -> None:
    view = run(
        Step(At(OPEN, "before", 2), Error("ENOSPC", "disk")), Step(At(Point.of({"op": "net.accept"})), Reboot(0.0))
    )
    assert view.receipts[0].action == "error"
    assert "No space left" in view.record.exits[0].log_tail
    assert view.record.settling.final == "ok"


def test_a_connection_reset(run) -> None:
    view = run(Step(At(RECV, "before", 2), Error("ECONNRESET")))  # after the probe's; a client waits for this one
    assert view.record.status == "fired"
    assert view.record.exits == ()
    log = Path(view.record.nodes[0].dir).parent.parent / "logs" / "n1.1.err"
    assert "lost a client: [Errno 104]" in log.read_text()


def stored(view: RunView) -> bytes:
    return Path(view.record.nodes[0].dir, "log.txt").read_bytes()


def test_one_byte_of_a_corrupted_write_is_wrong(run) -> None:
    view = run(Step(At(WRITE, "before", 2), Corrupt()))
    assert view.record.status == "fired"
    assert view.receipts[0].action == "corrupt"
    right = b"".join(b"k%d=v%d\n" % (n, n) for n in range(6))
    wrong = [at for at, (a, b) in enumerate(zip(stored(view), right, strict=True)) if a != b]
    assert len(wrong) == 1
    assert 6 <= wrong[0] < 12, "the second line"


@pytest.mark.parametrize("mode", ["slow"])
def test_bytes_that_are_corrupted_at_a_read_stay_wrong(run) -> None:
    read = At(Point.of({"op": "file.read", "target": "log.txt"}))
    view = run(Step(At(WRITE, "before", 3), Reboot(0.0)), Step(read, Corrupt("zero")))
    assert view.record.status == "fired"
    assert [r.action for r in view.receipts] == ["reboot", "corrupt"]
    assert stored(view).startswith(bytes(12))
    assert final_reads(view)[:2] == ["none", "none"]


def test_then_fires_at_the_second_only_after_the_first(run) -> None:
    view = run(Step(Then(At(WRITE, "after", 2), At(SEND, "before", 2)), Crash()))
    assert view.record.status == "fired"
    assert outcomes(view)[:3] == ["ok", "ok", "unknown"]
    assert final_reads(view)[:4] == ["v0", "v1", "v2", "none"]


def test_steps_fire_in_order(run) -> None:
    view = run(Step(At(WRITE, "after", 2), Delay(0.05)), Step(At(WRITE, "after", 1), Crash()))
    assert [(r.step, r.action) for r in view.receipts] == [(0, "delay"), (1, "crash")]
    assert outcomes(view)[:3] == ["ok", "ok", "unknown"]


def test_a_plan_that_never_fires_is_not_fired(run) -> None:
    view = run(Step(At(WRITE, "before", 99), Crash()))
    assert view.record.status == "not_fired"
    assert view.receipts == ()


def test_a_client_operation_can_kill_a_node_from_outside(run) -> None:
    view = run(Step(At(client_point("put", "n1"), "before", 4), Reboot(0.1, ("n1",))))
    assert view.record.status == "fired"
    assert view.receipts[0].node == "n1"
    assert view.record.exits[0].expected
    assert outcomes(view)[:3] == ["ok"] * 3


@pytest.mark.parametrize("behaviour", ["setsid-child"])
@pytest.mark.parametrize("nodes", [(), ("n1",)])
def test_a_crash_kills_children_that_called_setsid(run, nodes) -> None:
    point = client_point("put", "n1") if nodes else SEND
    view = run(Step(At(point, "before", 2), Crash(nodes)))
    assert view.record.status == "fired"
    files = Path(view.record.nodes[0].dir).glob("beats.*")
    first, second = sorted([int(line) for line in path.read_text().splitlines()] for path in files)
    assert first[-1] < view.record.healed_ns, "the child of the crashed incarnation lived on"
    assert second[0] > view.record.healed_ns


@pytest.mark.skipif(not shutil.which("redis-server"), reason="redis-server is not installed")
def test_a_server_without_an_agent_gets_process_faults(project) -> None:
    project.write(
        """
[campaign]
plugins = "redis_hunt.py"
[roles.redis]
nodes = ["r1"]
command = "redis-server --port {port} --bind {host} --dir {dir} --appendonly yes --appendfsync always --save ''"
[hunt]
baseline_runs = 1
benign_runs = 0
[run]
hang_s = 3
settle_timeout_s = 6
"""
    )
    (project.folder / "redis_hunt.py").write_text(
        """
import socket
import undermine

def call(node, *words):
    with socket.create_connection((node.host, node.port), timeout=2) as sock:
        data = b"*%d\\r\\n" % len(words) + b"".join(b"$%d\\r\\n%s\\r\\n" % (len(w), w.encode()) for w in words)
        sock.sendall(data)
        answer = sock.recv(4096)
        if not answer:
            raise ConnectionError("closed")
        return answer.decode()

@undermine.workload
def workload(s):
    for n in range(5):
        s.attempt("set", lambda: call(s.nodes[0], "SET", f"k{n}", f"v{n}"), client="c1", node="r1", args={"key": f"k{n}"})

@undermine.final
def final(s):
    for n in range(5):
        out = s.attempt("get", lambda: call(s.nodes[0], "GET", f"k{n}"), client="c1", node="r1", args={"key": f"k{n}"})
        assert out.ok and "LOADING" not in out.value, out

@undermine.checker
def kept(run):
    acked = {o.args["key"] for o in run.history if o.f == "set" and o.status == "ok"}
    lost = [o.args["key"] for o in run.history if o.f == "get" and o.args["key"] in acked and "$-1" in (o.value or "")]
    return undermine.Verdict.fail(f"{lost} lost", symptom="lost") if lost else undermine.Verdict.ok()
"""
    )
    result = project.json("hunt", "-s", "exhaustive", "--max-runs", "4")
    assert result["findings"] == []
    assert result["statuses"]["fired"] == 4
    assert result["coverage"]["pairs_fired"] >= 1
