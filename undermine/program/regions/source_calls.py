"""The calls of a parsed program, as `Spread` asks for them."""

from __future__ import annotations

from collections.abc import Iterable

from undermine.program.regions.spread import Callee
from undermine.program.source.code import Code
from undermine.program.source.index import Function


class SourceCalls:
    """Implements `Calls`. Each function is read once."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self._calls: dict[str, list[tuple[int, list[Callee]]]] = {}

    def calls(self, id: str) -> list[tuple[int, list[Callee]]]:
        if id not in self._calls:
            self._calls[id] = list(self._found(id))
        return self._calls[id]

    def _found(self, id: str) -> Iterable[tuple[int, list[Callee]]]:
        flow = self._code.flow(self._code.index.functions[id])
        for action in flow.actions:
            callees = list(self._code.runs(flow, action))
            if wanted := [_callee(callee) for callee, sure in callees if sure or len(callees) == 1]:
                yield action.number, wanted

    def loose(self, id: str) -> Iterable[Callee]:
        return (_callee(self._code.index.functions[each]) for each in self._code.graph.loose.get(id, ()))


def _callee(function: Function) -> Callee:
    return Callee(function.id, function.short)
