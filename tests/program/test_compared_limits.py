"""The limits that clock readings are compared with, and their values by the numbers that a run showed."""

from __future__ import annotations

import ast
import json
import textwrap

import pytest
from small_programs import facts
from tables import for_each

from undermine.analysis.exposure.compared_limits import ObservedNumbers
from undermine.model.columns import Columns
from undermine.program import Limit, Term
from undermine.program.arithmetic import evaluated
from undermine.testing import event

HEAD = """
import os, queue, time
from time import time as t
from datetime import datetime, timedelta
LIMIT = 12
def io():
    os.stat("x")  # IO
"""

LIMITS = {
    "a parameter": ("a = t(); io()\n    if t() - a > limit: ...", {"limit": 20}, [20]),
    "the limit on the left": ("a = t(); io()\n    if limit < t() - a: ...", {"limit": 20}, [20]),
    "a difference that is kept": ("a = t(); io(); b = t()\n    spent = b - a\n    if spent > limit: ...", {"limit": 3}, [3]),
    "an attribute": ("a = time.monotonic(); io()\n    while time.monotonic() - a < self.limit: ...", {"self.limit": 1.5}, [1.5]),
    "an item": ("a = t(); io()\n    if t() - a > self.c['t']: ...", {"self.c['t']": 9}, [9]),
    "a product": ("a = t(); io()\n    if t() - a > 2 * self.limit: ...", {"self.limit": 10}, [20]),
    "a constant": ("a = t(); io()\n    if t() - a > 7.5: ...", {}, [7.5]),
    "a constant of the module": ("a = t(); io()\n    if t() - a > LIMIT: ...", {}, [12]),
    "a constant that runs show to be another": ("a = t(); io()\n    if t() - a > LIMIT: ...", {"LIMIT": 2}, [2]),
    "a deadline": ("end = t() + limit; io()\n    while t() < end: ...", {"limit": 20}, [20]),
    "a deadline that is what is left": ("end = t() + limit; io()\n    q.get(timeout=end - t())", {"limit": 4}, [4]),
    "at least nothing is left": ("end = t() + limit; io()\n    q.get(timeout=max(0, end - t()))", {"limit": 4}, [4]),
    "a a and a deadline": ("a = t()\n    end = a + limit\n    io()\n    if t() >= end: ...", {"limit": 6}, [6]),
    "now plus something": ("a = t(); io()\n    if a + limit <= t(): ...", {"limit": 6}, [6]),
    "nanoseconds": ("a = time.time_ns(); io()\n    if time.time_ns() - a > limit: ...", {"limit": 5_000_000_000}, [5]),
    "milliseconds": ("a = t(); io()\n    if (t() - a) * 1000 > ms: ...", {"ms": 2500}, [2.5]),
    "a clock in milliseconds": ("a = int(t() * 1000); io()\n    if int(t() * 1000) - a > ms: ...", {"ms": 2500}, [2.5]),
    "a clock of its own": ("a = now_ms(); io()\n    if now_ms() - a > ms: ...", {"ms": 4000}, [4]),
    "dates": ("a = datetime.now(); io()\n    if datetime.now() - a > timedelta(minutes=1, seconds=2): ...", {}, [62]),
    "seconds of dates": ("a = datetime.now(); io()\n    if (datetime.now() - a).total_seconds() > 8: ...", {}, [8]),
    "a part of it is not known": ("a = t(); io()\n    if t() - a > self.limit + x: ...", {"self.limit": 10}, []),
    "nothing": ("a = t(); io()\n    if t() - a > 0: ...", {}, []),
    "longer than any run": ("a = t(); io()\n    if t() - a > 7 * 86400: ...", {}, []),
    "a first that counts": ("a = t(); io()\n    if t() - a > (limit or 5): ...", {"limit": 0}, [5]),
}  # fmt: skip


def known(text: str, numbers: dict[str, float], line: int = 0) -> list[float]:
    """The limits of the regions of the point on the line with the comment `# IO`."""
    text = textwrap.dedent(text)
    found = facts(text)
    (point,) = [point for point in found.points if point.op == "file.stat"]
    seen = ObservedNumbers()
    line = line or text[: text.index("def f")].count("\n") + 2
    at = {"loc": "m:f#0", "stack": ("m:f#0",), "line": line, "role": "server"}
    seen.add(Columns.of([event("numbers", resource=json.dumps(numbers), **at)]))
    limits = [limit for region in point.regions for limit in region.limits]
    return sorted({each.limit_s for limit in limits for each in seen.limits("server", limit, str)})


@for_each("case", LIMITS)
def test_the_limit_of_a_comparison_is_known_by_the_numbers_of_a_run(case: str) -> None:
    body, numbers, wanted = LIMITS[case]
    text = HEAD + "def now_ms():\n    return round(time.time() * 1000)\ndef f(self, limit, ms, x, q):\n    " + body + "\n"
    assert known(text, numbers) == pytest.approx(wanted)


def test_a_deadline_that_is_stored_has_the_limit_of_where_it_is_set() -> None:
    text = HEAD + """
class A:
    def begin(self):
        self.end = time.monotonic() + self.limit
        io()
    def check(self):
        if self.end < time.monotonic(): ...
def f(): ...
"""
    line = text.split("self.end")[0].count("\n") + 1
    assert known(text, {"self.limit": 20}, line) == [20]
    assert known(text, {"self.limit": 20}, line + 3) == [], "another function may have another `self`"


def test_a_private_limit_has_the_name_that_runs_show() -> None:
    text = HEAD + """
class _Store:
    def put(self):
        start = t()
        io()
        if t() - start > self.__limit: ...
def f(): ...
"""
    assert known(text, {"self._Store__limit": 20}, text[: text.index("start")].count("\n") + 1) == [20]


def test_limits_of_two_checks_of_one_time_are_both_known() -> None:
    text = HEAD + """
class A:
    def beat(self):
        self.seen = time.time()
        io()
    def slow(self):
        if time.time() - self.seen > 2: ...
    def dead(self):
        if time.time() - self.seen > 30: ...
def f(): ...
"""
    assert known(text, {}) == [2, 30]


@for_each("text", ["f(3)", "x[0]", "x.y()", "1 / 0", "'a'", "True", "x if y else z", "lambda: 1", "timedelta(x=1)", "max()"])
def test_other_expressions_have_no_value(text: str) -> None:
    assert evaluated(ast.parse(text, mode="eval").body, lambda _: None) is None


def test_numbers_of_a_target_may_be_anything() -> None:
    seen = ObservedNumbers()
    at = {"loc": "m:f#0", "stack": ("m:f#0",), "line": 5, "role": "server"}
    limits = [Limit("m.py:5", (Term(1.0, "m", (5, 5), name),)) for name in "abcdef"]
    for text in ("", "[]", "{", '{"a": "b", "c": true, "d": 1e400, "e": null}', "[" * 100_000):
        seen.add(Columns.of([event("numbers", resource=text, **at)]))
    assert not any(seen.limits("server", limit, str) for limit in limits)
    seen.add(Columns.of([event("numbers", resource='{"f": 3}', **at)]))
    assert [limit.terms[0].text for limit in limits if seen.limits("server", limit, str)] == ["f"], "a number counts"
