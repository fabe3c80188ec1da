"""The agent records asyncio's transports, streams, tasks, callbacks and waits."""

from __future__ import annotations

SYNCHRONISATION = """
    import asyncio

    async def locks():
        lock, semaphore = asyncio.Lock(), asyncio.BoundedSemaphore(2)
        async with lock:
            pass
        await lock.acquire()
        lock.release()
        async with semaphore:
            await semaphore.acquire()
            semaphore.release()

    async def waits():
        event, condition = asyncio.Event(), asyncio.Condition()
        event.set()
        await event.wait()
        async with condition:
            condition.notify()
            await condition.wait_for(lambda: True)
        if hasattr(asyncio, "Barrier"):
            await asyncio.Barrier(1).wait()

    async def queues():
        items = asyncio.Queue()
        await items.put(1)
        await items.get()
        items.put_nowait(2)
        items.get_nowait()

    async def futures():
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        loop.call_soon(future.set_result, 5)
        assert await future == 5
        other = loop.create_future()
        other.set_result(1)
        await asyncio.wait([other], timeout=3)

    async def main():
        await locks()
        await waits()
        await queues()
        await futures()

    asyncio.run(main())
"""


def test_asyncio_synchronisation_is_recorded(tool, any_python):
    tool.python = any_python
    outcome = tool.run(SYNCHRONISATION).ok()
    assert _within(outcome, "locks") == [
        "lock.acquire lock",
        "lock.release lock",
        "lock.acquire lock",
        "lock.release lock",
        "sem.acquire semaphore",
        "sem.acquire semaphore",
        "sem.release semaphore",
        "sem.release semaphore",
    ]
    waits = _within(outcome, "waits")
    assert waits[:6] == [
        "event.set event",
        "event.wait event",
        "lock.acquire lock",
        "cond.notify condition",
        "cond.wait condition",
        "lock.release lock",
    ]
    newer = not any_python.split("/")[-3].startswith(("3.9", "3.10"))
    assert waits[6:] == ["barrier.wait barrier"] * newer
    once = ["handover.give queue", "queue.put queue", "queue.get queue", "handover.take queue"]
    assert _within(outcome, "queues") == once * 2
    assert _within(outcome, "futures") == [
        "handover.give Future.set_result",
        "future.wait future",
        "future.set future",
        "future.wait futures",
    ]
    assert [e.size for e in outcome.of("future.wait") if e.target == "futures"] == [3 * 10**9]


def _within(outcome, function):
    return [f"{e.op} {e.target}" for e in outcome.trace if e.loc.startswith(f"__main__:{function}#")]


HANDOVER = """
    import asyncio, threading

    def callback(*args):
        open("called", "w").close()

    async def job():
        await asyncio.sleep(0)

    def elsewhere(loop):
        loop.call_soon_threadsafe(callback)
        asyncio.run_coroutine_threadsafe(job(), loop).result()

    async def main():
        loop = asyncio.get_running_loop()
        loop.call_soon(callback, 1)
        loop.call_later(0.001, callback)
        loop.call_at(loop.time(), callback)
        task = asyncio.create_task(job())
        task.add_done_callback(callback)
        await task
        await asyncio.gather(job(), job())
        await loop.run_in_executor(None, callback)
        await loop.run_in_executor(None, elsewhere, loop)
        await asyncio.sleep(0.01)

    asyncio.run(main())
"""


def test_callbacks_and_tasks_are_recorded(tool, any_python):
    tool.python = any_python
    outcome = tool.run(HANDOVER).ok()
    gives = {e.resource: e for e in outcome.of("handover.give", "task.start")}
    takes = outcome.of("handover.take")
    for take in takes:
        if not take.resource.startswith(("asyncio_", "Thread")):
            assert take.target == gives[take.resource].target
            assert take.t_ns >= gives[take.resource].t_ns
    assert {e.resource for e in takes} >= gives.keys()
    tasks = {e.resource for e in outcome.of("task.start")}
    once = [e.resource for e in takes if e.resource not in tasks]
    assert len(set(once)) == len(once), "each is taken once, but tasks at every step"
    assert [e.target for e in outcome.of("task.start")] == ["main", *["job"] * 4]
    assert {e.resource for e in outcome.of("task.start")} == {e.resource for e in outcome.of("task.end")}
    called = [e for e in takes if e.target == "callback"]
    assert len(called) == 6
    for create in outcome.of("file.create", "file.open"):
        assert any(take.t_ns <= create.t_ns <= take.end_ns for take in called)
    (first,) = [e for e in gives.values() if e.loc == "__main__:elsewhere#0"]
    assert first.thread != "MainThread"


