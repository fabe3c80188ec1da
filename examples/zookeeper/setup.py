"""Fetches releases of ZooKeeper from Maven Central, and kazoo, its Python client: `python setup.py 3.6.3 3.9.2`.

Needs a JDK (17 or later) and Maven. A release that is there is not fetched again. Without a release, the one that
undermine.toml names. A release that will be started by another Java than `java` of the path: `--java PROGRAM`.
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
import tomllib
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
CLIENT = "kazoo==2.10.0"
MEMBER_JAR = "member.jar"
ARCHIVE = "classes.jsa"
ARCHIVE_RUN_S = 30
REHEARSAL = "undermine.agent.Rehearsal"
"""Of Undermine's agent: loads its classes too, then runs the program."""
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
BINDINGS = ("slf4j-log4j12-", "slf4j-reload4j-", "logback-classic-")
"""What makes a log of slf4j's calls. Some releases bring none along; they were tested with one of these two."""
LOGBACK = (("ch.qos.logback", "logback-classic", ""), ("ch.qos.logback", "logback-core", ""))
RELOAD4J = (("org.slf4j", "slf4j-reload4j", ""), ("ch.qos.reload4j", "reload4j", ""))
SERVERS = (("io.dropwizard.metrics", "metrics-core", ""), ("org.xerial.snappy", "snappy-java", ""))
"""What servers need since 3.6 and the release does not bring along; it says in which version."""
SINCE = (3, 6)
Artifact = tuple[str, str, str]


def folder_of(version: str) -> Path:
    return HERE / "versions" / version


def ensure(version: str, java: str = "java") -> Path:
    """The folder in which this release is, fetched if need be."""
    if not re.fullmatch(r"\d+(\.\d+)+(-[a-z]+(-?\d+)?)?", version):
        sys.exit(f"{version!r} is no version: say something like 3.6.3")
    folder = folder_of(version)
    if not folder.exists():
        folder.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as name:
            target = Path(name, "target")
            _fetch(version, target)
            target.rename(folder)
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
    """What has to be added so that there is a log."""
    if any(jar.startswith(BINDINGS) for jar in jars):
        return ()
    return LOGBACK if any(jar.startswith("slf4j-api-2") for jar in jars) else RELOAD4J


def is_for_another_machine(jar: str) -> bool:
    """Libraries of netty for other systems; they are large and would be read at every start."""
    return "tcnative" in jar and bool(re.search(r"-(osx|windows|linux)-\w+\.jar$", jar))


def pom(wanted: Iterable[Artifact], version: str) -> str:
    """A project that does nothing but depend on these; those without a version have the one that the release names."""
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
    said = f"<version>{version}</version>" if version else ""
    return f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>{said}{more}</dependency>"


def _copy_jars(wanted: list[Artifact], version: str, target: Path) -> None:
    (project := target.parent / "pom.xml").write_text(pom(wanted, version))
    options = ["-DincludeScope=runtime", f"-DoutputDirectory={target}"]
    maven = [_program("mvn", "install Maven (Debian: `maven`)"), "--quiet", "--batch-mode", "-Dstyle.color=never"]
    command = [*maven, "--file", str(project), PLUGIN, *options]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        print(done.stdout, file=sys.stderr)
        sys.exit(f"Maven cannot fetch ZooKeeper {version}: see its words above; is that release on Maven Central?")


def _program(name: str, otherwise: str) -> str:
    if found := shutil.which(name):
        return found
    sys.exit(f"there is no program {name}: {otherwise}")


# -- what starts and stops ZooKeeper in its process ------------------------------------------------------


def _add_member(target: Path) -> None:
    """Member.java and the settings of both logging libraries, as a jar: the archive of classes takes no folders."""
    source, settings_of_logs = HERE / "Member.java", sorted((HERE / "conf").iterdir())
    jar, newest = target / MEMBER_JAR, max(_changed(path) for path in (source, *settings_of_logs))
    if jar.exists() and _changed(jar) > newest:
        return
    javac = _program("javac", "install a JDK (Debian: `default-jdk-headless`)")
    with tempfile.TemporaryDirectory() as classes:
        where = ["-cp", f"{target}/*", "-d", classes]
        quiet = ["-nowarn", "-Xlint:none", "-proc:none", "--release", "8"]
        made = subprocess.run([javac, *quiet, *where, str(source)], capture_output=True, text=True)
        if made.returncode:
            sys.exit(f"Member.java does not fit this release:\n{made.stderr}")
        part = Path(classes, MEMBER_JAR)
        with zipfile.ZipFile(part, "w") as made_jar:
            for path in (*sorted(Path(classes).glob("*.class")), *settings_of_logs):
                made_jar.write(path, path.name)
        shutil.copyfile(part, target / f"{MEMBER_JAR}.part")
    (target / f"{MEMBER_JAR}.part").rename(jar)


def _changed(path: Path) -> int:
    return path.stat().st_mtime_ns


# -- a faster start --------------------------------------------------------------------------------------


def _archive_classes(folder: Path, java: str) -> None:
    """An archive of the loaded classes, for this Java. Java ignores one that does not fit, so nothing depends on it."""
    program = _program(java, "install a JDK (Debian: `default-jdk-headless`)")
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
        print(f"{folder.name}: there is no archive of classes; nodes start without one", file=sys.stderr)


def agent_jar() -> list[Path]:
    """Undermine's agent, if there is one: it joins the boot loader's path. An archive made so fits with it and without."""
    try:
        from undermine.runtimes import jvm_agent

        return [jvm_agent.agent_jar()]
    except Exception:
        return []


def settings() -> list[str]:
    """The options of the command in undermine.toml that decide whether an archive fits."""
    return [
        word
        for word in configured()["roles"]["server"]["command"]
        if word.startswith(("-Xm", "-XX:+Use", "-XX:Tiered"))
    ]


def _run_for_archive(command: list[str], archive: Path, data: Path) -> None:
    """An ensemble for a moment. One of the three writes the archive when it ends."""
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


def ensure_client() -> Path:
    """The folder in which kazoo is, fetched if need be."""
    folder = HERE / "client"
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=HERE) as name:
            target = Path(name, "target")
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            if subprocess.run([*pip, "--no-deps", "--target", str(target), CLIENT]).returncode:
                sys.exit(f"pip cannot install {CLIENT}: see its words above")
            target.rename(folder)
    return folder


def configured() -> dict[str, Any]:
    return tomllib.loads((HERE / "undermine.toml").read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description="fetches releases of ZooKeeper and its client")
    parser.add_argument("versions", nargs="*", default=[configured()["params"]["version"]])
    parser.add_argument("--java", default="java", help="the Java that will run it, if it is not that of the path")
    options = parser.parse_args()
    ensure_client()
    for wanted in options.versions:
        print(ensure(str(wanted), options.java))


if __name__ == "__main__":
    main()
