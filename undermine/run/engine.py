"""Opens and closes the helpers of one tool process together: the guardian, the process of the user's file, the runner."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from undermine import target_files
from undermine.config.schema import Config
from undermine.deployments.guardian_client.client import GuardianClient
from undermine.deployments.guardian_client.link import tool_identity
from undermine.deployments.node_probes import markers
from undermine.model.errors import UserError
from undermine.model.injected import Stage
from undermine.model.plan import Plan
from undermine.model.run import Verdict
from undermine.policies.pruning import Refusal
from undermine.run.runner import Runner
from undermine.runtimes import clock
from undermine.userland.client import UserlandClient
from undermine.userland.registry import check_workloads

_PRUNE_TIMEOUT_S = 120.0
_PRUNE_PLAN_S = 0.001
"""Extra time for each plan: a level may have hundreds of thousands."""
_ANSWER_BYTES_MAX = 64 << 20


class Engine:
    """The runner and the helper for the user's functions, as a campaign uses them."""

    def __init__(
        self, config: Config, folder: Path, guardian: GuardianClient, userland: UserlandClient, runner: Runner
    ) -> None:
        self.config = config
        self._guardian = guardian
        self.runner = runner
        self.userland = userland
        self._folder = folder

    def abort(self) -> None:
        """End all current runs at once."""
        self._guardian.close()

    @property
    def user_checkers(self) -> list[str]:
        """The names of the user's checkers that the configuration enables."""
        return [name for name in self.userland.declared["checkers"] if name not in self.config.checkers.disable]

    @property
    def stages(self) -> list[Stage]:
        """The stages of protocols that the user's file names."""
        return msgspec.convert(self.userland.declared["stages"], list[Stage])

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
        declared = self.userland.declared
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


def _helper_env(config: Config, folder: Path) -> dict[str, str]:
    """The environment that marks the helper as part of a living tool, so that a sweep spares it. If clocks are to be faster, it
    loads the library for that, and its children change their clocks."""
    env = {**markers(config.dir, folder), "UNDERMINE_GUARDIAN_OF": tool_identity()}
    return env if config.run.speed == 1 else clock.preloading({**os.environ, **env}, clock.TRUE)


@contextlib.contextmanager
def open_engine(config: Config, folder: Path) -> Iterator[Engine]:
    """Start the helpers. However the `with` block ends, they and everything that they started are ended."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (
        GuardianClient(campaign_dir=config.dir) as guardian,
        UserlandClient(config.plugins, _helper_env(config, folder), folder / "plugins.log") as userland,
    ):
        if not config.workload.command and not config.workload.python:
            check_workloads(config.campaign.plugins, userland.declared["workloads"])
        runner = Runner(config, guardian, userland)
        try:
            yield Engine(config, folder, guardian, userland, runner)
        finally:
            runner.close()
