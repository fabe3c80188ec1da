"""With `content`, each operation that moves bytes is followed by the tokens of these bytes."""

from __future__ import annotations

from typing import Any

import pytest
from fake_tool import FakeTool, Outcome
from token_digests import tokens_of

from undermine.agent_protocol import FAMILIES
from undermine.analysis.common_data.tokens import TOKENS, tokens_by_row
from undermine.model.codec import read_columns


@pytest.fixture
def recording(tool: FakeTool) -> FakeTool:
    tool.more_config["content"] = True
    return tool


def tokens_at(outcome: Outcome, op: str, function: str = "") -> list[str]:
    """The digests after each operation in this function, in the order of the operations."""
    digests = {(event.pid, event.size): event.resource for event in outcome.of(TOKENS)}
    found = [event for event in outcome.of(op) if event.loc.startswith(f"__main__:{function}")]
    return [digests.get((event.pid, event.seq), "") for event in found]


def digests(*texts: bytes) -> list[str]:
    return [" ".join(sorted(tokens_of(text))) for text in texts]


def test_files(recording: FakeTool, any_python: str) -> None:
    recording.python = any_python
    outcome = recording.run("""
        import array, io, os

        def buffered():
            with open("file", "w+b") as file:
                file.write(b"first-record\\n")
                file.write(b"second-record\\n")
                file.flush()
                file.seek(0)
                file.read()

        def text():
            with open("text", "w") as file:
                file.write("größe=wordcount")

        def raw():
            fd = os.open("raw", os.O_RDWR | os.O_CREAT)
            os.write(fd, b"raw-write")
            os.pwrite(fd, bytearray(b"raw-pwrite"), 0)
            os.write(fd, memoryview(array.array("b", b"raw-array")))
            os.writev(fd, [b"split-", b"token " * 2000, b"at-the-end"])
            os.pread(fd, 10, 0)
            os.preadv(fd, [bytearray(3), bytearray(100)], 0)
            os.close(fd)

        def unbuffered():
            with io.FileIO("unbuffered", "w+") as file:
                file.write(b"unbuffered-write")
                file.seek(0)
                file.readinto(bytearray(b"not-what-was-read"))
                file.seek(0)
                file.readall()

        buffered()
        text()
        raw()
        unbuffered()
    """).ok()
    both = b"first-record\nsecond-record\n"
    assert tokens_at(outcome, "file.write", "buffered") == digests(both)
    assert tokens_at(outcome, "file.read", "buffered")[0] == digests(both)[0]
    assert tokens_at(outcome, "file.write", "text") == digests("größe=wordcount".encode())
    split = b"split-" + b"token " * 2000 + b"at-the-end"
    assert tokens_at(outcome, "file.write", "raw") == digests(b"raw-write", b"raw-pwrite", b"raw-array", split)
    stored = (b"raw-pwrite"[:9] + b"raw-array" + split)[:103]
    assert tokens_at(outcome, "file.read", "raw") == digests(stored[:10], stored)
    assert tokens_at(outcome, "file.write", "unbuffered") == digests(b"unbuffered-write")
    assert tokens_at(outcome, "file.read", "unbuffered")[:2] == digests(b"unbuffered-write") * 2


def test_mapped_files(recording: FakeTool) -> None:
    outcome = recording.run("""
        import mmap, os

        def mapped():
            fd = os.open("mapped", os.O_RDWR | os.O_CREAT)
            os.ftruncate(fd, 4096)
            with mmap.mmap(fd, 4096) as memory:
                memory[0:12] = b"mapped-slice"
                memory[20] = 7
                memory.write(b"mapped-write")
                memory.move(100, 0, 12)
                memory.write_byte(7)
                memory[0:12]
                memory[5]
                memory.seek(0)
                memory.read(12)
                memory.read_byte()

        mapped()
    """).ok()
    slice_, write = digests(b"mapped-slice", b"mapped-write")
    assert tokens_at(outcome, "file.map_write") == [slice_, "", write, "", ""]
    assert tokens_at(outcome, "file.map_read") == [write, "", write, ""]


