"""Where the target's code is in the user's repository: the file of a module, and the functions of a file. Never imports or runs
a file.
"""

from __future__ import annotations

import ast
import os
import warnings
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path, PurePath
from typing import NamedTuple

from undermine import target_files

SUFFIXES = (".py", ".java", ".kt", ".scala")
_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", "dist-packages"})
_FILES_MAX = 20_000
_SOURCE_BYTES_MAX = 4_000_000


class Repository:
    """The repository that a project is part of. Without version control, that is the project itself."""

    def __init__(self, project: Path) -> None:
        self.project = project.resolve()
        parents = (self.project, *self.project.parents)
        self.root = next((folder for folder in parents if (folder / ".git").exists()), self.project)

    def name_of(self, file: Path) -> str:
        """The file's name inside the repository; "" if it is elsewhere."""
        path = file.resolve()
        return path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else ""

    def file_of(self, module: str) -> Path | None:
        """The source file of a Python module or a JVM class; None if it isn't in the repository.

        A module may lie in any folder that the interpreter searches, so only the end of the file's path must be its name. The
        shortest path wins, and files of the project win over others.
        """
        return next(self.files_of(module), None)

    def files_of(self, module: str) -> Iterator[Path]:
        """All files that may be the source of a module, the most likely one first."""
        name = module.partition("$")[0]  # a nested class is in the file of the outer one
        last = name.rpartition(".")[2]
        for modules in (self._of_project, self._of_root):
            found = [path for dotted, path in modules.get(last, ()) if dotted == name or dotted.endswith(f".{name}")]
            yield from sorted(found, key=lambda path: (len(path.parts), path))

    @cached_property
    def _of_project(self) -> dict[str, list[tuple[str, Path]]]:
        return _by_last_name(self.project)

    @cached_property
    def _of_root(self) -> dict[str, list[tuple[str, Path]]]:
        return _by_last_name(self.root) if self.root != self.project else {}


def dotted_name(file: PurePath) -> str:
    """The file's path as the name of a module: `pkg/a.py` and `pkg/a/__init__.py` are `pkg.a`."""
    parts = file.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def source_text(path: Path) -> str:
    """The text of a source file; "" if it cannot be read."""
    try:
        return target_files.read(path, _SOURCE_BYTES_MAX).decode(errors="replace")
    except OSError:
        return ""


def script_in(command: Iterable[str], project: Path) -> Path | None:
    """The file that a command runs as a Python script."""
    words = (word.replace("{project}", str(project)) for word in command)
    return next((path for word in words if word.endswith(".py") and (path := project / word).is_file()), None)


def _by_last_name(folder: Path) -> dict[str, list[tuple[str, Path]]]:
    found: dict[str, list[tuple[str, Path]]] = {}
    for file in _source_files(folder):
        dotted = dotted_name(file.relative_to(folder))
        found.setdefault(dotted.rpartition(".")[2], []).append((dotted, file))
    return found


def _source_files(folder: Path) -> Iterator[Path]:
    number = 0
    for root, names, files in os.walk(folder):
        names[:] = sorted(name for name in names if name not in _SKIPPED and not name.startswith("."))
        for name in sorted(files):
            if name.endswith(SUFFIXES):
                number += 1
                if number > _FILES_MAX:
                    return
                yield Path(root, name)


class Function(NamedTuple):
    """A function of a Python file, with its first and its last line."""

    qualname: str
    first: int
    last: int


def functions_in(text: str) -> list[Function]:
    """The functions of a Python file, outer ones first; none if it cannot be parsed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return list(_functions(tree, ""))


def _functions(node: ast.AST, prefix: str) -> Iterator[Function]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([child.lineno, *(each.lineno for each in child.decorator_list)])
            yield Function(f"{prefix}{child.name}", first, child.end_lineno or child.lineno)
            yield from _functions(child, f"{prefix}{child.name}.<locals>.")
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")
        else:
            yield from _functions(child, prefix)


def line_of(text: str, qualname: str) -> int:
    """The line in which a function begins; 0 if the file has no such function."""
    return next((function.first for function in functions_in(text) if function.qualname == qualname), 0)
