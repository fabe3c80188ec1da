"""Placeholders such as `{id}`, `{port.gossip}` or `{peers.store}` in commands, environments and paths.

Pure functions from a template and the facts of a run to text. Only `{java}` asks the system.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Iterable, Mapping

import msgspec

from undermine.model.errors import UserError
from undermine.model.run import NodeInfo
from undermine.resources import java_program, python_launcher

Value = str | int | float | bool

DEFAULT_ENTRY = "{id}={host}:{port}"
DEFAULT_JOIN = ","

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_LOOKS_LIKE_A_NAME = re.compile(r"[\w.-]*")


class NodeFacts(msgspec.Struct, frozen=True):
    """The facts about one node that a template may use. `index` counts from 1 within the role."""

    id: str
    role: str
    index: int
    host: str
    ports: dict[str, int]
    dir: str

    @staticmethod
    def of(info: NodeInfo, index: int) -> NodeFacts:
        return NodeFacts(info.id, info.role, index, info.host, info.ports, info.dir)


class Entry(msgspec.Struct, frozen=True):
    """How a role writes one node in a list of nodes, and the text between two nodes."""

    format: str = DEFAULT_ENTRY
    join: str = DEFAULT_JOIN


class Values(msgspec.Struct, frozen=True):
    """The values of all placeholders. `node` is the node itself, or None for the workload."""

    nodes: tuple[NodeFacts, ...]
    node: NodeFacts | None = None
    run: str = ""
    project: str = ""
    python: str = sys.executable
    launcher: str = str(python_launcher())
    params: Mapping[str, Value] = {}
    entries: Mapping[str, Entry] = {}


class TemplateError(UserError):
    """A template that cannot be rendered.

    `predicate` is the sentence without its subject; `entry_of` names the role whose `peers` format is
    at fault, or is empty when it is the template itself.
    """

    def __init__(self, template: str, predicate: str, entry_of: str = "") -> None:
        super().__init__(f'The template "{template}" {predicate}')
        self.predicate = predicate
        self.entry_of = entry_of


def did_you_mean(word: str, known: Iterable[str], show: str = '"{}"') -> str:
    """`; did you mean "x"?` for the nearest known word, or nothing."""
    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return "; did you mean " + show.replace("{}", by_lower[near[0]]) + "?" if near else ""


def render(template: str, values: Values) -> str:
    """The template with every placeholder replaced; `{{` and `}}` are literal braces."""
    return _render(template, _table(values))


def render_command(words: Iterable[str], values: Values) -> tuple[str, ...]:
    """Render every word. A list of nodes that is joined by spaces and alone in its word becomes one word for each node."""
    table = _table(values)
    rendered: list[str] = []
    for word in words:
        found = _TOKEN.fullmatch(word)
        name = found[1] if found else None
        if name is not None and name in table and _is_list(name) and _join_of(name, values) == " ":
            rendered += [_render(word, {name: part}) for part in _list_parts(name, values)]
        else:
            rendered.append(_render(word, table))
    return tuple(rendered)


def placeholders(template: str) -> tuple[str, ...]:
    """The names between braces, known or not."""
    return tuple(found[1] for found in _TOKEN.finditer(template) if found[1] is not None)


_Table = Mapping[str, Callable[[], str]]


def _render(template: str, table: _Table) -> str:
    def replace(found: re.Match[str]) -> str:
        token, name = found[0], found[1]
        if token in ("{{", "}}"):
            return token[0]
        if name is None:
            raise TemplateError(template, f'has a lone "{token}"; write "{token}{token}" for a literal brace')
        if name not in table:
            raise TemplateError(template, _unknown(name, table))
        return table[name]()

    return _TOKEN.sub(replace, template)


def _unknown(name: str, table: _Table) -> str:
    known = list(dict.fromkeys(_shortened(key) for key in table))
    hint = did_you_mean(name, table, "{{}}")
    if not hint and not _LOOKS_LIKE_A_NAME.fullmatch(name):
        hint = '; write "{{" and "}}" for literal braces'
    listed = ", ".join(f"{{{key}}}" for key in known)
    return f"has an unknown placeholder {{{name}}}{hint} (known here: {listed})"


def _shortened(key: str) -> str:
    """`nodes.s1.port.rpc` as `nodes.ID.port.NAME`, to keep the list of placeholders short."""
    parts = key.split(".")
    if parts[0] != "nodes":
        return key
    return ".".join(["nodes", "ID", parts[2]] + ["NAME"] * (len(parts) > 3))


def _table(values: Values) -> _Table:
    """Every placeholder with a function that returns its text. Lists of nodes are rendered on demand."""
    table: dict[str, Callable[[], str]] = {}
    if values.node is not None:
        table |= _node_table(values.node)
    table |= _common_table(values)
    for role in ("", *dict.fromkeys(node.role for node in values.nodes)):
        for kind in ("peers", "all"):
            name = f"{kind}.{role}" if role else kind
            if _is_list(name):
                table[name] = _joined(name, values)
    for node in values.nodes:
        for name, text in _node_table(node).items():
            if name.split(".")[0] in ("host", "port", "dir"):
                table[f"nodes.{node.id}.{name}"] = text
    return table


def _node_table(node: NodeFacts) -> dict[str, Callable[[], str]]:
    facts: dict[str, Value] = {"id": node.id, "role": node.role, "index": node.index, "host": node.host}
    ports = {f"port.{name}": port for name, port in node.ports.items()}
    first = dict(zip(["port"], node.ports.values(), strict=False))
    return {name: _constant(value) for name, value in (facts | first | ports | {"dir": node.dir}).items()}


def _common_table(values: Values) -> dict[str, Callable[[], str]]:
    facts: dict[str, Value] = {
        "run": values.run,
        "project": values.project,
        "python": values.python,
        "launcher": values.launcher,
    }
    params = {f"params.{name}": value for name, value in values.params.items()}
    return {"java": java_program} | {name: _constant(value) for name, value in (facts | params).items()}


def _constant(value: Value) -> Callable[[], str]:
    """A function that returns the value as text; booleans as in TOML."""
    return lambda: str(value).lower() if isinstance(value, bool) else str(value)


def _is_list(name: str) -> bool:
    """`peers`, `peers.ROLE` and `all.ROLE`; a bare `all` does not exist."""
    return name == "peers" or name.startswith(("peers.", "all."))


def _joined(name: str, values: Values) -> Callable[[], str]:
    return lambda: _join_of(name, values).join(part() for part in _list_parts(name, values))


def _members(name: str, values: Values) -> list[NodeFacts]:
    kind, _, role = name.partition(".")
    own = values.node.id if values.node is not None and kind == "peers" else None
    return [node for node in values.nodes if node.id != own and (not role or node.role == role)]


def _list_parts(name: str, values: Values) -> list[Callable[[], str]]:
    return [_constant(_entry(node, values)) for node in _members(name, values)]


def _entry_rule(values: Values, role: str) -> Entry:
    """The format of the role whose command is rendered; for the workload that of the listed node."""
    return values.entries.get(values.node.role if values.node is not None else role, Entry())


def _join_of(name: str, values: Values) -> str:
    members = _members(name, values)
    return _entry_rule(values, members[0].role).join if members else _entry_rule(values, "").join


def _entry(node: NodeFacts, values: Values) -> str:
    rule = _entry_rule(values, node.role)
    try:
        return _render(rule.format, _node_table(node) | _common_table(values))
    except TemplateError as error:
        owner = values.node.role if values.node is not None else node.role
        predicate = f"{error.predicate} when it describes node {node.id} of role {node.role}"
        raise TemplateError(rule.format, predicate, owner) from None
