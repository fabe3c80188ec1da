"""Things that no node should do. `misbehaving.py` runs one of them as a program without an agent, so that no fault hits it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import sys
from pathlib import Path
from typing import Any

RUN = Path(os.environ["UNDERMINE_RUN"])
NAME = b"bad\xff \x1b[31mred.log"
HUGE = 20 << 30


def odd_files() -> None:
    """Put things that aren't files, and huge files, under names that the tool reads or writes."""
    for folder in (Path.cwd(), RUN / "logs"):
        Path(os.fsdecode(os.path.join(os.fsencode(folder), NAME))).write_bytes(b"ERROR said in an odd file\n")
    if (RUN / "record.json").exists():
        return  # an earlier start of this node has done it
    for where, names in {
        Path.cwd(): "{}.log",
        RUN / "trace": "n1.1.{}.events n1.2.{}.events.gz n1.3.{}.agent-error n1.4.{}.stacks",
        RUN / "logs": "n1.{}.out n1.{}.err",
    }.items():
        for name in names.split():
            os.mkfifo(where / name.format(91))
            (where / name.format(92)).symlink_to("/dev/zero")
            (where / name.format(93)).mkdir()
            with open(where / name.format(94), "wb") as stream:
                stream.truncate(HUGE)
    for name in ("logs/n1.2.out", "agents/n1.2.json", "session.json", "record.tmp", "verdicts.json"):
        (RUN / name).unlink(missing_ok=True)
        os.mkfifo(RUN / name)
    (RUN / "record.json").mkdir()


def removes_run() -> None:
    shutil.rmtree(RUN, ignore_errors=True)


def replaces_history() -> None:
    (RUN / "history.jsonl").unlink()
    os.mkfifo(RUN / "history.jsonl")


def replaces_state() -> None:
    (RUN / "state.bin").unlink()
    (RUN / "state.bin").mkdir()


def cuts_events() -> None:
    os.truncate(RUN / "trace" / f"n1.1.{os.getppid()}.events", 0)


def cuts_state() -> None:
    os.truncate(RUN / "state.bin", 0)


def attacks_socket() -> None:
    """Claim a step without a token, and open more connections than the tool serves. It closes what it does not serve."""
    agent = json.loads(Path(os.environ["UNDERMINE_AGENT"]).read_bytes())
    claim = {"type": "claim", "step": 0, "half": "second", "node": "n1", "incarnation": 1, "pid": 1, "t_ns": 1, "point": {}}
    with connected(agent["socket"]) as forger:
        forger.sendall(json.dumps(claim).encode() + b"\n")
        assert not forger.recv(1)
    flood = [connected(agent["socket"]) for _ in range(300)]
    assert not flood[0].recv(1)


def floods_with_token() -> None:
    """Open more connections as an agent than the tool can have files, and keep all that it serves. A child does it meanwhile."""
    agent = json.loads(Path(os.environ["UNDERMINE_AGENT"]).read_bytes())
    if os.fork() == 0:
        kept = []
        for _ in range(300):
            with contextlib.suppress(OSError):  # the tool closed it
                kept.append(speaking(agent))
        signal.pause()


def never_reads() -> None:
    """Ask the tool until it can send no more answers, and read none."""
    agent = json.loads(Path(os.environ["UNDERMINE_AGENT"]).read_bytes())
    connection = speaking(agent)
    connection.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            connection.send(b'{"type": "lasting"}\n')
    if os.fork() == 0:
        signal.pause()


def speaking(agent: dict[str, Any]) -> socket.socket:
    connection = connected(agent["socket"])
    connection.sendall(json.dumps({"type": "lasting", "token": agent["token"]}).encode() + b"\n")
    return connection


def kills_keeper() -> None:
    os.kill(int(os.environ["UNDERMINE_KEEPER"]), signal.SIGKILL)


def connected(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    return connection


def prints() -> None:
    print("the first line", flush=True)
    for _ in range(64):
        print("x" * (1 << 16), flush=True)
    print("the last line", flush=True)


def digs_deep() -> None:
    """Create more folders inside each other than a function can call itself."""
    for _ in range(1500):
        os.mkdir("deep")
        os.chdir("deep")
    Path("deepest.log").write_text("ERROR said in the deepest folder\n")


if __name__ == "__main__":
    with contextlib.suppress(PermissionError):  # as another user than the tool's, most misdeeds are impossible
        globals()[sys.argv[1]]()
