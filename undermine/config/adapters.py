"""The adapters: those of the agent, and files of other packages or of the user's project.

The agent loads an adapter by its path in the processes of the target, so the target's Python need not have it installed.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

BUILTIN = ("http", "redis", "streams", "tornado")
DEFAULT = ("http", "redis", "tornado")
GROUP = "undermine.adapters"


class UnknownAdapter(Exception):
    """There is no adapter of this name. Its text is the rest of a sentence about the key."""


def adapter_names() -> list[str]:
    """The names of all adapters."""
    return sorted({*BUILTIN, *(entry.name for entry in entry_points(group=GROUP))})


def resolve(name: str, project: str) -> dict[str, Any]:
    """The entry for this adapter in the configuration of the agent: its name, and its file unless it is built in."""
    if name.endswith(".py"):
        path = Path(project, name)
        if not path.is_file():
            raise UnknownAdapter(f"names the file {path}, which does not exist; correct the path")
        return {"adapter": path.stem, "path": str(path)}
    if name in BUILTIN:
        return {"adapter": name}
    for entry in entry_points(group=GROUP, name=name):
        return {"adapter": name, "path": _file_of(entry.module)}
    raise UnknownAdapter("")


def _file_of(module: str) -> str:
    """The file of a module. Imports the packages around the module, but not the module."""
    try:
        spec = find_spec(module)
    except ImportError:
        spec = None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise UnknownAdapter(f"names an adapter whose module {module} has no Python file; install its package again")
    return spec.origin
