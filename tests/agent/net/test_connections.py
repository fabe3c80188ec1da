"""Connections have names, and all bytes that one end sent were received by the other, for every kind of call."""

from __future__ import annotations

from collections import Counter

from bytes_moved import ASYNCIO, BLOCKING, CONTEXTS, PAIR, assert_balanced, ledger, moved, named


def test_sockets_have_connection_names_and_count_their_bytes(tool):
    outcome = tool.run(PAIR + BLOCKING)
    assert_balanced(outcome, 33 + 21 + 6 + 300_147 + 3_000_000)
    (limit,) = [e for e in outcome.of("timeout") if e.size == 200 * 10**9]
    assert limit.resource in {e.resource for e in outcome.of("net.send")}
    closed = {e.resource for e in outcome.of("net.close")}
    assert len(closed & {e.resource for e in outcome.of("net.send", "net.recv")}) >= 2
    polls = [e for e in outcome.of("poll") if "no_blocking" in e.loc]
    assert polls
    assert all(e.size == 0 and e.result in (1, 2) for e in polls)


INHERITED = """
    import subprocess

    def forked():
        client, server = pair()
        child = os.fork()
        if child == 0:
            read_all(server, 4)
            server.sendall(b"from the child")
            os._exit(0)
        client.send(b"ping")
        os.waitpid(child, 0)
        server.send(b"from the parent")
        read_all(client, 14 + 15)

    def handed_on():
        client, server = pair()
        program = "import socket; s = socket.socket(fileno=%d); s.sendall(s.recv(9))" % server.fileno()
        running = subprocess.Popen([sys.executable, "-c", program], pass_fds=[server.fileno()])
        client.send(b"ping pong")
        read_all(client, 9)
        assert running.wait() == 0

    def same_ports():
        listener, mine, here = socket.create_server(("127.0.0.1", 0)), 0, []
        for turn in range(3):
            client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\\1\\0\\0\\0\\0\\0\\0\\0")
            client.bind(("127.0.0.1", mine))
            mine = client.getsockname()[1]
            client.connect(listener.getsockname())
            server, _ = listener.accept()
            client.send(b"turn")
            assert server.recv(10) == b"turn"
            client.close()
            server.close()
        print(mine)

    for way in (forked, handed_on, same_ports):
        way()
"""


def test_connections_keep_their_names_across_processes_and_reused_ports(tool):
    outcome = tool.run(PAIR + INHERITED)
    assert_balanced(outcome, 4 + 29 + 18 + 12)
    port = outcome.out.strip()
    again = [e for e in outcome.of("net.send") if named(e)[0] == f"127.0.0.1:{port}"]
    assert len({named(e)[:2] for e in again}) == 1
    assert len({named(e)[2] for e in again}) == 3
    answers = [e for e in outcome.of("net.send") if "forked" in e.loc and e.size in (14, 15)]
    assert len({e.pid for e in answers}) == 2
    assert len({e.resource for e in answers}) == 1


def test_asyncio_transports_have_connection_names_and_count_their_bytes(tool, any_python):
    tool.python = any_python
    main = """
    async def main():
        await protocols(Plain)
        await protocols(Buffered)
        await streams()
        await loop_sockets()

    asyncio.run(main())
"""
    outcome = tool.run(PAIR + ASYNCIO + main)
    assert_balanced(outcome, 2 * (300_013 + 6) + 2 * 18 + 2_000_000 + 120_000)
    reads = Counter({e.resource: 0 for e in outcome.of("stream.read")})
    for event in outcome.of("stream.read"):
        reads[event.resource] += event.result
    arrived = Counter(e.resource for e in outcome.of("net.recv") for _ in range(e.result) if e.resource in reads)
    assert reads == arrived
    assert sorted(reads.values()) == [6, 6, 18, 18]


def test_asyncio_tls_counts_the_payload(tool, any_python, key):
    tool.python = any_python
    (tool.folder / "key.pem").write_text(key.read_text())
    main = """
    async def main():
        await protocols(Plain, server=serving, client=asking)
        await protocols(Buffered, server=serving, client=asking)
        await streams(server=serving, client=asking)

    asyncio.run(main())
"""
    outcome = tool.run(PAIR + CONTEXTS + ASYNCIO + main)
    assert_balanced(outcome, 2 * (300_013 + 6) + 2 * 19, "+tls")
    sent, _ = ledger(outcome)
    assert {kind for _, _, kind in sent} == {"+tls"}
    assert {named(e)[3] for e in outcome.of("stream.read")} == {"+tls"}


LATER = """
    async def serve(reader, writer):
        assert await reader.readexactly(8) == b"STARTTLS"
        writer.write(b"go")
        await writer.start_tls(serving)
        data = await reader.readexactly(5)
        writer.write(data * 2)
        await writer.drain()
        writer.close()

    async def main():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"STARTTLS")
        assert await reader.readexactly(2) == b"go"
        await writer.start_tls(asking, server_hostname="localhost")
        writer.write(b"hello")
        assert await reader.readexactly(10) == b"hello" * 2
        writer.close()
        server.close()
        await asyncio.sleep(0.1)

    asyncio.run(main())
"""


