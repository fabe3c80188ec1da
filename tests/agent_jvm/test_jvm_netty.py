"""Netty, over its native transport (epoll) and over NIO: the same events with the same peers, and the same faults."""

from __future__ import annotations

import platform
import queue
import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_tool import PORTS, FakeTool, Outcome, partition
from free_ports import free_port
from jdks import compile_java, jdks
from waiting import HANG_S, wait_until

HERE = Path(__file__).resolve().parent
VERSION = "4.1.119.Final"
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
CLASSIFIERS = {"x86_64": "linux-x86_64", "aarch64": "linux-aarch_64"}


def _pom(classifier: str) -> str:
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>undermine</groupId><artifactId>netty-test</artifactId><version>1</version><dependencies><dependency>"
        f"<groupId>io.netty</groupId><artifactId>netty-transport-native-epoll</artifactId><version>{VERSION}</version>"
        f"<classifier>{classifier}</classifier></dependency></dependencies></project>"
    )


@pytest.fixture(scope="session")
def netty(tmp_path_factory: pytest.TempPathFactory, jar: Path) -> str:
    """The class path of the program: Netty as Maven fetches it, and the program's own classes."""
    if platform.machine() not in CLASSIFIERS:
        pytest.skip(f"Netty's native transport is not tested on {platform.machine()}")
    folder = tmp_path_factory.mktemp("netty")
    (folder / "pom.xml").write_text(_pom(CLASSIFIERS[platform.machine()]))
    command = ["mvn", "-q", "-B", "-Dstyle.color=never", "-f", str(folder / "pom.xml"), PLUGIN]
    try:
        done = subprocess.run(
            [*command, f"-DoutputDirectory={folder / 'lib'}"], capture_output=True, text=True, timeout=HANG_S
        )
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"Maven cannot fetch Netty {VERSION} here: {error}")
    if done.returncode:
        pytest.skip(f"Maven cannot fetch Netty {VERSION} here: {done.stdout[-300:]}")
    jars = [str(path) for path in sorted((folder / "lib").glob("*.jar"))]
    compile_java(folder, HERE / "NettyTarget.java", class_path=Path(":".join(jars)))
    return ":".join([str(folder), *jars])


