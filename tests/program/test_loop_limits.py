"""Loops around waits, and what limits them."""

from __future__ import annotations

from pathlib import Path

import pytest
from asked_sources import Asked, sites_of
from tables import for_each

from undermine.program import Program
from undermine.program.dependence import Dependence, Loop, LoopLimit, Unknown

ROOT = Path(__file__).resolve().parents[2]
HEAD = """
import asyncio, itertools, time
from datetime import datetime
from time import monotonic as now

class Waiter:
    limit = 5
"""


def asked(body: str) -> Asked:
    lines = body.strip("\n").splitlines()
    return Asked(HEAD + "\n".join(f"    {line}" for line in lines) + "\n")


def limit_of(body: str, *calls: str) -> LoopLimit | None:
    it = asked(body)
    found = it.dependence.loop_limit(it.stack(*(calls or ("time.sleep(1)",))))
    assert not isinstance(found, Unknown)
    return found


ENDLESS = [
    """
def f(self):
    while not self.ready:
        time.sleep(1)
""",
    """
def f(self):
    while True:
        if self.ready():
            return
        time.sleep(1)
""",
    """
def f(self):
    started = time.monotonic()
    while not self.ready:
        if time.monotonic() - started > self.limit:
            print("still waiting")
        time.sleep(1)
""",
    """
def f(self):
    started = time.monotonic()
    while not self.ready:
        time.sleep(1)
    if time.monotonic() - started > self.limit:
        raise TimeoutError
""",
    """
def f(self):
    while not self.ready:
        self.reply = self.ask(time.time())
        if self.reply == "yes":
            break
        time.sleep(1)
""",
    """
def f(self):
    total = 0
    while total < 100:
        total += self.received()
        time.sleep(1)
""",
    """
def f(self):
    for number in itertools.count():
        if self.ready():
            break
        time.sleep(1)
""",
    """
def f(self):
    failures = 0
    while not self.ready():
        failures += 1
        if self.answers():
            failures = 0
        if failures > 3:
            raise TimeoutError
        time.sleep(1)
""",
    """
def f(self, deadline):
    while not self.ready:
        try:
            if time.monotonic() > deadline:
                raise TimeoutError
            self.connect()
        except OSError:
            time.sleep(1)
""",
]


@for_each("body", ENDLESS)
def test_a_polling_loop_without_a_limit(body: str) -> None:
    assert limit_of(body) is None
    it = asked(body)
    loop = it.dependence.in_loop(it.stack("time.sleep(1)"))
    assert isinstance(loop, Loop)
    assert loop.has_exit
    assert loop.depth == 0


CLOCKED = [
    """
def f(self):
    give_up = time.monotonic() + self.limit
    while not self.ready and time.monotonic() < give_up:
        time.sleep(1)
""",
    """
def f(self):
    started = now()
    while not self.ready:
        if now() - started > self.limit:
            raise TimeoutError
        time.sleep(1)
""",
    """
def f(self):
    deadline = datetime.now() + self.limit
    while True:
        late = datetime.now() > deadline
        if late or self.ready:
            break
        time.sleep(1)
""",
    """
def f(self, timeout):
    while timeout > 0 and not self.ready:
        begun = time.perf_counter()
        time.sleep(1)
        timeout -= time.perf_counter() - begun
""",
    """
def f(self, deadline):
    expired = False
    while not expired:
        if time.time() > deadline:
            expired = True
        time.sleep(1)
""",
    """
def f(self, loop, deadline):
    while not self.ready:
        assert loop.time() < deadline
        time.sleep(1)
""",
    """
def expired(self):
    return time.monotonic() > self.limit

def f(self):
    while not self.ready:
        if self.expired():
            return
        time.sleep(1)
""",
    """
def check(self):
    if time.monotonic() > self.limit:
        raise TimeoutError

def f(self):
    while not self.ready:
        self.check()
        time.sleep(1)
""",
    """
def late(self, spent):
    return spent > self.limit

def f(self):
    started = time.monotonic()
    while not self.ready:
        if self.late(time.monotonic() - started):
            return
        time.sleep(1)
""",
    """
def f(self, peers):
    started = time.monotonic()
    while not self.ready and time.monotonic() - started < self.limit:
        for peer in peers:
            time.sleep(1)
""",
    """
def f(self, deadline):
    while True:
        try:
            if time.monotonic() > deadline:
                raise RuntimeError
            self.connect()
            return
        except OSError:
            time.sleep(1)
""",
    """
def f(self, deadline):
    while not self.ready:
        with self.lock:
            if time.monotonic() > deadline:
                return
        time.sleep(1)
""",
]


