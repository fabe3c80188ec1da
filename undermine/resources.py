"""Finds agents, examples and other files beside the core's own modules: in a checkout, or inside an installed package."""

from __future__ import annotations

import os
import shutil
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


def jvm_agent_dir() -> Path:
    """The sources of the JVM agent."""
    return _find("_agents/jvm", "agents/jvm")


def protocol_dir() -> Path:
    """The folder with the facts that the core and the agents agree on."""
    return _find("_protocol", "protocol")


def cache_dir() -> Path:
    """The user's cache folder for everything that is built once."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "undermine"


def native_is_forbidden() -> bool:
    """True if the user forbids compiled parts of agents, in any runtime."""
    return os.environ.get("UNDERMINE_ACCELERATOR") == "0"


def java_home_program(name: str) -> str | None:
    """The path of a JDK program: from `JAVA_HOME` if that is set, else from the `PATH`."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which(name, path=str(Path(home, "bin"))) if home else shutil.which(name)


def java_program() -> str:
    """The program that replaces `{java}` in commands. If none is found, the bare name, so that starting it reports the error."""
    return java_home_program("java") or "java"


def example_dir(name: str) -> Path:
    return _find(f"_examples/{name}", f"examples/{name}")
