"""Subjects of operations, named so that the names recur from run to run.

A subject has a raw name (`resource`) and the template made from it (`target`), in which random and counted parts are
masked. `Paths` says which files count at all.
"""

from __future__ import annotations

import os

from undermine_agent.interpreter import fast

_getcwd = os.getcwd
_CACHE_MAX = 20_000
_DIGITS = frozenset("0123456789")
_HEX = frozenset("0123456789abcdefABCDEF")
_TEMPORARY = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_")
_WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_UUID = (8, 4, 4, 4, 12)
CONTENT_MARK = "\x1f"  # between target and content in the event file
CONTENT_MAX = 64


def mask(text: str, counted: bool = True) -> str:
    """The template of a name, as protocol/README.md defines it. `counted`: runs of digits are masked too.

    Written without `re`: a signal handler may call a hook in the middle of importing it.
    """
    found = []
    at, end = 0, len(text)
    in_word = False  # the character before is a letter or digit
    while at < end:
        character = text[at]
        if not in_word and character in _WORD:
            stop, template = _random_part(text, at)
            if stop:
                found.append(template)
                at = stop
                continue
        if counted and character in _DIGITS:
            at = _run(text, at, _DIGITS)
            found.append("<n>")
            in_word = True
            continue
        found.append(character)
        in_word = character in _WORD
        at += 1
    return "".join(found)


def content_of(text: str) -> str:
    """A value that tells operations with the same target apart: short, with random parts masked and numbers kept."""
    return mask(text[:CONTENT_MAX].replace(CONTENT_MARK, " "), counted=False)


def _random_part(text: str, at: int):
    """The end of the temporary name or hexadecimal word that starts here, and its template; 0 if there is none."""
    if text.startswith("tmp", at):
        stop = _run(text, at + 3, _TEMPORARY)
        return (stop, "tmp<x>") if stop - at >= 9 else (0, "")
    stop = _uuid(text, at)
    if not stop:
        stop = _run(text, at, _HEX)
        if stop - at < 8 or text[stop : stop + 1] in _WORD or _DIGITS.isdisjoint(text[at:stop]):
            return 0, ""
    return stop, "<hex>"


def _uuid(text: str, at: int) -> int:
    stop = at - 1
    for size in _UUID:
        start = stop + 1
        stop = _run(text, start, _HEX)
        if stop - start != size or text[stop : stop + 1] != "-":
            break
    ended = stop - at == 36 and text[stop : stop + 1] not in _WORD
    return stop if ended and text[at + 8 : at + 24 : 5] == "----" else 0


def _run(text: str, at: int, characters) -> int:
    while at < len(text) and text[at] in characters:
        at += 1
    return at


class Subject:
    """The thing that an operation acts on. `on_disk` is true for files below the node's own folder.

    `content` is the part of the point that tells operations with the same target apart; "" if that isn't used.
    """

    __slots__ = ("target", "resource", "on_disk", "content")

    def __init__(self, target: str, resource: str = "", on_disk: bool = False, content: str = ""):
        self.target = target
        self.resource = resource
        self.on_disk = on_disk
        self.content = content


Subject = fast.base("Subject", Subject)  # type: ignore[misc]


class Paths:
    """Finds the subject of a path; None for the many files outside the configured folders."""

    def __init__(self, node_dir: str, folders):
        roots: dict = {}
        for folder in [node_dir, *folders]:
            for name in (os.path.abspath(folder), os.path.realpath(folder)):
                roots.setdefault(name.rstrip("/") + "/", folder == node_dir)
        self.roots = tuple(sorted(roots.items(), key=lambda root: -len(root[0])))
        self.known: dict = {}
        self.fds: dict = {}

    def subject(self, path, dir_fd=None):
        """The subject of a path, an open descriptor or a path-like object; None if it doesn't count."""
        kind = type(path)
        if kind is int:
            return self.fds.get(path)
        if kind is not str:
            if not isinstance(path, (str, bytes)):
                path = _path_of(path)
                if path is None:
                    return None
            path = os.fsdecode(path)
        if path[:1] != "/":
            if dir_fd is not None:
                folder = self.fds.get(dir_fd)
                return folder and self.subject(folder.resource + "/" + path)
            try:
                path = _getcwd() + "/" + path
            except OSError:
                return None
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


def _path_of(path):
    """The path of a path-like object; None if it isn't one, and the operation itself will complain."""
    if not hasattr(path, "__fspath__"):
        return None
    try:
        return os.fspath(path)
    except TypeError as error:
        if error.__traceback__ is None or error.__traceback__.tb_next is None:
            return None
        raise


def pair(source, goal):
    """The subject of a rename; None unless one of the two paths counts."""
    if source is None and goal is None:
        return None
    parts = [subject or Subject("<outside>", "<outside>") for subject in (source, goal)]
    return Subject(
        " -> ".join(part.target for part in parts),
        " -> ".join(part.resource for part in parts),
        any(part.on_disk for part in parts),
    )
