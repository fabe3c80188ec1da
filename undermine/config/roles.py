"""The tables [roles.NAME]: nodes, their command, and how the tool learns that they are ready and healthy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from undermine.config.lines import KeyPath, Source, read, show
from undermine.config.names import NODE, check_expression, check_known, check_name, check_patterns
from undermine.config.schema import Faults, Ready, Role
from undermine.config.tables import READERS, homes
from undermine.config.templates import did_you_mean

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


def read_roles(source: Source, tables: Any) -> dict[str, Role]:
    if not isinstance(tables, dict):
        raise source.error(("roles",), f"must be tables like [roles.NAME], not {show(tables)}")
    if not tables:
        raise source.error(("roles",), "is missing; add a table [roles.NAME] for at least one role")
    roles = {}
    for name, table in tables.items():
        path = ("roles", name)
        if not isinstance(table, dict):
            hint = f"; did you mean roles.NAME.{name}?" if name in Role.__struct_fields__ else ""
            raise source.error(path, f"must be a table like [roles.NAME], not {show(table)}{hint}")
        check_name(source, path, name, "role")
        roles[name] = _role(source, name, table)
    return roles


def _role(source: Source, name: str, table: dict[str, Any]) -> Role:
    path = ("roles", name)
    role = read(Role, source, path, table, READERS, homes(), name=name)
    _check_names(source, path, role)
    check_patterns(source, (*path, "logs"), role.logs, "the node's {dir}", "*.log")
    ready = _checked_probe(source, (*path, "ready"), table.get("ready", {}), role, ("tcp", "log", "http", "python"))
    role = msgspec.structs.replace(role, ready=_with_default(source, (*path, "ready"), ready, role))
    if role.health is not None:
        kinds = ("command", "http", "python")
        health = _checked_probe(source, (*path, "health"), table["health"], role, kinds)
        role = msgspec.structs.replace(role, health=health)
    return role


def _check_names(source: Source, path: KeyPath, role: Role) -> None:
    for index, node in enumerate(role.nodes):
        check_name(source, (*path, "nodes", index), node, "node", NODE)
    for index, port in enumerate(role.ports):
        check_name(source, (*path, "ports", index), port, "port")
    for variable in role.env:
        if not _VARIABLE.fullmatch(variable):
            raise source.error((*path, "env", variable), "is not a valid variable name; use letters, digits and _")
    for index, package in enumerate(role.packages):
        if not _MODULE.fullmatch(package):
            raise source.error((*path, "packages", index), f'must be module names, like "myapp", not {show(package)}')


def _checked_probe(source: Source, path: KeyPath, table: dict[str, Any], role: Role, kinds: tuple[str, ...]) -> Any:
    """The table `ready` or `health`, checked, with the port of an HTTP request filled in."""
    given = [name for name in kinds if name in table]
    if len(given) > 1:
        raise source.error(
            (*path, given[1]), f"cannot be combined with {given[0]}; keep only one of {', '.join(kinds)}"
        )
    if path[-1] == "health" and not given:
        raise source.error(path, f"is empty; set one of {', '.join(kinds)}")
    for name in ("port", "status"):
        if name in table and "http" not in table:
            raise source.error((*path, name), "only works with http; add http or remove it")
    for name in ("tcp", "port"):
        if name in table and table[name] not in role.ports:
            hint = did_you_mean(table[name], role.ports)
            listed = ", ".join(role.ports) or "none"
            raise source.error(
                (*path, name),
                f"names the unknown port {show(table[name])}{hint} (roles.{role.name}.ports has {listed})",
            )
    if "log" in table:
        check_expression(source, (*path, "log"), table["log"])
    probe = getattr(role, str(path[-1]))
    if "http" in table and "port" not in table:
        if not role.ports:
            raise source.error((*path, "http"), f"needs a port, but roles.{role.name}.ports is empty; add one there")
        probe = msgspec.structs.replace(probe, port=role.ports[0])
    return probe


def _with_default(source: Source, path: KeyPath, ready: Ready, role: Role) -> Ready:
    """`ready` as the file has it; by default a TCP connection to the first port."""
    if ready.tcp or ready.log or ready.http or ready.python:
        return ready
    if not role.ports:
        raise source.error(path, "is missing; the role has no ports, so set log = … or python = …")
    return msgspec.structs.replace(ready, tcp=role.ports[0])


# --- names that refer to roles and nodes


def check_references(source: Source, roles: Mapping[str, Role], faults: Faults) -> None:
    """Check the names of nodes, roles and errors that refer to one another."""
    owners: dict[str, str] = {}
    for name, role in roles.items():
        for index, node in enumerate(role.nodes):
            if node in owners:
                text = f"names the node {show(node)}, which role {owners[node]} also has; rename one of them"
                raise source.error(("roles", name, "nodes", index), text)
            owners[node] = name
        check_known(source, ("roles", name, "start_after"), role.start_after, "role", list(roles))
    check_known(source, ("faults", "roles"), faults.roles, "role", list(roles))
    _check_cycles(source, roles)
    if "error" in faults.kinds and not faults.disk_errors and not faults.network_errors:
        text = 'lists "error", but disk_errors and network_errors are both empty; fill one of them or remove "error"'
        raise source.error(("faults", "kinds"), text)


def _check_cycles(source: Source, roles: Mapping[str, Role]) -> None:
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        if name in trail:
            cycle = " after ".join([*trail[trail.index(name) :], name])
            text = f"forms a cycle: {cycle}; remove one of these"
            raise source.error(("roles", trail[-1], "start_after"), text)
        if name not in done:
            for other in roles[name].start_after:
                visit(other, (*trail, name))
            done.add(name)

    for name in roles:
        visit(name, ())
