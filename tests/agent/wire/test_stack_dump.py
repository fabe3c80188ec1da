"""Stack dumps on request: their content, and that the program doesn't notice them."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from waiting import HANG_S

from undermine.analysis.exposure.explained_stacks import explained
from undermine.deployments.stacks import NOT_CAUGHT, gather
from undermine.model.codec import read_trace
from undermine.model.event import STACKS_SIGNAL, ProcessStacks, ThreadStack


@contextmanager
def hanging(tool: Any, source: str) -> Iterator[subprocess.Popen[str]]:
    """A target that has said `ready` and is about to hang."""
    tool.more_config = {"stacks_signal": STACKS_SIGNAL, **tool.more_config}
    command = tool.command(source, "")
    with subprocess.Popen(**command, stdin=subprocess.PIPE, start_new_session=True) as target:
        try:
            assert target.stdout.readline() == "ready\n", target.stderr.read()
            yield target
        finally:
            os.killpg(target.pid, signal.SIGKILL)  # with its children


def asked(tool: Any, until: Any) -> tuple[ProcessStacks, ...]:
    """Ask until the target hangs; return the last answer if it never does."""
    deadline = time.monotonic() + HANG_S
    while True:
        stacks = explained(gather(tool.trace_dir, timeout_s=HANG_S), read_trace(tool.trace_dir)[0])
        if until(stacks) or time.monotonic() > deadline:
            return stacks
        time.sleep(0.05)


def by_name(stacks: ProcessStacks) -> dict[str, ThreadStack]:
    assert stacks.problem == ""
    return {doing.name: doing for doing in stacks.doing}


def inner(doing: ThreadStack, number: int = 1) -> list[str]:
    """The innermost call sites, without their lines."""
    return [frame.rpartition(":")[0] for frame in doing.stack[:number]]


DEADLOCK = """
    import threading
    one, two = threading.Lock(), threading.RLock()
    met = threading.Barrier(2)
    def transfer():
        with one:
            met.wait()
            with two:
                pass
    def audit():
        with two, two:
            met.wait()
            with one:
                pass
    thread = threading.Thread(target=audit, name="auditor")
    thread.start()
    print("ready", flush=True)
    transfer()
"""


def test_two_deadlocked_threads_are_shown_with_their_locks(tool, any_python):
    tool.python = any_python
    with hanging(tool, DEADLOCK):
        (stacks,) = asked(tool, lambda found: all(doing.waits.startswith(("lock", "rlock")) for doing in found[0].doing))
    assert (stacks.node, stacks.incarnation) == ("s1", 1)
    main, auditor = stacks.doing
    assert (main.name, auditor.name) == ("MainThread", "auditor")
    old = any(minor in any_python for minor in ("3.9", "3.10"))
    assert main.own == ("__main__:transfer", "__main__:<module>")
    assert main.stack == ("__main__:transfer:8", "__main__:<module>:18")
    assert auditor.own == ("__main__:audit",)
    assert auditor.stack[0] == "__main__:audit:13"
    assert inner(auditor, 2)[1] == ("threading:run" if old else "threading:Thread.run")
    lock, rlock = main.holds[0].partition(" taken")[0], auditor.holds[0].partition(" taken")[0]
    assert {lock.split()[0], rlock.split()[0]} == {"lock", "rlock"}
    assert main.holds == (f"{lock} taken at __main__:transfer:6",)
    assert auditor.holds == (f"{rlock} taken at __main__:audit:11, 2 times",)
    assert main.waits == f"{rlock}, held by auditor since __main__:audit:11, at __main__:transfer:8"
    assert auditor.waits == f"{lock}, held by MainThread since __main__:transfer:6, at __main__:audit:13"


NAMESAKES = """
    import sys, threading
    lock, own, arrived, asked = threading.Lock(), threading.Lock(), threading.Barrier(3), threading.Event()
    def serve(first):
        if first:
            with lock:
                arrived.wait()
                asked.wait()
        else:
            with own:
                arrived.wait()
                with lock:
                    pass
    def begin(first):
        threading.Thread(target=serve, args=(first,), name="connection", daemon=True).start()
    begin(True)
    while not lock.locked():
        pass
    begin(False)
    arrived.wait()
    print("ready", flush=True)
    sys.stdin.readline()
