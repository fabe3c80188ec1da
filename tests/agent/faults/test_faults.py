"""The agent carries out a step when it is reached, and the target sees its effect."""

from __future__ import annotations

import signal
import subprocess
import time

import pytest

from undermine.model.event import Event
from undermine.model.point import point_of

WRITES = """
    import os, sys
    def save(name, text):
        try:
            with open(name, "w") as file:
                file.write(text)
                file.flush()
            return "saved"
        except OSError as error:
            return type(error).__name__ + " " + os.strerror(error.errno)
    for number in range(4):
        print(save("file%d" % number, "text"), os.path.getsize("file%d" % number))
        sys.stdout.flush()
"""
WRITE = {"op": "file.write", "target": "file<n>"}
CRASH = {"fault": "crash"}


def error(name: str, scope: str = "once") -> dict:
    return {"fault": "error", "error": name, "scope": scope}


def test_a_crash_keeps_its_receipt_and_all_events_before(tool, any_python):
    tool.python = any_python
    tool.step(CRASH, {**WRITE, "nth": 3})
    outcome = tool.run(WRITES)
    assert outcome.code == -signal.SIGKILL
    assert outcome.out == "saved 4\n" * 2
    assert outcome.trace.problems == ()
    (receipt,) = outcome.receipts
    last = outcome.trace.events[-1]
    assert (receipt.step, receipt.action, receipt.node, receipt.seq) == (0, "crash", "s1", last.seq)
    assert (last.op, last.end_ns) == ("file.write", 0)
    assert len(outcome.of("file.write")) == 3
    claim = tool.requests[-1]
    assert claim["point"] == point_of(last).as_dict()
    assert (claim["resource"], claim["seq"], claim["incarnation"]) == (last.resource, last.seq, 1)


def test_a_crash_after_the_operation_leaves_its_effect(tool):
    tool.step({"fault": "reboot"}, {**WRITE, "nth": 2, "place": "after"})
    outcome = tool.run(WRITES)
    assert outcome.code == -signal.SIGKILL
    assert (tool.data / "file1").read_text() == "text"
    assert outcome.trace.events[-1].end_ns > 0
    assert outcome.receipts[0].action == "reboot"
    assert outcome.receipts[0].detail == "after file.write file<n>"


def test_a_crash_notifies_the_keeper_and_kills_the_process_group(tool):
    tool.step(CRASH, {"op": "file.create", "target": "last"})
    outcome = tool.run(
        """
        import os, signal, subprocess, sys, time
        told = []
        signal.signal(signal.SIGUSR1, lambda *_: told.append(1))
        code = "import time; print('up', flush=True); time.sleep(60)"
        program = (
            "import subprocess, sys\\n"
            "child = subprocess.Popen([sys.executable, '-c', %r], stdout=subprocess.PIPE)\\n"
            "child.stdout.readline(); print(child.pid, flush=True)\\n"
            "open('last', 'w')\\n" % code
        )
        environment = dict(os.environ, UNDERMINE_KEEPER=str(os.getpid()))
        starter = "import os; os.setpgid(0, 0); os.environ['UNDERMINE_PGID'] = str(os.getpid()); "
        starter += "import sys; os.execv(sys.executable, [sys.executable, '-c', %r])" % program
        main = subprocess.Popen([sys.executable, "-c", starter], env=environment, stdout=subprocess.PIPE)
        child = int(main.stdout.readline())
        code = main.wait()
        def gone(pid):
            try:
                return open("/proc/%d/stat" % pid).read().split()[2] == "Z"
            except OSError:
                return True
        while not gone(child):
            time.sleep(0.01)
        print(code, len(told))
        """
    )
    assert outcome.out == "-9 1\n", outcome.err


def test_a_crash_kills_the_group_of_the_node_first(tool):
    tool.more_config = {"cgroup": str(tool.folder)}
    (tool.folder / "cgroup.kill").touch()
    tool.step({"fault": "reboot", "nodes": ["s1"]}, WRITE)
    assert tool.run(WRITES).code == -signal.SIGKILL
    assert (tool.folder / "cgroup.kill").read_text() == "1"


def test_faults_on_other_nodes_are_left_to_the_tool(tool):
    tool.step({"fault": "crash", "nodes": ["s1", "s2"]}, WRITE)
    tool.step({"fault": "pause", "nodes": ["s1"]}, WRITE)
    outcome = tool.run(WRITES).ok()
    assert outcome.receipts == ()
    assert [request["step"] for request in tool.requests if request["type"] == "claim"] == [0, 1]