def test_tls_that_starts_on_an_open_connection_counts_the_payload(tool, key):
    (tool.folder / "key.pem").write_text(key.read_text())
    outcome = tool.run(PAIR + CONTEXTS + "    import asyncio\n" + LATER)
    assert_balanced(outcome, 10)
    assert_balanced(outcome, 15, "+tls")
    assert [named(e)[3] for e in outcome.of("stream.read") if e.result in (5, 10)] == ["+tls", "+tls"]


TLS = """
    def serve(listener):
        raw, _ = listener.accept()
        assert raw.recv(100) == b"STARTTLS"
        raw.send(b"go")
        connection = serving.wrap_socket(raw, server_side=True)
        buffer = bytearray(10)
        assert connection.recv_into(buffer) == 5
        connection.sendall(b"x" * 100_000)
        connection.write(b"y")
        plain = connection.unwrap()
        plain.sendall(b"no secret")
        plain.close()

    def ask(address):
        raw = socket.create_connection(address)
        raw.sendall(b"STARTTLS")
        assert raw.recv(100) == b"go"
        connection = asking.wrap_socket(raw, server_hostname="localhost")
        connection.send(b"hello")
        with connection.makefile("rb") as file:
            assert len(file.read(100_001)) == 100_001
        plain = connection.unwrap()
        read_all(plain, 9)
        assert plain.recv(1) == b""
        plain.close()

    def wrapped_before():
        listener = socket.create_server(("127.0.0.1", 0))
        address = listener.getsockname()
        server = threading.Thread(target=answer, args=(serving.wrap_socket(listener, server_side=True),))
        server.start()
        client = asking.wrap_socket(socket.socket(), server_hostname="localhost")
        client.connect(address)
        client.setblocking(False)
        left = memoryview(bytes(200_000))
        while left:
            try:
                left = left[client.send(left):]
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                select.select([client], [client], [], 0.1)
        client.setblocking(True)
        assert client.recv(10) == b"enough"
        client.close()
        server.join()

    def answer(listener):
        connection, _ = listener.accept()
        read_all(connection, 200_000)
        connection.send(b"enough")
        connection.close()

    listener = socket.create_server(("127.0.0.1", 0))
    server = threading.Thread(target=serve, args=(listener,))
    server.start()
    ask(listener.getsockname())
    server.join()
    wrapped_before()
"""


def test_tls_sockets_count_the_payload(tool, any_python, key):
    tool.python = any_python
    (tool.folder / "key.pem").write_text(key.read_text())
    outcome = tool.run(PAIR + CONTEXTS + TLS)
    assert_balanced(outcome, 5 + 100_001 + 200_006, "+tls")
    assert_balanced(outcome, 8 + 2 + 9)


def test_datagrams_are_named_by_socket_and_peer(tool):
    outcome = tool.run(
        """
        import asyncio, socket

        def plain():
            here = socket.socket(type=socket.SOCK_DGRAM)
            here.bind(("127.0.0.1", 0))
            there = socket.socket(type=socket.SOCK_DGRAM)
            there.sendto(b"first", here.getsockname())
            there.sendto(b"second", here.getsockname())
            data, address = here.recvfrom(100)
            here.connect(address)
            assert here.recv(100) == b"second"
            here.send(b"answer")
            assert there.recvfrom_into(bytearray(100))[0] == 6

        class Echo(asyncio.DatagramProtocol):
            def connection_made(self, transport):
                self.transport = transport

            def datagram_received(self, data, address):
                self.transport.sendto(data, address)

        class Asks(asyncio.DatagramProtocol):
            def connection_made(self, transport):
                transport.sendto(b"hello")

            def datagram_received(self, data, address):
                answered.set_result(data)

        async def main():
            global answered
            loop = asyncio.get_running_loop()
            answered = loop.create_future()
            server, _ = await loop.create_datagram_endpoint(Echo, ("127.0.0.1", 0))
            client, _ = await loop.create_datagram_endpoint(Asks, remote_addr=server.get_extra_info("sockname"))
            assert await answered == b"hello"
            client.close()
            server.close()

        plain()
        asyncio.run(main())
        """
    ).ok()
    sends = outcome.of("net.send")
    assert [moved(e) for e in sends] == [5, 6, 6, 5, 5]
    assert all(named(e)[3] == "+udp" and ":0>" not in e.resource for e in sends)
    assert {named(e)[:2] for e in sends[:2]} == {tuple(reversed(named(sends[2])[:2]))}
    assert len({named(e)[2] for e in sends[:2]}) == 1
    receives = [e for e in outcome.of("net.recv") if moved(e)]
    assert sorted(moved(e) for e in receives) == [5, 5, 5, 6, 6]
    assert [named(e)[1] == "*" for e in receives[:2]] == [True, False]
    assert {named(e)[0] for e in receives} == {named(e)[1] for e in sends}
