"""Timeout regions: by clock arithmetic that reaches a branch, and by limits that are asked for."""

from __future__ import annotations

import pytest
from small_programs import kinds, why
from tables import for_each

HEAD = """
import asyncio, os, select, signal, socket, threading, time
from time import monotonic as ticks
from datetime import datetime, timedelta
def io():
    os.stat("x")  # IO
"""

TIMED = {
    "end - start in a test": """
def f(limit):
    start = time.time()
    io()
    if time.time() - start > limit:
        raise TimeoutError
""",
    "the difference is kept first": """
def f(limit):
    start = time.monotonic()
    io()
    end = time.monotonic()
    elapsed = end - start
    if elapsed >= limit:
        raise TimeoutError
""",
    "an alias of the clock": """
def f(limit):
    start = ticks()
    io()
    assert ticks() - start < limit
""",
    "a clock that is handed over": """
class A:
    def __init__(self, clock=time.monotonic):
        self._clock = clock
    def f(self):
        start = self._clock()
        io()
        return 1 if self._clock() - start > 5 else 2
""",
    "a clock of its own": """
def now():
    return int(time.time() * 1)  if 0 else time.time()
def f():
    start = now()
    io()
    if now() - start > 5: ...
""",
    "dates": """
def f():
    start = datetime.now()
    io()
    if datetime.now() - start > timedelta(seconds=5): ...
""",
    "seconds of dates": """
def f():
    start = datetime.utcnow()
    io()
    if (datetime.utcnow() - start).total_seconds() > 5: ...
""",
    "a deadline": """
def f():
    deadline = time.monotonic() + 5
    io()
    if time.monotonic() > deadline: ...
""",
    "a deadline of a loop": """
def f():
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        io()
""",
    "what is left of a deadline is a limit": """
def f(event: threading.Event):
    deadline = time.monotonic() + 5
    while not event.is_set():
        io()
        event.wait(deadline - time.monotonic())
""",
    "what is left is kept first": """
def f(sock: socket.socket):
    deadline = time.monotonic() + 5
    while True:
        left = max(0, deadline - time.monotonic())
        sock.settimeout(left)
        io()
""",
    "the last round's reading": """
def f():
    last = time.time()
    while True:
        io()
        now = time.time()
        if now - last > 5: ...
        last = now
""",
    "a start in an attribute": """
class A:
    def begin(self):
        self.started = time.time()
        io()
    def check(self):
        return time.time() - self.started > 5 and 1 or 2
    def over(self):
        if time.time() - self.started > 5: ...
""",
    "a start in an attribute, both a call away": """
class A:
    def begin(self):
        self.started = time.time()
    def over(self):
        if time.time() - self.started > 5: ...
    def f(self):
        self.begin()
        io()
        self.over()
""",
    "a function that says how long it was": """
class A:
    def begin(self):
        self.started = time.time()
        io()
    def elapsed(self):
        return time.time() - self.started
    def f(self):
        if self.elapsed() > 5: ...
""",
    "a reading that is handed over": """
def f():
    g(time.time())
def g(started):
    io()
    if time.time() - started > 5: ...
""",
    "wait_for": """
async def g():
    io()
async def f():
    await asyncio.wait_for(g(), 5)
""",
    "wait_for of a task": """
async def g():
    io()
async def f():
    task = asyncio.create_task(g())
    await asyncio.wait_for(task, timeout=5)
""",
    "timeout()": """
async def f():
    async with asyncio.timeout(5):
        io()
""",
    "an alarm": """
def f():
    signal.alarm(5)
    io()
    signal.alarm(0)
""",
    "an alarm in a context manager": """
class Limit:
    def __enter__(self):
        signal.setitimer(signal.ITIMER_REAL, 5)
    def __exit__(self, *a):
        signal.setitimer(signal.ITIMER_REAL, 0)
def f():
    with Limit():
        io()
""",
    "a timer that is cancelled": """
def f(kill):
    timer = threading.Timer(5, kill)
    timer.start()
    io()
    timer.cancel()
""",
    "a timer of the loop in an attribute": """
class A:
    def begin(self, loop):
        self.timer = loop.call_later(5, print)
        io()
        self.end()
    def end(self):
        self.timer.cancel()
""",
}

FREE = {
    "only logged": """
def f():
    start = time.time()
    io()
    print(time.time() - start)
""",
    "before the start": """
def f():
    io()
    start = time.time()
    if time.time() - start > 5: ...
""",
    "after the end": """
def f():
    start = time.time()
    if time.time() - start > 5: ...
    io()
""",
    "a new start in each round": """
def f():
    while True:
        start = time.time()
        if time.time() - start > 5: ...
        io()
""",
    "two numbers": """
def f(a, b):
    start = a()
    io()
    if b() - start > 5: ...
""",
    "another pair": """
def f():
    one = time.time()
    two = time.time()
    if two - one > 5: ...
    io()
    print(time.time() - two)
""",
    "no limit": """
async def g():
    io()
async def f():
    await asyncio.wait_for(g(), None)
""",
    "a condition's wait_for": """
def f(c: threading.Condition):
    c.wait_for(io)
""",
    "outside of timeout()": """
async def f():
    async with asyncio.timeout(5):
        pass
    io()
""",
    "after the alarm": """
def f():
    signal.alarm(5)
    signal.alarm(0)
    io()
""",
    "a timer that is never cancelled": """
def f(kill):
    timer = threading.Timer(5, kill)
    timer.start()
    io()
""",
}


@for_each("name", TIMED)
def test_it_is_in_a_timeout_region(name: str) -> None:
    assert "timeout" in kinds(HEAD + TIMED[name])


