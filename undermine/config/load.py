"""From a file to a valid `Config`: everything that can be wrong with it is said before anything starts.

`load` gives a frozen `Config` or raises one `UserError` that names file, line, key and what is allowed. It reads
files but starts nothing and imports nothing of the user's.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import math
import os
import re
import shlex
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from undermine.config.lines import KeyPath, Reader, Source, field_types, read, refuse_unknown, show
from undermine.config.names import NODE, check_groups, check_known, check_name, groups, variables
from undermine.config.operations import check_adapters, read_operations
from undermine.config.schema import (
    FILE_NAME,
    NODES_MAX,
    Campaign,
    Checkers,
    Config,
    Faults,
    Health,
    Hunt,
    Param,
    Ready,
    Role,
    RunLimits,
    Workload,
    parse_duration,
    values_of,
)
from undermine.config.templates import (
    DEFAULT_ENTRY,
    NodeFacts,
    TemplateError,
    Values,
    did_you_mean,
    placeholders,
    render,
    render_command,
)
from undermine.model.errors import UserError
from undermine.runtimes.class_path import is_empty
from undermine.runtimes.python import names_python

# Loading, in five steps: (1) TOML, (2) tables into structs, (3) names that refer to one another,
# (4) every template rendered once for every node, (5) files and programs.


def load(path: Path, overrides: Mapping[str, str] | None = None, *, programs: bool = True) -> Config:
    """Read and check the file (or the one in this folder).

    Without `programs` the commands need not exist here, as for a report made on another machine.
    """
    path = path / FILE_NAME if path.is_dir() else path
    source = Source.load(path)
    data = source.data
    refuse_unknown(source, (), data, _TABLES, _homes())
    project = str(path.resolve().parent)
    tables: dict[str, Any] = {
        name: read(kind, source, (name,), data.get(name, {}), _READERS, _homes()) for name, kind in _SECTIONS.items()
    }
    _check_patterns(source, tables["campaign"])
    _check_log_patterns(source, tables["checkers"])
    params = _params(source, data.get("params", {}), overrides or {})
    roles = _roles(source, data.get("roles", {}))
    named = groups(source, data.get("groups", {}), roles)
    common = variables(source, ("variables",), data.get("variables", {}))
    _check_references(source, roles, tables["faults"])
    check_groups(source, tables["faults"], named, roles)
    _check_templates(source, project, params, roles, tables["workload"])
    _try_render(source, ("campaign", "setup"), (tables["campaign"].setup,), Values((), project=project, params=params))
    options = _strategies(source, data.get("strategies", {}))
    config = Config(str(path), project, source.lines.by_key(), "", roles, params, named, common, options, **tables)
    config = msgspec.structs.replace(config, plugins_digest=_check_plugins(source, config))
    _check_files(source, config)
    if programs:
        _check_programs(source, config)
        check_adapters(source, project, roles)
    return config


_SECTIONS: dict[str, type[msgspec.Struct]] = {
    "campaign": Campaign,
    "workload": Workload,
    "run": RunLimits,
    "faults": Faults,
    "checkers": Checkers,
    "hunt": Hunt,
}
_TABLES = ("campaign", "params", "roles", "groups", "variables", "strategies", *list(_SECTIONS)[1:])


@functools.cache
def _homes() -> dict[str, str]:
    """The full key of every name that stands for only one thing: help for keys in the wrong table."""
    kinds: dict[str, type[msgspec.Struct]] = {
        "roles.NAME": Role,
        "roles.NAME.ready": Ready,
        "roles.NAME.health": Health,
    }
    kinds |= _SECTIONS
    places: dict[str, list[str]] = {}
    for prefix, kind in kinds.items():
        for name in field_types(kind).keys() - ({"name"} if kind is Role else set()):
            places.setdefault(name, []).append(f"{prefix}.{name}")
    return {name: keys[0] for name, keys in places.items() if len(keys) == 1}


# Step 2: what the file may say, turned into what the structs hold.


def _read_command(source: Source, path: KeyPath, value: Any) -> Any:
    if isinstance(value, str):
        try:
            value = shlex.split(value)
        except ValueError as error:
            raise source.error(path, f"cannot be split into words: {str(error).lower()}") from None
    if isinstance(value, list) and (not value or value[0] == ""):
        raise source.error(path, 'is empty; it must name a program, like "server --id {id}"')
    return value


def _read_nodes(source: Source, path: KeyPath, value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= NODES_MAX:
        return [f"{path[-2]}{number}" for number in range(1, value + 1)]
    if isinstance(value, list) and len(value) > NODES_MAX:
        raise source.error(path, f"must name at most {NODES_MAX} nodes, not {len(value)}")
    return value


def _read_seconds(source: Source, path: KeyPath, value: Any) -> Any:
    try:
        return parse_duration(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _read_http(source: Source, path: KeyPath, value: Any) -> Any:
    if isinstance(value, str) and not value.startswith("/"):
        raise source.error(path, f'must be a path that begins with "/", like "/health", not {show(value)}')
    return value


_READERS: dict[tuple[type, str], Reader] = {
    (Role, "nodes"): _read_nodes,
    (Role, "command"): _read_command,
    (Health, "command"): _read_command,
    (Workload, "command"): _read_command,
    (Role, "variables"): variables,
    (Role, "operations"): read_operations,
    (Ready, "http"): _read_http,
    (Health, "http"): _read_http,
    (Hunt, "budget"): _read_seconds,
} | {
    (kind, name): _read_seconds
    for kind in (Ready, Health, Workload, RunLimits, Faults)
    for name in kind.__struct_fields__
    if name.endswith(("_s", "_s_max"))
}

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


def _check_patterns(source: Source, campaign: Campaign) -> None:
    for index, pattern in enumerate(campaign.files):
        if Path(pattern).is_absolute() or ".." in Path(pattern).parts:
            text = f'must be patterns inside the project, like "myapp/**/*.py", not {show(pattern)}'
            raise source.error(("campaign", "files", index), text)


def _params(source: Source, table: Any, overrides: Mapping[str, str]) -> dict[str, Param]:
    if not isinstance(table, dict):
        raise source.error(("params",), f"must be a table, not {show(table)}")
    for name, value in table.items():
        path = ("params", name)
        check_name(source, path, name, "parameter")
        if not isinstance(value, Param) or (isinstance(value, float) and not math.isfinite(value)):
            raise source.error(path, f"must be text in quotes, a number, true or false, not {show(value)}")
    return table | {name: _override(source, table, name, text) for name, text in overrides.items()}


def _strategies(source: Source, tables: Any) -> dict[str, dict[str, Any]]:
    """A table for each strategy that is told something; what it may say only the strategy knows."""
    if not isinstance(tables, dict):
        raise source.error(("strategies",), f"must be a table of tables, not {show(tables)}")
    for name, table in tables.items():
        check_name(source, ("strategies", name), name, "strategy")
        if not isinstance(table, dict):
            raise source.error(("strategies", name), f"must be a table like [strategies.{name}], not {show(table)}")
    return tables


def _override(source: Source, table: Mapping[str, Param], name: str, text: str) -> Param:
    """`--set NAME=VALUE` keeps the type that the file gives the parameter."""
    if name not in table:
        listed = ", ".join(table) or "none"
        hint = did_you_mean(name, table)
        raise UserError(f"--set {name}: {source.path} has no such parameter{hint} ([params] has {listed})")
    old = table[name]
    try:
        if isinstance(old, bool):
            return {"true": True, "false": False}[text.lower()]
        if isinstance(old, int | float):
            number = float(text)
            if not math.isfinite(number):
                raise ValueError
            return int(text) if re.fullmatch(r"[+-]?\d+", text) else number
    except (KeyError, ValueError):
        allowed = "true or false" if isinstance(old, bool) else "a number"
        where = f"{source.path}:{source.lines.of(('params', name))}"
        raise UserError(f"--set {name}: must be {allowed} as params.{name} is in {where}, not {show(text)}") from None
    return text


def _roles(source: Source, tables: Any) -> dict[str, Role]:
    if not isinstance(tables, dict):
        raise source.error(("roles",), f"must be tables named [roles.NAME], not {show(tables)}")
    if not tables:
        raise source.error(("roles",), "is missing; describe at least one role in a table [roles.NAME]")
    roles = {}
    for name, table in tables.items():
        path = ("roles", name)
        if not isinstance(table, dict):
            hint = f"; did you mean roles.NAME.{name}?" if name in Role.__struct_fields__ else ""
            raise source.error(path, f"must be a table named [roles.NAME], not {show(table)}{hint}")
        check_name(source, path, name, "role")
        roles[name] = _role(source, name, table)
    return roles


def _role(source: Source, name: str, table: dict[str, Any]) -> Role:
    path = ("roles", name)
    role = read(Role, source, path, table, _READERS, _homes(), name=name)
    for index, node in enumerate(role.nodes):
        check_name(source, (*path, "nodes", index), node, "node", NODE)
    for index, port in enumerate(role.ports):
        check_name(source, (*path, "ports", index), port, "port")
    for variable in role.env:
        if not _VARIABLE.fullmatch(variable):
            raise source.error((*path, "env", variable), "is no name for a variable; use letters, digits and _")
    for index, package in enumerate(role.packages):
        if not _MODULE.fullmatch(package):
            raise source.error(
                (*path, "packages", index), f'must be names of modules, like "myapp", not {show(package)}'
            )
    for index, glob in enumerate(role.logs):
        if Path(glob).is_absolute() or ".." in Path(glob).parts:
            raise source.error(
                (*path, "logs", index),
                f'must be patterns inside the node\'s {{dir}}, like "*.log", not {show(glob)}',
            )
    ready = _checked_probe(source, (*path, "ready"), table.get("ready", {}), role, ("tcp", "log", "http", "python"))
    role = msgspec.structs.replace(role, ready=_with_default(source, (*path, "ready"), ready, role))
    if role.health is not None:
        kinds = ("command", "http", "python")
        health = _checked_probe(source, (*path, "health"), table["health"], role, kinds)
        role = msgspec.structs.replace(role, health=health)
    return role


def _check_expression(source: Source, path: KeyPath, pattern: str) -> None:
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise source.error(path, f"is no regular expression: {error}") from None


def _check_log_patterns(source: Source, checkers: Checkers) -> None:
    for name in ("fail_on", "ignore"):
        for index, pattern in enumerate(getattr(checkers, name)):
            _check_expression(source, ("checkers", name, index), pattern)


def _checked_probe(source: Source, path: KeyPath, table: dict[str, Any], role: Role, kinds: tuple[str, ...]) -> Any:
    """`ready` or `health` with the port of an HTTP request filled in."""
    given = [name for name in kinds if name in table]
    if len(given) > 1:
        raise source.error((*path, given[1]), f"cannot stand beside {given[0]}; keep one of {', '.join(kinds)}")
    if path[-1] == "health" and not given:
        raise source.error(path, f"says nothing to ask; it needs one of {', '.join(kinds)}")
    for name in ("port", "status"):
        if name in table and "http" not in table:
            raise source.error((*path, name), "only goes with http; leave it out or add http")
    for name in ("tcp", "port"):
        if name in table and table[name] not in role.ports:
            hint = did_you_mean(table[name], role.ports)
            listed = ", ".join(role.ports) or "none"
            raise source.error(
                (*path, name),
                f"names the unknown port {show(table[name])}{hint} (roles.{role.name}.ports has {listed})",
            )
    if "log" in table:
        _check_expression(source, (*path, "log"), table["log"])
    probe = getattr(role, str(path[-1]))
    if "http" in table and "port" not in table:
        if not role.ports:
            raise source.error((*path, "http"), f"needs a port, and roles.{role.name}.ports is empty; name one")
        probe = msgspec.structs.replace(probe, port=role.ports[0])
    return probe


def _with_default(source: Source, path: KeyPath, ready: Ready, role: Role) -> Ready:
    if ready.tcp or ready.log or ready.http or ready.python:
        return ready
    if not role.ports:
        raise source.error(path, "is missing, and without ports it cannot be tcp; say log = … or python = …")
    return msgspec.structs.replace(ready, tcp=role.ports[0])


# Step 3: names that refer to one another.


def _check_references(source: Source, roles: Mapping[str, Role], faults: Faults) -> None:
    owners: dict[str, str] = {}
    for name, role in roles.items():
        for index, node in enumerate(role.nodes):
            if node in owners:
                text = f"names the node {show(node)}, which role {owners[node]} has too; rename one of them"
                raise source.error(("roles", name, "nodes", index), text)
            owners[node] = name
        check_known(source, ("roles", name, "start_after"), role.start_after, "role", list(roles))
    check_known(source, ("faults", "roles"), faults.roles, "role", list(roles))
    _check_cycles(source, roles)
    if "error" in faults.kinds and not faults.disk_errors and not faults.network_errors:
        text = 'holds "error", but disk_errors and network_errors are both empty; fill one or leave "error" out'
        raise source.error(("faults", "kinds"), text)


def _check_cycles(source: Source, roles: Mapping[str, Role]) -> None:
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        if name in trail:
            cycle = " after ".join([*trail[trail.index(name) :], name])
            text = f"can never be met: {cycle}; remove one of them"
            raise source.error(("roles", trail[-1], "start_after"), text)
        if name not in done:
            for other in roles[name].start_after:
                visit(other, (*trail, name))
            done.add(name)

    for name in roles:
        visit(name, ())


# Step 4: every template, rendered once for every node with invented facts.


def _invented(roles: Mapping[str, Role]) -> tuple[NodeFacts, ...]:
    return tuple(
        NodeFacts(node, name, index, "127.0.0.1", dict.fromkeys(role.ports, 10000), f"/run/{node}")
        for name, role in roles.items()
        for index, node in enumerate(role.nodes, 1)
    )


def _check_templates(
    source: Source, project: str, params: Mapping[str, Param], roles: Mapping[str, Role], workload: Workload
) -> None:
    facts = _invented(roles)
    for name, role in roles.items():
        for node in role.nodes:
            values = values_of(facts, node, "/run", project, params, roles)
            for path, words in _templates(role):
                _try_render(source, ("roles", name, *path), words, values)
        _check_entry(source, role, facts, params)
    values = values_of(facts, "", "/run", project, params, roles)
    _try_render(source, ("workload", "command"), workload.command, values)


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


def _try_render(source: Source, path: KeyPath, words: Sequence[str], values: Values) -> None:
    for index, word in enumerate(words):
        try:
            render_command((word,), values)
        except TemplateError as error:
            here = ("roles", error.entry_of, "peers") if error.entry_of else path
            if not error.entry_of and len(words) > 1:
                here = (*path, index)
            raise source.error(here, error.predicate) from None


def _check_entry(source: Source, role: Role, facts: tuple[NodeFacts, ...], params: Mapping[str, Param]) -> None:
    """A `peers` format that nobody uses must still make sense for the role's own nodes."""
    if role.peers != DEFAULT_ENTRY:
        own = tuple(fact for fact in facts if fact.role == role.name)
        values = values_of(own, "", "/run", "/", params, {role.name: role})
        _try_render(source, ("roles", role.name, "peers"), (f"{{all.{role.name}}}",), values)


