"""Faults at encrypted connections: possible ones take effect, impossible ones are never claimed."""

from __future__ import annotations

import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest
from fake_tool import interpreters, partition, say
from free_ports import free_port

SEND, RECV = ({"op": op, "target": "peer:s2"} for op in ("net.send", "net.recv"))
SLOW = {"fault": "delay", "delay_s": 0.4, "mode": "operation"}
HELD = {"fault": "delay", "delay_s": 0.4, "mode": "thread"}
DROP = {"fault": "drop"}
RESET = {"fault": "error", "error": "ECONNRESET", "scope": "once"}
FLIP = {"fault": "corrupt", "how": "flip", "at": 0.5}
# The byte in the middle of "0123456789" is "5", 0x35; flipped it is 0xca.
BAD = b"01234\xca6789"

COMMON = """
    import asyncio, select, socket, ssl, sys, threading, time
    KEY, STATE, PORT, BLOCKS = %r, %r, %d, %r
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(KEY)
    asking = ssl.create_default_context(cafile=KEY)
    listener = socket.create_server(("127.0.0.1", PORT))
    def heal():
        with open(STATE, "r+b") as file:
            file.seek(12)
            file.write(b"\\1")
    def waits_for_tool():
        print("up", flush=True)
        sys.stdin.readline()
"""
SOCKETS = """
    def pair():
        found = []
        raw = socket.create_connection(listener.getsockname())
        other, _ = listener.accept()
        thread = threading.Thread(target=lambda: found.append(serving.wrap_socket(other, server_side=True)))
        thread.start()
        client = asking.wrap_socket(raw, server_hostname="localhost")
        thread.join()
        found[0].settimeout(HUNG_S)
        client.settimeout(HUNG_S if BLOCKS else 0)
        return client, found[0]
    HUNG_S, SOON_S = 200, 0.3
    def attempt(function, *args, wait_s=HUNG_S):
        # A socket that does not block is asked again for as long as one that blocks would wait.
        end = time.monotonic() + wait_s
        while True:
            try:
                return function(*args)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as error:
                if time.monotonic() > end:
                    return "waits"
                if function.__name__ == "recv":
                    select.select([function.__self__], [], [], wait_s)
            except socket.timeout:
                return "waits"
            except OSError as error:
                return type(error).__name__
    def glance(sock, sent=b""):
        # For a receive, or a send, that is expected to wait.
        before = sock.gettimeout()
        if before:
            sock.settimeout(SOON_S)
        found = attempt(sock.send, sent, wait_s=SOON_S) if sent else attempt(sock.recv, 10, wait_s=SOON_S)
        if before:
            sock.settimeout(before)
        return found
    client, server = pair()
    # Some versions of `ssl` take a reset of the connection for its end.
    RESET = ("ConnectionResetError", b"")
"""
STREAMS = """
    class Side(asyncio.Protocol):
        def __init__(self):
            self.data, self.lost = b"", "open"
        def connection_made(self, transport):
            self.transport = transport
            sides.append(self)
        def data_received(self, data):
            self.data += data
        def connection_lost(self, error):
            self.lost = type(error).__name__
    sides = []
    async def pair():
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Side, sock=listener, ssl=serving)
        _, client = await loop.create_connection(Side, *listener.getsockname(), ssl=asking, server_hostname="localhost")
        await until(lambda: len(sides) == 2)
        return client, next(side for side in sides if side is not client)
    async def until(holds, seconds=30):
        end = time.monotonic() + seconds
        while not holds() and time.monotonic() < end:
            await asyncio.sleep(0.01)
        return bool(holds())
"""


@pytest.fixture(params=["blocking", "non-blocking"])
def sockets(request: pytest.FixtureRequest, tool: Any, key: Path) -> Any:
    """Return a function that prepares a target with both ends of an `ssl.SSLSocket` connection; its listener is the
    peer `s2`.
    """
    return lambda source: _prepared(tool, key, SOCKETS, source, request.param == "blocking")


