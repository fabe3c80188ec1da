"""Fetches releases of ZooKeeper from Maven Central, and its Python client kazoo: `python setup.py 3.6.3 3.9.2`.

It needs a JDK (17 or later) and Maven. A release that is already there is not fetched again. Without arguments, the script
fetches the release in undermine.toml. If nodes will not run with the `java` of the path, name their Java with
`--java PROGRAM`. Run the script with the Python in which Undermine is installed.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterable
from pathlib import Path

from undermine import packs
from undermine.runtimes import jvm_agent

HERE = Path(__file__).resolve().parent
CLIENT = "kazoo==2.10.0"
MEMBER_JAR = "member.jar"
ARCHIVE = "classes.jsa"
ARCHIVE_RUN_S = 30
REHEARSAL = "undermine.agent.Rehearsal"
"""A main class of Undermine's agent. It loads the agent's classes too, then runs the program."""
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
BINDINGS = ("slf4j-log4j12-", "slf4j-reload4j-", "logback-classic-")
"""Jars that write slf4j's log. A release without such a jar gets one of the two sets below."""
LOGBACK = (("ch.qos.logback", "logback-classic", ""), ("ch.qos.logback", "logback-core", ""))
RELOAD4J = (("org.slf4j", "slf4j-reload4j", ""), ("ch.qos.reload4j", "reload4j", ""))
SERVERS = (("io.dropwizard.metrics", "metrics-core", ""), ("org.xerial.snappy", "snappy-java", ""))
"""Jars that servers need since 3.6 but that are not dependencies of the release. The release's own pom names their versions."""
SINCE = (3, 6)
VERSION = packs.NUMBERS + r"(-[a-z]+(-?\d+)?)?"
NEED_JDK = "install a JDK (Debian: `default-jdk-headless`)"
Artifact = tuple[str, str, str]


def ensure(version: str, java: str = "java") -> Path:
    """Return the folder of this release, ready to start. Fetch the release if it is missing."""
    packs.check_version(version, "3.6.3", VERSION)
    folder = packs.ensure_folder(HERE / "versions" / version, lambda part: _fetch(version, part))
    _add_member(folder)
    _archive_classes(folder, java)
    return folder


# -- jars ------------------------------------------------------------------------------------------------


def _fetch(version: str, target: Path) -> None:
    wanted = [("org.apache.zookeeper", "zookeeper", version), *(SERVERS if numbers(version) >= SINCE else ())]
    _copy_jars(wanted, version, target)
    if more := missing_binding([path.name for path in target.iterdir()]):
        _copy_jars([*wanted, *more], version, target)
    for path in target.iterdir():
        if is_for_another_machine(path.name):
            path.unlink()


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


def missing_binding(jars: list[str]) -> tuple[Artifact, ...]:
    """Return the jars that must be added so that the release writes a log."""
    if any(jar.startswith(BINDINGS) for jar in jars):
        return ()
    return LOGBACK if any(jar.startswith("slf4j-api-2") for jar in jars) else RELOAD4J


def is_for_another_machine(jar: str) -> bool:
    """True for netty's native libraries for other systems. They are large, and Java would read them at every start."""
    return "tcnative" in jar and bool(re.search(r"-(osx|windows|linux)-\w+\.jar$", jar))


def pom(wanted: Iterable[Artifact], version: str) -> str:
    """Return a Maven project that depends on these artifacts. The release's own pom gives the versions that are missing."""
    release = ("org.apache.zookeeper", "zookeeper", version)
    managed = _dependency(release, "<type>pom</type><scope>import</scope>")
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>undermine</groupId><artifactId>zookeeper-pack</artifactId><version>1</version>"
        f"<dependencyManagement><dependencies>{managed}</dependencies></dependencyManagement>"
        f"<dependencies>{''.join(_dependency(one, '<scope>compile</scope>') for one in wanted)}</dependencies></project>"
    )


def _dependency(artifact: Artifact, more: str) -> str:
    group, name, version = artifact
    given = f"<version>{version}</version>" if version else ""
    return f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>{given}{more}</dependency>"


def _copy_jars(wanted: list[Artifact], version: str, target: Path) -> None:
    (project := target.parent / "pom.xml").write_text(pom(wanted, version))
    options = ["-DincludeScope=runtime", f"-DoutputDirectory={target}"]
    print(f"fetching ZooKeeper {version}", file=sys.stderr)
    maven = [packs.need_program("mvn", "install Maven (Debian: `maven`)"), "--quiet", "--batch-mode", "-Dstyle.color=never"]
    command = [*maven, "--file", str(project), PLUGIN, *options]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        print(done.stdout, file=sys.stderr)
        sys.exit(f"Maven cannot fetch ZooKeeper {version}; its messages are above. Is that release on Maven Central?")


# -- the class that starts and stops ZooKeeper in its process --------------------------------------------


