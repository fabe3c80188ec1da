"""The facts of a compiled program, from what an analyser of its bytecode has found.

The analyser is another process, which `undermine/runtimes/jvm_classes.py` starts. It reads class files of the target, so the
types of its answer are checked like those of any hostile input. This module joins its findings with the calls that runs have
shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from undermine.program.bytecode.methods import Methods
from undermine.program.bytecode.queries import BytecodeDependence
from undermine.program.facts import Facts, Kind, Limit, Region, StaticPoint, Term, Trouble, counts_of, grouped
from undermine.program.regions.parts import RegionActions, RegionFunction, RegionPart
from undermine.program.regions.spread import Callee, Spread


class CompiledFunction(msgspec.Struct, frozen=True):
    """A function: the number of its calls, and by ordinal the program's functions that a call may run before it returns."""

    id: str
    count: int
    calls: tuple[tuple[int, tuple[str, ...]], ...]
    body: msgspec.Raw = msgspec.Raw(b"null")
    """A `Body`, or null if the function is too large. Only questions about dependence decode it."""


class CompiledPoint(msgspec.Struct, frozen=True):
    """A call that does I/O, and its basic block."""

    function: str
    ordinal: int
    file: str
    line: int
    op: str
    call: str
    block: int


class CompiledLimit(msgspec.Struct, frozen=True):
    """A limit that clock readings are compared with. Its value times `factor` is in seconds."""

    where: str
    factor: float
    module: str
    line: int
    text: str
    known: float | None

    @property
    def limit(self) -> Limit:
        return Limit(self.where, (Term(self.factor, self.module, (self.line, self.line), self.text, self.known),))


class CompiledRegion(msgspec.Struct, frozen=True):
    """Calls of a function that lie in a region; without `calls`, the whole function."""

    kind: Kind
    key: str
    where: str
    why: str
    function: str
    calls: tuple[int, ...] | None = None
    limits: tuple[CompiledLimit, ...] = ()

    @property
    def part(self) -> RegionPart:
        if self.calls is None:
            return RegionFunction(self.kind, self.key, self.where, self.why, self.function)
        limits = tuple(each.limit for each in self.limits)
        return RegionActions(self.kind, self.key, self.where, self.why, self.function, frozenset(self.calls), limits)


class Compiled(msgspec.Struct, frozen=True):
    """Everything that the analyser found in one program."""

    classes: int = 0
    lines: int = 0
    functions: tuple[CompiledFunction, ...] = ()
    points: tuple[CompiledPoint, ...] = ()
    regions: tuple[CompiledRegion, ...] = ()
    troubles: tuple[tuple[str, str], ...] = ()
    named_by_manifests: tuple[str, ...] = ()
    """Jars and folders that were read because a jar names them, also those that don't exist."""

    def facts(self, observed: Iterable[tuple[str, str]] = ()) -> Facts:
        """The facts, with calls that runs have shown: pairs of caller and callee, with `#ordinal` or without."""
        calls = _Calls(self.functions, observed)
        parts = [each.part for each in self.regions if calls.has(each.function)]
        spread = Spread(calls, parts)
        points = sorted(self._points(spread), key=lambda point: (point.file, point.line, point.loc))
        counts = counts_of(
            points,
            files=self.classes,
            lines=self.lines,
            functions=len(self.functions),
            calls=sum(function.count for function in self.functions),
            edges=len(calls),
        )
        return Facts(tuple(points), counts, tuple(Trouble(*each) for each in self.troubles), _sites(spread))

    def dependence(self) -> BytecodeDependence:
        """Answers questions about operations of this program."""
        bodies = {each.id: each.body for each in self.functions}
        callees = {each.id: dict(each.calls) for each in self.functions}
        operations = {f"{each.function}#{each.ordinal}": each.op for each in self.points}
        return BytecodeDependence(Methods(bodies, callees, operations))

    def _points(self, spread: Spread) -> Iterable[StaticPoint]:
        by_function: dict[str, list[CompiledPoint]] = {}
        for each in self.points:
            by_function.setdefault(each.function, []).append(each)
        for members in by_function.values():
            points = [_point(each, spread.regions(each.function, each.ordinal)) for each in members]
            yield from grouped(points, [each.block for each in members])


def _point(each: CompiledPoint, regions: tuple[Region, ...]) -> StaticPoint:
    return StaticPoint(f"{each.function}#{each.ordinal}", each.file, each.line, each.op, each.call, regions)


def _sites(spread: Spread) -> dict[str, tuple[Region, ...]]:
    """The regions of each call and of whole functions, without the regions of their callers."""
    sites: dict[str, tuple[Region, ...]] = {id: tuple(whole) for id, whole in spread.whole_functions.items()}
    for id, parts in spread.direct.items():
        for part in parts:
            for number in part.actions:
                loc = f"{id}#{number}"
                sites[loc] = (*sites.get(loc, ()), part.region)
    return sites


class _Calls:
    """Implements `Calls`: the analyser's call graph, and the calls that runs have shown."""

    def __init__(self, functions: Sequence[CompiledFunction], observed: Iterable[tuple[str, str]]) -> None:
        self._calls: dict[str, dict[int, dict[str, None]]] = {each.id: {} for each in functions}
        self._loose: dict[str, dict[str, None]] = {}
        for each in functions:
            for number, callees in each.calls:
                known = (callee for callee in callees if callee in self._calls)
                self._calls[each.id].setdefault(number, {}).update(dict.fromkeys(known))
        shown: dict[tuple[str, int], dict[str, None]] = {}
        for caller, callee in observed:
            self._observe(caller, callee.partition("#")[0], shown)
        for (function, number), called in shown.items():
            possible = self._calls[function].setdefault(number, {})
            if len(possible) > 1:  # a call that may mean several functions means those that runs showed
                possible.clear()
            possible.update(called)

    def _observe(self, caller: str, callee: str, shown: dict[tuple[str, int], dict[str, None]]) -> None:
        function, _, number = caller.partition("#")
        if function not in self._calls or callee not in self._calls:
            return
        if number.isdigit():
            shown.setdefault((function, int(number)), {})[callee] = None
        else:
            self._loose.setdefault(function, {})[callee] = None

    def __len__(self) -> int:
        return sum(len(callees) for calls in self._calls.values() for callees in calls.values())

    def has(self, id: str) -> bool:
        return id in self._calls

    def calls(self, id: str) -> list[tuple[int, list[Callee]]]:
        return [(number, [_callee(each) for each in callees]) for number, callees in sorted(self._calls[id].items())]

    def loose(self, id: str) -> Iterable[Callee]:
        return (_callee(each) for each in self._loose.get(id, ()))


def _callee(id: str) -> Callee:
    return Callee(id, id.partition(":")[2])
