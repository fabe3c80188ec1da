"""Where the parts that are not Python modules of the core lie: in a checkout, or inside an installed package."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def _find(installed: str, checkout: str) -> Path:
    package = Path(__file__).resolve().parent
    path = package / installed
    return path if path.exists() else package.parent / checkout


def python_agent_dir() -> Path:
    """The folder that goes onto a target's PYTHONPATH."""
    return _find("_agents/python", "agents/python")


def python_launcher() -> Path:
    """The script that runs a program with the agent where PYTHONPATH is ignored."""
    return python_agent_dir() / "undermine_agent" / "launch.py"


def example_dir(name: str) -> Path:
    return _find(f"_examples/{name}", f"examples/{name}")