@for_each("body", CLOCKED)
def test_a_clock_limits_a_loop(body: str) -> None:
    limit = limit_of(body)
    assert limit is not None
    assert (limit.kind, limit.when) == ("clock", "")
    assert limit.reads
    assert limit.lines


COUNTED = [
    """
def f(self):
    for _ in range(10):
        if self.ready:
            return
        time.sleep(1)
""",
    """
def f(self):
    attempt = 0
    while attempt < 5:
        attempt += 1
        time.sleep(1)
""",
    """
def f(self, retries):
    while not self.ready:
        if not retries:
            raise TimeoutError
        retries -= 1
        time.sleep(1)
""",
    """
def f(self, peers):
    for peer in peers:
        time.sleep(1)
""",
    """
def f(self):
    while not self.ready:
        self.tries = self.tries + 1
        if self.tries > 3:
            break
        time.sleep(1)
""",
]


@for_each("body", COUNTED)
def test_a_number_of_rounds_limits_a_loop(body: str) -> None:
    limit = limit_of(body)
    assert limit is not None
    assert (limit.kind, limit.when) == ("count", "")


@for_each(
    ("body", "kind", "when"),
    [
        (
            """
def f(self, deadline):
    while not self.ready:
        if deadline is not None:
            if time.monotonic() > deadline:
                raise TimeoutError
        time.sleep(1)
""",
            "clock",
            "deadline is not None",
        ),
        (
            """
def f(self, deadline):
    while not self.ready:
        if self.connected() and time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(1)
""",
            "clock",
            "self.connected()",
        ),
        (
            """
def f(self, deadline):
    while not self.ready and (deadline is None or time.monotonic() < deadline):
        time.sleep(1)
""",
            "clock",
            "not (deadline is None)",
        ),
        (
            """
def f(self, deadline):
    while True:
        try:
            self.connect()
            if time.monotonic() > deadline:
                raise RuntimeError("late")
        except OSError:
            time.sleep(1)
""",
            "clock",
            "no exception is raised before it",
        ),
        (
            """
def f(self):
    failed = 0
    while not self.ready:
        if self.fails():
            failed += 1
        if failed > 3:
            return
        time.sleep(1)
""",
            "count",
            "self.fails()",
        ),
    ],
)
def test_a_limit_that_not_every_round_checks_names_its_condition(body: str, kind: str, when: str) -> None:
    limit = limit_of(body)
    assert limit is not None
    assert (limit.kind, limit.when) == (kind, when)


def test_the_loop_may_be_in_a_caller() -> None:
    it = asked("""
def pause(self):
    time.sleep(1)

def f(self, deadline):
    while not self.ready and time.monotonic() < deadline:
        self.pause()

def g(self):
    while not self.ready:
        self.f(1)
""")
    stack = it.stack("time.sleep(1)", "self.pause()", "self.f(1)")
    limit, loop = it.dependence.loop_limit(stack), it.dependence.in_loop(stack)
    assert isinstance(limit, LoopLimit)
    assert limit.kind == "clock"
    assert limit.loop.depth == 1
    assert isinstance(loop, Loop)
    assert loop.condition == "not self.ready and time.monotonic() < deadline"
    assert it.dependence.loop_limit(it.stack("self.f(1)")) is None, "the limit is that of the inner loop"