@pytest.fixture
def streams(tool: Any, key: Path) -> Any:
    """The same with asyncio; the source is the body of a coroutine."""

    def make(source: str) -> str:
        body = textwrap.indent(textwrap.dedent(source), "    ")
        main = "async def main():\n    client, server = await pair()\n" + body + "\nasyncio.run(main())\n"
        return _prepared(tool, key, STREAMS, main, False)

    return make


def _prepared(tool: Any, key: Path, more: str, source: str, blocks: bool) -> str:
    port = free_port()
    tool.addresses = {f"127.0.0.1:{port}": "s2"}
    common = textwrap.dedent(COMMON) % (str(key), str(tool.state), port, blocks)
    return common + textwrap.dedent(more) + textwrap.dedent(source)


def claims(tool: Any) -> list[str]:
    return [request["point"]["op"] for request in tool.requests if request["type"] == "claim"]


def run(tool: Any, source: str) -> Any:
    outcome = tool.run(source)
    assert outcome.code == 0, outcome.err
    assert outcome.err == ""
    return outcome


# --- ssl.SSLSocket


def test_errors_are_raised_at_tls_sockets(tool, sockets):
    tool.step(RESET, SEND)
    tool.step(RESET, {**RECV, "nth": 2})  # the handshake is the first
    source = """
        print(attempt(client.send, b"1"), attempt(client.send, b"2"), attempt(server.recv, 10))
        server.send(b"3")
        print(attempt(client.recv, 10))
    """
    outcome = run(tool, sockets(source))
    assert outcome.out.splitlines() == ["ConnectionResetError 1 b'2'", "ConnectionResetError"]
    assert claims(tool) == ["net.send", "net.recv"]


def test_a_tls_socket_loses_sent_bytes(tool, sockets):
    tool.step(DROP, {**SEND, "nth": 2})
    source = """
        print([attempt(client.send, b"%d" % n) for n in range(3)], attempt(server.recv, 10), glance(server))
        server.send(b"answer")
        print(attempt(client.recv, 10))
        heal()
        print(attempt(server.recv, 10) in RESET, attempt(client.send, b"3") != 1)
    """
    outcome = run(tool, sockets(source))
    assert outcome.out.splitlines() == ["[1, 1, 1] b'0' waits", "b'answer'", "True True"]
    assert [e.error for e in outcome.of("net.send") if e.target == "peer:s2"][:3] == ["", "LOST", "LOST"]


def test_a_tls_socket_loses_received_bytes(tool, sockets):
    tool.step(DROP, {**RECV, "nth": 2})  # the handshake does not count: nothing of it could be lost
    source = """
        server.send(b"one, two")
        print(attempt(client.recv, 3), glance(client))
        server.send(b"three")
        print(glance(client), attempt(client.send, b"out"), attempt(server.recv, 10))
        heal()
        print(attempt(client.recv, 10) in RESET, attempt(server.recv, 10) in RESET)
    """
    outcome = run(tool, sockets(source))
    assert outcome.out.splitlines() == ["b'one' waits", "waits 3 b'out'", "True True"]
    assert "LOST" in [e.error for e in outcome.of("net.recv") if e.target == "peer:s2"]
    assert claims(tool) == ["net.recv"]


def test_corrupt_changes_the_payload(tool, sockets):
    tool.step(FLIP, SEND)
    tool.step(FLIP, RECV)
    tool.step(FLIP, RECV)
    source = """
        print(attempt(client.send, b"0123456789"), attempt(server.recv, 10))
        buffer = bytearray(10)
        server.send(b"0123456789" * 2)
        print(attempt(client.recv, 10), attempt(client.recv_into, buffer), bytes(buffer))
    """
    outcome = run(tool, sockets(source))
    assert outcome.out.splitlines() == [f"10 {BAD!r}", f"{BAD!r} 10 {BAD!r}"]


