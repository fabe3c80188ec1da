"""Fetches releases of jgroups-raft from Maven Central: `python setup.py 1.1.4.Final`.

It needs a JDK (17 or later) and Maven. A release that is already there is not fetched again. Without arguments, the script
fetches the release in undermine.toml. Run it with the Python in which Undermine is installed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from undermine import packs

HERE = Path(__file__).resolve().parent
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
VERSION = packs.NUMBERS + r"\.(Final|(Alpha|Beta|CR)\d+)"
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>undermine</groupId><artifactId>jgroups-raft-pack</artifactId><version>1</version>
<dependencies><dependency><groupId>org.jgroups</groupId><artifactId>jgroups-raft</artifactId><version>{version}</version>
</dependency></dependencies></project>"""


def ensure(version: str) -> Path:
    """Return the folder of this release, ready to start. Fetch the release if it is missing."""
    packs.check_version(version, "1.1.4.Final", VERSION)
    folder = packs.ensure_folder(HERE / "versions" / version, lambda part: _fetch(version, part))
    _compile(folder)
    return folder


def _fetch(version: str, target: Path) -> None:
    print(f"fetching jgroups-raft {version}", file=sys.stderr)
    (project := target.parent / "pom.xml").write_text(POM.format(version=version))
    maven = [packs.need_program("mvn", "install Maven (Debian: `maven`)"), "--quiet", "--batch-mode"]
    options = ["-DincludeScope=runtime", f"-DoutputDirectory={target}"]
    if subprocess.run([*maven, "--file", str(project), PLUGIN, *options], stdin=subprocess.DEVNULL).returncode:
        sys.exit(f"Maven cannot fetch jgroups-raft {version}; its messages are above")


def _compile(folder: Path) -> None:
    source, made = HERE / "Member.java", folder / "Member.class"
    if made.exists() and made.stat().st_mtime_ns > source.stat().st_mtime_ns:
        return
    javac = packs.need_program("javac", "install a JDK (Debian: `default-jdk-headless`)")
    with tempfile.TemporaryDirectory() as classes:
        command = [javac, "-proc:none", "--release", "17", "-cp", f"{folder}/*", "-d", classes, str(source)]
        if subprocess.run(command).returncode:
            sys.exit("Member.java does not compile with this release; the messages of javac are above")
        for path in sorted(Path(classes).glob("*.class"), reverse=True):  # Member.class last: it says that all are there
            (folder / path.name).write_bytes(path.read_bytes())


if __name__ == "__main__":
    packs.run(HERE, ensure)
