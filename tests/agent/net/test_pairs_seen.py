"""The events of real programs are enough to pair every byte that they received."""

from __future__ import annotations

from bytes_moved import ASYNCIO, BLOCKING, CONTEXTS, PAIR

from undermine.analysis.causality.causality import causality
from undermine.analysis.messages.messages import messages
from undermine.analysis.messages.pairing import Pairing, pair
from undermine.model.codec import read_columns


def paired(tool) -> Pairing:
    """Every byte has two ends, and none was received before it was sent."""
    columns = read_columns(tool.trace_dir)
    pairing = pair(columns)
    assert pairing.received == pairing.paired > 0
    assert [one for one in pairing.unpaired if one.why != "never received"] == []
    assert (columns.t[pairing.send] <= columns.end[pairing.recv]).all()
    known = causality(columns, pairing)
    assert known.problems() == []
    assert len(messages(columns, pairing, known.contexts, known.cause)) > 0
    return pairing


def test_sends_and_receives_of_sockets_are_paired(tool):
    tool.run(PAIR + BLOCKING).ok()
    assert paired(tool).received == 33 + 21 + 6 + 300_147 + 3_000_000


def test_streams_and_protocols_are_paired_also_with_tls(tool, key):
    (tool.folder / "key.pem").write_text(key.read_text())
    main = """
    async def main():
        await protocols(Plain)
        await streams()
        await protocols(Buffered, server=serving, client=asking)
        await streams(server=serving, client=asking)

    asyncio.run(main())
"""
    tool.run(PAIR + CONTEXTS + ASYNCIO + main).ok()
    coverage = paired(tool).coverage
    assert coverage["tls"] == (300_019 + 2 * 19, 300_019 + 2 * 19)
    assert coverage["stream"][0] == coverage["stream"][1] > 0


PROCESSES = """
    import signal

    def killed():
        "A sender that dies in the middle of its last send; what it had sent is read."
        client, server = pair()
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            client.sendall(b"whole")
            os.write(writing, b"!")
            client.sendall(bytes(100_000_000))
            os._exit(0)
        client.close()
        assert os.read(reading, 1) == b"!"
        got = len(server.recv(1000))
        while got < 100_000:
            got += len(server.recv(1000))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        try:
            while data := server.recv(100_000):
                got += len(data)
        except ConnectionResetError:
            pass
        print(got)

    def again():
        "A port that is used again; a child reads what its parent has left, when that has closed."
        listener, mine = socket.create_server(("127.0.0.1", 0)), 0
        for turn in range(3):
            client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\\1\\0\\0\\0\\0\\0\\0\\0")
            client.bind(("127.0.0.1", mine))
            mine = client.getsockname()[1]
            client.connect(listener.getsockname())
            server, _ = listener.accept()
            client.send(b"parent" + b"child" * turn)
            assert server.recv(6) == b"parent"
            child = os.fork()
            if child == 0:
                read_all(server, 5 * turn)
                os._exit(0)
            server.close()
            os.waitpid(child, 0)
            client.close()

    killed()
    again()
"""


def test_pairs_hold_for_processes_that_share_sockets_or_die(tool):
    got = int(tool.run(PAIR + PROCESSES).ok().out)
    assert paired(tool).received == got + 3 * 6 + 3 * 5
