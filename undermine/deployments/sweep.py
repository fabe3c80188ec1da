"""The last resort: removes processes and folders that a dead tool of this campaign has left behind.

The guardian and its keepers clean up by themselves; this module helps if all of them were killed at once, or the
machine lost power. It kills only processes of this user, or as root of any user, that carry the campaign's marker in their
environment (and their descendants) or are in a cgroup of a dead tool. It never kills processes of a living tool, the caller
or its ancestors. It removes only folders that a dead tool has registered and was allowed to register (`removable`).

The registry is `<campaign_dir>/scratch.jsonl`, one line for each folder: {"path", "pid", "start"} with the
tool's pid and start time. A later line with "kept": true withdraws the registration.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from undermine import target_files
from undermine.deployments import cgroups
from undermine.deployments.guardian import processes

REGISTRY = "scratch.jsonl"
KILL_LIMIT_S = 5.0


def removable(path: Path, campaign_dir: Path | None) -> bool:
    """May a tool register this folder? Only um-… below a temporary folder, a folder below the campaign's runs, or a cgroup."""
    if not path.is_absolute() or ".." in path.parts or path.is_symlink():
        return False
    if cgroups.is_ours(path):
        return True
    parent = path.parent.resolve()
    if campaign_dir and (parent / path.name).is_relative_to(runs := campaign_dir.resolve() / "runs"):
        return parent / path.name != runs
    temporary = {Path(folder).resolve() for folder in (tempfile.gettempdir(), "/tmp", "/var/tmp")}
    return path.name.startswith("um-") and any(parent.is_relative_to(folder) for folder in temporary)


def note_scratch(campaign_dir: Path, path: Path, wanted: bool) -> None:
    """Register `path` to be removed when this process has ended. With `wanted`, withdraw the registration."""
    entry: dict[str, Any] = {"path": str(path), "pid": os.getpid(), "start": processes.start_time(os.getpid())}
    if wanted:
        entry["kept"] = True
    campaign_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _registry(campaign_dir, create=True) as file:
        assert file is not None
        size = file.seek(0, os.SEEK_END)
        if size:  # a tool that was killed while writing leaves an incomplete line
            file.seek(size - 1)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write(json.dumps(entry).encode() + b"\n")


def remove_scratch(path: Path) -> None:
    """Remove a registered folder, if it still exists and nothing that lives is in it."""
    if cgroups.is_ours(path):
        cgroups.remove(path)
    else:
        target_files.remove(path)


def sweep(campaign_dir: Path) -> list[str]:
    """Remove all processes and folders that dead tools of this campaign left; return a sentence for each action."""
    return _sweep_processes(campaign_dir) + _sweep_folders(campaign_dir.resolve()) + _sweep_cgroups()


# -------------------------------------------------------------------------------------------------- processes


