"""Whether anything is on the class path of a Java command. A JVM would only say that it cannot find the main class."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

_OPTIONS = ("-cp", "-classpath", "--class-path")


def class_path_of(command: Sequence[str]) -> str:
    """The class path that a command names, "" if none: behind `-jar` all words are the program's."""
    for word, following in pairwise(command):
        if word == "-jar":
            return ""
        if word in _OPTIONS:
            return following
        if word.startswith("--class-path="):
            return word.partition("=")[2]
    return ""


def is_empty(class_path: str, folder: Path | None) -> bool:
    """True if no part of it exists. Where relative parts are is not known without the folder that the JVM runs in."""
    parts = [Path(folder or "", part) for part in class_path.split(os.pathsep) if part]
    if not all(part.is_absolute() for part in parts):
        return False
    return bool(parts) and not any(_exists(part) for part in parts)


def _exists(part: Path) -> bool:
    """`FOLDER/*` means all jars of a folder."""
    return any(part.parent.glob("*.[jJ][aA][rR]")) if part.name == "*" else part.exists()
