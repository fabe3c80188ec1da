"""Waits for several futures at once: one wait is recorded for each future that isn't done yet.

Setting a future ends its wait. If the first future is enough, the wait's target says so.
"""

from __future__ import annotations

from time import monotonic_ns

from undermine_agent.names.subjects import Subject
from undermine_agent.patching.observe import by_address, limit, observed_coroutine, own_behind, own_caller
from undermine_agent.patching.patch import on_class, on_coroutine

FIRST = "first future"
"""The target of waits that end when the first of several futures is done."""
_FIRST_COMPLETED = "FIRST_COMPLETED"


class MultiWait:
    """Records one wait for each future."""

    def __init__(self, agent):
        self.agent = agent
        self.operation = agent.operations["future.wait"]
        self.future = by_address("future")

    def over(self, futures, since, size=0, is_first=False, stack=None) -> None:
        """Record waits for these futures, which began at `since` and are over now."""
        for one in futures:
            subject = self.future(one)
            subject = Subject(FIRST, subject.resource) if is_first else subject
            call = self.agent.enter(self.operation, subject, size, since, stack)
            if call is not None:
                self.agent.leave(call)

    def until_done(self, futures, size=0, is_first=False, stack=None):
        """Start waits for these futures; return a function to call when they are over."""
        pending, since = [one for one in futures if not one.done()], monotonic_ns()

        def over(result):
            self.over([one for one in pending if one.done()], since, size, is_first, stack)

        return over


def install_threads(agent, base) -> None:
    """Hook `wait` and `as_completed` of `concurrent.futures._base`."""
    waits, own, operation = MultiWait(agent), own_caller(agent), agent.operations["future.wait"]
    size_of, futures = limit(0), Subject("futures")

    def make_wait(original):
        def wait(fs, timeout=None, return_when=base.ALL_COMPLETED):
            if not own():
                return original(fs, timeout, return_when)
            pending, size, since = _pending(fs), size_of(fs, timeout), monotonic_ns()
            result = agent.perform(operation, futures, size, None, original, fs, timeout, return_when)
            waits.over(result.done.intersection(pending), since, size, return_when == _FIRST_COMPLETED)
            return result

        return wait

    def make_as_completed(original):
        def as_completed(fs, timeout=None):
            found = original(fs, timeout)
            return each(found, size_of(fs, timeout)) if own() else found

        return as_completed

    def each(found, size):
        """Like the original, keep no reference to futures that were already yielded."""
        while True:
            since = monotonic_ns()
            try:
                latest = [next(found)]
            except StopIteration:
                return
            waits.over(latest, since, size)
            yield latest.pop()

    on_class(base, "wait", make_wait)
    on_coroutine(base, "as_completed", make_as_completed)  # a generator, like the original


def _pending(futures) -> list:
    """The futures that are not done; none of an iterator, which can be read only once. Other threads may change the
    collection.
    """
    try:
        return [one for one in list(futures) if not one.done()] if len(futures) else []
    except Exception:  # let the original report the wrong arguments
        return []


def install_wait(agent, tasks) -> None:
    """Hook `wait` of `asyncio.tasks`. The result of `gather` is awaited like any future (see `async_waits`)."""
    waits, futures, size_of = MultiWait(agent), Subject("futures"), limit(0)

    def begun(stack, fs, timeout, return_when, *args):
        return waits.until_done(fs, size_of(fs, timeout), return_when == _FIRST_COMPLETED, stack)

    behind = own_behind(agent, "asyncio")  # `wait` warns its caller by frame: no frame of the agent may be there
    made = observed_coroutine(agent, "future.wait", lambda *args, **options: futures, size_of, is_own=behind, begun=begun)
    on_coroutine(tasks, "_wait", made)


def install_groups(agent, taskgroups) -> None:
    """Hook `asyncio.taskgroups`: leaving a group means waiting for its tasks."""
    waits, group = MultiWait(agent), Subject("taskgroup")

    def begun(stack, owner, *args):
        return waits.until_done(tuple(owner._tasks), stack=stack)

    made = observed_coroutine(agent, "future.wait", lambda *args, **options: group, begun=begun)
    on_coroutine(taskgroups.TaskGroup, "__aexit__", made)
