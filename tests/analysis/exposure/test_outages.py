"""The duration of long outages, from the time limits that fault-free runs show."""

from __future__ import annotations

import json

import pytest
from hand_made import Trace

from undermine.analysis.exposure.outages import TimeLimit, long_outage, time_limits
from undermine.model.columns import Columns
from undermine.program import Facts, Limit, Region, Term
from undermine.protocols import TargetProgram, no_program

SECOND = 10**9


def limits_of(trace: Trace, program: TargetProgram | None = None) -> list[tuple[float, str]]:
    found = time_limits([Columns.of(trace.events)], program or no_program())
    return [(limit.limit_s, limit.by) for limit in found]


def command(trace: Trace, name: str, *values: str, node: str = "n1") -> None:
    text = json.dumps({"store": "db", "kind": "redis", "do": [[name, ["key"], list(values)]]}, separators=(",", ":"))
    trace.did("db.write", "beat", node=node, target=f"{name} key peer:db", resource=text)


def test_waits_sockets_and_scopes_have_limits() -> None:
    trace = Trace()
    trace.did("cond.wait", "wait", size=2 * SECOND)
    trace.did("timeout", "connect", target="socket", size=5 * SECOND)
    trace.did("file.write", "write", size=7 * SECOND)
    assert limits_of(trace) == [(2.0, "cond.wait at app:wait#1"), (5.0, "timeout at app:connect#1")]


def test_limits_of_clients_waits_that_return_at_once_and_limits_of_hours_do_not_count() -> None:
    trace = Trace()
    trace.did("cond.wait", "wait", size=2 * SECOND, node="client")
    trace.did("cond.wait", "poll", size=1)
    trace.did("cond.wait", "ever", size=10_000 * SECOND)
    command(trace, "EXPIRE", "9", node="client")
    assert limits_of(trace) == []


def test_the_longest_limit_of_a_place_counts() -> None:
    """A wait that is repeated for the rest of its time has many limits."""
    trace = Trace()
    for size in (800, 300, 797):
        trace.did("cond.wait", "wait", size=size * SECOND // 1000)
    assert limits_of(trace) == [(0.8, "cond.wait at app:wait#1")]


@pytest.mark.parametrize(
    ("name", "values", "lives_s"),
    [
        ("EXPIRE", ("76",), 76.0),
        ("PEXPIRE", ("1500",), 1.5),
        ("SETEX", ("30", "data"), 30.0),
        ("PSETEX", ("500", "data"), 0.5),
        ("SET", ("data", "NX", "EX", "9"), 9.0),
        ("SET", ("data", "px", "2500"), 2.5),
        ("SET", ("EX", "9"), None),
        ("SET", ("data",), None),
        ("EXPIRE", ("9e99",), None),
        ("EXPIRE", (), None),
        ("SET", ("data", "EX"), None),
        ("LPUSH", ("9",), None),
    ],
)
def test_lifetimes_of_keys_are_limits(name: str, values: tuple[str, ...], lives_s: float | None) -> None:
    trace = Trace()
    command(trace, name, *values)
    assert limits_of(trace) == ([(lives_s, f"{name} at app:beat#1")] if lives_s else [])


def test_numbers_that_the_source_compares_a_clock_with_are_limits() -> None:
    trace = Trace()
    trace.did("file.write", "write")
    limit = Limit("app.py:7", (Term(1.0, "app", (1, 9), "dead_after", 4.0),))
    program = TargetProgram(Facts(sites={"app:watch": (Region("timeout", "app.py:7", "too old", limits=(limit,)),)}))
    assert limits_of(trace, program) == [(4.0, "a comparison with a clock at app.py:7")]


SHORT, LONG = TimeLimit(1.0, "a"), TimeLimit(60.0, "b")


def test_the_outage_exceeds_the_longest_limit_that_fits_and_names_the_others() -> None:
    found = long_outage([LONG, SHORT], most_s=10.0, default_s=5.0)
    assert (found.seconds, found.why, found.cut) == (1.5, "longer than 1 s (a)", "no outage exceeds 60 s (b)")


def test_a_limit_near_the_maximum_is_exceeded_by_less() -> None:
    assert long_outage([TimeLimit(5.0, "a")], most_s=6.3, default_s=5.0).seconds == 6.3
    beyond = long_outage([TimeLimit(6.0, "a")], most_s=6.3, default_s=5.0)
    assert (beyond.seconds, beyond.cut) == (6.3, "no outage exceeds 6 s (a)")


def test_without_a_limit_the_default_holds_and_the_maximum_too() -> None:
    assert long_outage([], most_s=10.0, default_s=5.0).seconds == 5.0
    assert long_outage([], most_s=2.0, default_s=5.0).seconds == 2.0


def test_an_outage_takes_a_second_at_least() -> None:
    assert long_outage([TimeLimit(0.1, "a")], most_s=10.0, default_s=5.0).seconds == 1.0


def test_only_some_of_many_limits_are_named() -> None:
    many = [TimeLimit(60.0 + n, "x") for n in range(5)]
    assert long_outage(many, most_s=10.0, default_s=5.0).cut.endswith("and 2 more")
