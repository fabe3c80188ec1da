"""Small programs whose operations are named by the text of their calls, and questions about them."""

from __future__ import annotations

import ast
import textwrap

from small_programs import program

from undermine.program import Program
from undermine.program.dependence import Dependence
from undermine.program.dependence.frames import StackFrames


class Asked:
    """A program of one module, `m`, and its dependence."""

    def __init__(self, text: str) -> None:
        self.program = program(m=textwrap.dedent(text))
        self.dependence = Dependence(self.program)

    def stack(self, *calls: str) -> tuple[str, ...]:
        """The stack whose frames are the calls with these texts, innermost first."""
        return tuple(site_of(self.program, call) for call in calls)


def sites_of(program: Program, call: str) -> tuple[str, ...]:
    """The call sites of all calls with this text (also of a `with`, `for` or `await`). `function: text` asks for those in
    one function."""
    function, _, text = call.rpartition(": ")
    found: dict[str, None] = {}
    frames = StackFrames(program)
    for each in program.code.functions:
        for action in program.code.flow(each).actions if function in ("", each.qualname) else ():
            is_call = action.kind == "call" or not isinstance(action.node, ast.Call)
            if is_call and action.kind in ("call", "await", "enter", "next") and ast.unparse(action.node) == text:
                found.update(dict.fromkeys(frames.locs(each, action)[:1]))
    return tuple(found)


def site_of(program: Program, call: str) -> str:
    """The call site of the only call with this text."""
    found = sites_of(program, call)
    if len(found) != 1:
        raise LookupError(f"{call!r} has {len(found)} call sites: {list(found)}")
    return found[0]
