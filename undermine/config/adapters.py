"""Which adapters there are: those of the agent, and files that other people's packages or the user's project bring.

An adapter is loaded in the target's processes, by its path: whoever runs the target need not have it installed.
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
    """A name that stands for no adapter; its text says why, as the rest of a sentence about the key."""


def known() -> list[str]:
    """The names of all adapters."""
    return sorted({*BUILTIN, *(entry.name for entry in entry_points(group=GROUP))})


def resolve(name: str, project: str) -> dict[str, Any]:
    """What the agent is told about this adapter: its name, and its file if it is not one of the agent's own."""
    if name.endswith(".py"):
        path = Path(project, name)
        if not path.is_file():
            raise UnknownAdapter(f"names the file {path}, which does not exist")
        return {"adapter": path.stem, "path": str(path)}
    if name in BUILTIN:
        return {"adapter": name}
    for entry in entry_points(group=GROUP, name=name):
        return {"adapter": name, "path": _file_of(entry.module)}
    raise UnknownAdapter("")


def _file_of(module: str) -> str:
    """The file of a module, which is not imported for that (packages around it are)."""
    try:
        spec = find_spec(module)
    except ImportError:
        spec = None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise UnknownAdapter(f"names an adapter whose module {module} is no Python file that can be found")
    return spec.origin
