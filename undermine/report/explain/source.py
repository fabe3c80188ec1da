"""Source lines of the target around the call sites of a finding. Never executes a file, and never escapes a text.

Files are found in the repository of the project, in Python and in languages of the JVM. A Python file counts only if it has the
call site at the line that the run showed, so the wrong release of a library is never shown. Files are hostile input:
only regular ones are read, up to a limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from undermine import target_files
from undermine.program.repository.files import Repository
from undermine.program.source.call_sites import lines_of
from undermine.protocols import SCRIPT
from undermine.report.text import one_line

_FILE_BYTES_MAX = 2_000_000
_CANDIDATES_MAX = 8
_CONTEXT = 3
"""The lines that are shown around a marked one."""
_LINE_CHARS_MAX = 200
_NEAR = 16
"""Marked lines of one file that are at most so far apart are shown together."""


@dataclass(frozen=True)
class Place:
    """A call site that is worth a look. `line` is 0 if the run didn't show it."""

    site: str
    line: int
    mark: str


@dataclass(frozen=True)
class Line:
    number: int
    text: str
    mark: str = ""
    """Why it is shown; "" for the lines around it."""


@dataclass(frozen=True)
class Excerpt:
    """Some lines of one file, not escaped."""

    file: str
    function: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class _Found:
    file: str
    function: str
    line: int
    mark: str
    text: tuple[str, ...]


class Sources:
    """The source files of one project."""

    def __init__(self, project: Path | None, scripts: Sequence[Path] = ()) -> None:
        self._repository = Repository(project) if project and project.is_dir() else None
        self._scripts = scripts
        """The files that nodes run as Python scripts. The name of their module doesn't tell which one it is."""
        self._text = cache(_read)
        self._lines = cache(lambda path: lines_of(self._text(path)))

    def line_of(self, site: str) -> int:
        """The line of a Python call site; 0 if it isn't found."""
        found = (self._lines(path).get(_in_module(site), 0) for path, _ in self._files(site) if path.suffix == ".py")
        return next(filter(None, found), 0)

    def excerpts(self, places: Iterable[Place]) -> tuple[Excerpt, ...]:
        """The lines around these places, without those whose files are not found. Near ones are shown together."""
        groups: list[list[_Found]] = []
        for found in dict.fromkeys(filter(None, map(self._find, places))):
            near = next((group for group in groups if _is_near(group, found)), None)
            if near is None:
                groups.append([found])
            else:
                near.append(found)
        return tuple(map(_excerpt, groups))

    def _find(self, place: Place) -> _Found | None:
        for path, text in self._files(place.site):
            line = place.line
            if path.suffix == ".py":
                line = self._lines(path).get(_in_module(place.site), 0)
                if not line or (place.line and line != place.line):
                    continue
            lines = text.splitlines()
            if 0 < line <= len(lines) and self._repository:
                name = self._repository.name_of(path) or path.name
                return _Found(name, _in_module(place.site).partition("#")[0], line, place.mark, tuple(lines))
        return None

    def _files(self, site: str) -> Iterator[tuple[Path, str]]:
        module, _, function = site.partition(":")
        if self._repository is None or not function:
            return
        files = self._scripts if module == SCRIPT else self._repository.files_of(module)
        for number, path in enumerate(files):
            if number >= _CANDIDATES_MAX:
                return
            if text := self._text(path):
                yield path, text


def _in_module(site: str) -> str:
    """The call site without its module: `qualname#ordinal`."""
    return site.partition(":")[2]


def _read(path: Path) -> str:
    try:
        return target_files.read(path, _FILE_BYTES_MAX).decode(errors="replace")
    except OSError:
        return ""


def _is_near(group: Sequence[_Found], found: _Found) -> bool:
    return any(one.file == found.file and abs(one.line - found.line) <= _NEAR for one in group)


def _excerpt(group: Sequence[_Found]) -> Excerpt:
    marks: dict[int, str] = {}
    for found in group:
        said = marks.get(found.line, "")
        marks[found.line] = said if found.mark in said else "; ".join(filter(None, (said, found.mark)))
    text = group[0].text
    first, last = max(1, min(marks) - _CONTEXT), min(len(text), max(marks) + _CONTEXT)
    shown = (Line(n, one_line(text[n - 1], _LINE_CHARS_MAX), marks.get(n, "")) for n in range(first, last + 1))
    return Excerpt(group[0].file, ", ".join(dict.fromkeys(found.function for found in group)), tuple(shown))
