"""Critical regions: under which locks an operation is done, on all ways through a function and in what it calls."""

from __future__ import annotations

from small_programs import kinds, points, program, why
from tables import for_each

HEAD = """
import asyncio, fcntl, os, threading
from contextlib import contextmanager
LOCK = threading.Lock()
def io():
    os.stat("x")  # IO
"""


def holds(body: str) -> bool:
    """Whether `io` is called under a lock somewhere in this text."""
    found = kinds(HEAD + body)
    assert found <= {"critical"}, found
    return bool(found)


UNDER = {
    "with": """
def f():
    with LOCK:
        io()
""",
    "several in one with": """
def f(path):
    with open(path) as file, LOCK:
        io()
""",
    "nested": """
def f(other: threading.RLock):
    with LOCK:
        with other:
            pass
        io()
""",
    "reentrant: the inner one is given back, the outer one held": """
class A:
    def __init__(self):
        self._lock = threading.RLock()
    def f(self):
        with self._lock:
            self.g()
            io()
    def g(self):
        with self._lock:
            pass
""",
    "acquire and release in finally": """
def f():
    LOCK.acquire()
    try:
        io()
    finally:
        LOCK.release()
""",
    "an early return gives it back, the other way still has it": """
def f(x):
    LOCK.acquire()
    if x:
        LOCK.release()
        return
    io()
    LOCK.release()
""",
    "taken in a test": """
def f():
    if LOCK.acquire(timeout=1):
        io()
        LOCK.release()
""",
    "not given back in the loop": """
def f(x):
    LOCK.acquire()
    while x():
        io()
    LOCK.release()
""",
    "taken and given back by functions of its own": """
class A:
    def __init__(self):
        self._mutex = threading.Lock()
    def _enter(self):
        self._mutex.acquire()
    def _leave(self):
        self._mutex.release()
    def f(self):
        self._enter()
        io()
        self._leave()
""",
    "a context manager of its own": """
class A:
    def __init__(self):
        self._lock = threading.Lock()
    @contextmanager
    def locked(self):
        with self._lock:
            yield
    def f(self):
        with self.locked():
            io()
""",
    "a class with __enter__": """
class Guard:
    def __init__(self, lock: threading.Lock):
        self.inner = lock
    def __enter__(self):
        self.inner.acquire()
    def __exit__(self, *a):
        self.inner.release()
def f():
    with Guard(LOCK):
        io()
""",
    "a read-write lock of its own": """
class RWLock:
    def acquire_read(self): ...
    def release_read(self): ...
class A:
    def __init__(self):
        self.rw = RWLock()
    def f(self):
        self.rw.acquire_read()
        try:
            io()
        finally:
            self.rw.release_read()
""",
    "a reader's lock by its name": """
def f(store):
    with store.read_lock():
        io()
""",
    "a decorator": """
def synchronized(method):
    def wrapper(self, *args):
        with self._lock:
            return method(self, *args)
    return wrapper
class A:
    @synchronized
    def f(self):
        io()
""",
    "a decorator that is called": """
def under(lock):
    def decorator(function):
        def wrapper(*args):
            with lock:
                return function(*args)
        return wrapper
    return decorator
@under(LOCK)
def f():
    io()
""",
    "a decorator that is an object": """
class Synchronized:
    def __call__(self, function):
        def wrapper(*args):
            with LOCK:
                return function(*args)
        return wrapper
synchronized = Synchronized()
@synchronized
def f():
    io()
""",
    "a decorator that hands it on": """
def outer(function):
    return inner(function)
def inner(function):
    def wrapper(*args):
        with LOCK:
            return function(*args)
    return wrapper
@outer
def f():
    io()
""",
    "a table of handlers": """
class Server:
    def __init__(self):
        self.handlers = {"put": self.put, "get": self.get}
    def serve(self, op):
        handler = self.handlers[op]
        with LOCK:
            handler()
    def put(self):
        io()
    def get(self): ...
""",
    "a table of handlers in the class": """
class Server:
    def put(self):
        io()
    TABLE = {"put": put}
    def serve(self, op):
        with LOCK:
            self.TABLE[op](self)
""",
    "a lock in a dictionary": """
class A:
    def __init__(self):
        self.locks = {}
    def f(self, key):
        with self.locks[key]:
            io()
""",
    "a file lock": """
def f(file):
    fcntl.flock(file, fcntl.LOCK_EX)
    io()
    fcntl.flock(file, fcntl.LOCK_UN)
""",
    "far below": """
class Disk:
    def save(self):
        self._write()
    def _write(self):
        io()
class Node:
    def __init__(self, disk: "Disk"):
        self.disk = disk
        self.lock = threading.Lock()
    def put(self):
        with self.lock:
            self.disk.save()
""",
    "in a subclass": """
class Base:
    def save(self): ...
class File(Base):
    def save(self):
        io()
class Node:
    def __init__(self, base: Base):
        self.base = base
    def put(self):
        with LOCK:
            self.base.save()
""",
    "a property, a closure and a lambda": """
class A:
    @property
    def size(self):
        return (lambda: io())()
def f(a: A):
    def inner():
        return a.size
    with LOCK:
        inner()
""",
    "a callback that is kept": """
class A:
    def __init__(self, callback):
        self.callback = callback
    def f(self):
        with LOCK:
            self.callback()
A(io)
""",
    "an alias of a lock": """
class A:
    def __init__(self):
        self._cond = threading.Condition()
    def f(self):
        cond = self._cond
        with cond:
            io()
""",
}

