"""Forward slices of compiled methods: everything in one method that depends on certain values, by data or by control.

The rules are those for source code (`undermine.program.dependence.slices`). Locals are followed by their assignments, fields by
their names and objects. How far a value is followed depends on the question. An answer that excludes a prediction must not be
wrong, so a check must surely be one (`exact`), while harm may happen anywhere that the value may reach (`wide`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from undermine.program.bytecode.methods import Method, Methods
from undermine.program.dependence.ways import RAISED
from undermine.program.source.names import words

DEPTH = 2
"""The number of calls over which an argument is followed to a `throw`."""
Mode = Literal["exact", "wide", "arithmetic"]
"""`exact`: results of calls that take the value. `wide`: also every object that such a call may change. `arithmetic`: numbers
only, and control only to variables that are set to a constant."""
Raises = Literal["may fail", "fails", "decides"]
"""How a call may throw an exception: because it gets the value; because it is the operation; because a `throw` depends on the
value."""
_ADDS = words("add addAll addFirst addLast put putAll putIfAbsent offer push append insert set write")
_CONTAINERS = ("java.util.", "java.lang.StringBu")
_ARITHMETIC = ("java.lang.Math.", "java.util.concurrent.TimeUnit.", "java.lang.Long.", "java.lang.Integer.", "java.time.")
_CANNOT_FAIL = ("java.io.File.", "java.lang.String.", "java.lang.StringBuilder.", "java.lang.System.", "lambda.")
_LOGGERS = ("Logger.", "Log.")


class Origin(NamedTuple):
    """The values that a slice begins with. Numbers are those of nodes."""

    values: frozenset[int] = frozenset()
    parameters: frozenset[int] = frozenset()
    """Parameters that have such a value when the method begins; 0 is the first one."""
    raises: tuple[tuple[int, Raises], ...] = ()
    fields: tuple[tuple[int, int, str], ...] = ()
    """Calls that set a field of one of their operands to such a value; the operand is -1 for a static field."""
    touches: tuple[tuple[int, int], ...] = ()
    """Calls that change one of their operands by such a value."""
    mode: Mode = "exact"


class Cause(NamedTuple):
    """A node that depends on the origin, and the node that it depends on directly."""

    node: int
    parent: Cause | None = None

    def chain(self) -> list[int]:
        """The nodes from the origin to this one."""
        found: list[int] = []
        each: Cause | None = self
        while each is not None:
            found.append(each.node)
            each = each.parent
        return found[::-1]


class Test(NamedTuple):
    """A choice that depends on the origin, and the nodes that may follow."""

    cause: Cause
    ways: tuple[int, ...]
    how: Literal["test", "fails", "decides"]


class Put(NamedTuple):
    """A field that is set to a value that depends on the origin."""

    node: int
    field: str
    roots: frozenset[int]
    """The objects that may have the field; empty for a static one."""
    cause: Cause


class Slice:
    """Everything in a method that depends on the origin."""

    def __init__(self, method: Method, origin: Origin) -> None:
        self.method, self.origin = method, origin
        self.values: dict[int, Cause] = {-1 - number: Cause(-1 - number) for number in origin.parameters}
        """Nodes whose value depends on the origin, and parameters."""
        self.touched: dict[int, dict[int, Cause]] = {}
        """Objects, by the node that they come from, that a node changes."""
        self.puts: dict[tuple[int, str], Put] = {}
        self.tests: dict[int, Test] = {}
        self.controlled: dict[int, Cause] = {}
        self.skipped: dict[int, Cause] = {}
        """The nodes that a failure skips in the same `try`."""
        self.returned: Cause | None = None
        self.failures: dict[Raises, Cause] = {}
        """By how: why an exception that nothing throws explicitly leaves the method."""

    @property
    def raised(self) -> Cause | None:
        """Why the origin decides whether an exception leaves the method."""
        return self.controlled.get(RAISED)

    def operand(self, node: int, values: Iterable[int]) -> Cause | None:
        """Why an operand of a node depends on the origin; None if it doesn't."""
        for each in values:
            if each in self.values:
                return self.values[each]
        if self.touched:
            for each in self.method.roots(values):
                for by, cause in self.touched.get(each, {}).items():
                    if self.method.reaches(by, node):
                        return cause
        return None

    def any_operand(self, node: int) -> Cause | None:
        causes = (self.operand(node, values) for values in self.method.uses[node])
        return next((cause for cause in causes if cause is not None), None)

    def passed(self, call: int) -> frozenset[int]:
        """The operands of a call that depend on the origin."""
        uses = self.method.uses[call]
        return frozenset(number for number, values in enumerate(uses) if self.operand(call, values) is not None)

    def fields(self) -> Iterator[tuple[int, str]]:
        """The fields of parameters, and static ones (-1), that depend on the origin when the method ends."""
        for put in self.puts.values():
            if not put.roots:
                yield -1, put.field
            yield from ((-1 - root, put.field) for root in put.roots if root < 0)

    def touched_parameters(self) -> Iterator[int]:
        return (-1 - root for root in self.touched if root < 0)

    @property
    def leaves(self) -> bool:
        """Does anything that the caller sees depend on the origin?"""
        return any((self.returned, self.raised, self.failures, *self.fields())) or any(root < 0 for root in self.touched)