# Step 5: files, functions and programs that must be there.


def _check_plugins(source: Source, config: Config) -> str:
    """The digest of the plug-in file, whose functions must be there under the names that the config uses."""
    wanted = list(_functions(config))
    if config.plugins is None:
        for path, name in wanted:
            raise source.error(
                path, f"names the function {show(name)}, but campaign.plugins names no file to find it in"
            )
        return ""
    path = ("campaign", "plugins")
    try:
        content = config.plugins.read_bytes()
        defined = _defined(ast.parse(content, str(config.plugins)))
    except FileNotFoundError:
        text = f"names {show(config.campaign.plugins)}, but there is no such file in {config.project}"
        raise source.error(path, text + _similar_file(config.plugins)) from None
    except OSError as error:
        text = f"names {show(config.campaign.plugins)}, which cannot be read: {error.strerror}"
        raise source.error(path, text) from None
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        at = f"{config.campaign.plugins}:{line}" if line else config.campaign.plugins
        what = getattr(error, "msg", None) or str(error)
        raise source.error(path, f"names a file that is not valid Python: {at}: {what}") from None
    for key, name in wanted:
        if "*" not in defined and name not in defined:
            hint = did_you_mean(name, defined)
            raise source.error(key, f"names {show(name)}, which {config.campaign.plugins} does not define{hint}")
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _functions(config: Config) -> Iterable[tuple[KeyPath, str]]:
    if config.workload.python:
        yield ("workload", "python"), config.workload.python
    for name, role in config.roles.items():
        if role.ready.python:
            yield ("roles", name, "ready", "python"), role.ready.python
        if role.health is not None and role.health.python:
            yield ("roles", name, "health", "python"), role.health.python


