"""The agent records every operation that the protocol names, and no other."""

from __future__ import annotations

import re

from fake_tool import REPOSITORY

PROGRAM = """
    import asyncio, concurrent.futures, mmap, os, queue, select, socket, sqlite3, subprocess, threading, time

    def files():
        os.mkdir("sub")
        os.listdir("sub")
        os.rmdir("sub")
        with open("file", "w+b") as file:
            file.write(b"x")
            file.flush()
            os.fsync(file.fileno())
            file.seek(0)
            file.read()
            file.truncate(0)
        open("file").close()
        os.stat("file")
        os.rename("file", "other")
        os.unlink("other")

    def network():
        listener = socket.create_server(("127.0.0.1", 0))
        client = socket.create_connection(listener.getsockname(), timeout=200)
        server, _ = listener.accept()
        client.sendall(b"x")
        select.select([server], [], [])
        server.recv(1)
        client.close()

    def pipes():
        one, other = socket.socketpair()
        one.send(b"x")
        other.recv(1)

    def database():
        connection = sqlite3.connect("db")
        connection.execute("CREATE TABLE t (x)")
        connection.execute("INSERT INTO t VALUES (1)")
        connection.commit()
        connection.execute("SELECT x FROM t").fetchall()

    def threads():
        with threading.Lock(), threading.Condition() as condition, threading.Semaphore():
            pass
        condition = threading.Condition()
        with condition:
            condition.notify()
            condition.wait(0.001)
        event, barrier, items = threading.Event(), threading.Barrier(1), queue.Queue()
        event.set()
        event.wait()
        barrier.wait()
        items.put(1)
        items.get()
        items.task_done()
        thread = threading.Thread(target=fall)
        thread.start()
        thread.join()
        future = concurrent.futures.Future()
        future.set_result(1)
        future.result()

    def fall():
        raise KeyError("on purpose")

    async def lose():
        raise KeyError("on purpose")

    async def serve(reader, writer):
        writer.close()

    async def stream():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        await reader.read()
        writer.close()
        server.close()

    async def main():
        await stream()
        asyncio.create_task(lose())
        await asyncio.sleep(0.6)
        asyncio.create_task(lose())
        time.time()

    files()
    network()
    pipes()
    database()
    threads()
    subprocess.run(["/bin/true"])
    asyncio.run(main())
    open("last", "w").close()
"""


def operations() -> set[str]:
    """The operations in the protocol's table."""
    page = (REPOSITORY / "protocol" / "README.md").read_text()
    table = page.split("## Operations")[1].split("Faults can be asked")[0]
    first = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    names = re.findall(r"`([a-z]+(?:\.[a-z]+)?)`", "".join(first))
    return {name for name in names if "." in name or name in ("clock", "sleep", "timeout", "join", "poll")}


def test_every_operation_is_seen(tool):
    tool.variables = [{"node": "s1", "name": "module", "path": "__main__:__name__", "slots": {}}]
    outcome = tool.run(PROGRAM)
    assert outcome.code == 0, outcome.err
    assert outcome.trace.problems == ()
    logical = {"msg.send", "msg.recv", "raw.send", "raw.recv", "db.got"}  # only if asked for
    logical |= {"heap.read", "heap.write", "content.tokens", "content.labels"}
    assert {e.op for e in outcome.trace} - logical == operations() - logical