def test_a_delay_blocks_the_thread(tool, sockets):
    tool.step(HELD, SEND)
    tool.step(HELD, {**RECV, "nth": 2})
    source = """
        start = time.monotonic()
        print(attempt(client.send, b"1"), attempt(server.recv, 10), time.monotonic() - start >= 0.4)
        server.send(b"2")
        start = time.monotonic()
        print(attempt(client.recv, 10), time.monotonic() - start >= 0.4)
    """
    outcome = run(tool, sockets(source))
    assert outcome.out.splitlines() == ["1 b'1' True", "b'2' True"]
    assert all(receipt.held_ns >= 400_000_000 for receipt in outcome.receipts)


def test_a_delayed_operation_waits_only_at_a_blocking_socket(tool, sockets, request):
    blocks = "non-blocking" not in request.node.callspec.id
    slow = SLOW if blocks else {**SLOW, "delay_s": 3600}
    tool.step(slow, SEND)
    tool.step(slow, {**RECV, "nth": 2})
    source = """
        start = time.monotonic()
        print(attempt(client.send, b"1"), attempt(server.recv, 10))
        server.send(b"2")
        print(attempt(client.recv, 10))
        print(not BLOCKS or time.monotonic() - start >= 0.8)
    """
    outcome = run(tool, sockets(source))
    assert outcome.out.splitlines() == ["1 b'1'", "b'2'", "True"]
    assert claims(tool) == (["net.send", "net.recv"] if blocks else [])
    assert len(outcome.receipts) == len(claims(tool))
    assert all(receipt.held_ns >= 400_000_000 for receipt in outcome.receipts)


def test_a_partition_with_errors_fails_tls_transfers(tool, sockets):
    source = """
        waits_for_tool()
        print(attempt(client.send, b"1"), attempt(client.recv, 10), flush=True)
        server.send(b"2")
        waits_for_tool()
        print(attempt(client.send, b"3"), attempt(server.recv, 10), attempt(client.recv, 10))
    """
    with started(tool, sockets(source)) as target:
        cut(tool, target, partition(loss="error"))
        assert target.stdout.readline() == "ConnectionResetError ConnectionResetError\n"
        cut(tool, target)
        assert target.stdout.readline() == "1 b'3' b'2'\n"


def test_a_silent_partition_makes_both_sides_wait(tool, sockets):
    source = """
        server.send(b"here already")
        print(attempt(client.recv, 4))
        waits_for_tool()
        server.send(b"later")
        print(attempt(client.recv, 10), glance(client, b"1"), glance(client), glance(server))
        waits_for_tool()
        print(attempt(client.recv, 10), attempt(client.send, b"2"), attempt(server.recv, 10))
        end = time.monotonic() + HUNG_S
        while client.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) != 1 and time.monotonic() < end:
            time.sleep(0.01)
        print(client.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT))
    """
    with started(tool, sockets(source)) as target:
        assert target.stdout.readline() == "b'here'\n"
        cut(tool, target, partition())
        assert target.stdout.readline() == "b' already' waits waits waits\n"
        cut(tool, target)
        assert target.stdout.readline() == "b'later' 1 b'2'\n"
        assert target.stdout.readline() == "1\n"


def test_nobody_hears_of_a_close_across_a_silent_partition(tool, sockets):
    source = """
        waits_for_tool()
        client.close()
        print(glance(server))
        waits_for_tool()
        print(attempt(server.recv, 10) in RESET)
    """
    with started(tool, sockets(source)) as target:
        cut(tool, target, partition())
        assert target.stdout.readline() == "waits\n"
        cut(tool, target)
        assert target.stdout.readline() == "True\n"


def test_a_receive_without_data_does_not_count(tool, key):
    tool.step(RESET, {**RECV, "nth": 3})
    source = """
        print([glance(client) for _ in range(2)])
        for number in range(2):
            server.send(b"%d" % number)
            print(attempt(client.recv, 10))
    """
    outcome = run(tool, _prepared(tool, key, SOCKETS, source, False))
    assert outcome.out.splitlines() == ["['waits', 'waits']", "b'0'", "ConnectionResetError"]
    received = [e.error for e in outcome.of("net.recv") if e.target == "peer:s2"]
    assert received == ["", "", "ECONNRESET"]