def _defined(module: ast.Module) -> set[str]:
    """Every name that the file may define; "*" if it imports more than can be seen."""
    names: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names.update(alias.asname or alias.name for alias in node.names)
    return names


def _similar_file(path: Path) -> str:
    names = [other.name for other in path.parent.glob("*.py")] if path.parent.is_dir() else []
    return did_you_mean(path.name, names)


def _check_files(source: Source, config: Config) -> None:
    if config.workload.command and config.workload.python:
        raise source.error(("workload", "command"), "cannot stand beside python; keep one of the two")
    if config.plugins is None and not config.workload.command:
        text = "is missing; set campaign.plugins to a file with an @undermine.workload, or workload.command"
        raise source.error(("workload",), text)
    if config.dir.exists() and not config.dir.is_dir():
        raise source.error(("campaign", "dir"), f"must be a folder, but {config.dir} is a file")
    for name, role in config.roles.items():
        cwd = _fixed_cwd(config, role)
        if cwd is not None and not cwd.is_dir():
            raise source.error(("roles", name, "cwd"), f"must be a folder that exists, and {show(str(cwd))} does not")


_FIXED = ("project", "python", "java")


def _is_fixed(template: str) -> bool:
    """True if it means the same in every run and for every node."""
    return all(name in _FIXED or name.startswith("params.") for name in placeholders(template))


