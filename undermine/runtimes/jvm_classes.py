"""Reads the class files of a JVM role: starts the analyser, which is part of the agent's jar, in a process of its own.

Jars are hostile input. So the process has limits of time, memory and output; the tool itself never opens a class file. The result
is cached beside the agent's jar, by a hash of the class files and the questions.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from undermine import target_files
from undermine.model.text import printable
from undermine.program.compiled import Compiled
from undermine.resources import java_program
from undermine.runtimes import jvm_agent
from undermine.runtimes.base import ClassFiles

MAIN = "undermine.agent.facts.Analysis"
SECONDS_MAX = 300
HEAP_MB = 768
_OPTIONS = (f"-Xmx{HEAP_MB}m", "-Xss4m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")
_JAR = ".jar"
_SHOWN_CHARACTERS = 300


def read(files: ClassFiles, named: Sequence[tuple[str, str]]) -> Compiled:
    """The findings in these class files. `named` are the user's own operations."""
    jar = jvm_agent.agent_jar()
    request = msgspec.json.encode({"class_path": files.path, "packages": files.packages, "named": named})
    kept = jar.parent / f"classes-{_digest(files.path, request)}.json"
    if jvm_agent.is_cache(jar) and (stored := _stored(kept)):
        return stored
    text, trouble = _run(jar, request)
    try:
        found = msgspec.json.decode(text, type=Compiled) if not trouble else Compiled()
    except msgspec.MsgspecError as error:
        trouble = f"the analyser's answer is wrong: {error}"
    if trouble:
        return Compiled(troubles=((os.pathsep.join(files.path), printable(trouble, _SHOWN_CHARACTERS)),))
    if jvm_agent.is_cache(jar):
        _store(kept, found)
    return found


def _run(jar: Path, request: bytes) -> tuple[bytes, str]:
    """The output of the analyser, and why there is none."""
    command = [java_program(), *_OPTIONS, "-cp", str(jar), MAIN]
    try:
        done = subprocess.run(
            command, input=request, capture_output=True, timeout=SECONDS_MAX, env=jvm_agent.without_agents(os.environ)
        )
    except subprocess.TimeoutExpired:
        return b"", f"the analysis of the class files took more than {SECONDS_MAX} s"
    except OSError as error:
        return b"", f"java cannot be started: {error.strerror}"
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or [f"it ended with {done.returncode}"]
        return b"", f"the class files could not be analysed: {said[0]}"
    return done.stdout, ""


# --- the cache


class _Kept(msgspec.Struct, frozen=True):
    """Findings, and a hash of the files that only the manifests of jars name."""

    found: Compiled
    named: str


def _digest(path: Sequence[str], request: bytes = b"") -> str:
    digest = hashlib.blake2b(request, digest_size=16)
    for file in sorted(_files(path)):
        with contextlib.suppress(OSError), target_files.open_regular(file.resolve()) as content:
            digest.update(str(file).encode(errors="replace") + b"\0")
            while block := content.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def _files(path: Sequence[str]) -> Iterator[Path]:
    """The jars and class files of a class path."""
    for part in path:
        found = Path(part)
        if found.name == "*":
            yield from (each for each in found.parent.glob("*") if each.suffix.lower() == _JAR)
        elif found.is_dir():
            yield from found.rglob("*.class")
        elif found.is_file():
            yield found


def _stored(path: Path) -> Compiled | None:
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=_Kept)
    except (OSError, msgspec.MsgspecError):
        return None
    return kept.found if kept.named == _digest(kept.found.named_by_manifests) else None


def _store(path: Path, found: Compiled) -> None:
    """Write the file in one step. If the disk is full, continue without it."""
    text = msgspec.json.encode(_Kept(found, _digest(found.named_by_manifests)))
    with contextlib.suppress(OSError):
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix="classes-", delete=False) as part:
            part.write(text)
        os.replace(part.name, path)
