"""Corruption: bytes change in transit to a file or peer, or in the file before they are read."""

from __future__ import annotations

import pytest

FLIP = {"fault": "corrupt", "how": "flip", "at": 0.5}
ZERO = {"fault": "corrupt", "how": "zero", "at": 0.0}
# The byte in the middle of "0123456789" is "5", 0x35; flipped it is 0xca.
GOOD, BAD = b"0123456789", b"01234\xca6789"

WRITERS = {
    "buffered": "with open('x', 'wb') as file:\n    file.write(b'0123456789')",
    "text": "with open('x', 'w') as file:\n    file.write('0123456789')",
    "raw": "with open('x', 'wb', buffering=0) as file:\n    print(file.write(b'0123456789'))",
    "os.write": "import os\nprint(os.write(os.open('x', os.O_CREAT | os.O_WRONLY), b'0123456789'))",
    "os.pwrite": "import os\nprint(os.pwrite(os.open('x', os.O_CREAT | os.O_WRONLY), b'0123456789', 0))",
}
READERS = {
    "buffered": "with open('x', 'rb') as file:\n    print(file.read())",
    "buffered part": "with open('x', 'rb') as file:\n    print(file.read(10))",
    "raw": "with open('x', 'rb', buffering=0) as file:\n    print(file.readall())",
    "raw part": "with open('x', 'rb', buffering=0) as file:\n    print(file.read(10))",
    "raw into": "b = bytearray(10)\nwith open('x', 'rb', buffering=0) as file:\n    file.readinto(b)\nprint(bytes(b))",
    "os.read": "import os\nprint(os.read(os.open('x', os.O_RDONLY), 100))",
    "os.pread": "import os\nprint(os.pread(os.open('x', os.O_RDONLY), 100, 0))",
}


@pytest.mark.parametrize("layer", WRITERS)
def test_corrupt_changes_written_bytes_in_transit(tool, layer):
    tool.step(FLIP, {"op": "file.write"})
    outcome = tool.run(WRITERS[layer]).ok()
    assert outcome.out in ("", "10\n")
    assert (tool.data / "x").read_bytes() == BAD
    (receipt,) = outcome.receipts
    assert (receipt.action, receipt.detail) == ("corrupt", "before file.write x: byte 5 was 35, now ca")


@pytest.mark.parametrize("layer", READERS)
def test_corrupt_changes_the_file_before_it_is_read(tool, layer):
    tool.step(FLIP, {"op": "file.read"})
    (tool.data / "x").write_bytes(GOOD)
    outcome = tool.run(READERS[layer]).ok()
    assert outcome.out == f"{BAD!r}\n"
    assert (tool.data / "x").read_bytes() == BAD
    assert outcome.receipts[0].detail == "before file.read x: at 5 of the file byte 0 was 35, now ca"
    assert tool.run(READERS[layer]).out == f"{BAD!r}\n"


def test_corruption_works_on_every_interpreter(tool, any_python):
    tool.python = any_python
    tool.step(ZERO, {"op": "file.read", "nth": 2})
    tool.step(FLIP, {"op": "file.write"})
    (tool.data / "x").write_bytes(GOOD)
    outcome = tool.run(
        """
        import os
        fd = os.open("x", os.O_RDONLY)
        print(os.read(fd, 4), os.read(fd, 4), os.read(fd, 4))
        with open("y", "wb", buffering=0) as file:
            file.write(memoryview(b"0123456789"))
        """
    ).ok()
    assert outcome.out == r"b'0123' b'\x00\x00\x00\x00' b'89'" + "\n"
    assert (tool.data / "x").read_bytes() == b"0123\0\0\0\x0089"
    assert (tool.data / "y").read_bytes() == BAD


def test_an_operation_without_bytes_is_not_counted_for_corruption(tool):
    tool.step(FLIP, {"op": "file.read", "nth": 2})
    (tool.data / "x").write_bytes(GOOD)
    outcome = tool.run(
        """
        import os
        open("empty", "w").close()
        fd, empty = os.open("x", os.O_RDONLY), os.open("empty", os.O_RDONLY)
        print([os.read(empty, 5) for _ in range(3)])
        print(os.read(fd, 5), os.read(empty, 5), os.read(fd, 5), os.read(fd, 5))
        """
    ).ok()
    assert outcome.out.splitlines()[1] == r"b'01234' b'' b'56\xc889' b''"
    assert len([request for request in tool.requests if request["type"] == "claim"]) == 1


def test_a_refused_corruption_changes_nothing(tool):
    tool.step(FLIP, {"op": "file.read"})
    tool.refuse_claims = True
    (tool.data / "x").write_bytes(GOOD)
    assert tool.run(READERS["os.read"]).ok().out == f"{GOOD!r}\n"
    assert not tool.run(READERS["os.read"]).receipts


def test_corrupt_changes_sent_and_received_bytes(tool, any_python):
    tool.python = any_python
    for op, nth in (("net.send", 1), ("net.send", 1), ("net.recv", 1), ("net.recv", 1)):
        tool.step(FLIP, {"op": op, "nth": nth})
    for step in range(1, 4):
        tool.put(64 + 16 * step, 0)
    tool.on_claim = lambda request: tool.arm(request["step"] + 1)
    outcome = tool.run(
        """
        import socket
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
        print(client.send(b"0123456789"), client.sendmsg([b"01234", b"56789"]), client.sendall(b"0123456789"))
        client.close()
        into = bytearray(20)
        print(server.recv(10))
        print(server.recv_into(into, 10), bytes(into[:10]))
        print(server.recv(10), server.recv(10))
        """
    ).ok()
    # Changed when sent and again when received: twice flipped is as it was.
    assert outcome.out.splitlines() == [
        "10 10 None",
        f"{GOOD!r}",
        f"10 {GOOD!r}",
        f"{GOOD!r} b''",
    ]
    assert [r.step for r in outcome.receipts] == [0, 1, 2, 3]


def test_an_asyncio_stream_receives_changed_bytes(tool, any_python):
    tool.python = any_python
    tool.step(FLIP, {"op": "net.recv", "target": "accepted"})
    outcome = tool.run(
        """
        import asyncio
        async def handle(reader, writer):
            print(await reader.read(100))
            writer.close()
        async def main():
            server = await asyncio.start_server(handle, "127.0.0.1", 0)
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"0123456789")
            await reader.read()
        asyncio.run(main())
        """
    )
    assert outcome.code == 0, outcome.err
    assert outcome.out == f"{BAD!r}\n"
