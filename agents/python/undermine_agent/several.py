"""Waits for several futures at a time: each of those that are not done yet is waited for.

Whoever sets one of them has ended that wait. Where the first one is enough, the wait says so by its target.
"""

from __future__ import annotations

from time import monotonic_ns

from undermine_agent.names import Subject
from undermine_agent.observe import by_address, limit, observed_coroutine, own_behind, own_caller
from undermine_agent.patch import on_class, on_coroutine

FIRST = "first future"
"""The target of waits for several of which the first one to be done ends all."""
_FIRST_COMPLETED = "FIRST_COMPLETED"


class Several:
    """Records waits, each from one future to the one who waits."""

    def __init__(self, agent):
        self.agent = agent
        self.operation = agent.operations["future.wait"]
        self.future = by_address("future")

    def begin(self, futures, size=0, is_first=False, stack=None) -> None:
        """A task waits for these from now on: until its next step."""
        for one in futures:
            if not one.done():
                self._add(one, size, is_first, 0, stack)

    def over(self, futures, size, is_first, since) -> None:
        """A thread has waited for these until now."""
        for one in futures:
            self._add(one, size, is_first, since, None)

    def _add(self, one, size, is_first, since, stack) -> None:
        subject = self.future(one)
        call = self.agent.enter(self.operation, Subject(FIRST, subject.resource) if is_first else subject, size, since, stack)
        if call is not None:
            self.agent.leave(call)


def install_threads(agent, base) -> None:
    """`concurrent.futures._base`: `wait` and `as_completed`."""
    several, own, operation = Several(agent), own_caller(agent), agent.operations["future.wait"]
    size_of, futures = limit(0), Subject("futures")

    def make_wait(original):
        def wait(fs, timeout=None, return_when=base.ALL_COMPLETED):
            if not own():
                return original(fs, timeout, return_when)
            pending, size, since = _pending(fs), size_of(fs, timeout), monotonic_ns()
            result = agent.perform(operation, futures, size, None, original, fs, timeout, return_when)
            several.over(result.done.intersection(pending), size, return_when == _FIRST_COMPLETED, since)
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
            several.over(latest, size, False, since)
            yield latest.pop()

    on_class(base, "wait", make_wait)
    on_class(base, "as_completed", make_as_completed)


def _pending(futures) -> list:
    """Those that are not done; nothing of what can be asked only once."""
    try:
        return [one for one in futures if not one.done()] if len(futures) else []
    except (AttributeError, TypeError):
        return []


def install_wait(agent, tasks) -> None:
    """`asyncio.tasks`: `wait`. What `gather` gives is awaited as any future is (see `async_sync`)."""
    several, futures, size_of = Several(agent), Subject("futures"), limit(0)

    def begun(stack, fs, timeout, return_when, *args):
        several.begin(fs, size_of(fs, timeout), return_when == _FIRST_COMPLETED, stack)

    behind = own_behind(agent, "asyncio")  # `wait` itself warns its caller: no frame of ours may stand there
    made = observed_coroutine(agent, "future.wait", lambda *args, **options: futures, size_of, is_own=behind, begun=begun)
    on_coroutine(tasks, "_wait", made)


def install_groups(agent, taskgroups) -> None:
    """`asyncio.taskgroups`: who leaves a group waits for its tasks."""
    several, group = Several(agent), Subject("taskgroup")

    def begun(stack, owner, *args):
        several.begin(tuple(owner._tasks), stack=stack)

    made = observed_coroutine(agent, "future.wait", lambda *args, **options: group, begun=begun)
    on_coroutine(taskgroups.TaskGroup, "__aexit__", made)
