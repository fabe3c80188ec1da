"""Waits for several futures at a time: each of those that are not done yet is waited for.

Whoever sets one of them has ended that wait. Where the first one is enough, the wait says so by its target.
"""

from __future__ import annotations

from time import monotonic_ns

from undermine_agent.names.subjects import Subject
from undermine_agent.patching.observe import by_address, limit, observed_coroutine, own_behind, own_caller
from undermine_agent.patching.patch import on_class, on_coroutine

FIRST = "first future"
"""The target of waits for several of which the first one to be done ends all."""
_FIRST_COMPLETED = "FIRST_COMPLETED"


class MultiWait:
    """Records waits, each from one future to the one who waits."""

    def __init__(self, agent):
        self.agent = agent
        self.operation = agent.operations["future.wait"]
        self.future = by_address("future")

    def over(self, futures, since, size=0, is_first=False, stack=None) -> None:
        """These were waited for from then on, and are done now."""
        for one in futures:
            subject = self.future(one)
            subject = Subject(FIRST, subject.resource) if is_first else subject
            call = self.agent.enter(self.operation, subject, size, since, stack)
            if call is not None:
                self.agent.leave(call)

    def until_done(self, futures, size=0, is_first=False, stack=None):
        """From now on these are waited for: a function to be called when that is over."""
        pending, since = [one for one in futures if not one.done()], monotonic_ns()

        def over(result):
            self.over([one for one in pending if one.done()], since, size, is_first, stack)

        return over


def install_threads(agent, base) -> None:
    """`concurrent.futures._base`: `wait` and `as_completed`."""
    several, own, operation = MultiWait(agent), own_caller(agent), agent.operations["future.wait"]
    size_of, futures = limit(0), Subject("futures")

    def make_wait(original):
        def wait(fs, timeout=None, return_when=base.ALL_COMPLETED):
            if not own():
                return original(fs, timeout, return_when)
            pending, size, since = _pending(fs), size_of(fs, timeout), monotonic_ns()
            result = agent.perform(operation, futures, size, None, original, fs, timeout, return_when)
            several.over(result.done.intersection(pending), since, size, return_when == _FIRST_COMPLETED)
            return result

        return wait

    def make_as_completed(original):
        def as_completed(fs, timeout=None):
            found = original(fs, timeout)
            return each(found, size_of(fs, timeout)) if own() else found

        return as_completed

    def each(found, size):
        """As the original, it keeps nothing of what it has given away."""
        while True:
            since = monotonic_ns()
            try:
                latest = [next(found)]
            except StopIteration:
                return
            several.over(latest, since, size)
            yield latest.pop()

    on_class(base, "wait", make_wait)
    on_coroutine(base, "as_completed", make_as_completed)  # as there, what stands for it is of the same kind


def _pending(futures) -> list:
    """Those that are not done; nothing of what can be asked only once. Others may change the collection meanwhile."""
    try:
        return [one for one in list(futures) if not one.done()] if len(futures) else []
    except Exception:  # the original says better what is wrong
        return []


def install_wait(agent, tasks) -> None:
    """`asyncio.tasks`: `wait`. What `gather` gives is awaited as any future is (see `async_sync`)."""
    several, futures, size_of = MultiWait(agent), Subject("futures"), limit(0)

    def begun(stack, fs, timeout, return_when, *args):
        return several.until_done(fs, size_of(fs, timeout), return_when == _FIRST_COMPLETED, stack)

    behind = own_behind(agent, "asyncio")  # `wait` itself warns its caller: no frame of ours may stand there
    made = observed_coroutine(agent, "future.wait", lambda *args, **options: futures, size_of, is_own=behind, begun=begun)
    on_coroutine(tasks, "_wait", made)


def install_groups(agent, taskgroups) -> None:
    """`asyncio.taskgroups`: who leaves a group waits for its tasks."""
    several, group = MultiWait(agent), Subject("taskgroup")

    def begun(stack, owner, *args):
        return several.until_done(tuple(owner._tasks), stack=stack)

    made = observed_coroutine(agent, "future.wait", lambda *args, **options: group, begun=begun)
    on_coroutine(taskgroups.TaskGroup, "__aexit__", made)
