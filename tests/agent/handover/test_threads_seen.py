"""The agent records the waits of threads, and the hand-overs between them."""

from __future__ import annotations

SYNCHRONISATION = """
    import concurrent.futures, queue, threading

    def semaphores():
        semaphore, bounded = threading.Semaphore(2), threading.BoundedSemaphore(1)
        with semaphore:
            semaphore.acquire(timeout=3)
        semaphore.release()
        bounded.acquire()
        bounded.release()

    def waits():
        lock = threading.Lock()
        assert lock.acquire(True, 4)
        lock.release()
        event, condition, barrier = threading.Event(), threading.Condition(), threading.Barrier(1)
        event.set()
        event.wait(5)
        with condition:
            condition.wait(0.006)
            condition.wait_for(lambda: True, timeout=7)
            condition.notify_all()
        barrier.wait(8)

    def queues():
        for kind in (queue.Queue, queue.SimpleQueue, queue.LifoQueue, queue.PriorityQueue):
            items = kind()
            items.put(1)
            items.get(True, 9)
            items.put_nowait(2)
            items.get_nowait()
        try:
            items.get_nowait()
        except queue.Empty:
            pass

    def joins():
        thread = threading.Thread(target=len, args=("",), name="helper-1")
        thread.start()
        thread.join(10)

    def futures():
        future = concurrent.futures.Future()
        future.set_result(1)
        assert future.result(11) == 1 and future.exception() is None
        concurrent.futures.wait([future], 12)

    semaphores()
    waits()
    queues()
    joins()
    futures()
"""


def test_synchronisation_of_threads_is_recorded(tool, any_python):
    tool.python = any_python
    outcome = tool.run(SYNCHRONISATION).ok()
    s = 10**9
    assert _within(outcome, "semaphores") == [
        ("sem.acquire semaphore", 0),
        ("sem.acquire semaphore", 3 * s),
        ("sem.release semaphore", 0),
        ("sem.release semaphore", 0),
        ("sem.acquire semaphore", 0),
        ("sem.release semaphore", 0),
    ]
    assert _within(outcome, "waits") == [
        ("lock.acquire lock", 4 * s),
        ("lock.release lock", 0),
        ("event.set event", 0),
        ("event.wait event", 5 * s),
        ("lock.acquire rlock", 0),
        ("cond.wait condition", 6 * 10**6),
        ("cond.wait condition", 7 * s),
        ("cond.notify condition", 0),
        ("lock.release rlock", 0),
        ("barrier.wait barrier", 8 * s),
    ]
    once = [
        ("handover.give queue", 0),
        ("queue.put queue", 0),
        ("queue.get queue", 9 * s),
        ("handover.take queue", 0),
        ("handover.give queue", 0),
        ("queue.put queue", 1),
        ("queue.get queue", 1),
        ("handover.take queue", 0),
    ]
    assert _within(outcome, "queues") == [*once * 4, ("queue.get queue", 1)]
    assert outcome.of("queue.get")[-1].error == "Empty"
    assert _within(outcome, "joins") == [("thread.start helper-<n>", 0), ("join helper-<n>", 10 * s)]
    assert _within(outcome, "futures") == [
        ("future.set future", 0),
        ("future.wait future", 11 * s),
        ("future.wait future", 0),
        ("future.wait futures", 12 * s),
    ]


def _within(outcome, function):
    return [(f"{e.op} {e.target}", e.size) for e in outcome.trace if e.loc.startswith(f"__main__:{function}#")]


def test_calls_that_do_not_wait_are_marked(tool):
    outcome = tool.run(
        """
        import concurrent.futures, multiprocessing, queue, threading

        def at_once():
            lock, rlock, semaphore = threading.Lock(), threading.RLock(), threading.Semaphore()
            lock.acquire(False), lock.acquire(True, 0), rlock.acquire(blocking=False), semaphore.acquire(blocking=False)
            multiprocessing.Lock().acquire(False), multiprocessing.Semaphore(2).acquire(block=False)
            threading.Event().wait(0)
            with threading.Condition() as condition:
                pass
            items = queue.Queue()
            items.put(1, False), items.get(block=False), items.put(1, timeout=0), items.get(timeout=0)
            multiprocessing.Pipe()[0].poll()
            multiprocessing.Pipe()[0].poll(0)
            concurrent.futures.wait([], 0)
            thread = threading.Thread(target=len, args=("",))
            thread.start()
            thread.join(0)

        def for_ever():
            lock, rlock, semaphore = threading.Lock(), threading.RLock(), threading.Semaphore()
            lock.acquire(), rlock.acquire(True, -1), semaphore.acquire(timeout=None), rlock.acquire(timeout=-1)
            items = queue.Queue()
            items.put(1, True, None), items.get(True)

        at_once()
        for_ever()
        """
    ).ok()
    kinds = ("lock.acquire", "sem.acquire", "event.wait", "queue.", "future.wait", "join")
    of = {name: [e for e in outcome.trace if f":{name}#" in e.loc and e.op.startswith(kinds)] for name in ("at_once", "for_ever")}
    entered = ("rlock", "lock.acquire", 0)  # the condition's own, by `with`
    assert [(e.op, e.size) for e in of["at_once"] if (e.target, e.op, e.size) != entered and e.size != 1] == []
    assert len(of["at_once"]) == 16
    assert [e.size for e in of["for_ever"]] == [0] * 6


