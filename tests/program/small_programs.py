"""Small programs as texts, and what the analysis says of them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from undermine.program import Facts, Named, Program, StaticPoint
from undermine.program.source.sources import parse


def program(named: Iterable[Named] = (), **modules: str) -> Program:
    """A program of these modules; two underscores stand for a dot."""
    names = {name.replace("__", "."): textwrap.dedent(text) for name, text in modules.items()}
    packages = {name.rpartition(".")[0] for name in names}
    return Program(
        [
            parse(text, name, f"{name}/__init__.py" if name in packages else f"{name}.py")
            for name, text in names.items()
        ],
        named=named,
    )


def facts(text: str, named: Iterable[Named] = ()) -> Facts:
    """The facts found in one module, `m`."""
    return program(named, m=text).facts()


def points(text: str, named: Iterable[Named] = ()) -> tuple[StaticPoint, ...]:
    return facts(text, named).points


def kinds(text: str, marker: str = "IO", named: Iterable[Named] = ()) -> set[str]:
    """The kinds of regions of the points on the lines with a comment `# IO`."""
    text = textwrap.dedent(text)
    lines = {number for number, line in enumerate(text.splitlines(), 1) if line.endswith(f"# {marker}")}
    assert lines, "the text has no such line"
    found = [point for point in points(text, named) if point.line in lines]
    assert {point.line for point in found} == lines, "an operation was not found"
    each = [{region.kind for region in point.regions} for point in found]
    assert all(one == each[0] for one in each), f"the points differ: {each}"
    return set(each[0])


def why(text: str, marker: str = "IO") -> str:
    text = textwrap.dedent(text)
    lines = {number for number, line in enumerate(text.splitlines(), 1) if line.endswith(f"# {marker}")}
    return "; ".join(point.why for point in points(text) if point.line in lines)
