"""Dependence from class files: a program with known answers is compiled, analysed and asked about."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jdks import compile_java

from undermine.program import Compiled
from undermine.program.bytecode.queries import BytecodeDependence
from undermine.program.bytecode.stacks import Frame
from undermine.program.dependence import Loop, LoopLimit, Unknown, Why
from undermine.runtimes import jvm_classes
from undermine.runtimes.base import ClassFiles

SOURCE = Path(__file__).resolve().parent / "Dependence.java"
CLASS = re.compile(r"^    static class (\w+)")
EXPECTED = re.compile(r"// (CONTROLS|IMPACT|LOOP): (\w+)")
METHOD = re.compile(r"^        \S.*?(\w+)\(.*\{$")


def expected(question: str) -> Iterator[tuple[str, str]]:
    """The methods with an answer to this question, and the answer."""
    owner = answer = ""
    for line in SOURCE.read_text().splitlines():
        if found := CLASS.match(line):
            owner = found[1]
        elif (found := EXPECTED.search(line)) and found[1] == question:
            answer = found[2]
        elif answer and (found := METHOD.match(line)):
            yield f":Dependence.{owner}.{found[1]}", answer
            answer = ""


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory, jar: Path) -> Compiled:
    classes = compile_java(tmp_path_factory.mktemp("dependence"), SOURCE, release=9)
    return jvm_classes.read(ClassFiles((str(classes),), ("Dependence",)), ())


@pytest.fixture(scope="session")
def dependence(compiled: Compiled) -> BytecodeDependence:
    return compiled.dependence()


def site(compiled: Compiled, method: str, *names: str) -> str:
    """The call site of the last call of one of these names in a method."""
    methods = compiled.dependence()._methods
    found = methods.method(method)
    assert found is not None, method
    calls = [node for node in found.call_nodes.values() if found.nodes[node].text.rpartition(".")[2] in names]
    return f"{method}#{found.nodes[calls[-1]].ordinal}"


@pytest.mark.parametrize(("method", "answer"), list(expected("CONTROLS")))
def test_a_check_controls_the_operation_that_it_guards(
    method: str, answer: str, compiled: Compiled, dependence: BytecodeDependence
) -> None:
    first = (site(compiled, method, "first", "opened"),)
    inner = (":Dependence.first#0", *first) if "Controls" in method else (":Dependence.opened#0", *first)
    second = (site(compiled, method, "second"),)
    deeper = (site(compiled, ":Dependence.second", "<init>"), *second)
    for one in (first, inner):
        for other in (second, deeper):
            if one == first and "Failures.uncaught" in method:
                continue  # from outside it is only a call that may fail
            assert isinstance(dependence.controls(one, other), Why) == (answer == "yes"), (one, other)
    assert not isinstance(dependence.controls(second, first), Why) or "loop" in method or "waits" in method


@pytest.mark.parametrize(("method", "answer"), list(expected("IMPACT")))
def test_the_worst_harm_of_an_operation(
    method: str, answer: str, compiled: Compiled, dependence: BytecodeDependence
) -> None:
    names = ("readInt", "read", "length", "exists", "list")
    found = dependence.impact((site(compiled, method, *names),))
    if answer == "unknown":
        assert isinstance(found, Unknown)
        return
    assert not isinstance(found, Unknown), found
    assert [each.kind for each in found][:1] == ([] if answer == "none" else [answer])


def test_harm_is_found_in_the_callers_of_the_operation(compiled: Compiled, dependence: BytecodeDependence) -> None:
    stack = (site(compiled, ":Dependence.Harm.read", "readInt"), site(compiled, ":Dependence.Harm.checks", "read"))
    found = dependence.impact(stack)
    assert not isinstance(found, Unknown)
    assert (found[0].kind, found[0].depth) == ("raise", 1)
    assert found[0].lines[-1].text == "throw io.IOException"


def test_harm_is_found_behind_a_library_that_runs_a_lambda(compiled: Compiled, dependence: BytecodeDependence) -> None:
    inner = site(compiled, ":Dependence.Harm.each.<lambda>", "length")
    found = dependence.impact((inner, site(compiled, ":Dependence.Harm.each", "forEach")))
    assert not isinstance(found, Unknown)
    assert ("error", 1) in {(each.kind, each.depth) for each in found}


@pytest.mark.parametrize(("method", "answer"), list(expected("LOOP")))
def test_the_loop_around_a_wait_and_its_limit(
    method: str, answer: str, compiled: Compiled, dependence: BytecodeDependence
) -> None:
    stack = (site(compiled, method, "sleep", "wait", "awaitNanos"),)
    loop, limit = dependence.in_loop(stack), dependence.loop_limit(stack)
    if answer == "none":
        assert loop is None
        assert limit is None
        return
    assert isinstance(loop, Loop)
    assert loop.has_exit == (answer != "serving")
    assert (limit.kind if isinstance(limit, LoopLimit) else None) == (answer if answer in ("clock", "count") else None)


def test_a_clock_limit_names_the_readings_that_a_run_may_show(compiled: Compiled, dependence: BytecodeDependence) -> None:
    limit = dependence.loop_limit((site(compiled, ":Dependence.Loops.deadline", "sleep"),))
    assert isinstance(limit, LoopLimit)
    assert limit.reads == (site(compiled, ":Dependence.Loops.deadline", "currentTimeMillis"),)
    in_helper = dependence.loop_limit((site(compiled, ":Dependence.Loops.remaining", "wait"),))
    assert isinstance(in_helper, LoopLimit)
    assert in_helper.reads == (":Dependence.Loops.now#0",)


def test_code_that_is_missing_is_unknown(dependence: BytecodeDependence) -> None:
    stack = ("other:Class.method#0",)
    assert not dependence.knows(stack)
    assert isinstance(dependence.impact(stack), Unknown)
    assert isinstance(dependence.in_loop(stack), Unknown)
    assert isinstance(dependence.loop_limit((":Dependence.Loops.once#99",)), Unknown)
    assert isinstance(dependence.controls(("other:C.m#0",), ("other:C.m#1",)), Unknown)


def test_reads_of_the_heap_that_an_agent_records_are_found_in_the_code(heap_program: Callable[..., Any]) -> None:
    program = heap_program()
    outcome = program.seen("fields", "elements", "maps", "collections")
    code = jvm_classes.read(ClassFiles((str(program.classes),), ("Heap",)), ()).dependence()
    reads = outcome.of("heap.read")
    assert len(reads) > 40
    for event in reads:
        frame = code._stacks.frames(event.stack, event.resource)[0]
        assert isinstance(frame, Frame), (event, frame)
        assert event.line in {frame.method.nodes[node].line for node in frame.nodes}, event