@for_each("name", FREE)
def test_it_is_in_none(name: str) -> None:
    assert "timeout" not in kinds(HEAD + FREE[name])


def test_interleaved_pairs_are_told_apart() -> None:
    text = """
        import os, time
        def f():
            a = time.time()
            os.stat("1")  # ONE
            b = time.time()
            os.stat("2")  # BOTH
            a_end = time.time()
            os.stat("3")  # TWO
            b_end = time.time()
            os.stat("4")  # NONE
            if a_end - a > 1: ...
            if b_end - b > 1: ...
    """
    lines = {marker: why(text, marker) for marker in ("ONE", "BOTH", "TWO", "NONE")}
    assert lines["ONE"].count("clock readings") == 1
    assert "(line 4)" in lines["ONE"]
    assert lines["BOTH"].count("clock readings") == 2
    assert "(line 6)" in lines["TWO"]
    assert lines["TWO"].count("clock readings") == 1
    assert lines["NONE"] == "in no region"


@pytest.mark.parametrize(
    "text",
    [
        "import socket\ndef f():\n    s = socket.create_connection(('h', 1), timeout=5)\n    s.recv(1)  # IO\n",
        "import socket\nclass A:\n    def a(self, s: socket.socket):\n        self.s = s\n        self.s.settimeout(5)\n"
        "    def b(self):\n        self.s.sendall(b'')  # IO\n",
        "import socket\ndef f(s: socket.socket):\n    s.settimeout(5)\n    g(s)\ndef g(t):\n    t.recv(1)  # IO\n",
        "import select, socket\ndef f(s: socket.socket):\n    if select.select([s], [], [], 5)[0]:\n        s.recv(1)  # IO\n",
        "import select, socket\nclass A:\n    def a(self, s: socket.socket):\n        self.s, self.p = s, select.poll()\n"
        "        self.p.register(self.s, 1)\n    def b(self):\n        self.p.poll(5)\n        self.s.recv(1)  # IO\n",
        "import requests\ndef f():\n    requests.get('u', timeout=5)  # IO\n",
        "import subprocess\ndef f(p: subprocess.Popen):\n    p.wait(timeout=5)  # IO\n",
    ],
)
def test_operations_with_limits_of_their_own(text: str) -> None:
    assert kinds(text) == {"timeout"}


@pytest.mark.parametrize(
    "text",
    [
        "import socket\ndef f():\n    s = socket.create_connection(('h', 1))\n    s.recv(1)  # IO\n",
        "import socket\ndef f(s: socket.socket):\n    s.settimeout(None)\n    s.recv(1)  # IO\n",
        "import socket\ndef f(s: socket.socket, t: socket.socket):\n    t.settimeout(5)\n    s.recv(1)  # IO\n",
        "import requests\ndef f():\n    requests.get('u', timeout=None)  # IO\n",
        "import select, socket\ndef f(s: socket.socket):\n    select.select([s], [], [])\n    s.recv(1)  # IO\n",
        "import select, socket\nclass A:\n    def a(self, s: socket.socket):\n        self.s, self.p = s, select.poll()\n"
        "        self.p.register(self.s, 1)\n    def b(self):\n        self.p.poll()\n        self.s.recv(1)  # IO\n",
    ],
)
def test_operations_without(text: str) -> None:
    assert kinds(text) == set()


LEASES = {
    "others' ages": """
class Master:
    def __init__(self):
        self.seen = {}
    def heartbeat(self, peer):
        io()
        self.seen[peer] = time.time()
    def watch(self):
        for peer in self.seen:
            if time.time() - self.seen[peer] > 5: ...
""",
    "ages of other objects": """
class Peer:
    def touch(self):
        self.last = time.time()
        io()
class Master:
    def watch(self, peers: list[Peer]):
        now = time.time()
        return [peer for peer in peers if now - peer.last > 5]
""",
    "a loop that renews": """
class Worker:
    def run(self):
        while True:
            self.heartbeat()
            io()
    def heartbeat(self): ...
""",
}


@pytest.mark.parametrize("name", LEASES)
def test_a_lease(name: str) -> None:
    assert "lease" in kinds(HEAD + LEASES[name])


REDIS = """
import redis, os
class W:
    def __init__(self, connection: redis.Redis):
        self.connection = connection
    def acquire_claim(self):
        {take}
    def release_claim(self): ...
    def f(self):
        self.acquire_claim()
        os.stat("x")  # IO
        self.release_claim()
        os.stat("x")  # AFTER
"""


@pytest.mark.parametrize(
    "take",
    [
        "return self.connection.set('k', 1, nx=True, ex=60)",
        "self.connection.setex('k', 60, 1)",
        "self.connection.expire('k', 60)",
        "self.connection.lock('k', timeout=60).acquire()",
        "import time; until = time.time() + 60; self.connection.zadd('k', {'job': until})",
    ],
)
def test_a_key_that_expires(take: str) -> None:
    assert "lease" in kinds(REDIS.format(take=take))
    assert "lease" not in kinds(REDIS.format(take=take), "AFTER")


@pytest.mark.parametrize(
    "take",
    ["self.connection.set('k', 1)", "self.connection.set('k', 1, ex=None)", "self.connection.zadd('k', {'job': 1})"],
)
def test_a_key_that_does_not(take: str) -> None:
    assert kinds(REDIS.format(take=take)) == set()


def test_a_result_that_is_tidied_up_later_is_no_lease() -> None:
    text = """
        import redis, os
        def save(connection: redis.Redis):
            connection.expire("result", 60)
            os.stat("x")  # IO
    """
    assert kinds(text) == set()