TRANSPORTS = """
    import asyncio

    class Server(asyncio.Protocol):
        def connection_made(self, transport):
            self.transport = transport

        def data_received(self, data):
            self.transport.write(data[:5])

    class Client(asyncio.Protocol):
        def __init__(self, done):
            self.done, self.count = done, 0

        def connection_made(self, transport):
            transport.write(BIG)
            transport.writelines([b"ab", b"cd"])

        def data_received(self, data):
            self.count += len(data)
            if not self.done.done():
                self.done.set_result(None)

    BIG = b"x" * 5_000_000

    class Datagrams(asyncio.DatagramProtocol):
        def __init__(self, got):
            self.got = got

        def datagram_received(self, data, address):
            self.got.set_result(data)

    async def datagrams(loop):
        got = loop.create_future()
        there, _ = await loop.create_datagram_endpoint(lambda: Datagrams(got), local_addr=("127.0.0.1", 0))
        here, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, local_addr=("127.0.0.1", 0))
        here.sendto(b"hello", there.get_extra_info("sockname"))
        assert await got == b"hello"
        here.close()
        there.close()

    async def main():
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Server, "127.0.0.1", 0)
        done = loop.create_future()
        transport, _ = await loop.create_connection(lambda: Client(done), *server.sockets[0].getsockname())
        await done
        await asyncio.sleep(0.2)
        transport.abort()
        server.close()
        await datagrams(loop)
        await asyncio.sleep(0.05)

    asyncio.run(main())
"""


def test_transports_are_recorded(tool, any_python):
    """Each write is one event, however the loop sends it."""
    tool.python = any_python
    outcome = tool.run(TRANSPORTS).ok()
    sends = [e for e in outcome.of("net.send") if e.target == "other"]
    assert [e.size for e in sends] == [5_000_000, 4, 5]
    assert all("connection_made#" in e.loc for e in sends[:2])
    answers = [e for e in outcome.of("net.send") if e.target == "accepted"]
    assert all(1 <= e.size <= 5 for e in answers)
    assert sum(e.result for e in outcome.of("net.recv") if e.target == "accepted") == 5_000_004
    assert len(outcome.of("net.send")) == 2 + len(answers) + 1
    (datagram,) = [e for e in outcome.of("net.send") if e.loc.startswith("__main__:datagrams#")]
    assert datagram.size == 5
    closes = [e for e in outcome.of("net.close") if e.target != "listen"]
    assert sorted(e.target for e in closes) == ["accepted", "other", "other", "other"]
    assert closes[0].loc.startswith("__main__:main#")
    assert not any(e.error for e in outcome.of("net.send"))


def test_streams_wait_and_send_once(tool, any_python):
    tool.python = any_python
    outcome = tool.run(
        """
        import asyncio

        async def handle(reader, writer):
            data = await reader.readexactly(3)
            writer.writelines([data, b"!"])
            await writer.drain()
            writer.close()

        async def main():
            server = await asyncio.start_server(handle, "127.0.0.1", 0)
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"abc")
            assert await reader.read(10) == b"abc!"
            writer.close()
            server.close()
            await asyncio.sleep(0.05)

        asyncio.run(main())
        """
    ).ok()
    assert [(e.op, e.target, e.size) for e in outcome.trace if e.loc.startswith("__main__:handle#")] == [
        ("stream.read", "accepted", 0),
        ("net.send", "accepted", 4),
        ("future.wait", "stream", 0),
        ("net.close", "accepted", 0),
    ]
    assert len(outcome.of("net.send")) == 2
    assert [e.result for e in outcome.of("net.recv") if e.result] == [3, 4]
    assert len([e for e in outcome.of("net.close") if e.target != "listen"]) == 2


def test_an_error_at_a_transport_loses_the_connection(tool, any_python):
    tool.python = any_python
    tool.step({"fault": "error", "error": "ECONNRESET"}, {"op": "net.send", "target": "other"})
    outcome = tool.run(
        """
        import asyncio

        async def main():
            server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"abc")
            try:
                await reader.read(1)
            except ConnectionResetError as error:
                print("lost", error.errno)

        asyncio.run(main())
        """
    )
    assert outcome.out == "lost 104\n", outcome.err
