"""Folders in the cgroup v2 tree: as root, each start of a node gets one, so that the kernel kills or freezes it as a whole.

    MOUNT/undermine-PID-START-TOKEN/RUN/NODE.INCARNATION

PID and START (see `processes.start_time`) name the tool.

No controller is enabled: nothing limits the nodes. A node's main process joins its folder itself (`guardian/main_process.py`).
The tool registers its own folder as scratch, so that the folder is removed however the tool ends.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from functools import cache
from pathlib import Path

from undermine.deployments.guardian.processes import start_time

PREFIX = "undermine-"
_REMOVE_LIMIT_S = 2.0


@cache
def mount() -> Path | None:
    """The top of the cgroup v2 tree; None if no such tree is mounted."""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, where, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(where.encode().decode("unicode_escape"))
    return None


def missing() -> str:
    """Why nodes cannot have cgroups here; "" if they can. Creates one to find out."""
    if os.geteuid() != 0:
        return "not root"
    top = mount()
    if top is None:
        return "no cgroup v2 tree is mounted"
    trial = new_folder()
    try:
        trial.mkdir()
        lacks = [name for name in ("cgroup.kill", "cgroup.freeze") if not (trial / name).exists()]
        trial.rmdir()
    except OSError as error:
        return f"{top}: {error.strerror}"
    return f"this kernel has no {lacks[0]}" if lacks else ""


def new_folder() -> Path:
    """A unique path for a folder of this tool. Call this only if `missing()` returns ""."""
    top = mount()
    assert top is not None
    return top / f"{PREFIX}{os.getpid()}-{start_time(os.getpid())}-{secrets.token_hex(4)}"


def abandoned() -> list[Path]:
    """The folders without processes whose tools are dead, of all campaigns."""
    top = mount()
    folders = top.glob(f"{PREFIX}*-*-*") if top is not None and os.geteuid() == 0 else ()
    return [path for path in folders if not _tool_lives(path.name) and not _populated(path)]


def _tool_lives(name: str) -> bool:
    pid, start = name.removeprefix(PREFIX).split("-")[:2]
    return not pid.isdigit() or str(start_time(int(pid))) == start


def _populated(path: Path) -> bool:
    try:
        return "populated 0" not in (path / "cgroup.events").read_text()
    except OSError:  # it is being removed
        return True


def is_ours(path: Path) -> bool:
    return path.parent == mount() and path.name.startswith(PREFIX)


def kill(path: Path) -> None:
    """Kill all processes in a folder and below it, even those that cleared the marker from their environment."""
    (path / "cgroup.kill").write_text("1")


def remove(path: Path) -> None:
    """Remove a folder and the folders below it. Their processes are dead, but the kernel may notice that a moment later."""
    deadline = time.monotonic() + _REMOVE_LIMIT_S
    while path.exists():
        shutil.rmtree(path, ignore_errors=True)  # fails for the files, which the kernel removes with the folder
        if time.monotonic() > deadline:
            return
        time.sleep(0.001)
