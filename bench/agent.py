"""Measures the cost of the Python agent: CPU and time of real programs with and without it, and of single operations.

Programs run in turn bare and with each agent, each alone. Figures are ratios of medians. CPU is that of all processes of the
program. `fast` and `pure` record all I/O with stacks, as in runs with a fault. `fast_all` also records locks, waits, clocks and
hand-over, as in fault-free runs.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from bench.processes import Env, Steps, agent_files, background, children_cpu_s, free_ports
from undermine.resources import python_agent_dir
from undermine.runtimes import accelerator

HERE = Path(__file__).parent
TARGETS = HERE / "targets"
BENCH_VENV = HERE.parent / ".venv-bench"
PACKAGES = ("pysyncobj==0.3.14", "distributed")
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 5
BARE, FAST, FAST_ALL, PURE = "bare", "fast", "fast_all", "pure"
AGENTS = (FAST, FAST_ALL, PURE)


def main() -> None:
    python = bench_python()
    built = accelerator.ensure(python)
    if built.file is None:
        sys.exit(f"no accelerator: {built.why_not}")
    summary: dict[str, object] = {
        "bench": "agent",
        "rounds": ROUNDS,
        "pysyncobj": compare(lambda env, folder: pysyncobj(python, env, folder)),
    }
    summary["dask"] = compare(lambda env, folder: dask(python, env, folder))
    summary["operations_ns"] = operations(python)
    print(json.dumps(summary))


def bench_python() -> str:
    """Return an interpreter with the targets installed. It is created once."""
    python = BENCH_VENV / "bin" / "python"
    if not (BENCH_VENV / ".ready").exists():
        venv.create(BENCH_VENV, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
        (BENCH_VENV / ".ready").touch()
    return str(python)


def compare(run: Callable[[Callable[[str], Env], Path], float]) -> dict[str, object]:
    """The ratios of CPU and of time with each agent to those without one."""
    cpu: dict[str, list[float]] = {kind: [] for kind in (BARE, *AGENTS)}
    wall: dict[str, list[float]] = {kind: [] for kind in (BARE, *AGENTS)}
    for _ in range(ROUNDS):
        for kind in (BARE, *AGENTS):
            with tempfile.TemporaryDirectory(prefix="um-bench-") as name:
                folder = Path(name)
                before = children_cpu_s()
                wall[kind].append(run(environments(folder, kind), folder))
                cpu[kind].append(children_cpu_s() - before)
            print(f"{kind}: {wall[kind][-1]:.2f} s, CPU {cpu[kind][-1]:.2f} s", file=sys.stderr)
    cpu_s, time_s = statistics.median(cpu[BARE]), statistics.median(wall[BARE])
    ratios = {
        kind: {
            "cpu_ratio": round(statistics.median(cpu[kind]) / cpu_s, 3),
            "time_ratio": round(statistics.median(wall[kind]) / time_s, 3),
        }
        for kind in AGENTS
    }
    return {**ratios, "cpu_s": round(cpu_s, 2), "time_s": round(time_s, 2)}


def environments(folder: Path, kind: str, steps: Steps = ()) -> Callable[[str], Env]:
    """Return a function for the environment of a node: bare, or with the agent loaded as the tool loads it."""
    write = agent_files(folder, bool(steps))

    def environment(node: str) -> Env:
        (folder / node).mkdir(exist_ok=True)
        if kind == BARE:
            return dict(os.environ)
        more: dict[str, object] = {
            "adapters": [{"adapter": "http"}, {"adapter": "redis"}],
            "accelerator": "" if kind == PURE else str(accelerator.folder()),
        }
        if kind != FAST_ALL:
            more["observe"] = []
        path = write(node, folder / node, steps=list(steps), **more)
        return {**os.environ, "UNDERMINE_AGENT": str(path), "PYTHONPATH": str(python_agent_dir())}

    return environment


def took(argv: list[str], env: Env, folder: Path) -> float:
    done = subprocess.run(argv, env=env, cwd=folder, capture_output=True, text=True, timeout=180, check=True)
    return float(done.stdout.split()[-1])


def pysyncobj(python: str, env: Callable[[str], Env], folder: Path, count: int = 300) -> float:
    addresses = [f"127.0.0.1:{port}" for port in free_ports(3)]

    def argv(number: int, some: int) -> list[str]:
        others = ",".join(a for a in addresses if a != addresses[number])
        return [
            python,
            str(TARGETS / "pysyncobj_node.py"),
            addresses[number],
            others,
            str(folder / f"n{number}"),
            str(some),
        ]

    with ExitStack() as stack:
        for number in (1, 2):
            stack.enter_context(background(argv(number, 0), env(f"n{number}"), folder))
        return took(argv(0, count), env("n0"), folder)


def dask(python: str, env: Callable[[str], Env], folder: Path, tasks: int = 200) -> float:
    (port,) = free_ports(1)
    address = f"tcp://127.0.0.1:{port}"
    common = ["--no-dashboard", "--local-directory", str(folder)]
    with ExitStack() as stack:
        scheduler = [
            python,
            "-m",
            "distributed.cli.dask_scheduler",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--no-dashboard",
        ]
        stack.enter_context(background(scheduler, env("scheduler"), folder))
        for name in ("w1", "w2"):
            worker = [python, "-m", "distributed.cli.dask_worker", address, "--no-nanny", "--nthreads", "1", *common]
            stack.enter_context(background(worker, env(name), folder))
        return took([python, str(TARGETS / "dask_client.py"), address, str(tasks)], dict(os.environ), folder)


def operations(python: str) -> dict[str, object]:
    """The nanoseconds that the agent adds to one operation: for its event, and for a step that names it."""
    step: dict[str, object] = {
        "step": 0, "first": None, "fault": {"fault": "crash"},
        "second": {"match": {"op": "file.write", "loc": "nowhere:f#0"}, "place": "before", "nth": 1},
    }  # fmt: skip
    found: dict[str, dict[str, float]] = {}
    for name, kind, steps in (
        ("bare", BARE, ()),
        *((f"{kind} event", kind, ()) for kind in AGENTS),
        *((f"{kind} decision", kind, [step]) for kind in AGENTS),
    ):
        with tempfile.TemporaryDirectory(prefix="um-bench-") as text:
            folder = Path(text)
            env = environments(folder, kind, steps)("n0")
            argv = [python, str(TARGETS / "operations.py"), str(folder / "n0")]
            done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
            found[name] = {key: round(value) for key, value in json.loads(done.stdout).items()}
    return {
        "bare": found["bare"],
        **{
            kind: {
                "hook_and_event": {k: found[f"{kind} event"][k] - v for k, v in found["bare"].items()},
                "decision": {"write": found[f"{kind} decision"]["write"] - found[f"{kind} event"]["write"]},
            }
            for kind in AGENTS
        },
    }


if __name__ == "__main__":
    main()
