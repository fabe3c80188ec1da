"""The agent records files, sockets, threads, tasks and locks of small real programs."""

from __future__ import annotations

import pytest

from undermine.model.point import point_of

FILES = """
    import os

    def write():
        with open("log-17.txt", "w") as file:
            file.write("hello")
            file.flush()
            file.write("x" * 20000)
            file.write("y")

    def read():
        with open("log-17.txt") as file:
            file.readline()
        open("log-17.txt", "rb").read()

    def rest():
        with open("log-17.txt", "ab") as file:
            file.write(b"z")
        os.replace("log-17.txt", "final")
        os.path.exists("final")
        os.mkdir("sub")
        os.listdir("sub")
        list(os.scandir("."))
        os.rmdir("sub")
        fd = os.open("final", os.O_RDWR)
        os.write(fd, b"1")
        os.pread(fd, 1, 0)
        os.fsync(fd)
        os.ftruncate(fd, 0)
        os.close(fd)
        os.unlink("final")

    write()
    read()
    rest()
"""


def test_file_operations_are_recorded(tool, any_python):
    tool.python = any_python
    outcome = tool.run(FILES).ok()
    log = "log-<n>.txt"
    seen = outcome.short("file.")
    write = [f"file.create {log}", f"file.write {log}", f"file.write {log}", f"file.write {log}", f"file.close {log}"]
    assert seen[: len(write)] == write
    assert [e.size for e in outcome.of("file.write")][:3] == [5, 20000, 1]
    rest = seen[seen.index(f"file.rename {log} -> final") - 3 :]
    assert rest == [
        f"file.open {log}",
        f"file.write {log}",
        f"file.close {log}",
        f"file.rename {log} -> final",
        "file.stat final",
        "file.mkdir sub",
        "file.list sub",
        "file.list .",
        "file.rmdir sub",
        "file.open final",
        "file.write final",
        "file.read final",
        "file.fsync final",
        "file.truncate final",
        "file.close final",
        "file.unlink final",
    ]
    assert all(e.end_ns >= e.t_ns > 0 and e.error == "" for e in outcome.trace)
    first = outcome.of("file.create")[0]
    assert first.stack == ("__main__:write#0", first.stack[1])
    assert first.stack[1].startswith("__main__:<module>#")
    assert first.resource == str(tool.data / "log-17.txt")
    assert first.line == 5
    assert first.thread == "MainThread"


SOCKETS = """
    import socket, sys, threading

    def serve(listener):
        connection, _ = listener.accept()
        connection.recv(100)
        connection.sendall(b"answer")
        connection.close()

    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 0))
    listener.listen(1)
    server = threading.Thread(target=serve, args=(listener,), name="server-1")
    server.start()
    client = socket.create_connection(listener.getsockname())
    client.sendall(b"question")
    with client.makefile("rb") as file:
        file.read()
    client.close()
    server.join()
    listener.close()
    one, two = socket.socketpair()
    one.send(b"unseen")
    two.recv(10)
"""


def test_socket_operations_and_threads_are_recorded(tool, any_python):
    tool.python = any_python
    outcome = tool.run(SOCKETS).ok()
    client = [e for e in outcome.trace if e.thread == "MainThread" and e.kind == "net"]
    assert [e.op for e in client] == [
        "net.connect",
        "net.send",
        "net.recv",
        "net.recv",
        "net.close",
        "net.close",
    ]
    assert {e.target for e in client[:5]} == {"other"}
    assert client[5].target == "listen"
    server = [e for e in outcome.trace if e.thread == "server-1"]
    assert [(e.op, e.target) for e in server] == [
        ("handover.take", "server-<n>"),
        ("net.accept", "listen"),
        ("net.recv", "accepted"),
        ("net.send", "accepted"),
        ("net.close", "accepted"),
        ("thread.end", "server-<n>"),
    ]
    assert [e.size for e in outcome.of("net.send")] == [8, 6]
    assert sorted(e.result for e in outcome.of("net.recv")) == [0, 6, 8]
    assert outcome.short("thread.start") == ["thread.start server-<n>"]


STREAMS = """
    import asyncio

    async def handle(reader, writer):
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()

    async def ask(port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"hello\\n")
        await writer.drain()
        await reader.readline()
        writer.close()

    async def main():
        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        await ask(server.sockets[0].getsockname()[1])
        server.close()

    asyncio.run(main())
"""