NETWORK = """
    import select, socket, threading

    def connected():
        listener = socket.create_server(("127.0.0.1", 0))
        client = socket.create_connection(listener.getsockname())
        return client, listener.accept()[0]
"""


def test_sockets(recording: FakeTool, any_python: str) -> None:
    recording.python = any_python
    outcome = recording.run(
        NETWORK
        + """
    def send(one):
        one.sendall(b"sent-by-sendall")
        one.send(b"sent-by-send")
        one.sendmsg([b"sent-in-", b"parts"])

    def receive(other):
        other.recv(15, socket.MSG_WAITALL)
        other.recv_into(bytearray(12), 12, socket.MSG_WAITALL)
        other.recvmsg_into([bytearray(8), bytearray(5)], 0, socket.MSG_WAITALL)

    def without_waiting(one, other):
        one.setblocking(False)
        other.setblocking(False)
        one.send(b"does-not-wait")
        select.select([other], [], [])
        other.recv(100)
        try:
            other.recv(100)
        except BlockingIOError:
            pass

    def cut_short(one, other):
        one.setblocking(False)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        print(one.send(b" " * 4_000_000 + b"never-sent"))

    def datagrams():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as two:
            two.bind(("127.0.0.1", 0))
            one.sendto(b"first-datagram", two.getsockname())
            one.sendto(b"second-datagram", two.getsockname())
            two.recvfrom(100)
            two.recvfrom_into(bytearray(100))

    one, other = connected()
    send(one)
    receive(other)
    without_waiting(one, other)
    cut_short(one, other)
    datagrams()
    """
    ).ok()
    sent = digests(b"sent-by-sendall", b"sent-by-send", b"sent-in-parts")
    assert tokens_at(outcome, "net.send", "send#") == sent
    assert tokens_at(outcome, "net.recv", "receive#") == sent
    assert tokens_at(outcome, "net.send", "without_waiting#") == digests(b"does-not-wait")
    assert tokens_at(outcome, "net.recv", "without_waiting#") == digests(b"does-not-wait")
    assert int(outcome.out) < 4_000_000
    assert tokens_at(outcome, "net.send", "cut_short#") == [""], "only the bytes that were sent"
    assert tokens_at(outcome, "net.send", "datagrams#") == digests(b"first-datagram", b"second-datagram")
    assert tokens_at(outcome, "net.recv", "datagrams#") == digests(b"first-datagram", b"second-datagram")


TLS = """
    import asyncio, ssl
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain("../key.pem")
    asking = ssl.create_default_context(cafile="../key.pem")
"""


def test_tls_sockets(recording: FakeTool, key: Any) -> None:
    (recording.folder / "key.pem").write_text(key.read_text())
    program = """
    def serve(raw):
        with serving.wrap_socket(raw, server_side=True) as connection:
            connection.recv(100)
            connection.sendall(b"the-secret-answer")
            connection.recv_into(bytearray(100))

    def ask(raw):
        with asking.wrap_socket(raw, server_hostname="localhost") as connection:
            connection.send(b"the-secret-question")
            connection.recv(100)
            connection.send(b"another-question")

    client, server = connected()
    thread = threading.Thread(target=serve, args=(server,))
    thread.start()
    ask(client)
    thread.join()
    """
    outcome = recording.run(TLS + NETWORK + program).ok()
    question, answer, other = digests(b"the-secret-question", b"the-secret-answer", b"another-question")
    for op, function, expected in (
        ("net.send", "ask", [question, other]),
        ("net.recv", "ask", [answer]),
        ("net.send", "serve", [answer]),
        ("net.recv", "serve", [question, other]),
    ):
        assert [text for text in tokens_at(outcome, op, function) if text] == expected


STREAMS = """
    async def serve(reader, writer):
        await reader.readline()
        writer.writelines([b"the-answer", b"\\n"])
        await writer.drain()
        writer.close()

    async def main(serving, asking):
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=serving)
        host = "localhost" if asking else None
        address = server.sockets[0].getsockname()
        reader, writer = await asyncio.open_connection(*address, ssl=asking, server_hostname=host)
        writer.write(b"the-question\\n")
        await reader.read()
        writer.close()
        server.close()
"""


