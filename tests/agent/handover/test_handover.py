"""A take is matched to its own give, even if functions and addresses are used again."""

from __future__ import annotations

import pytest

from undermine.analysis.pipeline import analyse
from undermine.model.codec import read_columns


def order(outcome, target):
    """The numbers of the gives with this name, in the order of their takes."""
    gives = [event.resource for event in outcome.of("handover.give") if event.target == target]
    return [gives.index(event.resource) for event in outcome.of("handover.take") if event.resource in gives]


POSTED = """
    import asyncio, contextvars, threading

    posting, done, order = threading.Event(), threading.Event(), []

    class Loop(asyncio.SelectorEventLoop):
        def _write_to_self(self):
            super()._write_to_self()
            if count.get() == 2:  # the callback runs before the one who posts it has its handle
                posting.set()
                done.wait(200)

    count = contextvars.ContextVar("count", default=0)

    def callback(number):
        order.append((number, count.get()))
        if number == 2:
            done.set()
            loop.call_soon(loop.stop)

    def post():
        for number in (1, 2):
            count.set(number)
            loop.call_soon_threadsafe(callback, number, **OPTIONS)
            count.set(0)

    loop = Loop()
    thread = threading.Thread(target=post)
    loop.call_soon(thread.start)
    loop.call_soon(posting.wait, 200)
    loop.run_forever()
    thread.join()
    assert order == EXPECTED, order
"""


@pytest.mark.parametrize(
    ("options", "expected", "takes"),
    [("{}", "[(1, 1), (2, 2)]", [0, 1]), ("{'context': contextvars.Context()}", "[(1, 0), (2, 0)]", [0])],
    ids=["own", "given"],
)
def test_a_function_posted_again_before_it_ran_is_taken_twice(tool, any_python, options, expected, takes):
    """A callback in a context of the program cannot be recognised before its handle is known."""
    tool.python = any_python
    outcome = tool.run(POSTED.replace("OPTIONS", options).replace("EXPECTED", expected)).ok()
    assert order(outcome, "callback") == takes


def test_items_left_in_a_queue_are_forgotten_with_it(tool, any_python):
    """Another queue at the same address has its own items, even if they are the same objects."""
    tool.python = any_python
    outcome = tool.run(
        """
        import asyncio, queue

        def put(line):
            put.count += 1
            line.put_nowait(None)

        def left(kind, count):
            lines = [kind() for _ in range(count)]
            for line in lines:
                put(line)
            return set(map(id, lines))

        def at_such_an_address(kind):
            lines = []
            for count in range(1, 100):
                addresses = left(kind, count)
                for _ in range(100):
                    lines.append(kind())
                    if id(lines[-1]) in addresses:
                        return lines[-1]
            raise AssertionError("no address comes again")

        async def main():
            for kind in (queue.Queue, queue.SimpleQueue, asyncio.Queue):
                line = at_such_an_address(kind)
                put(line)
                line.get_nowait()
                print(put.count - 1)

        put.count = 0
        asyncio.run(main())
        """
    ).ok()
    assert order(outcome, "queue") == [int(number) for number in outcome.out.split()]


CALLBACKS = """
    import asyncio, concurrent.futures

    class Methods:
        def method(self, future):
            pass

    def callback(future):
        pass

    async def main():
        loop = asyncio.get_running_loop()
        kinds = asyncio.Future, asyncio.futures._PyFuture
        for future in (concurrent.futures.Future(), *(kind(loop=loop) for kind in kinds)):
            future.add_done_callback(callback)
            future.add_done_callback(len)
            future.add_done_callback(callback)
            future.set_result("")
            await asyncio.sleep(0)
        for future in (kind(loop=loop) for kind in kinds):
            future.add_done_callback(callback)
            assert future.remove_done_callback(callback) == 1
            future.add_done_callback(callback)
            future.add_done_callback(callback)
            methods = Methods()
            for _ in range(10):  # bound methods that are equal, often at the same address
                future.add_done_callback(methods.method)
                assert future.remove_done_callback(methods.method) == 1
            future.add_done_callback(methods.method)
            future.set_result("")
            await asyncio.sleep(0)

    asyncio.run(main())
"""


def test_a_function_added_to_a_future_twice_is_taken_twice(tool, any_python):
    tool.python = any_python
    outcome = tool.run(CALLBACKS).ok()
    assert order(outcome, "callback") == [0, 1, 2, 3, 4, 5, 7, 8, 10, 11]
    assert order(outcome, "Methods.method") == [10, 21]


AT_SOCKETS = """
    import asyncio, os, socket

    async def serve(loop, listener):
        for _ in range(2):
            there, _ = await loop.sock_accept(listener)
            os.mkdir("accepted-%d" % len(os.listdir(".")))
            await loop.sock_recv(there, 100)
            os.mkdir("got-1")
            await asyncio.sleep(0.05)
            there.recv(100)
            os.mkdir("got-2")
            await loop.sock_sendall(there, bytes(3))
            await asyncio.wait_for(loop.sock_recv_into(there, bytearray(100)), 10)
            os.mkdir("got-4")
            await asyncio.sleep(0.05)
            await loop.sock_recv(there, 100)
            os.mkdir("got-5")
            await loop.sock_sendall(there, bytes(8_000_000))
            there.close()
            for name in ("got-1", "got-2", "got-4", "got-5"):
                os.rmdir(name)

    async def call(loop, address):
        with socket.socket() as here:
            here.setblocking(False)
            await loop.sock_connect(here, address)
            for size in (1, 2):
                await asyncio.sleep(0.02)
                here.send(bytes(size))
            await loop.sock_recv(here, 100)
            for size in (4, 5):
                await asyncio.sleep(0.02)
                here.send(bytes(size))
            while await loop.sock_recv(here, 1_000_000):
                pass

    async def main():
        loop = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)
            server = asyncio.create_task(serve(loop, listener))
            for _ in range(2):
                await asyncio.sleep(0.02)
                await asyncio.create_task(call(loop, listener.getsockname()))
            await server

    asyncio.run(main())
"""


def test_a_loops_work_at_a_socket_belongs_to_the_awaiting_task(tool, any_python):
    """Also if the program receives from the same socket itself: each byte is received once."""
    tool.python = any_python
    tool.run(AT_SOCKETS).ok()
    found = analyse(columns := read_columns(tool.trace_dir))
    assert found.problems == ()
    assert found.bytes_paired == found.bytes_received == 2 * (12 + 3 + 8_000_000)
    done_by = {found.contexts[number] for number in found.context[columns.find("net.accept", "net.send", "net.recv")]}
    inner = {"task BaseSelectorEventLoop.sock_recv_into"}  # of `wait_for`, before Python 3.12: the same line of control
    assert done_by - inner == {"task serve", "task call"}
    for row in columns.find("file.mkdir").tolist():
        name, _, size = columns.text(int(columns.resource[row])).rpartition("/")[2].partition("-")
        above = int(found.cause[row])
        first = int(found.cause[above])
        causes = [columns.name(above), columns.name(first)]
        if name == "got":
            assert causes == ["net.recv", "net.send"]
            assert (columns.result[above], columns.size[first]) == (int(size), int(size))
        else:
            assert causes == ["handover.take", "task.start"], "not what was received before"
