"""Things that no node should do. `misbehaving.py` runs one of them as a program without an agent, so that no fault hits it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
from pathlib import Path

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


def connected(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    return connection


def prints() -> None:
    print("the first line", flush=True)
    for _ in range(64):
        print("x" * (1 << 16), flush=True)
    print("the last line", flush=True)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