"""


def test_threads_that_share_a_name_are_told_apart(tool, any_python):
    tool.python = any_python
    with hanging(tool, NAMESAKES):
        (stacks,) = asked(tool, lambda found: by_name(found[0])["connection#2"].waits.startswith("lock"))
    first, second = by_name(stacks)["connection"], by_name(stacks)["connection#2"]
    taken = first.holds[0].partition(" taken")[0]
    assert first.holds == (f"{taken} taken at __main__:serve:6",)
    assert len(second.holds) == 1
    assert second.holds[0].endswith(" taken at __main__:serve:10")
    assert second.waits == f"{taken}, held by connection since __main__:serve:6, at __main__:serve:12"


LOOP = """
    import asyncio, sys, threading, time
    lock, turns = threading.Lock(), []
    def expire():
        with lock:
            turns.append(1)
    def count():
        lock.acquire(timeout=9)
        try:
            return len(turns)
        finally:
            lock.release()
    async def talk():
        while True:
            expire()
            await asyncio.sleep(0.001)
    threading.Thread(target=lambda: asyncio.run(talk()), name="gossip", daemon=True).start()
    while count() < 50:
        time.sleep(0.001)
    print("ready", flush=True)
    sys.stdin.readline()
"""


def test_a_lock_taken_in_several_ways_counts_as_released(tool, any_python):
    tool.python = any_python
    with hanging(tool, LOOP):
        (stacks,) = asked(tool, lambda found: by_name(found[0])["gossip"].waits.startswith("in selectors"))
    assert [doing.holds for doing in stacks.doing] == [()] * len(stacks.doing)


ASYNC = """
    import asyncio
    async def replicate(lock, never):
        async with lock:
            await forward(never)
    async def forward(never):
        async for _ in items(never):
            pass
    async def items(never):
        await never
        yield 1
    async def compact(lock):
        await lock.acquire()
    async def main():
        lock, never = asyncio.Lock(), asyncio.get_running_loop().create_future()
        first = asyncio.create_task(replicate(lock, never), name="replicator")
        await asyncio.sleep(0)
        second = asyncio.create_task(compact(lock), name="compactor")
        print("ready", flush=True)
        await second
    asyncio.run(main())
"""


def test_the_tasks_of_a_hanging_loop_are_shown(tool, any_python):
    tool.python = any_python

    def waits(found: tuple[ProcessStacks, ...]) -> bool:
        """The loop still works for a moment after all tasks wait."""
        waiting = [doing.name for doing in found[0].doing if doing.waits]
        return len(waiting) > 3 and by_name(found[0])["MainThread"].waits.startswith("in selectors:")

    with hanging(tool, ASYNC):
        (stacks,) = asked(tool, waits)
    doing = by_name(stacks)
    assert inner(doing["MainThread"])[0].startswith("selectors:")
    assert doing["MainThread"].waits.startswith("in selectors:")
    own = ("__main__:items", "__main__:forward", "__main__:replicate")
    assert doing["replicator"].own == own
    assert tuple(inner(doing["replicator"], 9)) == own
    assert (doing["replicator"].kind, doing["replicator"].waits) == ("task", "Future")
    assert doing["compactor"].own == ("__main__:compact",)
    assert doing["compactor"].waits == (
        "lock 1, held by MainThread since __main__:replicate:4, at __main__:compact:13"
    )
    assert (doing["Task-1"].own, doing["Task-1"].waits) == (("__main__:main",), "task compactor")


WAITING = """
    import os, queue, selectors, signal, socket, sys, threading, time
    ours, theirs = socket.socketpair()
    condition = threading.Condition()
    def in_condition():
        with condition:
            condition.wait()
    places = {
        "lock": lambda: (lock.acquire(), lock.acquire()),
        "sleep": lambda: time.sleep(3600),
        "recv": lambda: ours.recv(1),
        "select": lambda: selector.select(),
        "queue": lambda: queue.Queue().get(),
        "condition": in_condition,
        "sigwait": lambda: signal.sigwait({signal.SIGUSR2}),
        "pause": signal.pause,
    }
    lock, selector = threading.Lock(), selectors.DefaultSelector()
    selector.register(ours, selectors.EVENT_READ)
    def interrupted(*_):
        raise KeyError
    signal.signal(signal.SIGUSR1, interrupted)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    print("ready", flush=True)
    for name in sys.stdin:
        print("began", flush=True)
        try:
            places[name.strip()]()
            print("woke up", flush=True)
        except KeyError:
            print("interrupted", flush=True)
