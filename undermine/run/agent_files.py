"""The configuration file that an agent reads when it loads, described in `protocol/README.md`; one function for each part."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from undermine.analysis.contents import Contents
from undermine.config.adapters import resolve
from undermine.config.schema import Config, LogicalOperation, Role
from undermine.config.templates import render
from undermine.inject.compile import compile_steps, split_variable, variable_slots
from undermine.inject.controller import VERSION
from undermine.model.event import STACKS_SIGNAL
from undermine.model.plan import Plan
from undermine.model.point import CLIENT
from undermine.model.run import NodeInfo
from undermine.runtimes.base import Progress
from undermine.runtimes.clock import TRUE, TargetClock, library
from undermine.runtimes.table import PYTHON, RUNTIMES
from undermine.store.rundir import RunDir


def prepare_agents(config: Config, progress: Progress) -> None:
    """Build those parts of all roles' agents that may take long, before the first run; also the clock, if it is faster."""
    if config.run.speed != 1:
        library()
    for name in dict.fromkeys(config.runtime(role).name for role in config.roles):
        RUNTIMES[name].prepare(progress)


class AgentFiles:
    """Makes the configuration files of all agents of one run."""

    def __init__(
        self,
        config: Config,
        run: RunDir,
        nodes: Sequence[NodeInfo],
        plan: Plan,
        socket_path: Path,
        contents: Contents | None = None,
        *,
        copies: Path | None = None,
        tokens: Mapping[str, str] = MappingProxyType({}),
        observe_all: bool = False,
        heap: bool = False,
        content: bool = False,
        labels: bool = False,
        survey: bool = False,
        clock: TargetClock = TRUE,
    ) -> None:
        self._clock = clock
        self._config = config
        self._run = run
        self._nodes = nodes
        self._plan = plan
        self._socket_path = socket_path
        self._contents = contents
        self._copies = copies
        self._tokens = tokens
        self._observe_all = observe_all
        self._heap = heap
        self._content = content
        self._labels = labels
        self._survey = survey

    def make(self, info: NodeInfo, incarnation: int, cgroup: str = "") -> dict[str, Any]:
        """The configuration for the agents of this start of the node. `cgroup` is the node's folder in the cgroup tree."""
        role = self._config.roles[info.role]
        slots = variable_slots(self._plan)
        return {
            "version": VERSION,
            **self._who(info, incarnation),
            **self._where(info, role),
            **addresses(self._nodes),
            "cgroup": cgroup,
            "stacks_signal": STACKS_SIGNAL,
            **observed(self._config, self._plan, everything=self._observe_all),
            **({"heap": True} if self._heap else {}),
            **({"content": True} if self._content else {}),
            **({"labels": True} if self._labels else {}),
            **({"survey": True} if self._survey else {}),
            **self._clock.settings(),
            **self._for_runtime(info, role),
            **self._contents_of(info.id),
            "variables": variables(self._config, info, slots),
            "steps": compile_steps(self._plan, info.id, slots, info.role),
        }

    def make_client(self) -> dict[str, Any]:
        """The configuration for the agent of a workload's process. It observes; no fault ever hits it."""
        folder = str(self._run.node(CLIENT))
        roles = [role for role in self._config.roles.values() if self._config.runtime(role.name).takes_adapters]
        adapters = dict.fromkeys(name for role in roles for name in role.adapters)
        return {
            "version": VERSION,
            "node": CLIENT,
            "role": CLIENT,
            "incarnation": 1,
            "nodes": [node.id for node in self._nodes],
            **self._files(CLIENT),
            "dir": folder,
            "paths": [folder],
            "packages": [],
            **addresses(self._nodes),
            "cgroup": "",
            **({"heap": False} if self._heap else {}),
            **({"labels": False} if self._labels else {}),
            **self._clock.settings(),
            "operations": [],
            "adapters": [resolve(name, self._config.project) for name in adapters],
            **PYTHON.agent_settings([sys.executable]),
            "variables": [],
            "steps": [],
        }

    def _files(self, node: str) -> dict[str, str]:
        """The files that all agents of a run share, and the node's token for the socket."""
        files = {"trace_dir": self._run.trace, "state": self._run.state, "socket": self._socket_path}
        return {**{name: str(path) for name, path in files.items()}, "token": self._tokens.get(node, "")}

    def _for_runtime(self, info: NodeInfo, role: Role) -> dict[str, Any]:
        """The part that differs between runtimes."""
        runtime = self._config.runtime(info.role)
        named = logical_operations(role, self._config.project)
        if not runtime.takes_adapters:
            named["adapters"] = []
        return {**named, **runtime.agent_settings(self._command(info, role), self._copies)}

    def _command(self, info: NodeInfo, role: Role) -> list[str]:
        values = self._config.values(self._nodes, info.id, str(self._run.path))
        return [render(word, values) for word in role.command]

    def _who(self, info: NodeInfo, incarnation: int) -> dict[str, Any]:
        nodes = [node.id for node in self._nodes]
        return {"node": info.id, "role": info.role, "incarnation": incarnation, "nodes": nodes}

    def _contents_of(self, node: str) -> dict[str, Any]:
        """The operations whose contents are part of points. A fault-free run before they are chosen records all contents."""
        if self._contents is None:
            return {"contents": []} if self._plan.steps else {}
        return {"contents": [list(pair) for pair in self._contents.used.get(node, ())]}

    def folders(self, info: NodeInfo) -> list[str]:
        """The folders whose files count as the node's data."""
        values = self._config.values(self._nodes, info.id, str(self._run.path))
        return [info.dir, *(render(path, values) for path in self._config.roles[info.role].paths)]

    def _where(self, info: NodeInfo, role: Role) -> dict[str, Any]:
        return {
            **self._files(info.id),
            "dir": info.dir,
            "paths": self.folders(info),
            "packages": list(role.packages),
        }


