"""When a partition with errors ends, the connections that it cut are reset at both sides, and nothing arrives late."""

from __future__ import annotations

import socket
import textwrap
from pathlib import Path
from typing import Any

import pytest
from fake_tool import partition, say
from own_peer import prepared, started

TO_S2 = {"op": "net.send", "target": "peer:s2"}
COMMON = """
    import os
    def turn(*said):
        # Report, and wait until the tool has acted.
        print(*said, flush=True)
        sys.stdin.readline()
    class Waiting(threading.Thread):
        # Calls the function and keeps its result.
        def __init__(self, function):
            super().__init__(daemon=True)
            self.function, self.result = function, None
            self.start()
        def run(self):
            self.task = threading.get_native_id()
            self.result = attempt(self.function)
        def sleeps_in(self, calls):
            # Returns once the thread is inside one of these system calls.
            while True:
                try:
                    with open("/proc/self/task/%d/syscall" % self.task) as file:
                        if file.read().split()[0] in calls:
                            return
                except AttributeError:  # it has not begun
                    pass
                time.sleep(0.001)
        def end(self):
            self.join()
            return self.result
    # Numbers of system calls: recvfrom, read; poll, select, epoll_wait and their newer forms; accept, accept4.
    RECEIVE, POLL, ACCEPT = {
        "x86_64": ("45 0", "7 23 232 270 271 281", "43 288"), "aarch64": ("207 63", "72 73 22", "202 242"),
    }[os.uname().machine]
    RECEIVE, POLL, ACCEPT = RECEIVE.split(), POLL.split(), ACCEPT.split()
"""
LOST = "ConnectionResetError"


def begun(tool: Any, source: str) -> Any:
    return started(tool, textwrap.dedent(COMMON) + textwrap.dedent(source))


def test_a_connection_is_reset_when_its_partition_ends(tool, any_python):
    tool.python = any_python
    source = """
        client, server = pair()
        idle, idle_server = pair()
        server.sendall(b"unread")
        turn(client.send(b"1"), server.recv(1))
        turn(attempt(lambda: client.recv(9)), attempt(lambda: client.send(b"2")))
        print(attempt(lambda: idle.send(b"3")), attempt(lambda: client.recv(9)))
        print(attempt(lambda: server.recv(9)), attempt(lambda: idle_server.recv(9)))
        client, server = pair()
        print(client.send(b"4"), server.recv(9), server.send(b"5"), client.recv(9), flush=True)
    """
    with begun(tool, source) as target:
        assert target.stdout.readline() == "1 b'1'\n"
        tool.change_lasting([partition(loss="error")])
        say(target)
        assert target.stdout.readline() == f"{LOST} {LOST}\n"
        tool.end()
        tool.heal()
        say(target)
        assert target.stdout.read().splitlines() == [f"{LOST} {LOST}"] * 2 + ["1 b'4' 1 b'5'"]


@pytest.mark.parametrize(("out", "into"), [(True, False), (False, True)])
def test_a_partition_of_one_direction_ends_with_a_reset_as_well(tool, out, into):
    source = """
        client, server = pair()
        server.sendall(b"unread")
        turn()
        turn(attempt(lambda: client.send(b"1")), attempt(lambda: client.recv(2)))
        print(attempt(lambda: client.send(b"2")), attempt(lambda: server.send(b"3")), flush=True)
    """
    with begun(tool, source) as target:
        target.stdout.readline()
        tool.change_lasting([partition(out, into, loss="error")])
        say(target)
        assert target.stdout.readline() == (f"{LOST} b'un'\n" if out else f"1 {LOST}\n")
        tool.end()
        say(target)
        assert target.stdout.readline() == f"{LOST} {LOST}\n"


