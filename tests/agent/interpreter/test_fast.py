"""The accelerator: which agent loads it, what it leaves untouched, and that it leaks nothing."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from undermine.runtimes import accelerator
from undermine.runtimes.accelerator import interpreter_of


@pytest.fixture
def agent_kind() -> str:
    return "fast"


def test_an_agent_reports_whether_it_has_its_accelerator(tool, any_python):
    tool.python = any_python
    fast = tool.run("open('x', 'w')").ok().trace.agents
    assert [agent.agent for agent in fast] == ["python-fast/1"]


@pytest.mark.parametrize("folder", ["", "/nowhere"])
def test_without_an_accelerator_the_agent_is_the_pure_one(tool, folder):
    tool.accelerators = folder
    outcome = tool.run("open('x', 'w')").ok()
    assert [agent.agent for agent in outcome.trace.agents] == ["python-pure/1"]
    assert outcome.short("file.") == ["file.create x", "file.close x"]


def test_the_agent_works_without_a_damaged_accelerator(tool, tmp_path):
    built = accelerator.ensure(tool.python)
    (tmp_path / built.file.name).write_bytes(b"not a library")
    tool.accelerators = str(tmp_path)
    outcome = tool.run("open('x', 'w')").ok()
    assert [agent.agent for agent in outcome.trace.agents] == ["python-pure/1"]


def test_the_agent_records_the_same_with_and_without_the_accelerator(tool, make_tool, any_python):
    source = """
        import os, socket, threading, queue
        def work(n):
            with open("f%d" % n, "w") as file:
                file.write("x")
            fd = os.open("g", os.O_RDWR | os.O_CREAT)
            for chunk in (b"one", bytearray(b"two"), memoryview(b"three")):
                os.write(fd, chunk)
            os.fsync(fd); os.lseek(fd, 0, 0); os.read(fd, 100); os.close(fd)
            lock = threading.Lock()
            with lock:
                pass
            try:
                os.stat("none")
            except OSError:
                pass
            if n:
                work(n - 1)
        listener = socket.create_server(("127.0.0.1", 0))
        client = socket.create_connection(listener.getsockname())
        there, _ = listener.accept()
        client.sendall(b"hello"); there.recv(10)
        there.setblocking(False)
        try:
            there.recv(10)
        except BlockingIOError:
            pass
        client.close(); there.recv(10)
        work(40)
    """

    def seen(agent):
        agent.python = any_python
        events = agent.run(source).ok().trace
        return [(e.op, e.target, e.loc, e.stack, e.size, e.result, e.error, e.thread) for e in events]

    other = make_tool()
    other.accelerators = ""
    fast, pure = seen(tool), seen(other)
    assert len(fast) > 400
    assert fast == pure


def test_redirected_functions_keep_their_identity(tool, any_python):
    """Also in code that calls them so often that the interpreter has specialised the calls."""
    tool.python = any_python
    early = """
        import os, sys
        write, fds = os.write, [os.open(os.devnull, os.O_WRONLY)]
        def often(fd):
            for _ in range(10_000):
                write(fd, b"x")
        often(fds[0])
        hashes = {os.stat: 1}
    """
    (tool.folder / "early.py").write_text("\n".join(line[8:] for line in early.splitlines()))
    outcome = tool.run(
        """
        import early, os, pickle, posix, time, types
        assert os.write is posix.write is early.write and type(os.write) is types.BuiltinFunctionType
        assert pickle.loads(pickle.dumps(os.write)) is os.write
        class Holder:
            write = os.write
        assert os.stat in os.supports_dir_fd and os.stat in os.supports_fd
        fd = os.open("file", os.O_WRONLY | os.O_CREAT)
        Holder().write(fd, b"y")
        early.often(fd)
        assert early.hashes[os.stat] == 1
        """,
        python_path=str(tool.folder),
    ).ok()
    assert len(outcome.of("file.write")) == 10_001


def test_hooks_leak_no_memory_or_descriptors(tool, any_python):
    tool.python = any_python
    outcome = tool.run(
        """
        import gc, os, resource, socket, sys, threading
        one, two = socket.create_server(("127.0.0.1", 0)), None
        client = socket.create_connection(one.getsockname()); there, _ = one.accept()
        fd, lock, data = os.open("file", os.O_RDWR | os.O_CREAT), threading.Lock(), b"x" * 1000
        def once():
            os.pwrite(fd, data, 0); os.pread(fd, 10, 0)
            client.send(data); there.recv(1000)
            with lock:
                pass
            try:
                os.pread(fd, -1, 0)
            except OSError:
                pass
            with open("other", "wb", buffering=0) as file:
                file.write(data)
        def counts():
            gc.collect()
            held = fd, lock, data, client, there, os.pread
            return [sys.getrefcount(one) for one in held] + [len(gc.get_objects())]
        for _ in range(300):
            once()
        before, memory = counts(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(3000):
            once()
        after = counts()
        assert all(abs(a - b) < 100 for a, b in zip(before, after)), (before, after)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 8000
        """
    ).ok()
    assert len(outcome.of("file.write")) == 2 * 3300


def test_records_stay_whole_in_a_storm_of_threads_and_forks(tool, any_python):
    tool.python = any_python
    outcome = tool.run(
        """
        import os, threading
        def work(n):
            fd = os.open("f%d" % n, os.O_RDWR | os.O_CREAT)
            for _ in range(2000):
                os.write(fd, b"x")
            os.close(fd)
        threads = [threading.Thread(target=work, args=(n,)) for n in range(20)]
        for thread in threads:
            thread.start()
        children = []
        for n in range(3):
            pid = os.fork()
            if pid == 0:
                work(100 + n)
                os._exit(0)
            children.append(pid)
        for thread in threads:
            thread.join()
        for pid in children:
            os.waitpid(pid, 0)
        """
    ).ok()
    writes = outcome.of("file.write")
    assert len(writes) == 23 * 2000
    assert len({event.pid for event in writes}) == 4
    assert all(event.result == 1 for event in writes)


def test_endlessly_created_code_is_not_kept(tool):
    outcome = tool.run(
        """
        import os, resource
        fd = os.open("file", os.O_WRONLY | os.O_CREAT)
        text = "def f():\\n    os.write(fd, b'x')\\n"
        def go(count):
            for n in range(count):
                names = {"os": os, "fd": fd}
                exec(compile(text, "made%d.py" % (n % 7), "exec"), names)
                names["f"]()
        go(30_000)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        go(90_000)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 150_000
        """
    ).ok()
    assert len(outcome.of("file.write")) == 120_000


def test_a_kill_in_the_middle_leaves_whole_records(tool, any_python):
    tool.python = any_python
    outcome = tool.run(
        """
        import os, signal, threading
        fd = os.open("file", os.O_WRONLY | os.O_CREAT)
        def work():
            while True:
                os.write(fd, b"x")
        for _ in range(4):
            threading.Thread(target=work, daemon=True).start()
        for _ in range(3000):
            os.write(fd, b"x")
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    assert outcome.code == -9
    assert outcome.trace.problems == ()
    assert len(outcome.of("file.write")) >= 3000


def test_the_interpreter_of_a_command_is_found(tmp_path: Path) -> None:
    python = tmp_path / "python3.11"
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    script = tmp_path / "serve"
    script.write_text(f"#!{python} -E\n")
    script.chmod(0o755)
    other = tmp_path / "other"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    assert interpreter_of([str(python), "-m", "x"]) == str(python)
    assert interpreter_of(["env", "A=1", str(python)]) == str(python)
    assert interpreter_of([str(script)]) == str(python)
    assert interpreter_of([str(other)]) is None
    assert interpreter_of([]) is None
    assert interpreter_of([str(tmp_path / "absent")]) is None


def test_a_missing_accelerator_has_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "No such file" in accelerator.ensure(str(tmp_path / "python"), tmp_path).why_not
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    built = accelerator.ensure(sys.executable, tmp_path)
    assert built.file is None
    assert "C compiler" in built.why_not


def test_threads_that_close_files_as_they_end_leak_nothing(tool, any_python):
    tool.python = any_python
    outcome = tool.run(
        """
        import threading
        here = threading.local()
        def work():
            here.file = open("file", "wb", buffering=0)
        for _ in range(100):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        """
    ).ok()
    assert len(outcome.of("file.close")) == 100
    assert sum(path.stat().st_size for path in tool.trace_dir.glob("*.events")) < 10 * 65536


def test_hidden_agent_frames_keep_the_frame_chain_intact(tool, any_python):
    """Python code that runs inside an original operation: traced, interrupted, in generators, kept, and in many threads."""
    tool.python = any_python
    outcome = tool.run(
        """
        import gc, os, signal, sys, threading, traceback
        kept, alarms = [], []
        def opener(path, flags):
            frames = sys._getframe()
            names = []
            while frames is not None:
                names.append(frames.f_code.co_name)
                frames = frames.f_back
            assert names[:2] == ["opener", "go"], names
            kept.append(sys._getframe())
            if len(kept) > 50:
                kept.clear()
                gc.collect()
            for _ in generator():
                pass
            if path == "bad":
                raise KeyError(path)
            return os.open(path, flags)
        def generator():
            yield sys._getframe().f_back.f_code.co_name
            yield from (traceback.extract_stack()[-1].name for _ in range(3))
        def go(path, depth):
            if depth:
                return go(path, depth - 1)
            try:
                return open(path, "w", opener=opener)
            except KeyError as error:
                assert [f.name for f in traceback.extract_tb(error.__traceback__)] == ["go", "opener"]
        def work():
            for n in range(60):
                file = go("bad" if n % 3 == 0 else "good", n % 20)
                if file is not None:
                    file.close()
        def traced(frame, event, arg):
            return traced
        signal.signal(signal.SIGALRM, lambda number, frame: alarms.append(frame.f_code.co_name))
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        work()
        sys.settrace(traced)
        work()
        sys.settrace(None)
        sys.setprofile(traced)
        work()
        sys.setprofile(None)
        for thread in threads:
            thread.join()
        signal.setitimer(signal.ITIMER_REAL, 0)
        """
    ).ok()
    assert len(outcome.of("file.open", "file.create")) == 7 * 40, "those of the opener"
