"""The functions that changed in a repository, read from a diff. Never runs git, and never imports or runs a file.

In Python files, a function changed if a changed line is in it and in no function inside it. Lines outside of functions count for
nothing: a new import would otherwise change everything that the module's main thread does. Other files are not parsed: all of
their functions changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePosixPath

from undermine.program.repository.files import SUFFIXES, dotted_name, functions_in

_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_EVERYTHING = ""
"""In place of a function's name: all functions of the file."""
_INSIDE = ".<locals>."

Lines = tuple[int, int]
"""The first and the last of some changed lines."""


def changed_lines(diff: str) -> dict[str, list[Lines]]:
    """By file: the lines of its new content that a diff without context changed or that surround removed lines.

    The numbers of a hunk say how many lines belong to it, so a line of a file is never taken for the beginning of another file.
    """
    found: dict[str, list[Lines]] = {}
    file, rest = "", 0
    for line in diff.split("\n"):
        if rest:
            rest -= line[:1] in ("+", "-")
        elif line.startswith("+++ "):
            file = line[4:].rstrip("\t").removeprefix("b/") if line.startswith("+++ b/") else ""
        elif hunk := _HUNK.match(line):
            removed, begin, added = int(hunk[1] or 1), int(hunk[2]), int(hunk[3] or 1)
            rest = removed + added
            if file:
                found.setdefault(file, []).append((begin, begin + (added or 2) - 1))
    return found


def changed_functions(
    files: Mapping[str, Sequence[Lines]], new: Iterable[str], read: Callable[[str], str]
) -> frozenset[tuple[str, str]]:
    """The changed functions, as pairs of the dotted path of their file and their qualified name.

    `files` has the changed lines of each file, `new` the names of files that are new as a whole, and `read` returns the text of a
    file.
    """
    found: set[tuple[str, str]] = set()
    for file, lines in (*files.items(), *((file, None) for file in new)):
        if not file.endswith(SUFFIXES):
            continue
        dotted = dotted_name(PurePosixPath(file))
        functions = functions_in(read(file)) if file.endswith(".py") else []
        if lines is None or not functions:
            found.add((dotted, _EVERYTHING))
            continue
        owner: dict[int, str] = {}
        for function in functions:  # outer functions come first
            owner.update(dict.fromkeys(range(function.first, function.last + 1), function.qualname))
        touched = (owner.get(line) for first, last in lines for line in range(first, last + 1))
        found |= {(dotted, name) for name in touched if name}
    return frozenset(found)


class Changed:
    """The functions of the target that changed. An empty one means that nobody asked."""

    def __init__(
        self, functions: Iterable[tuple[str, str]] = (), scripts: Mapping[str, str] | None = None, since: str = ""
    ) -> None:
        """`scripts`: by role, the dotted path of the file that it runs as a script. `since`: the commit, as the user named it."""
        self.since = since
        self.scripts = dict(scripts or {})
        self._modules: dict[str, set[str]] = {}
        """By qualified name: the dotted paths of the files in which a function with this name changed."""
        for dotted, name in functions:
            self._modules.setdefault(name, set()).add(dotted)

    def __len__(self) -> int:
        return sum(map(len, self._modules.values()))

    def has(self, function: str) -> bool:
        """Did this function (`module:qualname`) change, or one around it?"""
        module, _, name = function.partition(":")
        module = module.partition("$")[0]  # a nested class is in the file of the outer one
        parts = name.split(_INSIDE)
        around = [_INSIDE.join(parts[:length]) for length in range(1, len(parts) + 1)]
        paths = (path for each in (_EVERYTHING, *around) for path in self._modules.get(each, ()))
        return any(path == module or path.endswith(f".{module}") for path in paths)