def test_asyncio_streams_are_recorded(tool, any_python):
    tool.python = any_python
    outcome = tool.run(STREAMS).ok()
    sends = outcome.of("net.send")
    assert [e.target for e in sends] == ["other", "accepted"]
    assert sends[0].loc.startswith("__main__:ask#")
    assert sends[0].stack[1].startswith("__main__:main#")
    assert sends[1].loc.startswith("__main__:handle#")
    assert [e.result for e in outcome.of("net.recv") if e.result] == [6, 6]
    assert len(outcome.of("net.connect")) == len(outcome.of("net.accept")) == 1
    assert not any(e.error for e in outcome.trace), "a call that would block leaves no event"


def test_peers_are_named_by_address(tool):
    tool.addresses = {"127.0.0.1:39871": "s2"}
    outcome = tool.run(
        """
        import socket
        for connect in (lambda s: s.connect(("localhost", 39871)), lambda s: print(s.connect_ex(("127.0.0.1", 39871)))):
            try:
                connect(socket.socket())
            except ConnectionRefusedError:
                pass
        """
    ).ok()
    assert [(e.target, e.error) for e in outcome.of("net.connect")] == [("peer:s2", "ECONNREFUSED")] * 2
    assert outcome.out == "111\n"


def test_deaths_of_threads_and_tasks_are_recorded(tool, any_python):
    tool.python = any_python
    outcome = tool.run(
        """
        import asyncio, threading, time

        def fall():
            raise KeyError("thread 5")

        thread = threading.Thread(target=fall)
        thread.start()
        thread.join()

        async def lose():
            raise ValueError("nobody asks")

        async def main():
            lost, kept = asyncio.create_task(lose()), asyncio.create_task(lose())
            try:
                await kept
            except ValueError:
                pass
            await asyncio.sleep(0.6)
            open("later", "w").close()
            asyncio.create_task(lose())
            await asyncio.sleep(0)
            del lost

        asyncio.run(main())
        """
    )
    assert outcome.code == 0
    assert outcome.trace.problems == ()
    (died,) = outcome.of("thread.die")
    assert (died.target, died.resource) == ("KeyError", "'thread 5'")
    assert died.loc.startswith("__main__:fall#")
    tasks = outcome.of("task.die")
    assert [(e.target, e.resource) for e in tasks] == [("ValueError", "nobody asks")] * 2
    assert all(e.loc.startswith("__main__:lose#") for e in tasks)
    assert "KeyError" in outcome.err
    assert outcome.err.count("never retrieved") == 2


@pytest.mark.parametrize(("observe", "pause_s"), [([], 0), ([], 1.2), (["handover"], 0)])
def test_a_dead_task_is_replaced_by_the_next_one_of_its_coroutine(tool, any_python, observe, pause_s):
    """The next one begins at once, or after the death was reported. Another coroutine replaces nothing."""
    tool.python = any_python
    tool.more_config = {"observe": observe}
    outcome = tool.run(
        f"""
        import asyncio

        async def job(number):
            if number < 2:
                raise ValueError(f"job {{number}}")
            await asyncio.sleep(0.1)

        async def other():
            pass

        async def main():
            lost = []
            for number in (0, 2):
                lost.append(asyncio.create_task(job(number)))
                await asyncio.sleep(0)
                for _ in range(3):
                    await asyncio.sleep({pause_s} / 3)
                    open("later", "w").close()
            lost.append(asyncio.create_task(job(1)))
            lost.append(asyncio.create_task(other()))
            await asyncio.sleep(0.7)
            open("later", "w").close()

        asyncio.run(main())
        """
    )
    assert outcome.trace.problems == ()
    assert [e.resource for e in outcome.of("task.die")] == ["job 0", "job 1"]
    (replaced,) = outcome.of("task.replace")
    assert (replaced.target, replaced.resource) == ("ValueError", "job 0")
    assert replaced.loc.startswith("__main__:job#")