HANDOVER = """
    import concurrent.futures, functools, queue, threading

    items = queue.Queue()
    has_callback = threading.Event()

    def work():
        while items.get() is not None:
            pass

    def compute(number):
        assert has_callback.wait(200)
        open("computed", "w").close()
        return number

    def done(future):
        pass

    def fail():
        raise ValueError

    worker = threading.Thread(target=work, name="worker")
    worker.start()
    items.put(7)
    items.put(None)
    worker.join()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        future = pool.submit(functools.partial(compute, 5))
        future.add_done_callback(done)
        has_callback.set()
        assert future.result() == 5
        try:
            pool.submit(fail).result()
        except ValueError:
            pass
        assert list(pool.map(compute, [1, 2])) == [1, 2]
    timer = threading.Timer(0.001, compute, (1,))
    timer.start()
    timer.join()
"""


def test_handovers_between_threads_are_recorded(tool, any_python):
    tool.python = any_python
    outcome = tool.run(HANDOVER).ok()
    gives = {e.resource: e for e in outcome.of("handover.give", "thread.start")}
    takes = {e.resource: e for e in outcome.of("handover.take")}
    assert len(gives) == len(outcome.of("handover.give", "thread.start"))
    assert takes.keys() <= gives.keys()
    for resource, take in takes.items():
        assert take.target == gives[resource].target
        assert take.t_ns >= gives[resource].t_ns
    assert [t.target for t in takes.values() if t.thread == "worker"] == ["worker", "queue", "queue"]
    calls = [e for e in takes.values() if e.resource.startswith("call-")]
    assert [e.target for e in calls] == ["compute", "fail", "compute", "compute"]
    assert calls[0].end_ns > calls[0].t_ns
    assert {e.thread for e in calls} != {"MainThread"}
    inside = [e for e in outcome.of("file.create", "file.open") if calls[0].t_ns <= e.t_ns <= calls[0].end_ns]
    assert len(inside) == 1
    futures = {e.resource for e in outcome.of("future.wait")}
    assert futures & {e.resource for e in outcome.of("future.set")}
    assert [gives[resource].target for resource in takes if resource.startswith("callback-")] == ["done"]


def test_objects_that_are_handed_over_stay_unchanged(tool, any_python):
    tool.python = any_python
    tool.run(
        """
        import asyncio, concurrent.futures, functools, queue

        def callback(*args):
            pass

        item = object()
        items = queue.SimpleQueue()
        items.put(item)
        assert items.get() is item and items.empty()

        async def main():
            loop = asyncio.get_running_loop()
            handle = loop.call_soon(callback, 1)
            assert handle._callback is callback and "callback" in repr(handle)
            future = loop.create_future()
            partial = functools.partial(callback, 2)
            future.add_done_callback(partial)
            assert future.remove_done_callback(partial) == 1
            future.add_done_callback(callback)
            future.set_result(1)
            task = asyncio.create_task(asyncio.sleep(0), name="x")
            assert asyncio.iscoroutinefunction(asyncio.sleep) and asyncio.iscoroutinefunction(asyncio.Queue.get)
            await task
            cancelled = loop.call_later(0, callback)
            cancelled.cancel()
            assert cancelled.cancelled() and type(cancelled) is asyncio.TimerHandle
            try:
                loop.call_soon()
            except TypeError:
                pass
            else:
                raise AssertionError

        asyncio.run(main(), debug=True)
        """
    ).ok()


def test_threads_without_threading_are_recorded(tool, any_python):
    tool.python = any_python
    outcome = tool.run(
        """
        import _thread, sys, threading, time
        begun, died = [], []
        sys.unraisablehook = lambda args: died.append(args.object)
        def work(one, two=2):
            begun.append(one)
            if one == 3:
                raise ValueError(one)
        def go():
            _thread.start_new_thread(work, (1,))
            _thread.start_new_thread(work, (1,), {"two": 3})
            _thread.start_new_thread(work, (3,))
            thread = threading.Thread(target=work, args=(1,), name="other")
            thread.start()
            thread.join()
            while len(begun) < 4 or _thread._count():
                time.sleep(0.01)
        go()
        assert died[0] is work or died == [None]  # CPython 3.13 names it in the message
        try:
            _thread.start_new_thread(1, 2)
        except TypeError:
            print("arguments")
        """
    ).ok()
    assert outcome.out == "arguments\n"
    starts = outcome.of("thread.start")
    assert [event.target for event in starts] == ["work", "work", "work", "other"]
    assert all(event.loc.startswith("__main__:go#") for event in starts)


def test_futures_that_are_waited_for_may_leave_their_set_meanwhile(tool):
    """Functions that wait for several futures look unchanged."""
    outcome = tool.run(
        """
        import concurrent.futures, inspect, sys, time

        sys.setswitchinterval(1e-6)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for _ in range(60):
                alive = {pool.submit(time.sleep, 0.0002) for _ in range(60)}
                for future in list(alive):
                    future.add_done_callback(alive.discard)
                concurrent.futures.wait(alive)
        print(inspect.isgeneratorfunction(concurrent.futures.as_completed))
        """
    ).ok()
    assert outcome.out == "True\n"