def _fixed(template: str, project: str, params: Mapping[str, Param]) -> str | None:
    return render(template, Values((), project=project, params=params)) if _is_fixed(template) else None


def _fixed_cwd(config: Config, role: Role) -> Path | None:
    """The folder that nodes run in, if it is known before a run. A relative one is the project's."""
    cwd = _fixed(role.cwd, config.project, config.params)
    return Path(config.project, cwd) if cwd is not None else None


def _check_programs(source: Source, config: Config) -> None:
    for name, role in config.roles.items():
        cwd = _fixed_cwd(config, role)
        search: str | None = os.environ.get("PATH", "")
        if "PATH" in role.env:
            search = _fixed(role.env["PATH"], config.project, config.params)
        _check_program(source, ("roles", name, "command"), role.command, cwd, config, search)
        _check_script(source, ("roles", name, "command"), role, cwd, config)
        _check_class_path(source, ("roles", name, "command"), role, cwd, config)
        if role.health is not None and role.health.command:
            _check_program(source, ("roles", name, "health", "command"), role.health.command, cwd, config, search)
    if config.workload.command:
        project = Path(config.project)
        _check_program(
            source,
            ("workload", "command"),
            config.workload.command,
            project,
            config,
            os.environ.get("PATH", ""),
        )


def _check_program(
    source: Source,
    path: KeyPath,
    command: tuple[str, ...],
    cwd: Path | None,
    config: Config,
    search: str | None,
) -> None:
    program = _fixed(command[0], config.project, config.params)
    if program is None:
        return
    if "/" not in program:
        if search is not None and shutil.which(program, path=search) is None:
            here = Path(config.project, program).is_file()
            hint = f"; did you mean {{project}}/{program}?" if here else "; install it or write its full path"
            raise source.error(path, f"names the program {show(program)}, which is not on the PATH{hint}")
        return
    if not Path(program).is_absolute() and cwd is None:
        text = f"names the program {show(program)}, but nodes run in {{dir}}; write {{project}}/… or set cwd"
        raise source.error(path, text)
    full = Path(cwd or "/", program)
    if not full.is_file():
        raise source.error(path, f"names the program {full}, which does not exist")
    if not os.access(full, os.X_OK):
        raise source.error(path, f"names the program {full}, which is not executable; chmod +x it")


