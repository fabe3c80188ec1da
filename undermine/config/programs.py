"""Checks that the programs, scripts and folders of the configuration exist."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from undermine.config.lines import KeyPath, Source, show
from undermine.config.schema import Config, Param, Role
from undermine.config.templates import Values, placeholders, render
from undermine.runtimes.class_path import is_empty
from undermine.runtimes.python import names_python

_FIXED = ("project", "python", "java")


def check_files(source: Source, config: Config) -> None:
    if config.workload.command and config.workload.python:
        raise source.error(("workload", "command"), "cannot be combined with python; keep one of the two")
    if config.plugins is None and not config.workload.command:
        text = (
            "is missing; set workload.command, or set campaign.plugins to a file with an @undermine.workload function"
        )
        raise source.error(("workload",), text)
    if config.dir.exists() and not config.dir.is_dir():
        raise source.error(("campaign", "dir"), f"must be a folder, but {config.dir} is a file; choose another path")
    for name, role in config.roles.items():
        cwd = _fixed_cwd(config, role)
        if cwd is not None and not cwd.is_dir():
            raise source.error(
                ("roles", name, "cwd"), f"must be an existing folder, but {show(str(cwd))} does not exist"
            )


def check_programs(source: Source, config: Config) -> None:
    for name, role in config.roles.items():
        cwd = _fixed_cwd(config, role)
        search: str | None = os.environ.get("PATH", "")
        if "PATH" in role.env:
            search = _rendered_if_fixed(role.env["PATH"], config.project, config.params)
        _check_program(source, ("roles", name, "command"), role.command, cwd, config, search)
        _check_script(source, ("roles", name, "command"), role, cwd, config)
        _check_class_path(source, ("roles", name, "command"), role, cwd, config)
        if role.health is not None and role.health.command:
            _check_program(source, ("roles", name, "health", "command"), role.health.command, cwd, config, search)
    if config.workload.command:
        project = Path(config.project)
        _check_program(
            source,
            ("workload", "command"),
            config.workload.command,
            project,
            config,
            os.environ.get("PATH", ""),
        )


def _check_program(
    source: Source,
    path: KeyPath,
    command: tuple[str, ...],
    cwd: Path | None,
    config: Config,
    search: str | None,
) -> None:
    program = _rendered_if_fixed(command[0], config.project, config.params)
    if program is None:
        return
    if "/" not in program:
        if search is not None and shutil.which(program, path=search) is None:
            here = Path(config.project, program).is_file()
            hint = f"; did you mean {{project}}/{program}?" if here else "; install it or write its full path"
            raise source.error(path, f"names the program {show(program)}, which is not on the PATH{hint}")
        return
    if not Path(program).is_absolute() and cwd is None:
        text = f"names the program {show(program)}, but nodes run in {{dir}}; write {{project}}/… or set cwd"
        raise source.error(path, text)
    full = Path(cwd or "/", program)
    if not full.is_file():
        raise source.error(path, f"names the program {full}, which does not exist; correct the path")
    if not os.access(full, os.X_OK):
        raise source.error(path, f"names the program {full}, which is not executable; run chmod +x on it")


def _check_script(source: Source, path: KeyPath, role: Role, cwd: Path | None, config: Config) -> None:
    """Refuse `python server.py`, a common mistake: the node runs in {dir}, which has no server.py."""
    if not names_python(role.command[0]) or len(role.command) < 2 or not role.command[1].endswith(".py"):
        return
    script = _rendered_if_fixed(role.command[1], config.project, config.params)
    if script is None or (not Path(script).is_absolute() and cwd is None and not Path(config.project, script).exists()):
        return
    if not Path(script).is_absolute() and cwd is None:
        text = f"names {show(script)}, but nodes run in {{dir}}; write {{project}}/{script} or set cwd"
        raise source.error(path, text)
    if not Path(cwd or "/", script).is_file():
        raise source.error(path, f"names the script {Path(cwd or '/', script)}, which does not exist; correct the path")


def _check_class_path(source: Source, path: KeyPath, role: Role, cwd: Path | None, config: Config) -> None:
    """Refuse a class path on which nothing exists: a release that was not fetched."""
    class_path = _rendered_if_fixed(config.runtime(role.name).class_path(role.command), config.project, config.params)
    if class_path and is_empty(class_path, cwd):
        wanted = _rendered_if_fixed(config.campaign.setup, config.project, config.params)
        hint = f"run `{wanted}` in {config.project}" if wanted else "build or fetch it, or correct the path"
        raise source.error(path, f"names the class path {show(class_path)}, which is empty; {hint}")


def _fixed_cwd(config: Config, role: Role) -> Path | None:
    """The folder that nodes run in, if it is known before a run. A relative one is inside the project."""
    cwd = _rendered_if_fixed(role.cwd, config.project, config.params)
    return Path(config.project, cwd) if cwd is not None else None


def _rendered_if_fixed(template: str, project: str, params: Mapping[str, Param]) -> str | None:
    return render(template, Values((), project=project, params=params)) if _is_fixed(template) else None


def _is_fixed(template: str) -> bool:
    """True if the template is the same text in every run and for every node."""
    return all(name in _FIXED or name.startswith("params.") for name in placeholders(template))
