"""Names and patterns in the file: the rules for them, groups of nodes, and variables of the target."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from undermine.config.lines import KeyPath, Source, show
from undermine.config.schema import ALL, AUTO, Checkers, Faults, Role, Variable
from undermine.config.templates import did_you_mean
from undermine.model.point import CLIENT

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}", re.ASCII)
NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}", re.ASCII)
_VARIABLE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*|\[[^][]+\])*")
_EXAMPLE = '"package.module:Class.attribute"'


def check_name(source: Source, path: KeyPath, name: str, what: str, pattern: re.Pattern[str] = NAME) -> None:
    """Refuse a name that is not valid or that is reserved."""
    if not pattern.fullmatch(name):
        first = "a letter or digit" if pattern is NODE else "a letter"
        rule = f"starts with {first}, followed by letters, digits, - or _ (32 characters at most)"
        raise source.error(path, f"has the invalid {what} name {show(name)}; a {what} name {rule}")
    if name == CLIENT and what in ("role", "node"):
        raise source.error(
            path, f"has the {what} name {show(name)}, which is reserved for the workload's clients; rename the {what}"
        )


def check_known(source: Source, path: KeyPath, names: Sequence[str], what: str, known: Sequence[str]) -> None:
    """Refuse a name that nothing has."""
    for index, name in enumerate(names):
        if name not in known:
            hint = did_you_mean(name, known)
            text = f"names the unknown {what} {show(name)}{hint} (known {what}s: {', '.join(known)})"
            raise source.error((*path, index), text)


def groups(source: Source, table: Any, roles: Mapping[str, Role]) -> dict[str, tuple[str, ...]]:
    """The table [groups]: sets of nodes that one fault hits together."""
    if not isinstance(table, dict):
        raise source.error(("groups",), f"must be a table, not {show(table)}")
    nodes = [node for role in roles.values() for node in role.nodes]
    for name, members in table.items():
        path = ("groups", name)
        check_name(source, path, name, "group")
        if name == ALL or name in roles:
            of = "all nodes" if name == ALL else f"the nodes of role {name}"
            raise source.error(path, f"cannot be defined: {show(name)} already means {of}; choose another name")
        if not isinstance(members, list) or not members or not all(isinstance(node, str) for node in members):
            raise source.error(path, f'must be a list of node names, like ["{nodes[0]}"], not {show(members)}')
        check_known(source, path, members, "node", nodes)
        for index, node in enumerate(members):
            if node in members[:index]:
                raise source.error((*path, index), f"lists {show(node)} twice; remove one")
    return {name: tuple(members) for name, members in table.items()}


def check_groups(source: Source, faults: Faults, named: Mapping[str, Any], roles: Mapping[str, Role]) -> None:
    check_known(source, ("faults", "groups"), faults.groups, "group", [ALL, *roles, *named])


def variables(source: Source, path: KeyPath, table: Any) -> dict[str, Variable]:
    """The table [variables] of all roles or of one: the variables that agents read, and their paths in the program."""
    if not isinstance(table, dict):
        auto = f' or "{AUTO}"' if path == ("variables",) else ""
        raise source.error(path, f"must be a table{auto}, not {show(table)}")
    return {name: _variable(source, (*path, name), name, variable) for name, variable in table.items()}


def _variable(source: Source, path: KeyPath, name: str, given: Any) -> Variable:
    """A path, or a table of a path and the name of the metadata that the variable holds."""
    check_name(source, path, name, "variable")
    table = given if isinstance(given, dict) else {"path": given}
    if unknown := sorted(set(table) - set(Variable.__struct_fields__)):
        raise source.error((*path, unknown[0]), f"is unknown; a variable has {' and '.join(Variable.__struct_fields__)}")
    where, metadata = table.get("path"), table.get("metadata", name)
    if not isinstance(where, str) or not _VARIABLE.fullmatch(where):
        at = (*path, "path") if "path" in table and table is given else path
        raise source.error(at, f"must be a path like {_EXAMPLE}, not {show(where if 'path' in table else given)}")
    if not isinstance(metadata, str) or not metadata:
        raise source.error((*path, "metadata"), f"must be a name in quotes, not {show(metadata)}")
    return Variable(where, metadata)


# --- patterns


def check_patterns(source: Source, path: KeyPath, patterns: Sequence[str], folder: str, example: str) -> None:
    """Refuse patterns that could match a file outside of the folder."""
    for index, pattern in enumerate(patterns):
        if Path(pattern).is_absolute() or ".." in Path(pattern).parts:
            text = f'must be patterns inside {folder}, like "{example}", not {show(pattern)}'
            raise source.error((*path, index), text)


def check_log_patterns(source: Source, checkers: Checkers) -> None:
    for name in ("fail_on", "ignore"):
        for index, pattern in enumerate(getattr(checkers, name)):
            check_expression(source, ("checkers", name, index), pattern)


def check_expression(source: Source, path: KeyPath, pattern: str) -> None:
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise source.error(path, f"is not a valid regular expression: {error}") from None
