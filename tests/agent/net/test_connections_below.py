"""Bytes are counted below logical operations, under faults, and above buffers of libraries."""

from __future__ import annotations

import subprocess

import pytest
from bytes_moved import ASYNCIO, BLOCKING, CONTEXTS, PAIR, SENDS, assert_balanced, ledger, moved
from fake_tool import partition, say
from free_ports import free_port

from undermine.analysis.messages.pairing import pair
from undermine.model.columns import Columns

RAW = """
    class Peer:
        def __init__(self, address):
            self.sock = socket.create_connection(address)

        def ask(self, text):
            self.sock.sendall(text)
            return self.sock.recv(100)

    def serve(listener):
        connection, _ = listener.accept()
        connection.sendall(connection.recv(100) * 2)

    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=serve, args=(listener,)).start()
    peer = Peer(listener.getsockname())
    assert peer.ask(b"abc") == b"abcabc"
"""


def test_a_connection_opened_below_a_logical_operation_has_a_name(tool):
    tool.more_config = {"operations": [{"function": "__main__:ask", "op": "msg.send", "peer": {"argument": "address"}}]}
    source = RAW.replace("peer = Peer(listener.getsockname())", "").replace("peer.ask(", "ask(listener.getsockname(), ")
    whole = """
    def ask(address, text):
        return Peer(address).ask(text)
"""
    outcome = tool.run(PAIR + whole + source)
    assert outcome.of("net.connect") == []
    assert_balanced(outcome, 9)


@pytest.mark.parametrize("observe", [{}, {"observe": ["raw"]}, {"observe": []}], ids=["all", "raw", "nothing"])
def test_sends_and_receives_below_a_logical_operation_are_recorded_as_raw(tool, observe):
    asking = {"function": "__main__:Peer.ask", "op": "msg.send", "peer": {"argument": "self.sock"}}
    tool.more_config = {"operations": [asking], **observe}
    outcome = tool.run(PAIR + RAW).ok()
    (message,) = outcome.of("msg.send")
    raw = outcome.of("raw.send", "raw.recv")
    if observe.get("observe") == []:
        assert raw == []
        return
    assert [(e.op, moved(e)) for e in raw] == [("raw.send", 3), ("raw.recv", 6)]
    assert all(message.t_ns <= e.t_ns and e.end_ns <= message.end_ns for e in raw)
    assert_balanced(outcome, 9)


def test_the_streams_adapter_keeps_raw_bytes_and_stream_reads(tool):
    tool.more_config = {"adapters": [{"adapter": "streams"}]}
    main = """
    asyncio.run(streams())
"""
    outcome = tool.run(PAIR + ASYNCIO + main)
    assert_balanced(outcome, 2 * 18)
    assert {e.op for e in outcome.of(*SENDS)} == {"raw.send"}
    assert sum(e.result for e in outcome.of("stream.read")) == 2 * 18


@pytest.mark.parametrize(
    "step",
    [
        {"fault": "delay", "delay_s": 0.2, "mode": "operation"},
        {"fault": "delay", "delay_s": 0.2},
        {"fault": "corrupt", "how": "flip", "at": 0.5},
    ],
    ids=["delay of the operation", "delay of the thread", "corrupt"],
)
@pytest.mark.parametrize("op", ["net.send", "net.recv"])
def test_delayed_and_corrupted_bytes_are_counted(tool, step, op):
    tool.step(step, {"op": op, "nth": 2})
    outcome = tool.run(PAIR + BLOCKING.replace("(ways, copies, files, no_blocking)", "(files, no_blocking)"))
    assert outcome.receipts
    assert_balanced(outcome, 300_147 + 3_000_000)


def test_dropped_bytes_are_not_counted(tool):
    tool.step({"fault": "drop"}, {"op": "net.send", "nth": 3})
    outcome = tool.run(
        PAIR
        + """
    client, server = pair()
    client.send(b"one")
    read_all(server, 3)
    client.sendall(b"two two")
    client.send(b"three")
    client.sendall(b"four")
    client.setblocking(False)
    client.send(b"five")
    with open("f", "w+b") as file:
        file.write(b"six")
        file.flush()
        client.setblocking(True)
        file.seek(0)
        assert client.sendfile(file) == 3
        assert os.sendfile(client.fileno(), file.fileno(), 0, 3) == 3
    read_all(server, 7)
"""
    )
    assert [moved(e) for e in outcome.of("net.send")] == [3, 7, 0, 0, 0, 0, 0]
    assert_balanced(outcome, 10)