@pytest.mark.parametrize("place", ["before", "after"])
def test_a_hold_is_counted_and_claimed_and_then_nothing_happens(tool, place):
    tool.step({"fault": "hold"}, {**WRITE, "nth": 2, "place": place}, until={**WRITE, "nth": 2})
    outcome = tool.run(WRITES).ok()
    writes = outcome.of("file.write")
    claims = [request for request in tool.requests if request["type"] == "claim"]
    assert [(claim["half"], claim["seq"]) for claim in claims] == [("second", writes[1].seq), ("until", writes[3].seq)]
    assert claims[0]["resource"] == str(tool.data / "file1")
    assert (outcome.out, outcome.receipts) == ("saved 4\n" * 4, ())
    assert [event.error for event in writes] == [""] * 4


@pytest.mark.parametrize(("of", "place"), [("drop", ""), ("corrupt", "before"), ("crash", "after")])
def test_a_hold_occurs_where_the_fault_it_replaces_would(tool, of, place):
    tool.step({"fault": "hold", "of": of}, {"op": "file.write", "nth": 1, "place": "after"})
    outcome = tool.run(WRITES).ok()
    claims = [request for request in tool.requests if request["type"] == "claim"]
    if not place:  # a write to a file cannot be dropped
        assert claims == []
    else:
        (claim,) = claims
        first = outcome.of("file.write")[0]
        assert claim["seq"] == first.seq
        assert (claim["t_ns"] > first.end_ns) == (place == "after")


def test_one_error_surfaces_where_the_write_was_flushed(tool, any_python):
    tool.python = any_python
    tool.step(error("ENOSPC"), {**WRITE, "nth": 2})
    outcome = tool.run(WRITES).ok()
    # The text stays in Python's buffer, so closing the file writes it after all: as with a real device.
    assert outcome.out.splitlines() == ["saved 4", "OSError No space left on device 4", "saved 4", "saved 4"]
    failed = [e for e in outcome.of("file.write") if e.error]
    assert [e.error for e in failed] == ["ENOSPC"]
    assert outcome.receipts[0].detail == "before file.write file<n>: ENOSPC once"


def test_an_error_can_follow_a_successful_operation(tool):
    tool.step(error("EIO"), {"op": "file.fsync", "place": "after"})
    outcome = tool.run(
        """
        import os
        fd = os.open("x", os.O_CREAT | os.O_WRONLY)
        for _ in range(2):
            try:
                os.fsync(fd)
                print("ok")
            except OSError as error:
                print(error)
        """
    ).ok()
    assert outcome.out == "[Errno 5] Input/output error\nok\n"


def test_errors_of_paths_carry_the_path_and_leave_nothing_open(tool):
    for number, op in enumerate(("file.create", "file.rename", "file.unlink", "file.close")):
        tool.step(error("EIO"), {"op": op, "place": "after" if number == 0 else "before"})
    outcome = tool.run(
        """
        import os
        def attempt(function):
            try:
                function()
                print("ok")
            except OSError as error:
                print(error)
        before = len(os.listdir("/proc/self/fd"))
        attempt(lambda: open("a", "w"))
        assert len(os.listdir("/proc/self/fd")) == before
        attempt(lambda: os.rename("a", "b"))
        attempt(lambda: os.unlink("a"))
        attempt(lambda: open("a").close())
        assert len(os.listdir("/proc/self/fd")) == before
        """
    ).ok()
    assert outcome.out.splitlines() == [
        "[Errno 5] Input/output error",
        "[Errno 5] Input/output error: 'a' -> 'b'",
        "[Errno 5] Input/output error: 'a'",
        "[Errno 5] Input/output error",
    ]


LASTING = """
    import os
    def attempt(function):
        try:
            function()
            return "ok"
        except OSError as error:
            return os.strerror(error.errno)
    def write(name):
        with open(name, "w") as file:
            file.write("x")
    one = attempt(lambda: write("one"))
    print(one, attempt(lambda: write("one")), attempt(lambda: write("two")), attempt(lambda: open("one").read()))
"""


def test_an_error_lasts_on_one_file(tool):
    tool.step(error("EIO", "file"), {"op": "file.write", "target": "one"})
    outcome = tool.run(LASTING).ok()
    assert outcome.out == "Input/output error Input/output error ok Input/output error\n"


def test_an_error_lasts_on_the_whole_disk_for_writes_only(tool):
    tool.step(error("ENOSPC", "disk"), {"op": "file.write", "target": "one"})
    outcome = tool.run(LASTING).ok()
    full = "No space left on device"
    assert outcome.out == f"{full} {full} {full} ok\n"


