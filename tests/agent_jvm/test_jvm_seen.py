"""Every operation on files, sockets and threads is recorded exactly once, whichever API of the JDK the program uses."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

STREAMS = [
    "file.create a 0", "file.write a 5", "file.write a 3", "file.write a 1", "file.fsync a 0", "file.close a 0",
    "file.open a 0", "file.read a 1", "file.read a 3", "file.read a 5", "file.read a 0", "file.close a 0",
    "file.open a 0", "file.write a 1", "file.close a 0",
]  # fmt: skip
RANDOM = [
    "file.create r 0", "file.write r 4", "file.write r 6", "file.read r 4", "file.read r 2", "file.truncate r 0",
    "file.fsync r 0", "file.close r 0",
]  # fmt: skip
CHANNEL = [
    "file.create c 0", "file.write c 4", "file.write c 6", "file.write c 3", "file.fsync c 0", "file.truncate c 0",
    "file.close c 0", "file.open c 0", "file.read c 2", "file.read c 2", "file.close c 0",
]  # fmt: skip
CHANNEL_OF_STREAM = [
    "file.create s 0", "file.write s 4", "file.fsync s 0", "file.close s 0",
    "file.open s 0", "file.read s 2", "file.close s 0",
]  # fmt: skip
FILE = [
    "file.mkdir d 0", "file.create d/x 0", "file.stat d/x 0", "file.stat d/x 0", "file.list d 0", "file.list d 0",
    "file.rename d/x -> d/y 0", "file.unlink d/y 0", "file.rmdir d 0",
]  # fmt: skip
PATHS = [
    "file.mkdir p 0", "file.create p/f 0", "file.write p/f 8", "file.close p/f 0", "file.open p/f 0", "file.read p/f 8",
    "file.read p/f 0", "file.close p/f 0", "file.stat p/f 0", "file.stat p/f 0", "file.stat p/f 0", "file.list p 0",
    "file.create p/g 0", "file.rename p/f -> p/h 0", "file.unlink p/h 0", "file.unlink p/g 0", "file.rmdir p 0",
]  # fmt: skip
CLIENT = ["net.connect other 0", "net.send other 6", "net.recv other 3", "net.close other 0"]
SERVER = [
    "net.accept listen 0",
    "net.recv accepted 6",
    "net.send accepted 3",
    "net.close accepted 0",
    "net.close listen 0",
]


def _results(outcome: Any, family: str, thread: str = "") -> list[str]:
    """Operation, target and result of the events, in order."""
    found = [event for event in outcome.trace if event.op.startswith(family) and (not thread or event.thread == thread)]
    return [f"{event.op} {event.target} {event.result}" for event in found]


def test_file_operations_are_recorded_once(target: Any) -> None:
    outcome = target.run("streams", "random", "channel", "channelOfStream", "file", "paths", "outside").ok()
    assert outcome.out == ""
    assert target.troubles() == ""
    seen = _results(outcome, "file.")
    assert seen == STREAMS + RANDOM + CHANNEL + CHANNEL_OF_STREAM + FILE + PATHS


def test_only_bytes_are_counted(target: Any) -> None:
    outcome = target.run("counts").ok()
    assert _results(outcome, "file.") == [
        "file.create n 0", "file.write n 3", "file.close n 0", "file.stat n 0", "file.stat n 0", "file.open n 0",
        "file.read n 0", "file.close n 0", "file.unlink n 0",
    ]  # fmt: skip
    assert [event.error for event in outcome.of("file.read")] == ["EOFException"]


def test_the_call_site_is_in_the_targets_code(target: Any) -> None:
    outcome = target.run("random").ok()
    places = [event.loc for event in outcome.of("file.truncate", "file.fsync", "file.close")]
    assert places == [":Target.random#6", ":Target.random#8", ":Target.random#9"]


@pytest.mark.parametrize("scenario", ["sockets", "adaptors"])
def test_socket_operations_are_recorded_once(target: Any, scenario: str) -> None:
    outcome = target.run(scenario).ok()
    assert outcome.out == ""
    assert target.troubles() == ""
    assert _results(outcome, "net.", "client") == CLIENT
    assert _results(outcome, "net.", "main") == SERVER


def test_unsuccessful_non_blocking_calls_are_not_recorded(target: Any) -> None:
    outcome = target.run("selector").ok()
    assert outcome.out == ""
    assert target.troubles() == ""
    seen = _results(outcome, "net.")
    received = sum(int(line.rpartition(" ")[2]) for line in seen if line.startswith("net.recv accepted"))
    rest = sorted(line for line in seen if not line.startswith("net.recv accepted"))
    assert received == 7
    assert rest == sorted([
        "net.connect other 0", "net.accept listen 0", "net.send other 7",
        "net.close accepted 0", "net.close other 0", "net.close listen 0",
    ])  # fmt: skip


def test_datagrams_and_errors_are_recorded(target: Any) -> None:
    outcome = target.run("datagrams", "refused").ok()
    assert target.troubles() == ""
    assert _results(outcome, "net.send") == ["net.send other 4"]
    assert _results(outcome, "net.recv") == ["net.recv other 4"]
    assert [event.error for event in outcome.of("net.connect")] == ["ECONNREFUSED"]


def test_only_one_thread_loads_classes_before_they_can_be_woven(target: Any, tmp_path: Path) -> None:
    """Classes that another thread loads while the weaver is installed would not be woven."""
    log = tmp_path / "loaded"
    target.run("streams", options=(f"-Xlog:class+load:file={log}:tid",)).ok()
    lines = [line.split() for line in log.read_text().splitlines()]  # [THREAD] CLASS source: …
    names = [name for _, name, *_ in lines]
    unwoven = lines[names.index("undermine.agent.Agent") : names.index("undermine.agent.weave.Weaver")]
    assert len({thread for thread, *_ in unwoven}) == 1


def test_the_payload_of_encrypted_connections_is_recorded(target: Any, tmp_path: Path) -> None:
    keys, keytool = tmp_path / "keys.p12", target.java.parent / "keytool"
    named = ["-alias", "a", "-keyalg", "EC", "-dname", "CN=localhost", "-storetype", "PKCS12", "-validity", "2"]
    command = [keytool, "-genkeypair", *named, "-keystore", keys, "-storepass", "secret"]
    subprocess.run(command, check=True, capture_output=True)
    outcome = target.run("secure", options=(f"-Dkeys={keys}",)).ok()
    assert target.troubles() == ""
    assert _results(outcome, "net.", "main") == SERVER
    assert _results(outcome, "net.", "client") == [CLIENT[0], "net.recv other 0", *CLIENT[1:]]  # the second is the handshake
    first = next(event for event in outcome.of("net.recv") if event.thread == "client")
    assert first.size == 0
    assert first.resource.endswith("+tls")


def test_threads_start_die_and_end(target: Any) -> None:
    outcome = target.run("threads").ok()
    assert outcome.short("thread.") == [
        "thread.start worker-<n>", "thread.die IllegalStateException", "thread.end worker-<n>"
    ]  # fmt: skip
    assert [event.thread for event in outcome.of("thread.die", "thread.end")] == ["worker-7", "worker-7"]
    assert outcome.of("thread.die")[0].resource == "no more"


def test_virtual_threads_are_observed(target: Any) -> None:
    if (
        int(subprocess.run([target.java, "--version"], capture_output=True, text=True).stdout.split()[1].split(".")[0])
        < 21
    ):
        pytest.skip("this JDK has no virtual threads")
    outcome = target.run("virtual").ok()
    assert outcome.out == ""
    assert target.troubles() == ""
    assert _results(outcome, "file.") == STREAMS
    assert sorted(_results(outcome, "net.")) == sorted(CLIENT + SERVER)


def test_logical_operations_are_recorded(target: Any) -> None:
    target.tool.more_config["operations"] = [
        {
            "function": ":Target.Channel.send",
            "op": "msg.send",
            "kind": {"argument": "message.kind"},
            "peer": {"argument": "message.to"},
            "size": {"argument": "1"},
        },
        {"function": ":Target.Channel.receive", "op": "msg.recv", "kind": {"argument": "return.kind"}},
        {"function": ":Target.Channel.nothing", "op": "msg.recv"},
    ]
    outcome = target.run("named")
    assert outcome.code == 0, outcome.err
    assert outcome.short("msg.", "file.") == [
        "msg.send HELLO peer:s2", "file.create sent", "file.close sent", "msg.recv BYE other"
    ]  # fmt: skip
    assert outcome.of("msg.send")[0].size == 11
    assert outcome.of("msg.send")[0].loc == ":Target.named#2"
    assert "there is no such method" in target.troubles()


def test_methods_of_the_jdk_may_be_named_too(target: Any) -> None:
    operations = [
        {"function": "java.util.concurrent:LinkedBlockingQueue.put", "op": "msg.send", "kind": {"argument": "0"}},
        {"function": "java.lang:Thread.run", "op": "msg.recv"},
    ]
    target.tool.more_config["operations"] = operations
    outcome = target.run("queue")
    assert outcome.code == 0, outcome.err
    assert outcome.short("msg.") == ["msg.send hello other"]
    assert outcome.of("msg.send")[0].loc.startswith(":Target.queue#")
    assert "the agent itself needs java.lang" in target.troubles()


def test_opening_a_file_that_must_be_new_creates_it_or_fails(target: Any) -> None:
    outcome = target.run("exclusive").ok()
    assert outcome.out == "there\n"
    seen = [(event.op, event.target, event.error) for event in outcome.of("file.create", "file.open")]
    assert seen == [("file.create", "e", ""), ("file.create", "e", "EEXIST"), ("file.create", "e", "")]


def test_several_buffers_are_one_datagram(target: Any) -> None:
    outcome = target.run("gathered").ok()
    assert target.troubles() == ""
    assert _results(outcome, "net.send") == ["net.send other 5"]
    assert _results(outcome, "net.recv") == ["net.recv other 5"]


def test_an_accepting_socket_is_known_by_its_address(target: Any) -> None:
    outcome = target.run("sockets", "adaptors").ok()
    places = [event.resource for event in outcome.of("net.accept")]
    assert len(set(places)) == len(places)
    assert all(place.startswith("127.0.0.1:") and not place.endswith(":0") for place in places)


def test_reading_a_variable_initialises_no_class(target: Any) -> None:
    target.tool.variables = [{"slots": {"": 0}, "node": "s1", "name": "x", "path": ":Target.Late.value"}]
    outcome = target.run("early").ok()
    assert outcome.out.splitlines() == ["now", "initialised"]
    assert target.tool.slot(0) == "8"


def test_only_the_owner_can_read_the_agents_files(target: Any) -> None:
    target.tool.more_config["operations"] = [{"function": ":Target.nothing", "op": "msg.recv"}]
    before = os.umask(0)
    try:
        assert target.run("streams").code == 0
    finally:
        os.umask(before)
    files = {path.suffix: path.stat().st_mode & 0o777 for path in target.tool.trace_dir.iterdir()}
    assert files == {".events": 0o600, ".agent-error": 0o600}
