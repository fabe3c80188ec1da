"""Finds the harm that an unexpected result of an operation may do in compiled code: everything that it may reach.

An answer without any impact excludes a prediction. So values are followed widely, also into the methods that get them, and the
answer is `Unknown` where they aren't followed further.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from undermine.program.bytecode.methods import Method, Methods
from undermine.program.bytecode.slices import Cause, Origin, Slice, Slices
from undermine.program.bytecode.stacks import Level, Stacks, chain
from undermine.program.dependence.answers import IMPACTS, Impact, ImpactKind, Line, Unknown
from undermine.program.dependence.lifting import STACK_MAX, without_repeats
from undermine.program.dependence.ways import RAISED
from undermine.program.source.names import words

_CALLEES_DEPTH = 3
"""The number of calls over which a value, or a decision, is followed into methods off the stack."""
_ERRORS = words("error fatal severe")
_SENDS = words("net.send net.connect msg.send")
_PUTS = words("add addFirst addLast put offer push")
_RUNS = words("submit execute invokeAll invokeAny schedule scheduleAtFixedRate scheduleWithFixedDelay")
_QUEUES = re.compile(r"(Queue|Deque)$")
_EXECUTORS = re.compile(r"(Executor|ExecutorService|Timer)$")
_FUTURES = re.compile(r"(Future|Promise)$")


class Impacts:
    """Finds impacts."""

    def __init__(self, methods: Methods, stacks: Stacks, slices: Slices) -> None:
        self._methods, self._stacks, self._slices = methods, stacks, slices
        self._harm: dict[tuple[str, int], frozenset[ImpactKind] | None] = {}
        self._fed: dict[tuple[str, frozenset[int], int], frozenset[ImpactKind] | None] = {}

    def of(self, stack: Sequence[str], resource: str = "") -> tuple[Impact, ...] | Unknown:
        """The impacts of an operation, the worst first. Unknown if the value is only kept, or goes where it isn't followed."""
        found: dict[tuple[ImpactKind, str], Impact] = {}
        missing: Unknown | None = None
        last: Level | None = None
        depth = -1
        for depth, level in enumerate(self._stacks.levels(stack, resource, "wide")):
            if isinstance(level, Unknown):
                missing = level
                break
            last = level
            for impact in self._impacts(level, depth):
                if isinstance(impact, Unknown):
                    missing = impact
                else:
                    found.setdefault((impact.kind, impact.where), impact)
        if last is not None and depth == len(stack) - 1 and len(stack) < STACK_MAX:
            for impact in self._at_the_end(last, depth):
                found.setdefault((impact.kind, impact.where), impact)
            if "may fail" in last.found.failures:
                missing = Unknown("an exception that depends on the value may end the thread")
        if missing is not None and all(kind == "kept" for kind, _ in found):
            return missing
        return tuple(sorted(found.values(), key=lambda impact: (IMPACTS.index(impact.kind), impact.depth)))

    def _at_the_end(self, level: Level, depth: int) -> Iterator[Impact]:
        """The outermost method ends: its result is a reply, and an exception that nobody catches ends the thread."""
        ends: tuple[tuple[ImpactKind, Cause | None], ...] = (
            ("reply", level.found.returned),
            ("raise", level.found.failures.get("fails")),
        )
        for kind, cause in ends:
            if cause is not None:
                yield self._impact(level, depth, kind, level.found.method.line(cause.node), cause)

    @staticmethod
    def _impact(level: Level, depth: int, kind: ImpactKind, line: Line, cause: Cause) -> Impact:
        lines = without_repeats((*level.lines, *chain(level.found, cause), line))
        return Impact(kind, line.where, line.text, lines, depth)

    def _impacts(self, level: Level, depth: int) -> Iterator[Impact | Unknown]:
        method = level.found.method
        for node, kinds, cause in self._reached(level.found, 0, frozenset(level.frame.nodes)):
            if kinds is None:
                yield Unknown(f"the value is passed to {method.described(node)}, which isn't followed")
            else:
                yield from (self._impact(level, depth, kind, method.line(node), cause) for kind in sorted(kinds))

    def _reached(
        self, found: Slice, depth: int, own: frozenset[int] = frozenset()
    ) -> Iterator[tuple[int, frozenset[ImpactKind] | None, Cause]]:
        """Everything in a method that does harm and depends on the origin; None for harm that isn't known.
        `own`: the nodes of the operation."""
        method = found.method
        for node in method.reachable:
            control, kind = found.controlled.get(node), method.kind(node)
            data = found.any_operand(node) if kind in ("throw", "call") else None
            cause = control or data
            if kind == "throw" and cause is not None:
                yield node, frozenset({"raise"}), cause
            elif kind == "call" and cause is not None and node not in own:
                yield node, self._of_call(found, node, depth, is_controlled=control is not None), cause
        for put in found.puts.values():
            if not put.roots or any(method.kind(root) != "new" for root in put.roots):
                yield put.node, frozenset({"kept"}), put.cause
        for root, by in found.touched.items():
            if (root < 0 or method.kind(root) == "get") and by:
                node, cause = next(iter(by.items()))
                if node not in own:
                    yield node, frozenset({"kept"}), cause

    def _of_call(self, found: Slice, call: int, depth: int, *, is_controlled: bool) -> frozenset[ImpactKind] | None:
        kind = self._kind(found.method, call)
        if kind is not None:
            return frozenset({kind})
        callees = self._methods.callees(found.method, call)
        if not callees:
            is_followed = not self._methods.is_own(found.method, call) or found.method.nodes[call].text.endswith(".<init>")
            return frozenset() if is_followed else None
        kinds: set[ImpactKind] = set()
        for callee in callees:
            more = self._in(callee, depth) if is_controlled else self._with(callee, found.passed(call), depth)
            if more is None:
                return None
            kinds |= more
        return frozenset(kinds)

    # --- methods off the stack

    def _in(self, id: str, depth: int) -> frozenset[ImpactKind] | None:
        """All harm that a method may do; None if that isn't known."""
        key = id, depth
        if key not in self._harm:
            self._harm[key] = None  # until it is known: it may call itself
            self._harm[key] = self._all_of(id, depth)
        return self._harm[key]

    def _all_of(self, id: str, depth: int) -> frozenset[ImpactKind] | None:
        method = self._methods.method(id)
        if method is None or depth >= _CALLEES_DEPTH:
            return None
        kinds: set[ImpactKind] = set()
        nothing = Slice(method, Origin())
        for node in method.reachable:
            kind = method.kind(node)
            if kind == "throw" or RAISED in method.after[node]:
                kinds.add("raise")
            elif kind == "put":
                kinds.add("kept")
            elif kind == "call":
                more = self._of_call(nothing, node, depth + 1, is_controlled=True)
                if more is None:
                    return None
                kinds |= more
        return frozenset(kinds)

    def _with(self, id: str, parameters: frozenset[int], depth: int) -> frozenset[ImpactKind] | None:
        """The harm that values of these parameters may do in a method; None if that isn't known."""
        key = id, parameters, depth
        if key not in self._fed:
            self._fed[key] = None
            self._fed[key] = self._by_values(id, parameters, depth)
        return self._fed[key]

    def _by_values(self, id: str, parameters: frozenset[int], depth: int) -> frozenset[ImpactKind] | None:
        method = self._methods.method(id)
        if method is None or depth >= _CALLEES_DEPTH:
            return None
        kinds: set[ImpactKind] = set()
        is_known = True
        for _, more, _ in self._reached(self._slices.of(method, Origin(parameters=parameters, mode="wide")), depth + 1):
            is_known = is_known and more is not None
            kinds |= more or set()
        return frozenset(kinds) if kinds or is_known else None

    # --- kinds of calls

    def _kind(self, method: Method, call: int) -> ImpactKind | None:
        owner, _, name = method.nodes[call].text.rpartition(".")
        if RAISED in method.after[call]:
            return "raise"
        if name in _ERRORS and owner.endswith(("Logger", "Log")):
            return "error"
        op = self._methods.operation(method, call)
        if op in _SENDS:
            return "send"
        if op == "process.start" or (name == "start" and len(method.uses[call]) == 1):
            return "start"
        if (name in _PUTS and _QUEUES.search(owner)) or (name in _RUNS and _EXECUTORS.search(owner)):
            return "event"
        return "event" if name.startswith("complete") and _FUTURES.search(owner) else None


