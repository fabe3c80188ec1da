"""Python: programs that a CPython or PyPy interpreter runs. The agent is a package on their PYTHONPATH."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from undermine.model.event import AgentInfo
from undermine.program.compiled import Compiled
from undermine.resources import python_agent_dir, readable_copy
from undermine.runtimes import accelerator, python_sources
from undermine.runtimes.base import ClassFiles, Progress, RoleCommand, RoleSources, Traits

NO_STACKS = "no answer: its main thread runs no Python code"


class PythonRuntime:
    """The accelerator is built for each interpreter; `accelerator.py` says when."""

    name = "python"
    traits = Traits(no_stacks=NO_STACKS, call_sites_vary_by_release=True)
    has_agent = True
    takes_adapters = True
    without_native = "is slower under its agent, which has no accelerator"

    def starts(self, program: str) -> bool:
        """True for an interpreter, a .py file, or a script whose first line names Python."""
        if names_python(program) or program.endswith(".py"):
            return True
        found = shutil.which(program)
        return found is not None and _shebang_names_python(Path(found))

    def class_path(self, command: Sequence[str]) -> str:
        return ""

    def prepare(self, progress: Progress) -> None:
        """Do nothing yet: the nodes' commands determine the interpreters, and those are not known here."""

    def agent_settings(self, command: Sequence[str], copies: Path | None = None) -> dict[str, Any]:
        folder = accelerator.prepare(command)
        return {"accelerator": str(readable_copy(folder, copies)) if folder else ""}

    def environment(self, env: Mapping[str, str], copies: Path | None = None) -> dict[str, str]:
        folders = (str(readable_copy(python_agent_dir(), copies)), env.get("PYTHONPATH", ""))
        return {**env, "PYTHONPATH": os.pathsep.join(filter(None, folders))}

    def why_slow(self, agent: AgentInfo) -> str:
        return accelerator.why_slow(agent)

    def catch_up(self, agents: Iterable[AgentInfo]) -> None:
        accelerator.catch_up(agents)

    def sources(self, role: RoleCommand) -> RoleSources | None:
        return python_sources.sources(role)

    def read_classes(self, files: ClassFiles, named: Sequence[tuple[str, str]]) -> Compiled:
        return Compiled()



def names_python(program: str) -> bool:
    """Is this word of a command an interpreter?"""
    if program == "{python}":
        return True
    return accelerator.PYTHON_NAME.fullmatch(Path(program).name) is not None


def _shebang_names_python(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            first = file.readline(300)
    except OSError:
        return False
    return first.startswith(b"#!") and re.search(rb"\b(python|pypy)[\d.]*\b", first) is not None
