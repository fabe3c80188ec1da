"""Gives and takes from end to end: steps of tasks, calls, callbacks and items, compared with the program's own record."""

from __future__ import annotations

import pytest
from fake_tool import minor_of

from undermine.analysis.causality.causality import causality
from undermine.analysis.messages.pairing import pair
from undermine.model.codec import read_columns

STEPS = """
    import asyncio, os, sys

    async def sleeper(name, count):
        for number in range(count):
            os.mkdir("%s-%d" % (name, number))
            await asyncio.sleep(0)
        os.mkdir("%s-%d" % (name, count))

    async def waiter(name, future):
        os.mkdir(name + "-0")
        await asyncio.wait_for(future, 5)
        os.mkdir(name + "-1")
        await asyncio.gather(sleeper(name + "a", 1), sleeper(name + "b", 1))
        os.mkdir(name + "-2")

    async def main():
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        one, two = loop.create_task(sleeper("one", 3)), asyncio.ensure_future(waiter("two", future))
        three = MAKE(sleeper("three", 2), loop)
        loop.call_later(0.01, future.set_result, 1)
        loop.call_later(30, three.cancel)
        await asyncio.wait({one, two, three})
        os.mkdir("main-0")

    DEFINE
    asyncio.run(main())
"""
MAKERS = {
    "task": "def MAKE(coroutine, loop): return asyncio.Task(coroutine, loop=loop)",
    "python": "def MAKE(coroutine, loop): return asyncio.tasks._PyTask(coroutine, loop=loop)",
    "eager": "def MAKE(coroutine, loop): return asyncio.Task(coroutine, loop=loop, eager_start=True)",
    "factory": (
        "def MAKE(coroutine, loop): loop.set_task_factory(asyncio.eager_task_factory); return loop.create_task(coroutine)"
    ),
}


def _innermost(outcome, event):
    """The innermost take around an event."""
    around = [
        take
        for take in outcome.of("handover.take")
        if (take.pid, take.thread) == (event.pid, event.thread)
        and (take.t_ns, take.seq) <= (event.t_ns, event.seq)
        and (take.end_ns >= event.t_ns and take.end_ns > take.t_ns)
    ]
    return max(around, key=lambda take: (take.t_ns, take.seq), default=None)


@pytest.mark.parametrize("kind", list(MAKERS))
def test_every_step_of_a_task_is_a_take(tool, any_python, kind):
    if kind in ("eager", "factory") and minor_of(any_python) < 12:
        pytest.skip("no eager tasks there")
    tool.python = any_python
    outcome = tool.run(STEPS.replace("DEFINE", MAKERS[kind])).ok()
    starts = {event.resource: event for event in outcome.of("task.start")}
    seen: dict[str, set[str]] = {}
    for made in outcome.of("file.mkdir"):
        step = _innermost(outcome, made)
        assert step is not None, made
        assert step.resource in starts, made
        seen.setdefault(made.resource.rpartition("/")[2].rpartition("-")[0], set()).add(step.resource)
    assert sorted(seen) == ["main", "one", "three", "two", "twoa", "twob"]
    assert all(len(tasks) == 1 for tasks in seen.values()), "a task is one, whatever it awaits"
    assert len(set.union(*seen.values())) == 6, "and tasks are told apart"
    steps = [event.resource for event in outcome.of("handover.take")]
    (one,), (three,) = seen["one"], seen["three"]
    assert steps.count(one) == 4
    assert steps.count(three) == 3
    assert {event.resource for event in outcome.of("task.end")} == set(starts)
    ends = {event.resource: event.t_ns for event in outcome.of("task.end")}
    assert all(event.t_ns <= ends[event.resource] for event in outcome.of("handover.take") if event.resource in ends)


def test_work_within_a_task_is_not_a_step(tool, any_python):
    """A task's `cancel` is a callback like any other."""
    tool.python = any_python
    outcome = tool.run(
        """
        import asyncio

        async def forever():
            await asyncio.sleep(1000)

        async def main():
            task = asyncio.create_task(forever())
            await asyncio.sleep(0.01)
            asyncio.get_running_loop().call_soon(task.cancel)
            try:
                await task
            except asyncio.CancelledError:
                pass

        asyncio.run(main())
        """
    ).ok()
    (given,) = outcome.of("handover.give")
    assert [event.resource for event in outcome.of("handover.take")].count(given.resource) == 1
    (task,) = [event.resource for event in outcome.of("task.start") if event.target == "forever"]
    assert [event.resource for event in outcome.of("handover.take")].count(task) == 2