"""


def test_a_waiting_main_thread_answers_and_continues_to_wait(tool, any_python):
    tool.python = any_python
    tool.more_config = {"observe": []}
    expected = {
        "lock": "",
        "sleep": "",
        "recv": "",
        "select": "in selectors:EpollSelector.select",
        "queue": "in queue:Queue.get",
        "condition": "in threading:Condition.wait",
        "pause": "",
        "sigwait": "in signal:sigwait",
    }
    if any(minor in any_python for minor in ("3.9", "3.10")):
        expected |= {"select": "in selectors:select", "queue": "in queue:get", "condition": "in threading:wait"}
    with hanging(tool, WAITING) as target:
        for name, waits in expected.items():
            target.stdin.write(name + "\n")
            target.stdin.flush()
            assert target.stdout.readline() == "began\n"
            _wait_until_it_sleeps(target.pid)
            (stacks,) = gather(tool.trace_dir, timeout_s=HANG_S)
            assert stacks.problem == "", name
            (doing,) = explained([stacks], read_trace(tool.trace_dir)[0])[0].doing
            assert (doing.name, doing.waits) == ("MainThread", waits), name
            assert "__main__:<module>" in doing.own
            _wait_until_it_sleeps(target.pid)  # a signal that comes just before would not end the wait
            target.send_signal(signal.SIGUSR2 if name == "sigwait" else signal.SIGUSR1)
            assert target.stdout.readline() == ("woke up\n" if name == "sigwait" else "interrupted\n"), name
    assert not list(tool.trace_dir.glob("*.agent-error"))


def _wait_until_it_sleeps(pid: int) -> None:
    """Is the process in a blocking system call, and does it stay there for a while?"""
    still = 0
    while still < 3:
        with open(f"/proc/{pid}/stat") as file:
            still = still + 1 if file.read().rpartition(")")[2].split()[0] == "S" else 0
        time.sleep(0.01)


PROCESSES = """
    import multiprocessing, os, signal, subprocess, sys, time
    def serve(pipe):
        pipe.send(1)
        pipe.recv()
    child = subprocess.Popen(["sleep", "3600"])
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    worker = context.Process(target=serve, args=(theirs,))
    worker.start()
    ours.recv()
    print("ready", flush=True)
    sys.stdin.readline()
    print(child.poll(), flush=True)
    sys.stdin.readline()
