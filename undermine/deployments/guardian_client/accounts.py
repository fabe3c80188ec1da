"""The accounts that nodes run as (`run.user`), and the files of a run that these accounts reach.

A node's account owns the node's folder and the files of its output. One group that no account is in belongs to this tool alone:
each node gets it in addition to its own groups, and with it reaches the folders of its run, the trace and the agents' socket. The
folders of the results let everybody through, but show nothing. When the nodes of a run are dead, its folder is the tool's again.

Never changes a file below a folder that a node can write to: a link there could lead anywhere.
"""

from __future__ import annotations

import grp
import os
import pwd
import secrets
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from undermine.config.schema import Config
from undermine.model.errors import UserError
from undermine.store.rundir import RunDir

_TRIAL = 'while [ $# -gt 0 ]; do test "$1" "$2" || { echo $#; exit; }; shift 2; done'
"""Prints how many words are left at the first test that fails."""
_GROUPS = Path("/proc/self/gid_map")
_GROUPS_MIN, _GROUPS_END = 1 << 10, 1 << 31


@dataclass(frozen=True)
class Account:
    """A user of this machine."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str

    @property
    def environment(self) -> dict[str, str]:
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name}

    @property
    def process(self) -> dict[str, Any]:
        """The arguments with which `subprocess` starts a program as this user."""
        return {"user": self.uid, "group": self.gid, "extra_groups": self.groups}

    def give(self, path: Path) -> None:
        """Make this user the owner of a file or folder."""
        os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def blocked_at(self, path: Path, access: str) -> Path | None:
        """The first folder on the way to this path, or the path itself, that stops this user; None if none does.

        `access` is an option of the program `test`, such as `-r`. A program tries it as this user.
        """
        real = Path(os.path.realpath(path))
        ways = dict.fromkeys(folder for way in (path, real) for folder in reversed(way.parents))
        trials = [*(("-x", folder) for folder in ways), (access, real)]
        words = [str(word) for trial in trials for word in trial]
        done = subprocess.run(
            ["/bin/sh", "-c", _TRIAL, "sh", *words], capture_output=True, cwd="/", check=True, env={}, **self.process
        )
        left = int(done.stdout or 0) // 2
        return trials[-left][1] if left else None


class Accounts:
    """The account of each node. Without `run.user` there are none, and the methods do nothing."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._group = _free_group(config.where("run.user")) if config.run.user else 0
        self._by_node = {node: self._find(node) for node in config.node_ids} if config.run.user else {}
        self._tried: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._by_node)

    def __str__(self) -> str:
        names = {account.name for account in self._by_node.values()}
        if len(names) == 1:
            return names.pop()
        return ", ".join(f"{node} as {account.name}" for node, account in self._by_node.items())

    def of(self, node: str) -> Account | None:
        return self._by_node.get(node)

    def _find(self, node: str) -> Account:
        name = self._config.user_of(node)
        where = self._config.where("run.user")
        if os.geteuid() != 0:
            raise UserError(f"{where}: run.user needs root, to start nodes as {name}; run undermine as root, or remove the key")
        try:
            found = pwd.getpwnam(name)
        except (KeyError, ValueError):
            advice = f"add it (`useradd --system {name}`), or name another user, such as nobody"
            raise UserError(f"{where}: run.user names {name!r}, which is not a user of this machine; {advice}") from None
        groups = {*os.getgrouplist(name, found.pw_gid), self._group}
        return Account(name, found.pw_uid, found.pw_gid, tuple(sorted(groups)), found.pw_dir)

    # --- the files of a run

    def open_way(self, folder: Path) -> None:
        """Let nodes pass through the results, up to this folder of the tool. They cannot list or change it."""
        if self:
            folder = folder.resolve()
            results = self._config.dir.resolve()
            for way in (folder, *folder.parents):
                if way.is_relative_to(results):
                    way.chmod(way.stat().st_mode & 0o7777 | 0o011)

    def open_run(self, run: RunDir) -> None:
        """Let nodes enter the folder of a run, and create files in its trace. Each can change only its own files there."""
        if self:
            self.open_way(run.path.parent)
            for folder in (run.path, run.agents, run.nodes):
                self.share(folder, 0o710)
            self.share(run.trace, 0o1730)

    def close_run(self, run: RunDir) -> None:
        """Shut nodes out of the folder of a run. They must be dead."""
        for folder in (run.path, run.trace) if self else ():
            if folder.is_dir() and not folder.is_symlink():
                folder.chmod(0o700)

    def share(self, path: Path, mode: int) -> None:
        """Give the group of all nodes the rights of this mode on a file or folder of the tool."""
        if self:
            os.chown(path, -1, self._group, follow_symlinks=False)
            path.chmod(mode)

    # --- mistakes

    def refuse_unreachable(self, node: str, argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
        """Raise an error if the node's user cannot reach a file that the node's command names, or its working folder."""
        account = self.of(node)
        if account is None or node in self._tried:
            return
        stopped = self._blocked_program(account, argv[0], env, cwd)
        for path, access in () if stopped else self._needed(argv, cwd):
            if blocked := account.blocked_at(path, access):
                stopped = path, blocked
                break
        if stopped:
            raise UserError(f"{self._config.where('run.user')}: {_refusal(account.name, node, *stopped)}")
        self._tried.add(node)  # runs differ only in folders of the results

    def _needed(self, argv: Sequence[str], cwd: Path) -> Iterator[tuple[Path, str]]:
        """The paths that a node needs, each with the access. The folders of a run count as their results: the tool opens them."""
        results = self._config.dir.resolve()
        yield results, "-x"
        if not cwd.is_relative_to(results):
            yield cwd, "-x"
        for word in argv[1:]:
            for path in map(Path, word.rpartition("=")[2].split(os.pathsep)):
                if path.is_absolute() and path.exists() and not path.resolve().is_relative_to(results):
                    yield path, "-r"

    def _blocked_program(self, account: Account, program: str, env: Mapping[str, str], cwd: Path) -> tuple[Path, Path] | None:
        """The program and the path that stops the user; None if the user can run it, or it does not exist at all."""
        folders = env.get("PATH", os.defpath).split(os.pathsep) if "/" not in program else [""]
        found = [path for folder in folders if (path := cwd / folder / program).is_file()]
        blocked = [(path, account.blocked_at(path, "-x")) for path in found]
        stops = [(path, stop) for path, stop in blocked if stop]
        return stops[0] if stops and len(stops) == len(blocked) else None


def _refusal(user: str, node: str, path: Path, blocked: Path) -> str:
    if blocked == path:
        return f"node {node} runs as {user}, who may not use {path}; change its permissions, or name another file"
    advice = f"use one in another place, or run `chmod o+x {blocked}`"
    return f"node {node} runs as {user} and needs {path}, but {user} may not enter {blocked}; {advice}"


def _free_group(where: str) -> int:
    """The number of a group that does not exist, in the range that this system can use."""
    ranges = [list(map(int, line.split())) for line in _GROUPS.read_text().splitlines()]
    end = min(_GROUPS_END, max((first + count for first, _, count in ranges), default=_GROUPS_END))
    if end < _GROUPS_MIN:
        advice = "run undermine outside of this container, or remove the key"
        raise UserError(f"{where}: run.user needs other users and groups, but this container has almost none; {advice}")
    while True:  # the upper end of a small range has numbers with a meaning, such as nogroup
        gid = end - end // 16 + secrets.randbelow(end // 32)
        try:
            grp.getgrgid(gid)
        except KeyError:
            return gid
