"""The methods of a compiled program as graphs, each read when it is first asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

import msgspec

from undermine.program.bytecode.bodies import Body, BodyNode
from undermine.program.dependence.answers import Line
from undermine.program.dependence.ways import RAISED, RETURNED, Ways

_FIRST = 2
"""The number of a body's first node in the graph; the ends come before it."""
_ENDS_PROCESS = frozenset({"java.lang.System.exit", "java.lang.Runtime.exit", "java.lang.Runtime.halt"})
_EVERYTHING = frozenset({"", "java.lang.Throwable"})
_ITERATES = ("hasNext", "hasMoreElements")
LOC = "#"
LAMBDA = "lambda"
"""The class of a call that creates a lambda, a method reference or a text."""


class Method(Ways):
    """The graph of a method. Negative numbers in `uses` are parameters, -1 the first one."""

    def __init__(self, id: str, body: Body, callees: Mapping[int, tuple[str, ...]]) -> None:
        self.id, self.file, self.callees = id, body.file, callees
        self.nodes: dict[int, BodyNode] = {number + _FIRST: node for number, node in enumerate(body.nodes)}
        self.uses = {number: _shifted(node.uses) for number, node in self.nodes.items()}
        after = [[], [], *(self._after(node) for node in body.nodes)]
        caught = [[], [], *([each + _FIRST for each in node.caught] for node in body.nodes)]
        self.entry = [each + _FIRST for each in body.entry]
        super().__init__(after, caught, [RETURNED, RAISED, *self._copies()])
        self._reach: dict[int, set[int]] = {}

    @staticmethod
    def _after(node: BodyNode) -> list[int]:
        if node.kind == "return":
            return [RETURNED]
        if node.kind == "call" and node.text in _ENDS_PROCESS:
            return [RAISED]
        return [each + _FIRST if each >= 0 else RAISED for each in node.next]

    def _copies(self) -> Iterable[int]:
        """The compiler copies a `finally`: instructions of one line that do the same."""
        first: dict[object, int] = {}
        for number, node in self.nodes.items():
            key = (node.kind, node.line, node.text) if node.line and node.kind in ("call", "get", "put") else number
            yield first.setdefault(key, number)

    def _is_finite(self, node: int) -> bool:
        """Does an iterator or a counter decide?"""
        return self.kind(node) == "test" and any(self.is_iterated(each) or self.kind(each) == "step" for each in self.used(node))

    def is_iterated(self, node: int) -> bool:
        return self.kind(node) == "call" and self.nodes[node].text.endswith(_ITERATES)

    def is_lambda(self, node: int) -> bool:
        return self.kind(node) == "call" and self.nodes[node].text.startswith(f"{LAMBDA}.")

    def kind(self, node: int) -> str:
        return self.nodes[node].kind if node in self.nodes else ""

    def used(self, node: int) -> Iterable[int]:
        """The nodes and parameters that any operand of a node may come from."""
        return (each for operand in self.uses[node] for each in operand)

    def roots(self, values: Iterable[int]) -> frozenset[int]:
        """The same values, with those that were assigned instead of the assignments."""
        found: set[int] = set()
        stack = list(values)
        while stack:
            here = stack.pop()
            if here not in found:
                found.add(here)
                if self.kind(here) == "set":
                    stack += self.used(here)
        return frozenset(each for each in found if self.kind(each) != "set")

    def reaches(self, start: int, node: int) -> bool:
        """Can the node be executed after the start?"""
        if start not in self._reach:
            self._reach[start] = self.reached([*self.after[start], *self.caught[start]])
        return node in self._reach[start]

    @cached_property
    def reachable(self) -> list[int]:
        return sorted(node for node in self.reached(self.entry) if node >= _FIRST)

    @cached_property
    def call_nodes(self) -> dict[int, int]:
        """By ordinal."""
        return {node.ordinal: number for number, node in self.nodes.items() if node.kind == "call"}

    # --- exceptions

    def handlers(self, node: int) -> list[int]:
        """The `catch` clauses that an exception of a node may reach, without those that always throw it again (`finally`)."""
        return [each for each in self.caught[node] if each not in self._rethrowing]

    def catches_everything(self, handlers: Iterable[int]) -> bool:
        return any(self.nodes[each].text in _EVERYTHING for each in handlers)

    @cached_property
    def _rethrowing(self) -> frozenset[int]:
        catches = [number for number, node in self.nodes.items() if node.kind == "catch"]
        return frozenset(each for each in catches if self._rethrows(each))

    def _rethrows(self, handler: int) -> bool:
        ways = self._ahead([handler])
        ends = [node for node in ways if self.kind(node) == "return" or RAISED in self.after[node]]
        throws = [node for node in ends if self.kind(node) == "throw" and handler in self.roots(self.used(node))]
        return bool(ends) and len(throws) == len(ends)

    def _ahead(self, starts: Iterable[int]) -> set[int]:
        """The nodes on paths from these ones without exceptions that nothing throws explicitly."""
        found: set[int] = set()
        stack = list(starts)
        while stack:
            here = stack.pop()
            if here not in found and here >= _FIRST:
                found.add(here)
                stack += self.after[here]
        return found

    # --- for people

    def where(self, node: int) -> str:
        return f"{self.file}:{self.nodes[node].line}"

    def line(self, node: int) -> Line:
        return Line(self.where(node), self.described(node))

    def described(self, node: int) -> str:
        found = self.nodes[node]
        short = ".".join(found.text.split(".")[-2:]).replace("$", ".")
        match found.kind:
            case "call":
                return f"{short}()"
            case "get" | "put":
                return f"{short} is {'read' if found.kind == 'get' else 'written'}"
            case "new" | "throw" | "catch":
                return f"{found.kind} {short}".strip()
            case "test":
                return "a test"
            case _:
                return "an assignment" if found.kind in ("set", "step") else found.kind


