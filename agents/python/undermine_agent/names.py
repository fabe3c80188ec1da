"""Names that recur: what is random or counted in a name is masked; and which paths count at all.

Subjects are what operations act on: a raw name (`resource`) with the template made from it (`target`).
"""

from __future__ import annotations

import os

_getcwd = os.getcwd
_CACHE_MAX = 20_000
_rules: list = []


def mask(text: str) -> str:
    """The template of a name, as protocol/README.md defines it."""
    if not _rules:
        import re

        edge, hexadecimal = r"(?<![0-9A-Za-z])", "[0-9a-fA-F]"
        uuid = "-".join(hexadecimal + "{%d}" % size for size in (8, 4, 4, 4, 12))
        _rules.append((re.compile(edge + "tmp[a-z0-9_]{6,}"), "tmp<x>"))
        _rules.append((re.compile(edge + uuid + "(?![0-9A-Za-z])"), "<hex>"))
        _rules.append((re.compile(edge + r"(?=[a-fA-F]*[0-9])[0-9a-fA-F]{8,}(?![0-9A-Za-z])"), "<hex>"))
        _rules.append((re.compile("[0-9]+"), "<n>"))
    for rule, replacement in _rules:
        text = rule.sub(replacement, text)
    return text


class Subject:
    """What an operation acts on. `on_disk` is true for files below the node's own folder."""

    __slots__ = ("target", "resource", "on_disk")

    def __init__(self, target: str, resource: str = "", on_disk: bool = False):
        self.target = target
        self.resource = resource
        self.on_disk = on_disk


class Paths:
    """Finds the subject of a path; None for the many files that do not count."""

    def __init__(self, node_dir: str, folders):
        roots = {}
        for folder in [node_dir, *folders]:
            for name in (os.path.abspath(folder), os.path.realpath(folder)):
                roots.setdefault(name.rstrip("/") + "/", folder == node_dir)
        self.roots = tuple(sorted(roots.items(), key=lambda root: -len(root[0])))
        self.known: dict = {}
        self.fds: dict = {}

    def subject(self, path, dir_fd=None):
        """The subject of a path, an open descriptor or something path-like, if it counts."""
        kind = type(path)
        if kind is int:
            return self.fds.get(path)
        if kind is not str:
            if not isinstance(path, (str, bytes)):
                if not hasattr(path, "__fspath__"):
                    return None
                path = os.fspath(path)
            path = os.fsdecode(path)
        if path[:1] != "/":
            if dir_fd is not None:
                folder = self.fds.get(dir_fd)
                return folder and self.subject(folder.resource + "/" + path)
            path = _getcwd() + "/" + path
        try:
            return self.known[path]
        except KeyError:
            return self._find(path)

    def _find(self, path: str):
        plain = os.path.normpath(path)
        found = None
        for root, on_disk in self.roots:
            if (plain + "/").startswith(root):
                found = Subject(mask(plain[len(root) :] or "."), plain, on_disk)
                break
        if len(self.known) >= _CACHE_MAX:
            self.known.clear()
        self.known[path] = found
        return found


def pair(source, goal):
    """The subject of a rename: it counts if either side does."""
    if source is None and goal is None:
        return None
    parts = [subject or Subject("<outside>", "<outside>") for subject in (source, goal)]
    return Subject(
        " -> ".join(part.target for part in parts),
        " -> ".join(part.resource for part in parts),
        any(part.on_disk for part in parts),
    )