def test_a_process_that_did_nothing_during_the_partition_resets_its_connections(tool):
    source = """
        client, server = pair()
        turn()
        print(attempt(lambda: client.send(b"1")), attempt(lambda: server.recv(9)), flush=True)
        client, server = pair()
        turn(client.send(b"2"), server.recv(9))
        print(client.send(b"3"), server.recv(9), flush=True)
    """
    with begun(tool, source) as target:
        target.stdout.readline()
        tool.change_lasting([partition(loss="error")])
        tool.end()
        say(target)
        assert [target.stdout.readline() for _ in range(2)] == [f"{LOST} {LOST}\n", "1 b'2'\n"]
        tool.change_lasting([*tool.lasting])  # another change does not repeat the reset
        say(target)
        assert target.stdout.readline() == "1 b'3'\n"


def test_threads_that_wait_on_either_side_wake_up(tool, any_python):
    tool.python = any_python
    source = """
        def select_and_receive(sock):
            return select.select([sock], [], [])[0] == [sock] and sock.recv(9)
        def receive_for_long(sock):
            sock.settimeout(3600)
            return sock.recv(9)
        def epoll_and_receive(sock):
            poll = select.epoll()
            poll.register(sock, select.EPOLLIN)
            poll.poll()
            return sock.recv(9)
        ways = (lambda sock: sock.recv(9)), (lambda sock: sock.recv_into(bytearray(9))), select_and_receive
        ways += receive_for_long, epoll_and_receive, (lambda sock: sock.makefile("rb").read())
        waiting = []
        for way in ways:
            for sock in pair():
                waiting.append(Waiting(lambda way=way, sock=sock: way(sock)))
                waiting[-1].sleeps_in(RECEIVE + POLL)
        turn()
        attempt(pair)
        print([each.end() for each in waiting], flush=True)
    """
    with begun(tool, source) as target:
        target.stdout.readline()
        tool.change_lasting([partition(loss="error")])
        tool.end()
        say(target)
        assert target.stdout.readline() == f"{[LOST] * 12}\n"


def test_readers_of_asyncio_wake_up(tool, any_python):
    tool.python = any_python
    source = """
        import asyncio
        async def read(reader):
            try:
                return await reader.read(9)
            except ConnectionResetError:
                return "reset"
        async def main():
            accepted = asyncio.get_running_loop().create_future()
            server = await asyncio.start_server(lambda *both: accepted.set_result(both), sock=listener)
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            other, other_writer = await accepted
            readers = [asyncio.ensure_future(read(each)) for each in (reader, other)]
            await asyncio.sleep(0)
            turn()
            writer.write(b"late")
            print(await asyncio.gather(*readers), flush=True)
        asyncio.run(main())
    """
    with begun(tool, source) as target:
        target.stdout.readline()
        tool.change_lasting([partition(loss="error")])
        tool.end()
        say(target)
        assert target.stdout.readline() == "['reset', 'reset']\n"


def test_bytes_that_a_transport_still_holds_are_never_sent(tool, any_python):
    tool.python = any_python
    source = """
        import asyncio
        async def main():
            loop = asyncio.get_running_loop()
            sock = socket.create_connection(listener.getsockname())
            server, _ = listener.accept()
            lost = loop.create_future()
            class Side(asyncio.Protocol):
                def connection_lost(self, error):
                    lost.set_result(type(error).__name__)
            transport, _ = await loop.create_connection(Side, sock=sock)
            transport.write(bytes(50_000_000))
            print(transport.get_write_buffer_size() > 0)
            turn()
            server.settimeout(200)
            waiting = Waiting(lambda: read_all(server))  # makes room for more
            print(await lost, waiting.end(), flush=True)
        asyncio.run(main())
    """
    with begun(tool, source) as target:
        assert target.stdout.readline() == "True\n"
        target.stdout.readline()
        tool.change_lasting([partition(loss="error")])
        tool.end()
        say(target)
        assert target.stdout.readline() == f"{LOST} {LOST}\n"


