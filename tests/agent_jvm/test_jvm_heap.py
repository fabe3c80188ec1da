"""Accesses to the heap, as the JVM agent records them for a known program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fake_tool import Outcome

from undermine.agent_protocol import WIRE
from undermine.model.event import Event

ALL = ["fields", "elements", "maps", "collections", "shared", "linked", "same"]
"""The scenarios in which each thread does the same in each run."""
Start = Callable[..., Any]
SOURCE = Path(__file__).with_name("Heap.java")


def heap(outcome: Outcome) -> list[Event]:
    return outcome.of("heap.read", "heap.write")


def told(outcome: Outcome, hidden: str = ":Heap.jobs") -> list[str]:
    """R or W, the name without the class, the value and the result of the accesses; reads of the hidden place are left out."""
    return [
        f"{e.op[5].upper()} {e.resource.removeprefix(':Heap.')} {e.content} {e.result}"
        for e in heap(outcome)
        if e.resource != hidden
    ]


def test_fields_are_recorded_with_names_and_values(heap_program: Start) -> None:
    outcome = heap_program().seen("fields")
    assert told(outcome)[:8] == [
        "W jobs.phase DONE 0",
        "R jobs.size 0 0",
        "W jobs.size 2 0",
        "W jobs.total  0",
        "R jobs.share  0",
        "W jobs.share  0",
        "R jobs.weight  0",
        "W jobs.weight  0",
    ]
    assert told(outcome)[8:14] == [
        "W jobs.mark  0",
        "R jobs.total  0",
        "W last  0",
        "W ratio  0",
        "R level 0 0",
        "W level 1 0",
    ]
    phase = next(e for e in heap(outcome) if e.resource == ":Heap.jobs.phase")
    assert (phase.thread, phase.loc) == ("worker", ":Heap.fields.<lambda>#0")
    source = SOURCE.read_text().splitlines()
    assert source[phase.line - 1].strip() == "jobs.phase = Phase.DONE;"


def test_elements_are_recorded_but_not_bytes(heap_program: Start) -> None:
    outcome = heap_program().seen("elements")
    assert told(outcome) == [
        "R jobs.counts[1] 0 0",
        "W jobs.counts[1] 3 0",
        "W jobs.flags[1] 1 0",
        "W jobs.slots[0]  0",
        "R jobs.slots[0]  0",
        "W jobs.slots[0].committed true 0",
        "R jobs.data  0",
        "R jobs.counts[1] 3 0",
        "R jobs.flags[1] 1 0",
        "R jobs.data  0",
    ]
    assert {e.target for e in heap(outcome) if "counts" in e.resource} == {":Heap.jobs.counts[<n>]"}


def test_methods_of_maps_read_and_write_their_keys(heap_program: Start) -> None:
    assert told(heap_program().seen("maps")) == [
        "R jobs.all['a'] null 0",
        "W jobs.all['a']  1",
        "R jobs.all['a']  0",
        "W jobs.all['a'].committed true 0",
        "R jobs.all['a'] true 0",
        "R jobs.all[*] false 0",
        "R jobs.all[*] 1 0",
        "R jobs.all['a']  0",
        "W jobs.numbered[12]  1",
        "R last 0 0",
        "R jobs.numbered[12]  0",
        "R jobs.all[*]  0",
        "R jobs.all[*]  0",
        "R jobs.all['a'].committed true 0",
        "R jobs.all[*]  0",
        "W jobs.all['a']  2",
        "R jobs.all['a']  0",
        "W NAMES['k'] v 1",
    ]


def test_methods_of_collections_and_atomic_variables_read_and_write(heap_program: Start) -> None:
    assert told(heap_program().seen("collections")) == [
        "W jobs.sessions[5] 5 1",
        "R jobs.sessions[5] 5 0",
        "R jobs.sessions[5] true 0",
        "W jobs.order[*]  1",
        "W jobs.order[*]  1",
        "R jobs.order[1]  0",
        "W jobs.order[#2].committed true 0",
        "R jobs.order[*]  0",
        "W jobs.order[*]  2",
        "R jobs.order[*] 1 0",
        "W jobs.order[*]  2",
        "W jobs.open.value true 0",
        "W jobs.open.value false 0",
        "R jobs.open.value false 0",
        "W jobs.epoch.value  0",
        "R jobs.epoch.value 8 0",
    ]


def test_nothing_outside_handlers_is_recorded(heap_program: Start) -> None:
    assert heap(heap_program().seen("outside")) == []


def test_objects_of_other_threads_are_named_by_where_they_were_created(heap_program: Start) -> None:
    """An object that only its own handler uses has no name."""
    outcome = heap_program().seen("shared")
    mine = ":Heap.Jobs@Heap.shared#0 #1"
    assert [e.resource for e in heap(outcome) if "Queue" not in e.resource] == [
        f"{mine}.size",
        f"{mine}.all['a']",
        f"{mine}.all['a']",
        f"{mine}.all['a'].committed",
        f"{mine}.size",
        f"{mine}.size",
    ]


def test_a_loop_that_polls_is_recorded_after_its_first_sleep(heap_program: Start) -> None:
    outcome = heap_program().seen("polling")
    reads = [e for e in outcome.of("heap.read") if e.thread == "main" and e.resource == ":Heap.jobs.size"]
    (write,) = [e for e in outcome.of("heap.write") if e.resource == ":Heap.jobs.size"]
    assert [e.content for e in reads][-1] == "9"
    assert reads[-1].t_ns > write.t_ns


def test_members_of_a_linked_list_have_short_names(heap_program: Start) -> None:
    names = [e.resource for e in heap(heap_program().seen("linked"))]
    assert len(set(names)) > 100
    assert max(map(len, names)) < 60


def test_names_agree_between_two_runs(heap_program: Start) -> None:
    one, other = ([(e.op, e.loc, e.line, e.resource, e.content) for e in heap(heap_program().seen(*ALL))] for _ in range(2))
    assert one == other


def points(outcome: Outcome) -> Counter[tuple[object, ...]]:
    return Counter((e.op, e.loc, e.line, e.target, e.thread, e.stack) for e in outcome.trace if not e.op.startswith("heap"))


def test_other_operations_are_recorded_as_without_the_heap(heap_program: Start) -> None:
    without, with_heap = heap_program(heap=False).seen(*ALL), heap_program().seen(*ALL)
    assert heap(without) == []
    assert points(with_heap) == points(without)


def test_a_process_says_that_it_has_reached_the_limit(heap_program: Start) -> None:
    outcome = heap_program().seen("full")
    assert len(heap(outcome)) == WIRE.heap_records_max
    (agent,) = outcome.trace.agents
    assert [gap for gap in agent.gaps if "limit of" in gap] == [
        f"heap: this process reached the limit of {WIRE.heap_records_max} records; later accesses are missing"
    ]
