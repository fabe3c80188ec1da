"""Loads `undermine.toml` and checks all of it before anything starts.

`load` returns a frozen `Config` or raises one `UserError` that names the file, the line, the key and the allowed values. It reads
files, but it starts nothing and imports no user code.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from undermine.config.lines import Source, read, refuse_unknown
from undermine.config.names import check_groups, check_log_patterns, check_patterns, groups, variables
from undermine.config.operations import check_adapters
from undermine.config.plugin_file import check_plugin_file
from undermine.config.programs import check_files, check_programs
from undermine.config.roles import check_references, read_roles
from undermine.config.schema import AUTO, FILE_NAME, Config
from undermine.config.tables import READERS, SECTIONS, TABLES, check_parts, homes, read_params, read_strategies
from undermine.config.template_check import check_templates, try_render
from undermine.config.templates import Values

# Loading, in five steps: (1) TOML, (2) tables into structs, (3) names that refer to one another,
# (4) every template rendered once for every node, (5) files and programs.


def load(path: Path, overrides: Mapping[str, str] | None = None, *, programs: bool = True) -> Config:
    """Return the configuration in this file, or in the file of this folder.

    Without `programs` the programs of the commands need not exist, as for a report on another machine.
    """
    path = path / FILE_NAME if path.is_dir() else path
    source = Source.load(path)
    data = source.data
    refuse_unknown(source, (), data, TABLES, homes())
    project = str(path.resolve().parent)
    tables: dict[str, Any] = {
        name: read(kind, source, (name,), data.get(name, {}), READERS, homes()) for name, kind in SECTIONS.items()
    }
    check_patterns(source, ("campaign", "files"), tables["campaign"].files, "the project", "myapp/**/*.py")
    check_log_patterns(source, tables["checkers"])
    params = read_params(source, data.get("params", {}), overrides or {})
    roles = read_roles(source, data.get("roles", {}))
    named = groups(source, data.get("groups", {}), roles)
    auto = data.get("variables") == AUTO
    common = {} if auto else variables(source, ("variables",), data.get("variables", {}))
    check_references(source, roles, tables["faults"])
    check_groups(source, tables["faults"], named, roles)
    check_parts(source, params, tables["workload"])
    check_templates(source, project, params, roles, tables["workload"], tables["run"].user)
    try_render(source, ("campaign", "setup"), (tables["campaign"].setup,), Values((), project=project, params=params))
    options = read_strategies(source, data.get("strategies", {}))
    tables["auto_variables"] = auto
    config = Config(str(path), project, source.lines.by_key(), "", roles, params, named, common, options, **tables)
    config = msgspec.structs.replace(config, plugins_digest=check_plugin_file(source, config))
    check_files(source, config)
    if programs:
        check_programs(source, config)
        check_adapters(source, project, roles)
    return config
