"""Single-threaded loops and event loops: what keeps everybody waiting."""

from __future__ import annotations

import pytest
from small_programs import kinds, why
from tables import for_each

HEAD = """
import asyncio, os, queue, select, selectors, socket, threading, time
def io():
    os.stat("x")  # IO
"""

SERVES = {
    "a poll": """
def run(sock):
    poller = select.epoll()
    while True:
        for fd, _ in poller.poll(1):
            io()
""",
    "a poll in another class": """
class Poller:
    def __init__(self):
        self._selector = selectors.DefaultSelector()
    def wait(self, limit):
        return self._selector.select(limit)
class Node:
    def __init__(self):
        self.poller = Poller()
    def run(self):
        while True:
            self.poller.wait(1)
            self.tick()
    def tick(self):
        io()
""",
    "callbacks of a poller": """
class Poller:
    def __init__(self):
        self.callbacks = {}
    def add(self, fd, callback):
        self.callbacks[fd] = callback
    def run(self):
        while True:
            for fd in select.select([], [], [], 1)[0]:
                self.callbacks[fd](fd)
class Node:
    def start(self, poller: Poller):
        poller.add(1, self.ready)
    def ready(self, fd):
        io()
""",
    "a queue": """
class Worker:
    def __init__(self):
        self.todo = queue.Queue()
    def run(self):
        while True:
            item = self.todo.get()
            io()
""",
    "accept": """
def run(server: socket.socket):
    while True:
        conn, _ = server.accept()
        io()
""",
    "a poll, and something every second": """
def run(poller: select.poll):
    last = time.time()
    while True:
        poller.poll(1)
        io()
        if time.time() - last > 1:
            last = time.time()
""",
    "a thread that ticks": """
class A:
    def start(self):
        threading.Thread(target=self.run).start()
    def run(self):
        while True:
            io()
            time.sleep(1)
""",
    "a subclass of a thread that ticks": """
class A(threading.Thread):
    def __init__(self):
        super().__init__()
        self.stopped = threading.Event()
    def run(self):
        while not self.stopped.wait(1):
            io()
def main():
    A().start()
""",
    "a coroutine that does not await it": """
async def f():
    io()
""",
    "a callback of the loop": """
def f(loop):
    loop.call_later(1, io)
""",
    "a protocol": """
class P(asyncio.Protocol):
    def data_received(self, data):
        io()
""",
}

FREE = {
    "it tries again, in no thread of its own": """
def f():
    while True:
        io()
        time.sleep(1)
""",
    "it looks for one thing and returns it": """
def f(q: queue.Queue):
    while True:
        item = q.get()
        io()
        return item
""",
    "it waits for one thing until a deadline": """
class A:
    def f(self):
        deadline = time.time() + 5
        while not self.done:
            select.select([], [], [], 1)
            io()
            if time.time() > deadline:
                raise TimeoutError
""",
    "after the loop": """
def f(q: queue.Queue):
    while True:
        if q.get() is None:
            break
    io()
""",
    "each item has a thread": """
def f(server: socket.socket):
    while True:
        server.accept()
        threading.Thread(target=io).start()
""",
    "in a thread of an executor": """
async def f(loop):
    loop.run_in_executor(None, io)
""",
    "a callback that nobody gives to a loop": """
def f(apply):
    print(io)
""",
}


@for_each("name", SERVES)
def test_it_keeps_others_waiting(name: str) -> None:
    assert "loop" in kinds(HEAD + SERVES[name])


@pytest.mark.parametrize("name", FREE)
def test_it_does_not(name: str) -> None:
    assert "loop" not in kinds(HEAD + FREE[name])


def test_an_awaited_operation_does_not_block_the_loop() -> None:
    text = """
        import asyncio
        async def f(reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
            await reader.readline()  # IO
            writer.write(b"x")  # IO
    """
    assert kinds(text) == set()


def test_it_says_why() -> None:
    assert "serves all requests in one thread (a queue, in a loop)" in why(HEAD + SERVES["a queue"])
    assert "it blocks the event loop: f is a coroutine" in why(HEAD + SERVES["a coroutine that does not await it"])


def test_receives_of_an_event_loop_occur_where_the_loop_is_run() -> None:
    text = """
        import asyncio
        class A:
            def __init__(self):
                self.loop = asyncio.new_event_loop()
            def f(self):
                self.loop.run_forever()  # IO
        def main():
            asyncio.run(work())  # IO
        async def work(): ...
    """
    assert kinds(text) == {"loop"}
    assert "the event loop receives everything here" in why(text)
