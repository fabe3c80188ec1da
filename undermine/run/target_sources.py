"""Finds the source code of all roles of a target, so that a strategy can read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from undermine.config.schema import Config, Role
from undermine.config.templates import render, render_command
from undermine.model.run import NodeInfo
from undermine.runtimes.base import RoleCommand


class Sources(msgspec.Struct, frozen=True):
    """Where the target's own code is."""

    folders: tuple[str, ...] = ()
    """Files and folders."""
    scripts: Mapping[str, str] = {}
    """The module that is run as a script, by role."""
    named: tuple[tuple[str, str], ...] = ()
    """The functions that the user declared as logical operations, each with its `op`."""


def target_sources(config: Config, nodes: Sequence[NodeInfo]) -> Sources:
    """The source of every role whose runtime can say where it is. `nodes` are those of a stored run."""
    folders: dict[str, None] = {}
    scripts: dict[str, str] = {}
    named: dict[tuple[str, str], None] = {}
    for role in config.roles.values():
        node = next((node for node in nodes if node.role == role.name), None)
        if node is None:
            continue
        command = _role_command(config, role, nodes, node)
        found = config.runtime(role.name).sources(command)
        if found is None:
            continue
        if found.script:
            scripts[role.name] = found.script
        folders.update(dict.fromkeys(found.folders))
        named.update(dict.fromkeys((operation.function, operation.op) for operation in role.operations))
    return Sources(tuple(folders), scripts, tuple(named))


def _role_command(config: Config, role: Role, nodes: Sequence[NodeInfo], node: NodeInfo) -> RoleCommand:
    """The command of this node, as an example of its role."""
    values = config.values(nodes, node.id, str(Path(node.dir).parent))
    cwd = Path(config.project, render(role.cwd, values))
    return RoleCommand(
        command=tuple(render_command(role.command, values)),
        cwd=cwd,
        env=role.environment(values),
        packages=tuple(role.packages),
        paths=tuple(cwd / render(text, values) for text in role.paths),
    )