def test_the_tool_changes_and_heals_lasting_faults(tool):
    command = tool.command(
        """
        import sys
        for line in sys.stdin:
            try:
                open("x", "w").close()
                print("ok", flush=True)
            except OSError as error:
                print(error, flush=True)
        """,
        "",
    )
    with subprocess.Popen(**command, stdin=subprocess.PIPE) as target:

        def ask() -> str:
            target.stdin.write("go\n")
            target.stdin.flush()
            return target.stdout.readline().strip()

        assert ask() == "ok"
        tool.change_lasting([{"step": 0, "kind": "error", "error": "EIO", "scope": "disk", "value": ""}])
        assert ask() == "[Errno 5] Input/output error: 'x'"
        tool.change_lasting([])
        assert ask() == "ok"
        tool.change_lasting(
            [{"step": 0, "kind": "error", "error": "EIO", "scope": "file", "value": str(tool.data / "x")}]
        )
        assert ask() == "[Errno 5] Input/output error: 'x'"
        tool.heal()
        assert ask() == "ok"


def test_a_new_process_learns_the_lasting_faults(tool):
    tool.lasting = [{"step": 0, "kind": "error", "error": "EIO", "scope": "disk", "value": ""}]
    outcome = tool.run("try:\n    open('x', 'w')\nexcept OSError as error:\n    print(error)").ok()
    assert outcome.out == "[Errno 5] Input/output error: 'x'\n"


def test_network_errors_are_raised_at_their_operation(tool, any_python):
    tool.python = any_python
    tool.addresses = {"127.0.0.1:39871": "s2"}
    tool.step(error("ECONNRESET"), {"op": "net.send"})
    tool.step(error("ETIMEDOUT"), {"op": "net.recv", "nth": 2})
    tool.step(error("ECONNREFUSED", "peer"), {"op": "net.connect", "target": "peer:s2"})
    outcome = tool.run(
        """
        import socket, threading
        def attempt(function):
            try:
                return function()
            except OSError as error:
                return type(error).__name__
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
        print(attempt(lambda: client.send(b"1")), attempt(lambda: client.send(b"22")))
        print(attempt(lambda: server.recv(1)), attempt(lambda: server.recv(1)), attempt(lambda: server.recv(1)))
        print(attempt(lambda: socket.socket().connect(("127.0.0.1", 39871))))
        print(attempt(lambda: socket.socket().connect_ex(("127.0.0.1", 39871))))
        """
    ).ok()
    assert outcome.out.splitlines() == [
        "ConnectionResetError 2",
        "b'2' TimeoutError b'2'",
        "ConnectionRefusedError",
        "111",
    ]


def test_an_asyncio_server_sees_a_reset_before_it_reads(tool, any_python):
    tool.python = any_python
    tool.step(error("ECONNRESET"), {"op": "net.recv", "target": "accepted"})
    outcome = tool.run(
        """
        import asyncio
        async def handle(reader, writer):
            try:
                print(await reader.readline())
            except ConnectionResetError:
                print("reset")
            writer.close()
        async def main():
            server = await asyncio.start_server(handle, "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]
            for _ in range(2):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"hello\\n")
                try:
                    await reader.read()
                except ConnectionResetError:
                    pass  # the server closed with our message unread
                writer.close()
        asyncio.run(main())
        """
    )
    assert outcome.code == 0, outcome.err
    assert outcome.out == "reset\nb'hello\\n'\n"
    assert next(e.error for e in outcome.of("net.recv") if e.target == "accepted") == "ECONNRESET"


def test_a_then_trigger_waits_for_its_first_part(tool):
    tool.step(CRASH, {**WRITE, "nth": 2}, first={"op": "file.close", "place": "after", "nth": 2})
    outcome = tool.run(WRITES)
    assert outcome.code == -signal.SIGKILL
    assert outcome.out == "saved 4\n" * 3
    assert tool.byte(65) == 1


def test_one_occurrence_never_counts_for_both_parts(tool):
    tool.step(CRASH, WRITE, first=WRITE)
    assert tool.run(WRITES).out == "saved 4\n"


def test_a_step_matches_by_all_keys(tool):
    point = point_of(tool.run(WRITES).of("file.write")[0]).as_dict()
    for key in ("loc", "stack", "target", "node", "role", "op"):
        tool.steps.clear()
        tool.step(CRASH, {**point, key: "different"})
        assert tool.run(WRITES).code == 0, key
    tool.steps.clear()
    tool.step(CRASH, point)
    assert tool.run(WRITES).code == -signal.SIGKILL


def test_waiting_refused_and_healed_steps_do_nothing(tool):
    tool.step(CRASH, WRITE)
    tool.put(64, 0)
    assert tool.run(WRITES).code == 0
    tool.arm()
    tool.refuse_claims = True
    assert tool.run(WRITES).code == 0
    tool.refuse_claims = False
    tool.heal()
    assert tool.run(WRITES).code == 0
    assert not tool.run(WRITES).receipts


