"""The keys `operations` and `adapters` of a role: the functions of the target that are logical operations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from undermine.config.adapters import UnknownAdapter, adapter_names, resolve
from undermine.config.lines import KeyPath, Reader, Source, read, show
from undermine.config.schema import LogicalOperation, Role
from undermine.config.templates import did_you_mean

_FUNCTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_PATH = re.compile(r"=.+|(\d+|[^\W\d]\w*)(\.[^\W\d]\w*|\[[^][]+\])*")


def read_operations(source: Source, path: KeyPath, value: Any) -> Any:
    """Read the tables of the list; errors name the line of each."""
    if not isinstance(value, list):
        raise source.error(path, f"must be a list of tables, like [{{function = …, op = …}}], not {show(value)}")
    return [_operation(source, (*path, index), table) for index, table in enumerate(value)]


def _operation(source: Source, path: KeyPath, table: Any) -> LogicalOperation:
    readers: dict[tuple[type, str], Reader] = {(LogicalOperation, name): _one_or_more for name in ("keys", "values")}
    operation = read(LogicalOperation, source, path, table, readers, {})
    if not _FUNCTION.fullmatch(operation.function):
        text = f'must be written like "package.module:Class.method", not {show(operation.function)}'
        raise source.error((*path, "function"), text)
    for name in ("kind", "peer", "size", "content", "store", "keys", "values"):
        value = getattr(operation, name)
        for one in (value,) if isinstance(value, str) else value:
            if one and not _PATH.fullmatch(one):
                text = 'must be a path that starts at a parameter, like "message.type" or "0[key]", or "=" and a text, not'
                raise source.error((*path, name), f"{text} {show(one)}")
    _check_store(source, path, operation)
    return operation


def _one_or_more(source: Source, path: KeyPath, value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _check_store(source: Source, path: KeyPath, operation: LogicalOperation) -> None:
    """Refuse keys and values of messages, and those that are not known when the operation needs them."""
    op, keys, values = operation.op, operation.keys, operation.values
    for name in ("store", "keys", "values"):
        if getattr(operation, name) and not op.startswith("db."):
            text = f'is only for "db.read", "db.write" and "db.commit", not for "{op}"; remove it'
            raise source.error((*path, name), text)
    for name in ("store", "values"):
        if getattr(operation, name) and not keys:
            raise source.error((*path, name), "needs `keys`; name them too")
    for name, paths in (("store", [operation.store]), ("keys", keys), ("values", values if op != "db.read" else ())):
        if any(map(_of_result, paths)):
            raise source.error((*path, name), "must be known before the function returns; start the path at a parameter")
    if op == "db.read" and not all(map(_of_result, values)):
        text = 'of a "db.read" are the values that it returned; start each path with "return"'
        raise source.error((*path, "values"), text)


def _of_result(path: str) -> bool:
    return re.match(r"return(?!\w)", path) is not None


def check_adapters(source: Source, project: str, roles: Mapping[str, Role]) -> None:
    """Refuse an adapter that does not exist."""
    for name, role in roles.items():
        for index, adapter in enumerate(role.adapters):
            try:
                resolve(adapter, project)
            except UnknownAdapter as error:
                names = adapter_names()
                unknown = f"names the unknown adapter {show(adapter)}{did_you_mean(adapter, names)}"
                text = (
                    str(error) or f"{unknown} (known adapters: {', '.join(names)}; or give a .py file of your project)"
                )
                raise source.error(("roles", name, "adapters", index), text) from None
