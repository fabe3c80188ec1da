"""Programs that move bytes over connections in every way, and functions that compare the records of both ends."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

NAME = re.compile(r"(?P<local>[^>]+)>(?P<remote>[^>]+)/(?P<number>\d+)(?P<kind>|\+tls|\+udp)")
SENDS, RECEIVES = ("net.send", "raw.send"), ("net.recv", "raw.recv")

PAIR = """
    import os, select, selectors, socket, sys, threading

    def pair(listener=None):
        listener = listener or socket.create_server(("127.0.0.1", 0))
        client = socket.create_connection(listener.getsockname())
        return client, listener.accept()[0]

    def read_all(sock, size):
        while size:
            size -= len(sock.recv(min(size, 50_000)))
"""


BLOCKING = """
    def ways():
        client, server = pair()
        assert client.send(b"x" * 10) == 10
        client.sendall(memoryview(b"yy" * 10))
        client.sendmsg([b"a", b"bc"])
        assert server.recv(4, socket.MSG_PEEK) == b"xxxx"
        read_all(server, 20)
        assert server.recv_into(bytearray(5)) == 5
        assert server.recvmsg(5)[0] == b"yyyyy"
        assert server.recvmsg_into([bytearray(2), bytearray(100)])[0] == 3
        server.sendall(b"")
        with server.makefile("wb") as file, client.makefile("rb") as answers:
            for line in range(3):
                file.write(b"line %d\\n" % line)
            file.flush()
            assert [answers.readline() for _ in range(3)][2] == b"line 2\\n"
        client.close()
        assert server.recv(5) == b""
        server.close()

    def copies():
        client, server = pair()
        again = client.dup()
        again.send(b"ab")
        other = socket.socket(fileno=client.detach())
        other.send(b"cde")
        again.close()
        read_all(server, 5)
        server.settimeout(200)
        server.send(b"f")
        assert other.recv(1) == b"f"

    def files():
        with open("big", "wb") as file:
            file.write(b"z" * 300_000)
        client, server = pair()
        reader = threading.Thread(target=read_all, args=(server, 300_000 + 100 + 40 + 7))
        reader.start()
        with open("big", "rb") as file:
            assert client.sendfile(file) == 300_000
            assert client.sendfile(file, 5, 100) == 100
            assert os.sendfile(client.fileno(), file.fileno(), 0, 40) == 40
            assert os.sendfile(client.fileno(), file.fileno(), 300_000, 40) == 0
            os.lseek(file.fileno(), -7, 2)
            assert os.sendfile(client.fileno(), file.fileno(), None, 40) == 7
        reader.join()

    def no_blocking():
        client, server = pair()
        client.setblocking(False)
        server.setblocking(False)
        left = memoryview(bytes(3_000_000))
        with selectors.DefaultSelector() as selector:
            selector.register(client, selectors.EVENT_WRITE)
            selector.register(server, selectors.EVENT_READ)
            got = 0
            while got < 3_000_000:
                for key, _ in selector.select():
                    if key.fileobj is server:
                        got += len(server.recv(100_000))
                    elif left:
                        left = left[client.send(left):]
                    else:
                        selector.unregister(client)

    for way in (ways, copies, files, no_blocking):
        way()
"""


ASYNCIO = """
    import asyncio

    class Counting:
        left = 300_000 + 7 + 6

        def connection_made(self, transport):
            self.transport = transport

        def count(self, size):
            self.left -= size
            if not self.left:
                self.transport.write(b"thanks")

        def connection_lost(self, error):
            pass

        def eof_received(self):
            pass

    class Plain(Counting, asyncio.Protocol):
        def data_received(self, data):
            self.count(len(data))

    class Buffered(Counting, asyncio.BufferedProtocol):
        buffer = bytearray(5000)

        def get_buffer(self, size):
            return self.buffer

        def buffer_updated(self, size):
            self.count(size)

    async def protocols(kind, **tls):
        loop = asyncio.get_running_loop()
        server = await loop.create_server(kind, "127.0.0.1", 0, ssl=tls.get("server"))
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("localhost", port, ssl=tls.get("client"))
        writer.write(b"x" * 300_000)
        writer.writelines([b"abc", b"defg"])
        writer.writelines(part for part in (b"12", b"3456"))
        assert await reader.readexactly(6) == b"thanks"
        writer.close()
        server.close()

    async def handle(reader, writer):
        async for line in reader:
            writer.write(line)
            await writer.drain()
        writer.close()

    async def streams(**tls):
        server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=tls.get("server"))
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("localhost", port, ssl=tls.get("client"))
        writer.write(b"one\\ntwo\\nthree\\nfour")
        assert await reader.readline() == b"one\\n"
        assert await reader.readuntil(b"o") == b"two"
        assert await reader.readexactly(1) == b"\\n"
        assert await reader.read(3) == b"thr"
        if writer.can_write_eof():
            writer.write_eof()
            assert await reader.read() == b"ee\\nfour"
        else:
            writer.write(b"\\n")
            assert await reader.readexactly(8) == b"ee\\nfour\\n"
        writer.close()
        server.close()
        await asyncio.sleep(0.1)

    async def loop_sockets():
        loop = asyncio.get_running_loop()
        client, server = pair()
        client.setblocking(False)
        server.setblocking(False)
        sending = asyncio.ensure_future(loop.sock_sendall(client, bytes(2_000_000)))
        got = 0
        while got < 2_000_000:
            got += len(await loop.sock_recv(server, 100_000))
        await sending
        with open("file", "w+b") as file:
            file.write(b"f" * 70_000)
            file.flush()
            file.seek(0)
            assert await loop.sock_sendfile(client, file) == 70_000
            got = 0
            while got < 70_000:
                got += await loop.sock_recv_into(server, bytearray(10_000))
            transport, protocol = await loop.connect_accepted_socket(Plain, client)
            assert await loop.sendfile(transport, file, 0, 50_000) == 50_000
            while got < 120_000:
                got += await loop.sock_recv_into(server, bytearray(10_000))
            transport.close()
"""


CONTEXTS = """
    import ssl
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain("../key.pem")
    asking = ssl.create_default_context(cafile="../key.pem")
"""


def named(event: Any) -> tuple[str, str, str, str]:
    """Local and remote side, number and kind of the connection of an event."""
    match = NAME.fullmatch(event.resource)
    assert match, (event.op, event.resource)
    return match["local"], match["remote"], match["number"], match["kind"]


def moved(event: Any) -> int:
    """The bytes of an event, as the protocol counts them."""
    if event.error or not event.end_ns:
        return 0
    return event.result or (event.size if event.op in SENDS else 0)


def ledger(outcome: Any) -> tuple[Counter[Any], Counter[Any]]:
    """The bytes sent and the bytes received, by (sender's address, receiver's address, kind)."""
    sent: Counter[Any] = Counter()
    received: Counter[Any] = Counter()
    for event in outcome.of(*SENDS, *RECEIVES):
        if not moved(event):
            continue
        local, remote, _, kind = named(event)
        if event.op in SENDS:
            sent[local, remote, kind] += moved(event)
        else:
            received[remote, local, kind] += moved(event)
    return sent, received


def assert_balanced(outcome: Any, total: int, kind: str = "") -> None:
    """Assert that both ends agree on each direction of each connection, and that those of `kind` moved `total` bytes."""
    outcome.ok()
    sent, received = ledger(outcome)
    assert sent == received
    assert sum(count for key, count in sent.items() if key[2] == kind) == total
