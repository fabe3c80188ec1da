"""Finds the files of a project that another machine needs to run it. It reads files and never runs anything.

These are the configuration, the plug-in file, the scripts and adapters that the configuration names inside the project, the files
that these import, and the files of `campaign.files`. A warning names each file that is left out.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from undermine.config.schema import Config, Role
from undermine.model.errors import UserError

FILES_MAX = 5000
BYTES_MAX = 128 << 20
_FILE_BYTES_MAX = 64 << 20
_SKIPPED = frozenset({"__pycache__", ".git", ".hg", ".svn", ".venv", ".mypy_cache", ".ruff_cache", ".pytest_cache"})
_BUNDLES = (".undermine", ".undermine.d")
_IN_PROJECT = re.compile(r"\{project\}/([^\s{}:,;=]+)")
_ABSOLUTE = re.compile(r"(?<![\w.}/:])/[^\s{}:,;=]+")
_EVERYWHERE = ("/dev/", "/proc/", "/sys/", "/bin/sh", "/usr/bin/env", "/tmp/")


class Files(msgspec.Struct, frozen=True):
    """The files by their name inside the project, and warnings about them."""

    content: dict[str, bytes]
    executable: frozenset[str]
    config: str
    warnings: tuple[str, ...] = ()


def collect(config: Config, include: Sequence[str] = ()) -> Files:
    """Return the files that the configuration needs, and those that match `include`."""
    project = Path(config.project)
    home = _Home(project, config.dir)
    name = home.take(Path(config.path).resolve(), "the configuration")
    if config.plugins:
        home.take_python(config.plugins, "campaign.plugins")
    for key, text in _templates(config):
        for found in _IN_PROJECT.findall(text):
            _take_named(home, project / found, key)
    for role in config.roles.values():
        for adapter in role.adapters:
            if adapter.endswith(".py"):
                home.take_python(project / adapter, f"roles.{role.name}.adapters")
    for key, pattern in (*(("campaign.files", p) for p in config.campaign.files), *(("--include", p) for p in include)):
        _take_pattern(home, pattern, key)
    return Files(
        content=dict(sorted(home.content.items())),
        executable=frozenset(home.executable),
        config=name,
        warnings=tuple(dict.fromkeys((*home.warnings, *_elsewhere(config), *_forgotten(config, home)))),
    )


class _Home:
    """The files collected so far."""

    def __init__(self, project: Path, results: Path) -> None:
        self.project = project
        self._results = results.resolve()
        self.content: dict[str, bytes] = {}
        self.executable: set[str] = set()
        self.warnings: list[str] = []
        self._bytes = 0

    def holds(self, name: str) -> bool:
        """True if this file, or a file in this folder, was taken."""
        return name in self.content or any(taken.startswith(f"{name}/") for taken in self.content)

    def take(self, path: Path, key: str) -> str:
        """Take one file that must exist. Return its name inside the project."""
        try:
            name = Path(os.path.normpath(path)).relative_to(self.project).as_posix()
            if not path.resolve().is_relative_to(self.project):
                raise ValueError
        except ValueError:
            text = f"{key} names {path}, which is outside of {self.project}; move it into the project to bundle it"
            raise UserError(text) from None
        if name not in self.content:
            self._read(path, name)
        return name

    def _read(self, path: Path, name: str) -> None:
        try:
            info = path.stat()
            data = path.read_bytes() if info.st_size <= _FILE_BYTES_MAX else b""
        except OSError as error:
            raise UserError(f"{path} cannot be read: {error.strerror}") from None
        self._bytes += info.st_size
        if info.st_size > _FILE_BYTES_MAX or self._bytes > BYTES_MAX or len(self.content) >= FILES_MAX:
            raise UserError(
                f"the project has too many or too large files for a bundle (at {name}; the limits are {FILES_MAX} files and "
                f"{BYTES_MAX >> 20} MiB); list fewer in campaign.files"
            )
        self.content[name] = data
        if info.st_mode & 0o111:
            self.executable.add(name)

    def take_python(self, path: Path, key: str) -> None:
        """Take a file and the modules of the project that it imports."""
        waiting = [path]
        while waiting:
            file = waiting.pop()
            known = len(self.content)
            name = self.take(file, key)
            if len(self.content) > known or file == path:
                waiting += [found for found in self._imported(file) if self._name(found) not in self.content]
            self._take_parents(name)

    def _name(self, path: Path) -> str:
        return path.relative_to(self.project).as_posix()

    def _take_parents(self, name: str) -> None:
        """Take the `__init__.py` of each package around the file."""
        for parent in Path(name).parents:
            init = self.project / parent / "__init__.py"
            if parent.parts and init.is_file():
                self.take(init, name)

    def _imported(self, file: Path) -> Iterator[Path]:
        try:
            tree = ast.parse(self.content[self._name(file)])
        except (SyntaxError, ValueError, RecursionError):
            return
        roots = list(dict.fromkeys((self.project, file.parent)))
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield from _modules(roots, alias.name)
            elif isinstance(node, ast.ImportFrom):
                base = file.parents[node.level - 1] if 0 < node.level <= len(file.parents) else None
                where = [base] if base else roots
                for alias in node.names:
                    dotted = ".".join(filter(None, (node.module, alias.name)))
                    yield from (path for path in _modules(where, dotted) if path.is_relative_to(self.project))

    def may_take(self, path: Path, pattern: str) -> bool:
        """True unless the file is a leftover, a result, hidden, or a link out of the project."""
        inside = Path(os.path.normpath(path)).relative_to(self.project)
        if _is_leftover(inside) or path.resolve().is_relative_to(self._results):
            return False
        if hidden := _hidden(inside, pattern):
            if hidden == inside.name and path.is_file():
                self.warnings.append(f"{inside} is left out because it is hidden; to add it, name it with its dot")
            return False
        if not path.resolve().is_relative_to(self.project):
            self.warnings.append(f"{inside} is left out because it links to a place outside of the project")
            return False
        return path.is_file()


def _is_leftover(inside: Path) -> bool:
    """True for files of Python, of version control, and for bundles, packed or unpacked."""
    ours = any(part.endswith(_BUNDLES) for part in inside.parts)
    return ours or bool(_SKIPPED & set(inside.parts)) or inside.suffix == ".pyc"


def _hidden(inside: Path, pattern: str) -> str:
    """The first hidden part of the name that the pattern does not name. Hidden files may be secrets, like `.env`."""
    named = [part for part in Path(pattern).parts if part.startswith(".")]
    hidden = (part for part in inside.parts if part.startswith("."))
    return next((part for part in hidden if not any(fnmatchcase(part, name) for name in named)), "")


def _modules(roots: Iterable[Path], dotted: str) -> Iterator[Path]:
    """The files of a dotted name and of the packages above it. Its last part may be a name in a module."""
    parts = dotted.split(".")
    for root in roots:
        for length in range(1, len(parts) + 1):
            place = root.joinpath(*parts[:length])
            for path in (place / "__init__.py", place.with_name(place.name + ".py")):
                if path.is_file():
                    yield path


def _take_named(home: _Home, path: Path, key: str) -> None:
    if path.is_file() and path.resolve().is_relative_to(home.project):
        home.take_python(path, key) if path.suffix == ".py" else home.take(path, key)


def _take_pattern(home: _Home, pattern: str, key: str) -> None:
    if Path(pattern).is_absolute() or ".." in Path(pattern).parts:
        raise UserError(f"{key} {pattern!r} must be a pattern inside the project, like 'myapp/**/*.py'")
    patterns = [pattern, f"{pattern}/*"] if pattern.endswith("**") else [pattern]
    found = sorted({path for one in patterns for path in _glob(home.project, one, key) if home.may_take(path, one)})
    for path in found:
        home.take(path, key)
    if not found:
        home.warnings.append(f"{key}: no file matches {pattern!r}")


def _glob(project: Path, pattern: str, key: str) -> list[Path]:
    try:
        return list(project.glob(pattern))
    except (ValueError, NotImplementedError) as error:
        raise UserError(f"{key} {pattern!r} is not a valid pattern: {error}") from None


# --- names in the configuration


def _templates(config: Config) -> Iterator[tuple[str, str]]:
    """Every text of the configuration that is used in a command or its environment, with its key."""
    for name, role in config.roles.items():
        for key, texts in _role_texts(role):
            yield from ((f"roles.{name}.{key}", text) for text in texts)
    yield from (("workload.command", text) for text in config.workload.command)


def _role_texts(role: Role) -> Iterator[tuple[str, Iterable[str]]]:
    yield "command", role.command
    yield "cwd", (role.cwd,)
    yield from ((f"env.{name}", (text,)) for name, text in role.env.items())
    if role.health is not None:
        yield "health.command", role.health.command


def _elsewhere(config: Config) -> Iterator[str]:
    """A warning for each absolute path in the configuration."""
    warned = set()
    texts = [*_templates(config), *((f"params.{name}", str(value)) for name, value in config.params.items())]
    for key, text in texts:
        for path in _ABSOLUTE.findall(text):
            if not path.startswith(_EVERYWHERE) and (key, path) not in warned:
                warned.add((key, path))
                yield f"{key} names {path}, which must also exist on the other machine"


def _forgotten(config: Config, home: _Home) -> Iterator[str]:
    """A warning for each file that seems to be needed and was not taken."""
    for role in config.roles.values():
        words = role.command
        modules = {words[index + 1] for index, word in enumerate(words[:-1]) if word == "-m"}
        for module in dict.fromkeys((*role.packages, *sorted(modules))):
            place = home.project.joinpath(*module.split("."))
            there = [path for path in (place, place.with_name(place.name + ".py")) if path.exists()]
            if there and not any(home.holds(path.relative_to(home.project).as_posix()) for path in there):
                yield f"roles.{role.name} runs {module}, which is not in the bundle; add its files to campaign.files"
    for key, text in _templates(config):
        for found in _IN_PROJECT.findall(text):
            name = os.path.normpath(found)
            if (home.project / name).exists() and not home.holds(name):
                yield f"{key} names {{project}}/{name}, which is not in the bundle; add its files to campaign.files"