def test_locks_belong_to_the_tasks_that_take_them(tool, any_python):
    tool.python = any_python
    outcome = tool.run(
        """
        import asyncio

        async def first(lock):
            async with lock:
                await asyncio.sleep(0.01)

        async def second(lock):
            await asyncio.sleep(0)
            async with lock:
                pass

        async def main():
            lock = asyncio.Lock()
            await asyncio.gather(first(lock), second(lock))

        asyncio.run(main())
        """
    ).ok()
    tasks = {event.resource: event.target for event in outcome.of("task.start")}
    seen = [(e.op, tasks[_innermost(outcome, e).resource]) for e in outcome.of("lock.acquire", "lock.release")]
    assert seen == [
        ("lock.acquire", "first"),
        ("lock.acquire", "second"),
        ("lock.release", "first"),
        ("lock.release", "second"),
    ]


DRIVEN = """
    import asyncio, os

    async def later(function, *args):
        for _ in range(9):  # turns of the loop after which the wait has begun
            await asyncio.sleep(0)
        await asyncio.sleep(0.05)
        function(*args)

    async def limited(x, wait, function, *args):
        task = asyncio.create_task(later(function, *args))
        await asyncio.wait_for(wait(), 9)
        await task

    async def gathered(x, wait, function, *args):
        await asyncio.gather(wait(), later(function, *args))

    async def as_a_task(x, wait, function, *args):
        task = asyncio.create_task(wait())
        await later(function, *args)
        await task

    async def main():
        for way in (limited, gathered, as_a_task):
            event, items, full, semaphore, lock = (
                asyncio.Event(), asyncio.Queue(), asyncio.Queue(1), asyncio.Semaphore(0), asyncio.Lock()
            )
            full.put_nowait(0)
            await lock.acquire()
            await asyncio.create_task(way(event, event.wait, event.set))
            await asyncio.create_task(way(items, items.get, items.put_nowait, 1))
            await asyncio.create_task(way(full, lambda: full.put(1), full.get_nowait))
            await asyncio.create_task(way(semaphore, semaphore.acquire, semaphore.release))
            await asyncio.create_task(way(lock, lock.acquire, lock.release))

    asyncio.run(main())
"""


def test_a_wait_of_asyncio_on_behalf_of_a_task_belongs_to_that_task(tool, any_python):
    tool.python = any_python
    outcome = tool.run(DRIVEN).ok()
    tasks = {event.resource: event.target for event in outcome.of("task.start")}
    waits = outcome.of("event.wait", "queue.get", "queue.put", "sem.acquire", "lock.acquire")
    waits = [e for e in waits if e.end_ns - e.t_ns > 45_000_000]
    once = [("event.wait", 1), ("queue.get", 0), ("queue.put", 0), ("sem.acquire", 1), ("lock.acquire", 1)]
    expected = [(op, result, way) for way in ("limited", "gathered", "as_a_task") for op, result in once]
    assert [(e.op, e.result, tasks[_innermost(outcome, e).resource]) for e in waits] == expected
    for wait, (op, _, way) in zip(waits, expected, strict=True):
        assert f"{'<lambda>' if op == 'queue.put' else way}#" in wait.loc, "where the target asked for it"
        assert wait.error == ""


def test_a_wait_of_a_part_of_a_task_ends_with_it(tool, any_python):
    """`wait_for` gives up: the wait has ended, and the lock was never acquired."""
    tool.python = any_python
    outcome = tool.run(
        """
        import asyncio

        async def main():
            lock, never = asyncio.Lock(), asyncio.Event().wait()
            never.close()
            await asyncio.wait_for(lock.acquire(), 5)
            try:
                await asyncio.wait_for(lock.acquire(), 0.01)
            except asyncio.TimeoutError:
                lock.release()

        asyncio.run(main())
        """
    ).ok()
    assert [(e.op, e.result, e.error) for e in outcome.trace if e.op.startswith(("lock.", "event."))] == [
        ("lock.acquire", 1, ""),
        ("lock.acquire", 0, "CancelledError"),
        ("lock.release", 0, ""),
    ]