def test_a_wait_that_is_the_test_or_the_source_of_a_loop_is_inside_it() -> None:
    it = asked("""
def f(self, stop):
    while not stop.wait(1):
        pass

async def g(self, queue):
    async for item in queue:
        print(item)

async def h(self, future):
    while not self.ready:
        await future
""")
    for call in ("stop.wait(1)", "queue", "await future"):
        loop = it.dependence.in_loop(it.stack(call))
        assert isinstance(loop, Loop), call


def test_code_that_is_not_repeated_is_in_no_loop() -> None:
    it = asked("""
def f(self, items):
    for item in [self.first(1)]:
        pass
    else:
        self.last(2)
    while not self.ready:
        return self.leave(3)
    [each for each in [self.source(4)]]
""")
    for call in ("self.first(1)", "self.last(2)", "self.leave(3)", "self.source(4)"):
        assert it.dependence.in_loop(it.stack(call)) is None, call
        assert it.dependence.loop_limit(it.stack(call)) is None, call


def test_a_comprehension_is_a_part_of_its_function() -> None:
    it = asked("""
def f(self, tasks):
    while not self.ready:
        [task.join(1) for task in tasks]
""")
    stack = it.stack("task.join(1)")
    assert "<listcomp>" in stack[0]
    limit, loop = it.dependence.loop_limit(stack), it.dependence.in_loop(stack)
    assert limit is None, "the list is finite, the loop around it has no limit"
    assert isinstance(loop, Loop)
    assert loop.condition == "tasks"
    whole = (*stack, "m:Waiter.f#0")
    assert it.dependence.in_loop(whole) == loop


def test_the_main_loop_of_a_thread_has_no_exit() -> None:
    it = asked("""
def f(self):
    while True:
        self.serve()
        time.sleep(1)
""")
    loop = it.dependence.in_loop(it.stack("time.sleep(1)"))
    assert isinstance(loop, Loop)
    assert not loop.has_exit


def test_a_recursive_function_in_a_test_is_followed_only_so_far() -> None:
    body = """
def spent(self, since):
    left = self.spent(since)
    return left

def f(self):
    started = time.monotonic()
    while self.spent(started) < self.limit:
        time.sleep(1)
"""
    assert limit_of(body) is None


def test_a_recursive_function_that_raises_in_time_limits_a_loop() -> None:
    body = """
def check(self, parts):
    if time.monotonic() > self.limit:
        raise TimeoutError
    for part in parts:
        self.check(part)

def f(self):
    while True:
        self.check(self.parts)
        time.sleep(1)
"""
    found = limit_of(body)
    assert found is not None
    assert found.kind == "clock"


def test_missing_source_is_unknown_and_has_no_truth_value() -> None:
    it = asked("""
def f(self):
    time.sleep(1)
""")
    here = it.stack("time.sleep(1)")
    for stack in (("other:g#0",), (*here, "other:g#0"), ("m:Waiter.f#9",)):
        for found in (it.dependence.in_loop(stack), it.dependence.loop_limit(stack)):
            assert isinstance(found, Unknown), stack
            with pytest.raises(TypeError):
                bool(found)


# --- real programs


def test_granary_polls_without_a_limit_unless_its_fix_is_on() -> None:
    program = Program.read([ROOT / "examples" / "granary" / "granary"])
    dependence = Dependence(program)
    sleeps = sites_of(program, "Assigner._await_opened: time.sleep(POLL_S)")
    first, second = (dependence.loop_limit((loc,)) for loc in sleeps)
    assert isinstance(first, LoopLimit)
    assert isinstance(second, LoopLimit)
    assert (first.kind, first.when, first.where) == ("clock", "", "granary/assignment.py:168")
    assert (second.kind, second.when) == ("clock", "'open-watch' in self._fixes")
    assert second.reads == tuple(
        site for site in sites_of(program, "Assigner._await_opened: time.monotonic()") if site in second.reads
    )
    assert len(second.reads) == 1, "a run shows a clock reading there only if the fix is on"
    loop = dependence.in_loop(sites_of(program, "Jobs._schedule_forever: time.sleep(POLL_S)"))
    assert isinstance(loop, Loop)
    assert not loop.has_exit