@pytest.mark.parametrize(("raises", "place"), [("library.fall", "library:fall#"), ("json.loads", "json.decoder:")])
def test_a_death_outside_the_targets_packages_has_the_frame_that_says_most(tool, any_python, raises, place):
    tool.python = any_python
    tool.packages = ["other"]
    (tool.data / "library.py").write_text("import json\n\ndef fall(text):\n    json.loads(text)\n")
    outcome = tool.run(
        f"""
        import json, sys, threading
        sys.path.insert(0, ".")
        import library
        thread = threading.Thread(target={raises}, args=("{{bad",))
        thread.start()
        thread.join()
        """
    )
    (died,) = outcome.of("thread.die")
    assert died.loc.startswith(place)


def test_locks_and_waits_of_the_targets_own_code_are_recorded(tool, any_python):
    tool.python = any_python
    outcome = tool.run(
        """
        import logging, queue, threading, time
        lock, again = threading.Lock(), threading.RLock()
        with lock:
            with again:
                pass
        assert lock.acquire(False) and not lock.acquire(blocking=False)
        lock.release()
        logging.warning("uses locks of its own")
        condition, event, items = threading.Condition(), threading.Event(), queue.Queue()
        with condition:
            condition.notify_all()
            condition.wait(0.001)
        event.set()
        event.wait()
        items.put(1)
        items.get()
        time.sleep(0.001)
        """
    ).ok()
    assert outcome.short() == [
        "lock.acquire lock",
        "lock.acquire rlock",
        "lock.release rlock",
        "lock.release lock",
        "lock.acquire lock",
        "lock.acquire lock",
        "lock.release lock",
        "lock.acquire rlock",
        "cond.notify condition",
        "cond.wait condition",
        "lock.release rlock",
        "event.set event",
        "event.wait event",
        "handover.give queue",
        "queue.put queue",
        "queue.get queue",
        "handover.take queue",
        "sleep",
    ]
    assert [e.result for e in outcome.of("lock.acquire")] == [1, 1, 1, 0, 1]


def test_forked_and_executed_children_are_recorded(tool, any_python):
    tool.python = any_python
    outcome = tool.run(
        """
        import os, subprocess, sys
        open("parent", "w").close()
        if os.fork() == 0:
            with open("forked", "w") as file:
                file.write("x")
            os._exit(0)
        os.wait()
        subprocess.run([sys.executable, "-c", "open('executed', 'w').close()"], check=True)
        open("parent", "w").close()
        """
    ).ok()
    by_process = {}
    for event in outcome.trace:
        if event.kind == "process":
            continue
        by_process.setdefault(event.pid, []).append(f"{event.op} {event.target}")
    opened = ["file.create parent", "file.close parent", "file.open parent", "file.close parent"]
    assert sorted(by_process.values()) == sorted(
        [
            opened,
            ["file.create forked", "file.write forked", "file.close forked"],
            ["file.create executed", "file.close executed"],
        ]
    )
    assert len(outcome.trace.agents) == 3


def test_a_program_replaced_by_exec_keeps_its_events(tool):
    outcome = tool.run(
        """
        import os, sys
        open("before", "w").close()
        os.execv(sys.executable, [sys.executable, "-c", "open('after', 'w').close()"])
        """
    ).ok()
    assert outcome.short("file.create") == ["file.create before", "file.create after"]
    assert len({agent.pid for agent in outcome.trace.agents}) == 1


def test_points_recur(make_tool):
    def points():
        tool = make_tool()
        return [{point_of(e) for e in make_tool_run(tool, source)} for source in (FILES, SOCKETS, STREAMS)]

    def make_tool_run(tool, source):
        return tool.run(source).ok().trace

    assert points() == points()


def test_threads_that_end_share_chunks(tool):
    outcome = tool.run(
        """
        import threading
        def work():
            open("file", "w").close()
        for _ in range(40):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        """
    ).ok()
    assert len(outcome.of("thread.end")) == 40
    (file,) = tool.trace_dir.glob("*.events")
    assert file.stat().st_size <= 3 * 65536


def test_many_events_in_many_threads_are_all_recorded(tool):
    outcome = tool.run(
        """
        import os, threading
        def work(number):
            fd = os.open("file%d" % number, os.O_CREAT | os.O_WRONLY)
            for _ in range(1000):
                os.write(fd, b"x")
        threads = [threading.Thread(target=work, args=(n,)) for n in range(5)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        """
    ).ok()
    writes = outcome.of("file.write")
    assert len(writes) == 5000
    assert all(e.end_ns for e in writes)