def test_an_exit_stack_enters_on_behalf_of_its_owner(tool, any_python):
    tool.python = any_python
    outcome = tool.run(
        """
        import asyncio, contextlib, threading

        async def main():
            async with contextlib.AsyncExitStack() as stack:
                await stack.enter_async_context(asyncio.Lock())

        with contextlib.ExitStack() as stack:
            stack.enter_context(threading.Lock())
            stack.enter_context(threading.Semaphore())
        stack.enter_context(threading.RLock())
        stack.close()
        asyncio.run(main())
        """
    ).ok()
    assert [(e.op, e.target, e.loc.partition("#")[0]) for e in outcome.trace if e.op.startswith(("lock.", "sem."))] == [
        ("lock.acquire", "lock", "__main__:<module>"),
        ("sem.acquire", "semaphore", "__main__:<module>"),
        ("sem.release", "semaphore", "__main__:<module>"),
        ("lock.release", "lock", "__main__:<module>"),
        ("lock.acquire", "rlock", "__main__:<module>"),
        ("lock.release", "rlock", "__main__:<module>"),
        ("lock.acquire", "lock", "__main__:main"),
        ("lock.release", "lock", "__main__:main"),
    ]


LIBRARY = """
    import asyncio, functools, threading

    def add_callback(loop, function, *args):
        loop.call_soon_threadsafe(_run_callback, functools.partial(function, *args))

    def _run_callback(callback):
        callback()

    def later(loop, function):
        loop.call_later(0.001, function)
        loop.call_soon(functools.partial(_run_callback, function))

    def submit(pool, function):
        return pool.submit(_run_callback, function)

    async def serve(handler):
        await handler()

    def own_business(loop):
        loop.call_soon(len, "")
        loop.call_later(0, len, "")
        return loop.create_task(asyncio.sleep(0))
"""
USER = """
    import asyncio, concurrent.futures, os
    import a_library

    def called(number):
        os.mkdir("called-%d" % number)

    async def handler():
        os.mkdir("handler-0")
        await asyncio.sleep(0)
        os.mkdir("handler-1")

    async def main():
        loop = asyncio.get_running_loop()
        a_library.add_callback(loop, called, 1)
        a_library.later(loop, lambda: called(len(os.listdir("."))+10))
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            future = a_library.submit(pool, lambda: called(2))
            future.result()
        task = loop.create_task(a_library.serve(handler))
        await task
        await a_library.own_business(loop)
        await asyncio.sleep(0.05)

    if __name__ == "__main__":
        asyncio.run(main())
"""


def test_the_targets_code_given_by_a_library_is_recorded(tool, tmp_path, any_python):
    tool.python = any_python
    library = tmp_path / "library"
    library.mkdir()
    (library / "a_library.py").write_text("\n".join(line[4:] for line in LIBRARY.splitlines()))
    tool.packages = ["__main__"]
    outcome = tool.run(USER, python_path=str(library)).ok()
    gives = {event.resource: event for event in outcome.of("handover.give")}
    assert sorted(event.target for event in gives.values()) == ["called", *["main.<locals>.<lambda>"] * 3]
    tasks = {event.resource: event.target for event in outcome.of("task.start")}
    assert sorted(tasks.values()) == ["main", "serve", "sleep"]
    for made in outcome.of("file.mkdir"):
        step = _innermost(outcome, made)
        name = made.resource.rpartition("/")[2]
        assert step.resource in (tasks if name.startswith("handler") else gives), (name, step)


FUTURES = """
    import asyncio, concurrent.futures, os

    def compute(name):
        os.mkdir(name)
        return name

    def first(future):
        os.mkdir("first")

    def second(future):
        os.mkdir("second")
        raise ValueError

    async def main():
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, compute, "executor")
        if hasattr(asyncio, "to_thread"):
            await asyncio.to_thread(compute, "thread")

    import logging
    logging.disable()
    future = concurrent.futures.Future()
    future.add_done_callback(first)
    future.add_done_callback(second)
    future.set_result(1)
    future.add_done_callback(lambda future: None)
    asyncio.run(main())
"""


