"""The JDKs of this machine, what is missing for the JVM agent if anything is, and small Java programs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from undermine import jvm
from undermine.resources import java_home_program


@cache
def jdks() -> dict[int, Path]:
    """By major version, as far as the agent is for them."""
    homes = [Path(home) for home in filter(None, (os.environ.get("JAVA_HOME"),))]
    if found := java_home_program("java"):
        homes.append(Path(found).resolve().parents[1])
    homes += sorted(Path("/usr/lib/jvm").glob("*"))
    versions: dict[int, Path] = {}
    for home in homes:
        release = home / "release"
        told = re.search(r'JAVA_VERSION="(?:1\.)?(\d+)', release.read_text()) if release.is_file() else None
        if told and int(told[1]) >= jvm.JDK_OLDEST and (home / "bin" / "javac").exists():
            versions.setdefault(int(told[1]), home)
    return versions


def why_no_jvm() -> str:
    """What is missing here to run the JVM agent, if anything is."""
    if not jdks():
        return f"no JDK {jvm.JDK_OLDEST} or newer here"
    if jvm.OVERRIDE not in os.environ and shutil.which("mvn") is None:
        return f"no Maven here to build the JVM agent with, and no {jvm.OVERRIDE}"
    return ""


def compile_java(folder: Path, *sources: Path, class_path: Path | None = None) -> Path:
    """With the oldest JDK here, and for Java 8, so that all of them can run it."""
    javac = jdks()[min(jdks())] / "bin" / "javac"
    path = ["-cp", str(class_path)] if class_path else []
    options = ["-g", "-nowarn", "-Xlint:-options", "--release", "8", *path, "-d", str(folder)]
    subprocess.run([str(javac), *options, *map(str, sources)], check=True, capture_output=True)
    return folder
