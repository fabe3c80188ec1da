"""Writes docs/plugin-objects.md from the docstrings and signatures of the code: `make docs`. A test compares them."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).parent / "plugin-objects.md"

HEAD = """\
<!-- Written by `make docs` from the docstrings of the code. Change those, not this page. -->

# The objects of a plug-in file

Look up here what `hunt.py` can import from `undermine`, and what your functions get. [Ledgers](ledgers.md) and
[policies](policies.md) have pages of their own.

Each call of your file (the workload, the final reads, a checker) runs in a process of its own, in which the file is already
loaded. So a workload can't pass values to a checker in variables: record them with `s.attempt`.
"""

SECTIONS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "Functions that you declare",
        "undermine.userland.registry",
        ("workload", "final", "checker", "check", "filter", "cluster"),
    ),
    ("`s`: the session", "undermine.userland.workloads", ("Session", "Outcome", "Refused")),
    ("`s.nodes`, `s.node(…)`, `s.role(…)`: nodes", "undermine.model.run", ("NodeInfo",)),
    ("`run`: what a checker gets", "undermine.model.run", ("RunView", "Op", "Verdict")),
    ("`run.faults`: the faults that took effect", "undermine.model.injected", ("InjectedFault", "Stage")),
    ("`run.trace`: what agents observed", "undermine.model.event", ("Trace", "Event")),
    ("`run.logs` and `run.baseline`", "undermine.model.run", ("LogLine",)),
    ("", "undermine.model.baseline", ("Baseline",)),
    (
        "`run.record`: the facts of the run",
        "undermine.model.run",
        ("RunRecord", "Receipt", "NodeExit", "WorkloadResult", "Settling"),
    ),
)
"""Headings, with the module and the names that each one is about."""
TYPES = {"Answer", "OpStatus", "Phase", "RunStatus"}
"""Names for sets of words that are written out."""

BAR = "\\|"
"""A bar inside a table."""


class Entry(NamedTuple):
    """One attribute or method."""

    name: str
    type: str
    text: str


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    literals = dict(found for _, module, _ in SECTIONS for node in _body(module) for found in _literals(node))
    for heading, module, names in SECTIONS:
        parts += [f"## {heading}\n"] if heading else []
        nodes = {node.name: node for node in _body(module) if isinstance(node, ast.ClassDef | ast.FunctionDef)}
        for name in names:
            node = nodes[name]
            parts.append(_class(node, literals) if isinstance(node, ast.ClassDef) else _declared(node))
    return "\n".join(parts)


def _body(module: str) -> list[ast.stmt]:
    return ast.parse(inspect.getsource(importlib.import_module(module))).body


def _declared(node: ast.FunctionDef) -> str:
    """A decorator, or `undermine.check`, which is called."""
    title = f"undermine.check{_signature(node)}" if node.name == "check" else f"@undermine.{node.name}"
    return f"### `{title}`\n\n{_text(node)}\n"


def _class(node: ast.ClassDef, literals: dict[str, str]) -> str:
    entries = list(entries_of(node))
    lines = [f"### {node.name}\n", f"{_text(node)}\n"]
    if attributes := [entry for entry in entries if entry.type]:
        lines += ["| name | type | meaning |", "|---|---|---|"]
        for entry in attributes:
            cells = (f"`{entry.name}`", f"`{literals.get(entry.type, entry.type)}`", entry.text)
            lines.append(f"| {' | '.join(cell.replace('|', BAR) for cell in cells)} |")
        lines.append("")
    for entry in entries:
        if not entry.type:
            lines.append(f"**`{entry.name}`**: {entry.text}\n")
    return "\n".join(lines)


def entries_of(node: ast.ClassDef) -> Iterator[Entry]:
    """The public attributes of a class, then its methods, which have no type of their own."""
    yield from _fields(node.body)
    methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
    for each in methods:
        if each.name == "__init__":
            yield from _fields(each.body)
    public = [each for each in methods if not each.name.startswith("_")]
    for each in public:
        if _decorators(each) & {"property", "cached_property"}:
            yield Entry(each.name, ast.unparse(each.returns) if each.returns else "", _text(each))
    for each in public:
        if not _decorators(each) & {"property", "cached_property"}:
            owner = f"{node.name}." if "staticmethod" in _decorators(each) else ""
            yield Entry(f"{owner}{each.name}{_signature(each)}", "", _text(each))


def _fields(body: list[ast.stmt]) -> Iterator[Entry]:
    """The annotated attributes, each with the text below it."""
    for statement, below in zip(body, [*body[1:], ast.Pass()], strict=True):
        if not isinstance(statement, ast.AnnAssign):
            continue
        target = statement.target
        name = target.attr if isinstance(target, ast.Attribute) else target.id if isinstance(target, ast.Name) else "_"
        if not name.startswith("_"):
            text = below.value.value if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) else ""
            yield Entry(name, ast.unparse(statement.annotation), _joined(str(text)))


def _literals(node: ast.stmt) -> Iterator[tuple[str, str]]:
    """The names of this module for sets of words, written out: `"pass" | "fail" | "unknown"`."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Subscript):
        words = node.value.slice
        if node.targets[0].id in TYPES and isinstance(words, ast.Tuple):
            yield node.targets[0].id, " | ".join(ast.unparse(word).replace("'", '"') for word in words.elts)


def _signature(node: ast.FunctionDef) -> str:
    """The names of the arguments with their defaults, and the type of the result."""
    bare = ast.parse(ast.unparse(node)).body[0]
    assert isinstance(bare, ast.FunctionDef)
    for each in (*bare.args.args, *bare.args.kwonlyargs, *filter(None, [bare.args.vararg])):
        each.annotation = None
    arguments = ast.unparse(bare.args).removeprefix("self, ").replace("''", '""')
    returns = ast.unparse(node.returns) if node.returns else "None"
    return f"({arguments})" + (f" -> {returns}" if returns != "None" else "")


def _decorators(node: ast.FunctionDef) -> set[str]:
    return {ast.unparse(each) for each in node.decorator_list}


def _text(node: ast.ClassDef | ast.FunctionDef) -> str:
    """The docstring, a line for each paragraph."""
    return "\n\n".join(_joined(part) for part in (ast.get_docstring(node) or "").split("\n\n"))


def _joined(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    PAGE.write_text(page())