def test_calls_and_callbacks_run_inside_their_take(tool, any_python):
    tool.python = any_python
    outcome = tool.run(FUTURES).ok()
    gives = {event.resource: event for event in outcome.of("handover.give")}
    inside = {made.resource.rpartition("/")[2]: _innermost(outcome, made) for made in outcome.of("file.mkdir")}
    assert {name: gives[step.resource].target for name, step in inside.items()} == {
        "first": "first",
        "second": "second",
        "executor": "compute",
        "thread": "compute",
    }
    (main,) = [event.resource for event in outcome.of("task.start")]
    assert {_innermost(outcome, gives[inside[name].resource]).resource for name in ("executor", "thread")} == {main}
    waits = {event.resource: event for event in outcome.of("future.wait") if event.resource.startswith("future@")}
    sets = {event.resource: event for event in outcome.of("future.set")}
    assert sets.keys() >= waits.keys()
    for resource, wait in waits.items():
        assert sets[resource].t_ns < wait.t_ns or sets[resource].thread != "MainThread", "woken by the one that ran it"


def test_items_are_taken_in_the_order_of_their_queue(tool, any_python):
    tool.python = any_python
    outcome = tool.run(
        """
        import queue, threading

        def items(kind, values):
            line, order = kind(), []
            for value in values:
                line.put(value)
            for _ in values:
                order.append(line.get())
            return order

        same = object()
        items(queue.Queue, [1, 2, 1])
        items(queue.LifoQueue, [same, same, same])
        items(queue.PriorityQueue, [3, 1, 2])
        """
    ).ok()
    gives = [event.resource for event in outcome.of("handover.give")]
    takes = [event.resource for event in outcome.of("handover.take")]
    assert takes == [*gives[:3], *gives[5:2:-1], gives[7], gives[8], gives[6]]


PAIRS = """
    import os, socket, threading

    def pipe():
        reading, writing = os.pipe()
        os.write(writing, b"abc")
        assert os.read(reading, 2) == b"ab"
        copy = os.dup(reading)
        assert os.read(copy, 10) == b"c"
        os.set_blocking(reading, False)
        try:
            os.read(reading, 10)
        except BlockingIOError:
            pass
        os.write(writing, b"de")
        assert os.read(reading, 10) == b"de"
        with os.fdopen(writing, "wb", 0) as file:
            file.write(b"xyz")
        with os.fdopen(copy, "rb") as file:
            assert file.read() == b"xyz"
        os.close(reading)
        fd = os.open("file", os.O_RDWR | os.O_CREAT)
        assert fd == reading or fd == writing
        os.write(fd, b"1234")

    def pair():
        one, other = socket.socketpair()
        one.send(b"abc")
        one.sendall(b"de")
        assert other.recv(1, socket.MSG_PEEK) == b"a"
        assert other.recv(100) == b"abcde"
        os.write(other.fileno(), b"xy")
        one.setblocking(False)
        buffer = bytearray(10)
        assert one.recv_into(buffer) == 2
        try:
            one.recv(10)
        except BlockingIOError:
            pass
        one.close()
        assert other.recv(10) == b""

    pipe()
    pair()
    import asyncio
    asyncio.run(asyncio.sleep(0))
"""


def test_bytes_in_pipes_and_socket_pairs_are_paired(tool, any_python):
    tool.python = any_python
    outcome = tool.run(PAIRS).ok()
    pipe = [event for event in outcome.of("pipe.write", "pipe.read") if event.loc.startswith("__main__:pipe#")]
    assert len({event.resource for event in pipe}) == 1
    moved = [(event.op, event.result) for event in pipe if event.result]
    assert moved == [
        ("pipe.write", 3),
        ("pipe.read", 2),
        ("pipe.read", 1),
        ("pipe.write", 2),
        ("pipe.read", 2),
        ("pipe.write", 3),
        ("pipe.read", 3),
    ]
    assert not any(event.error for event in pipe)
    assert [event.result for event in outcome.of("file.write")] == [4]
    there, back = [event.resource for event in outcome.of("pipe.open")]
    one, _, other = there.partition(">")
    assert back == other + ">" + one
    assert one != other
    pair = [event for event in outcome.of("pipe.write", "pipe.read") if event.loc.startswith("__main__:pair#")]
    assert [(event.op, event.resource, event.result or event.size) for event in pair] == [
        ("pipe.write", one, 3),
        ("pipe.write", one, 2),
        ("pipe.read", other, 5),
        ("pipe.write", other, 2),
        ("pipe.read", one, 2),
        ("pipe.read", other, 0),
    ]
    assert len(outcome.of("pipe.write", "pipe.read")) == len(pipe) + len(pair), "the loop's own pair does not count"


