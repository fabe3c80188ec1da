"""The small server of the integration tests, as a node that first prints who it is and what it can change."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import kv

RUN = Path(os.environ["UNDERMINE_RUN"])


def works(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except OSError:
        return False
    return True


def writable(paths: Iterable[Path]) -> list[str]:
    """The folders in which this node can create a file, and the files that it can open for writing."""
    return [
        str(path.relative_to(RUN.parent.parent))
        for path in paths
        if works(lambda: (path / "new").touch() if path.is_dir() else os.close(os.open(path, os.O_WRONLY)))  # noqa: B023
    ]


def others() -> list[Path]:
    """Folders and files of the campaign, of this run and of an earlier run."""
    campaign = RUN.parent.parent
    here = [RUN / name for name in (".", "nodes", "agents", "logs", "state.bin")]
    earlier = [RUN.parent / "1" / name for name in (".", "record.json", "trace", "nodes/n1")]
    return [campaign, campaign / "campaign.db", campaign / "plugins.log", RUN.parent, *here, *earlier]


def witness() -> dict[str, object]:
    agent = Path(os.environ["UNDERMINE_AGENT"])
    neighbours = [folder for node in ("n1", "n2") if (folder := RUN / "nodes" / node) != Path.cwd()]
    return {
        "ids": [*os.getresuid(), *os.getresgid()],
        "groups": os.getgroups(),
        "home": os.environ["HOME"],
        "user": [os.environ["USER"], os.environ["LOGNAME"]],
        "child": int(subprocess.run(["/usr/bin/id", "-u"], capture_output=True, check=True).stdout),
        "own": writable([Path.cwd(), RUN / "trace"]),
        "others": writable(others()),
        "neighbours": writable(neighbours),
        "agent": works(agent.read_text) and not works(lambda: os.listdir(agent.parent)),
        "stdout": works(lambda: open("/dev/stdout", "a").close()),
        "may_kill_keeper": works(lambda: os.kill(int(os.environ["UNDERMINE_KEEPER"]), 0)),
        "left_cgroup": works(lambda: Path("/sys/fs/cgroup/cgroup.procs").write_text("0")),
    }


if __name__ == "__main__":
    print(json.dumps(witness()), flush=True)
    kv.main()
