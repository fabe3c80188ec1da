"""The request to start a node, and the error for a node that cannot be started."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from undermine.model.errors import UserError


def start_request(
    key: str, argv: Sequence[str], env: Mapping[str, str], cwd: Path, stdout: Path, stderr: Path
) -> dict[str, Any]:
    """The part of the request that every node needs. Refuses a command or an environment that execve would refuse."""
    if not argv or any("\0" in word for word in argv):
        raise UserError(f"Cannot start node {key!r}: its command is empty or has a NUL character; correct the command.")
    for name, value in env.items():
        if not name or "=" in name or "\0" in name + value:
            raise UserError(f"Cannot start node {key!r}: the environment variable {name!r} is not valid.")
    paths = {"cwd": cwd, "stdout": stdout, "stderr": stderr}
    return {
        "argv": [wire_text(word) for word in argv],
        "env": {wire_text(name): wire_text(value) for name, value in env.items()},
        **{name: wire_text(os.path.abspath(path)) for name, path in paths.items()},
    }


def wire_text(text: str | Path) -> str:
    """A text as JSON carries it: the bytes that the kernel sees, decoded as Latin-1."""
    return os.fsencode(text).decode("latin-1")


def start_error(
    key: str, argv: Sequence[str], env: Mapping[str, str], spec: dict[str, Any], answer: dict[str, Any]
) -> Exception:
    stage, number = answer["stage"], answer["errno"]
    if "trace" in answer:
        return RuntimeError(f"starting node {key!r} failed at {stage}:\n{answer['trace']}")
    why = os.strerror(number)
    if stage == "process":
        return UserError(f"Cannot start node {key!r}: no new process ({why}); run fewer experiments in parallel.")
    if stage == "command":
        return UserError(f"Cannot start node {key!r}: the command {argv[0]!r} {_exec_advice(argv, env, number)}")
    if stage == "user":
        return UserError(f"Cannot start node {key!r} as the user that run.user names ({why}); choose another user.")
    if stage == "trap":
        return RuntimeError(f"the system calls of node {key!r} could not be trapped: {why}")
    path = os.fsdecode(spec.get(stage, "/dev/null").encode("latin-1"))
    if stage in ("netns", "cgroup"):
        return RuntimeError(f"node {key!r} could not be put into its {stage} {path}: {why}")
    what = "working folder" if stage == "cwd" else f"file for its {stage}"
    return UserError(f"Cannot start node {key!r}: the {what} {path} cannot be used ({why}); create or correct it.")


def _exec_advice(argv: Sequence[str], env: Mapping[str, str], number: int) -> str:
    if number in (errno.ENOENT, errno.ENOTDIR) and "/" not in argv[0]:
        return f"was not found in PATH={env.get('PATH', os.defpath)!r}; install it or give its full path."
    if number in (errno.ENOENT, errno.ENOTDIR):
        return "does not exist, or the interpreter in its #! line does not; correct the node's command."
    if number == errno.EACCES:
        return "may not be executed; make it executable (chmod +x) or correct the node's command."
    if number == errno.ENOEXEC:
        return "is not a program; a script needs a first line such as #!/bin/sh."
    return f"cannot be executed ({os.strerror(number)}); correct the node's command."
