"""Builds the JVM agent's jar once, caches it, and returns the option by which a JVM loads it.

Maven builds the jar from a copy of the sources, so that an installed package need not be writable. The cache folder is named
after a hash of the sources, so that its jar always matches this version. A lock keeps two tools from building at once, and
the jar appears in one step. With a C compiler, the native helper is built beside it; without the helper, the agent
does the same in another way. `UNDERMINE_JVM_AGENT` names a jar that was built elsewhere.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from undermine.model.errors import UserError
from undermine.model.event import AgentInfo
from undermine.model.text import printable
from undermine.resources import c_compiler, cache_dir, java_home_program, jvm_agent_dir, native_is_forbidden
from undermine.runtimes.base import Progress, no_progress

OVERRIDE = "UNDERMINE_JVM_AGENT"
JAR = "undermine-agent.jar"
HELPER = "undermine_jvm.so"
JDK_OLDEST = 17
BUILD_S_MAX = 900
"""Long, because Maven may have to download its plugins first."""
SOURCES = ("pom.xml", "src/main", "native")
"""The sources of the jar and the helper."""
_MAVEN = ("-q", "-B", "-Dstyle.color=never", "-Dmaven.test.skip=true", "package")
_ADVICE = "-> [Help"
"""Maven's output after this is the same for every failure."""
_COMPILER = ("-O2", "-fPIC", "-shared", "-w")
_SHOWN_LINES, _SHOWN_CHARACTERS = 12, 200
_INSTEAD = f"or set {OVERRIDE} to a jar that was built elsewhere"


def agent_jar(progress: Progress = no_progress) -> Path:
    """The jar that JVMs load, built now if it is missing."""
    if given := os.environ.get(OVERRIDE):
        path = Path(given).resolve()
        if not path.is_file():
            raise UserError(f"{OVERRIDE} names {given}, which is not a file; correct or unset the variable")
        return path
    return ensure(jvm_agent_dir(), cache_dir(), progress)


def helper_dir(jar: Path) -> str:
    """The folder of the native helper, beside the jar; "" if the user forbids it."""
    return "" if native_is_forbidden() else str(jar.parent)


def woven_dir(jar: Path) -> str:
    """The folder in which agents cache woven classes, beside the jar; "" if the jar may change."""
    return str(jar.parent) if is_cache(jar) else ""


def is_cache(jar: Path) -> bool:
    """Is the jar's folder the tool's own, so that results can be stored beside the jar? Its name is a hash of the sources."""
    return not os.environ.get(OVERRIDE)


def tool_options(jar: Path, given: str = "") -> str:
    """`JAVA_TOOL_OPTIONS` with the agent added after the user's options."""
    word = f"-javaagent:{jar}"
    return f"{given} {_quoted(word)}".strip()


def _quoted(word: str) -> str:
    """Quote a word. JVMs split the variable at white space, and accept both kinds of quotes but no escapes."""
    if not re.search(r"[\s'\"]", word):
        return word
    quote = '"' if '"' not in word else "'"
    if quote in word:
        raise UserError(
            f"the path of the JVM agent, {word.partition(':')[2]}, has both kinds of quotes; move it elsewhere"
        )
    return quote + word + quote


def why_no_helper(agent: AgentInfo) -> str:
    """Why this agent ran without the native helper; "" if it had it."""
    jar = agent_jar()
    if not helper_dir(jar):
        return "UNDERMINE_ACCELERATOR=0"
    if agent.why_slow or (jar.parent / HELPER).exists():
        return agent.why_slow
    if os.environ.get(OVERRIDE):
        return f"there is no {HELPER} beside {jar}"
    return "it could not be compiled" if c_compiler() else "no C compiler (cc, gcc or clang)"


# --- building


def ensure(sources: Path, kept_in: Path, progress: Progress = no_progress) -> Path:
    """The jar of these sources, built now if it is missing."""
    folder = kept_in / f"jvm-{_digest(sources)}"
    jar = folder / JAR
    if not jar.exists():
        _make_private(folder)
        with _alone(folder, progress):
            if not jar.exists():
                _build_all(sources, folder, progress)
    return jar


