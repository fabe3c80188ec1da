"""The numbers around a clock read: found in frames, objects and dictionaries, without running the target's code."""

from __future__ import annotations

import json
from typing import Any

from fake_tool import minor_of

PROGRAM = """
    import collections, datetime, time

    LIMIT = 7

    class Base:
        grace = 2

    class Slots:
        __slots__ = ("limit", "empty")

    class Guarded:
        def __getattribute__(self, name):
            raise SystemExit("the target's code ran")

    class Server(Base):
        def __init__(self):
            self.limit = 20.5
            self.conf = {"timeout": 30}
            self.span = datetime.timedelta(minutes=1, milliseconds=500)
            self.slots = Slots()
            self.slots.limit = 4
            self.named = collections.namedtuple("Named", "limit")(9)
            self.guarded = Guarded()
            self.text, self.flag, self.__hidden = "5", True, 6

        @property
        def computed(self):
            raise SystemExit("the target's code ran")

        def check(self, given, cell):
            start = time.monotonic()
            def unused():
                return cell
            if start < 0:
                return (self.limit * given, self.conf["timeout"], self.span, self.slots.limit, self.slots.empty,
                        self.named.limit, self.grace, Server.grace, self.computed, self.guarded.limit, LIMIT,
                        datetime.MAXYEAR, self.text, self.flag, self.__hidden, later, cell)
            later = 1
            return time.monotonic() - start

    Server().check(3, 8)
"""


def numbers(outcome: Any, function: str) -> list[dict[str, float]]:
    return [json.loads(e.resource) for e in outcome.of("numbers") if e.loc.split("#")[0].endswith(function)]


def test_numbers_that_the_code_uses_are_recorded_where_it_reads_a_clock(tool: Any, any_python: str) -> None:
    tool.python = any_python
    first, second = numbers(tool.run(PROGRAM).ok(), "check")
    assert first == {
        "given": 3, "cell": 8, "LIMIT": 7, "datetime.MAXYEAR": 9999, "self.limit": 20.5, "self.conf['timeout']": 30,
        "self.span": 60.5, "self.slots.limit": 4, "self.named.limit": 9, "self.grace": 2, "Server.grace": 2,
        "self._Server__hidden": 6,
    }  # fmt: skip
    assert {name: second[name] for name in first} == first
    assert set(second) - set(first) == {"start", "later"}


CLOCK_OF_ITS_OWN = """
    import time

    def now():
        return time.time()

    def check(limit):
        begun = now()
        return now() - begun > limit

    for _ in range(100):
        check(20)
"""


def test_a_program_may_have_a_clock_of_its_own(tool: Any) -> None:
    outcome = tool.run(CLOCK_OF_ITS_OWN).ok()
    found = numbers(outcome, "check")
    assert {each["limit"] for each in found} == {20}
    assert len(found) == 2 * 7, "at each place the 1st, 2nd, 4th … 64th time"
    assert {e.line for e in outcome.of("numbers") if "check" in e.loc} == {8, 9}
    assert all(e.t_ns == e.end_ns for e in outcome.of("numbers"))


def test_numbers_are_recorded_only_if_clocks_are(tool: Any) -> None:
    tool.more_config = {"observe": ["sync"]}
    assert tool.run(CLOCK_OF_ITS_OWN).ok().of("numbers", "clock") == []


UNCHANGED = """
    import sys, time

    class Thing:
        def __init__(self, name):
            self.name = name
        def __del__(self):
            print("gone", self.name)

    def lets_go():
        thing = Thing("a")
        limit = 5
        begun = time.time()
        del thing
        print("let go", limit)
        other = Thing("b")
        time.time()
        other = None
        print("again", time.time() - begun > limit)

    def uses_locals():
        limit = 5
        mine = locals()
        time.time()
        print(sorted(mine), limit)

    def traced():
        limit = 5
        sys.settrace(lambda *args: None)
        time.time()
        sys.settrace(None)
        print(limit)

    class Body:
        limit = 3
        begun = time.time() + limit

    def generator():
        limit = 7
        while limit:
            yield time.time() > limit
            limit -= 1

    lets_go()
    uses_locals()
    traced()
    print(sorted(name for name in vars(Body) if name[0] != "_"), list(generator()))
"""


def test_the_target_keeps_its_variables_and_lets_go_of_objects_as_before(tool: Any, any_python: str) -> None:
    tool.python = any_python
    outcome = tool.run(UNCHANGED).ok()
    assert outcome.out.splitlines() == [
        "gone a", "let go 5", "gone b", "again False", "['limit'] 5", "5",
        "['begun', 'limit'] [True, True, True, True, True, True, True]",
    ]  # fmt: skip
    assert numbers(outcome, "lets_go")[0] == {"limit": 5}
    assert numbers(outcome, "Body")[0]["limit"] == 3
    assert numbers(outcome, "generator")[0] == {"limit": 7}
    if minor_of(any_python) < 13:  # the agent would have to change what the target got from `locals()`
        assert numbers(outcome, "uses_locals") == []
