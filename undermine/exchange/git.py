"""Asks git about the project's checkout. Never changes it, and runs no program that the repository names."""

from __future__ import annotations

import subprocess
from typing import NamedTuple

_TIMEOUT_S = 30.0


class Answer(NamedTuple):
    """The output of a git command; if it failed, its complaint."""

    ok: bool
    out: str = ""
    complaint: str = ""


def ask(project: str, *words: str) -> Answer:
    """Run a git command in the project's folder."""
    command = ["git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-C", project, *words]
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=_TIMEOUT_S, check=False, stdin=subprocess.DEVNULL
        )
    except FileNotFoundError:
        return Answer(False, complaint="git is not installed")
    except (OSError, subprocess.SubprocessError) as error:
        return Answer(False, complaint=str(error))
    out, complaints = (data.decode(errors="replace") for data in (done.stdout, done.stderr))  # line ends stay as they are
    return Answer(done.returncode == 0, out, next(iter(complaints.splitlines()), ""))
