"""Reads and parses the files of a program. Files that cannot be read or parsed are reported and left out. Never imports
anything."""

from __future__ import annotations

import ast
import os
import re
import tokenize
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from undermine.program.facts import Trouble

SIZE_MAX = 4_000_000
FILES_MAX = 20_000
_NEVER = ("__pycache__", "node_modules", "site-packages", "dist-packages")
TESTS = ("tests", "test", "testing")
"""Folders that are left out by default, as are the files `test_*.py`, `*_test.py` and `conftest.py`."""
_TEST_FILES = re.compile(r"test_.*|.*_test|conftest")


@dataclass(frozen=True, eq=False)
class Source:
    """One module: its name when imported, its file, its text and its tree."""

    module: str
    file: str
    text: str
    tree: ast.Module
    package: bool
    """Is it the `__init__` of a package?"""

    @property
    def lines(self) -> int:
        return self.text.count("\n") + 1


def read(folders: Iterable[str | os.PathLike[str]], skip: Iterable[str] = TESTS) -> tuple[list[Source], list[Trouble]]:
    """All modules of these files and folders (packages, or folders of modules), in order, and the files that could not
    be read."""
    sources: dict[str, Source] = {}
    troubles: list[Trouble] = []
    for folder in folders:
        for path, module in _modules(Path(folder), frozenset(skip)):
            if len(sources) >= FILES_MAX:
                troubles.append(Trouble(str(folder), f"has more than {FILES_MAX} files; the rest is left out"))
                break
            if module not in sources:
                _read_one(path, module, sources, troubles)
    return list(sources.values()), troubles


def _modules(folder: Path, skip: frozenset[str]) -> Iterator[tuple[Path, str]]:
    """The Python files of a folder, with their module names. A folder with an `__init__.py` is a package."""
    if folder.is_file():
        yield folder, folder.stem
        return
    top = folder.resolve()
    while (top / "__init__.py").is_file():
        top = top.parent
    for root, names, files in os.walk(folder.resolve()):
        names[:] = sorted(
            name for name in names if name not in _NEVER and name not in skip and not name.startswith(".")
        )
        for name in sorted(files):
            path = Path(root, name)
            if name.endswith(".py") and not (skip and _TEST_FILES.fullmatch(name[:-3])):
                yield path, module_name(path.relative_to(top))


def module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def _read_one(path: Path, module: str, sources: dict[str, Source], troubles: list[Trouble]) -> None:
    try:
        if path.stat().st_size > SIZE_MAX:
            raise ValueError(f"is larger than {SIZE_MAX} bytes")
        with tokenize.open(path) as file:
            text = file.read()
        source = parse(text, module, str(path))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        troubles.append(Trouble(str(path), f"{type(error).__name__}: {str(error)[:200]}"))
    else:
        sources[module] = source


def parse(text: str, module: str, file: str = "") -> Source:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(text)
    return Source(module, file or module, text, tree, file.endswith("__init__.py"))
