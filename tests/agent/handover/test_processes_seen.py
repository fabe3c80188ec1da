"""The agent records child processes and time."""

from __future__ import annotations

import pytest

from undermine.analysis.causality.blocking import BLOCKS
from undermine.analysis.pipeline import analyse
from undermine.model.codec import read_columns

CHILDREN = """
    import os, subprocess, sys

    def run():
        subprocess.run(["/bin/true"], check=True, timeout=130)

    def talk():
        process = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.communicate(b"x", timeout=120)[0] == b"x"
        process.wait()

    def shell():
        os.system("exit 0")
        subprocess.Popen("exit 0", shell=True).wait(105)

    def low():
        pid = os.posix_spawn("/bin/true", ["true"], os.environ)
        os.waitpid(pid, 0)
        pid = os.fork()
        if not pid:
            os.execv("/bin/true", ["true"])
        os.waitpid(pid, 0)

    run()
    talk()
    shell()
    low()
"""


def test_child_processes_are_recorded(tool, any_python):
    tool.python = any_python
    outcome = tool.run(CHILDREN).ok()
    seen = [(e.loc.split(":")[1].split("#")[0], e.op, e.target, e.size) for e in outcome.trace]
    expected = [
        ("run", "process.start", "true", 0),
        ("run", "process.wait", "true", 130 * 10**9),
        ("talk", "process.start", "cat", 0),
        ("talk", "process.wait", "cat", 120 * 10**9),
        ("shell", "process.start", "sh", 0),
        ("shell", "process.start", "sh", 0),
        ("shell", "process.wait", "sh", 105 * 10**9),
        ("low", "process.start", "true", 0),
        ("low", "process.wait", "", 0),
        ("low", "process.start", "fork", 0),
        ("low", "process.start", "true", 0),
        ("low", "process.wait", "", 0),
    ]
    # The forked child's event stands in a file of its own.
    assert sorted(seen) == sorted(expected)


def test_a_server_that_forks_for_each_request_is_recorded(tool, any_python):
    tool.python = any_python
    outcome = tool.run(
        """
        import os, socket, socketserver, threading

        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                os.mkdir("handled")
                self.request.sendall(b"x")

        with socketserver.ForkingTCPServer(("127.0.0.1", 0), Handler) as server:
            threading.Thread(target=server.serve_forever).start()
            with socket.create_connection(server.server_address) as client:
                client.recv(1)
            server.shutdown()
        """
    ).ok()
    (start,) = [e for e in outcome.trace if e.op == "process.start"]
    (handled,) = [e for e in outcome.trace if e.target == "handled"]
    assert (start.target, start.result) == ("fork", handled.pid)