@pytest.mark.parametrize("place", ["before", "after"])
def test_a_failing_receive_fails_with_the_injected_error(tool, sockets, place):
    tool.step(RESET, {**RECV, "nth": 2, "place": place})
    source = """
        client.suppress_ragged_eofs = False
        server.close()
        print(attempt(client.recv, 10), attempt(client.recv, 10))
    """
    outcome = run(tool, sockets(source))
    assert outcome.out == "ConnectionResetError SSLEOFError\n"
    assert claims(tool) == ["net.recv"]


def test_an_error_of_tls_has_the_name_of_its_class(tool, key):
    source = """
        raw = socket.create_connection(listener.getsockname())
        other, _ = listener.accept()
        threading.Thread(target=lambda: attempt(lambda: serving.wrap_socket(other, server_side=True))).start()
        print(attempt(lambda: ssl.create_default_context().wrap_socket(raw, server_hostname="localhost")))
    """
    outcome = run(tool, _prepared(tool, key, SOCKETS, source, True))
    assert outcome.out == "SSLCertVerificationError\n"
    assert [e.error for e in outcome.of("net.recv") if e.target == "peer:s2"] == ["", "SSLCertVerificationError"]


# --- asyncio


def test_asyncio_errors_lose_the_connection(tool, streams):
    tool.step(RESET, SEND)
    source = """
        client.transport.write(b"1")
        print(await until(lambda: client.lost != "open"), client.lost)
    """
    outcome = run(tool, streams(source))
    assert outcome.out == "True ConnectionResetError\n"


def test_asyncio_errors_at_a_receive_lose_the_connection(tool, streams):
    tool.step(RESET, {**RECV, "nth": 2})
    source = """
        server.transport.write(b"1")
        await until(lambda: client.data)
        server.transport.write(b"2")
        print(await until(lambda: client.lost != "open"), client.lost, client.data)
    """
    outcome = run(tool, streams(source))
    assert outcome.out == "True ConnectionResetError b'1'\n"


def test_asyncio_loses_sent_bytes(tool, streams):
    tool.step(DROP, {**SEND, "nth": 2})
    source = """
        for number in range(3):
            client.transport.write(b"%d" % number)
            await until(lambda: server.data)
        server.transport.write(b"answer")
        print(await until(lambda: client.data), client.data, server.data)
        heal()
        print(await until(lambda: server.lost != "open"), server.lost)
    """
    outcome = run(tool, streams(source))
    assert outcome.out == "True b'answer' b'0'\nTrue ConnectionResetError\n"
    assert [e.error for e in outcome.of("net.send") if e.target == "peer:s2"] == ["", "LOST", "LOST"]


def test_asyncio_loses_received_bytes(tool, streams):
    tool.step(DROP, {**RECV, "nth": 2})
    source = """
        for number in range(4):
            server.transport.write(b"%d" % number)
            await until(lambda: client.data)
        client.transport.write(b"out")
        print(await until(lambda: server.data), server.data, client.data)
        heal()
        print(await until(lambda: client.lost != "open"), client.lost, client.data)
    """
    outcome = run(tool, streams(source))
    assert outcome.out == "True b'out' b'0'\nTrue ConnectionResetError b'0'\n"
    assert [e.error for e in outcome.of("net.recv") if e.target == "peer:s2"][:2] == ["", "LOST"]


def test_asyncio_corrupts_the_payload(tool, streams):
    tool.step(FLIP, SEND)
    tool.step(FLIP, RECV)
    source = """
        client.transport.write(b"0123456789")
        server.transport.write(b"0123456789")
        print(await until(lambda: server.data and client.data), server.data, client.data)
    """
    outcome = run(tool, streams(source))
    assert outcome.out == f"True {BAD!r} {BAD!r}\n"


