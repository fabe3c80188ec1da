"""Real processes, found again by a token in their command line: environments get cleared, sessions left."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from waiting import wait_until
from watched_guardian import WatchedGuardian

from undermine.deployments.guardian import processes

ROOT = Path(__file__).resolve().parents[2]


class Token:
    """A number of seconds that no other process sleeps for."""

    def __init__(self) -> None:
        self.text = f"{random.SystemRandom().randrange(10**8, 10**9)}.{os.getpid()}"

    def pids(self) -> list[int]:
        names = [name for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
        return [int(name) for name in names if self._is_in(name) and processes.lives(int(name))]

    def _is_in(self, name: str) -> bool:
        try:
            return self.text.encode() in Path(f"/proc/{name}/cmdline").read_bytes()
        except OSError:
            return False

    def until_count(self, n: int) -> list[int]:
        return wait_until(lambda: pids if len(pids := self.pids()) >= n else [], what=f"{n} processes with {self.text}")

    def until_none(self) -> None:
        wait_until(lambda: not self.pids(), what=f"no process with {self.text}")

    def kill_all(self) -> None:
        while pids := self.pids():
            for pid in pids:
                processes.send_signal(pid, 9)


class Nodes:
    """A client with short words for starting things."""

    def __init__(self, client: WatchedGuardian, folder: Path) -> None:
        self.client = client
        self.folder = folder

    def start(self, key: str, *argv: str, env: dict[str, str] | None = None) -> int:
        return self.client.start(
            key=key,
            argv=argv,
            env={"PATH": os.environ["PATH"]} if env is None else env,
            cwd=self.folder,
            stdout=self.folder / "out",
            stderr=self.folder / "err",
        )

    def shell(self, key: str, script: str, env: dict[str, str] | None = None) -> int:
        return self.start(key, "/bin/sh", "-c", script, env=env)

    def python(self, key: str, script: str, *argv: str) -> int:
        return self.start(key, sys.executable, "-I", "-S", "-c", script, *argv)


# A daemon as in the books: its parent ends, its session is its own, its environment is empty.
DAEMON = """
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve("/bin/sleep", ["sleep", sys.argv[1]], {})
    os._exit(0)
os.wait()
"""


def family(token: Token) -> str:
    """A shell script: a plain child, one in its own session, one without environment, a daemon."""
    daemon = f"{sys.executable} -I -S -c '{DAEMON}' {token.text}"
    return f"sleep {token.text} & setsid sleep {token.text} & env -i sleep {token.text} & {daemon}; sleep 3600"


def whole_family(token: Token) -> list[int]:
    """Wait for the shell and its four sleepers, when the processes that only start others have ended."""

    def settled() -> list[int]:
        pids = token.pids()
        return pids if sorted(map(_program, pids)) == ["sh", "sleep", "sleep", "sleep", "sleep"] else []

    return wait_until(settled, what="a shell and four sleepers")


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def spawn_tool(script: str, *argv: str) -> subprocess.Popen[str]:
    """A tool process of its own, that can be killed."""
    command: Sequence[str] = [sys.executable, "-c", script, *argv]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, Path(__file__).parent)))}
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