def test_bytes_withheld_by_a_partition_are_counted(make_tool):
    """Two nodes that are cut off and healed again; the bytes arrive, and both have counted them."""
    one, two, port = make_tool(), make_tool(), free_port()
    two.node = "s2"
    for tool in (one, two):
        tool.addresses = {f"127.0.0.1:{port}": "s2"}
    one.change_lasting([partition()])
    server = two.start(
        f"""
        import socket
        connection, _ = socket.create_server(("127.0.0.1", {port})).accept()
        print("here", flush=True)
        size = 0
        while size < 15:
            size += len(connection.recv(100))
        connection.sendall(b"answer")
        """
    )
    source = f"""
        import socket, sys, time
        while True:
            try:
                peer = socket.create_connection(("127.0.0.1", {port}))
                break
            except OSError:
                time.sleep(0.05)
                print("refused", flush=True)
        peer.sendall(b"first")
        print("sent", flush=True)
        sys.stdin.readline()
        peer.setblocking(False)
        assert peer.send(b"and second") == 10
        print("withheld", flush=True)
        peer.setblocking(True)
        assert peer.recv(10) == b"answer"
        """
    client = subprocess.Popen(**one.command(source, ""), stdin=subprocess.PIPE)
    assert client.stdout is not None
    assert client.stdout.readline() == "refused\n"
    one.change_lasting([])
    while client.stdout.readline() != "sent\n":
        pass
    one.change_lasting([partition()])
    say(client)
    assert client.stdout.readline() == "withheld\n"
    one.change_lasting([])
    sides = one.outcome(client).ok(), two.outcome(server).ok()
    (sent, received), (answered, arrived) = map(ledger, sides)
    assert sent == arrived
    assert answered == received
    assert [sum(sent.values()), sum(answered.values())] == [15, 6]


TORNADO = """
    import asyncio
    from tornado.iostream import IOStream, StreamClosedError
    from tornado.tcpclient import TCPClient
    from tornado.tcpserver import TCPServer

    class Server(TCPServer):
        async def handle_stream(self, stream, address):
            size = int(await stream.read_until(b" "))
            buffer = bytearray(size)
            assert await stream.read_into(buffer) == size
            await stream.write(buffer)
            assert await stream.read_until_regex(b"[0-9]") == b"ab7"
            await stream.write(b"bye")
            stream.close()

    async def main():
        server = Server(**SERVING)
        server.listen(0, "127.0.0.1")
        port = list(server._sockets.values())[0].getsockname()[1]
        stream = await TCPClient().connect("localhost", port, **ASKING)
        await stream.write(b"3000000 ")
        stream.write(bytes(3_000_000))
        assert len(await stream.read_bytes(3_000_000)) == 3_000_000
        await stream.write(b"ab7")
        assert await stream.read_until_close() == b"bye"
        try:
            await stream.read_bytes(1)
        except StreamClosedError:
            pass

    asyncio.run(main())
"""


@pytest.mark.parametrize("tls", ["", "+tls"])
def test_tornado_streams_record_their_reads(tool, tls, key):
    pytest.importorskip("tornado")
    (tool.folder / "key.pem").write_text(key.read_text())
    tool.more_config = {"adapters": [{"adapter": "tornado"}]}
    options = (
        "SERVING, ASKING = dict(ssl_options=serving), dict(ssl_options=asking)" if tls else "SERVING = ASKING = {}"
    )
    outcome = tool.run(CONTEXTS + "    " + options + "\n" + TORNADO)
    size = 8 + 2 * 3_000_000 + 3 + 3
    assert_balanced(outcome, size, tls)
    reads = outcome.of("stream.read")
    assert sum(e.result for e in reads) == size
    assert {e.resource for e in reads if e.result} == {e.resource for e in outcome.of("net.recv") if e.result}


GIVES_UP = """
    client, server = pair()
    client.sendall(b"one")
    client.setblocking(False)
    try:
        client.sendall(bytes(20_000_000))
    except BlockingIOError:
        pass
    try:
        client.send(b"no room")
    except BlockingIOError:
        pass
    server.setblocking(False)
    while True:
        try:
            server.recv(1_000_000)
        except BlockingIOError:
            break
    client.sendall(b"two")
    server.setblocking(True)
    read_all(server, 3)
"""


@pytest.mark.parametrize("step", [None, {"fault": "delay", "delay_s": 0.1}], ids=["nobody asks", "a step waits"])
def test_a_nonblocking_sendall_that_fails_is_recorded(tool, step):
    if step:
        tool.step(step, {"op": "net.send", "nth": 99})
    outcome = tool.run(PAIR + GIVES_UP).ok()
    assert [(e.size, e.error) for e in outcome.of("net.send")] == [(3, ""), (20_000_000, "EAGAIN"), (3, "")]
    columns = Columns.of(outcome.trace)
    pairing = pair(columns)
    assert pairing.received == pairing.paired > 100_000
    assert {columns.event(int(row)).size for row in pairing.send} == {3, 20_000_000}


def test_a_nonblocking_sendall_to_a_socket_pair_that_fails_is_recorded(tool):
    source = GIVES_UP.replace("= pair()", "= socket.socketpair()")
    outcome = tool.run(PAIR + source).ok()
    writes = outcome.of("pipe.write")
    assert [(e.size, e.error) for e in writes] == [(3, ""), (20_000_000, "EAGAIN"), (3, "")]
    pairing = pair(Columns.of(outcome.trace))
    assert len(set(pairing.send.tolist())) == 3
    assert not len(pairing.unpaired)
