"""Source lines of the target around the call sites of a finding. Never executes a file, and never escapes a text.

A Python file counts only if it has the call site at the line that the run showed, so the wrong release of a library is never
shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from undermine.program.repository.sources import Sources
from undermine.report.text import one_line

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
    role: str = ""
    """Whose site it is; it tells which script has the site."""


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


def excerpts(sources: Sources, places: Iterable[Place]) -> tuple[Excerpt, ...]:
    """The lines around these places, without those whose files are not found. Near ones are shown together."""
    groups: list[list[_Found]] = []
    for found in dict.fromkeys(filter(None, (_find(sources, place) for place in places))):
        near = next((group for group in groups if _is_near(group, found)), None)
        if near is None:
            groups.append([found])
        else:
            near.append(found)
    return tuple(map(_excerpt, groups))


def _find(sources: Sources, place: Place) -> _Found | None:
    for path, line in sources.places_of(place.site, place.role, place.line):
        lines = sources.text_lines(path)
        if line <= len(lines):
            function = place.site.partition(":")[2].partition("#")[0]
            return _Found(sources.name_of(path) or path.name, function, line, place.mark, tuple(lines))
    return None


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