@pytest.mark.parametrize("encrypted", [False, True])
def test_asyncio(recording: FakeTool, any_python: str, key: Any, encrypted: bool) -> None:
    recording.python = any_python
    (recording.folder / "key.pem").write_text(key.read_text())
    call = "asyncio.run(main(serving, asking))" if encrypted else "asyncio.run(main(None, None))"
    outcome = recording.run(TLS + STREAMS + f"\n    {call}\n").ok()
    both = digests(b"the-question\n", b"the-answer\n")
    assert [text for text in tokens_at(outcome, "net.send") if text] == both
    assert [text for text in tokens_at(outcome, "net.recv") if text] == both


def test_pipes(recording: FakeTool, any_python: str) -> None:
    recording.python = any_python
    outcome = recording.run("""
        import multiprocessing, os, socket

        def pipes():
            one, other = os.pipe()
            os.write(other, b"through-a-pipe")
            os.read(one, 100)

        def pairs():
            one, other = socket.socketpair()
            one.sendall(b"through-a-pair")
            other.recv(100)
            one.setblocking(False)
            one.send(b"does-not-wait")
            other.setblocking(False)
            other.recv(100)

        def messages():
            one, other = multiprocessing.Pipe()
            one.send_bytes(b"through-a-message")
            other.recv_bytes()

        pipes()
        pairs()
        messages()
    """).ok()
    for op in ("pipe.write", "pipe.read"):
        assert tokens_at(outcome, op, "pipes") == digests(b"through-a-pipe")
        assert tokens_at(outcome, op, "pairs") == digests(b"through-a-pair", b"does-not-wait")
        assert tokens_at(outcome, op, "messages") == digests(b"through-a-message")


def test_sqlite_parameters_and_rows(recording: FakeTool, any_python: str) -> None:
    recording.python = any_python
    outcome = recording.run("""
        import sqlite3

        def write(connection):
            connection.execute("CREATE TABLE jobs (id INTEGER, name TEXT, data BLOB)")
            connection.execute("INSERT INTO jobs VALUES (?, ?, ?)", (70000, "wordcount", b"the-data"))
            connection.execute("INSERT INTO jobs VALUES (:id, :name, NULL)", {"id": -70001, "name": b"\\xff\\xfe"})
            connection.executemany("INSERT INTO jobs VALUES (?, ?, NULL)", [(1, "many-1"), (2, "many-2")])
            connection.executemany("INSERT INTO jobs VALUES (?, ?, NULL)", iter([(3, "many-3")]))
            connection.commit()

        def read(connection):
            connection.execute("SELECT name FROM jobs WHERE id = ?", (70000,)).fetchone()
            connection.row_factory = sqlite3.Row
            assert len(connection.execute("SELECT name FROM jobs WHERE id > 0").fetchall()) == 4

        connection = sqlite3.connect("db")
        write(connection)
        read(connection)
    """).ok()
    name, data, one, two, three = digests(b"wordcount", b"the-data", b"many-1", b"many-2", b"many-3")
    number = f"n{70000:x}"
    wrote = [set(text.split()) for text in tokens_at(outcome, "db.write", "write")]
    assert wrote == [set(), {number, name, data}, set(), {one, two}, set()], "an iterator is not consumed"
    read = [set(text.split()) for text in tokens_at(outcome, "db.read", "read")]
    assert read == [{number}, {name}, set(), {name, one, two, three}]


def test_bytes_below_a_logical_operation(recording: FakeTool) -> None:
    asking = {"function": "__main__:Peer.ask", "op": "msg.send", "peer": {"argument": "self.sock"}}
    recording.more_config["operations"] = [asking]
    program = """
    class Peer:
        def __init__(self, sock):
            self.sock = sock

        def ask(self, text):
            self.sock.sendall(text)
            return self.sock.recv(100)

    client, server = connected()
    server.sendall(b"the-answer")
    Peer(client).ask(b"the-question")
    """
    outcome = recording.run(NETWORK + program).ok()
    assert tokens_at(outcome, "raw.send") == digests(b"the-question")
    assert tokens_at(outcome, "raw.recv") == digests(b"the-answer")
    assert tokens_at(outcome, "msg.send") == [""], "its bytes are those below it"


