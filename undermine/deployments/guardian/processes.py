"""Finds, freezes and kills trees of processes. Reads /proc and keeps no state."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection

FREEZE_LIMIT_S = 0.25  # a process in uninterruptible sleep cannot stop, so the wait is limited
POLL_S = 0.0003


def read_file(path: str) -> bytes:
    """The content of a /proc file; empty if the process has gone."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        parts = []
        while part := os.read(fd, 65536):
            parts.append(part)
        return b"".join(parts)
    except OSError:
        return b""
    finally:
        os.close(fd)


def stat_fields(path: str) -> list[bytes]:
    """The fields of a /proc stat file from `state` on (the name before it may contain anything)."""
    return read_file(path).rpartition(b")")[2].split()


def _tasks(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []


def thread_states(pid: int) -> set[bytes]:
    """The states of all threads: the main thread may be a zombie while other threads still run."""
    fields = (stat_fields(f"/proc/{pid}/task/{task}/stat") for task in _tasks(pid))
    return {field[0] for field in fields if field}


def lives(pid: int) -> bool:
    return not thread_states(pid) <= {b"Z", b"X"}


def start_time(pid: int) -> int | None:
    """When the process started, in ticks since boot; None if it is dead. Pid and start time together are unique."""
    fields = stat_fields(f"/proc/{pid}/stat")
    return int(fields[19]) if fields and lives(pid) else None


_HAS_CHILDREN_FILES = os.path.exists(f"/proc/self/task/{os.getpid()}/children")


def children_by_file(pid: int) -> list[int]:
    found: list[int] = []
    for task in _tasks(pid):
        found += map(int, read_file(f"/proc/{pid}/task/{task}/children").split())
    return found


def _children_by_scan() -> Callable[[int], list[int]]:
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (fields := stat_fields(f"/proc/{name}/stat")):
            children.setdefault(int(fields[1]), []).append(int(name))
    return lambda pid: children.get(pid, [])


def descendants(root: int, spare: Collection[int] = ()) -> list[int]:
    """All descendants of `root`, parents before their children. Children in `spare` and their descendants are left out.

    The result may miss processes while the tree changes; it is exact once all of them are stopped.
    """
    children_of = children_by_file if _HAS_CHILDREN_FILES else _children_by_scan()
    found = dict.fromkeys(pid for pid in children_of(root) if pid not in spare)
    queue = list(found)
    for pid in queue:  # grows during the loop: breadth first
        for child in children_of(pid):
            if child not in found:
                found[child] = None
                queue.append(child)
    return queue


def send_signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):  # gone, or a set-uid program that only root may end
        pass


def _groups(pids: Collection[int]) -> set[int]:
    """The process groups of these processes, without the caller's own.

    A node's groups hold only processes of that node: a group stays within one session, and the node created
    each of its sessions.
    """
    groups = {0, 1}
    for pid in pids:
        try:
            groups.add(os.getpgid(pid))
        except OSError:
            pass
    return groups - {0, 1, os.getpgid(0)}


def freeze(find: Callable[[], list[int]], limit_s: float, skip: Collection[int] = ()) -> None:
    """Send SIGSTOP to all processes that `find` returns, until it returns no new ones and all are stopped.

    Whole groups are stopped first: one system call stops a group that forks faster than it can be listed.
    `skip` holds processes that are already dying.
    """
    deadline = time.monotonic() + limit_s
    seen: set[int] = set()
    while True:
        new = [pid for pid in find() if pid not in seen and pid not in skip]
        if not new and all(thread_states(pid) <= {b"T", b"t", b"Z", b"X"} for pid in seen):
            return
        for group in _groups(new):
            send_signal(-group, signal.SIGSTOP)
        for pid in new:
            send_signal(pid, signal.SIGSTOP)
        seen.update(new)
        if time.monotonic() > deadline:
            return
        if not new:
            time.sleep(POLL_S)


def kill(find: Callable[[], list[int]], all_reaped: Callable[[], bool], limit_s: float) -> bool:
    """Freeze, then SIGKILL all processes that `find` returns, until `all_reaped`; False if that takes too long.

    Children die before their parents. Otherwise a parent's death could orphan a stopped process group, which the
    kernel then wakes (SIGHUP, SIGCONT): a dying node would run again.
    """
    deadline = time.monotonic() + limit_s
    dying: set[int] = set()
    while not all_reaped():
        freeze(find, FREEZE_LIMIT_S, skip=dying)
        for pid in reversed(find()):
            send_signal(pid, signal.SIGKILL)
            dying.add(pid)
        if all_reaped():
            break
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True
