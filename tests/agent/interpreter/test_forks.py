"""Targets that fork in one thread while others run: the agent works in every child."""

from __future__ import annotations

IMPORTING = """
    import collections, heapq, logging, os, signal, sys, threading, types, _queue

    importing, forked = threading.Event(), threading.Event()

    class Slow:
        def find_spec(self, name, path=None, target=None):
            if name == "undermine_agent.handover.give_take":
                importing.set()
                forked.wait(0.5)

    def imports():
        import concurrent.futures._base

    sys.meta_path.insert(0, Slow())
    thread = threading.Thread(target=imports)
    thread.start()
    assert importing.wait(200)
    pid = os.fork()
    if pid == 0:
        signal.alarm(200)
        import queue
        queue.Queue().put(1)
        os._exit(0)
    forked.set()
    thread.join()
    assert os.waitpid(pid, 0)[1] == 0
"""


def test_a_child_forked_while_the_agent_imports_a_module_does_not_hang(tool, any_python):
    tool.python = any_python
    outcome = tool.run(IMPORTING).ok()
    assert [event.op for event in outcome.of("queue.put")] == ["queue.put"]


FILES = """
    import os, threading

    kept, ready, over = threading.local(), threading.Event(), threading.Event()

    def keep():
        kept.files = [open("kept%d" % number, "w") for number in range(20)]
        ready.set()
        over.wait()

    thread = threading.Thread(target=keep)
    thread.start()
    ready.wait()
    for _ in range(5):
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
    over.set()
    thread.join()
"""


def test_files_that_the_interpreter_closes_in_a_child_are_not_in_its_parents_events(tool, any_python):
    tool.python = any_python
    outcome = tool.run(FILES).ok()
    assert [len(outcome.of(op)) for op in ("process.start", "process.wait")] == [5, 5]
    starts = outcome.of("process.start")
    parents = [event for event in outcome.of("file.close") if event.pid == starts[0].pid]
    assert len(parents) == 20


NESTED = """
    import os, threading

    def fork():
        pid = os.fork()
        if pid == 0:
            os.stat("child")
            fork_again = os.fork()
            if fork_again == 0:
                os.stat("grandchild")
                os._exit(0)
            os.waitpid(fork_again, 0)
            os._exit(0)
        os.waitpid(pid, 0)
        try:
            os.stat("parent")
        except OSError:
            pass

    os.mkdir("child"), os.mkdir("grandchild")
    threads = [threading.Thread(target=fork) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
"""


def test_everything_is_recorded_again_after_a_fork(tool):
    outcome = tool.run(NESTED).ok()
    names = [event.resource.rpartition("/")[2] for event in outcome.of("file.stat")]
    assert {name: names.count(name) for name in set(names)} == {"child": 4, "grandchild": 4, "parent": 4}
