"""The protocol of all engines, which run a campaign's plans, and the engine that runs them on this machine.

`open_engine` opens and closes the helpers of one tool process together: the guardian, the process of the user's file, the runner.
A campaign knows only the protocol. So it does the same on one machine as on many.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from undermine import target_files
from undermine.analysis.contents import Contents
from undermine.config.schema import Config
from undermine.deployments.guardian_client.client import GuardianClient
from undermine.deployments.guardian_client.link import tool_identity
from undermine.deployments.isolation import choose
from undermine.deployments.node_probes import markers
from undermine.model.baseline import Agreements
from undermine.model.errors import UserError
from undermine.model.injected import Stage
from undermine.model.plan import Plan
from undermine.model.run import Conditions, RunView, Verdict
from undermine.policies.pruning import Refusal
from undermine.run.runner import Runner
from undermine.runtimes import clock
from undermine.userland.client import UserlandClient
from undermine.userland.registry import check_workloads

_PRUNE_TIMEOUT_S = 120.0
_PRUNE_PLAN_S = 0.001
"""Extra time for each plan: a level may have hundreds of thousands."""
_ANSWER_BYTES_MAX = 64 << 20


class ExecutesPlans(Protocol):
    """Executes plans, on this machine or elsewhere. Several threads may use it at the same time."""

    contents: Contents | None
    """The contents that are part of points; None while fault-free runs learn them."""
    agreements: Agreements
    """The relations between nodes that settling waits for; none while fault-free runs show them."""

    @property
    def features(self) -> frozenset[str]:
        """The optional abilities of the deployment, by the names that plans are checked against."""

    @property
    def lacking_devices(self) -> Mapping[str, str]:
        """For each device, why it cannot be slow; "" if it can."""

    def execute(
        self,
        folder: Path,
        run_id: int,
        plan: Plan,
        capabilities: Mapping[str, tuple[str, ...]] | None = None,
        conditions: Conditions = ...,
    ) -> RunView:
        """Run one plan; its record, history, trace and logs are in this folder before this returns."""


class Engine(Protocol):
    """Everything that a campaign needs to run plans and to call the user's functions."""

    @property
    def config(self) -> Config: ...

    @property
    def runner(self) -> ExecutesPlans: ...

    @property
    def user(self) -> str:
        """The user that nodes run as; "" for the user of the tool."""

    @property
    def isolation(self) -> str:
        """How nodes are isolated from each other: `namespaces` or `ports`."""

    @property
    def declared(self) -> Mapping[str, list[Any]]:
        """By kind: what the user's file declares, such as the names of its checkers and filters."""

    @property
    def user_checkers(self) -> list[str]:
        """The names of the user's checkers that the configuration enables."""

    @property
    def stages(self) -> list[Stage]:
        """The stages of protocols that the user's file names."""

    def user_checks(self, run_folder: Path) -> list[Verdict]:
        """Run the user's checkers on a run folder. A checker that does not answer gets the verdict `unknown`."""

    def user_policies(self, plans: Sequence[Plan], policies: Sequence[str] = ()) -> list[Refusal]:
        """The policies' answer to each plan. `policies` names the user's own or shipped ones; by default, all of the user's."""

    @property
    def workers(self) -> Collection[str]:
        """The names of the workers that are there now; none if plans run on this machine."""

    def places(self, jobs: int) -> int:
        """The number of runs that may be under way now, if the user wants `jobs` on this machine."""

    def abort(self) -> None:
        """End all current runs at once."""


