"""Finds the class path of a Java command, and whether it is empty. A JVM would only report that the main class is missing."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

_OPTIONS = ("-cp", "-classpath", "--class-path")


def class_path_of(command: Sequence[str]) -> str:
    """The class path of a command; "" if it has none. All words after `-jar` belong to the program."""
    for word, following in pairwise(command):
        if word == "-jar":
            return ""
        if word in _OPTIONS:
            return following
        if word.startswith("--class-path="):
            return word.partition("=")[2]
    return ""


def parts(command: Sequence[str], env: Mapping[str, str]) -> tuple[str, ...]:
    """The jars and folders of a command's classes: its class path, else its `-jar`, else `CLASSPATH` of its environment."""
    for word, following in pairwise(command):
        if word == "-jar":
            return (following,)
        if word in _OPTIONS or word.startswith("--class-path="):
            break
    return tuple(filter(None, (class_path_of(command) or env.get("CLASSPATH", "")).split(os.pathsep)))


def is_empty(class_path: str, folder: Path | None) -> bool:
    """True if no part of it exists. Without the folder that the JVM runs in, relative parts count as existing."""
    parts = [Path(folder or "", part) for part in class_path.split(os.pathsep) if part]
    if not all(part.is_absolute() for part in parts):
        return False
    return bool(parts) and not any(_exists(part) for part in parts)


def _exists(part: Path) -> bool:
    """`FOLDER/*` means all jars of a folder."""
    return any(part.parent.glob("*.[jJ][aA][rR]")) if part.name == "*" else part.exists()
