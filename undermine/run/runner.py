"""One run, from an empty folder to a stored record. Never chooses a fault and never judges.

The story of `Runner.execute`:

1. Make the run's folder; give each node its ports; compile the plan to a decision table for each agent.
2. Start the nodes with the agent loaded; wait until each is ready (a fault may already fire here). Now the cluster is at
   rest; a step may fire at this moment too.
3. Run the workload until it ends, until no operation has succeeded for `hang_s`, or until its time is over. By then the
   fault has had its whole effect while in force. With `Conditions.observe_all`, the workload's processes carry the
   agent too. While a fault is in force and a client waits long, the runner asks the nodes for their health. If
   clients still wait at the end, with the fault in force, the workload has stalled: the runner stores the stacks of all
   threads of the nodes, before healing changes them.
4. Heal: end every hold and lasting fault, thaw frozen nodes, join the network, start dead nodes again on their data. Clients
   that still wait must get an answer now. A workload that continues beyond that is ended.
5. Settle: poll until every node serves, the final reads succeed and all declared conditions hold, or the time is over. Each
   of these waits lasts for `settle_timeout_s`, or for `Conditions.patience_s` if that is longer: a confirmation waits longer
   than the target's own timers. They end early if a node that must serve has died and nobody restarts it. The runner asks
   nodes that still hang for their stacks. At last it leaves the nodes alone until their variables agree again, as far as they
   do at rest without a fault: for `hang_s`, or for `Conditions.patience_s` if that is longer.
6. Tear everything down, always, also after an exception or a signal to the tool.
7. Read the agents' files and assemble the record. A plan that did not fire is never a pass.

`Conditions.slow_s` makes devices slow from each held operation on. Before step 4 the runner waits until these operations
have ended, but not longer than that time. Only their times are judged, so step 3 ends when they have had this time, and step 5
only waits until they have recorded their ends.

`Conditions.sabotage` breaks a run in step 3 or 5 without a receipt (`tool_faults.Saboteur`), to test checkers.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
import time
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path

from undermine import target_files
from undermine.analysis.contents import Contents
from undermine.config.schema import Config
from undermine.deployments import cgroups
from undermine.deployments.guardian_client.accounts import Accounts
from undermine.deployments.guardian_client.client import GuardianClient
from undermine.deployments.guardian_client.link import GuardianDied
from undermine.deployments.isolation import Isolation, choose, node_infos
from undermine.deployments.slow import disk as slow_disk
from undermine.inject.compile import unsupported
from undermine.model.baseline import Agreements
from undermine.model.event import Trace
from undermine.model.faults import NETWORK_PARTITION, POWER_LOSS
from undermine.model.plan import Plan
from undermine.model.run import Conditions, RunRecord, RunView
from undermine.run.lateness import Lateness
from undermine.run.recording import save_view
from undermine.run.run_in_progress import KEY, RunInProgress
from undermine.run.slow_devices import lacking_devices
from undermine.runtimes.base import WRITTEN
from undermine.store.rundir import RunDir
from undermine.userland.client import UserlandClient

_SOCKET_DIR_BYTES_MAX = 90


class Runner:
    """Executes plans against one configured cluster; several threads may do so at the same time."""

    def __init__(self, config: Config, guardian: GuardianClient, userland: UserlandClient) -> None:
        self._config = config
        self._guardian = guardian
        self._userland = userland
        self.contents: Contents | None = None
        """The contents that are part of points; None while fault-free runs learn them."""
        self.agreements = Agreements()
        """The relations between nodes that settling waits for; none while fault-free runs show them."""
        self.accounts = Accounts(config)
        self._isolation = Isolation(choose(config.run.isolation))
        name = f"um-{os.getpid()}-{secrets.token_hex(4)}"
        self._sockets = Path(tempfile.gettempdir(), name)
        if self.accounts or len(os.fsencode(self._sockets)) > _SOCKET_DIR_BYTES_MAX:
            self._sockets = Path("/tmp", name)  # a socket's path has at most 107 bytes; every account can enter /tmp
        self._cgroup = None if cgroups.missing() else cgroups.new_folder()
        for folder in filter(None, (self._sockets, self._cgroup)):
            guardian.scratch(folder)  # before the folder exists, so that it is never left behind
            folder.mkdir(mode=0o700)
        self._agent_copies = self._make_copies() if self.accounts else None

    def _make_copies(self) -> Path:
        """The folder for the parts of agents, which are often in the home of the tool's user. Nodes can enter it, and the folder
        of the sockets, but not list them."""
        copies = self._sockets / "agents"
        (copies / WRITTEN).mkdir(parents=True)
        for folder in (self._sockets, copies):
            folder.chmod(0o711)  # `mkdir` would heed the umask
        self.accounts.share(copies / WRITTEN, 0o1730)
        return copies

    @property
    def features(self) -> frozenset[str]:
        """The optional abilities of this deployment, by the names that plans are checked against."""
        found = {NETWORK_PARTITION: self._isolation.can_partition, POWER_LOSS: not slow_disk.missing()}
        return frozenset(name for name, can in found.items() if can)

    @cached_property
    def lacking_devices(self) -> Mapping[str, str]:
        """For each device, why it cannot be slow here; "" if it can."""
        return lacking_devices(apart=self._isolation.choice.mode == "namespaces")

    def close(self) -> None:
        for folder in filter(None, (self._sockets, self._cgroup)):
            target_files.remove(folder)
            if not folder.exists():  # else nodes still end, so the guardian's client removes it later
                with contextlib.suppress(GuardianDied):
                    self._guardian.unscratch(folder)

    def execute(
        self,
        folder: Path,
        run_id: int,
        plan: Plan,
        capabilities: Mapping[str, tuple[str, ...]] | None = None,
        conditions: Conditions = Conditions(),  # noqa: B008 - frozen
    ) -> RunView:
        """Run one plan in this folder; the record is stored there before this returns."""
        begun = time.monotonic()
        run = RunDir(folder)
        nodes = self._config.node_ids
        if why := unsupported(plan, capabilities, self.features, self._config.variable_names, nodes):
            run.create()
            record = RunRecord(run_id, plan, "not_fired", f"skipped: {why}", conditions=conditions, skipped=True)
            return save_view(run, record, Trace())
        with self._start_run(run, run_id, plan, conditions) as started, Lateness() as lateness:
            started.run_phases()
        return started.conclude(begun, lateness, str(self._isolation.choice))

    @contextlib.contextmanager
    def _start_run(self, run: RunDir, run_id: int, plan: Plan, conditions: Conditions) -> Iterator[RunInProgress]:
        run.create()
        self.accounts.open_run(run)
        count = sum(len(role.nodes) * len(role.ports) for role in self._config.roles.values())
        network = self._isolation.network(self._config.node_ids, count)
        started = None
        try:
            started = RunInProgress(
                self._config,
                run,
                run_id,
                plan,
                conditions,
                node_infos(self._config, run, network),
                network,
                self._cgroup / KEY.format(run_id) if self._cgroup else None,
                self._guardian,
                self._userland,
                self._sockets / f"{run_id}.sock",
                self.accounts,
                self._agent_copies,
                self.contents,
                self.agreements,
            )
            yield started
        finally:
            if started:
                started.tear_down()
            network.close()
