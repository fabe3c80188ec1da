"""Helpers for benchmarks: prepare packs, load agents as the tool does, and measure CPU and memory."""

from __future__ import annotations

import json
import resource
import socket
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from undermine.inject.controller import ARMED
from undermine.inject.server import SharedState

Env = dict[str, str]
Steps = Sequence[dict[str, object]]


def children_cpu_s() -> float:
    """The CPU seconds of all child processes that have ended and were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def peak_mb() -> float:
    """The peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def compared(bare: Iterable[float], other: Iterable[float], name: str) -> dict[str, float]:
    """The medians and their ratio."""
    without, with_it = statistics.median(bare), statistics.median(other)
    return {"bare": round(without, 3), name: round(with_it, 3), "ratio": round(with_it / without, 3)}


def set_up(pack: Path, *versions: str) -> None:
    """Fetch these releases, by default the one in undermine.toml, if the pack has a setup script."""
    if (pack / "setup.py").exists():
        subprocess.run([sys.executable, pack / "setup.py", *versions], check=True, stdout=subprocess.DEVNULL)


def linked(pack: Path, home: Path) -> Path:
    """Create a folder below `home` with links to the pack's files, without the results of earlier hunts."""
    folder = home / pack.name
    folder.mkdir()
    for path in pack.iterdir():
        if path.name != ".undermine":
            (folder / path.name).symlink_to(path)
    return folder


def agent_files(folder: Path, is_armed: bool = False) -> Callable[..., Path]:
    """Write the files that all agents of a run share. Return a function that writes one node's file. No tool listens."""
    shared = SharedState(folder / "state.bin", 1)
    if is_armed:
        shared.set_step(0, ARMED)
    shared.close()
    (folder / "trace").mkdir()

    def write(node: str, home: Path, **more: object) -> Path:
        said: dict[str, object] = {
            "version": 2, "nodes": [], "node": node, "role": "node", "incarnation": 1, "addresses": {}, "steps": [],
            "trace_dir": str(folder / "trace"), "state": str(folder / "state.bin"), "socket": str(folder / "none"),
            "dir": str(home), "paths": [str(home)], "packages": [],
        }  # fmt: skip
        path = folder / f"{node}.json"
        path.write_text(json.dumps(said | more))
        return path

    return write


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [s.getsockname()[1] for s in sockets]


@contextmanager
def background(argv: list[str], env: Env, folder: Path) -> Iterator[None]:
    """Run a process, and kill it at the end."""
    process = subprocess.Popen(argv, env=env, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()
