"""The engine that runs plans on the workers of a Dask cluster. The user's checkers and policies run on the client's machine.

A run whose worker is lost is made again on another worker. Only one answer for each run is ever unpacked, so a run is stored at
most once. Whatever an abandoned worker still sends is dropped.
"""

from __future__ import annotations

import contextlib
import hashlib
import socket
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from undermine import target_files
from undermine.analysis.contents import Contents
from undermine.config.schema import Config
from undermine.exchange.safe_zip import Damaged
from undermine.fleet import bundles, results
from undermine.fleet.cluster import Cluster, WorkerLost, connected
from undermine.fleet.messages import Kind, Order, Ready
from undermine.fleet.roster import Member, Need, Roster, Tell
from undermine.inject.compile import unsupported
from undermine.model.baseline import Agreements
from undermine.model.errors import UserError
from undermine.model.event import Trace
from undermine.model.plan import Plan
from undermine.model.run import Conditions, RunRecord, RunView
from undermine.run.engine import UserFunctions, user_functions
from undermine.run.recording import save_view
from undermine.store.rundir import RunDir, load_view
from undermine.userland.registry import check_workloads

LOST_MAX = 3
"""A run that has lost so many workers is broken: the plan itself may be the reason."""
_SLACK_S = 300.0
_KIND = "workers.json"
"""The file in a campaign's folder with the kind of its workers."""


class FleetRunner:
    """Executes plans on workers. Several threads may do so at the same time."""

    def __init__(self, config: Config, roster: Roster, campaign: str) -> None:
        self._config = config
        self._roster = roster
        self._campaign = campaign
        self.contents: Contents | None = None
        self.agreements = Agreements()
        ready = roster.ready
        # fixed, since strategies must not see whether a worker comes or goes
        self._features = frozenset[str]().union(*(each.features for each in ready))
        self._lacking = _lacking(ready)

    @property
    def features(self) -> frozenset[str]:
        """The abilities that at least one worker had at the beginning of this session."""
        return self._features

    @property
    def lacking_devices(self) -> Mapping[str, str]:
        """For each device, why no worker could make it slow at the beginning of this session; "" if one could."""
        return self._lacking

    def execute(
        self,
        folder: Path,
        run_id: int,
        plan: Plan,
        capabilities: Mapping[str, tuple[str, ...]] | None = None,
        conditions: Conditions = Conditions(),  # noqa: B008 - frozen
    ) -> RunView:
        """Run one plan on a worker; its files are in this folder before this returns. The worker says why it skips a plan."""
        run = RunDir(folder)
        alone = bool(conditions.patience_s or conditions.slow_s)
        known = {node: tuple(names) for node, names in capabilities.items()} if capabilities is not None else None
        order = Order(self._campaign, run_id, plan, known, conditions, self.contents, self.agreements, alone)
        need = Need(self._can(plan, known, conditions), alone, conditions.at, conditions.not_at)
        why = ""
        for _ in range(LOST_MAX):
            with self._roster.seat(need) as member:
                try:
                    return self._run_on(member, order, run)
                except WorkerLost as error:
                    why = f"worker {member.name}: {error}"
        target_files.remove(folder)
        run.create()
        record = RunRecord(run_id, plan, "broken", f"{LOST_MAX} workers did not finish it; {why}", conditions=conditions)
        return save_view(run, record, Trace())

    def _run_on(self, member: Member, order: Order, run: RunDir) -> RunView:
        answer = self._roster.run(member, order, limit_s(self._config, order.conditions))
        try:
            if answer.error:
                raise Damaged(answer.error)
            target_files.remove(folder := run.path)  # left by an attempt that failed, or by an older session
            folder.mkdir(mode=0o700, parents=True)
            results.unpack(answer.files, run)
            view = load_view(run)
            if view.record.id != order.run_id:
                raise Damaged("it is another run")
        except (Damaged, UserError) as error:
            self._roster.lose(member, f"has no result: {error}")
            raise WorkerLost(str(error)) from None
        self._roster.note(member, view.record.timing.late_ms_max)
        return view

    def _can(
        self, plan: Plan, capabilities: Mapping[str, tuple[str, ...]] | None, conditions: Conditions
    ) -> Callable[[Ready], bool]:
        """Can a worker with these abilities run this plan? If no worker ever could, any of them may say so."""

        def can(ready: Ready) -> bool:
            names, nodes = self._config.variable_names, self._config.node_ids
            slow = not conditions.slow_s or all(why or not ready.lacking_devices.get(name) for name, why in self._lacking.items())
            return slow and not unsupported(plan, capabilities, ready.features, names, nodes)

        best = Ready(features=self._features, lacking_devices=dict(self._lacking))
        return can if can(best) else lambda ready: True


