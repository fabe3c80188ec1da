"""The keys `operations` and `adapters` of a role: the functions of the target that are logical operations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from undermine.config.adapters import UnknownAdapter, known, resolve
from undermine.config.lines import KeyPath, Source, read, show
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
    operation = read(LogicalOperation, source, path, table, {}, {})
    if not _FUNCTION.fullmatch(operation.function):
        text = f'must be written like "package.module:Class.method", not {show(operation.function)}'
        raise source.error((*path, "function"), text)
    for name in ("kind", "peer", "size", "content"):
        value = getattr(operation, name)
        if value and not _PATH.fullmatch(value):
            text = 'must be a path that starts at a parameter, like "message.type" or "0[key]", or "=" and a text, not'
            raise source.error((*path, name), f"{text} {show(value)}")
    return operation


def check_adapters(source: Source, project: str, roles: Mapping[str, Role]) -> None:
    """Refuse an adapter that does not exist."""
    for name, role in roles.items():
        for index, adapter in enumerate(role.adapters):
            try:
                resolve(adapter, project)
            except UnknownAdapter as error:
                names = known()
                unknown = f"names the unknown adapter {show(adapter)}{did_you_mean(adapter, names)}"
                text = (
                    str(error) or f"{unknown} (known adapters: {', '.join(names)}; or give a .py file of your project)"
                )
                raise source.error(("roles", name, "adapters", index), text) from None