MULTIPROCESSING = """
    import multiprocessing, sys

    def work(queue, pipe, lock):
        with lock:
            with open("child", "w") as file:
                file.write("x")
        queue.put(pipe.recv() + 1)

    def main(method):
        context = multiprocessing.get_context(method)
        queue, lock = context.Queue(), context.Lock()
        here, there = context.Pipe()
        process = context.Process(target=work, args=(queue, there, lock), name="worker-1")
        process.start()
        here.send(41)
        assert queue.get(timeout=130) == 42
        process.join(120)
        assert process.exitcode == 0

    if __name__ == "__main__":
        main(sys.argv[1] if len(sys.argv) > 1 else METHOD)
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_children_load_the_agent(tool, method):
    outcome = tool.run(MULTIPROCESSING.replace("METHOD", repr(method))).ok()
    seen = [e for e in outcome.trace if not e.op.startswith("pipe.")]
    parent = [(e.op, e.target, e.size) for e in seen if e.loc.startswith("__main__:main#")]
    assert parent == [
        ("process.start", "worker-<n>", 0),
        ("queue.put", "pipe", 0),
        ("queue.get", "queue", 130 * 10**9),
        ("process.wait", "worker-<n>", 120 * 10**9),
    ]
    child = [(e.op, e.target) for e in seen if e.loc.startswith("__main__:work#")]
    assert child == [
        ("lock.acquire", "lock"),
        ("file.create", "child"),
        ("file.write", "child"),
        ("file.close", "child"),
        ("lock.release", "lock"),
        ("queue.get", "pipe"),
        ("handover.give", "queue"),
        ("queue.put", "queue"),
        ("thread.start", "QueueFeederThread"),
    ]


def test_synchronisation_of_processes_is_recorded(tool, any_python):
    tool.python = any_python
    outcome = tool.run(
        """
        import multiprocessing
        semaphore, lock, event = multiprocessing.Semaphore(2), multiprocessing.RLock(), multiprocessing.Event()
        condition, barrier, queue = multiprocessing.Condition(), multiprocessing.Barrier(1), multiprocessing.SimpleQueue()
        with semaphore:
            semaphore.acquire(True, 3)
            semaphore.release()
        lock.acquire()
        lock.release()
        event.set()
        event.wait(1)
        with condition:
            condition.notify()
            condition.wait(0.001)
        barrier.wait(2)
        queue.put(1)
        queue.get()
        """
    ).ok()
    assert [(f"{e.op} {e.target}", e.size) for e in outcome.trace] == [
        ("sem.acquire semaphore", 0),
        ("sem.acquire semaphore", 3 * 10**9),
        ("sem.release semaphore", 0),
        ("sem.release semaphore", 0),
        ("lock.acquire rlock", 0),
        ("lock.release rlock", 0),
        ("event.set event", 0),
        ("event.wait event", 10**9),
        ("lock.acquire rlock", 0),
        ("cond.notify condition", 1),
        ("cond.wait condition", 10**6),
        ("lock.release rlock", 0),
        ("barrier.wait barrier", 2 * 10**9),
        ("queue.put queue", 0),
        ("pipe.write pipe", 9),
        ("queue.get queue", 0),
        ("pipe.read pipe", 0),
    ]


def test_clocks_sleeps_and_time_limits_are_recorded(tool, any_python):
    tool.python = any_python
    outcome = tool.run(
        """
        import asyncio, select, selectors, socket, time

        def read():
            return [time.time(), time.time_ns(), time.monotonic(), time.perf_counter_ns()]

        def wait():
            time.sleep(0.002)
            select.select([], [], [], 0.003)
            select.poll().poll(4)
            with selectors.DefaultSelector() as selector:
                selector.select(0.005)
                selector.select(0)
            if hasattr(select, "epoll"):
                with select.epoll() as poll:
                    poll.poll(0.006)

        def limit():
            one, two = socket.socket(), socket.socket()
            one.settimeout(7)
            two.settimeout(None)
            for unseen in socket.socketpair():
                unseen.settimeout(6)

        async def later():
            await asyncio.sleep(0.001)
            await asyncio.wait_for(asyncio.sleep(0), 8)
            try:
                await asyncio.wait_for(asyncio.sleep(5), timeout=0.009)
            except asyncio.TimeoutError:
                pass
            if hasattr(asyncio, "timeout"):
                async with asyncio.timeout(100):
                    await asyncio.sleep(0)

        read()
        wait()
        limit()
        asyncio.run(later())
        """
    ).ok()
    seen = [
        (e.loc.split(":")[1].split("#")[0], e.op, e.size)
        for e in outcome.trace
        if e.op in ("clock", "sleep", "timeout", "poll")
    ]
    ms = 10**6
    assert seen[:12] == [
        *[("read", "clock", 0)] * 4,
        ("wait", "sleep", 2 * ms),
        ("wait", "poll", 3 * ms),
        ("wait", "poll", 4 * ms),
        ("wait", "poll", 5 * ms),
        ("wait", "poll", 1),
        ("wait", "poll", 6 * ms),
        ("limit", "timeout", 7000 * ms),
        ("later", "sleep", ms),
    ]
    rest = [item for item in seen[12:] if item[1] == "timeout"]
    assert rest[:2] == [("later", "timeout", 8000 * ms), ("later", "timeout", 9 * ms)]
    assert all(99_000 * ms < size <= 100_000 * ms for _, _, size in rest[2:])
    assert len(rest) == (2 if any_python.split("/")[-3].startswith(("3.9", "3.10")) else 3)
    assert [e.error for e in outcome.of("timeout") if e.size == 9 * ms] == ["TimeoutError"]


SHARED = """
    import multiprocessing, os, time

    def work(event, lock, semaphore, condition):
        with condition:
            os.mkdir("waits")
            condition.wait(200)
        os.mkdir("notified")
        event.wait(200)
        os.mkdir("set")
        with lock:
            os.mkdir("locked")
        semaphore.acquire()

    def until_it_sleeps_after(name):
        while not os.path.exists(name):
            time.sleep(0.01)
        looks_asleep = 0
        while looks_asleep < 3:
            time.sleep(0.01)
            with open("/proc/%d/stat" % process.pid) as file:
                looks_asleep = looks_asleep + 1 if file.read().rpartition(")")[2].split()[0] == "S" else 0

    if __name__ == "__main__":
        context = multiprocessing.get_context(METHOD)
        shared = context.Event(), context.Lock(), context.Semaphore(0), context.Condition()
        event, lock, semaphore, condition = shared
        lock.acquire()
        process = context.Process(target=work, args=shared)
        process.start()
        until_it_sleeps_after("waits")
        with condition:
            condition.notify()
        until_it_sleeps_after("notified")
        event.set()
        until_it_sleeps_after("set")
        lock.release()
        until_it_sleeps_after("locked")
        semaphore.release()
        process.join()
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_locks_shared_by_processes_have_one_name_and_link_waits(tool, method):
    outcome = tool.run(SHARED.replace("METHOD", repr(method))).ok()
    traced = analyse(read_columns(tool.trace_dir))
    columns, edges = traced.columns, traced.blocking
    between = {
        BLOCKS[kind]
        for source, target, kind in zip(edges.source, edges.target, edges.kind, strict=True)
        if columns.process[source] != columns.process[target]
    }
    assert {"set", "lock", "semaphore", "notify"} <= between
    assert traced.problems == ()
    locked = next(row for row in columns.find("file.mkdir") if columns.text(int(columns.target[row])) == "locked")
    assert len(traced.held_sets[traced.held[locked]]) == 1
    (waits,), (sets,) = ({e.resource for e in outcome.trace if e.op == op} for op in ("event.wait", "event.set"))
    assert waits == sets


def test_polls_of_libraries_count_if_they_wait_for_anything(tool, any_python, tmp_path):
    """Polls in the middle of other work don't count, nor do those of asyncio's event loop."""
    tool.python, tool.packages = any_python, ["__main__"]
    (tmp_path / "library.py").write_text(
        "import select, selectors, multiprocessing.connection\n"
        "def loop():\n"
        "    with selectors.EpollSelector() as selector: selector.select(0.001)\n"
        "    with select.epoll() as poll: poll.poll(0.002)\n"
        "def once():\n"
        "    with selectors.PollSelector() as selector: selector.select(0.003)\n"
        "    select.select([], [], [], 0.004)\n"
        "    multiprocessing.connection.wait([], 0.005)\n"
    )
    outcome = tool.run(
        """
        import asyncio, sys
        sys.path.insert(0, FOLDER)
        import library, multiprocessing.connection

        library.loop()
        library.once()
        multiprocessing.connection.wait([], 0.006)
        asyncio.run(asyncio.sleep(0.01))
        """.replace("FOLDER", repr(str(tmp_path)))
    ).ok()
    assert [e.size // 1_000_000 for e in outcome.of("poll")] == [1, 2, 6]
