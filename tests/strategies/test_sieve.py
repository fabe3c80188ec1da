"""One slow operation where it hurts most: which operations, in which contexts, for how long."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest
from tables import for_each
from traced_runs import Trace, delay_of, places, ran, told

from undermine.analysis.exposure.exposure import Spot
from undermine.inject.compile import compile_steps
from undermine.model.columns import Columns
from undermine.model.event import AgentInfo
from undermine.model.faults import Delay, Reboot
from undermine.model.plan import At, Plan, Step, Then, point_at
from undermine.model.predictions.candidate import Evidence, plan_of
from undermine.program import Compiled, Counts, Facts, analyse
from undermine.protocols import History, PastRun, TargetProgram
from undermine.strategies.observed_weak_spots import OVER
from undermine.strategies.sieve import UNDER, Sieve


@pytest.fixture
def trace() -> Trace:
    found = Trace()
    found.locked("file.fsync", "save", "put")
    found.limited("net.recv", "ask", "call", limit_s=0.4)
    found.did("file.read", "load", "start")
    return found


def test_what_is_synchronized_is_delayed_for_long_and_what_has_a_limit_for_longer_than_it(trace: Trace) -> None:
    plans = list(propose(Sieve(), told(trace)))
    assert sorted(places(plans)) == [("app:ask#1", pytest.approx(0.4 * OVER)), ("app:save#1", 300.0)]
    assert all(isinstance(plan.steps[0].trigger, Then) for plan in plans), "not while nodes start"
    by_place = {place: plan.why for (place, _), plan in zip(places(plans), plans, strict=True)}
    assert "lock taken at app:put#1" in by_place["app:save#1"]
    assert "limit of 0.4 s" in by_place["app:ask#1"]


def test_a_point_that_is_both_is_explored_once_as_each() -> None:
    trace = Trace()
    trace.did("lock.acquire", "put", resource="lock@1", result=1)
    trace.limited("net.send", "push", "put", limit_s=2.0)
    trace.did("lock.release", "put", resource="lock@1")
    plans = list(propose(Sieve(), told(trace)))
    assert sorted(places(plans)) == [("app:push#1", 3.0), ("app:push#1", 300.0)]
    assert list(propose(Sieve(), told(trace, ran(plans)))) == []


def test_each_context_is_explored_once_and_new_ones_are_when_they_are_met(trace: Trace) -> None:
    strategy = Sieve()
    first = list(propose(strategy, told(trace)))
    later = Trace()
    later.locked("file.fsync", "save", "put")
    later.locked("file.fsync", "save", "recover")
    second = list(propose(strategy, told(trace, ran(first), later)))
    assert places(second) == [("app:save#1", 300.0)]
    assert point_at(second[0].steps[0].trigger) == Spot.of(later.points[1]).point
    assert list(propose(strategy, told(trace, ran([*first, *second]), later))) == []


def test_what_only_a_slow_operation_leads_to_is_for_a_second_delay() -> None:
    trace, slow = Trace(), Trace()
    for one in (trace, slow):
        one.locked("file.fsync", "save", "put")
    slow.locked("file.fsync", "early", "by_chance")
    slow.did("lock.acquire", "put", resource="lock@1", result=1)
    moment = slow.did("file.fsync", "save", "put", end_ns=10**12).t_ns
    slow.locked("file.write", "repair", "recover")
    (first,) = propose(Sieve(), told(trace))
    runs = ran([first])
    (second,) = propose(Sieve(), told(trace, runs, slow, moment))
    assert places([second]) == [("app:early#1", 300.0)]
    runs = ran([first, second])
    assert list(propose(Sieve(), told(trace, runs, slow, moment))) == []
    two = propose(Sieve(Sieve.Options(delays=2)), told(trace, runs, slow, moment))
    more = {point_at(plan.steps[1].trigger).get("loc") for plan in two}
    assert "app:repair#1" in more


def test_equal_histories_give_equal_proposals(trace: Trace) -> None:
    assert list(propose(Sieve(), told(trace))) == list(propose(Sieve(), told(trace)))


def test_a_delay_that_did_not_come_is_tried_from_the_start_on(trace: Trace) -> None:
    plans = list(propose(Sieve(), told(trace)))
    again = list(propose(Sieve(), told(trace, ran(plans, "not_fired"))))
    assert len(again) == 2
    assert all(isinstance(plan.steps[0].trigger, At) for plan in again)
    assert list(propose(Sieve(), told(trace, ran([*plans, *again], "not_fired")))) == []


def test_another_duration_where_only_the_logs_differ(trace: Trace) -> None:
    plans = list(propose(Sieve(), told(trace)))
    again = list(propose(Sieve(), told(trace, ran(plans, odd=True))))
    assert sorted(places(again)) == [("app:ask#1", pytest.approx(0.4 * UNDER, abs=0.001)), ("app:save#1", 5.0)]
    assert list(propose(Sieve(), told(trace, ran([*plans, *again], odd=True)))) == []
    assert list(propose(Sieve(), told(trace, ran(plans, odd=True, failed=True)))) == []


def test_the_lock_that_most_places_want_comes_first() -> None:
    trace = Trace()
    trace.did("lock.acquire", "alone", resource="lock@1", result=1)
    trace.did("file.fsync", "small", "alone")
    trace.did("lock.release", "alone", resource="lock@1")
    for place in ("one", "two", "three"):
        trace.did("lock.acquire", place, resource="lock@2", result=1)
        trace.did("file.write", f"in_{place}", place)
        trace.did("lock.release", place, resource="lock@2")
    first = [place for place, _ in places(list(propose(Sieve(), told(trace))))]
    assert first[-1] == "app:small#1"
    assert len(first) == 4


def test_the_last_of_a_block_that_can_be_delayed_stands_for_it(tmp_path: Path) -> None:
    """Nothing is delayed at a close: it must not hide what comes before it."""
    source = tmp_path / "app.py"
    source.write_text(
        "import os, threading\nLOCK = threading.Lock()\n"
        "def put(fd):\n    with LOCK:\n        os.write(fd, b'x')\n        os.fsync(fd)\n        os.close(fd)\n"
    )
    facts = analyse([source])
    trace = Trace()
    trace.did("lock.acquire", "put", resource="lock@1", result=1)
    for point in facts.points:
        trace.did(point.op, "put", line=point.line)
        trace.events[-1] = msgspec.structs.replace(trace.events[-1], loc=point.loc, stack=(point.loc,))
    trace.did("lock.release", "put", resource="lock@1")
    known = msgspec.structs.replace(told(trace), program=lambda folders: TargetProgram(facts))
    (plan,) = propose(Sieve(), known)
    assert point_at(plan.steps[0].trigger).get("op") == "file.fsync"


@pytest.mark.parametrize(("limit_s", "long_s", "wanted"), [(45.0, 60.0, 67.5), (0.0001, 300.0, 0.01), (2.0, 300.0, 3.0)])
def test_a_delay_crosses_its_limit_whatever_that_is(limit_s: float, long_s: float, wanted: float) -> None:
    trace = Trace()
    trace.limited("net.recv", "ask", "call", limit_s=limit_s)
    strategy = Sieve(Sieve.Options(long_s=long_s))
    plans = list(propose(strategy, told(trace)))
    assert places(plans) == [("app:ask#1", wanted)]
    assert list(propose(strategy, told(trace, ran(plans)))) == []


def test_a_delay_that_the_user_wants_as_long_as_the_long_one_ends_the_strategy_too(trace: Trace) -> None:
    strategy = Sieve(Sieve.Options(long_s=5.0))
    plans = list(propose(strategy, told(trace, delay_s=5.0)))
    again = list(propose(strategy, told(trace, ran(plans, odd=True), delay_s=5.0)))
    assert sorted(delay for _, delay in places(again)) == [pytest.approx(0.4 * UNDER, abs=0.001), 2.5]
    assert list(propose(strategy, told(trace, ran([*plans, *again], odd=True), delay_s=5.0))) == []


def test_the_user_is_told_what_is_not_known(trace: Trace) -> None:
    strategy = Sieve()
    propose(strategy, told(trace))
    said = " ".join(strategy.remarks())
    assert "the target's source was not found" in said
    assert "not observed in full" in said
    assert strategy.remarks() == []


def test_the_user_is_told_why_no_code_could_be_read(trace: Trace) -> None:
    strategy = Sieve()
    facts = Compiled(troubles=(("app.jar", "the analysis of the class files took more than 300 s"),)).facts()
    history = msgspec.structs.replace(told(trace), program=lambda _: TargetProgram(facts))
    propose(strategy, history)
    said = " ".join(strategy.remarks())
    assert "app.jar was left out: the analysis of the class files took more than 300 s" in said
    assert "not found" not in said


@for_each(
    ("agent", "runtime", "warned"),
    [
        ("python/1", f"cpython {platform.python_version()}", False),
        ("python/1", "cpython 3.6.1", True),
        ("python-fast/1", "cpython 3.6.1", True),
        ("jvm/1", "OpenJDK 17.0.1", False),
        ("", "cpython 3.6.1", False),
    ],
)
def test_the_user_is_told_if_nodes_run_another_release_of_python(agent: str, runtime: str, warned: bool) -> None:
    trace = Trace()
    trace.locked("file.fsync", "save", "put")
    process = AgentInfo("n1", 1, trace.events[0].pid, agent, runtime, 2)
    source = Facts(counts=Counts(files=1))
    strategy = Sieve()
    shown = msgspec.structs.replace(
        told(trace), columns=lambda _: Columns.of(trace.events, [process]), program=lambda _: TargetProgram(source)
    )
    propose(strategy, shown)
    assert ("another release of Python" in " ".join(strategy.remarks())) == warned


def test_another_fault_on_top_only_if_it_is_wanted(trace: Trace) -> None:
    plans = list(propose(Sieve(), told(trace)))
    later = Trace()
    later.locked("file.write", "recover", "repair")
    done = told(trace, ran([*plans, *propose(Sieve(), told(trace, ran(plans), later))]), later)
    assert list(propose(Sieve(), done)) == []
    two = list(propose(Sieve(Sieve.Options(delays=2)), done))
    assert two
    assert all(len(plan.steps) == 2 and isinstance(plan.steps[1].fault, Delay) for plan in two)
    assert point_at(two[0].steps[1].trigger).get("loc") == "app:recover#1", "what no fault-free run shows comes first"
    crashes = list(propose(Sieve(Sieve.Options(crash=True)), done))
    assert crashes
    assert all(isinstance(plan.steps[1].fault, Reboot) for plan in crashes)


def propose(strategy: Sieve, history: History) -> list[Plan]:
    return [plan_of(each) for each in strategy.propose(history)]


def modes(mode: str, trace: Trace, runs: Sequence[PastRun] = ()) -> list[Plan]:
    return list(propose(Sieve(Sieve.Options(mode=mode)), told(trace, runs)))  # type: ignore[arg-type]


def test_comparison_whatever_led_there(trace: Trace) -> None:
    trace.locked("file.fsync", "save", "append")
    assert len(modes("sieve", trace)) == 3
    found = modes("insensitive", trace)
    assert sorted(places(found)) == [("app:ask#1", pytest.approx(0.6)), ("app:save#1", 300.0)]
    assert all(not point_at(plan.steps[0].trigger).get("stack") for plan in found)
    assert modes("insensitive", trace, ran(found)) == []


def test_steps_are_only_for_nodes_of_the_role(trace: Trace) -> None:
    plan = Plan((Step(At(Spot.of(trace.points[0]).point), Delay()),))
    assert compile_steps(plan, "n1", {}, "server")
    assert not compile_steps(plan, "n1", {}, "worker")


def compared(tmp_path: Path, numbers: dict[str, float], body: str) -> Callable[..., History]:
    """The history of a program that writes a file between two clock reads, and of the numbers that a run showed there."""
    source = tmp_path / "app.py"
    source.write_text(f"import os, time\ndef put(fd, conf):\n    begun = time.time()\n    os.fsync(fd)\n    {body}\n")
    facts = analyse([source])
    (point,) = facts.points
    trace = Trace()
    trace.did(point.op, "put", line=point.line)
    trace.events[-1] = msgspec.structs.replace(trace.events[-1], loc=point.loc, stack=(point.loc,))
    trace.did("numbers", "put", line=3)
    trace.events[-1] = msgspec.structs.replace(trace.events[-1], resource=json.dumps(numbers))

    def after(*runs: PastRun) -> History:
        return msgspec.structs.replace(told(trace, runs), program=lambda folders: TargetProgram(facts))

    return after


def test_a_limit_that_is_compared_with_a_clock_is_exceeded_by_half(tmp_path: Path) -> None:
    after = compared(tmp_path, {"conf.limit": 20}, "if time.time() - begun > conf.limit: raise TimeoutError")
    (plan,) = propose(Sieve(), after())
    assert delay_of(plan) == 30
    ((reason,),) = [candidate.reasons for candidate in Sieve().propose(after())]
    assert reason.evidence[-1] == Evidence("limit", "runs compared a clock with 20 s", "app:put line 5")
    assert "timeout: between two clock readings" in plan.why
    assert "runs compared a clock with 20 s at app:put line 5" in plan.why
    assert list(propose(Sieve(), after(*ran([plan])))) == []


def test_a_limit_that_no_run_showed_leads_to_the_delay_of_the_user(tmp_path: Path) -> None:
    body = "if time.time() - begun > conf.limit: raise TimeoutError"
    (plan,) = propose(Sieve(), compared(tmp_path, {"conf.other": 20}, body)())
    assert delay_of(plan) == 5
    (again,) = propose(Sieve(), compared(tmp_path, {"conf.limit": 20}, body)(*ran([plan])))
    assert delay_of(again) == 30, "a run has shown it since"
    assert list(propose(Sieve(), compared(tmp_path, {"conf.limit": 4}, body)(*ran([plan])))) == [], "5 s exceed it"


def test_the_shortest_and_the_longest_limit_are_exceeded(tmp_path: Path) -> None:
    body = "\n    ".join(f"if time.time() - begun > conf.{name}: print()" for name in ("a", "b", "c"))
    after = compared(tmp_path, {"conf.a": 1, "conf.b": 2, "conf.c": 20}, body)
    plans = list(propose(Sieve(), after()))
    assert list(map(delay_of, plans)) == [1.5, 30]
    assert [delay_of(plan) for plan in propose(Sieve(), after(*ran(plans[:1])))] == [30]
    assert list(propose(Sieve(), after(*ran(plans)))) == []
    near = compared(tmp_path, {"conf.a": 10, "conf.b": 15, "conf.c": 20}, body)
    assert [delay_of(plan) for plan in propose(Sieve(), near())] == [30], "one delay exceeds both"