def _add_member(target: Path) -> None:
    """Build a jar of Member.java and the settings of both logging libraries. A class archive cannot use folders."""
    source, log_settings = HERE / "Member.java", sorted((HERE / "conf").iterdir())
    jar, newest = target / MEMBER_JAR, max(_changed(path) for path in (source, *log_settings))
    if jar.exists() and _changed(jar) > newest:
        return
    javac = packs.need_program("javac", NEED_JDK)
    with tempfile.TemporaryDirectory() as classes:
        where = ["-cp", f"{target}/*", "-d", classes]
        quiet = ["-nowarn", "-Xlint:none", "-proc:none", "--release", "8"]
        made = subprocess.run([javac, *quiet, *where, str(source)], capture_output=True, text=True)
        if made.returncode:
            sys.exit(f"Member.java does not compile with this release:\n{made.stderr}")
        part = Path(classes, MEMBER_JAR)
        with zipfile.ZipFile(part, "w") as made_jar:
            for path in (*sorted(Path(classes).glob("*.class")), *log_settings):
                made_jar.write(path, path.name)
        shutil.copyfile(part, target / f"{MEMBER_JAR}.part")
    (target / f"{MEMBER_JAR}.part").rename(jar)


def _changed(path: Path) -> int:
    return path.stat().st_mtime_ns


# -- the class archive, for a faster start ---------------------------------------------------------------


def _archive_classes(folder: Path, java: str) -> None:
    """Write an archive of the loaded classes for this Java. Java ignores an archive that does not fit, so none is required."""
    program = packs.need_program(java, NEED_JDK)
    archive, owner = folder / ARCHIVE, folder / "classes.java"
    agent = agent_jar()
    parts = [Path(program).resolve(), folder / MEMBER_JAR, *agent]
    identity = "".join(f"{path} {_changed(path)}\n" for path in parts)
    if archive.exists() and owner.exists() and owner.read_text() == identity:
        return
    part = folder / f"{ARCHIVE}.part"
    with tempfile.TemporaryDirectory() as data:
        boot = [f"-Xbootclasspath/a:{path}" for path in agent]
        command = [program, *settings(), *boot, "-cp", f"{folder}/*", *([REHEARSAL] if agent else [])]
        _run_for_archive(command, part, Path(data))
    if part.exists():
        part.rename(archive)
        owner.write_text(identity)
    else:
        print(f"{folder.name}: Java wrote no class archive; nodes start without one, which is slower", file=sys.stderr)


def agent_jar() -> list[Path]:
    """Return Undermine's agent for the boot class path, if it can be built. The archive then fits with and without the agent."""
    try:
        return [jvm_agent.agent_jar()]
    except Exception:
        return []


def settings() -> list[str]:
    """Return the options of the command in undermine.toml that decide whether an archive fits."""
    return [
        word
        for word in packs.configuration(HERE)["roles"]["server"]["command"]
        if word.startswith(("-Xm", "-XX:+Use", "-XX:Tiered"))
    ]


def _run_for_archive(command: list[str], archive: Path, data: Path) -> None:
    """Run an ensemble until it has a leader. One of its three servers writes the archive when it ends."""
    addresses = _free_addresses(9)
    servers = ",".join(f"{n + 1}={addresses[3 * n]}:{addresses[3 * n + 1].rpartition(':')[2]}" for n in range(3))
    options = ["tickTime=200", "initLimit=20", "syncLimit=20", "admin.enableServer=false"]
    logs = [data / f"log{n}" for n in range(3)]
    running = []
    for n, log in enumerate(logs):
        more = [f"-XX:ArchiveClassesAtExit={archive}"] if n == 1 else []
        java = [command[0], *more, *command[1:]]
        member = ["Member", str(n + 1), f"{data}/zk{n}", addresses[3 * n + 2], servers, f"zk{n}", "none", *options]
        with open(log, "w") as out:
            running.append(subprocess.Popen([*java, *member], stdout=out, stderr=out))
    until = time.monotonic() + ARCHIVE_RUN_S
    while time.monotonic() < until and not all(re.search("LEADING|FOLLOWING", log.read_text()) for log in logs):
        time.sleep(0.1)
    time.sleep(1)
    _end(running)


def _free_addresses(count: int) -> list[str]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]


def _end(running: list[subprocess.Popen[bytes]]) -> None:
    for one in running:
        one.terminate()
    for one in running:
        try:
            one.wait(ARCHIVE_RUN_S)
        except subprocess.TimeoutExpired:
            one.kill()
            one.wait()


# -- the client ------------------------------------------------------------------------------------------


def ensure_client() -> None:
    packs.ensure_folder(HERE / "client", lambda part: packs.pip_install(CLIENT, part, "--no-deps"))


def main() -> None:
    parser = argparse.ArgumentParser(description="Fetches releases of ZooKeeper and its Python client.")
    parser.add_argument("versions", nargs="*", default=[packs.default_version(HERE)])
    parser.add_argument("--java", default="java", help="the Java that will run ZooKeeper, by default the `java` of the path")
    options = parser.parse_args()
    ensure_client()
    for wanted in options.versions:
        print(ensure(wanted, options.java))


if __name__ == "__main__":
    main()
