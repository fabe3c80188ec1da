"""The values at messages as input of the invariant detector Daikon: declarations (`.decls`) and a data trace (`.dtrace`), both of
version 2.0.

Each sender, receiver and kind of message is a program point. Its variables are those of both nodes, named as in triggers. Only
variables with the same metadata and key are comparable. A container is an array. An absent or unknown value is nonsensical.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple
from zlib import crc32

from undermine.analysis.agreement.mining import exchanges_of
from undermine.analysis.agreement.relations import elements_of, number_of
from undermine.analysis.agreement.samples import Samples, Value, Variable
from undermine.analysis.trace_analysis import TraceAnalysis

_TEXT, _ARRAY = "java.lang.String", "java.lang.String[]"
_WHOLE_MAX = 1 << 63


class DaikonFiles(NamedTuple):
    """The texts of the two files. `java daikon.Daikon x.decls x.dtrace` reads them."""

    decls: str
    dtrace: str


def daikon_files(runs: Iterable[tuple[TraceAnalysis, Samples]]) -> DaikonFiles:
    """The messages of these runs as Daikon's input."""
    points: dict[tuple[str, str, str], _Point] = defaultdict(_Point)
    for analysis, samples in runs:
        for exchange in exchanges_of(analysis, samples):
            mine = [v for v in samples.variables if v.node == exchange.sender]
            theirs = [v for v in samples.variables if v.node == exchange.receiver]
            columns: dict[Variable, list[Value]] = {}
            for variable in (*mine, *theirs):
                places = exchange.sent if variable.node == exchange.sender else exchange.handled
                values = samples.at(samples.number[variable], places).tolist()
                columns[variable] = [samples.text(value) for value in values]
            comparable = {variable: (samples.metadata_of(variable), variable.key) for variable in columns}
            for at, kind in enumerate(exchange.kind.tolist()):
                point = points[exchange.sender, exchange.receiver, exchange.kinds[kind]]
                point.comparable.update(comparable)
                point.records.append({variable: column[at] for variable, column in columns.items()})
    decls, dtrace = ["decl-version 2.0", "var-comparability implicit", ""], []
    for (sender, receiver, kind), point in sorted(points.items()):
        name = _escaped(f"{sender}.{receiver}({kind.replace(':::', '::')}):::POINT")
        decls += [f"ppt {name}", "ppt-type point", *point.declarations(), ""]
        dtrace += [line for record in point.lines() for line in (name, *record, "")]
    return DaikonFiles("\n".join(decls), "\n".join(dtrace))


class _Point:
    """One program point: its variables, and their values at each message."""

    def __init__(self) -> None:
        self.comparable: dict[Variable, tuple[str, str]] = {}
        self.records: list[dict[Variable, Value]] = []

    def _types(self) -> dict[Variable, str]:
        found = {}
        for variable in sorted(self.comparable):
            values = {value for record in self.records if isinstance(value := record.get(variable), str)}
            found[variable] = _type_of(values)
        return found

    def declarations(self) -> Iterator[str]:
        groups = {group: number for number, group in enumerate(sorted(set(self.comparable.values())), 1)}
        for variable, kind in self._types().items():
            name, own = _escaped(str(variable)), ("hashcode" if kind == _ARRAY else kind)
            group = groups[self.comparable[variable]]
            yield from _declared(name, "variable", own, group)
            if kind == _ARRAY:
                yield from _declared(f"{name}[..]", "array", kind, group, f"enclosing-var {name}", "array 1")

    def lines(self) -> Iterator[Iterable[str]]:
        """The lines of each record, without the name of the point."""
        types = self._types()
        for record in self.records:
            yield chain.from_iterable(_lines(str(one), kind, record.get(one)) for one, kind in types.items())


def _type_of(values: set[str]) -> str:
    """The type that all values of a variable have."""
    numbers = [number_of(value) for value in values]
    if values and all(isinstance(number, int) and -_WHOLE_MAX <= number < _WHOLE_MAX for number in numbers):
        return "int"
    if values and None not in numbers:
        return "double"
    return _ARRAY if values and all(elements_of(value) is not None for value in values) else _TEXT


def _declared(name: str, kind: str, type_: str, group: int, *more: str) -> Sequence[str]:
    facts = f"var-kind {kind}", *more, f"dec-type {type_}", f"rep-type {type_}", f"comparability {group}"
    return [f"variable {name}", *(f"  {fact}" for fact in facts)]


def _lines(name: str, kind: str, value: Value) -> Iterator[str]:
    name = _escaped(name)
    if kind != _ARRAY:
        yield from _line(name, value if not isinstance(value, str) or kind != _TEXT else _quoted(value))
        return
    elements = elements_of(value) if isinstance(value, str) else None
    yield from _line(name, None if elements is None else str(crc32(str(value).encode())))
    yield from _line(f"{name}[..]", None if elements is None else f"[{' '.join(map(_quoted, sorted(elements)))}]")


def _line(name: str, value: Value) -> tuple[str, str, str]:
    """Name, value and modified bit. The bit 2 belongs to nonsensical values; for others, 1 is always safe."""
    return (name, value, "1") if isinstance(value, str) else (name, "nonsensical", "2")


def _quoted(text: str) -> str:
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{text}"'


def _escaped(name: str) -> str:
    """A name of a program point or a variable, on one line and without blanks."""
    return "\\_".join(name.replace("\\", "\\\\").split())
