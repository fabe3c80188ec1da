"""Finds the source of a Python role: the files that its interpreter would import as the packages that the user named."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from undermine.runtimes.accelerator import interpreter_of
from undermine.runtimes.base import RoleCommand, RoleSources

_ASK_TIMEOUT_S = 20.0
_ASK = "import sys; print('\\n'.join(sys.path))"


def sources(role: RoleCommand) -> RoleSources:
    """The packages and modules that the role names, and those of its folders that hold Python files."""
    script = next((role.cwd / word for word in role.command[:3] if word.endswith(".py")), None)
    folders = dict.fromkeys(str(path) for path in _folders(role, script))
    return RoleSources(tuple(folders), script.stem if script else "")


def _folders(role: RoleCommand, script: Path | None) -> Iterator[Path]:
    search: list[Path] | None = None
    for package in role.packages:
        if script is not None and package == script.stem:
            yield script
            continue
        search = list(_search_path(role, script)) if search is None else search
        found = _find_package(package, search)
        if found:
            yield found
    yield from (path for path in role.paths if _has_source(path))


def _find_package(package: str, search: Iterable[Path]) -> Path | None:
    places = (Path(folder, *package.split(".")) for folder in search)
    return next((file for path in places for file in (path, path.with_suffix(".py")) if _has_source(file)), None)


def _has_source(path: Path) -> bool:
    if path.suffix == ".py":
        return path.is_file()
    return path.is_dir() and next(path.rglob("*.py"), None) is not None


def _search_path(role: RoleCommand, script: Path | None) -> Iterator[Path]:
    """The folders in which the role's interpreter looks for modules, in that order."""
    yield script.parent if script is not None else role.cwd
    for folder in filter(None, role.env.get("PYTHONPATH", "").split(os.pathsep)):
        yield role.cwd / folder
    yield from (role.cwd / folder for folder in _interpreter_path(interpreter_of(role.command) or sys.executable, role.env))


def _interpreter_path(python: str, env: Mapping[str, str]) -> Iterable[str]:
    """The interpreter's own search path. It runs in the target's environment, so it may hang or print anything."""
    with contextlib.suppress(OSError, subprocess.SubprocessError, UnicodeDecodeError):
        done = subprocess.run(
            [python, "-c", _ASK], env=dict(env), capture_output=True, timeout=_ASK_TIMEOUT_S, check=True, text=True
        )
        return [line for line in done.stdout.splitlines() if line]
    return []
