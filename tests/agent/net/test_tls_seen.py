"""TLS: the agent records the payload, once, with threads and with asyncio."""

from __future__ import annotations

from undermine.analysis.causality.causality import causality
from undermine.analysis.messages.pairing import pair
from undermine.model.codec import read_columns

CONTEXTS = """
    import ssl
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain("../key.pem")
    asking = ssl.create_default_context(cafile="../key.pem")
"""

SOCKETS = """
    import socket, threading

    def serve(listener):
        raw, _ = listener.accept()
        connection = serving.wrap_socket(raw, server_side=True)
        buffer = bytearray(10)
        assert connection.recv_into(buffer) == 5
        connection.sendall(b"x" * 100_000)
        connection.unwrap().close()

    def ask(address):
        raw = socket.create_connection(address)
        connection = asking.wrap_socket(raw, server_hostname="localhost")
        connection.send(b"hello")
        count = 0
        while count < 100_000:
            count += len(connection.recv(65536))
        try:
            connection.unwrap()
        except OSError:
            pass
        connection.close()

    listener = socket.create_server(("127.0.0.1", 0))
    server = threading.Thread(target=serve, args=(listener,))
    server.start()
    ask(listener.getsockname())
    server.join()
"""


def test_tls_sockets_are_recorded(tool, any_python, key):
    tool.python = any_python
    (tool.folder / "key.pem").write_text(key.read_text())
    outcome = tool.run(CONTEXTS + SOCKETS).ok()
    served = [e for e in outcome.trace if e.loc.startswith("__main__:serve#") and e.kind == "net"]
    assert [(e.op, e.size, e.result) for e in served if e.op in ("net.send", "net.recv") and e.result + e.size] == [
        ("net.recv", 10, 5),
        ("net.send", 100_000, 0),
    ]
    assert [e.op for e in served] == ["net.accept", "net.recv", "net.recv", "net.send", "net.recv", "net.close"]
    asked = [e for e in outcome.trace if e.loc.startswith("__main__:ask#") and e.kind == "net"]
    assert [e.size for e in asked if e.op == "net.send"] == [5]
    assert sum(e.result for e in asked if e.op == "net.recv") == 100_000
    assert {e.target for e in asked} == {"other"}
    assert asked[-1].op == "net.close"


STREAMS = """
    import asyncio

    class Echo(asyncio.Protocol):
        def connection_made(self, transport):
            self.transport = transport

        def data_received(self, data):
            self.transport.write(data)

    async def ask(port, size):
        reader, writer = await asyncio.open_connection("localhost", port, ssl=asking)
        writer.write(b"y" * size)
        assert len(await reader.readexactly(size)) == size
        writer.close()
        await asyncio.sleep(0.1)

    async def main():
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Echo, "127.0.0.1", 0, ssl=serving)
        await ask(server.sockets[0].getsockname()[1], 1_000_000)
        server.close()
        await asyncio.sleep(0.1)

    asyncio.run(main())
"""


def test_asyncio_tls_is_recorded(tool, any_python, key):
    tool.python = any_python
    (tool.folder / "key.pem").write_text(key.read_text())
    outcome = tool.run(CONTEXTS + STREAMS).ok()
    million = 1_000_000
    (question,) = [e for e in outcome.of("net.send") if e.target == "other"]
    assert question.size == million
    assert question.loc.startswith("__main__:ask#")
    assert sum(e.size for e in outcome.of("net.send") if e.target == "accepted") == million
    for target in ("other", "accepted"):
        assert sum(e.result for e in outcome.of("net.recv") if e.target == target) == million
    closes = [e for e in outcome.of("net.close") if e.target != "listen"]
    assert sorted(e.target for e in closes) == ["accepted", "other"]
    assert next(e for e in closes if e.target == "other").loc.startswith("__main__:ask#")


def test_an_error_is_seen_by_the_program(tool, key):
    (tool.folder / "key.pem").write_text(key.read_text())
    tool.step({"fault": "error", "error": "ECONNRESET"}, {"op": "net.recv", "target": "other", "nth": 2})
    outcome = tool.run(
        CONTEXTS
        + SOCKETS.replace("    ask(listener", "    try:\n        ask(listener").replace(
            "    server.join()", "    except ConnectionResetError as error:\n        print(error.errno)"
        )
    )
    assert outcome.out == "104\n", outcome.err


RELAY = """
    import os, socket, threading

    def serve(listener):
        raw, _ = listener.accept()
        with serving.wrap_socket(raw, server_side=True) as connection:
            assert connection.recv(10) == b"asked"
            connection.send(b"answer")
            connection.unwrap().close()

    def relay(listener, behind):
        plain, _ = listener.accept()
        assert plain.recv(10) == b"hello"
        raw = socket.create_connection(behind)
        connection = asking.wrap_socket(raw, server_hostname="localhost")
        os.mkdir("handshake")
        connection.send(b"asked")
        assert connection.read() == b"answer"
        os.mkdir("answer")
        raw = connection.unwrap()
        os.mkdir("unwrapped")
        raw.close()
        plain.close()

    behind, front = (socket.create_server(("127.0.0.1", 0)) for _ in range(2))
    threads = [threading.Thread(target=serve, args=(behind,)), threading.Thread(target=relay, args=(front, behind.getsockname()))]
    for thread in threads:
        thread.start()
    with socket.create_connection(front.getsockname()) as client:
        client.send(b"hello")
        client.recv(1)
    for thread in threads:
        thread.join()
"""


def test_a_handshake_is_part_of_the_current_operation(tool, any_python, key):
    tool.python = any_python
    (tool.folder / "key.pem").write_text(key.read_text())
    tool.run(CONTEXTS + RELAY).ok()
    columns = read_columns(tool.trace_dir)
    found = causality(columns, pair(columns))
    sent = {}
    for row in columns.find("file.mkdir").tolist():
        send = int(found.cause[found.cause[row]])
        sent[columns.text(int(columns.target[row]))] = columns.name(send), int(columns.size[send])
    assert sent == {"handshake": ("net.send", 5), "answer": ("net.send", 6), "unwrapped": ("net.send", 6)}
    exchanged = [row for row in columns.find("net.recv").tolist() if not columns.result[row] and not columns.size[row]]
    assert len(exchanged) == 4


PAIR = """
    import socket, threading

    def serve(raw):
        connection = serving.wrap_socket(raw, server_side=True)
        assert connection.recv(10) == b"hello"
        connection.sendall(b"x" * 1000)

    def ask(raw):
        connection = asking.wrap_socket(raw, server_hostname="localhost")
        connection.send(b"hello")
        count = 0
        while count < 1000:
            count += len(connection.recv(4096))

    one, other = socket.socketpair()
    server = threading.Thread(target=serve, args=(one,))
    server.start()
    ask(other)
    server.join()
"""


def test_the_payload_of_tls_over_a_socket_pair_is_recorded(tool, any_python, key):
    tool.python = any_python
    (tool.folder / "key.pem").write_text(key.read_text())
    outcome = tool.run(CONTEXTS + PAIR).ok()
    served = [(e.op, e.size, e.result) for e in outcome.trace if e.loc.startswith("__main__:serve#") and "pipe." in e.op]
    assert served == [("pipe.read", 10, 5), ("pipe.write", 1000, 0)]
    asked = [(e.op, e.result) for e in outcome.trace if e.loc.startswith("__main__:ask#") and "pipe." in e.op]
    assert asked[0] == ("pipe.write", 5)
    assert sum(result for op, result in asked if op == "pipe.read") == 1000