def test_only_the_configured_packages_count(tool):
    package = tool.folder / "granary"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "store.py").write_text("def keep(lock):\n    with lock:\n        open('kept', 'w').close()\n")
    tool.packages = ["granary"]
    outcome = tool.run(
        """
        import threading
        from granary.store import keep
        lock = threading.Lock()
        with lock:
            pass
        keep(lock)
        """,
        python_path=str(tool.folder),
    ).ok()
    assert [e.op for e in outcome.trace] == ["lock.acquire", "file.create", "file.close", "lock.release"]
    assert {e.stack for e in outcome.of("file.create")} == {("granary.store:keep#1",)}


def test_the_tool_that_calls_a_client_does_not_count(tool):
    package = tool.folder / "undermine" / "userland"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "workloads.py").write_text(
        "import threading\nlock = threading.Lock()\n"
        "def attempt(do):\n    with lock:\n        pass\n    do()\n"
        "def client(do):\n    thread = threading.Thread(target=attempt, args=(do,))\n    thread.start()\n    thread.join()\n"
    )
    outcome = tool.run(
        """
        from undermine.userland.workloads import attempt, client

        def put():
            open("x", "w").close()

        attempt(put)
        client(put)
        """,
        python_path=str(tool.folder),
    ).ok()
    assert outcome.of("lock.acquire") == []
    stacks = [event.stack for event in outcome.of("file.create", "file.open")]
    assert stacks == [("__main__:put#0", "__main__:<module>#0"), ("__main__:put#0",)]
    assert [event.op for event in outcome.of("thread.start", "handover.take")] == ["thread.start", "handover.take"]


def test_a_module_run_by_name_has_its_import_name(tool):
    (tool.folder / "server.py").write_text("def main():\n    open('x', 'w').close()\nmain()\n")
    outcome = tool.run("import server", python_path=str(tool.folder)).ok()
    imported = outcome.of("file.create")[0].loc
    outcome = tool.run(
        "import subprocess, sys; subprocess.run([sys.executable, '-m', 'server'])", python_path=str(tool.folder)
    )
    assert {e.loc for e in outcome.trace if e.op in ("file.create", "file.open")} == {imported} == {"server:main#0"}


def test_copies_of_descriptors_are_followed(tool, any_python):
    tool.python = any_python
    outcome = tool.run(
        """
        import os
        fd = os.open("file", os.O_WRONLY | os.O_CREAT)
        copy, other = os.dup(fd), os.dup2(fd, 100)
        os.write(copy, b"a")
        os.write(other, b"bc")
        os.dup2(os.open("/dev/null", os.O_WRONLY), other)
        os.write(other, b"unseen")
        """
    ).ok()
    assert [(e.target, e.size) for e in outcome.of("file.write")] == [("file", 1), ("file", 2)]


def test_endlessly_many_stacks_are_not_kept(tool):
    outcome = tool.run(
        """
        import os, resource
        fd = os.open("file", os.O_WRONLY | os.O_CREAT)
        def walk(depth):
            if not depth:
                os.write(fd, b"x")
                return
            walk(depth - 1)
            walk(depth - 1)
        def other(depth):
            walk(depth)
        walk(16)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        other(16)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000
        """
    ).ok()
    assert len({event.stack for event in outcome.of("file.write")}) == len(outcome.of("file.write")) == 2 * 65536


def test_waits_are_told_apart_however_they_are_called(tool, any_python):
    """A lock is named by its address, the same for all of its methods and for all ways in which the agent records a call."""
    tool.python = any_python
    outcome = tool.run(
        """
        import threading
        one, two, again = threading.Lock(), threading.Lock(), threading.RLock()
        event = threading.Event()
        def take(lock):
            with lock:
                pass
            lock.acquire()
            lock.release()
            lock.acquire(timeout=1)
            lock.release()
        for lock in one, two, again:
            take(lock)
        event.set()
        event.wait(1)
        print(*("%s@%x" % pair for pair in zip(("lock", "lock", "rlock", "event"), map(id, (one, two, again, event)))))
        """
    ).ok()
    one, two, again, event = outcome.out.split()
    pair = ["lock.acquire", "lock.release"]
    seen = [(e.resource, e.op) for e in outcome.of(*pair, "event.set", "event.wait")]
    taken = [(lock, op) for lock in (one, two, again) for op in pair * 3]
    assert seen == [*taken, (event, "event.set"), (event, "event.wait")]
