"""Dependence in compiled code, for bodies that are written by hand. Real class files are in tests/agent_jvm/."""

from __future__ import annotations

import msgspec
import pytest

from undermine.program import Compiled
from undermine.program.bytecode.bodies import Body, BodyNode
from undermine.program.bytecode.methods import Method
from undermine.program.compiled import CompiledFunction
from undermine.program.dependence import Dependence, JoinedQuestions, Unknown, Why
from undermine.program.dependence.ways import RAISED
from undermine.program.program import Program


def node(kind: str, text: str = "", uses: object = (), next: object = (), caught: object = (), **more: int) -> BodyNode:
    line, ordinal = more.get("line", 0), more.get("ordinal", -1)
    return msgspec.convert([kind, line, text, ordinal, uses, next, caught], BodyNode)


CHECKED = Body(
    "F.java",
    (0,),
    (
        node("call", "java.io.File.exists", [[-2]], [1], ordinal=0, line=3),
        node("test", "", [[0]], [2, 3], line=3),
        node("call", "java.io.FileInputStream.<init>", [[-1], [-2]], [3], ordinal=1, line=4),
        node("return", "", [], [], line=5),
    ),
)
GUARDED = Body(
    "F.java",
    (0,),
    (
        node("call", "a.B.take", [[-1]], [1], [2], ordinal=0),
        node("return"),
        node("catch", "", [], [3]),
        node("call", "a.B.release", [[-1]], [4], ordinal=1),
        node("throw", "java.lang.Throwable", [[2]], [-1]),
    ),
)


def compiled(**bodies: Body | None) -> Compiled:
    raw = {name: msgspec.Raw(msgspec.json.encode(body)) for name, body in bodies.items()}
    return Compiled(functions=tuple(CompiledFunction(f"a:F.{name}", 2, (), body) for name, body in raw.items()))


def test_an_answer_has_the_lines_from_the_check_to_the_operation() -> None:
    found = compiled(f=CHECKED).dependence().controls(("a:F.f#0",), ("a:F.f#1",))
    assert isinstance(found, Why)
    assert [str(line) for line in found.lines] == [
        "F.java:3: File.exists()",
        "F.java:3: a test",
        "F.java:4: FileInputStream.<init>()",
    ]
    assert compiled(f=CHECKED).dependence().controls(("a:F.f#1",), ("a:F.f#0",)) is None


def test_a_body_that_the_analyser_could_not_export_is_unknown() -> None:
    dependence = compiled(f=None).dependence()
    assert dependence.knows(("a:F.f#0",))
    assert isinstance(dependence.impact(("a:F.f#0",)), Unknown)


def test_bodies_survive_the_cache() -> None:
    stored = msgspec.json.decode(msgspec.json.encode(compiled(f=CHECKED)), type=Compiled)
    assert isinstance(stored.dependence().controls(("a:F.f#0",), ("a:F.f#1",)), Why)


@pytest.mark.parametrize("node", ['["jump",1,"",0,[],[],[]]', '["call",1,"a.B.c",0,[],[7],[]]', "7"])
def test_a_body_of_another_form_is_unknown(node: str) -> None:
    body = msgspec.Raw(f'{{"file":"F","entry":[0],"nodes":[{node}]}}'.encode())
    code = Compiled(functions=(CompiledFunction("a:F.f", 1, (), body),)).dependence()
    assert isinstance(code.impact(("a:F.f#0",)), Unknown)


def test_a_finally_is_no_catch_clause() -> None:
    method = Method("a:F.f", GUARDED, {})
    take, handler = method.call_nodes[0], 4
    assert method.caught[take] == [handler]
    assert method.handlers(take) == []
    assert RAISED in method.after[6]


def test_each_question_goes_to_the_part_that_knows_the_operation() -> None:
    both = JoinedQuestions([compiled(f=CHECKED).dependence()], Dependence(Program(())))
    assert isinstance(both.controls(("a:F.f#0",), ("a:F.f#1",)), Why)
    other = both.impact(("module:function#0",))
    assert isinstance(other, Unknown)
    assert "source" in other.why
