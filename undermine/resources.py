"""Finds agents, examples and other files beside the core's own modules: in a checkout, or inside an installed package."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Collection
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


def clock_source() -> Path:
    """The source of the library that makes the clock of a process faster."""
    return _find("_agents/clock", "agents/clock") / "undermine_clock.c"


def protocol_dir() -> Path:
    """The folder with the facts that the core and the agents agree on."""
    return _find("_protocol", "protocol")


def readable_copy(source: Path, below: Path | None, names: Collection[str] = ()) -> Path:
    """A copy of a folder, or of its files with these names, that every user can read, for nodes that run as another user. It is
    made in `below` once, and gets files that are new in the source. Without `below`, the source itself."""
    if below is None:
        return source
    made = below / source.name
    for path in source.rglob("*"):
        copy = made / path.relative_to(source)
        if (not names or path.name in names) and path.is_file() and not copy.exists():
            _make_readable(copy.parent, below)
            part = copy.with_name(f"{copy.name}.{threading.get_ident()}.part")  # runs start in parallel
            shutil.copy2(path, part)  # with its time, so that Python believes the compiled modules
            part.chmod(0o644)
            part.replace(copy)
    return made


def _make_readable(folder: Path, below: Path) -> None:
    """Create a folder, and those between it and `below`, that every user can read, whatever the umask is."""
    if folder != below:
        _make_readable(folder.parent, below)
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)


def cache_dir() -> Path:
    """The user's cache folder for everything that is built once."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "undermine"


def c_compiler() -> str | None:
    """The path of the first C compiler on the `PATH`."""
    return next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)


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


def templates_dir() -> Path:
    """The folder with the files that `undermine init` copies, one folder for each template."""
    return _find("_templates", "templates")


def example_dir(name: str) -> Path:
    return _find(f"_examples/{name}", f"examples/{name}")
