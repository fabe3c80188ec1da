"""Asks the nodes of a run whether they are ready and healthy, from the clients' network namespace."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from undermine.config.schema import Config, Role
from undermine.config.templates import Values, render, render_command
from undermine.deployments import probes
from undermine.deployments.guardian_client.accounts import Account, Accounts
from undermine.deployments.isolation import NodeNetwork
from undermine.model.point import CLIENT
from undermine.model.run import NodeInfo

AskUser = Callable[[str, str, NodeInfo, float], str]
"""Calls a function of the user's file with kind, name, node and time limit; returns "" or why not."""


class NodeProbes:
    """The ready and health checks that roles declare. Each returns "" or why not."""

    def __init__(
        self,
        config: Config,
        nodes: Sequence[NodeInfo],
        run: Path,
        network: NodeNetwork,
        ask_user: AskUser,
        accounts: Accounts,
    ) -> None:
        self._accounts = accounts
        self._config = config
        self._nodes = nodes
        self._run = run
        self._network = network
        self._ask_user = ask_user

    def ready(self, info: NodeInfo, logs: Mapping[Path, int]) -> str:
        """Why the node is not ready; "" if it is. `logs` maps its log files to the sizes that earlier starts left."""
        ready = self._config.roles[info.role].ready
        if ready.python:
            return self._ask_user("ready", ready.python, info, ready.timeout_s)
        if ready.http:
            path = render(ready.http, self._values(info.id))
            port = info.ports.get(ready.port, info.port)
            return self._as_client(lambda: probes.http_status(info.host, port, path, ready.status))
        if ready.log:
            return probes.log_line(re.compile(ready.log), dict(logs))
        return self._as_client(lambda: probes.tcp(info.host, info.ports.get(ready.tcp, info.port)))

    def health(self, info: NodeInfo, timeout_s_max: float = math.inf) -> str:
        """Why the node is not healthy, by its role's health check; "" if it is, or if the role has no check."""
        health = self._config.roles[info.role].health
        if health is None:
            return ""
        timeout_s = min(health.timeout_s, timeout_s_max)
        if health.python:
            return self._ask_user("health", health.python, info, timeout_s)
        values = self._values(info.id)
        if health.http:
            port = info.ports.get(health.port, info.port)
            path = render(health.http, values)
            return self._as_client(lambda: probes.http_status(info.host, port, path, health.status, timeout_s))
        role = self._config.roles[info.role]
        account = self._accounts.of(info.id)  # the node can put programs into the working folder
        argv, env = render_command(health.command, values), role_environment(self._config, role, self._run, values, account)
        cwd = Path(self._config.project, render(role.cwd, values))
        return self._as_client(lambda: probes.command(argv, env, cwd, timeout_s, account.process if account else {}))

    def _values(self, node: str) -> Values:
        return self._config.values(self._nodes, node, str(self._run))

    def _as_client(self, probe: Callable[[], str]) -> str:
        return self._network.inside(CLIENT, probe)


def role_environment(config: Config, role: Role, run: Path, values: Values, account: Account | None = None) -> dict[str, str]:
    """The environment of a role's processes without an agent, with the markers that a sweep looks for."""
    own = {name: value for name, value in account.environment.items() if name not in role.env} if account else {}
    return {**role.environment(values), **own, **markers(config.dir, run)}


def markers(campaign: Path, run: Path) -> Mapping[str, str]:
    """The variables by which a sweep recognises a process that the tool started."""
    return {"UNDERMINE_CAMPAIGN": str(campaign), "UNDERMINE_RUN": str(run)}
