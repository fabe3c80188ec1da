"""Builds the Python agent's accelerator for the interpreters of a target, and caches it.

The tool does not always know a node's interpreter before the node runs: a command may be any script. So one folder holds the
accelerators for all interpreters, and each agent loads the file for its own interpreter or runs without one. The folder is
named after a hash of the source, so that its files always match this version. Before a node starts, the tool builds for the
interpreter that its command names, also through the `#!` line of a script. An agent without an accelerator reports its
interpreter, and `catch_up` builds for it after the first run if it is on the tool's own PATH. The tool runs no other
program that a node names.

Needs a C compiler and the interpreter's header files. Without an accelerator the agent observes the same, but is slower.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from undermine.model.event import AgentInfo
from undermine.resources import c_compiler, cache_dir, native_is_forbidden, python_agent_dir

BUILD_S_MAX = 120
FLAGS = ("-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-strict-aliasing", "-w")
_ASK = (
    "import sys, sysconfig, json, _imp; print(json.dumps({"
    "'name': sys.implementation.name, 'version': list(sys.version_info[:2]), 'hex': sys.hexversion, "
    "'suffix': _imp.extension_suffixes()[0], 'free': bool(sysconfig.get_config_var('Py_GIL_DISABLED')), "
    "'include': [sysconfig.get_path('include'), sysconfig.get_path('platinclude')]}))"
)
_OLDEST, _NEWEST = [3, 9], [3, 13]
PYTHON_NAME = re.compile(r"(python|pypy)[\d.]*", re.ASCII)

NOT_BUILT = "not built for this interpreter"
"""The reason that an agent reports if the folder has no file for its interpreter."""


@dataclass(frozen=True)
class Built:
    """The accelerator of one interpreter, or why it has none."""

    python: str
    file: Path | None
    why_not: str = ""


def source_dir() -> Path:
    return python_agent_dir() / "undermine_agent" / "accelerator"


def folder(kept_in: Path | None = None) -> Path:
    """The folder with the accelerators of this version. Created if missing, writable only by this user."""
    kept_in = kept_in or cache_dir()
    digest = hashlib.blake2b(" ".join(FLAGS).encode(), digest_size=8)
    for path in sorted(source_dir().iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    made = kept_in / f"accelerator-{digest.hexdigest()}"
    made.mkdir(mode=0o700, parents=True, exist_ok=True)
    return made


def prepare(command: Sequence[str]) -> Path | None:
    """Build for the interpreter that this command names, if it names one. Return the folder for the agent's configuration."""
    return None if native_is_forbidden() else _prepared(interpreter_of(command))


@cache
def _prepared(python: str | None) -> Path | None:
    """Cached by interpreter: the commands themselves differ from run to run."""
    try:
        if python is not None:
            ensure(python)
        return folder()
    except OSError:
        return None


def catch_up(agents: Iterable[AgentInfo]) -> None:
    """Build for the Python agents that found no accelerator because their commands do not name their interpreter."""
    for executable in {agent.executable for agent in agents if agent.why_slow == NOT_BUILT}:
        if python := _known(executable):
            ensure(python)


def _known(reported: str) -> str | None:
    """The interpreter on the tool's own PATH that is this file; None if there is none."""
    names = ("python3", "python", os.path.basename(reported), os.path.basename(os.path.realpath(reported)))
    pythons = [sys.executable, *(shutil.which(name) for name in names if PYTHON_NAME.fullmatch(name))]
    return next((python for python in pythons if python and os.path.realpath(python) == os.path.realpath(reported)), None)


def why_slow(agent: AgentInfo) -> str:
    """Why this agent ran without an accelerator; "" if it had one."""
    if not agent.why_slow:
        return ""
    if native_is_forbidden():
        return "UNDERMINE_ACCELERATOR=0"
    if agent.why_slow != NOT_BUILT:
        return agent.why_slow
    python = _known(agent.executable)
    if python is None:
        return "its command does not name its interpreter, which is not on the PATH either; name it in the command"
    return ensure(python).why_not or "its command does not name its interpreter; built now for later runs"


def interpreter_of(command: Sequence[str]) -> str | None:
    """The Python that a command starts, by its name or by the first line of a script; None if unknown."""
    words = list(command)
    for _ in range(4):  # env, then a script, then its interpreter
        while words and (os.path.basename(words[0]) in ("env", "exec") or "=" in words[0] or words[0] == "-S"):
            words = words[1:]
        path = shutil.which(words[0]) if words else None
        if path is None:
            return None
        if os.path.basename(path).startswith(("python", "pypy")):
            return path
        words = _shebang(path)
    return None


def _shebang(path: str) -> list[str]:
    try:
        with open(path, "rb") as file:
            first = file.read(512).split(b"\n")[0]
    except OSError:
        return []
    return first[2:].decode("utf-8", "replace").split() if first.startswith(b"#!") else []


def ensure(python: str, kept_in: Path | None = None) -> Built:
    """The accelerator for this interpreter, built now if it is missing."""
    try:
        about = _ask(python)
        why_not = _unfit(about)
        if why_not:
            return Built(python, None, why_not)
        file = folder(kept_in) / f"fast-{about['hex']:x}{about['suffix']}"
        if not file.exists():
            _build(about["include"], file)
        return Built(python, file)
    except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
        return Built(python, None, _reason(error))


def _ask(python: str) -> dict[str, object]:
    done = subprocess.run([python, "-I", "-S", "-c", _ASK], capture_output=True, text=True, timeout=30, check=True)
    found: dict[str, object] = json.loads(done.stdout)
    return found


def _unfit(about: dict[str, object]) -> str:
    if about["name"] != "cpython" or not _OLDEST <= about["version"] <= _NEWEST:  # type: ignore[operator]
        return "made for CPython 3.9 to 3.13"
    return "made for interpreters with a global lock" if about["free"] else ""


def _build(include: object, file: Path) -> None:
    """Compile in a temporary folder and move the file in one step: other tools may build or load it meanwhile."""
    compiler = c_compiler()
    if compiler is None:
        raise FileNotFoundError("no C compiler (cc, gcc or clang)")
    headers = [path for path in include if Path(path, "Python.h").exists()]  # type: ignore[attr-defined]
    if not headers:
        raise FileNotFoundError("the interpreter's header files are not installed")
    with tempfile.TemporaryDirectory(dir=file.parent) as name:
        made = Path(name) / file.name
        includes = [f"-I{path}" for path in dict.fromkeys(headers)]
        subprocess.run(
            [compiler, *FLAGS, *includes, str(source_dir() / "fast.c"), "-o", str(made)],
            capture_output=True,
            text=True,
            timeout=BUILD_S_MAX,
            check=True,
        )
        os.replace(made, file)


def _reason(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        lines = [line for line in (error.stderr or "").splitlines() if "error" in line.lower()]
        return (lines or ["it could not be built"])[0].strip()[:300]
    return str(error)[:300]