PROCESSES = """
    import concurrent.futures, multiprocessing, os, queue, sys

    def work(name):
        os.mkdir(name)
        return os.getpid()

    def serve(items, answers, pipe, simple):
        work("queue-%d" % items.get())
        answers.put(1)
        pipe.send(pipe.recv() * 1000)
        simple.put(1)

    def queues(context):
        items, answers, simple = context.Queue(), context.JoinableQueue(), context.SimpleQueue()
        here, there = context.Pipe()
        process = context.Process(target=serve, args=(items, answers, there, simple), name="server")
        process.start()
        items.put(5)
        answers.get()
        here.send("x" * 50)
        assert len(here.recv()) == 50000
        simple.get()
        process.join()
        return process.pid

    def executor(context):
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
            return pool.submit(work, "executor").result()

    def pool(context):
        with context.Pool(1) as workers:
            return workers.apply_async(work, ("pool",)).get()

    def thread_pool():
        with multiprocessing.pool.ThreadPool(1) as workers:
            workers.apply(work, ("threads",))

    def fork():
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            os.mkdir("forked-%d" % len(os.read(reading, 10)))
            os._exit(0)
        os.write(writing, b"abc")
        os.waitpid(pid, 0)
        return pid

    if __name__ == "__main__":
        import multiprocessing.pool
        context = multiprocessing.get_context("METHOD")
        print(queues(context), executor(context), pool(context), fork())
        thread_pool()
"""


def _bytes(outcome, op):
    """The number of bytes moved at each pipe, by all processes together."""
    moved: dict[str, int] = {}
    for event in outcome.of(op):
        moved[event.resource] = moved.get(event.resource, 0) + (event.result or event.size) * (not event.error)
    return moved


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_and_the_bytes_between_them_are_recorded(tool, method, any_python):
    if method != "fork" and minor_of(any_python) not in (9, 12):
        pytest.skip("one old and one new interpreter are enough")
    tool.python = any_python
    outcome = tool.run(PROCESSES.replace("METHOD", method)).ok()
    server, in_executor, in_pool, forked = map(int, outcome.out.split())
    made = {event.resource.rpartition("/")[2]: event for event in outcome.of("file.mkdir")}
    assert (made["queue-5"].pid, made["executor"].pid, made["pool"].pid) == (server, in_executor, in_pool)
    assert made["forked-3"].pid == forked

    # Every child is one that a start names, and the waits name it again.
    main = next(event.pid for event in outcome.of("process.start") if "queues#" in event.loc)
    results = {event.result for event in outcome.of("process.start")}
    assert results >= {server, in_executor, in_pool, forked}
    assert {event.result for event in outcome.of("process.wait")} >= {server, forked}
    assert all(event.pid == main for event in outcome.of("process.start"))
    parents = {agent.pid: agent.ppid for agent in outcome.trace.agents}
    assert parents[forked] == main
    if method != "forkserver":
        assert parents[server] == parents[in_executor] == parents[in_pool] == main

    # What is read was written, byte for byte: at the same pipe, or at the other end of a pair.
    other_end = dict(event.resource.split(">") for event in outcome.of("pipe.open"))
    written, read = _bytes(outcome, "pipe.write"), _bytes(outcome, "pipe.read")
    for resource, size in read.items():
        source = other_end.get(resource, resource)
        assert size <= written.get(source, 0), resource
    assert max(read.values()) > 50_000

    # What a process did with a call stands between its reading of it and its next reading.
    for name in ("queue-5", "executor", "pool", "forked-3"):
        event = made[name]
        before = [one for one in outcome.of("pipe.read") if one.pid == event.pid and one.end_ns <= event.t_ns]
        assert before, name
        last = max(before, key=lambda one: one.t_ns)
        source = other_end.get(last.resource, last.resource)
        sent = [one for one in outcome.of("pipe.write") if one.resource == source and one.t_ns < last.end_ns]
        assert {one.pid for one in sent} == {main}, name


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_call_for_another_process_is_followed_to_its_pipe(tool, method):
    outcome = tool.run(PROCESSES.replace("METHOD", method)).ok()
    gives = {(event.pid, event.resource): event for event in outcome.of("handover.give")}
    takes = {(event.pid, event.resource): event for event in outcome.of("handover.take")}
    assert all(takes[key].t_ns >= give.t_ns for key, give in gives.items() if key in takes)
    feeding = [take for take in takes.values() if take.thread.startswith("QueueFeederThread")]
    writes = outcome.of("pipe.write")
    by_feeders = [write for write in writes if write.thread.startswith("QueueFeederThread")]
    inside = [
        write
        for write in by_feeders
        if any(take.t_ns <= write.t_ns and write.end_ns <= take.end_ns and take.pid == write.pid for take in feeding)
    ]
    given = [write for write in by_feeders if write.size > 5]  # an end of work is None, and nobody's
    assert {write.seq for write in given} <= {write.seq for write in inside}
    puts = [event for event in outcome.of("handover.give") if "queues#" in event.loc or "serve#" in event.loc]
    assert len(puts) == 2
    assert all((put.pid, put.resource) in takes for put in puts)
    (call,) = [event for event in outcome.of("handover.give") if event.resource.startswith("call-")]
    assert call.target == "work"
    assert "executor#" in call.loc
    taken = takes[call.pid, call.resource]
    again = [give for give in gives.values() if give.pid == call.pid and give.thread == taken.thread]
    assert any(give.t_ns >= taken.t_ns for give in again), "its thread gives it on to the queue"
    waits = [event for event in outcome.of("future.wait") if "executor#" in event.loc or "pool#" in event.loc]
    assert len(waits) == 3
    sets = {(event.resource, event.pid): event for event in outcome.of("future.set")}
    assert all((wait.resource, wait.pid) in sets for wait in waits)
    (threads,) = [event for event in outcome.of("file.mkdir") if event.target == "threads"]
    assert threads.thread != "MainThread"
    last = [take for take in takes.values() if take.thread == threads.thread and take.t_ns < threads.t_ns]
    assert max(last, key=lambda take: take.t_ns).target == "queue"