"""


def test_forked_processes_answer_and_other_programs_are_left_alone(tool):
    with hanging(tool, PROCESSES) as target:
        both = asked(tool, lambda found: True)
        own = {stacks.pid == target.pid: by_name(stacks)["MainThread"].own for stacks in both}
        assert len(both) == 2
        assert own[True] == ("__main__:<module>",)
        assert own[False] == ("__main__:serve", "__main__:<module>")
        target.stdin.write("\n")
        target.stdin.flush()
        assert target.stdout.readline() == "None\n"
    files = sorted(path for path in tool.trace_dir.iterdir() if ".stacks" in path.name)
    assert [path.name for path in files] == sorted(f"s1.1.{stacks.pid}.stacks" for stacks in both)
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


def test_a_signal_that_the_target_uses_itself_is_left_to_it(tool):
    taken = f"""
        import signal, sys
        told = []
        assert signal.getsignal({STACKS_SIGNAL}) is not signal.SIG_DFL
        signal.signal({STACKS_SIGNAL}, signal.SIG_IGN)
        print("ready", flush=True)
        sys.stdin.readline()
    """
    with hanging(tool, taken):
        (stacks,) = gather(tool.trace_dir)
        assert (stacks.doing, stacks.problem) == ((), NOT_CAUGHT)


def test_without_a_signal_nothing_is_installed(tool):
    said = tool.run(f"import signal; print(signal.getsignal({STACKS_SIGNAL}) is signal.SIG_DFL)").ok().out
    assert said == "True\n"


def test_signal_handlers_of_the_target_still_work(tool, any_python):
    """A loop with a handler, a handler that raises out of a wait, and signals that are waited for."""
    tool.python = any_python
    tool.more_config = {"stacks_signal": STACKS_SIGNAL}
    outcome = tool.run(
        f"""
        import asyncio, os, signal, threading, time
        def ask():
            os.kill(os.getpid(), {STACKS_SIGNAL})
        async def main():
            loop, seen = asyncio.get_running_loop(), []
            loop.add_signal_handler(signal.SIGUSR1, seen.append, "asyncio")
            ask()
            os.kill(os.getpid(), signal.SIGUSR1)
            await asyncio.sleep(0.05)
            print(seen)
        asyncio.run(main())
        signal.pthread_sigmask(signal.SIG_BLOCK, {{signal.SIGUSR2}})
        threading.Timer(0.05, ask).start()
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR2)).start()
        print(signal.sigwait([signal.SIGUSR2]) is signal.SIGUSR2)
        threading.Timer(0.05, ask).start()
        print(signal.sigtimedwait([signal.SIGUSR2], 1))
        for wrong in (7, [0], [[]]):
            try:
                signal.sigwait(wrong)
            except (TypeError, ValueError, OSError) as error:
                print(type(error).__name__)
        print([signal.SIGUSR2 in signal.pthread_sigmask(signal.SIG_BLOCK, ()), signal.sigpending()])
        """
    ).ok()
    assert outcome.out.splitlines() == [
        "['asyncio']",
        "True",
        "None",
        "TypeError",
        "ValueError",
        "TypeError",
        "[True, set()]",
    ]
    assert [path.name for path in tool.trace_dir.glob("*.stacks")] != []


def test_the_signal_does_not_kill_an_interpreter_that_shuts_down(tool, any_python):
    tool.python = any_python
    tool.more_config = {"stacks_signal": STACKS_SIGNAL}
    outcome = tool.run(
        f"""
        import os
        class Last:
            def __del__(self, kill=os.kill, pid=os.getpid()):
                kill(pid, {STACKS_SIGNAL})  # comes after the interpreter has given up all handlers
        last = Last()
        """
    )
    assert outcome.code == 0
    assert not list(tool.trace_dir.glob("*.stacks"))


def test_more_threads_than_are_shown_are_counted(tool):
    many = """
        import sys, threading
        end = threading.Event()
        def wait(depth):
            wait(depth - 1) if depth else end.wait()
        for number in range(230):
            threading.Thread(target=wait, args=(90,), name="waiter", daemon=True).start()
        print("ready", flush=True)
        sys.stdin.readline()
    """
    tool.more_config = {"observe": []}
    with hanging(tool, many):
        (stacks,) = gather(tool.trace_dir, timeout_s=HANG_S)
    assert stacks.problem == "31 more threads and tasks are not shown"
    assert len(stacks.doing) == 200
    assert {len(doing.stack) for doing in stacks.doing[1:]} == {60}
    assert os.path.getsize(next(tool.trace_dir.glob("*.stacks"))) < 1 << 20
