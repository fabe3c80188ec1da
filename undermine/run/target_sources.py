"""Finds the code of all roles of a target, so that a strategy can read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from undermine.config.schema import Config, Role
from undermine.config.templates import render, render_command
from undermine.model.run import NodeInfo
from undermine.runtimes.base import ClassFiles, RoleCommand, Runtime


class RoleClasses(NamedTuple):
    """The compiled classes of a role, and the runtime that reads them."""

    runtime: Runtime
    files: ClassFiles
    named: tuple[tuple[str, str], ...]


class Sources(msgspec.Struct, frozen=True):
    """Where the target's own code is."""

    folders: tuple[str, ...] = ()
    """Files and folders of source code."""
    scripts: Mapping[str, str] = {}
    """The module that is run as a script, by role."""
    named: tuple[tuple[str, str], ...] = ()
    """The functions that the user declared as logical operations, each with its `op`."""
    classes: tuple[RoleClasses, ...] = ()
    """The compiled classes, each once."""


def target_sources(config: Config, nodes: Sequence[NodeInfo]) -> Sources:
    """The source of every role whose runtime can say where it is. `nodes` are those of a stored run."""
    folders: dict[str, None] = {}
    scripts: dict[str, str] = {}
    named: dict[tuple[str, str], None] = {}
    classes: dict[RoleClasses, None] = {}
    for role in config.roles.values():
        node = next((node for node in nodes if node.role == role.name), None)
        if node is None:
            continue
        command = _role_command(config, role, nodes, node)
        runtime = config.runtime(role.name)
        found = runtime.sources(command)
        if found is None:
            continue
        if found.script:
            scripts[role.name] = found.script
        folders.update(dict.fromkeys(found.folders))
        operations = tuple((operation.function, operation.op) for operation in role.operations)
        named.update(dict.fromkeys(operations))
        if found.classes:
            classes[RoleClasses(runtime, found.classes, operations)] = None
    return Sources(tuple(folders), scripts, tuple(named), tuple(classes))


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
