"""The worker's side: prepares projects, and runs plans with the same runner as the engine of one machine. Knows nothing of Dask.

Everything that it writes is in one folder. A guardian removes that folder and all processes, however the worker ends.
"""

from __future__ import annotations

import contextlib
import os
import platform
import secrets
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

import undermine
from undermine import target_files
from undermine.config.load import load
from undermine.config.schema import Config
from undermine.config.templates import Values, render
from undermine.deployments.guardian_client.client import GuardianClient
from undermine.deployments.isolation import choose
from undermine.deployments.sweep import removable
from undermine.exchange.manifest import here
from undermine.fleet import bundles, results
from undermine.fleet.messages import Answer, Kind, Machine, Order, Project, Ready
from undermine.fleet.results import TooLarge
from undermine.model.errors import UserError
from undermine.run.agent_files import prepare_agents
from undermine.run.engine import LocalEngine, open_engine
from undermine.runtimes.table import catch_up
from undermine.store.rundir import RunDir, save_record, tidy

SETUP_TIMEOUT_S = 1800.0
FORGOTTEN_S = 2 * 3600.0
"""A campaign without an order for this time has no client any more. No run takes that long."""
_TAIL = 400


def machine(name: str) -> Machine:
    """This worker. Its name is that of its host, and the one by which Dask knows it."""
    kernel = ".".join(platform.release().split(".")[:2])
    kind = Kind(undermine.__version__, platform.python_version(), here(), kernel)
    return Machine(name, kind, len(os.sched_getaffinity(0)))


class Gate:
    """Lets runs in together, or one alone. Whoever waits to be alone goes before runs that come later."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._waiting_alone = 0
        self._alone = False

    @contextlib.contextmanager
    def entered(self, *, alone: bool) -> Iterator[None]:
        with self._changed:
            self._waiting_alone += alone
            try:
                self._changed.wait_for(lambda: not (self._alone or (self._inside if alone else self._waiting_alone)))
            finally:
                self._waiting_alone -= alone
            self._alone, self._inside = alone, self._inside + 1
        try:
            yield
        finally:
            with self._changed:
                self._alone, self._inside = False, self._inside - 1
                self._changed.notify_all()


class _Bench:
    """A prepared project of one campaign: its configuration, and the engine that runs its plans."""

    def __init__(self, config: Config, folder: Path) -> None:
        self.config = config
        self._folder = folder
        self._opened = contextlib.ExitStack()
        self.engine: LocalEngine = self._opened.enter_context(open_engine(config, folder))
        self.ready = Ready(
            features=self.engine.runner.features,
            lacking_devices=dict(self.engine.runner.lacking_devices),
            isolation=choose(config.run.isolation).mode,
            user=self.engine.user,
        )
        self.has_run = False
        self.used = time.monotonic()
        """When it had its last order."""

    def close(self) -> None:
        """End all current runs at once, and remove what they wrote."""
        self.engine.abort()
        try:
            self._opened.close()
        finally:
            target_files.remove(self._folder)


class Station:
    """All projects that one worker has prepared. Safe to use from several threads."""

    def __init__(self, place: Path, name: str) -> None:
        self.name = name
        self.gate = Gate()
        self._lock = threading.RLock()
        self._guardian = GuardianClient()
        self._folder = place / f"um-{os.getpid()}-{secrets.token_hex(4)}"
        if removable(self._folder, None):
            self._guardian.scratch(self._folder)  # before the folder exists, so that it is never left behind
        self._folder.mkdir(mode=0o711, parents=True)
        self._benches: dict[str, _Bench] = {}

    def prepare(self, project: Project, files: bytes) -> Ready:
        """Unpack the project, run its set-up command and build its agents, unless that was done before."""
        with self._lock:
            try:
                self._end_forgotten(project.campaign)
                home = self._home(project, files)
                config = bundles.moved(project, home, self._folder / "results" / project.campaign)
                load(Path(config.path), project.params)  # raises if this machine lacks a program
                prepare_agents(config, lambda text: None)
                bench = self._benches[project.campaign] = _Bench(config, config.dir / "campaigns" / "hunt")
                return bench.ready
            except (UserError, OSError, RuntimeError) as error:
                return Ready(cannot=str(error).replace(str(self._folder), "…"))

    def _end_forgotten(self, campaign: str) -> None:
        """End what an earlier client of this campaign has left here, and campaigns that nobody has used for long."""
        old = [key for key, bench in self._benches.items() if time.monotonic() - bench.used > FORGOTTEN_S]
        for key in {campaign, *old}:
            self.leave(key)

    def _home(self, project: Project, files: bytes) -> Path:
        """The folder of the project's files, after its set-up command."""
        home, done = self._folder / project.digest, self._folder / f"{project.digest}.done"
        if not done.exists():
            target_files.remove(home)
            bundles.unpack(files, project.digest, home)
            self._set_up(bundles.moved(project, home, self._folder / "results"))
            done.touch()
        return home

    def _set_up(self, config: Config) -> None:
        """Run the project's set-up command in its folder. `python` is the interpreter of this worker."""
        if not config.campaign.setup:
            return
        text = render(config.campaign.setup, Values((), project=config.project, params=config.params))
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
        try:
            done = subprocess.run(
                shlex.split(text), cwd=config.project, env={**os.environ, "PATH": path}, timeout=SETUP_TIMEOUT_S,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            raise UserError(f"the set-up command `{text}` failed: {error}") from None
        if done.returncode:
            tail = done.stdout.decode(errors="replace").strip()[-_TAIL:]
            raise UserError(f"the set-up command `{text}` ended with {done.returncode}: {tail}")

    def run(self, order: Order) -> Answer:
        """Run one plan; return its folder, packed. The folder is removed."""
        with self.gate.entered(alone=order.alone):
            with self._lock:
                bench = self._benches.get(order.campaign)
            if bench is None:
                return Answer(error="the worker was started again and has not prepared the project yet")
            bench.used = time.monotonic()
            folder = bench.config.dir / "campaigns" / "hunt" / "runs" / f"{order.run_id:06d}"
            try:
                return Answer(files=self._run(bench, order, folder))
            except (UserError, TooLarge, OSError, RuntimeError) as error:
                return Answer(error=str(error) or type(error).__name__)
            finally:
                target_files.remove(folder)

    def _run(self, bench: _Bench, order: Order, folder: Path) -> bytes:
        runner = bench.engine.runner
        runner.contents, runner.agreements = order.contents, order.agreements
        view = runner.execute(folder, order.run_id, order.plan, order.capabilities, order.conditions)
        if not bench.has_run:
            bench.has_run = True
            catch_up(view.trace.agents)
        run = RunDir(folder)
        tidy(folder, keep_data=False)
        save_record(run, msgspec.structs.replace(view.record, worker=self.name))
        return results.pack(run)

    def leave(self, campaign: str) -> None:
        """End a campaign's runs and helpers. Its project stays prepared."""
        with self._lock:
            bench = self._benches.pop(campaign, None)
        if bench:
            bench.close()

    def close(self) -> None:
        for campaign in list(self._benches):
            self.leave(campaign)
        target_files.remove(self._folder)
        self._guardian.close()
