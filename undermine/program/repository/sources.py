"""The source files of the target: which file of the user's repository has a call site. Never imports or runs a file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from undermine.model.point import SCRIPT
from undermine.program.repository.files import Repository, script_in, source_text
from undermine.program.source.call_sites import lines_of

_LINE_END = re.compile("\r\n|\r|\n")
_CANDIDATES_MAX = 8
"""The most files that are searched for a call site."""


class Sources:
    """The source files of one project. `commands` has the command of each role: the name of a script's module doesn't tell which
    file it is."""

    def __init__(self, project: Path | None = None, commands: Mapping[str, Iterable[str]] | None = None) -> None:
        self._repository = Repository(project) if project and project.is_dir() else None
        found = {role: script_in(words, project) for role, words in (commands or {}).items()} if project else {}
        self._scripts = {role: path for role, path in found.items() if path}
        self._files_of = cache(self._find)
        self._lines = cache(lambda path: lines_of(self.text_of(path)))
        self.text_of = cache(source_text)
        """The text of a file; "" if it cannot be read."""

    def text_lines(self, path: Path) -> list[str]:
        """The lines of a file as compilers count them: a form feed doesn't end one."""
        return _LINE_END.split(self.text_of(path).removesuffix("\n"))

    def files_of(self, site: str, role: str = "") -> tuple[Path, ...]:
        """The files that may have a call site, the most likely first. Without a role, that of a script may be in any script."""
        return self._files_of(site.partition(":")[0], role)

    def _find(self, module: str, role: str) -> tuple[Path, ...]:
        if self._repository is None:
            return ()
        if module == SCRIPT:
            scripts = [self._scripts[role]] if role in self._scripts else [] if role else self._scripts.values()
            return tuple(dict.fromkeys(scripts))
        return tuple(self._repository.files_of(module))

    def name_of(self, path: Path) -> str:
        """The file's name inside the repository; "" if it is elsewhere."""
        return self._repository.name_of(path) if self._repository else ""

    def line_in(self, path: Path, site: str) -> int:
        """The line of a Python call site in a file; 0 if the file doesn't have it."""
        return self._lines(path).get(site.partition(":")[2], 0)

    def line_of(self, site: str, role: str = "") -> int:
        """The line of a Python call site; 0 if it isn't found."""
        return next((line for _, line in self.places_of(site, role)), 0)

    def places_of(self, site: str, role: str = "", line: int = 0) -> Iterator[tuple[Path, int]]:
        """The files that have a call site, and its line. A Python file counts only if it has the site, at this `line` if that is
        known: another file is of another release. A file in another language counts by its name."""
        for path in self.files_of(site, role)[:_CANDIDATES_MAX]:
            found = self.line_in(path, site) if path.suffix == ".py" else line
            if found and found == (line or found):
                yield path, found
