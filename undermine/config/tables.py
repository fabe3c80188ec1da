"""The tables and keys that the file may have, and the values that it may write in more than one way."""

from __future__ import annotations

import functools
import math
import re
import shlex
from collections.abc import Mapping
from typing import Any

import msgspec

from undermine.config.lines import KeyPath, Reader, Source, field_types, show
from undermine.config.names import check_name, variables
from undermine.config.operations import read_operations
from undermine.config.schema import (
    NODES_MAX,
    Campaign,
    Checkers,
    Faults,
    Health,
    Hunt,
    Param,
    Ready,
    Restart,
    Role,
    RunLimits,
    Workload,
    parse_duration,
)
from undermine.config.templates import did_you_mean
from undermine.model.errors import UserError

SECTIONS: dict[str, type[msgspec.Struct]] = {
    "campaign": Campaign,
    "workload": Workload,
    "run": RunLimits,
    "faults": Faults,
    "checkers": Checkers,
    "hunt": Hunt,
}
TABLES = ("campaign", "params", "roles", "groups", "variables", "strategies", *list(SECTIONS)[1:])


@functools.cache
def homes() -> dict[str, str]:
    """The full key of each name that occurs in one table only: a hint for keys in the wrong table."""
    kinds: dict[str, type[msgspec.Struct]] = {
        "roles.NAME": Role,
        "roles.NAME.ready": Ready,
        "roles.NAME.health": Health,
        "roles.NAME.restart": Restart,
    }
    kinds |= SECTIONS
    found: dict[str, list[str]] = {}
    for prefix, kind in kinds.items():
        for name in field_types(kind).keys() - ({"name"} if kind is Role else set()):
            found.setdefault(name, []).append(f"{prefix}.{name}")
    return {name: keys[0] for name, keys in found.items() if len(keys) == 1}


# --- values


def _read_command(source: Source, path: KeyPath, value: Any) -> Any:
    if isinstance(value, str):
        try:
            value = shlex.split(value)
        except ValueError as error:
            raise source.error(path, f"cannot be split into words: {str(error).lower()}; check its quotes") from None
    if isinstance(value, list) and (not value or value[0] == ""):
        raise source.error(path, 'is empty; it must name a program, like "server --id {id}"')
    return value


def _read_nodes(source: Source, path: KeyPath, value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= NODES_MAX:
        return [f"{path[-2]}{number}" for number in range(1, value + 1)]
    if isinstance(value, list) and len(value) > NODES_MAX:
        raise source.error(path, f"must name at most {NODES_MAX} nodes, not {len(value)}")
    return value


def _read_seconds(source: Source, path: KeyPath, value: Any) -> Any:
    try:
        return parse_duration(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _read_http(source: Source, path: KeyPath, value: Any) -> Any:
    if isinstance(value, str) and not value.startswith("/"):
        raise source.error(path, f'must be a path that begins with "/", like "/health", not {show(value)}')
    return value


READERS: dict[tuple[type, str], Reader] = {
    (Role, "nodes"): _read_nodes,
    (Role, "command"): _read_command,
    (Health, "command"): _read_command,
    (Workload, "command"): _read_command,
    (Role, "variables"): variables,
    (Role, "operations"): read_operations,
    (Ready, "http"): _read_http,
    (Health, "http"): _read_http,
    (Hunt, "budget"): _read_seconds,
} | {
    (kind, name): _read_seconds
    for kind in (Ready, Health, Restart, Workload, RunLimits, Faults)
    for name in kind.__struct_fields__
    if name.endswith(("_s", "_s_max"))
}


# --- tables whose keys the user chooses


def read_params(source: Source, table: Any, overrides: Mapping[str, str]) -> dict[str, Param]:
    """The table [params] with the overrides of the command line."""
    if not isinstance(table, dict):
        raise source.error(("params",), f"must be a table, not {show(table)}")
    for name, value in table.items():
        path = ("params", name)
        check_name(source, path, name, "parameter")
        if not isinstance(value, Param) or (isinstance(value, float) and not math.isfinite(value)):
            raise source.error(path, f"must be text in quotes, a number, true or false, not {show(value)}")
    return table | {name: _override(source, table, name, text) for name, text in overrides.items()}


def _override(source: Source, table: Mapping[str, Param], name: str, text: str) -> Param:
    """The value of `--set NAME=VALUE`, with the type that the parameter has in the file."""
    if name not in table:
        listed = ", ".join(table) or "none"
        hint = did_you_mean(name, table)
        raise UserError(f"--set {name}: {source.path} has no parameter of this name{hint} ([params] has {listed})")
    old = table[name]
    try:
        if isinstance(old, bool):
            return {"true": True, "false": False}[text.lower()]
        if isinstance(old, int | float):
            number = float(text)
            if not math.isfinite(number):
                raise ValueError
            return int(text) if re.fullmatch(r"[+-]?\d+", text) else number
    except (KeyError, ValueError):
        allowed = "true or false" if isinstance(old, bool) else "a number"
        where = f"{source.path}:{source.lines.of(('params', name))}"
        raise UserError(f"--set {name}: must be {allowed}, like params.{name} in {where}, not {show(text)}") from None
    return text


def check_parts(source: Source, params: Mapping[str, Param], workload: Workload) -> None:
    """Refuse `workload.parts` unless it is the name of a parameter that lists the parts of the workload."""
    path, name = ("workload", "parts"), workload.parts
    if not name:
        return
    if name not in params:
        hint, listed = did_you_mean(name, params), ", ".join(params) or "none"
        raise source.error(path, f"must be the name of a parameter{hint} ([params] has {listed}), not {show(name)}")
    if not isinstance(params[name], str):
        raise source.error(path, f"must be the name of a parameter that lists parts, like {name} = \"reads,writes\"")


def read_strategies(source: Source, tables: Any) -> dict[str, dict[str, Any]]:
    """The tables [strategies.NAME]. Each strategy checks its own options."""
    if not isinstance(tables, dict):
        raise source.error(("strategies",), f"must be a table of tables, not {show(tables)}")
    for name, table in tables.items():
        check_name(source, ("strategies", name), name, "strategy")
        if not isinstance(table, dict):
            raise source.error(("strategies", name), f"must be a table like [strategies.{name}], not {show(table)}")
    return tables