def _check_script(source: Source, path: KeyPath, role: Role, cwd: Path | None, config: Config) -> None:
    """`python server.py` is the commonest slip: the node runs in {dir}, where there is no server.py."""
    if not names_python(role.command[0]) or len(role.command) < 2 or not role.command[1].endswith(".py"):
        return
    script = _fixed(role.command[1], config.project, config.params)
    if script is None or (not Path(script).is_absolute() and cwd is None and not Path(config.project, script).exists()):
        return
    if not Path(script).is_absolute() and cwd is None:
        text = f"names {show(script)}, but nodes run in {{dir}}; write {{project}}/{script} or set cwd"
        raise source.error(path, text)
    if not Path(cwd or "/", script).is_file():
        raise source.error(path, f"names the script {Path(cwd or '/', script)}, which does not exist")


def _check_class_path(source: Source, path: KeyPath, role: Role, cwd: Path | None, config: Config) -> None:
    """A release that was never fetched."""
    class_path = _fixed(config.runtime(role.name).class_path(role.command), config.project, config.params)
    if class_path and is_empty(class_path, cwd):
        wanted = _fixed(config.campaign.setup, config.project, config.params)
        hint = f"run `{wanted}` in {config.project}" if wanted else "build or fetch it, or correct the path"
        raise source.error(path, f"names the class path {show(class_path)}, where there is nothing; {hint}")
