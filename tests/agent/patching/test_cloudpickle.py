"""Objects that cloudpickle sends from a process with the agent work in a process without it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import cloudpickle
import pytest
from waiting import HANG_S

SENT = {
    "built-in functions": (
        """
        import functools, os, time
        def call():
            return os.path.exists(".") and time.sleep(0)
        sent = [os.rename, open, functools.partial(os.replace, "a"), {"sleep": time.sleep}, call]
        """,
        """
        assert received[0] is os.rename and received[1] is open and received[2].func is os.replace
        assert received[3]["sleep"] is time.sleep and received[4]() is None
        """,
    ),
    "classes by value": (
        """
        import asyncio, queue, socket, threading
        class Socket(socket.socket):
            def send(self, data):
                return super().send(data)
        class Worker(threading.Thread):
            def run(self):
                self.done = True
        class Flag(threading.Event):
            other_wait = threading.Event.wait
        class Channel(queue.Queue):
            def put(self, item, *rest):
                super().put([item], *rest)
        class Loop(asyncio.SelectorEventLoop):
            pass
        sent = [Socket, Worker, Flag, Channel, Loop, threading.Condition.wait, socket.socket.send]
        """,
        """
        kinds = [socket.socket, threading.Thread, threading.Event, queue.Queue, asyncio.SelectorEventLoop]
        assert all(issubclass(one, other) for one, other in zip(received, kinds))
        worker = received[1]()
        worker.start()
        worker.join()
        channel = received[3]()
        channel.put(1)
        assert worker.done and channel.get() == [1] and received[5] is threading.Condition.wait
        """,
    ),
}


@pytest.mark.parametrize("name", SENT)
def test_cloudpickle_sends_hooked_functions_to_a_process_without_the_agent(tool, any_python, name):
    sent, received = SENT[name]
    library = tool.folder / "library"
    library.mkdir()
    (library / "cloudpickle").symlink_to(Path(cloudpickle.__file__).parent)
    tool.python = any_python
    tool.run(program(sent) + WRITE, python_path=str(library)).ok()
    assert b"undermine" not in (tool.data / "sent").read_bytes()
    command = tool.command(READ + program(received), str(library))
    command["env"] = {**command["env"], "PYTHONPATH": str(library)}
    del command["env"]["UNDERMINE_AGENT"]
    done = subprocess.run(**command, timeout=HANG_S)
    assert (done.returncode, done.stderr) == (0, "")


def program(source: str) -> str:
    return "\n".join(line[8:] for line in source.splitlines()) + "\n"


WRITE = "import cloudpickle\nopen('sent', 'wb').write(cloudpickle.dumps(sent))\n"
READ = """
import asyncio, os, queue, socket, sys, threading, time
import cloudpickle
received = cloudpickle.loads(open("sent", "rb").read())
assert "undermine_agent" not in sys.modules
"""
