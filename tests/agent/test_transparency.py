"""The agent is invisible until a plan says otherwise: what programs rely on still holds under it."""

from __future__ import annotations

import subprocess

import pytest
from waiting import HANG_S

PROGRAMS = {
    "exceptions keep no more alive": """
        import asyncio, concurrent.futures, weakref
        async def fails():
            1 / 0
        async def main():
            said = []
            asyncio.get_running_loop().set_exception_handler(lambda *context: said.append(context))
            asyncio.Task(fails())
            await asyncio.sleep(0)
            assert said, "the task is collected as soon as it has ended"
        asyncio.run(main())
        class Argument:
            pass
        def raises(argument):
            raise KeyError
        argument = Argument()
        seen = weakref.ref(argument)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            future = pool.submit(raises, argument)
            del argument
            assert isinstance(future.exception(), KeyError)
            pool.submit(int).result()
            del future
            assert seen() is None
    """,
    "pickle": """
        import copy, os, pickle, time
        for function in (os.rename, os.open, os.stat, open, time.sleep):
            assert pickle.loads(pickle.dumps(function)) is function
            assert copy.deepcopy(function) is function
        assert b"undermine" not in pickle.dumps([os.rename, open])
    """,
    "functions do not bind": """
        import os
        class Accessor:
            stat = os.stat
            open = open
        open("x", "w").close()
        assert Accessor().stat("x").st_size == 0
        Accessor().open("x").close()
    """,
    "supports sets": """
        import os, shutil
        assert os.open in os.supports_dir_fd and os.stat in os.supports_follow_symlinks
        assert os.scandir in os.supports_fd and shutil.rmtree.avoids_symlink_attacks
        import posix
        assert posix.listdir in os.supports_fd and posix.stat in os.supports_follow_symlinks
    """,
    "signatures and names": """
        import inspect, os, socket, threading
        assert str(inspect.signature(open)).startswith("(file, mode='r', buffering=-1")
        assert str(inspect.signature(os.rename)).startswith("(src, dst, *, src_dir_fd=None")
        assert os.rename.__name__ == "rename" and "ename a file" in os.rename.__doc__
        assert repr(os.rename) == "<built-in function rename>"
        assert socket.socket.send.__name__ == "send" and threading.Thread.start.__qualname__ == "Thread.start"
        assert str(inspect.signature(threading.Condition.wait)) == "(self, timeout=None)"
    """,
    "types": """
        import _thread, io, socket, threading
        file = open("x", "w+b")
        assert type(file) is io.BufferedRandom and type(file.raw) is io.FileIO
        assert isinstance(threading.Lock(), _thread.LockType) and type(threading.RLock()).__name__ == "RLock"
        assert type(socket.socket()) is socket.socket and socket.socket.__mro__[1].__module__ == "_socket"
    """,
    "errors": """
        import os
        def fails(kind, function, *args, **options):
            try:
                function(*args, **options)
            except kind as error:
                return error
            raise AssertionError(function)
        file = open("x", "w")
        file.close()
        assert "closed file" in str(fails(ValueError, file.write, "x"))
        raw = open("x", "rb", buffering=0)
        raw.close()
        assert "closed file" in str(fails(ValueError, raw.read))
        raw.close()
        assert str(fails(FileNotFoundError, open, "none")) == "[Errno 2] No such file or directory: 'none'"
        assert fails(FileNotFoundError, os.rename, "none", "other").filename2 == "other"
        fails(TypeError, open)
        fails(TypeError, os.rename, "x")
        fails(ValueError, open, "x", "q")
        fails(TypeError, open, None)
        fails(ValueError, os.stat, "a\\0b")
        fails(OSError, os.close, 12345)
    """,
    "errors have no past": """
        import os, queue, socket, threading
        def context(function, *args):
            try:
                function(*args)
            except Exception as error:
                return error.__context__, error.__cause__
            raise AssertionError(function)
        open("x", "w").close()
        closed = open("x", "rb", buffering=0)
        closed.close()
        for function, *args in (
            (open, "none"), (os.stat, "none"), (os.rename, "none", "y"), (os.listdir, "none"), (os.open, "none", 0),
            (os.read, 12345, 1), (closed.read,), (threading.Lock().release,), (queue.Queue().get_nowait,),
            (socket.create_server(("127.0.0.1", 0)).connect, ("127.0.0.1", 1)), (socket.socket().recv, 1),
        ):
            assert context(function, *args) == (None, None), function
    """,
    "arguments are used once": """
        import socket
        listener = socket.create_server(("127.0.0.1", 0))
        here = socket.create_connection(listener.getsockname())
        there, _ = listener.accept()
        assert here.sendmsg(part for part in (b"ab", b"c")) == 3 and there.recv(9) == b"abc"
        with open("x", "wb", buffering=0) as raw:
            raw.writelines(part for part in (b"ab", b"c"))
        with open("x", "rb") as file:
            assert file.read() == b"abc"
        for one in (here, there, listener):
            one.close()
    """,
    "paths that misbehave": """
        import os
        class Path:
            def __init__(self, path):
                self.path = path
            def __fspath__(self):
                if isinstance(self.path, Exception):
                    raise self.path
                return self.path
        for path, kind in ((ZeroDivisionError(), ZeroDivisionError), (5, TypeError), (None, TypeError)):
            for function in (open, os.stat, os.listdir, os.unlink, os.mkdir):
                try:
                    function(Path(path))
                except kind:
                    continue
                raise AssertionError(function)
        assert not os.path.exists(Path(b"none")) and os.listdir(Path(b".")) == []
    """,
    "no current folder": """
        import os
        os.mkdir("gone")
        os.chdir("gone")
        os.rmdir("../gone")
        for function, args in ((open, ("x", "w")), (os.stat, ("x",)), (os.rename, ("x", "y")), (os.mkdir, ("x",))):
            try:
                function(*args)
            except FileNotFoundError as error:
                assert error.filename == "x"
            else:
                raise AssertionError(function)
    """,
    "nothing is kept alive": """
        import gc, os, socket, threading, weakref
        gc.disable()
        class Data(bytearray):
            pass
        class Path:
            def __fspath__(self):
                return "none"
        def gone(make, use):
            subject = make()
            reference = weakref.ref(subject)
            use(subject)
            del subject
            return reference() is None
        def refused(path):
            try:
                open(path)
            except FileNotFoundError:
                pass
        fd = os.open("x", os.O_CREAT | os.O_RDWR)
        assert gone(lambda: Data(b"x"), lambda data: os.write(fd, data))
        assert gone(Path, refused)
        assert gone(lambda: open("y", "w"), lambda file: (file.write("x"), file.close()))
        assert gone(lambda: socket.create_server(("127.0.0.1", 0)), lambda listener: listener.close())
        assert gone(threading.Lock, lambda lock: (lock.acquire(), lock.release()))
        assert gone(threading.Event, lambda event: (event.set(), event.wait()))
        assert gone(lambda: threading.Thread(target=lambda: None), lambda one: (one.start(), one.join()))
    """,
    "no descriptor is left": """
        import os, resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
        opened = []
        try:
            while True:
                opened.append(os.open("x", os.O_CREAT | os.O_WRONLY))
        except OSError as error:
            assert error.errno == 24, error
        for number in range(3000):
            os.write(opened[0], b"x")
        for fd in opened:
            os.close(fd)
        assert os.path.getsize("x") == 3000
    """,
    "rmtree, tempfile, pathlib": """
        import pathlib, shutil, tempfile, os
        with tempfile.TemporaryDirectory(dir=".") as folder:
            os.makedirs(folder + "/a/b/c")
            pathlib.Path(folder, "a", "file").write_text("x")
            assert pathlib.Path(folder, "a", "file").read_bytes() == b"x"
            pathlib.Path(folder, "a", "file").touch()
            assert sorted(p.name for p in pathlib.Path(folder).rglob("*")) == ["a", "b", "c", "file"]
        assert not os.path.exists(folder)
        with tempfile.NamedTemporaryFile(dir=".") as file:
            file.write(b"1")
        shutil.copytree("/proc/self/task/%d/net" % os.getpid(), "nothing", ignore=lambda d, n: n)
        shutil.rmtree("nothing")
    """,
    "subprocess and multiprocessing": """
        import multiprocessing, subprocess, sys
        assert subprocess.run(["cat"], input=b"x", stdout=subprocess.PIPE, close_fds=True).stdout == b"x"
        def double(number):
            return number * 2
        if __name__ == "__main__":
            with multiprocessing.get_context("fork").Pool(2) as pool:
                assert pool.map(double, range(10)) == [2 * n for n in range(10)]
    """,
    "warnings name the caller": """
        import subprocess, sys
        code = "import subprocess, warnings\\nsubprocess.run(['true'], text=True)"
        command = [sys.executable, "-X", "warn_default_encoding", "-c", code]
        assert b"<string>:2: EncodingWarning" in subprocess.run(command, stderr=subprocess.PIPE).stderr
    """,
    "asyncio in debug mode knows who asked": """
        import asyncio
        async def nothing():
            pass
        async def main():
            loop = asyncio.get_running_loop()
            handles = [
                loop.call_soon(int), loop.call_later(0, int), loop.call_at(0, int), loop.call_soon_threadsafe(int),
                loop.create_task(nothing()),
            ]
            for handle in handles:
                assert handle._source_traceback[-1].name == "main", handle._source_traceback
        asyncio.run(main(), debug=True)
    """,
    "things that look like sockets": """
        import asyncio, socket
        from unittest import mock
        loop = asyncio.new_event_loop()
        pretended = mock.Mock(socket.socket)
        pretended.fileno.return_value = 7
        pretended.getpeername.return_value = pretended.getsockname.return_value = ("127.0.0.1", 1)
        pretended.send.return_value = 2
        transport = asyncio.selector_events._SelectorSocketTransport(loop, pretended, asyncio.Protocol())
        transport.write(b"ab")
        pretended.send.assert_called_with(b"ab")
        transport._sock = None
        loop.close()
    """,
    "coroutine functions": """
        import asyncio, gc, inspect, pickle, warnings
        functions = (
            asyncio.Lock.acquire, asyncio.Event.wait, asyncio.Condition.wait_for, asyncio.Queue.get, asyncio.Queue.put,
            asyncio.StreamWriter.drain, asyncio.Lock.__aenter__, asyncio.sleep, asyncio.wait_for, asyncio.Lock().acquire,
        )
        for function in functions:
            assert inspect.iscoroutinefunction(function) and asyncio.iscoroutinefunction(function), function
            assert inspect.isfunction(function) or inspect.ismethod(function), function
            assert repr(function).startswith(("<function ", "<bound method ")), repr(function)
        assert asyncio.Lock.acquire.__qualname__ == "Lock.acquire" and asyncio.sleep.__module__ == "asyncio.tasks"
        assert str(inspect.signature(asyncio.Queue.put)) == "(self, item)"
        assert str(inspect.signature(asyncio.Queue().put)) == "(item)"
        assert pickle.loads(pickle.dumps(asyncio.Lock.acquire)) is asyncio.Lock.acquire
        assert pickle.loads(pickle.dumps(asyncio.sleep)) is asyncio.sleep
        async def main():
            lock = asyncio.Lock()
            coroutine = lock.acquire()
            assert inspect.iscoroutine(coroutine) and asyncio.iscoroutine(coroutine)
            assert (coroutine.__name__, coroutine.__qualname__) == ("acquire", "Lock.acquire")
            assert inspect.getcoroutinestate(coroutine) == "CORO_CREATED"
            assert await coroutine is True
            class Mine(asyncio.Queue):
                async def get(self):
                    return await super().get(), await asyncio.Queue.get(self)
            mine = Mine()
            await mine.put(item=1)
            mine.put_nowait(2)
            assert await mine.get() == (1, 2)
            task = asyncio.create_task(asyncio.Event().wait())
            await asyncio.sleep(0)
            assert "coro=<Event.wait() " in repr(task), repr(task)
            task.cancel()
            with warnings.catch_warnings(record=True) as given:
                warnings.simplefilter("always")
                lock.acquire()
                gc.collect()
            said = [str(one.message) for one in given]
            assert said == ["coroutine 'Lock.acquire' was never awaited"], said
            assert given[0].filename == __file__
        asyncio.run(main())
    """,
    "logging": """
        import logging, logging.handlers
        handler = logging.handlers.RotatingFileHandler("log", maxBytes=100, backupCount=1)
        logging.getLogger().addHandler(handler)
        for number in range(10):
            logging.warning("message %d", number)
        logging.shutdown()
        assert "message 9" in open("log").read()
    """,
    "zipimport": """
        import sys, zipfile
        with zipfile.ZipFile("code.zip", "w") as archive:
            archive.writestr("zipped.py", "value = 5")
        sys.path.insert(0, "code.zip")
        import zipped
        assert zipped.value == 5
    """,
    "modules are not imported early": """
        import sys
        early = {"asyncio", "queue", "socket", "ssl", "json", "ctypes", "inspect", "mmap"} & set(sys.modules)
        assert not early, early
    """,
    "loaders of hooked modules": """
        import sys, threading, socket, queue, asyncio, importlib
        for module in (threading, socket, queue):
            assert type(module.__loader__).__name__ == "SourceFileLoader", module.__loader__
            assert module.__spec__.loader is module.__loader__
        import asyncio.base_events
        importlib.reload(queue)
    """,
    "descriptors all closed": """
        import os
        os.closerange(3, 4096)
        file = open("x", "w")
        assert file.fileno() == 3
        file.write("x")
        file.close()
        for number in range(3000):
            os.stat("x")
    """,
    "dir_fd": """
        import os
        os.mkdir("sub")
        fd = os.open("sub", os.O_RDONLY)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
        os.rename("file", "other", src_dir_fd=fd, dst_dir_fd=fd)
        os.stat("other", dir_fd=fd)
        os.unlink("other", dir_fd=fd)
    """,
    "descriptors are the program's own": """
        import os
        assert sorted(map(int, os.listdir("/proc/self/fd")))[:-1] == [0, 1, 2]
    """,
    "sub-interpreters": """
        try:
            import _xxsubinterpreters as interpreters
        except ImportError:
            import _interpreters as interpreters
        open("x", "w").close()
        number = interpreters.create()
        interpreters.run_string(number, "import sys; open('y', 'w').close(); import threading, socket")
        interpreters.destroy(number)
        open("x", "w").close()
    """,
    "signal handlers": """
        import os, signal, threading
        lock = threading.Lock()
        def handle(*_):
            with open("from-signal", "a") as file:
                file.write("x")
        signal.signal(signal.SIGALRM, handle)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        for number in range(3000):
            with lock:
                with open("x", "w") as file:
                    file.write("y")
        signal.setitimer(signal.ITIMER_REAL, 0)
    """,
    "signal handlers that raise": """
        import os, signal, socket, sys
        class Alarm(Exception):
            pass
        def ring(*_):
            raise Alarm
        signal.signal(signal.SIGALRM, ring)
        fd = os.open("x", os.O_CREAT | os.O_WRONLY)
        for delay in range(1, 300):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.001 + delay / 1e6)
                while True:
                    os.write(fd, b"x")
                    os.stat("x")
            except Alarm:
                continue
    """,
    "files left open at the end": """
        import threading, sys, time
        kept = open("kept", "w")
        kept.write("unflushed")
        class Late:
            def __del__(self):
                with open("late", "w") as file:
                    file.write("x")
        late = Late()
        sys.modules["keep"] = late
        lock = threading.Lock()
        threading.Thread(target=lambda: [time.sleep(0.0001) for _ in iter(int, 1)], daemon=True).start()
        cycle = [lock]
        cycle.append(cycle)
    """,
    "modules that are imported again": """
        import queue, select, sys, threading
        def use(select, thread, queues):
            select.epoll().poll(0)
            select.poll().poll(0)
            with thread.RLock(), thread.allocate_lock():
                pass
            items = queues.SimpleQueue()
            items.put(1)
            items.get()
        names = ("select", "_thread", "_queue")
        first = [sys.modules.pop(name) for name in names]
        again = [__import__(name) for name in names]
        use(*again)
        use(*first)
        use(*again)
    """,
    "reading and writing": """
        import io, os
        with open("x", "w+b", buffering=0) as raw:
            assert raw.write(b"abc") == 3 and raw.seek(0) == 0
            assert raw.read(2) == b"ab" and raw.read() == b"c" and raw.readall() == b""
            raw.seek(0)
            buffer = bytearray(2)
            assert raw.readinto(buffer) == 2 and raw.truncate(1) == 1 and raw.truncate() == 2
        with open("x", "a+") as text:
            text.write("z" * 100000)
            text.seek(0)
            assert len(text.read()) == 100002
        os.truncate("x", 5)
        assert os.path.getsize("x") == 5
        with open(os.open("x", os.O_RDONLY), closefd=True) as file:
            file.read()
    """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_run_as_without_the_agent(tool, name):
    command = tool.command(PROGRAMS[name], "")
    bare = {k: v for k, v in command["env"].items() if not k.startswith(("UNDERMINE", "PYTHONPATH"))}
    # Without site packages, so that nothing is imported before the program.
    command["args"].insert(1, "-s")
    plain = tool.folder / "plain"
    plain.mkdir()
    expected = subprocess.run(**{**command, "env": bare, "cwd": plain}, timeout=HANG_S)
    assert expected.returncode == 0, expected.stderr
    process = subprocess.run(**command, timeout=HANG_S)
    assert (process.returncode, process.stderr) == (0, expected.stderr)
    assert not list(tool.trace_dir.glob("*.agent-error"))


@pytest.mark.parametrize(
    "name",
    [
        "sub-interpreters", "pickle", "types", "errors", "reading and writing", "files left open at the end",
        "supports sets", "errors have no past", "arguments are used once", "paths that misbehave", "nothing is kept alive",
        "exceptions keep no more alive", "modules that are imported again",
    ],
)  # fmt: skip
def test_programs_run_as_without_the_agent_on_every_version(tool, any_python, name):
    tool.python = any_python
    tool.run(PROGRAMS[name]).ok()


def test_the_targets_own_sitecustomize_runs(tool, any_python):
    tool.python = any_python
    folder = tool.folder / "own"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("import sys\nsys.own = __file__, __name__\n")
    outcome = tool.run("import sys, sitecustomize; print(sys.own, sitecustomize.__file__)", python_path=str(folder))
    own = str(folder / "sitecustomize.py")
    assert outcome.ok().out == f"{(own, 'sitecustomize')} {own}\n"


def test_an_error_in_the_targets_own_sitecustomize_is_passed_on(tool):
    folder = tool.folder / "own"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("1 / 0")
    outcome = tool.run("open('x', 'w')", python_path=str(folder))
    assert "ZeroDivisionError" in outcome.err
    assert outcome.code == 0
    assert outcome.of("file.create")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda tool: (tool.folder / "agent-s1-1.json").write_text("{"), ""),
        (lambda tool: (tool.folder / "agent-s1-1.json").unlink(), ""),
        (lambda tool: tool.state.write_bytes(b"short"), "not a state file"),
        (lambda tool: tool.state.unlink(), "No such file"),
        (lambda tool: tool.trace_dir.rmdir(), ""),
    ],
)
def test_the_agent_fails_open(tool, damage, said):
    command = tool.command("import os, socket; os.listdir('.'); print('fine')", "")
    damage(tool)
    process = subprocess.run(**command, timeout=HANG_S)
    assert (process.returncode, process.stdout, process.stderr) == (0, "fine\n", "")
    notes = [path.read_text() for path in tool.trace_dir.glob("*.agent-error")] if tool.trace_dir.exists() else []
    assert said in "".join(notes)