def test_a_delay_blocks_the_thread_of_asyncio(tool, streams):
    tool.step(HELD, SEND)
    tool.step(HELD, RECV)
    source = """
        start = time.monotonic()
        client.transport.write(b"1")
        print(time.monotonic() - start >= 0.4, await until(lambda: server.data), server.data)
        start = time.monotonic()
        server.transport.write(b"2")
        print(await until(lambda: client.data), client.data, time.monotonic() - start >= 0.4)
    """
    outcome = run(tool, streams(source))
    assert outcome.out == "True True b'1'\nTrue b'2' True\n"


def test_asyncio_continues_during_a_delayed_send(tool, streams):
    tool.step({**SLOW, "delay_s": 3600}, SEND)
    source = """
        for number in range(5):
            client.transport.write(b"%d" % number)
        print(await until(lambda: server.data, 0.3))
        heal()
        print(await until(lambda: len(server.data) == 5), server.data)
    """
    outcome = run(tool, streams(source))
    assert outcome.out == "False\nTrue b'01234'\n"


def test_a_delayed_send_of_asyncio_leaves_when_its_time_is_over(tool, streams):
    tool.step(SLOW, SEND)
    source = """
        start = time.monotonic()
        for number in range(5):
            client.transport.write(b"%d" % number)
        print(await until(lambda: len(server.data) == 5), server.data, time.monotonic() - start >= 0.4)
    """
    outcome = run(tool, streams(source))
    assert outcome.out == "True b'01234' True\n"


def test_asyncio_never_claims_a_delayed_receive(tool, streams):
    tool.step({**SLOW, "delay_s": 3600}, RECV)
    source = """
        server.transport.write(b"1")
        print(await until(lambda: client.data), client.data)
    """
    outcome = run(tool, streams(source))
    assert outcome.out == "True b'1'\n"
    assert (claims(tool), outcome.receipts) == ([], ())


ACROSS = """
    client.transport.write(b"1")
    server.transport.write(b"2")
    print(await until(lambda: server.data and client.data), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    client.transport.write(b"3")
    server.transport.write(b"4")
    await until(lambda: client.lost != "open", 0.3 if LOSS == "silent" else 30)
    print(server.data, client.data, client.lost, flush=True)
    if client.lost == "open":
        print(await until(lambda: server.data == b"13" and client.data == b"24"))
"""


@pytest.mark.parametrize(("loss", "seen"), [("silent", "open"), ("error", "ConnectionResetError")])
def test_asyncio_waits_or_fails_across_a_partition(tool, streams, loss, seen):
    with started(tool, streams(f"\n    LOSS = {loss!r}" + ACROSS)) as target:
        assert target.stdout.readline() == "True\n"
        tool.change_lasting([partition(loss=loss)])
        say(target)
        assert target.stdout.readline() == f"b'1' b'2' {seen}\n"
        tool.change_lasting([])
        assert target.stdout.readline() == ("True\n" if loss == "silent" else "")


@pytest.mark.parametrize("minor", ["3.9", "3.13"])
def test_tls_faults_with_asyncio_work_on_other_interpreters(tool, streams, minor):
    tool.python = interpreters().get(minor) or pytest.skip(f"no Python {minor} here")
    test_asyncio_loses_received_bytes(tool, streams)


@pytest.mark.parametrize("minor", ["3.9", "3.13"])
def test_tls_faults_at_sockets_work_on_other_interpreters(tool, sockets, minor):
    tool.python = interpreters().get(minor) or pytest.skip(f"no Python {minor} here")
    test_a_tls_socket_loses_received_bytes(tool, sockets)


def started(tool: Any, source: str) -> subprocess.Popen[str]:
    return subprocess.Popen(**tool.command(source, ""), stdin=subprocess.PIPE)


def cut(tool: Any, target: Any, *entries: dict[str, Any]) -> None:
    """Put these faults in force once the target is up, and let it continue."""
    assert target.stdout.readline() == "up\n"
    tool.change_lasting(list(entries))
    say(target)
