"""Hand-overs, waits, clocks and names of connections, as the JVM agent records them for a known program."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_tool import Outcome
from waiting import wait_until

from undermine.analysis.causality.blocking import BLOCKS
from undermine.analysis.causality.causality import causality
from undermine.analysis.exposure.exposure import exposures
from undermine.analysis.messages.pairing import pair
from undermine.analysis.pipeline import analyse
from undermine.model.codec import read_columns

FAMILIES = ["sync", "time", "handover", "process", "raw"]
_WAITS = (".wait", "queue.get")
LOOKS_LIKE_A_WAIT_NS = 20_000
"""Entering a free monitor takes longer if the thread gets no processor, for example. Then it is recorded like a wait."""
ALL = ["threads", "pool", "queues", "monitors", "notified", "locks", "times", "poll", "sendfile"]


@pytest.fixture
def program(causal: Callable[[Path], Any], tmp_path: Path) -> Any:
    return causal(tmp_path / "one")


def _of(outcome: Outcome, family: str, thread: str = "") -> list[str]:
    """Operation, target, size and result of the events, in order."""
    found = [e for e in outcome.trace if e.op.startswith(family) and (not thread or e.thread == thread)]
    return [f"{e.op} {e.target} {e.size} {e.result}" for e in found]


def _takers(outcome: Outcome) -> dict[str, list[str]]:
    """For each resource that was handed over: the operations of the taking thread, up to the end of the task."""
    found: dict[str, list[str]] = {}
    for take in outcome.of("handover.take"):
        inside = [
            e.target for e in outcome.of("file.stat")
            if e.thread == take.thread and take.t_ns <= e.t_ns <= (take.end_ns or e.t_ns)
        ]  # fmt: skip
        found.setdefault(take.resource, []).extend(inside)
    return found


def _given(outcome: Outcome) -> dict[str, str]:
    return {event.resource: event.loc for event in outcome.of("handover.give")}


def test_a_threads_operations_are_caused_by_its_start(program: Any) -> None:
    outcome = program.seen("threads")
    start, join, end = (outcome.of(op)[0] for op in ("thread.start", "join", "thread.end"))
    takes = outcome.of("handover.take")
    assert [take.resource for take in takes] == [start.resource]
    assert (takes[0].thread, join.resource, end.resource) == ("worker", start.resource, start.resource)
    assert start.t_ns < takes[0].t_ns <= outcome.of("file.stat")[0].t_ns
    assert join.result == 1


def test_threads_without_names_are_distinguished_and_end(program: Any) -> None:
    """Virtual threads behave like others. The JDK runs them in its own pool, which must not count as a hand-over."""
    outcome = program.seen("nameless")
    threads = {event.thread for event in outcome.of("file.stat")}
    assert len(threads) == 2
    assert threads <= {event.thread for event in outcome.of("thread.end")}
    joins = [(kind, op) for kind, op, _ in _blocking(program, "join")]
    assert joins == 2 * [("join", "thread.end")]
    assert outcome.of("handover.give") == []


def test_inherited_methods_are_observed(program: Any) -> None:
    outcome = program.seen("inherited")
    assert [event.resource for event in outcome.of("join")] == [outcome.of("thread.start")[0].resource]
    assert _of(outcome, "queue.") == ["queue.put queue 0 1", "queue.get queue 0 1"]
    assert len(outcome.of("handover.give")) == 1


def test_a_pool_runs_a_call_because_of_its_submitter(program: Any) -> None:
    outcome = program.seen("pool")
    given, takers = _given(outcome), _takers(outcome)
    done = {given[resource]: inside for resource, inside in takers.items() if resource in given}
    assert done == {":Causal.pool#2": ["executed"], ":Causal.pool#4": ["submitted"], ":Causal.pool#9": ["invoked"]}
    assert len(given) == 4
    waits, sets = outcome.of("future.wait"), outcome.of("future.set")
    assert {event.resource for event in sets} <= {event.resource for event in waits}


def test_each_execution_of_a_timer_is_caused_by_its_scheduling(program: Any) -> None:
    outcome = program.seen("timers")
    given, takers = _given(outcome), _takers(outcome)
    done = {given[resource]: inside for resource, inside in takers.items() if resource in given}
    assert set(done) == {":Causal.timers#2", ":Causal.timers#6", ":Causal.timers#14"}
    assert done[":Causal.timers#2"] == ["scheduled"]
    assert done[":Causal.timers#14"] == ["timed"]
    assert len(done[":Causal.timers#6"]) >= 2
    assert [event.thread for event in outcome.of("event.set")][-1] == "timer"


def test_callbacks_of_futures_are_caused_by_their_registration(program: Any) -> None:
    outcome = program.seen("futures")
    inside = [name for each in _takers(outcome).values() for name in each]
    assert {"supplied", "called-back", "forked"} <= set(inside)
    set_by = next(event for event in outcome.of("future.set") if event.thread == "completer")
    wait = next(event for event in outcome.of("future.wait") if event.resource == set_by.resource)
    assert wait.t_ns < set_by.t_ns < wait.end_ns


def test_stages_of_two_futures_are_caused_by_their_registration(program: Any) -> None:
    outcome = program.seen("stages")
    given, takers = _given(outcome), _takers(outcome)
    assert sorted(given.values()) == [":Causal.stages#3", ":Causal.stages#5"], "what only passes a result on is not given"
    assert {given[resource]: inside for resource, inside in takers.items()} == {
        ":Causal.stages#3": ["both"], ":Causal.stages#5": ["either"],
    }  # fmt: skip


def test_a_published_item_is_caused_by_its_publisher(program: Any) -> None:
    outcome = program.seen("published")
    gives = [e for e in outcome.of("handover.give") if e.target == "String"]
    assert len({e.loc for e in gives}) == 2
    inside = _takers(outcome)
    assert [inside[e.resource] for e in gives] == [["one"], ["two"]]


def test_a_refused_item_is_not_handed_over(program: Any) -> None:
    outcome = program.seen("refused")
    given = _given(outcome)
    taken = [(given[resource], inside) for resource, inside in _takers(outcome).items() if resource in given]
    places = [f":Causal.refused#{n}" for n in (4, 9, 11, 19)]
    assert taken == [*zip(places, (["full"], ["again"], ["same"], ["same"]), strict=True)]


def test_items_of_queues_are_followed(program: Any) -> None:
    outcome = program.seen("queues")
    gives, takes = outcome.of("handover.give"), outcome.of("handover.take")
    assert [e.loc for e in gives] == [f":Causal.queues#{n}" for n in (4, 5, 8, 12, 13)]
    items = [take for take in takes if take.target == "queue"]
    assert [e.resource for e in items] == [gives[n].resource for n in (0, 1, 2, 3)]  # the queue had no room for the last
    assert _of(outcome, "queue.put") == ["queue.put queue 0 1", *["queue.put queue 1 1"] * 3, "queue.put queue 1 0"]
    assert [e.size for e in outcome.of("queue.get")] == [0, 10_000_000_000, 1, 1]


def _blocking(program: Any, op: str) -> list[tuple[str, str, str]]:
    """The ends of waits of this kind: the kind of the edge, the operation that ended the wait, and its thread."""
    columns = read_columns(program.tool.trace_dir)
    edges = analyse(columns).blocking
    rows = zip(edges.kind.tolist(), edges.source.tolist(), edges.target.tolist(), strict=True)
    ops, threads = columns.op, columns.thread
    return [
        (BLOCKS[kind], columns.text(int(ops[source])), columns.text(int(threads[source])))
        for kind, source, target in rows
        if columns.text(int(ops[target])) == op
    ]


def test_items_of_deques_are_followed_also_with_time_limits(program: Any) -> None:
    outcome = program.seen("deques")
    gives, items = outcome.of("handover.give"), [e for e in outcome.of("handover.take") if e.target == "queue"]
    assert [e.resource for e in items] == [gives[n].resource for n in (0, 1, 2)]  # the others were not taken
    assert [e.size for e in outcome.of("queue.get")] == [10_000_000_000, 10_000_000_000, 1_000_000, 1]
    assert [(e.size, e.result) for e in outcome.of("queue.put")] == [
        (10_000_000_000, 1), (10_000_000_000, 1), (1, 1), (1_000_000, 0), (1_000_000, 0),
    ]  # fmt: skip
    assert _blocking(program, "queue.get")[0] == ("item", "queue.put", "main")


def test_invoking_calls_waits_for_each_of_them(program: Any) -> None:
    outcome = program.seen("invoked")
    waits, sets = outcome.of("future.wait"), outcome.of("future.set")
    assert {e.loc for e in waits} == {":Causal.invoked#4", ":Causal.invoked#7"}
    assert waits[-1].size > 1_000_000_000
    assert {e.resource for e in waits} == {e.resource for e in sets}
    ended = _blocking(program, "future.wait")
    assert {(kind, op) for kind, op, _ in ended} == {("result", "future.set")}
    assert len(ended) == len(waits)
    (won,) = [e for e in outcome.of("queue.get") if e.loc == ":Causal.invoked#10"]
    assert _blocking(program, "queue.get")[-1][:2] == ("item", "queue.put")
    taken = next(e for e in outcome.of("handover.take") if e.thread == "main" and e.t_ns >= won.end_ns)
    assert taken.resource in _given(outcome)


def test_a_completion_service_hands_over_finished_tasks(program: Any) -> None:
    outcome = program.seen("completed")
    assert [e.size for e in outcome.of("queue.get")] == [0, 10_000_000_000]
    assert [kind for kind, _, _ in _blocking(program, "queue.get")] == ["item", "item"]
    items = [e for e in outcome.of("handover.take") if e.target == "queue"]
    assert [e.thread for e in items] == ["main", "main"]
    givers = {e.resource: e.thread for e in outcome.of("handover.give")}
    assert all(givers[e.resource] != "main" for e in items)


def test_the_last_thread_of_a_pool_ends_the_wait_for_it(program: Any) -> None:
    outcome = program.seen("terminated")
    assert _of(outcome, "event.wait") == 2 * ["event.wait pool 10000000000 1"]
    ended = _blocking(program, "event.wait")
    assert [(kind, op) for kind, op, _ in ended] == 2 * [("set", "event.set")]
    assert all(thread != "main" for _, _, thread in ended)


def test_the_thread_that_ends_a_wait_for_a_forked_task_is_found(program: Any) -> None:
    outcome = program.seen("forked")
    waits, sets = outcome.of("future.wait"), outcome.of("future.set")
    assert [e.loc.partition("#")[0] for e in waits] == 2 * [":Causal.forked"]
    for wait in waits:
        first = next(e for e in sets if e.resource == wait.resource)
        assert first.thread != "main"
        assert wait.t_ns < first.t_ns < wait.end_ns
    assert [(kind, op) for kind, op, _ in _blocking(program, "future.wait")] == [("result", "future.set")]


def test_two_threads_that_exchange_items_wait_for_each_other(program: Any) -> None:
    outcome = program.seen("exchanged")
    assert [e.size for e in outcome.of("barrier.wait")] == [10_000_000_000, 0, 1_000_000]
    assert _blocking(program, "barrier.wait") == [("barrier", "barrier.wait", "other")]
    givers = {e.resource: e.thread for e in outcome.of("handover.give")}
    items = {e.thread: givers[e.resource] for e in outcome.of("handover.take") if e.target == "queue"}
    assert items == {"main": "other", "other": "main"}


def test_the_threads_that_end_waits_of_phasers_and_parked_threads_are_found(program: Any) -> None:
    outcome = program.seen("parked", "phased")
    assert {e.target for e in outcome.of("event.wait")} == {"permit"}
    assert _blocking(program, "event.wait")[0] == ("set", "event.set", "waker")
    assert len(outcome.of("event.set")) == 1
    assert _blocking(program, "barrier.wait") == [("barrier", "barrier.wait", "other")]
    assert sorted(e.size for e in outcome.of("barrier.wait")) == [0, 10_000_000_000]
    assert any(0 < e.size <= 5_000_000 for e in outcome.of("sleep"))  # until a time in the near future


def test_an_accept_has_the_time_limit_of_its_socket(program: Any) -> None:
    outcome = program.seen("accepting")
    (limit,) = outcome.of("timeout")
    assert (limit.target, limit.size) == ("accept", 20_000_000)
    first, _ = outcome.of("net.accept")
    assert limit.t_ns <= first.t_ns < first.end_ns <= limit.end_ns
    found = analyse(read_columns(program.tool.trace_dir))
    by = [int(found.deadline_of[row]) for row in found.columns.find("net.accept").tolist()]
    assert [row >= 0 for row in by] == [True, False]


def test_null_arguments_raise_the_same_exceptions_as_without_the_agent(program: Any) -> None:
    outcome = program.seen("nothing")
    assert [e.resource.rpartition("/")[2] for e in outcome.of("file.stat")] == ["23 of 23", "still"]
    (wait,) = outcome.of("future.wait")
    assert wait.error == ""


def test_monitors_are_entered_and_left(program: Any) -> None:
    outcome = program.seen("monitors")
    seen = [(e.op, e.resource.partition("@")[0], e.loc) for e in outcome.of("lock.acquire", "lock.release")]
    block, method = ":Causal.monitors#1", ":Causal.guarded#0"
    places = [block, method, method, block, method, method, method, method]
    places += [":Causal.Kept.kept#0"] * 2  # `counted` has no operations
    assert [loc for _, _, loc in seen] == places
    assert {kind for _, kind, _ in seen} == {"monitor"}
    assert [op for op, _, _ in seen].count("lock.release") == len(seen) / 2
    assert all(event.result == 1 for event in outcome.of("lock.acquire"))


def test_waits_for_monitors_and_notifications_are_linked(program: Any) -> None:
    outcome = program.seen("contended", "notified")
    wait = next(e for e in outcome.of("lock.acquire") if e.thread == "main")
    release = next(e for e in outcome.of("lock.release") if e.thread == "holder")
    assert wait.t_ns < release.t_ns < wait.end_ns
    assert wait.resource == release.resource
    waited, told = outcome.of("cond.wait")[0], outcome.of("cond.notify")[0]
    assert (waited.thread, told.thread, told.size) == ("main", "notifier", 0)
    assert waited.resource == told.resource
    assert waited.t_ns < told.t_ns < waited.end_ns


def test_an_idle_monitor_is_recorded_only_if_a_thread_waits_for_it(program: Any) -> None:
    outcome = program.seen("idle")
    seen = [e for e in outcome.of("lock.acquire", "lock.release") if "entered" not in e.loc]
    held = [e for e in seen if e.thread == "holder"]
    assert [e.op for e in held] == ["lock.acquire", "lock.release"]
    alone = [e for e in seen if e.thread == "main" and e.t_ns < held[0].end_ns]
    assert all(e.end_ns - e.t_ns > LOOKS_LIKE_A_WAIT_NS for e in alone if e.op == "lock.acquire")
    waited = [e for e in seen if e.thread == "main" and e not in alone]
    assert [e.op for e in waited] == ["lock.acquire", "lock.acquire", "lock.release", "lock.release"]
    assert waited[1].resource == held[0].resource
    assert waited[1].t_ns < held[1].t_ns < waited[1].end_ns
    edges = analyse(read_columns(program.tool.trace_dir)).blocking
    assert [BLOCKS[kind] for kind in edges.kind.tolist()].count("lock") == 1


def test_monitors_are_recorded_if_an_operation_happens_in_them(program: Any) -> None:
    outcome = program.seen("idle")
    inside = next(e for e in outcome.of("file.stat") if e.target == "deepest")
    taken = [e for e in outcome.of("lock.acquire") if ".entered#" in e.loc]
    assert [len(e.stack) for e in taken] == [3, 4, 5]  # one was entered again; of a recursive method the outermost count
    assert [e.stack[1:] for e in taken] == [inside.stack[-n:] for n in (2, 3, 4)]
    assert len({e.resource for e in taken}) == 3
    assert all(e.t_ns <= e.end_ns <= inside.t_ns for e in taken)


def test_a_monitor_that_is_never_left_is_recorded_when_the_tool_asks_for_stacks(program: Any) -> None:
    ready, go_on = program.tool.data / "ready", program.tool.data / "go-on"

    def ask() -> None:
        wait_until(ready.exists, what="the program is ready")
        program.tool.put(13, 1)
        wait_until(lambda: any(program.tool.trace_dir.glob("*.stacks")), what="the stacks are written")
        go_on.touch()

    asking = threading.Thread(target=ask)
    asking.start()
    outcome = program.seen("stuck")
    asking.join()
    (taken,) = outcome.of("lock.acquire")
    assert (taken.thread, taken.stack, taken.result) == ("stuck", (":Causal.stuck.<lambda>#1",), 1), "the place alone"
    assert outcome.of("lock.release") == []


def test_a_monitor_below_a_cut_stack_has_only_its_call_site(program: Any) -> None:
    outcome = program.seen("deep")
    (taken,) = outcome.of("lock.acquire")  # if it had waited, it would be recorded at once, with its whole stack
    assert taken.loc == ":Causal.deep#1"
    assert not any(".down#" in loc for loc in taken.stack)
    bottom = next(e for e in outcome.of("file.stat") if e.target == "bottom")
    assert len(bottom.stack) == 30


def test_many_threads_in_contended_monitors_keep_running(program: Any) -> None:
    """In JDK 25, virtual threads that wait for a monitor lose the stack values of woven code, and the JVM crashes."""
    program.tool.more_config["observe"] = FAMILIES
    outcome = program.run("crowded", options=()).ok()
    held: Counter[tuple[str, str]] = Counter()
    for each in outcome.of("lock.acquire", "lock.release"):
        held[each.thread, each.resource] += 1 if each.op == "lock.acquire" else -1
    assert outcome.of("lock.acquire")
    assert not +held


def test_entering_a_monitor_again_is_not_recorded(program: Any) -> None:
    outcome = program.seen("reentered")
    seen = outcome.of("lock.acquire", "lock.release", "cond.wait", "file.stat")
    mine = [(e.op, e.loc.partition(".")[2]) for e in seen if e.thread == "main"]
    ops = ["lock.acquire", "cond.wait", "file.stat", "lock.release"]
    assert [op for op, _ in mine] == ops
    assert [loc.partition("#")[0] for _, loc in mine] == ["reentered", "again", "mark", "reentered"]
    theirs = [e for e in seen if e.thread == "notifier"]
    held, waited = next(e for e in seen if e.op == "lock.release" and e.thread == "main"), outcome.of("cond.wait")[0]
    assert [e.op for e in theirs] == ["lock.acquire", "lock.release"]
    assert theirs[0].resource == held.resource
    assert waited.t_ns < theirs[0].end_ns <= theirs[1].t_ns < waited.end_ns < held.t_ns


def test_locks_semaphores_and_barriers_are_recorded(program: Any) -> None:
    outcome = program.seen("locks")
    assert _of(outcome, "lock.") == [
        "lock.acquire rlock 0 1", "lock.release rlock 0 1",  # the nested acquire is not recorded
        "lock.acquire rlock 1 1", "lock.release rlock 0 1", "lock.acquire readlock 0 1", "lock.release readlock 0 1",
        "lock.acquire rlock 0 1", "lock.release rlock 0 1",
    ]  # fmt: skip
    assert _of(outcome, "cond.") == ["cond.wait condition 1000000 0", "cond.notify condition 1 0"]
    assert _of(outcome, "sem.") == [
        "sem.acquire semaphore 0 1", "sem.acquire semaphore 1 0", "sem.release semaphore 0 1",
    ]  # fmt: skip
    assert _of(outcome, "barrier.") == ["barrier.wait barrier 0 0"]


def test_both_sides_of_a_lock_have_one_name_and_a_writer_blocks_readers(program: Any) -> None:
    outcome = program.seen("sides")
    stamped = {e.resource for e in outcome.of("lock.acquire") if e.target == "stamped"}
    sides = [e for e in outcome.of("lock.acquire", "lock.release") if e.resource not in stamped]
    assert {e.target for e in sides} == {"rlock", "readlock"}
    assert len({e.resource for e in sides}) == len(stamped) == 1
    assert _blocking(program, "lock.acquire") == [("lock", "lock.release", "main")]
    ways = [e for e in outcome.of("lock.acquire", "lock.release") if e.resource in stamped]
    assert [f"{e.op.removeprefix('lock.')} {e.target} {e.size} {e.result}" for e in ways] == [
        "acquire readlock 1 1", "acquire stamped 1 0", "acquire stamped 1000000 0", "release readlock 0 0",
        "acquire stamped 0 1", "release stamped 0 0", "acquire readlock 0 1", "release readlock 0 0",
        "acquire stamped 0 1", "release stamped 0 0",
    ]  # fmt: skip


def test_clocks_sleeps_and_time_limits_are_recorded(program: Any) -> None:
    outcome = program.seen("times")
    assert _of(outcome, "clock") == ["clock currentTimeMillis 0 0", "clock nanoTime 0 0", "clock Instant 0 0"]
    assert [event.size for event in outcome.of("sleep")] == [2_000_000, 3_000_000]
    limits = outcome.of("timeout")
    assert [(e.target, e.size) for e in limits] == [
        ("socket", 4_000_000), ("connect", 5_000_000_000), ("socket", 6_000_000), ("socket", 0),
    ]  # fmt: skip
    assert limits[0].resource == ""
    assert limits[2].resource == limits[3].resource == outcome.of("net.send")[0].resource


def test_limits_that_are_only_compared_with_clocks_are_recorded(program: Any) -> None:
    outcome = program.seen("limits")
    limits = [e for e in outcome.of("timeout") if e.target == "compared"]
    wanted = {
        "elapsed": 20, "turned": 19, "integers": 18, "converted": 17, "divided": 16, "deadline": 15, "left": 14, "assigned": 13,
        "looped": 12,
    }  # fmt: skip
    assert {(e.loc.partition("#")[0], e.size) for e in limits} == {(f":Causal.{name}", s * 10**9) for name, s in wanted.items()}
    assert Counter(e.loc.partition("#")[0] for e in limits) == {f":Causal.{name}": 3 for name in wanted}
    columns = read_columns(program.tool.trace_dir)
    limited = {
        columns.text(columns.target[row]): columns.size[by] / 1e9
        for row, by in enumerate(analyse(columns).deadline_of.tolist())
        if by >= 0 and columns.name(row) == "file.stat"
    }
    assert limited == wanted


def test_clock_reads_record_only_their_call_site_and_do_not_count_as_operations_in_a_monitor(program: Any) -> None:
    outcome = program.seen("clocks")
    assert [e.stack for e in outcome.of("clock")[:2]] == 2 * [(":Causal.looked#0",)]
    assert outcome.of("clock")[2].loc.startswith(":Causal.clocks")
    *idle, taken = outcome.of("lock.acquire")
    assert all(e.end_ns - e.t_ns > LOOKS_LIKE_A_WAIT_NS for e in idle)
    inside = next(e for e in outcome.of("file.stat") if e.target == "inside")
    assert taken.t_ns <= taken.end_ns <= outcome.of("clock")[1].t_ns <= inside.t_ns
    assert taken.stack[1:] == inside.stack[2:]


def test_waits_for_channels_are_recorded(program: Any) -> None:
    outcome = program.seen("poll")
    assert _of(outcome, "poll") == [
        "poll select 1 0", "poll select 5000000 0", "poll select 0 1", "poll select 0 1",
    ]  # fmt: skip


def test_both_ends_of_a_connection_have_its_name_and_all_bytes_are_paired(program: Any) -> None:
    outcome = program.seen("poll", "sendfile")
    sent = outcome.of("net.send")
    local, _, rest = sent[-1].resource.partition(">")
    received = outcome.of("net.recv")
    assert received[-1].resource.startswith(rest.partition("/")[0] + ">" + local + "/")
    assert (sent[-1].size, sent[-1].result) == (0, 5000)
    assert len({event.resource for event in outcome.of("net.close")}) == 6
    found = pair(read_columns(program.tool.trace_dir))
    assert (found.received, found.paired) == (5000, 5000)


def test_bytes_below_a_logical_operation_are_recorded(program: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    program.tool.addresses = {f"127.0.0.1:{port}": "s2"}
    program.tool.more_config["operations"] = [
        {"function": ":Causal.Wire.send", "op": "msg.send", "kind": {"text": "hello"}, "peer": {"argument": "to"}}
    ]
    outcome = program.seen("logical", options=(f"-Dport={port}",))
    assert _of(outcome, "raw.") == ["raw.send peer:s2 9 9"]
    assert _of(outcome, "net.send") == []
    program.tool.more_config["observe"] = ["sync"]
    again = program.seen("logical", options=(f"-Dport={port}",))
    assert len(again.of("msg.send")) == 2
    assert len(again.of("raw.send")) == 1


@pytest.mark.parametrize("families", [[name] for name in FAMILIES[:3]] + [FAMILIES], ids="-".join)
def test_call_sites_do_not_depend_on_the_observed_families(
    causal: Callable[[Path], Any], tmp_path: Path, families: list[str]
) -> None:
    """Woven code does not change the call sites of operations that faults can hit."""
    seen = []
    for observe in ([], families):
        program = causal(tmp_path / f"observe{len(observe)}")
        program.tool.more_config["observe"] = observe
        outcome = program.seen(*ALL)
        events = [e for e in outcome.trace if e.op.startswith(("file.", "net.", "thread.start"))]
        seen.append(sorted((e.op, e.target, e.stack, e.line) for e in events))
        assert any(not e.op.startswith(("file.", "net.", "thread.")) for e in outcome.trace) == bool(observe)
    assert seen[0] == seen[1]


def test_the_trace_is_consistent(program: Any) -> None:
    program.seen(*ALL, "timers", "futures", "contended")
    found = causality(read_columns(program.tool.trace_dir))
    assert list(found.problems()) == []


def test_whoever_waits_for_the_work_of_an_operation_is_exposed_to_it(program: Any) -> None:
    outcome = program.seen("barriers")
    sites = {event.target: event.loc for event in outcome.of("file.create")}
    found = exposures(read_columns(program.tool.trace_dir))
    waits = {spot.loc: one.waits for spot, one in found.items() if spot.op == "file.create"}
    threads = ("latch", "monitor", "queue", "future")
    waiting = {event.loc for event in outcome.trace if event.thread in threads and event.op.endswith(_WAITS)}
    assert len(waiting) == 4
    assert set(waits[sites["before"]]) == waiting
    assert waits[sites["after"]] == ()