def test_without_the_variable_nothing_is_loaded(tool):
    command = tool.command("import sys; print('undermine_agent' in sys.modules)", "")
    del command["env"]["UNDERMINE_AGENT"]
    assert subprocess.run(**command, timeout=HANG_S).stdout == "False\n"


def test_recording_stops_when_the_file_cannot_grow(tool):
    outcome = tool.run(
        """
        import os, resource, signal
        resource.setrlimit(resource.RLIMIT_FSIZE, (70000, 70000))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        fd = os.open("x", os.O_CREAT | os.O_WRONLY)
        for _ in range(3000):
            os.write(fd, b"1")
        print("fine")
        """
    ).ok()
    assert outcome.out == "fine\n"
    assert 0 < len(outcome.of("file.write")) < 3000


def test_the_agent_never_imports_the_core(tool):
    outcome = tool.run("import sys, socket, threading, asyncio, queue; print('undermine' in sys.modules)").ok()
    assert outcome.out == "False\n"


@pytest.mark.parametrize("agent_kind", ["fast"])
def test_with_the_accelerator_no_frame_of_the_agent_is_seen(tool, any_python):
    tool.python = any_python
    tool.run(
        """
        import os, socket, sqlite3, threading, traceback, warnings
        def names(function, *args):
            try:
                function(*args)
            except Exception as error:
                return [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        closed = open("x", "wb", buffering=0)
        closed.close()
        def opener(path, flags):
            raise ValueError
        for function, *args in (
            (open, "none"), (os.stat, "none"), (os.rename, "none", "y"), (os.mkdir, "x"), (os.read, 12345, 1),
            (closed.write, b"x"), (socket.socket().recv, 1), (socket.socket().connect, ("127.0.0.1", 1)),
            (threading.Lock().release,), (sqlite3.connect("data").execute, "nonsense"),
        ):
            assert names(function, *args) == ["names"], (function, names(function, *args))
        assert names(lambda: open("x", opener=opener)) == ["names", "<lambda>", "opener"]
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            open("x", "wb", buffering=1).close()
        assert given[0].filename == __file__, given[0].filename
        """
    ).ok()