def test_steps_are_armed_one_after_the_other(tool):
    tool.step(error("EIO"), WRITE)
    tool.step(error("ENOSPC"), WRITE)
    tool.put(64 + 16, 0)
    tool.on_claim = lambda request: tool.arm(1) if request["step"] == 0 else None
    outcome = tool.run(WRITES).ok()
    assert [r.step for r in outcome.receipts] == [0, 1]
    assert [e.error for e in outcome.of("file.write") if e.error] == ["EIO", "ENOSPC"]


def test_a_delay_ends_by_itself(tool):
    tool.step({"fault": "delay", "delay_s": 0.2}, WRITE)
    outcome = tool.run(WRITES).ok()
    (receipt,) = outcome.receipts
    held = next(e for e in outcome.trace if e.seq == receipt.seq)
    assert receipt.action == "delay"
    assert held.end_ns - held.t_ns >= receipt.held_ns >= 200_000_000


def test_a_delay_ends_when_all_is_healed(tool):
    tool.step({"fault": "delay", "delay_s": 3600}, WRITE)
    process = tool.start(WRITES)
    while tool.byte(64) != 2:
        time.sleep(0.01)
    assert process.poll() is None
    tool.heal()
    outcome = tool.outcome(process).ok()
    assert outcome.receipts[0].held_ns < 3600 * 10**9


def test_a_forked_child_counts_and_claims_for_itself(tool):
    tool.step(error("EIO"), {"op": "file.create", "nth": 2})
    outcome = tool.run(
        """
        import os
        open("one", "w").close()
        if os.fork() == 0:
            open("two", "w").close()
            try:
                open("three", "w").close()
            except OSError:
                os._exit(7)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.wait()[1]))
        """
    ).ok()
    assert outcome.out == "7\n"
    pids = [request["pid"] for request in tool.requests if request["type"] == "hello"]
    assert len(set(pids)) == 2
    assert outcome.receipts[0].pid == pids[-1]


def test_a_forked_child_has_not_seen_the_first_half_that_its_parent_saw(tool):
    tool.step(error("EIO"), {"op": "file.create"}, first={"op": "file.stat"}, together="process")
    outcome = tool.run(
        """
        import os
        os.stat(".")
        if os.fork() == 0:
            try:
                open("one", "w").close()
                os.stat(".")
                open("two", "w").close()
            except OSError:
                os._exit(7)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.wait()[1]), sorted(os.listdir()))
        """
    )
    assert outcome.ok().out == "7 ['one']\n"


def test_a_forked_child_is_another_process_than_its_parent(tool):
    tool.step(error("EIO"), {"op": "file.create"}, same="process")
    outcome = tool.run(
        f"""
        import os
        with open({str(tool.state)!r}, "r+b") as state:
            state.seek(64 + 4)
            state.write(os.getpid().to_bytes(4, "little"))
        if os.fork() == 0:
            open("one", "w").close()
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.wait()[1]))
        try:
            open("two", "w").close()
        except OSError as error:
            print(error.strerror)
        """
    )
    assert outcome.ok().out == "0\nInput/output error\n"


def test_the_node_continues_without_the_tool(tool):
    tool.step(CRASH, WRITE)
    tool.socket_path, real = "/tmp/nobody-listens-here.sock", tool.socket_path
    outcome = tool.run(WRITES).ok()
    tool.socket_path = real
    events: list[Event] = outcome.of("file.write")
    assert len(events) == 4


def test_an_error_lasts_on_one_peer_of_an_asyncio_program(tool, any_python):
    tool.python = any_python
    tool.step(error("ECONNRESET", "peer"), {"op": "net.send", "target": "accepted", "nth": 2})
    outcome = tool.run(
        """
        import asyncio
        async def handle(reader, writer):
            async for line in reader:
                writer.write(line)
        async def main():
            server = await asyncio.start_server(handle, "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]
            for _ in range(3):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"hello\\n")
                try:
                    print(await reader.readline())
                except ConnectionResetError:
                    print("reset")
                writer.close()
        asyncio.run(main())
        """
    )
    assert outcome.code == 0, outcome.err
    assert outcome.out.splitlines()[0] == "b'hello\\n'"
    assert outcome.out.splitlines()[1:] in (["b''", "b''"], ["b''", "reset"], ["reset", "b''"], ["reset", "reset"])
    assert {e.error for e in outcome.of("net.send") if e.target == "accepted"} == {"", "ECONNRESET"}
    assert "EAGAIN" not in {e.error for e in outcome.trace}
