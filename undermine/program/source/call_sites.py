"""Names the call site of each call in the source as events do: `module:qualname#ordinal`.

The ordinal counts the calls (also `with`, `await` and `for`) before an instruction of the code object. So the source is
compiled, never run, and each node of the tree is found among the instructions by its position. One node may be several
instructions: the compiler copies a `finally`. Ordinals are those of the interpreter that runs this analysis.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from functools import cached_property
from opcode import opmap
from types import CodeType

from undermine.program.source.sources import Source

_CALLS = ("CALL", "CALL_KW", "CALL_FUNCTION", "CALL_FUNCTION_KW", "CALL_FUNCTION_EX", "CALL_METHOD")
_ENTERS = ("SETUP_WITH", "BEFORE_WITH", "BEFORE_ASYNC_WITH")
_AWAITS = ("YIELD_FROM", "SEND")
_NEXTS = ("FOR_ITER",)


def _codes(*names: str) -> frozenset[int]:
    return frozenset(opmap[name] for name in names if opmap.get(name, 256) < 256)


CALLS, ENTERS, AWAITS, NEXTS = _codes(*_CALLS), _codes(*_ENTERS), _codes(*_AWAITS), _codes(*_NEXTS)
COUNTED = CALLS | ENTERS | AWAITS | NEXTS
"""The instructions that agents count, too (`protocol/README.md`)."""
_FAILED = _codes("WITH_EXCEPT_START")
_READS = _codes("LOAD_ATTR", "LOAD_METHOD", "LOAD_GLOBAL", "LOAD_NAME", "BINARY_SUBSCR", "BINARY_SLICE", "CONTAINS_OP")

_Position = tuple[int | None, int | None, int | None, int | None]
_End = tuple[int, int]


class CallSites:
    """The call sites of one module."""

    def __init__(self, source: Source) -> None:
        self.module = source.module
        self._calls: dict[_End, list[tuple[_End, str, bool]]] = {}
        """By the end of a call: where it begins, its call site, and whether a `with` is entered right after it."""
        self._others: dict[tuple[str, _Position], list[str]] = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = compile(source.text, source.file, "exec", dont_inherit=True)
        self._codes = tuple(_all_codes(code))
        for each in self._codes:
            self._read(each)

    @cached_property
    def reads(self) -> dict[str, set[_Position]]:
        """By call site, the positions of the attributes, items and globals that are read there: before that call, and
        after the one before it."""
        found: dict[str, set[_Position]] = {}
        for code in self._codes:
            ordinal = 0
            name = f"{self.module}:{getattr(code, 'co_qualname', code.co_name)}#"
            for op, position in zip(code.co_code[::2], code.co_positions(), strict=False):
                if op in _READS:
                    found.setdefault(name + str(ordinal), set()).add(position)
                ordinal += op in COUNTED
        return found

    def _read(self, code: CodeType) -> None:
        found = list(_counted(code))
        name = f"{self.module}:{getattr(code, 'co_qualname', code.co_name)}#"
        for at, (ordinal, op, position) in enumerate(found):
            place = name + str(ordinal)
            if op in CALLS:
                follows = found[at + 1] if at + 1 < len(found) else None
                enters = follows is not None and follows[1] in ENTERS
                self._add_call(position, place, enters)
                self._add("call", position, place)
            elif op in _FAILED:
                self._add("call", position, place)
            elif op in ENTERS:
                self._add("enter", position, place)
            elif op in AWAITS:
                self._add("await", position, place)
            elif op in NEXTS:
                self._add("next", position, place)

    def _add(self, what: str, position: _Position, place: str) -> None:
        self._others.setdefault((what, position), []).append(place)

    def _add_call(self, position: _Position, place: str, enters: bool) -> None:
        line, line_end, column, column_end = position
        if line is not None and line_end is not None and column is not None and column_end is not None:
            self._calls.setdefault((line_end, column_end), []).append(((line, column), place, enters))

    def of_call(self, node: ast.Call, *, entered: bool = False) -> list[str]:
        """The call sites of a call; `entered` for a call whose result a `with` enters."""
        starts = {(node.lineno, node.col_offset)}
        name = node.func
        if isinstance(name, ast.Attribute) and name.end_lineno is not None and name.end_col_offset is not None:
            starts.add((name.end_lineno, name.end_col_offset - len(name.attr.encode())))
        here = self._calls.get((node.end_lineno or 0, node.end_col_offset or 0), ())
        found = [(place, enters) for start, place, enters in here if start in starts]
        if entered and len(found) > 1:  # from 3.13 on, leaving a `with` stands at the same position
            found = [pair for pair in found if pair[1]] or found[:1]
        return list(dict.fromkeys(place for place, _ in found))

    def of_await(self, node: ast.Await) -> list[str]:
        return self._at("await", node)

    def of_enter(self, statement: ast.With | ast.AsyncWith, item: ast.withitem) -> list[str]:
        """The call sites of entering a `with`."""
        found = self._at("enter", item.context_expr)
        if found:
            return found
        number, items = statement.items.index(item), len(statement.items)
        entered, awaited = self._at("enter", statement)[:items], self._at("await", statement)[:items]
        return [*entered[number : number + 1], *awaited[number : number + 1]]

    def of_exit(self, statement: ast.With | ast.AsyncWith, item: ast.withitem) -> list[str]:
        """The call sites of leaving a `with`."""
        at_statement = self._at("call", statement)
        if at_statement:
            return at_statement
        entering = (
            set(self.of_call(item.context_expr, entered=True)) if isinstance(item.context_expr, ast.Call) else set()
        )
        return [place for place in self._at("call", item.context_expr) if place not in entering]

    def of_next(self, loop: ast.AST, iterated: ast.expr) -> list[str]:
        """The call sites of fetching the next item of a loop or comprehension."""
        found = self._at("next", loop) or self._at("next", iterated)
        return found or (self._at("await", loop) if isinstance(loop, ast.AsyncFor) else [])

    def of_comprehension(self, node: ast.expr) -> list[str]:
        """The call sites of running a comprehension, where it is a function of its own."""
        return [*self._at("call", node), *self._at("await", node)]

    def _at(self, what: str, node: ast.AST) -> list[str]:
        return list(dict.fromkeys(self._others.get((what, position_of(node)), ())))


def lines_of(text: str) -> dict[str, int]:
    """The line of each call site (`qualname#ordinal`) in the text of a module; none if it cannot be compiled."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = compile(text, "source", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    found: dict[str, int] = {}
    for each in _all_codes(code):
        name = getattr(each, "co_qualname", each.co_name)
        for ordinal, _, position in _counted(each):
            if position[0]:
                found.setdefault(f"{name}#{ordinal}", position[0])
    return found


def position_of(node: ast.AST) -> _Position:
    """The position of a node as instructions have it: first and last line, first and last column."""
    line, column = getattr(node, "lineno", None), getattr(node, "col_offset", None)
    return line, getattr(node, "end_lineno", None), column, getattr(node, "end_col_offset", None)


def _all_codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _all_codes(constant)


def _counted(code: CodeType) -> Iterator[tuple[int, int, _Position]]:
    """Ordinal, instruction and position of each counted instruction, and of leaving a `with` by an exception."""
    ordinal = 0
    wanted = COUNTED | _FAILED
    for op, position in zip(code.co_code[::2], code.co_positions(), strict=False):
        if op in wanted:
            yield ordinal, op, position
            ordinal += op in COUNTED
