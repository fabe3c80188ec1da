"""Where the source of the target's own code lies: what its Python nodes would import as the packages that the user named."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from undermine.config.schema import Config, Role
from undermine.config.templates import Values, render, render_command
from undermine.model.run import NodeInfo

_ASK_TIMEOUT_S = 20.0
_ASK = "import sys; print('\\n'.join(sys.path))"


class Sources(msgspec.Struct, frozen=True):
    """Where the target's own code is."""

    folders: tuple[str, ...] = ()
    """Files and folders."""
    scripts: Mapping[str, str] = {}
    """By role: the module that is run as a script."""
    named: tuple[tuple[str, str], ...] = ()
    """The functions that the user has named as operations, each with its `op`."""


def sources(config: Config, nodes: Sequence[NodeInfo], executables: Mapping[str, str]) -> Sources:
    """Of all roles that run Python. `nodes`: as a run had them; `executables`: the interpreters that they ran in, by node."""
    folders: dict[str, None] = {}
    scripts: dict[str, str] = {}
    named: dict[tuple[str, str], None] = {}
    for role in config.roles.values():
        own = next((node for node in nodes if node.role == role.name), None)
        if own is None or config.agent(role.name) != "python":
            continue
        values = config.values(nodes, own.id, str(Path(own.dir).parent))
        script = _script(role, values)
        if script:
            scripts[role.name] = script.stem
        python = executables.get(own.id) or sys.executable
        folders.update(dict.fromkeys(str(path) for path in _folders(role, values, script, python)))
        named.update(dict.fromkeys((operation.function, operation.op) for operation in role.operations))
    return Sources(tuple(folders), scripts, tuple(named))


def _script(role: Role, values: Values) -> Path | None:
    words = render_command(role.command, values)
    return next((Path(_cwd(role, values), word) for word in words[:3] if word.endswith(".py")), None)


def _cwd(role: Role, values: Values) -> Path:
    return Path(render(role.cwd, values))


def _folders(role: Role, values: Values, script: Path | None, python: str) -> Iterator[Path]:
    """Packages and modules that are named, and folders all of whose files count."""
    search: list[Path] | None = None
    for package in role.packages:
        if script is not None and package == script.stem:
            yield script
            continue
        search = list(_search(role, values, script, python)) if search is None else search
        parts = package.split(".")
        places = (Path(folder, *parts) for folder in search)
        found = next(
            (place for path in places for place in (path, path.with_suffix(".py")) if _has_source(place)), None
        )
        if found:
            yield found
    for text in role.paths:
        if _has_source(path := _cwd(role, values) / render(text, values)):
            yield path


def _has_source(path: Path) -> bool:
    if path.suffix == ".py":
        return path.is_file()
    return path.is_dir() and next(path.rglob("*.py"), None) is not None


def _search(role: Role, values: Values, script: Path | None, python: str) -> Iterator[Path]:
    """Where its interpreter looks for modules, in that order."""
    cwd = _cwd(role, values)
    env = role.environment(values)
    yield script.parent if script is not None else cwd
    for folder in filter(None, env.get("PYTHONPATH", "").split(os.pathsep)):
        yield cwd / folder
    yield from (cwd / folder for folder in _asked(python, env))


def _asked(python: str, env: Mapping[str, str]) -> Iterable[str]:
    """What the interpreter itself says. It is the target's, with the target's environment, and may hang or say anything."""
    with contextlib.suppress(OSError, subprocess.SubprocessError, UnicodeDecodeError):
        done = subprocess.run(
            [python, "-c", _ASK], env=dict(env), capture_output=True, timeout=_ASK_TIMEOUT_S, check=True, text=True
        )
        return [line for line in done.stdout.splitlines() if line]
    return []