@pytest.mark.parametrize("op", ["net.connect", "net.send"])
def test_the_operation_at_which_a_partition_ends_is_the_first_after_it(tool, any_python, op):
    tool.python = any_python
    tool.step({"fault": "partition", "nodes": [], "loss": "error"}, TO_S2, until={"op": op})
    tool.on_claim = lambda request: tool.change_lasting([partition(loss="error")]) if request["half"] == "second" else 0
    source = """
        client, server = pair()
        print(attempt(lambda: client.send(b"1")))
        if %r == "net.connect":
            new, new_server = pair()
        print(attempt(lambda: client.send(b"2")), attempt(lambda: server.recv(9)))
        new, new_server = pair()
        print(new.send(b"3"), new_server.recv(9))
    """
    outcome = tool.run(prepared(tool, source % op)).ok()
    assert outcome.out.splitlines() == [LOST, f"{LOST} {LOST}", "1 b'3'"]
    assert [request["half"] for request in tool.requests if request["type"] == "claim"] == ["second", "until"]
    assert {e.error for e in outcome.of("net.connect")} == {""}


def test_a_connection_that_was_accepted_after_the_end_stays(tool, any_python):
    """The accepting process learns of the end only after a waiting `accept` has returned."""
    tool.python = any_python
    tool.more_config = {"hosts": {"127.0.0.1": "s2"}}
    source = """
        def other():
            there, _ = listener.accept()
            return there
        turn(listener.getsockname()[1])
        old, waiting = other(), Waiting(other)
        waiting.sleeps_in(ACCEPT)
        turn()
        new = waiting.end()
        print(new.recv(3), attempt(lambda: old.recv(3)), new.send(b"two"), flush=True)
    """
    with begun(tool, source) as target:
        port = int(target.stdout.readline())
        say(target)
        with socket.create_connection(("127.0.0.1", port)) as old:
            old.sendall(b"old")
            target.stdout.readline()
            tool.change_lasting([partition(loss="error")])
            tool.end()
            with socket.create_connection(("127.0.0.1", port)) as new:
                new.sendall(b"one")
                say(target)
                assert target.stdout.readline() == f"b'one' {LOST} 3\n"
                assert new.recv(3) == b"two"
            with pytest.raises(ConnectionResetError):
                old.recv(3)


@pytest.mark.parametrize("end", ["close()", "shutdown(socket.SHUT_WR)"])
def test_no_orderly_end_crosses_a_partition_with_errors(tool, any_python, end):
    tool.python = any_python
    source = f"""
        client, server = pair()
        turn()
        attempt(lambda: client.{end})
        print(attempt(lambda: server.recv(9)), flush=True)
    """
    with begun(tool, source) as target:
        target.stdout.readline()
        tool.change_lasting([partition(loss="error")])
        say(target)
        assert target.stdout.readline() == f"{LOST}\n"


def test_decrypted_bytes_that_nobody_has_read_are_lost(tool, any_python, key: Path):
    tool.python = any_python
    source = f"""
        import ssl
        serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        serving.load_cert_chain({str(key)!r})
        asking = ssl.create_default_context(cafile={str(key)!r})
        def secure_pair():
            raw, other = pair()
            waiting = Waiting(lambda: serving.wrap_socket(other, server_side=True))
            return asking.wrap_socket(raw, server_hostname="localhost"), waiting.end()
        client, server = secure_pair()
        waiter, other = secure_pair()
        server.sendall(b"unread")
        print(client.recv(2), client.pending())
        waiting = Waiting(lambda: waiter.recv(9))
        waiting.sleeps_in(RECEIVE)
        turn()
        print(attempt(lambda: client.recv(9)), waiting.end(), flush=True)
    """
    with begun(tool, source) as target:
        assert target.stdout.readline() == "b'un' 4\n"
        target.stdout.readline()
        tool.change_lasting([partition(loss="error")])
        tool.end()
        say(target)
        assert target.stdout.readline() == f"{LOST} {LOST}\n"