FREE = {
    "after with": """
def f():
    with LOCK:
        pass
    io()
""",
    "after release": """
def f():
    LOCK.acquire()
    try:
        pass
    finally:
        LOCK.release()
    io()
""",
    "it was not taken": """
def f():
    if not LOCK.acquire(blocking=False):
        io()
        return
    LOCK.release()
""",
    "it was not taken, kept in a variable": """
def f():
    got = LOCK.acquire(timeout=1)
    if not got:
        io()
        return
    LOCK.release()
""",
    "all ways have given it back": """
def f(x):
    LOCK.acquire()
    if x:
        LOCK.release()
    else:
        LOCK.release()
    io()
""",
    "a with on no lock": """
class Span:
    def __enter__(self): ...
    def __exit__(self, *a): ...
def f():
    with Span():
        io()
""",
    "a thread that is only started under it": """
def f():
    with LOCK:
        threading.Thread(target=io).start()
""",
    "it is only wrapped, or looked at": """
import functools
def f():
    with LOCK:
        print(callable(io), functools.partial(io, 1))
""",
    "names that only look alike": """
def f(clock, block):
    with clock:
        io()
    with block:
        io()
""",
    "an exception of the region is handled outside": """
def f():
    try:
        with LOCK:
            raise ValueError
    except ValueError:
        io()
""",
    "a method of the same name elsewhere": """
class Disk:
    def save(self):
        io()
class Memory:
    def save(self): ...
def f(memory: Memory):
    with LOCK:
        memory.save()
""",
}


@for_each("name", UNDER)
def test_it_is_under_a_lock(name: str) -> None:
    assert holds(UNDER[name])


@for_each("name", FREE)
def test_it_is_under_no_lock(name: str) -> None:
    assert not holds(FREE[name])


def test_a_lock_of_asyncio_is_held_over_awaits() -> None:
    text = """
        import asyncio
        class A:
            def __init__(self):
                self.lock = asyncio.Lock()
            async def f(self, reader: asyncio.StreamReader):
                async with self.lock:
                    await reader.readline()  # IO
                await reader.readline()  # FREE
    """
    assert kinds(text) == {"critical"}
    assert kinds(text, "FREE") == set()


def test_a_lock_and_its_way_are_told() -> None:
    text = """
        import os, threading
        class A:
            def __init__(self):
                self.lock = threading.Lock()
            def f(self):
                with self.lock:
                    self.g()
            def g(self):
                os.fsync(1)  # IO
    """
    assert why(text) == "under the lock self.lock (threading.Lock), taken in A.f; reached through A.g"


def test_two_modules() -> None:
    found = program(
        p="",
        p__locks="import threading\nLOCK = threading.Lock()\n",
        p__disk="import os\ndef save():\n    os.fsync(1)\n",
        p__main="from .locks import LOCK\nfrom . import disk as d\ndef f():\n    with LOCK:\n        d.save()\n",
    ).facts()
    (point,) = found.points
    assert (point.loc, point.op, [region.kind for region in point.regions]) == (
        "p.disk:save#0",
        "file.fsync",
        ["critical"],
    )
    assert point.regions[0].depth == 1


def test_the_nearest_reason_comes_first() -> None:
    text = """
        import os, threading
        ONE, TWO = threading.Lock(), threading.Lock()
        def f():
            with ONE:
                g()
        def g():
            with TWO:
                os.fsync(1)
    """
    (point,) = points(text)
    assert [region.depth for region in point.regions] == [0, 1]