def _sweep_processes(campaign_dir: Path) -> list[str]:
    folders = {campaign_dir.absolute(), campaign_dir.resolve()}
    markers = {b"UNDERMINE_CAMPAIGN=" + os.fsencode(folder) for folder in folders}
    killed: dict[int, str] = {}
    deadline = time.monotonic() + KILL_LIMIT_S
    while left := _leftovers(markers):
        for pid in left:
            killed.setdefault(pid, f"killed process {pid} ({_name(pid)})")
        for pid in left:  # one by one: without a keeper, a group may hold processes of others
            processes.send_signal(pid, signal.SIGSTOP)
        for pid in reversed(left):
            processes.send_signal(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            return [*killed.values(), f"processes {left} are left: they do not die"]
        time.sleep(0.002)
    return list(killed.values())


def _leftovers(markers: set[bytes]) -> list[int]:
    """The marked processes that belong to no living tool, and their descendants, parents first."""
    spared = {os.getpid(), *(ancestors(os.getpid()) or [])}
    found: dict[int, None] = {}
    for pid in _own_processes():
        if pid not in spared and not markers.isdisjoint(_environ(pid)) and not _is_kept(pid):
            family = [pid, *processes.descendants(pid)]
            found.update(dict.fromkeys(p for p in family if p not in spared and processes.lives(p)))
    return list(found)


def _own_processes() -> Iterator[int]:
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.getuid() in (0, os.stat(f"/proc/{name}").st_uid):  # as root, nodes may have any user
                yield int(name)
        except OSError:
            pass


def _environ(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _name(pid: int) -> str:
    words = processes.read_file(f"/proc/{pid}/cmdline").split(b"\0")
    return b" ".join(words).decode(errors="replace").strip()[:80] or "?"


def ancestors(pid: int) -> list[int] | None:
    """The parents of a process, up to pid 1; None if one of them died meanwhile."""
    found: list[int] = []
    while pid > 1:
        fields = processes.stat_fields(f"/proc/{pid}/stat")
        if not fields:
            return None
        pid = int(fields[1])
        found.append(pid)
    return found


def _is_kept(pid: int) -> bool:
    """Is the process, or one of its ancestors, a helper of a living tool? If in doubt, yes: the next sweep asks again."""
    for _ in range(20):
        above = ancestors(pid)
        if above is not None:
            return any(_tool_lives(parent) for parent in (pid, *above))
    return True


def _tool_lives(guardian_or_keeper: int) -> bool:
    for entry in _environ(guardian_or_keeper):
        if entry.startswith(b"UNDERMINE_GUARDIAN_OF="):
            pid, _, start = entry.partition(b"=")[2].partition(b":")
            return pid.isdigit() and str(processes.start_time(int(pid))).encode() == start
    return False


# ---------------------------------------------------------------------------------------------------- folders


def _sweep_folders(campaign_dir: Path) -> list[str]:
    done: list[str] = []
    with _registry(campaign_dir, create=False) as file:
        if file is None:
            return []
        entries = {(entry["path"], entry["pid"], entry["start"]): entry for entry in _entries(file)}
        keep = []
        for entry in entries.values():
            if processes.start_time(entry["pid"]) == entry["start"]:
                keep.append(entry)
            elif not entry.get("kept") and not _claimed(entry["path"], entries.values()):
                done += _remove(Path(entry["path"]), campaign_dir)
        file.seek(0)
        file.truncate()
        file.writelines(json.dumps(entry).encode() + b"\n" for entry in keep)
    return done


def _sweep_cgroups() -> list[str]:
    """Remove empty cgroups of dead tools. Cgroups with processes stay, since their campaign is unknown."""
    found = cgroups.abandoned()
    for path in found:
        cgroups.remove(path)
    return [f"removed folder {path}" for path in found if not path.exists()]


def _claimed(path: str, entries: Any) -> bool:
    """Does a living tool use this folder (a resumed run)?"""
    return any(e["path"] == path and processes.start_time(e["pid"]) == e["start"] for e in entries)


def _remove(path: Path, campaign_dir: Path) -> list[str]:
    try:
        if not removable(path, campaign_dir) or path.lstat().st_uid != os.getuid() or not path.is_dir():
            return []
        if cgroups.is_ours(path):
            cgroups.kill(path)
    except OSError:
        return []
    remove_scratch(path)
    return [f"could not remove all of {path}" if path.exists() else f"removed folder {path}"]


def _entries(file: IO[bytes]) -> Iterator[dict[str, Any]]:
    for line in file:
        try:
            entry = json.loads(line)
            str(entry["path"]), int(entry["pid"]), int(entry["start"])
        except (ValueError, KeyError, TypeError):
            continue
        yield entry


@contextmanager
def _registry(campaign_dir: Path, create: bool) -> Iterator[IO[bytes] | None]:
    """The registry, locked against other tools."""
    flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
    try:
        fd = os.open(campaign_dir / REGISTRY, flags, 0o600)
    except FileNotFoundError:
        if create:
            raise
        yield None
        return
    with os.fdopen(fd, "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file
