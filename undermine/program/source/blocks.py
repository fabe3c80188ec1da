"""Splits one function into blocks: its actions in the order of evaluation, and where each block leads to.

`with` and `try` begin and end blocks too. A `finally` exists once; it leads to every place that it was entered for.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Literal

from undermine.program.source.index import Function, last_name

ActionKind = Literal["call", "load", "enter", "exit", "next", "assign", "test", "yield", "await", "untaken"]
LoopNode = ast.While | ast.For | ast.AsyncFor | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_NOTHING_DONE = (ast.Constant, ast.Name, *_NESTED)
_ACQUIRING = ("acquire", "try_acquire", "tryacquire", "acquire_read", "acquire_write")


class Action:
    """One thing that a function does, such as a call, an assignment or a test.

    `node` is the call, the property read, the subject of a `with` or loop, the value assigned, the test, or an `await` of
    something other than a call. `statement` is the `with`, loop, `match` or `assert`, and `target` what is assigned to.
    """

    __slots__ = ("awaited", "block", "entered", "kind", "node", "number", "statement", "target")

    def __init__(
        self, kind: ActionKind, node: ast.expr, statement: ast.AST | None = None, target: ast.expr | None = None
    ) -> None:
        self.kind, self.node, self.statement, self.target = kind, node, statement, target
        self.awaited: ast.Await | ast.Yield | None = None
        self.entered = False
        """True for a call whose result a `with` enters."""
        self.number = self.block = 0


class Block:
    """Actions that follow each other, and the blocks that they lead to."""

    __slots__ = (
        "actions", "begins", "catches", "decides", "ends", "finals", "follows", "handlers", "is_final", "jump", "jumps",
        "loops", "next", "number", "raises", "rethrows", "tries",
    )  # fmt: skip

    def __init__(self, number: int, raises: tuple[int, ...], handlers: tuple[int, ...]) -> None:
        self.number, self.raises, self.handlers = number, raises, handlers
        """The blocks that an exception leads to; those of them that are `except` clauses."""
        self.actions: list[Action] = []
        self.next: list[int] = []
        self.rethrows: list[int] = []
        """The blocks that the end of a `finally` leads to while an exception propagates."""
        self.decides: tuple[ast.expr, ...] = ()
        """The expressions that choose among `next`."""
        self.ends: ast.Return | ast.Raise | None = None
        """The statement that leaves the function at the end of the block."""
        self.catches: ast.ExceptHandler | None = None
        """The `except` clause that begins here."""
        self.is_final = False
        """Does code begin here that always runs: a `finally`, or leaving a `with`?"""
        self.finals = 0
        """The number of such pieces of code that the block lies in."""
        self.jump = ""
        """The jump at the end of the block: `return`, `break` or `continue`."""
        self.jumps: dict[str, int] = {}
        """At the end of a `finally`: the block that each jump through it leads to."""
        self.follows = 0
        """At the end of a `finally`: the block that follows if nothing jumps and no exception propagates."""
        self.loops: tuple[LoopNode, ...] = ()
        """The loops whose repeated part the block belongs to, the outermost first."""
        self.tries: tuple[ast.stmt, ...] = ()
        """The `try` statements with `except` clauses, and the `with suppress(…)`, in whose body the block is."""
        self.begins: LoopNode | None = None
        """The loop of which each round begins here."""


def blocks_of(function: Function, properties: frozenset[str] | set[str] = frozenset()) -> list[Block]:
    """The blocks of a function: block 0 is its beginning, block 1 its end. `properties`: attributes that run code when
    read."""
    return _Builder(function, properties).build()


class _Frame:
    """A loop or a `finally` around the current statement, which `break`, `continue` and `return` must respect."""

    def __init__(self, entry: int, again: int = -1) -> None:
        self.entry, self.again = entry, again
        self.is_loop = again >= 0
        self.escapes: dict[str, None] = {}


class _Builder:
    """Walks the statements of a function and appends each action to the block that it belongs to."""

    def __init__(self, function: Function, properties: frozenset[str] | set[str]) -> None:
        self.function, self.properties = function, properties
        self.blocks: list[Block] = []
        self.frames: list[_Frame] = []
        self.raises: tuple[int, ...] = ()
        self.handlers: tuple[int, ...] = ()
        self.loops: tuple[LoopNode, ...] = ()
        self.finals = 0
        self.tries: tuple[ast.stmt, ...] = ()
        self.acquired: dict[str, ast.Call] = {}
        self.here = self._new()
        self.end = self._new()

    def build(self) -> list[Block]:
        self._statements(self.function.body)
        self._link(self.here, self.end)
        return self.blocks

    def _new(self) -> Block:
        block = Block(len(self.blocks), self.raises, self.handlers)
        block.loops, block.finals, block.tries = self.loops, self.finals, self.tries
        self.blocks.append(block)
        return block

    @staticmethod
    def _link(block: Block, to: Block) -> None:
        if to.number not in block.next:
            block.next.append(to.number)

    def _follow(self) -> Block:
        """Start a new block right after the current one."""
        block = self._new()
        self._link(self.here, block)
        self.here = block
        return block

    def _emit(self, action: Action) -> Action:
        action.block = self.here.number
        self.here.actions.append(action)
        return action

    # --- statements

    def _statements(self, statements: Iterable[ast.stmt]) -> None:
        for statement in statements:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        handler: Callable[[ast.stmt], None] | None = getattr(self, f"_on_{type(node).__name__}", None)
        if handler is not None:
            handler(node)
        elif not isinstance(node, _NESTED):
            for child in ast.iter_child_nodes(node):
                self._expression(child)

    def _on_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for each in (*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)):
            self._expression(each)

    _on_AsyncFunctionDef = _on_FunctionDef

    def _on_ClassDef(self, node: ast.ClassDef) -> None:
        for each in (*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)):
            self._expression(each)

    def _on_Assign(self, node: ast.Assign) -> None:
        self._expression(node.value)
        for target in node.targets:
            self._assigned(target, node.value)

    def _on_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._expression(node.value)
            self._assigned(node.target, node.value)

    def _on_AugAssign(self, node: ast.AugAssign) -> None:
        self._expression(node.target)
        self._expression(node.value)
        value = ast.copy_location(ast.BinOp(node.target, node.op, node.value), node)
        self._assigned(node.target, value)

    def _assigned(self, target: ast.expr, value: ast.expr) -> None:
        self._expression(target)
        self._emit(Action("assign", value, target=target))
        if isinstance(target, ast.Name) and isinstance(value, ast.Call) and last_name(value) in _ACQUIRING:
            self.acquired[target.id] = value

    def _on_If(self, node: ast.If) -> None:
        self._test(node.test)
        start = self.here
        start.decides = (node.test,)
        self._untaken(node.test, when=True)
        self._statements(node.body)
        ended = self.here
        self.here = start
        self._untaken(node.test, when=False)
        self._statements(node.orelse)
        other = self.here
        after = self._new()
        self._link(ended, after)
        self._link(other, after)
        self.here = after

    def _test(self, node: ast.expr, statement: ast.stmt | None = None) -> None:
        self._expression(node)
        self._emit(Action("test", node, statement))

    def _untaken(self, test: ast.expr, *, when: bool) -> None:
        """Begin the branch for a true or false test. If the test is a failed acquire, note that the lock was not
        taken."""
        self._follow()
        while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test, when = test.operand, not when
        call = self.acquired.get(test.id) if isinstance(test, ast.Name) else test
        if not when and isinstance(call, ast.Call) and last_name(call) in _ACQUIRING:
            self._emit(Action("untaken", call))

    def _on_While(self, node: ast.While) -> None:
        around = self._enter_loop(node)
        head = self._follow()
        head.begins = node
        self._test(node.test)
        tested = self.here
        tested.decides = (node.test,)
        after = self._new()
        after.loops = around
        self._untaken(node.test, when=True)
        self._loop(node.body, head, after)
        self.loops = around
        self.here = tested
        endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
        if not endless:
            self._untaken(node.test, when=False)
            self._statements(node.orelse)
            self._link(self.here, after)
        self.here = after

    def _enter_loop(self, node: LoopNode) -> tuple[LoopNode, ...]:
        """Let the next blocks belong to a loop. Returns the loops around it."""
        around, self.loops = self.loops, (*self.loops, node)
        return around

    def _loop(self, body: Iterable[ast.stmt], head: Block, after: Block) -> None:
        self.frames.append(_Frame(after.number, head.number))
        self._statements(body)
        self._link(self.here, head)
        self.frames.pop()

    def _on_For(self, node: ast.For | ast.AsyncFor) -> None:
        self._expression(node.iter)
        around = self._enter_loop(node)
        head = self._follow()
        head.begins = node
        self._emit(Action("next", node.iter, node, node.target))
        head.decides = (node.iter,)
        self._expression(node.target)
        after = self._new()
        after.loops = around
        self._follow()
        self._loop(node.body, head, after)
        self.loops = around
        self.here = head
        self._follow()
        self._statements(node.orelse)
        self._link(self.here, after)
        self.here = after

    _on_AsyncFor = _on_For

    def _on_With(self, node: ast.With | ast.AsyncWith) -> None:
        self._with(node, list(node.items))

    _on_AsyncWith = _on_With

    def _with(self, node: ast.With | ast.AsyncWith, items: list[ast.withitem]) -> None:
        if not items:
            self._statements(node.body)
            return
        item, *rest = items
        self._expression(item.context_expr)
        if self.here.actions and self.here.actions[-1].node is item.context_expr:
            self.here.actions[-1].entered = True
        self._emit(Action("enter", item.context_expr, node))
        if item.optional_vars is not None:
            self._expression(item.optional_vars)
        around = self.tries
        if last_name(item.context_expr) == "suppress":
            self.tries = (*around, node)

        def leave() -> None:
            self.tries = around
            self._emit(Action("exit", item.context_expr, node))

        self._protected(lambda: self._with(node, rest), leave)

    def _protected(self, body: Callable[[], object], final: Callable[[], object]) -> None:
        """Build a body and the code that always runs after it (`finally`, leaving a `with`)."""
        outer = self.raises
        entry = self._new()
        entry.is_final, entry.finals = True, self.finals + 1
        frame = _Frame(entry.number)
        self.frames.append(frame)
        self.raises = (entry.number,)
        self._follow()
        body()
        self._link(self.here, entry)
        self.frames.pop()
        self.raises = outer
        self.here = entry
        self.finals += 1
        final()
        self.finals -= 1
        ended = self.here
        for kind in frame.escapes:
            self.here = ended
            ended.jumps[kind] = self._jump(kind)
        ended.rethrows.extend(outer or (self.end.number,))
        self.here = ended
        ended.follows = self._follow().number

    def _on_Try(self, node: ast.Try) -> None:
        if node.finalbody:
            self._protected(lambda: self._handled(node), lambda: self._statements(node.finalbody))
        else:
            self._handled(node)

    _on_TryStar = _on_Try

    def _handled(self, node: ast.Try) -> None:
        outer = self.raises
        entries = [self._new() for _ in node.handlers]
        after = self._new()
        around = self.handlers
        self.handlers = tuple(entry.number for entry in entries)
        self.raises = (*self.handlers, *outer)
        self.tries = (*self.tries, node)
        self._follow()
        self._statements(node.body)
        self.raises, self.handlers, self.tries = outer, around, self.tries[:-1]
        self._follow()
        self._statements(node.orelse)
        self._link(self.here, after)
        for entry, handler in zip(entries, node.handlers, strict=True):
            self.here = entry
            entry.catches = handler
            self._statements(handler.body)
            self._link(self.here, after)
        self.here = after

    def _on_Match(self, node: ast.Match) -> None:
        self._test(node.subject, node)
        start, after = self.here, self._new()
        start.decides = (node.subject,)
        self._link(start, after)
        for case in node.cases:
            self.here = start
            self._follow()
            if case.guard is not None:
                self._test(case.guard)
                self.here.decides = (case.guard,)
                self._link(self.here, after)
                self._follow()
            self._statements(case.body)
            self._link(self.here, after)
        self.here = after

    def _on_Assert(self, node: ast.Assert) -> None:
        self._test(node.test, node)

    def _on_Return(self, node: ast.Return) -> None:
        if node.value is not None:
            self._expression(node.value)
        self.here.ends = node
        self._leave("return")

    def _on_Raise(self, node: ast.Raise) -> None:
        for child in ast.iter_child_nodes(node):
            self._expression(child)
        for number in self.raises or (self.end.number,):
            self._link(self.here, self.blocks[number])
        self.here.ends = node
        self.here = self._new()

    def _on_Break(self, node: ast.Break) -> None:
        self._leave("break")

    def _on_Continue(self, node: ast.Continue) -> None:
        self._leave("continue")

    def _leave(self, kind: str) -> None:
        self.here.jump = kind
        self._jump(kind)
        self.here = self._new()

    def _jump(self, kind: str) -> int:
        """Jump to the function's end or to the loop around, through the next `finally`. Returns the block."""
        to = self.end.number
        for frame in reversed(self.frames):
            if not frame.is_loop:
                frame.escapes[kind] = None
                to = frame.entry
                break
            if kind != "return":
                to = frame.entry if kind == "break" else frame.again
                break
        self._link(self.here, self.blocks[to])
        return to

    # --- expressions

    def _expression(self, node: ast.AST) -> None:
        if isinstance(node, _NOTHING_DONE):
            return
        if isinstance(node, ast.BoolOp):
            self._bool_op(node)
        elif isinstance(node, ast.IfExp):
            self._expression(node.test)
            self._emit(Action("test", node.test))
            self._choices(node)
        elif isinstance(node, COMPREHENSIONS):
            self._comprehension(node)
        else:
            for child in _in_order(node):
                self._expression(child)
            self._after(node)

    def _after(self, node: ast.AST) -> None:
        """Emit the action of the expression itself; its parts were evaluated before."""
        if isinstance(node, ast.Call):
            self._emit(Action("call", node))
        elif isinstance(node, ast.Attribute):
            if node.attr in self.properties and isinstance(node.ctx, ast.Load):
                self._emit(Action("load", node))
        elif isinstance(node, ast.Await):
            self._awaited(node)
        elif isinstance(node, ast.NamedExpr):
            self._emit(Action("assign", node.value, target=node.target))
        elif isinstance(node, ast.Yield | ast.YieldFrom):
            if isinstance(node, ast.Yield) and self.function.is_async:
                self._awaited(node)
            self._emit(Action("yield", node))

    def _awaited(self, node: ast.Await | ast.Yield) -> None:
        last = self.here.actions[-1] if self.here.actions else None
        if last is not None and last.node is node.value:
            last.awaited = node
        elif isinstance(node, ast.Await):
            self._emit(Action("await", node))

    def _bool_op(self, node: ast.BoolOp) -> None:
        """Build the operands of `and` and `or`: each one decides whether the next one is evaluated."""
        first, *others = node.values
        self._expression(first)
        if not any(_does_something(each, self.properties) for each in others):
            return
        after = self._new()
        for before, each in pairwise(node.values):
            self.here.decides = (before,)
            self._link(self.here, after)
            self._follow()
            self._expression(each)
        self._link(self.here, after)
        self.here = after

    def _choices(self, node: ast.IfExp) -> None:
        """Build the two parts of a conditional expression, of which one is evaluated."""
        others = (node.body, node.orelse)
        if not any(_does_something(each, self.properties) for each in others):
            return
        start, after = self.here, self._new()
        start.decides = (node.test,)
        for each in others:
            self.here = start
            self._follow()
            self._expression(each)
            self._link(self.here, after)
        self.here = after

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        heads: list[Block] = []
        around = self.loops
        for each in node.generators:
            self._expression(each.iter)
            if not heads:
                self._enter_loop(node)
            head = self._follow()
            if not heads:
                head.begins = node
            heads.append(head)
            head.decides = (each.iter,)
            self._emit(Action("next", each.iter, node, each.target))
            for condition in each.ifs:
                self._follow()
                self._expression(condition)
                self.here.decides = (condition,)
                self._link(self.here, head)
        self._follow()
        for part in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
            self._expression(part)
        self._link(self.here, heads[-1])
        self.loops = around
        self.here = self._new()
        for inner, outer in pairwise([*reversed(heads), self.here]):
            self._link(inner, outer)


def _in_order(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Call):
        yield node.func
        yield from node.args
        yield from (keyword.value for keyword in node.keywords)
    else:
        yield from ast.iter_child_nodes(node)


def _does_something(node: ast.AST, properties: frozenset[str] | set[str]) -> bool:
    for each in ast.walk(node):
        if isinstance(each, ast.Call | ast.Await | ast.NamedExpr | ast.Yield | ast.YieldFrom | ast.comprehension):
            return True
        if isinstance(each, ast.Attribute) and each.attr in properties:
            return True
    return False