def _lacking(ready: list[Ready]) -> dict[str, str]:
    """For each device, why all of them lack it; "" if one of them doesn't."""
    names = dict.fromkeys(name for each in ready for name in each.lacking_devices)
    found = {name: [each.lacking_devices.get(name, "") for each in ready] for name in names}
    return {name: min(whys) for name, whys in found.items()}


def limit_s(config: Config, conditions: Conditions) -> float:
    """The time after which a worker with this run hangs. It is generous: a run has its own limits."""
    ready_s = sum(role.ready.timeout_s for role in config.roles.values()) + config.run.start_timeout_s
    wait_s = max(config.run.settle_timeout_s, conditions.patience_s, config.run.hang_s)
    return 2 * (ready_s + config.workload.timeout_s + 6 * wait_s + conditions.slow_s) + _SLACK_S


class FleetEngine(UserFunctions):
    """Runs plans on the workers of a cluster, and calls the user's checkers and policies here."""

    def __init__(self, config: Config, folder: Path, userland: Any, roster: Roster, campaign: str) -> None:
        super().__init__(config, folder, userland)
        self._roster = roster
        self.runner = FleetRunner(config, roster, campaign)

    @property
    def user(self) -> str:
        return ", ".join(sorted({each.user for each in self._roster.ready if each.user}))

    @property
    def isolation(self) -> str:
        return self._roster.isolation

    @property
    def workers(self) -> Collection[str]:
        return self._roster.names

    def places(self, jobs: int) -> int:
        """The number of runs that may be under way now: what the workers carry, as far as that is known."""
        return self._roster.places

    def abort(self) -> None:
        self._roster.abort()


Connect = Callable[[str], contextlib.AbstractContextManager[Cluster]]


@contextlib.contextmanager
def open_fleet(
    config: Config, folder: Path, scheduler: str, tell: Tell, *, most: int = 0, connect: Connect = connected, **limits: float
) -> Iterator[FleetEngine]:
    """Start the engine on the cluster of this scheduler. However the `with` block ends, the workers end their runs.

    `most` limits the number of runs at a time of each worker; `limits` are those of `Roster`.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    campaign = hashlib.blake2b(f"{socket.gethostname()}:{folder.resolve()}".encode(), digest_size=8).hexdigest()
    with user_functions(config, folder) as userland:
        if not config.workload.command and not config.workload.python:
            check_workloads(config.campaign.plugins, userland.declared["workloads"])
        bundle = bundles.pack(config, campaign)
        for warning in bundle.warnings:
            tell("warning", warning)
        with connect(scheduler) as cluster:
            late_s_max, kind = config.run.late_s_max, _stored_kind(folder)
            roster = Roster(cluster, bundle, tell, late_s_max=late_s_max, most=most, kind=kind, **limits)
            try:
                roster.open()
                if roster.kind:
                    target_files.write_new(folder / _KIND, msgspec.json.encode(roster.kind))
                yield FleetEngine(config, folder, userland, roster, campaign)
            finally:
                roster.close()


def _stored_kind(folder: Path) -> Kind | None:
    """The kind of the workers with which the campaign began."""
    try:
        return msgspec.json.decode((folder / _KIND).read_bytes(), type=Kind)
    except (OSError, msgspec.DecodeError):
        return None