class UserFunctions:
    """Calls the user's checkers and policies, in a helper process on this machine. The part that all engines share."""

    def __init__(self, config: Config, folder: Path, userland: UserlandClient) -> None:
        self.config = config
        self.userland = userland
        self._folder = folder

    @property
    def declared(self) -> Mapping[str, list[Any]]:
        """By kind: what the user's file declares, such as the names of its checkers and filters."""
        return self.userland.declared

    @property
    def user_checkers(self) -> list[str]:
        """The names of the user's checkers that the configuration enables."""
        return [name for name in self.declared["checkers"] if name not in self.config.checkers.disable]

    @property
    def stages(self) -> list[Stage]:
        """The stages of protocols that the user's file names."""
        return msgspec.convert(self.declared["stages"], list[Stage])

    def user_checks(self, run_folder: Path) -> list[Verdict]:
        """Run the user's checkers on a run folder. A checker that does not answer gets the verdict `unknown`."""
        names = self.user_checkers
        if not names:
            return []
        out = run_folder / "verdicts.json"
        target_files.remove(out)
        timeout_s = self.config.run.checker_timeout_s
        call = self.userland.call(
            "check", run=str(run_folder), out=str(out), timeout_s=timeout_s, log=str(self._folder / "checkers.log")
        )
        if not call.wait(timeout_s * len(names) + 10):
            call.kill()
        try:
            verdicts = msgspec.json.decode(target_files.read(out, _ANSWER_BYTES_MAX), type=list[Verdict])
        except (OSError, msgspec.DecodeError):
            return [Verdict("unknown", "the checkers' process died or ran out of time", checker=n) for n in names]
        finally:
            target_files.remove(out)
        return [verdict for verdict in verdicts if verdict.checker in names]

    def user_policies(self, plans: Sequence[Plan], policies: Sequence[str] = ()) -> list[Refusal]:
        """The policies' answer to each plan. `policies` names the user's own or shipped ones; by default, all of the user's."""
        declared = self.declared
        if not plans or not (policies or declared["filters"] or declared["clusters"]):
            return [Refusal("")] * len(plans)
        stem = f"prune-{os.getpid()}-{threading.get_ident()}"
        plans_file, out = self._folder / f"{stem}.json", self._folder / f"{stem}.out"
        log = self._folder / "policies.log"
        try:
            plans_file.write_bytes(msgspec.json.encode(list(plans)))
            call = self.userland.call(
                "prune",
                plans=str(plans_file),
                out=str(out),
                log=str(log),
                campaign=str(self._folder),
                policies=list(policies),
                groups=self.config.groups,
                seed=self.config.hunt.seed,
            )
            if not call.wait(_PRUNE_TIMEOUT_S + _PRUNE_PLAN_S * len(plans)):
                call.kill()
            return _refusals(call.code, out, log)
        finally:
            plans_file.unlink(missing_ok=True)
            out.unlink(missing_ok=True)


class LocalEngine(UserFunctions):
    """Runs plans on this machine."""

    def __init__(
        self, config: Config, folder: Path, guardian: GuardianClient, userland: UserlandClient, runner: Runner
    ) -> None:
        super().__init__(config, folder, userland)
        self._guardian = guardian
        self.runner = runner
        self.workers: Collection[str] = ()

    @property
    def user(self) -> str:
        return str(self.runner.accounts)

    @property
    def isolation(self) -> str:
        return choose(self.config.run.isolation).mode

    def places(self, jobs: int) -> int:
        return jobs

    def abort(self) -> None:
        self._guardian.close()


class _Answer(msgspec.Struct):
    """The helper's answer to a request to prune plans."""

    refusals: list[tuple[str, str]] | None = None
    error: str = ""


def _refusals(code: int | None, out: Path, log: Path) -> list[Refusal]:
    try:
        answer = msgspec.json.decode(out.read_bytes(), type=_Answer)
    except (OSError, msgspec.DecodeError):
        answer = _Answer()
    if answer.error:
        raise UserError(f"{answer.error} (see {log})")
    if code != 0 or answer.refusals is None:
        raise UserError(f"one of your policies ended the process or hung; see {log} and fix the policy")
    return [Refusal(*one) for one in answer.refusals]


def user_functions(config: Config, folder: Path) -> UserlandClient:
    """Start the helper process that has loaded the user's file; use it as a context manager."""
    return UserlandClient(config.plugins, _helper_env(config, folder), folder / "plugins.log")


def _helper_env(config: Config, folder: Path) -> dict[str, str]:
    """The environment that marks the helper as part of a living tool, so that a sweep spares it. If clocks are to be faster, it
    loads the library for that, and its children change their clocks."""
    env = {**markers(config.dir, folder), "UNDERMINE_GUARDIAN_OF": tool_identity()}
    return env if config.run.speed == 1 else clock.preloading({**os.environ, **env}, clock.TRUE)


@contextlib.contextmanager
def open_engine(config: Config, folder: Path) -> Iterator[LocalEngine]:
    """Start the engine of this machine. However the `with` block ends, its helpers and everything that they started are ended."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (
        GuardianClient(campaign_dir=config.dir) as guardian,
        user_functions(config, folder) as userland,
    ):
        if not config.workload.command and not config.workload.python:
            check_workloads(config.campaign.plugins, userland.declared["workloads"])
        runner = Runner(config, guardian, userland)
        try:
            yield LocalEngine(config, folder, guardian, userland, runner)
        finally:
            runner.close()