ATTEMPTS = """
    import os, undermine_agent

    reading, writing = os.pipe()

    def ask():
        os.write(writing, b"x")
        os.read(reading, 1)
        os.mkdir("asked")

    def fail():
        os.mkdir("tried")
        raise KeyError("on purpose")

    undermine_agent.attempt("ask", ask)
    try:
        undermine_agent.attempt("fail", fail)
    except KeyError:
        os.mkdir("failed")
    assert undermine_agent.attempt("give", lambda: 5) == 5
"""


def test_operations_of_clients_are_apart_from_each_other(tool):
    outcome = tool.run(ATTEMPTS).ok()
    folders = {e.resource.rpartition("/")[2]: _innermost(outcome, e) for e in outcome.of("file.mkdir")}
    assert [take and take.target for take in folders.values()] == ["ask", "fail", None]
    assert folders["tried"].error == "KeyError"
    assert [e.target for e in outcome.of("handover.give")] == ["ask", "fail", "give"]
    found = causality(columns := read_columns(tool.trace_dir), pair(columns))
    tried, take, give = found.chain(int(columns.find("file.mkdir")[1]))
    assert [columns.name(row) for row in (tried, take, give)] == ["file.mkdir", "handover.take", "handover.give"]


SIGNALS = """
    import asyncio, threading
    import a_library

    async def waiter(event):
        await event.wait()

    def direct(loop, event):
        loop.call_soon_threadsafe(event.set)

    def through_library(loop, event):
        a_library.add_callback(loop, event.set)

    async def main():
        loop = asyncio.get_running_loop()
        for signal in (direct, through_library):
            event = asyncio.Event()
            task = loop.create_task(waiter(event))
            await asyncio.sleep(0)
            thread = threading.Thread(target=signal, args=(loop, event), name=signal.__name__)
            thread.start()
            await task

    if __name__ == "__main__":
        asyncio.run(main())
"""


def test_an_event_that_is_set_by_a_callback_ends_a_wait_and_has_the_giver_as_its_cause(tool, tmp_path, any_python):
    tool.python = any_python
    library = tmp_path / "library"
    library.mkdir()
    (library / "a_library.py").write_text("\n".join(line[4:] for line in LIBRARY.splitlines()))
    tool.packages = ["__main__"]
    tool.run(SIGNALS, python_path=str(library)).ok()
    found = causality(columns := read_columns(tool.trace_dir), pair(columns))
    ended = {int(wait): int(source) for source, wait in zip(found.blocking.source, found.blocking.target, strict=True)}
    sets = [ended[row] for row in columns.find("event.wait").tolist()]
    assert [columns.name(row) for row in sets] == ["event.set"] * 2
    givers = [columns.event(found.chain(row)[2]) for row in sets]
    assert [giver.thread for giver in givers] == ["direct", "through_library"]