class Program:
    """A running NettyTarget, until its input ends."""

    def __init__(self, tool: FakeTool, java: Path, jar: Path, class_path: str, transport: str) -> None:
        self.tool = tool
        options = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-javaagent:{jar}", "-cp", class_path)
        self.process = subprocess.Popen(
            [str(java), *options, "NettyTarget", transport],
            env=tool.environment(), cwd=tool.data, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self._answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._answers.put(line.strip())
        self._answers.put("ended")

    def tell(self, line: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def do(self, line: str) -> str:
        self.tell(line)
        return self._answers.get(timeout=HANG_S)

    def answers_within(self, seconds: float) -> bool:
        """True if an answer arrives in time. The answer stays in the queue."""
        try:
            self._answers.queue.appendleft(self._answers.get(timeout=seconds))
        except queue.Empty:
            return False
        return True

    def answer(self) -> str:
        return self._answers.get(timeout=HANG_S)

    def end(self) -> Outcome:
        assert self.process.stdin
        assert self.process.stderr
        self.process.stdin.close()
        self.process.wait(HANG_S)
        done = subprocess.CompletedProcess(self.process.args, self.process.returncode, "", self.process.stderr.read())
        return Outcome(done, self.tool.trace_dir)


class Setting:
    """A tool, a node `s2` that answers requests, and the port on which the program listens."""

    def __init__(self, folder: Path, start: Any) -> None:
        self.tool = FakeTool(folder)
        self._start = start
        self.programs: list[Program] = []
        self.sockets: list[socket.socket] = []
        self.other = self.keep(socket.create_server(("127.0.0.1", 0)))
        self.other.settimeout(HANG_S)
        self.other_port = int(self.other.getsockname()[1])
        self.port = free_port()
        self.tool.packages = ["NettyTarget"]
        self.tool.addresses = {f"127.0.0.1:{self.other_port}": "s2", f"127.0.0.1:{self.port}": "s1"}

    def keep(self, sock: socket.socket) -> socket.socket:
        self.sockets.append(sock)
        return sock

    def start(self) -> Program:
        self.programs.append(self._start(self.tool))
        return self.programs[-1]

    def called(self) -> socket.socket:
        made, _ = self.other.accept()
        made.settimeout(HANG_S)
        return self.keep(made)

    def mailbox(self) -> socket.socket:
        """The socket that receives datagrams to the other node."""
        made = self.keep(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        made.bind(("127.0.0.1", self.other_port))
        made.settimeout(HANG_S)
        return made

    def call(self, as_node: int = 0) -> socket.socket:
        """Connect to the program. With `as_node`, write that node's number to the shared state as its agent would."""
        made = socket.socket()
        self.keep(made).settimeout(HANG_S)
        made.bind(("127.0.0.1", 0))
        own = made.getsockname()[1]
        if as_node:
            slot = (own + 40503 * self.port) % 65536
            with self.tool.state.open("r+b") as file:
                file.seek(PORTS + 65536 + 2 * slot)
                file.write(struct.pack("<H", own))
            self.tool.put(PORTS + slot, as_node)
        made.connect(("127.0.0.1", self.port))
        return made

    def troubles(self) -> str:
        return "".join(path.read_text() for path in self.tool.trace_dir.glob("*.agent-error"))

    def close(self) -> None:
        for program in self.programs:
            program.process.kill()
            program.process.wait()
        for sock in self.sockets:
            sock.close()
        self.tool.close()


def _kinds() -> list[str]:
    """The native transport on every JDK. NIO is part of the JDK and is tested elsewhere too."""
    majors = sorted(jdks())
    return [*(f"epoll-{major}" for major in majors), *(f"nio-{major}" for major in majors[-1:])] or ["no JDK"]


@pytest.fixture(params=_kinds())
def setting(request: pytest.FixtureRequest, tmp_path: Path, jar: Path, netty: str) -> Iterator[Setting]:
    transport, _, major = str(request.param).partition("-")
    java = jdks()[int(major)] / "bin" / "java"
    made = Setting(tmp_path, lambda tool: Program(tool, java, jar, netty, transport))
    yield made
    made.close()


def _seen(outcome: Outcome, *targets: str) -> list[str]:
    found = [event for event in outcome.trace if event.op.startswith("net.") and event.target in targets]
    return [" ".join(filter(None, (e.op, e.target, str(e.result), e.error))) for e in found]


def test_connections_and_datagrams_are_recorded_with_their_peers(setting: Setting) -> None:
    program = setting.start()
    assert program.do("loaded") in ("true", "nio")
    assert program.do(f"connect {setting.other_port}") == "connected"
    peer = setting.called()
    assert program.do("send hello") == "sent"
    assert peer.recv(100) == b"hello"
    peer.sendall(b"hi")
    assert program.do("recv") == "hi"
    assert program.do("close") == "closed"
    assert program.do(f"listen {setting.port}") == "listens"
    for as_node in (0, 3):
        caller = setting.call(as_node)
        caller.sendall(b"abc")
        assert caller.recv(100) == b"abc"
        caller.shutdown(socket.SHUT_WR)
        assert caller.recv(100) == b""
    echo = setting.mailbox()
    threading.Thread(target=lambda: echo.sendto(b"pong", echo.recvfrom(100)[1]), daemon=True).start()
    assert program.do(f"ask {setting.other_port}") == "pong"
    outcome = program.end().ok()
    assert setting.troubles() == ""
    assert _seen(outcome, "peer:s2") == [
        "net.connect peer:s2 0", "net.send peer:s2 5", "net.recv peer:s2 2", "net.close peer:s2 0", "net.send peer:s2 4",
    ]  # fmt: skip
    for target in ("accepted", "peer:s3"):
        expected = [f"net.recv {target} 3", f"net.send {target} 3", f"net.recv {target} 0", f"net.close {target} 0"]
        assert _seen(outcome, target) == expected
    assert _seen(outcome, "listen")[:2] == ["net.accept listen 0"] * 2
    assert {event.resource for event in outcome.of("net.accept")} == {f"127.0.0.1:{setting.port}"}
    assert "net.recv other 4" in _seen(outcome, "other")
    assert all(event.loc.endswith("#0") for event in outcome.of("net.send", "net.recv", "net.accept"))


@pytest.mark.parametrize("packages", [["NettyTarget"], []])
def test_a_call_site_is_the_same_whether_a_step_waits_there_or_not(setting: Setting, packages: list[str]) -> None:
    """A non-blocking operation is recorded after it is done, unless a step waits before it."""
    setting.tool.packages = packages
    for incarnation in (1, 2):
        setting.tool.incarnation = incarnation
        program = setting.start()
        assert program.do(f"connect {setting.other_port}") == "connected"
        peer = setting.called()
        assert program.do("send hello") == "sent"
        assert peer.recv(100) == b"hello"
        peer.sendall(b"hi")
        assert program.do("recv") == "hi"
        outcome = program.end().ok()
        for op in ("net.send", "net.recv"):  # the second occurrence
            setting.tool.step({"fault": "crash", "nodes": []}, {"op": op, "nth": 99})
    for op in ("net.send", "net.recv"):
        events = outcome.of(op)
        assert len(events) == 2
        assert events[0].stack == events[1].stack
        assert not any("unix:Socket" in event.loc for event in events if not packages)


@pytest.mark.parametrize("packages", [["NettyTarget"], ["NettyTarget", "io.netty"]], ids=["without", "with Netty"])
def test_hand_overs_to_event_loops_and_names_of_connections_are_recorded(setting: Setting, packages: list[str]) -> None:
    setting.tool.packages = packages
    program = setting.start()
    assert program.do(f"connect {setting.other_port}") == "connected"
    peer = setting.called()
    assert program.do("send hello") == "sent"
    assert peer.recv(100) == b"hello"
    peer.sendall(b"hi")
    assert program.do("recv") == "hi"
    assert program.do("close") == "closed"
    outcome = program.end().ok()
    assert setting.troubles() == ""
    names = {event.resource for event in outcome.of("net.send", "net.recv", "net.close") if event.target == "peer:s2"}
    host, port = peer.getpeername()
    assert {name.partition("/")[0] for name in names} == {f"{host}:{port}>127.0.0.1:{setting.other_port}"}
    assert len(names) == 1
    assert bool(outcome.of("poll")) == ("io.netty" in packages)
    gives = {event.resource: event for event in outcome.of("handover.give") if event.thread == "main"}
    taken = [event for event in outcome.of("handover.take") if event.resource in gives]
    if "io.netty" not in packages:
        assert ":NettyTarget.done" in {event.loc.partition("#")[0] for event in gives.values()}
    assert taken
    assert {event.thread for event in taken} != {"main"}
    sending = outcome.of("net.send")[0]
    assert any(take.thread == sending.thread and take.t_ns <= sending.t_ns <= take.end_ns for take in taken)


def test_errors_are_answered_as_netty_raises_them(setting: Setting) -> None:
    reset = {"fault": "error", "error": "ECONNRESET", "scope": "once"}
    setting.tool.step({**reset, "error": "ECONNREFUSED"}, {"op": "net.connect"})
    setting.tool.step(reset, {"op": "net.send", "target": "peer:s2"})
    setting.tool.step(reset, {"op": "net.recv", "target": "peer:s2"})
    setting.tool.step(reset, {"op": "net.accept", "place": "after"})
    program = setting.start()
    refused = program.do(f"connect {setting.other_port}")
    assert "ConnectException: " in refused
    assert "Connection refused" in refused
    for first, answer in (("send hello", ""), ("send hello", "sent")):
        assert program.do(f"connect {setting.other_port}") == "connected"
        peer = setting.called()
        told = program.do(first)
        assert answer == told if answer else "Connection reset" in told
        peer.sendall(b"hi")
    assert "Connection reset" in program.do("recv")
    assert program.do(f"listen {setting.port}") == "listens"
    assert setting.call().recv(100) == b""  # accepted, then closed
    caller = setting.call()
    caller.sendall(b"abc")
    assert caller.recv(100) == b"abc"
    outcome = program.end().ok()
    assert setting.troubles() == ""
    assert [event.error for event in outcome.of("net.connect")] == ["ECONNREFUSED", "", ""]
    assert sorted(event.error for event in outcome.of("net.send", "net.recv") if event.error) == ["ECONNRESET"] * 2
    assert {receipt.step for receipt in outcome.receipts} == {0, 1, 2, 3}


def test_delays_hold_either_the_thread_or_only_the_operation(setting: Setting) -> None:
    setting.tool.step({"fault": "delay", "delay_s": 0.3, "mode": "thread"}, {"op": "net.connect"})
    for op in ("net.send", "net.recv"):
        setting.tool.step({"fault": "delay", "delay_s": 0.5, "mode": "operation"}, {"op": op, "target": "peer:s2"})
    program = setting.start()
    assert program.do(f"listen {setting.port}") == "listens"
    assert program.do(f"connect {setting.other_port}") == "connected"
    peer = setting.called()
    program.tell("send hello")
    assert not program.answers_within(0.2)
    other = setting.call()
    other.sendall(b"abc")
    assert other.recv(100) == b"abc"  # the event loop continues
    assert peer.recv(100) == b"hello"
    assert program.answer() == "sent"
    peer.sendall(b"hi")
    assert program.do("recv") == "hi"
    outcome = program.end().ok()
    assert setting.troubles() == ""
    held = {receipt.step: receipt.held_ns for receipt in outcome.receipts}
    assert sorted(held) == [0, 1, 2]
    assert held[0] >= 300_000_000
    assert min(held[1], held[2]) >= 500_000_000


def test_a_partition_holds_sent_data_until_it_is_healed(setting: Setting) -> None:
    program = setting.start()
    assert program.do(f"connect {setting.other_port}") == "connected"
    peer = setting.called()
    assert program.do("send one") == "sent"
    assert peer.recv(100) == b"one"
    setting.tool.change_lasting([partition()])
    assert program.do("tell two") == "told"
    peer.sendall(b"three")
    program.tell("recv")
    assert not program.answers_within(0.5)
    peer.settimeout(0.2)
    with pytest.raises(TimeoutError):
        peer.recv(100)
    peer.settimeout(HANG_S)
    setting.tool.change_lasting([])
    assert program.answer() == "three"
    assert peer.recv(100) == b"two"
    setting.tool.change_lasting([partition(loss="error")])
    assert "Connection reset" in program.do("send four")
    unreachable = program.do(f"connect {setting.other_port}")
    assert "NoRouteToHost" in unreachable
    outcome = program.end().ok()
    assert setting.troubles() == ""
    assert [event.error for event in outcome.of("net.send")] == ["", "", "ECONNRESET"]


def test_a_waiting_program_learns_of_a_reset_without_an_operation(setting: Setting) -> None:
    program = setting.start()
    assert program.do(f"connect {setting.other_port}") == "connected"
    peer = setting.called()
    assert program.do("send one") == "sent"
    assert peer.recv(100) == b"one"
    setting.tool.change_lasting([partition(loss="error")])
    setting.tool.end()
    assert "Connection reset" in program.do("recv")
    with pytest.raises(ConnectionResetError):
        peer.recv(100)
    assert program.do(f"connect {setting.other_port}") == "connected"
    assert program.do("send two") == "sent"
    assert setting.called().recv(100) == b"two"
    assert program.end().code == 0
    assert setting.troubles() == ""


def test_only_connections_from_before_the_end_of_a_partition_are_reset(setting: Setting) -> None:
    program = setting.start()
    assert program.do(f"listen {setting.port}") == "listens"
    old = setting.call(3)
    old.sendall(b"abc")
    assert old.recv(100) == b"abc"
    setting.tool.change_lasting([partition(loss="error")])
    setting.tool.end()
    new = setting.call(3)
    for text in (b"abc", b"def"):
        new.sendall(text)
        assert new.recv(100) == text
    with pytest.raises(ConnectionResetError):
        old.recv(100)
    assert program.end().code == 0
    assert setting.troubles() == ""


def test_a_partition_loses_datagrams(setting: Setting) -> None:
    mailbox, program = setting.mailbox(), setting.start()
    setting.tool.change_lasting([partition()])
    assert program.do(f"post {setting.other_port}") == "sent"
    setting.tool.change_lasting([])
    assert program.do(f"post {setting.other_port}") == "sent"
    assert mailbox.recv(100) == b"ping"
    mailbox.setblocking(False)
    with pytest.raises(BlockingIOError):
        mailbox.recv(100)
    outcome = program.end().ok()
    assert [(event.error, event.result) for event in outcome.of("net.send")] == [("LOST", 0), ("", 4)]
    assert setting.troubles() == ""


def test_a_crash_at_a_netty_operation_fires(setting: Setting) -> None:
    setting.tool.step({"fault": "crash", "nodes": []}, {"op": "net.send", "target": "peer:s2"})
    program = setting.start()
    assert program.do(f"connect {setting.other_port}") == "connected"
    peer = setting.called()
    assert program.do("send hello") == "ended"
    assert peer.recv(100) == b""
    assert program.process.wait(HANG_S) == -signal.SIGKILL


def test_a_connection_loses_what_is_sent_until_it_is_reset(setting: Setting) -> None:
    setting.tool.step({"fault": "drop"}, {"op": "net.send", "target": "peer:s2", "nth": 2})
    program = setting.start()
    assert program.do(f"connect {setting.other_port}") == "connected"
    peer = setting.called()
    lines = ("send hello", "send lost", "both gathered", "send too")
    assert [program.do(line) for line in lines] == ["sent"] * 4
    assert peer.recv(100) == b"hello"
    peer.sendall(b"hi")
    assert program.do("recv") == "hi"
    setting.tool.heal()
    with pytest.raises(ConnectionResetError):
        peer.recv(100)
    outcome = program.end().ok()
    assert setting.troubles() == ""
    sent = [(event.result, event.error) for event in outcome.of("net.send")]
    assert sent == [(5, ""), *[(0, "LOST")] * 3]
    assert [receipt.action for receipt in outcome.receipts] == ["drop"]


def test_a_connection_loses_what_arrives_until_it_is_reset(setting: Setting) -> None:
    setting.tool.step({"fault": "drop"}, {"op": "net.recv", "target": "peer:s2", "nth": 2})
    program = setting.start()
    assert program.do(f"connect {setting.other_port}") == "connected"
    peer = setting.called()
    peer.sendall(b"hi")
    assert program.do("recv") == "hi"
    peer.sendall(b"lost")
    wait_until(lambda: "claim" in [request["type"] for request in setting.tool.requests], what="the step is claimed")
    assert program.do("send hello") == "sent"
    assert peer.recv(100) == b"hello"
    peer.sendall(b"too")
    setting.tool.heal()
    assert "Connection reset" in program.do("recv")
    outcome = program.end().ok()
    assert setting.troubles() == ""
    assert [receipt.action for receipt in outcome.receipts] == ["drop"]