class Slices:
    """Computes slices, each once."""

    def __init__(self, methods: Methods) -> None:
        self.methods = methods
        self._known: dict[tuple[str, Origin, int], Slice] = {}

    def of(self, method: Method, origin: Origin, depth: int = 0) -> Slice:
        """The slice of a method. `depth`: the number of calls over which arguments have been followed to it."""
        key = method.id, origin, depth
        if key not in self._known:
            self._known[key] = _Slicer(self, method, origin, depth).run()
        return self._known[key]

    def raises_by(self, id: str, parameters: frozenset[int], mode: Mode, depth: int) -> bool:
        """Does the value of one of these parameters decide whether the method throws an exception?"""
        method = self.methods.method(id)
        if depth >= DEPTH or method is None or not parameters:
            return False
        return self.of(method, Origin(parameters=parameters, mode=mode), depth + 1).raised is not None


class _Slicer:
    """Computes one slice: values and tests are looked at until nothing changes."""

    def __init__(self, slices: Slices, method: Method, origin: Origin, depth: int) -> None:
        self.slices, self.method, self.origin, self.depth = slices, method, origin, depth
        self.found = Slice(method, origin)
        self.raises = dict(origin.raises)
        self.mode = origin.mode
        self.changed = False

    def run(self) -> Slice:
        for node in self.origin.values:
            self._value(node, Cause(node))
            if self.mode == "wide" and self.method.kind(node) == "call":
                self._touch(node, range(len(self.method.uses[node])), Cause(node))
        for call, operand, field in self.origin.fields:
            roots = self.method.roots(self._operands(call, operand)) if operand >= 0 else frozenset()
            self._put(Put(call, field, roots, Cause(call)))
        for call, operand in self.origin.touches:
            self._touch(call, [operand], Cause(call))
        self.changed = True
        while self.changed:
            self.changed = False
            for node in self.method.reachable:
                self._look(node)
            for node in self.method.reachable:
                self._decide(node)
        self._finish()
        return self.found

    def _operands(self, node: int, number: int) -> tuple[int, ...]:
        uses = self.method.uses[node]
        return uses[number] if number < len(uses) else ()

    # --- values

    def _value(self, node: int, cause: Cause) -> None:
        if node not in self.found.values:
            self.found.values[node] = cause
            self.changed = True

    def _touch(self, node: int, operands: Iterable[int], cause: Cause) -> None:
        """The node changes these operands. One that was read from a field is found there again, and a lambda changes the objects
        that it has captured."""
        left = [each for number in operands for each in self.method.roots(self._operands(node, number))]
        while left:
            root = left.pop()
            by = self.found.touched.setdefault(root, {})
            if node in by:
                continue
            by[node] = Cause(node, cause)
            self.changed = True
            if self.method.kind(root) == "get":
                self._put(Put(node, self.method.nodes[root].text, self._objects(root), Cause(node, cause)))
            elif self.method.is_lambda(root):
                left += self.method.roots(self.method.used(root))

    def _objects(self, access: int) -> frozenset[int]:
        """The objects whose field a node accesses."""
        return self.method.roots(self._operands(access, 0))

    def _put(self, put: Put) -> None:
        if (put.node, put.field) not in self.found.puts:
            self.found.puts[put.node, put.field] = put
            self.changed = True

    def _look(self, node: int) -> None:
        kind = self.method.kind(node)
        if kind == "call":
            self._call(node)
        elif kind in ("set", "step", "load", "new"):
            cause = self.found.any_operand(node) or (self._control(node) if kind in ("set", "step") else None)
            if cause is not None:
                self._value(node, Cause(node, cause))
        elif kind == "get":
            cause = self.found.any_operand(node) or self._stored(node)
            if cause is not None:
                self._value(node, Cause(node, cause))
        elif kind == "put":
            cause = self.found.operand(node, self._operands(node, 1)) or self._control(node, 1)
            if cause is not None:
                self._put(Put(node, self.method.nodes[node].text, self._objects(node), Cause(node, cause)))
        elif kind == "store":
            cause = self.found.operand(node, self._operands(node, 2)) or self.found.operand(node, self._operands(node, 1))
            if cause is not None or (cause := self._control(node, 2)):
                self._touch(node, [0], cause)
        elif kind == "catch" and (cause := self.found.controlled.get(node)):
            self._value(node, Cause(node, cause))

    def _control(self, node: int, operand: int = 0) -> Cause | None:
        """The test that decides whether a value is assigned at a node."""
        control = self.found.controlled.get(node)
        if not self._operands(node, operand) and self.method.kind(node) != "step":
            return control or self.found.skipped.get(node)
        return None if self.mode == "arithmetic" else control

    def _stored(self, read: int) -> Cause | None:
        """Why a field that is read has such a value: it was set before, and not set again to another one."""
        field, objects = self.method.nodes[read].text, self._objects(read)
        for put in list(self.found.puts.values()):
            is_same = put.field == field and (put.roots & objects or not (put.roots or objects))
            if is_same and read in self.method.reached(self.method.after[put.node], self._resets(put)):
                return put.cause
        return None

    def _resets(self, put: Put) -> list[int]:
        """The nodes that set the same field of the same object to another value."""
        return [
            node
            for node in self.method.reachable
            if self.method.kind(node) == "put"
            and self.method.nodes[node].text == put.field
            and (node, put.field) not in self.found.puts
            and self._objects(node) == put.roots
        ]

    def _call(self, node: int) -> None:
        cause, text = self.found.any_operand(node), self.method.nodes[node].text
        if self.mode == "arithmetic" and not text.startswith(_ARITHMETIC):
            return
        name, control = text.rpartition(".")[2], self.found.controlled.get(node)
        adds = name in _ADDS and text.startswith(_CONTAINERS)
        if adds and control is not None:
            self._touch(node, [0], control)
        if cause is None:
            return
        self._value(node, Cause(node, cause))
        if name == "<init>" or adds:
            self._touch(node, [0], cause)
        if self.mode == "wide" and not any(each in text for each in _LOGGERS):
            self._touch(node, range(len(self.method.uses[node])), cause)

    # --- control

    def _decide(self, node: int) -> None:
        """Find out whether a choice depends on the origin, and what it controls."""
        if node in self.found.tests:
            return
        test = self._choice(node)
        if test is None:
            return
        self.found.tests[node] = test
        self.changed = True
        body = self.method.handlers(node)[:1] if test.how == "fails" else []
        for each in self.method.decided(node, test.ways):
            in_body = bool(body) and each > RAISED and body[0] in self.method.caught[each]
            depend = self.found.skipped if in_body else self.found.controlled
            depend.setdefault(each, test.cause)

    def _choice(self, node: int) -> Test | None:
        kind, method = self.method.kind(node), self.method
        if kind == "test":
            cause = self.found.any_operand(node)
            return Test(Cause(node, cause), tuple(method.after[node]), "test") if cause is not None else None
        handlers = method.handlers(node)
        how, cause = self._may_raise(node)
        if cause is None:
            return None
        if how == "decides":
            ends = [] if method.catches_everything(handlers) else [RAISED]
            return Test(cause, (*method.after[node], *handlers, *ends), "decides")
        if handlers:
            return Test(cause, (*method.after[node], *handlers), "fails")
        if how not in self.found.failures:
            self.found.failures[how] = cause
            self.changed = True
        return None

    def _may_raise(self, node: int) -> tuple[Raises, Cause | None]:
        if node in self.raises:
            return self.raises[node], Cause(node)
        cause = self._may_fail_by(node)
        if cause is None:
            return "may fail", None
        callees = self.slices.methods.callees(self.method, node)
        if len(callees) == 1 and self.slices.raises_by(callees[0], self.found.passed(node), self.mode, self.depth):
            return "decides", Cause(node, cause)
        counts = may_fail(self.method, node) and (self.mode == "wide" or self.method.handlers(node))
        return "may fail", Cause(node, cause) if counts else None

    def _may_fail_by(self, node: int) -> Cause | None:
        """Why the operands by which a node may fail depend on the origin: also an object that may be null, and the index
        of an array, but not a stored value."""
        kind = self.method.kind(node)
        if self.mode == "arithmetic" or (kind != "call" and self.mode == "exact"):
            return None
        if kind in ("store", "put"):
            numbers = (0, 1) if kind == "store" else (0,)
            causes = (self.found.operand(node, self._operands(node, number)) for number in numbers)
            return next((cause for cause in causes if cause is not None), None)
        return self.found.any_operand(node) if kind in ("call", "get", "load", "new", "lock") else None

    # --- results

    def _finish(self) -> None:
        returns = [node for node in self.method.reachable if self.method.kind(node) == "return" and self.method.uses[node]]
        for node in returns:
            cause = self.found.any_operand(node) or (self.found.controlled.get(node) if len(returns) > 1 else None)
            if cause is not None:
                self.found.returned = Cause(node, cause)
                return


def may_fail(method: Method, call: int) -> bool:
    """May a call throw an exception because of the values that it gets?"""
    text = method.nodes[call].text
    return not text.startswith(_CANNOT_FAIL) and not any(each in text for each in _LOGGERS)
