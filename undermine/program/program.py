"""From source folders to facts. Files are read and parsed, never imported or run; the same files give the same facts.

1. `sources` reads and parses all files.
2. `index`, `inference` and `values` find what each name may be, and `calls` who calls whom.
3. `locking`, `serving`, `signals`, `clocks` and `limits` search for regions.
4. `operations` finds the I/O operations, and `spread` the regions that each lies in, directly or through calls.
5. `call_sites` names their call sites. Points are grouped by basic block and counted.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import os
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from undermine.program.facts import LOOP, Facts, Region, StaticPoint, Trouble, counts_of, grouped
from undermine.program.regions.clocks import Clocks
from undermine.program.regions.limits import Limits
from undermine.program.regions.locking import Locking
from undermine.program.regions.parts import RegionPart
from undermine.program.regions.readings import Readings
from undermine.program.regions.serving import Serving
from undermine.program.regions.signals import Signals
from undermine.program.regions.source_calls import SourceCalls
from undermine.program.regions.spread import Spread
from undermine.program.source.blocks import Action
from undermine.program.source.call_sites import CallSites
from undermine.program.source.code import Code
from undermine.program.source.index import Function
from undermine.program.source.operations import Named, blocks_the_loop, closes, fetches, runs_a_loop
from undermine.program.source.sources import TESTS, Source, read


class Operation(NamedTuple):
    """An I/O operation of a function."""

    function: Function
    action: Action
    op: str
    call: str


@contextlib.contextmanager
def _without_collecting() -> Iterator[None]:
    """Pause garbage collection: all objects live until the end, and collecting would take a third of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class Program:
    """A parsed program. `with_observed` adds calls that runs have shown; `facts()` returns the facts."""

    def __init__(
        self, sources: Iterable[Source], troubles: Iterable[Trouble] = (), named: Iterable[Named] = ()
    ) -> None:
        self.sources, self.troubles = list(sources), list(troubles)
        self.code = Code(self.sources, named)
        self._call_sites: dict[str, CallSites] = {}

    @classmethod
    @_without_collecting()
    def read(
        cls,
        folders: Iterable[str | os.PathLike[str]],
        named: Iterable[Named] = (),
        skip: Iterable[str] = TESTS,
    ) -> Program:
        sources, troubles = read(folders, skip)
        return cls(sources, troubles, named)

    # --- what runs have shown

    def with_observed(self, edges: Iterable[tuple[str, str]]) -> Program:
        """Add calls that runs have shown: pairs of caller and callee, as `module:qualname`, with `#ordinal` or without.

        With the caller's ordinal, the edge belongs to that one call, so the locks held there are known. Functions that
        are not part of the program are ignored.
        """
        for caller, callee in edges:
            above = self._function(caller)
            below = self._function(callee)
            if above is not None and below is not None:
                self.code.graph.observe(above, self._site(above, caller), below)
        return self

    def _function(self, loc: str) -> Function | None:
        return self.code.index.functions.get(loc.partition("#")[0])

    def _site(self, function: Function, loc: str) -> ast.AST | None:
        call_sites = self.call_sites_of(function.module) if "#" in loc else None
        if call_sites is None:
            return None
        for action in self.code.flow(function).actions:
            if action.kind == "call" and isinstance(action.node, ast.Call) and loc in self.locs(call_sites, action):
                return action.node
        return None

    # --- facts

    @_without_collecting()
    def facts(self) -> Facts:
        operations = [each for function in self.code.functions for each in self._operations(function)]
        readings = Readings(self.code)
        serving = Serving(self.code, readings)
        spread = Spread(SourceCalls(self.code), self._region_parts(serving, readings))
        blocked = serving.blocked()
        points: list[StaticPoint] = []
        for function, members in _by_function(operations):
            points.extend(self._points(function, members, spread, blocked.get(function.id)))
        points.sort(key=lambda point: (point.file, point.line, point.loc, point.op))
        counts = counts_of(
            points,
            files=len(self.sources),
            lines=sum(source.lines for source in self.sources),
            functions=len(self.code.index.functions),
            calls=sum(len(function.calls) for function in self.code.functions),
            edges=len(self.code.graph),
        )
        served = {
            id: Region(LOOP, where, f"it blocks the event loop: {why}")
            for id, (where, why, depth) in blocked.items()
            if depth == 0
        }
        sites = self._sites(spread)
        return Facts(tuple(points), counts, (*self.troubles, *self.code.troubles), sites, served)

    def _sites(self, spread: Spread) -> dict[str, tuple[Region, ...]]:
        """The regions of each call and of whole functions, without the regions of their callers."""
        sites: dict[str, tuple[Region, ...]] = {}
        for id, whole in spread.whole_functions.items():
            sites[id] = tuple(whole)
        for id, parts in spread.direct.items():
            function = self.code.index.functions[id]
            call_sites = self.call_sites_of(function.module)
            if call_sites is None:
                continue
            for action in self.code.flow(function).actions:
                here = [part for part in parts if action.number in part.actions]
                if regions := tuple(part.region for part in here):
                    sites.update(dict.fromkeys(self.locs(call_sites, action), regions))
        return sites

    def _region_parts(self, serving: Serving, readings: Readings) -> Iterator[RegionPart]:
        limits = Limits(self.code, readings)
        yield from Locking(self.code).regions()
        yield from serving.regions()
        yield from Signals(self.code, limits.limited_calls).found()
        yield from Clocks(self.code, readings).regions()
        yield from limits.found()

    def _operations(self, function: Function) -> Iterator[Operation]:
        for action in self.code.flow(function).actions:
            if action.kind == "call" and isinstance(action.node, ast.Call):
                own = [callee.id for callee in self.code.graph.callees(action.node)]
                op, call = self.code.operations.of(action.node, self.code.refs(function, action.node.func), own)
                if op:
                    yield Operation(function, action, self._on_pipe(function, action.node, op), call)
            elif action.kind in ("exit", "next"):
                of = closes if action.kind == "exit" else fetches
                op = of(self.code.refs(function, action.node))
                if op:
                    yield Operation(function, action, op, "with" if action.kind == "exit" else "for")

    def _on_pipe(self, function: Function, call: ast.Call, op: str) -> str:
        """Replace the file operation by the pipe's, if `os.read` or `os.write` is called on a pipe."""
        if op in ("file.read", "file.write") and call.args and "os.pipe" in self.code.made(function, call.args[0]):
            return op.replace("file", "pipe")
        return op

    def _points(
        self, function: Function, operations: list[Operation], spread: Spread, loop: tuple[str, str, int] | None
    ) -> Iterator[StaticPoint]:
        call_sites = self.call_sites_of(function.module)
        if call_sites is None:
            return
        points, blocks, flow = [], [], self.code.flow(function)
        for each in operations:
            locs = self.locs(call_sites, each.action)
            if locs:
                regions = spread.regions(function.id, each.action.number)
                if runs_a_loop(each.call):
                    where, why = (
                        self.code.where(function, each.action.node),
                        "the event loop receives everything here",
                    )
                    regions = (*regions, Region(LOOP, where, why))
                elif loop is not None and blocks_the_loop(each.call, each.action.awaited is not None):
                    where, why, depth = loop
                    regions = (*regions, Region(LOOP, where, f"it blocks the event loop: {why}", depth))
                line = getattr(each.action.node, "lineno", 0)
                file = self.code.index.sources[function.module].file
                points.append(StaticPoint(locs[0], file, line, each.op, each.call, regions, also=tuple(locs[1:])))
                blocks.append(flow.basic[each.action.block])
        yield from grouped(points, blocks)

    def locs(self, call_sites: CallSites, action: Action) -> list[str]:
        """The call sites of an action."""
        node, statement = action.node, action.statement
        if action.kind == "exit" and isinstance(statement, ast.With | ast.AsyncWith):
            item = next(item for item in statement.items if item.context_expr is node)
            return call_sites.of_exit(statement, item)
        if action.kind == "next" and statement is not None:
            return call_sites.of_next(statement, node)
        if not isinstance(node, ast.Call):
            return []
        awaited = call_sites.of_await(action.awaited) if isinstance(action.awaited, ast.Await) else []
        return list(dict.fromkeys([*call_sites.of_call(node, entered=action.entered), *awaited]))

    def call_sites_of(self, module: str) -> CallSites | None:
        """The call sites of a module; None if it can't be compiled."""
        if module not in self._call_sites:
            source = self.code.index.sources[module]
            try:
                self._call_sites[module] = CallSites(source)
            except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
                self.troubles.append(Trouble(source.file, f"{type(error).__name__}: {str(error)[:200]}"))
                return None
        return self._call_sites[module]


def _by_function(operations: list[Operation]) -> Iterator[tuple[Function, list[Operation]]]:
    found: dict[str, list[Operation]] = {}
    for each in operations:
        found.setdefault(each.function.id, []).append(each)
    for members in found.values():
        yield members[0].function, members


def analyse(
    folders: Iterable[str | os.PathLike[str]],
    named: Iterable[Named] = (),
    observed: Iterable[tuple[str, str]] = (),
    skip: Iterable[str] = TESTS,
) -> Facts:
    """All facts of the program in these source folders."""
    return Program.read(folders, named, skip).with_observed(observed).facts()


def calls_in(stacks: Iterable[Iterable[str]]) -> Iterator[tuple[str, str]]:
    """The pairs of caller and callee in these stacks (`loc`s, innermost first), for `with_observed`."""
    for stack in stacks:
        locs = list(stack)
        yield from ((caller, callee) for callee, caller in pairwise(locs))