@cache
def _digest(sources: Path) -> str:
    """A hash of all sources, names and content. Cached: sources do not change while the tool runs."""
    digest = hashlib.blake2b(" ".join((*_MAVEN, *_COMPILER)).encode(), digest_size=8)
    for path in _files(sources):
        digest.update(str(path.relative_to(sources)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _files(sources: Path) -> Iterator[Path]:
    for name in SOURCES:
        path = sources / name
        yield from [path] if path.is_file() else sorted(below for below in path.rglob("*") if below.is_file())


def _make_private(folder: Path) -> None:
    """Create the cache folder. Refuse one that others can write to: they could run programs as this user."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError as error:
        raise UserError(f"the JVM agent cannot be stored in {folder}: {error.strerror}; set XDG_CACHE_HOME") from None
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o022:
        raise UserError(f"the folder {folder} is writable by other users; remove it, or set XDG_CACHE_HOME")


@contextlib.contextmanager
def _alone(folder: Path, progress: Progress) -> Iterator[None]:
    """Hold the build lock. The kernel releases it if its holder dies."""
    fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("waiting for the JVM agent, which another undermine is building")
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _build_all(sources: Path, folder: Path, progress: Progress) -> None:
    """Build the helper and the jar. The jar comes last: if it exists, the build is complete."""
    environment = _environment()
    maven = _maven()
    progress("building the JVM agent with Maven: once, and it may take a minute or two")
    begun = time.monotonic()
    for left in folder.glob("build-*"):  # left by a tool that was killed
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="build-", dir=folder) as name:
        copy = Path(name)
        for path in _files(sources):
            target = copy / path.relative_to(sources)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        jar = _build_jar(maven, copy, environment, folder / "build.log")
        if helper := _build_helper(copy, environment["JAVA_HOME"]):
            os.replace(helper, folder / HELPER)
        os.replace(jar, folder / JAR)
    progress(f"built the JVM agent in {time.monotonic() - begun:.0f} s")


def _environment() -> dict[str, str]:
    """The environment for Maven, with the JDK that the tool has found."""
    javac = java_home_program("javac")
    if javac is None:
        where = "in JAVA_HOME" if os.environ.get("JAVA_HOME") else "on the PATH"
        raise UserError(
            f"the JVM agent is built once and needs a JDK: there is no javac {where}; "
            f"install one (such as openjdk-17-jdk-headless) or correct JAVA_HOME, {_INSTEAD}"
        )
    version = _version_of(javac)
    if 0 < version < JDK_OLDEST:
        raise UserError(
            f"the JVM agent is built with JDK {JDK_OLDEST} or newer, but {javac} is version {version} "
            "(the agent itself runs on that version too); "
            f"set JAVA_HOME to a newer JDK for the tool, {_INSTEAD}"
        )
    return {**without_agents(os.environ), "JAVA_HOME": str(Path(javac).resolve().parents[1])}


def without_agents(environment: Mapping[str, str]) -> dict[str, str]:
    """A copy of this environment in which JVMs load no agent."""
    return {name: value for name, value in environment.items() if name not in ("JAVA_TOOL_OPTIONS", "UNDERMINE_AGENT")}


def _version_of(javac: str) -> int:
    """17 for `javac 17.0.15`, 8 for `javac 1.8.0_402`; 0 if it cannot be read."""
    try:
        done = subprocess.run([javac, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return 0
    found = re.search(r"javac (?:1\.)?(\d+)", done.stdout + done.stderr)
    return int(found[1]) if found else 0


def _maven() -> str:
    found = shutil.which("mvn")
    if found is None:
        raise UserError(
            "the JVM agent is built once and needs Maven: there is no mvn on the PATH; "
            f"install it (the package maven), {_INSTEAD}"
        )
    return found


def _build_jar(maven: str, copy: Path, environment: Mapping[str, str], log: Path) -> Path:
    """Run Maven in the copy. Its output is kept, and its end is shown if it fails."""
    why = ""
    with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
        try:
            subprocess.run(
                [maven, *_MAVEN],
                cwd=copy,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                timeout=BUILD_S_MAX,
                check=True,
            )
        except subprocess.TimeoutExpired:
            why = "took too long"
        except subprocess.CalledProcessError as error:
            why = f"ended with {error.returncode}"
    jar = copy / "target" / JAR
    if not why and not jar.is_file():
        why = f"did not create {JAR}"
    if why:
        end = f"its whole output is in {log}, which ends with:\n{_end_of(log)}"
        raise UserError(f"the JVM agent could not be built: mvn {why}; {end}")
    return jar


def _end_of(log: Path) -> str:
    said = log.read_text(errors="replace").partition(_ADVICE)[0]
    lines = [line for line in said.splitlines() if line.strip() and line.strip() != "[ERROR]"]
    return "\n".join("  " + printable(line, _SHOWN_CHARACTERS) for line in lines[-_SHOWN_LINES:])


def _build_helper(copy: Path, java_home: str) -> Path | None:
    """Compile the native helper; None if there is no compiler or it fails. `undermine check` then says so."""
    compiler, source = c_compiler(), copy / "native" / "undermine_jvm.c"
    if compiler is None or not source.is_file():
        return None
    include = Path(java_home, "include")
    made = copy / HELPER
    command = [compiler, *_COMPILER, f"-I{include}", f"-I{include / 'linux'}", str(source), "-o", str(made)]
    try:
        subprocess.run(command, capture_output=True, timeout=120, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return made