@pytest.mark.parametrize(
    ("fault", "place", "moved"),
    [
        ({"fault": "drop"}, "before", b""),
        ({"fault": "error", "error": "ECONNRESET", "scope": "once"}, "before", b""),
        ({"fault": "error", "error": "ECONNRESET", "scope": "once"}, "after", b"the-message"),
    ],
)
def test_only_bytes_that_moved_have_tokens(recording: FakeTool, fault: dict[str, str], place: str, moved: bytes) -> None:
    recording.step(fault, {"op": "net.send", "place": place})
    program = """
    def send(sock):
        try:
            sock.sendall(b"the-message")
        except ConnectionResetError:
            pass

    client, server = connected()
    send(client)
    """
    outcome = recording.run(NETWORK + program).ok()
    assert len(outcome.receipts) == 1
    assert tokens_at(outcome, "net.send") == digests(moved)


def test_tokens_follow_their_operation_directly_with_its_stack(recording: FakeTool) -> None:
    outcome = recording.run("""
        def store():
            with open("file", "wb", buffering=0) as file:
                file.write(b"the-record")

        store()
    """).ok()
    events = list(outcome.trace)
    (at,) = [number for number, event in enumerate(events) if event.op == TOKENS]
    write, noted = events[at - 1], events[at]
    assert (write.op, noted.size, noted.stack, noted.thread) == ("file.write", write.seq, write.stack, write.thread)
    assert write.end_ns <= noted.t_ns
    assert (noted.target, noted.error) == ("", "")
    columns = read_columns(recording.trace_dir)
    by_row = tokens_by_row(columns)
    assert {columns.name(row): tokens for row, tokens in by_row.items()} == {"file.write": tokens_of(b"the-record")}


def test_hostile_bytes_never_reach_the_target_as_errors(recording: FakeTool) -> None:
    outcome = recording.run("""
        import array, ctypes, os

        class Odd(bytes):
            def __len__(self):
                raise RuntimeError("not your business")

        fd = os.open("file", os.O_RDWR | os.O_CREAT)
        for data in (
            b"", bytes(range(256)) * 100, b"\\0" * 10_000, b"9" * 10_000, b"0x" * 5_000, b"\\xff" * 10_000, Odd(b"odd-bytes"),
            array.array("d", [0.5]), (ctypes.c_char * 8)(), memoryview(b"abcdefgh").cast("H"), bytes(7), b"-" * 128,
        ):
            assert os.write(fd, data) == memoryview(data).nbytes
        for data in ("text", None, memoryview(b"abcdef")[::2]):
            try:
                os.write(fd, data)
            except (TypeError, BufferError):
                pass
            else:
                raise AssertionError(data)
        print("fine")
    """).ok()
    assert outcome.out == "fine\n"
    assert not list(recording.trace_dir.glob("*.agent-error"))
    assert len(outcome.of("file.write")) == 15


@pytest.mark.parametrize("observe", [None, ["raw"]])
def test_nothing_is_looked_at_unless_it_is_asked_for(tool: FakeTool, observe: list[str] | None) -> None:
    """The room isn't even loaded."""
    if observe is not None:
        tool.more_config["observe"] = observe
    outcome = tool.run("""
        import sys

        with open("file", "wb") as file:
            file.write(b"the-record")
        print([name for name in sys.modules if name.startswith("undermine_agent.content")])
    """).ok()
    assert outcome.out == "[]\n"
    assert not outcome.of(*FAMILIES["content"].operations)


def test_forked_children_record_their_own(recording: FakeTool) -> None:
    outcome = recording.run("""
        import os

        def store(name):
            with open(name, "wb") as file:
                file.write(b"by-the-" + name.encode())

        if os.fork() == 0:
            store("child")
            os._exit(0)
        os.wait()
        store("parent")
    """).ok()
    assert tokens_at(outcome, "file.write", "store") == digests(b"by-the-child", b"by-the-parent")
    assert len({event.pid for event in outcome.of(TOKENS)}) == 2
