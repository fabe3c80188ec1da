"""The rooms of the agent: each says what it is for, and imports go one way."""

from __future__ import annotations

import ast
from pathlib import Path

from tables import for_each

AGENT = Path(__file__).resolve().parents[2] / "agents" / "python" / "undermine_agent"
ROOMS = (
    "interpreter", "names", "patching", "wire", "core", "faults", "variables", "files", "net", "handover", "sync", "heap",
    "labels", "logical", "adapters", "agent", "content", "hooks",
)  # fmt: skip
"""Rooms, and modules beside them, in the order in which they build on each other."""
FILES_MAX = 12


def room_of(module: str) -> str:
    return module.split(".")[1]


def imported_rooms(path: Path) -> set[str]:
    """The rooms that a file imports as it is loaded; imports inside functions are left out."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("undermine_agent."):
            found.add(room_of(node.module or ""))
    return found


def test_every_module_is_in_a_known_room() -> None:
    beside = {path.stem for path in AGENT.glob("*.py")} - {"__init__", "launch"}
    rooms = {path.parent.name for path in AGENT.glob("*/__init__.py")}
    assert beside | rooms == set(ROOMS)


@for_each("path", sorted(AGENT.glob("**/*.py")))
def test_imports_between_rooms_go_one_way(path: Path) -> None:
    parts = path.relative_to(AGENT).with_suffix("").parts
    if parts in (("__init__",), ("launch",)):
        assert imported_rooms(path) == set(), "what they load, they load when it is needed"
        return
    own = ROOMS.index(parts[0])
    assert {room for room in imported_rooms(path) if ROOMS.index(room) > own} == set()


@for_each("room", sorted(AGENT.glob("*/__init__.py")))
def test_a_room_is_small_and_its_package_imports_no_sibling(room: Path) -> None:
    assert len(list(room.parent.glob("*.py"))) <= FILES_MAX
    assert room.parent.name == "adapters" or imported_rooms(room) == set()
