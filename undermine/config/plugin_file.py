"""Checks of the plug-in file: it must parse and define the functions that the configuration names. Nothing in it is run."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable
from pathlib import Path

from undermine.config.lines import KeyPath, Source, show
from undermine.config.schema import Config
from undermine.config.templates import did_you_mean


def check_plugin_file(source: Source, config: Config) -> str:
    """Check the plug-in file and the functions that the configuration names. Return its digest."""
    wanted = list(_functions(config))
    if config.plugins is None:
        for path, name in wanted:
            raise source.error(
                path,
                f"names the function {show(name)}, but campaign.plugins is not set; set it to the file that defines it",
            )
        return ""
    path = ("campaign", "plugins")
    try:
        content = config.plugins.read_bytes()
        defined = _defined(ast.parse(content, str(config.plugins)))
    except FileNotFoundError:
        text = f"names {show(config.campaign.plugins)}, but {config.project} has no such file"
        raise source.error(path, text + _similar_file(config.plugins)) from None
    except OSError as error:
        text = f"names {show(config.campaign.plugins)}, which cannot be read: {error.strerror}"
        raise source.error(path, text) from None
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        at = f"{config.campaign.plugins}:{line}" if line else config.campaign.plugins
        what = getattr(error, "msg", None) or str(error)
        raise source.error(path, f"names a file that is not valid Python: {at}: {what}; fix the file") from None
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
    """All names that the file may define, with "*" if it has a star import."""
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
