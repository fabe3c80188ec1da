"""Measures engines: local, and Dask with several workers; with targets that sleep, and with the example; and large campaigns.

    python -m bench.scale [--parts sleeping,rate,real,store] [--workers 1,2,4,16,64] [--runs N] [--stored N]

`sleeping`: workers are simulated and a run is a sleep, so that the engine's own limit shows. `rate`: the same with 64 workers and
short sleeps: runs in a second, and the CPU time of the scheduler and of the client for each, of the engine alone and of a whole
campaign. `real`: fault-free runs of the example on this machine.
`store`: the times to propose, group and report, and the memory, with many stored runs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import msgspec

from bench import report
from bench.options import some_of
from bench.scale import tasks
from bench.table import table
from undermine.api import demo_config
from undermine.campaign.limits import Limits
from undermine.campaign.loop import Campaign
from undermine.config.load import load
from undermine.config.schema import Config
from undermine.fleet.cluster import connected
from undermine.fleet.engine import FleetEngine, open_fleet
from undermine.model.faults import Crash
from undermine.model.plan import At, Plan, Step
from undermine.report.html import write_report
from undermine.run.agent_files import prepare_agents
from undermine.run.engine import Engine, open_engine
from undermine.store.campaign_dirs import open_store
from undermine.store.rundir import tidy
from undermine.strategies.exhaustive import Exhaustive
from undermine.strategies.random import Random
from undermine.testing import point

PARTS = ("sleeping", "rate", "real", "store")
SLEEP_S = 2.0
"""About the time of a short run of a real target."""
SHORT_S = 0.05
RATE_WORKERS = 64
ROOT = Path(__file__).resolve().parents[2]
CLUSTER = ROOT / "tests" / "fleet" / "dask_program.py"


@contextlib.contextmanager
def process(*arguments: str, **env: str) -> Iterator[tuple[int, str]]:
    """A program that says one line when it is ready, and ends with its input."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **env}
    pipe = subprocess.PIPE
    quiet = {"stdin": pipe, "stdout": pipe, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([sys.executable, *arguments], env=environment, text=True, **quiet) as started:  # type: ignore[call-overload]
        assert started.stdin is not None
        assert started.stdout is not None
        try:
            yield started.pid, started.stdout.readline().strip()
        finally:
            started.stdin.close()


def cpu_s(pid: int) -> float:
    """The seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def sample_run(config: Config, folder: Path) -> Path:
    """One real experiment with the example, as it travels from a worker. Its fault never fires, so the trace is complete."""
    prepare_agents(config, lambda text: None)
    never = Plan((Step(At(point(loc="nowhere:never#1")), Crash()),))
    with open_engine(config, folder) as engine:
        engine.runner.execute(folder / "run", 1, never)
    tidy(folder / "run", keep_data=False)
    return folder / "run"


@contextlib.contextmanager
def simulated(
    config: Config, home: Path, sample: Path, workers: int, sleep_s: float, *, small: bool = False
) -> Iterator[tuple[FleetEngine, int]]:
    """An engine over simulated workers, and the process of its scheduler."""
    env = {tasks.SLEEP: str(sleep_s), tasks.SAMPLE: str(sample), tasks.SMALL: "1" if small else ""}
    with (
        process("-m", "bench.scale.scheduler") as (scheduler, address),
        process("-m", "bench.scale.workers", address, str(workers), **env),
        open_fleet(config, home, address, silent, connect=partial(connected, tasks=tasks)) as engine,
    ):
        yield engine, scheduler


def timed_runs(engine: Engine, home: Path, runs: int, at_once: int) -> float:
    """The seconds that this number of fault-free runs takes."""
    begun = time.monotonic()
    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(lambda number: engine.runner.execute(home / f"{number:06d}", number, Plan()), range(runs)))
    return time.monotonic() - begun


def sleeping(
    config: Config, home: Path, sample: Path, counts: Sequence[int], rounds: int
) -> Iterator[dict[str, float | str]]:
    for workers in counts:
        with simulated(config, home / f"sleeping-{workers}", sample, workers, SLEEP_S) as (engine, _):
            timed_runs(engine, home / f"warm-{workers}", workers, workers)
            took_s = timed_runs(engine, home / f"runs-{workers}", rounds * workers, workers)
        runs = rounds * workers
        slept_s = sum(tasks.duration_s(number, SLEEP_S) for number in range(runs))
        per_min, efficiency = 60 * runs / took_s, slept_s / workers / took_s
        yield {"workers": workers, "runs": runs, "runs_per_min": per_min, "efficiency": efficiency}


def rate(config: Config, home: Path, sample: Path, runs: int) -> Iterator[dict[str, float | str]]:
    """How many short runs end in a second: of the engine alone, and of a campaign that judges and stores them."""
    own = os.getpid()
    with simulated(config, home / "small", sample, RATE_WORKERS, SHORT_S, small=True) as (engine, scheduler):
        timed_runs(engine, home / "small-warm", RATE_WORKERS, RATE_WORKERS)
        before = cpu_s(own), cpu_s(scheduler)
        took_s = timed_runs(engine, home / "small-runs", runs, RATE_WORKERS)
        yield _rate("engine, without traces", runs, took_s, cpu_s(own) - before[0], cpu_s(scheduler) - before[1])
    with simulated(config, home / "rate", sample, RATE_WORKERS, SHORT_S) as (engine, scheduler):
        timed_runs(engine, home / "rate-warm", RATE_WORKERS, RATE_WORKERS)
        before = cpu_s(own), cpu_s(scheduler)
        took_s = timed_runs(engine, home / "rate-runs", runs, RATE_WORKERS)
        yield _rate("engine", runs, took_s, cpu_s(own) - before[0], cpu_s(scheduler) - before[1])
        with open_store(home / "rate", exclusive=True) as store:
            campaign = Campaign(engine, store, [Random()], (), lambda news: None)
            campaign.preparing.run()
            before, begun = (cpu_s(own), cpu_s(scheduler)), time.monotonic()
            campaign.run(Limits(budget_s=3600, runs_max=runs, batch=4 * RATE_WORKERS))
            took_s = time.monotonic() - begun
            assert store.finished() >= runs, "the strategy has no more plans"
            yield _rate("campaign", runs, took_s, cpu_s(own) - before[0], cpu_s(scheduler) - before[1])


def _rate(what: str, runs: int, took_s: float, client_s: float, scheduler_s: float) -> dict[str, float | str]:
    each = {"client_ms_per_run": 1000 * client_s / runs, "scheduler_ms_per_run": 1000 * scheduler_s / runs}
    return {"what": what, "runs": runs, "runs_per_s": runs / took_s, **each, "client_mb": peak_mb()}


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def real(config: Config, home: Path, counts: Sequence[int], runs: int) -> Iterator[dict[str, float | str]]:
    for jobs in (1, 2):
        with open_engine(config, home / f"local-{jobs}") as local:
            timed_runs(local, home / f"warm-local-{jobs}", jobs, jobs)
            yield _real("local", jobs, runs, timed_runs(local, home / f"runs-local-{jobs}", runs, jobs))
    for workers in counts:
        with process(str(CLUSTER), str(workers), tempfile.mkdtemp(dir=home)) as (_, said):
            where = json.loads(said)["scheduler"]
            with open_fleet(config, home / f"dask-{workers}", where, silent, most=1) as engine:
                timed_runs(engine, home / f"warm-dask-{workers}", workers, workers)
                yield _real("dask", workers, runs, timed_runs(engine, home / f"runs-dask-{workers}", runs, workers))


def _real(engine: str, at_once: int, runs: int, took_s: float) -> dict[str, float | str]:
    figures = {"runs_per_min": 60 * runs / took_s, "s_per_run": at_once * took_s / runs}
    return {"engine": engine, "at_once": at_once, "runs": runs, **figures}


def stored(home: Path, runs: int) -> Iterator[dict[str, float | str]]:
    """How long a client needs with a large campaign: to propose, to group failing runs, and to write the report."""
    report.build(home / "large", runs)
    folder = home / "large" / ".undermine" / "campaigns" / "large"
    demo = load(demo_config(home / "proposing"))
    with open_engine(demo, home / "engine") as engine, open_store(folder, exclusive=True) as store:
        campaign = Campaign(engine, store, [Random(), Exhaustive()], (), lambda news: None)
        store.set_meta("contents", {})
        for strategy in (Random(), Exhaustive()):
            for when in ("first", "again"):
                yield _seconds(f"propose, {strategy.name}, {when}", partial(campaign.ask, strategy, 64))
        for when in ("first", "again"):
            yield _seconds(f"group, {when}", campaign.findings)
    yield _seconds("report", lambda: write_report(folder))


def silent(kind: str, text: str) -> None:
    pass


def _seconds(what: str, action: Callable[[], object]) -> dict[str, float | str]:
    begun, used_s = time.monotonic(), time.process_time()
    action()
    figures = {"seconds": time.monotonic() - begun, "cpu_s": time.process_time() - used_s}
    return {"what": what, **figures, "client_mb": peak_mb()}


def show(rows: Sequence[dict[str, float | str]]) -> None:
    names = list(rows[0])
    print(table(names, ([_words(row[name]) for name in names] for row in rows)))
    print(json.dumps(rows))
    print(flush=True)


def _words(value: float | str) -> str:
    return f"{value:,.2f}" if isinstance(value, float) else str(value)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--parts", type=some_of(PARTS), default=PARTS)
    parser.add_argument("--workers", type=lambda text: tuple(map(int, text.split(","))), default=(1, 2, 4, 16, 64))
    parser.add_argument("--rounds", type=int, default=10, help="runs of each simulated worker")
    parser.add_argument("--runs", type=int, default=2000, help="runs of the part `rate`")
    parser.add_argument("--real", type=int, default=24, help="runs of the part `real`")
    parser.add_argument("--stored", type=int, default=100_000, help="runs of the part `store`")
    said = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="undermine-bench-") as name:
        home = Path(name)
        config = load(demo_config(home / "example"))
        config = msgspec.structs.replace(config, hunt=msgspec.structs.replace(config.hunt, benign_runs=0, confirm=0))
        if {"sleeping", "rate"} & set(said.parts):
            sample = sample_run(config, home / "sample")
        if "sleeping" in said.parts:
            show(list(sleeping(config, home, sample, said.workers, said.rounds)))
        if "rate" in said.parts:
            show(list(rate(config, home, sample, said.runs)))
        if "real" in said.parts:
            show(list(real(config, home, [each for each in said.workers if each <= 4], said.real)))
        if "store" in said.parts:
            show(list(stored(home, said.stored)))


if __name__ == "__main__":
    main(sys.argv[1:])