def addresses(nodes: Sequence[NodeInfo]) -> dict[str, Any]:
    """The addresses that nodes listen on, and the hosts that belong to one node alone."""
    listening = {f"{node.host}:{port}": node.id for node in nodes for port in node.ports.values()}
    hosts = {node.host: node.id for node in nodes}
    return {"addresses": listening, "hosts": hosts if len(hosts) == len(nodes) > 1 else {}}


def observed(config: Config, plan: Plan, *, everything: bool = False) -> dict[str, Any]:
    """The setting that limits agents to I/O; empty if they observe everything. By default, they do in fault-free runs and
    with `everything`."""
    everything |= config.run.observe == "all" or (config.run.observe == "auto" and not plan.steps)
    return {} if everything else {"observe": []}


def logical_operations(role: Role, project: str) -> dict[str, Any]:
    """The target's functions that count as one operation each, and the adapters that name such functions of libraries."""
    operations = [_operation(operation) for operation in role.operations]
    return {"operations": operations, "adapters": [resolve(name, project) for name in role.adapters]}


def _operation(operation: LogicalOperation) -> dict[str, Any]:
    found = {"function": operation.function, "op": operation.op}
    places = {name: getattr(operation, name) for name in ("kind", "peer", "size", "content", "store")}
    lists = {name: getattr(operation, name) for name in ("keys", "values")}
    return (
        found
        | {name: _place(text) for name, text in places.items() if text}
        | {name: [_place(text) for text in texts] for name, texts in lists.items() if texts}
    )


def _place(text: str) -> dict[str, str]:
    """Where the agent finds a value: `=text` is the text itself, anything else is a path from a parameter."""
    return {"text": text[1:]} if text.startswith("=") else {"argument": text}


def variables(config: Config, info: NodeInfo, slots: Mapping[str, int]) -> list[dict[str, Any]]:
    """The variables that the agents of this node read, and the slots of those that they publish, by key."""
    published: dict[str, dict[str, int]] = {}
    for full_name, slot in slots.items():
        node, name, key = split_variable(full_name)
        if node == info.id:
            published.setdefault(name, {})[key] = slot
    return [
        {"node": info.id, "name": name, "path": variable.path, "slots": published.get(name, {})}
        for name, variable in config.variables_of(info.id).items()
    ]
