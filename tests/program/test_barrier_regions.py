"""Hard and soft barriers: what is done before somebody is woken, by whether that one waits with a limit."""

from __future__ import annotations

import pytest
from small_programs import kinds, why
from tables import for_each

HEAD = """
import asyncio, concurrent.futures, os, queue, threading
def io():
    os.stat("x")  # IO
"""


def case(signal: str, wait: str, made: str = "threading.Event()") -> str:
    return f"""
class A:
    def __init__(self):
        self.x = {made}
    def one(self):
        io()
        {signal}
    def other(self):
        {wait}
"""


HARD = {
    "set": case("self.x.set()", "self.x.wait()"),
    "set, the limit None is not a limit": case("self.x.set()", "self.x.wait(timeout=None)"),
    "notify": case("self.x.notify_all()", "self.x.wait()", "threading.Condition()"),
    "wait_for of a condition": case("self.x.notify()", "self.x.wait_for(lambda: 1)", "threading.Condition()"),
    "put": case("self.x.put(1)", "return self.x.get()", "queue.Queue()"),
    "release as a signal": case("self.x.release()", "self.x.acquire()", "threading.Semaphore(0)"),
    "a future": case("self.x.set_result(1)", "pass", "asyncio.Future()"),
    "through a small function": """
class A:
    def __init__(self):
        self.x = threading.Event()
    def one(self):
        io()
        self.finish()
    def finish(self):
        self.x.set()
    def other(self):
        self.x.wait()
""",
    "a call of its own whose result is fetched": """
def f(pool: concurrent.futures.ThreadPoolExecutor):
    future = pool.submit(io)
    return future.result()
""",
    "a thread that is joined": """
def f():
    thread = threading.Thread(target=io)
    thread.start()
    thread.join()
""",
    "an executor that is awaited": """
async def f(loop):
    await loop.run_in_executor(None, io)
""",
}
SOFT = {
    "set": case("self.x.set()", "if not self.x.wait(5): raise TimeoutError"),
    "notify": case("self.x.notify()", "self.x.wait(5)", "threading.Condition()"),
    "put": case("self.x.put(1)", "return self.x.get(timeout=5)", "queue.Queue()"),
    "a limit around it": case("self.x.set()", "await asyncio.wait_for(self.x.wait(), 5)", "asyncio.Event()").replace(
        "def other", "async def other"
    ),
    "the result of a call": """
def f(pool: concurrent.futures.ThreadPoolExecutor):
    future = pool.submit(io)
    return future.result(timeout=5)
""",
    "a thread that is joined": """
class A:
    def start(self):
        self.thread = threading.Thread(target=io)
        self.thread.start()
    def stop(self):
        self.thread.join(5)
""",
}
NEITHER = {
    "after the signal": case("self.x.set()\n        return\n    def two(self):\n        io()", "self.x.wait()").replace(
        "        io()\n        self.x.set()", "        self.x.set()", 1
    ),
    "nobody waits": case("self.x.set()", "pass"),
    "somebody waits for another one": case("self.x.set()", "self.y.wait()").replace(
        "self.x = threading.Event()", "self.x = threading.Event()\n        self.y = threading.Event()"
    ),
    "a pause of a loop": case("self.x.set()", "while not self.x.wait(1): pass"),
    "a pause": case("self.x.set()", "self.x.wait(1)"),
    "it does not wait": case("self.x.put(1)", "return self.x.get(False)", "queue.Queue()"),
    "its own semaphore": case("self.x.release()", "self.x.acquire()", "threading.Semaphore(2)").replace(
        "        io()\n", "        self.x.acquire()\n        io()\n", 1
    ),
    "set of something else": case("self.x.set()", "self.x.wait()", "Config()"),
    "a thread that runs until the end": """
class A:
    def start(self):
        self.thread = threading.Thread(target=self.run)
    def run(self):
        while True:
            io()
    def stop(self):
        self.thread.join()
""",
}


@for_each("name", HARD)
def test_a_hard_barrier(name: str) -> None:
    found = kinds(HEAD + HARD[name])
    assert "hard" in found
    assert "soft" not in found


@pytest.mark.parametrize("name", SOFT)
def test_a_soft_barrier(name: str) -> None:
    found = kinds(HEAD + SOFT[name])
    assert "soft" in found
    assert "hard" not in found


@pytest.mark.parametrize("name", NEITHER)
def test_no_barrier(name: str) -> None:
    assert not kinds(HEAD + NEITHER[name]) & {"hard", "soft"}


def test_both_if_one_has_a_limit_and_another_has_none() -> None:
    text = HEAD + case("self.x.set()", "self.x.wait()\n        return self.x.wait(5)")
    assert kinds(text) == {"hard", "soft"}


def test_the_reason_names_the_waiter_and_its_limit() -> None:
    assert "before self.x.set(), which A.other" in why(HEAD + SOFT["set"])
    assert "waits for, at most 5" in why(HEAD + SOFT["set"])
    assert "waits for, without a limit" in why(HEAD + HARD["set"])
