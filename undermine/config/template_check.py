"""Renders every template of the file once for each node, with invented facts, to find mistakes before a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from undermine.config.lines import KeyPath, Source
from undermine.config.schema import Param, Role, Workload, user_values, values_of
from undermine.config.templates import DEFAULT_ENTRY, NodeFacts, TemplateError, Values, render_command


def check_templates(
    source: Source, project: str, params: Mapping[str, Param], roles: Mapping[str, Role], workload: Workload, user: str = ""
) -> None:
    facts = _invented(roles)
    for name, role in roles.items():
        for node in role.nodes:
            values = values_of(facts, node, "/run", project, params, roles)
            for path, words in _templates(role):
                try_render(source, ("roles", name, *path), words, values)
            try_render(source, ("run", "user"), (user,), user_values(role, node, project, params))
        _check_entry(source, role, facts, params)
    values = values_of(facts, "", "/run", project, params, roles)
    try_render(source, ("workload", "command"), workload.command, values)


def _invented(roles: Mapping[str, Role]) -> tuple[NodeFacts, ...]:
    return tuple(
        NodeFacts(node, name, index, "127.0.0.1", dict.fromkeys(role.ports, 10000), f"/run/{node}")
        for name, role in roles.items()
        for index, node in enumerate(role.nodes, 1)
    )


def _templates(role: Role) -> Iterable[tuple[KeyPath, tuple[str, ...]]]:
    yield ("command",), role.command
    yield ("cwd",), (role.cwd,)
    for variable, text in role.env.items():
        yield ("env", variable), (text,)
    for index, text in enumerate(role.paths):
        yield ("paths", index), (text,)
    if role.ready.http:
        yield ("ready", "http"), (role.ready.http,)
    if role.health is not None:
        yield ("health", "command"), role.health.command
        yield ("health", "http"), (role.health.http,)


def try_render(source: Source, path: KeyPath, words: Sequence[str], values: Values) -> None:
    for index, word in enumerate(words):
        try:
            render_command((word,), values)
        except TemplateError as error:
            here = ("roles", error.entry_of, "peers") if error.entry_of else path
            if not error.entry_of and len(words) > 1:
                here = (*path, index)
            raise source.error(here, error.predicate) from None


def _check_entry(source: Source, role: Role, facts: tuple[NodeFacts, ...], params: Mapping[str, Param]) -> None:
    """Check a `peers` format that no command uses against the nodes of its own role."""
    if role.peers != DEFAULT_ENTRY:
        own = tuple(fact for fact in facts if fact.role == role.name)
        values = values_of(own, "", "/run", "/", params, {role.name: role})
        try_render(source, ("roles", role.name, "peers"), (f"{{all.{role.name}}}",), values)