def _shifted(uses: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(each + _FIRST if each >= 0 else each for each in operand) for operand in uses)


def _read(raw: msgspec.Raw) -> Body | None:
    """The body; None if it has another form, or names nodes that it doesn't have. The analyser reads hostile files."""
    try:
        body = msgspec.json.decode(raw, type=Body | None)
    except msgspec.MsgspecError:
        return None
    if body is None:
        return None
    named = [*body.entry]
    for node in body.nodes:
        named += (*node.caught, *(each for operand in node.uses for each in operand), *node.next)
    return body if all(each < len(body.nodes) for each in named) else None


class Methods:
    """The methods of a program, by name."""

    def __init__(
        self,
        bodies: Mapping[str, msgspec.Raw],
        callees: Mapping[str, Mapping[int, tuple[str, ...]]],
        operations: Mapping[str, str],
    ) -> None:
        """`operations`: by call site, the operation that a call does."""
        self._bodies, self._callees, self.operations = bodies, callees, operations
        self._known: dict[str, Method | None] = {}
        self._packages = frozenset(id.partition(":")[0] for id in bodies)
        self._classes = frozenset(id.partition("(")[0].rpartition(".")[0] for id in bodies)

    def has(self, id: str) -> bool:
        return id in self._bodies

    def has_package(self, package: str) -> bool:
        return package in self._packages

    def method(self, id: str) -> Method | None:
        """The method; None if it isn't known, or is too large."""
        if id not in self._known:
            body = _read(self._bodies.get(id, msgspec.Raw(b"null")))
            self._known[id] = Method(id, body, self._callees.get(id, {})) if body is not None else None
        return self._known[id]

    def callees(self, method: Method, call: int) -> tuple[str, ...]:
        """The program's own methods that a call may run."""
        return tuple(each for each in method.callees.get(method.nodes[call].ordinal, ()) if each in self._bodies)

    def is_own(self, method: Method, call: int) -> bool:
        """Is the called method declared by a class of the program?"""
        owner = method.nodes[call].text.rpartition(".")[0]
        package, _, name = owner.rpartition(".")
        if owner == LAMBDA:
            return False
        return f"{package}:{name.replace('$', '.')}" in self._classes or package in self._packages

    def operation(self, method: Method, call: int) -> str:
        return self.operations.get(f"{method.id}{LOC}{method.nodes[call].ordinal}", "")


def method_name(id: str) -> str:
    """The name of the method alone, without its class and the types of its parameters."""
    return id.partition("(")[0].rpartition(".")[2]
