"""How the JVM agent's jar is built and kept, and how JVMs are told of it. Maven and the JDK are stand-ins here."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import tomllib
from pathlib import Path
from typing import Any

import pytest
from waiting import HANG_S

from undermine import api
from undermine.analysis.possible_faults import possible_faults_at
from undermine.campaign.running import Notice
from undermine.config.load import load
from undermine.config.templates import Values, render
from undermine.deployments.isolation import Isolation, choose
from undermine.deployments.local import LocalCluster
from undermine.inject.compile import unsupported
from undermine.model.errors import UserError
from undermine.model.event import AgentInfo
from undermine.model.fault_limits import FaultLimits
from undermine.model.faults import Corrupt, Delay, Drop, fault_kind
from undermine.model.plan import At, Plan, Step
from undermine.model.run import NodeInfo
from undermine.run.agent_files import AgentFiles
from undermine.runtimes import accelerator, jvm_agent, table
from undermine.runtimes.jvm_agent import JAR, ensure
from undermine.store.rundir import RunDir
from undermine.testing import point

ROOT = Path(__file__).resolve().parents[2]
OLD_CAPABILITIES = ("crash", "reboot", "delay", "error", "pause", "partition", "unseen", "until")
"""Of an agent that can't do everything."""
MAVEN = """#!/bin/sh
echo "$@ in $JAVA_HOME" >> "$LOG"
[ -e src/test ] && echo "tests were copied" >> "$LOG"
%s
mkdir target
cat pom.xml src/main/java/A.java > target/undermine-agent.jar
"""


class Machine:
    """A folder that is all of the PATH, with a JDK and Maven that only say that they were called."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.bin, self.cache, self.sources = folder / "jdk" / "bin", folder / "cache", folder / "sources"
        self.log = folder / "called"
        self.bin.mkdir(parents=True)
        monkeypatch.setenv("PATH", f"{self.bin}:/usr/bin:/bin")
        monkeypatch.setenv("LOG", str(self.log))
        monkeypatch.setenv("XDG_CACHE_HOME", str(self.cache))
        for name in ("JAVA_HOME", jvm_agent.OVERRIDE, "UNDERMINE_ACCELERATOR"):
            monkeypatch.delenv(name, raising=False)
        self.program("javac", "#!/bin/sh\necho javac 17.0.9\n")
        self.maven("")
        for name, text in {"pom.xml": "pom ", "src/main/java/A.java": "A", "src/test/B.java": "B"}.items():
            path = self.sources / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def program(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def maven(self, extra: str) -> None:
        self.program("mvn", MAVEN % extra)

    def alone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nothing else is on the PATH."""
        monkeypatch.setenv("PATH", str(self.bin))

    @property
    def calls(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def build(self, tell: Any = lambda text: None) -> Path:
        jvm_agent._digest.cache_clear()
        return ensure(self.sources, self.cache, tell)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


# --- building


def test_the_jar_is_built_once_and_the_user_is_told(machine: Machine) -> None:
    told: list[str] = []
    jar = machine.build(told.append)
    assert jar.read_text() == "pom A"
    assert machine.calls == [f"-q -B -Dstyle.color=never -Dmaven.test.skip=true package in {machine.bin.parent}"]
    assert told[0].startswith("building the JVM agent")
    assert told[1].startswith("built the JVM agent in ")
    assert machine.build(told.append) == jar
    assert (len(machine.calls), len(told)) == (1, 2)


def test_the_folder_is_nobody_elses_and_nothing_but_the_result_is_left_in_it(machine: Machine) -> None:
    folder = machine.build().parent
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.name for path in folder.iterdir()} == {JAR, "build.log", "lock"}
    assert not (machine.sources / "target").exists()


def test_a_folder_that_others_can_write_to_is_refused(machine: Machine) -> None:
    folder = machine.build().parent
    (folder / JAR).unlink()
    folder.chmod(0o777)
    with pytest.raises(UserError, match="is writable by other users"):
        machine.build()


@pytest.mark.parametrize(("name", "again"), [("src/main/java/A.java", True), ("pom.xml", True), ("src/test/B.java", False)])
def test_other_sources_are_built_anew(machine: Machine, name: str, again: bool) -> None:
    first = machine.build()
    (machine.sources / name).write_text("other")
    assert (machine.build() != first) == again


def test_what_a_killed_tool_left_is_removed(machine: Machine) -> None:
    folder = machine.build().parent
    (folder / JAR).unlink()
    (folder / "build-x" / "src").mkdir(parents=True)
    machine.build()
    assert not (folder / "build-x").exists()


def test_two_that_build_at_once_build_once(machine: Machine) -> None:
    machine.maven("touch $LOG.begun; while [ ! -e $LOG.go ]; do sleep 0.02; done")
    told: list[str] = []
    jvm_agent._digest.cache_clear()
    builders = [threading.Thread(target=ensure, args=(machine.sources, machine.cache, told.append)) for _ in range(2)]
    for builder in builders:
        builder.start()
    while not any(text.startswith("waiting") for text in told):
        threading.Event().wait(0.01)
    Path(f"{machine.log}.go").touch()
    for builder in builders:
        builder.join()
    assert len(machine.calls) == 1
    assert sorted(text.split()[0] for text in told) == ["building", "built", "waiting"]


def test_another_process_waits_too(machine: Machine) -> None:
    machine.maven("sleep 0.3")
    code = (
        "import sys; from pathlib import Path; from undermine.runtimes.jvm_agent import ensure; "
        "print(ensure(*map(Path, sys.argv[1:])))"
    )
    command = [sys.executable, "-c", code, str(machine.sources), str(machine.cache)]
    tools = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert len({tool.communicate(timeout=HANG_S)[0] for tool in tools}) == 1
    assert len(machine.calls) == 1


def test_a_failing_build_shows_its_end_and_leaves_no_jar(machine: Machine) -> None:
    lines = 'for n in $(seq 40); do echo "line $n"; done; echo "[ERROR] \033[31mno such symbol"'
    machine.maven(lines + '; echo "[ERROR] "; echo "[ERROR] -> [Help 1]"; exit 3')
    with pytest.raises(UserError) as raised:
        machine.build()
    text = str(raised.value)
    assert "mvn ended with 3" in text
    assert text.splitlines()[-1].strip() == "[ERROR] ?[31mno such symbol"
    assert "line 40" in text
    assert "line 20" not in text
    assert not list(machine.cache.glob(f"*/{JAR}"))
    machine.maven("")
    assert machine.build().exists()


def test_a_build_without_a_result_is_an_error(machine: Machine) -> None:
    machine.program("mvn", "#!/bin/sh\nexit 0\n")
    with pytest.raises(UserError, match=f"mvn did not create {JAR}"):
        machine.build()


def test_what_is_missing_is_named(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.alone(monkeypatch)
    (machine.bin / "mvn").unlink()
    with pytest.raises(UserError, match=r"there is no mvn on the PATH; install it \(the package maven\)"):
        machine.build()
    (machine.bin / "javac").unlink()
    with pytest.raises(UserError, match="there is no javac on the PATH; install one"):
        machine.build()
    monkeypatch.setenv("JAVA_HOME", str(machine.folder))
    with pytest.raises(UserError, match="there is no javac in JAVA_HOME"):
        machine.build()


@pytest.mark.parametrize(("said", "version"), [("1.8.0_402", 8), ("11.0.2", 11)])
def test_an_old_jdk_is_refused(machine: Machine, said: str, version: int) -> None:
    machine.program("javac", f"#!/bin/sh\necho javac {said} >&2\n")
    with pytest.raises(UserError, match=f"JDK 17 or newer, but .*javac is version {version} "):
        machine.build()


def test_the_native_helper_lies_beside_the_jar_if_it_can_be_built(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    source = machine.sources / "native" / "undermine_jvm.c"
    source.parent.mkdir()
    source.write_text("int one(void) { return 1; }\n")
    machine.program("cc", '#!/bin/sh\nfor last; do :; done\necho "$@" > "$last"\n')
    folder = machine.build().parent
    assert "undermine_jvm.c" in (folder / jvm_agent.HELPER).read_text()
    machine.program("cc", "#!/bin/sh\nexit 1\n")
    source.write_text("broken")
    folder = machine.build().parent
    assert (folder / JAR).exists()
    assert not (folder / jvm_agent.HELPER).exists()


def test_a_jar_built_elsewhere_is_taken(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.alone(monkeypatch)
    jar = machine.folder / "my.jar"
    monkeypatch.setenv(jvm_agent.OVERRIDE, str(jar))
    with pytest.raises(UserError, match="which is not a file"):
        jvm_agent.agent_jar()
    jar.touch()
    assert jvm_agent.agent_jar() == jar
    assert machine.calls == []


# --- telling JVMs


@pytest.mark.parametrize(
    ("given", "jar", "options"),
    [
        ("", "/c/a.jar", "-javaagent:/c/a.jar"),
        ("-Xmx1g -Da='b c'", "/c/a.jar", "-Xmx1g -Da='b c' -javaagent:/c/a.jar"),
        ("", "/c d/a.jar", '"-javaagent:/c d/a.jar"'),
        ("-ea", '/c "d"/a.jar', "-ea '-javaagent:/c \"d\"/a.jar'"),
    ],
)
def test_the_agent_comes_after_what_the_user_says(given: str, jar: str, options: str) -> None:
    assert jvm_agent.tool_options(Path(jar), given) == options


def test_a_path_that_cannot_be_quoted_is_refused() -> None:
    with pytest.raises(UserError, match="both kinds of quotes"):
        jvm_agent.tool_options(Path("/a'b\"c/x.jar"))


def test_java_is_that_of_java_home_or_of_the_path(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.alone(monkeypatch)
    assert render("{java}", Values(())) == "java"
    machine.program("java", "#!/bin/sh\n")
    assert render("{java}", Values(())) == str(machine.bin / "java")
    other = machine.folder / "other" / "bin" / "java"
    other.parent.mkdir(parents=True)
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(other.parents[1]))
    assert render("{java}", Values(())) == str(other)


TOML = """
[campaign]
plugins = "hunt.py"
[roles.store]
nodes = ["s1"]
command = "{java} -cp {project} Main"
agent = "AGENT"
env = {JAVA_TOOL_OPTIONS = "-Xss1m"}
"""


class NoGuardian:
    """Notes what it is asked to start."""

    def __init__(self) -> None:
        self.started: list[dict[str, Any]] = []

    def subscribe(self, prefix: str, handler: Any) -> Any:
        return lambda: None

    def start(self, **what: Any) -> None:
        self.started.append(what)


@pytest.mark.parametrize("agent", ["auto", "jvm", "python", "none"])
def test_each_agent_gets_into_its_own_runtime_only(machine: Machine, monkeypatch: pytest.MonkeyPatch, agent: str) -> None:
    jar = machine.folder / "my.jar"
    jar.touch()
    monkeypatch.setenv(jvm_agent.OVERRIDE, str(jar))
    (machine.folder / "undermine.toml").write_text(TOML.replace("AGENT", agent))
    (machine.folder / "hunt.py").write_text("")
    config = load(machine.folder, programs=False)
    run = RunDir(machine.folder / "run")
    run.create()
    node = NodeInfo("s1", "store", "127.0.0.1", 1, {"main": 1}, str(run.node("s1")))
    files = AgentFiles(config, run, [node], Plan(()), machine.folder / "s.sock")
    guardian = NoGuardian()
    network = Isolation(choose("ports")).network(["s1"], 1)
    try:
        cluster = LocalCluster(config, run, "run-1", guardian, [node], files.make, lambda *_: "", network)  # type: ignore[arg-type]
        cluster._start("s1")
    finally:
        network.close()
    env = guardian.started[0]["env"]
    wanted = {"auto": "jvm"}.get(agent, agent)
    assert config.runtime("store").name == wanted
    assert env["JAVA_TOOL_OPTIONS"] == ("-Xss1m -javaagent:" + str(jar) if wanted == "jvm" else "-Xss1m")
    assert ("UNDERMINE_AGENT" in env) == (wanted != "none")
    assert ("agents/python" in env.get("PYTHONPATH", "")) == (wanted == "python")
    if wanted == "jvm":
        told = files.make(node, 1)
        assert (told["accelerator"], told["adapters"]) == (str(machine.folder), [])


def test_a_jvm_is_never_taken_for_a_python(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = AgentInfo("s1", 1, 1, "jvm/1", "OpenJDK 17", 2, executable="/nowhere/java", why_slow=accelerator.NOT_BUILT)
    asked: list[str] = []
    monkeypatch.setattr(accelerator, "ensure", asked.append)
    monkeypatch.setattr(jvm_agent, "jvm_agent_dir", lambda: machine.sources)
    table.catch_up([agent])
    assert asked == []
    assert jvm_agent.why_no_helper(agent) == accelerator.NOT_BUILT  # what the agent says itself goes first


def test_a_missing_helper_is_explained(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = AgentInfo("s1", 1, 1, "jvm/1", "OpenJDK 17", 2)
    monkeypatch.setattr(jvm_agent, "jvm_agent_dir", lambda: machine.sources)
    machine.program("cc", "#!/bin/sh\nexit 1\n")
    assert jvm_agent.why_no_helper(agent) == "it could not be compiled"
    machine.alone(monkeypatch)
    (machine.bin / "cc").unlink()
    assert jvm_agent.why_no_helper(agent) == "no C compiler (cc, gcc or clang)"
    (jvm_agent.agent_jar().parent / jvm_agent.HELPER).touch()
    assert jvm_agent.why_no_helper(agent) == ""
    jar = machine.folder / "my.jar"
    jar.touch()
    monkeypatch.setenv(jvm_agent.OVERRIDE, str(jar))
    assert jvm_agent.why_no_helper(agent) == f"there is no {jvm_agent.HELPER} beside {jar}"
    monkeypatch.setenv("UNDERMINE_ACCELERATOR", "0")
    assert jvm_agent.why_no_helper(agent) == "UNDERMINE_ACCELERATOR=0"
    assert jvm_agent.helper_dir(jar) == ""


def test_what_cannot_be_built_is_said_before_a_campaign_is_made(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jvm_agent, "jvm_agent_dir", lambda: machine.sources)
    (machine.folder / "undermine.toml").write_text(TOML.replace("AGENT", "auto"))
    (machine.folder / "hunt.py").write_text("import undermine\n\n@undermine.workload\ndef workload(s): ...\n")
    config = load(machine.folder, programs=False)
    machine.maven("exit 1")
    told: list[Notice] = []
    with pytest.raises(UserError, match="mvn ended with 1"):
        api.hunt(config, listener=told.append)
    assert [news.kind for news in told] == ["building"]
    assert not config.dir.exists()


# --- what an agent cannot do is left out


def test_what_an_agent_cannot_do_is_left_out_with_its_reason() -> None:
    kinds = ("crash", "reboot", "delay", "error", "drop", "corrupt", "partition", "pause")
    limits = FaultLimits(kinds=kinds, capabilities={"n1": OLD_CAPABILITIES}, node_roles={"n1": "server", "n2": "server"})
    points = [
        point(op, target=target)
        for op, target in (("net.send", "peer:n2"), ("file.read", "log"), ("msg.send", "m peer:n2"))
    ]
    possible_faults = possible_faults_at(limits)(points)
    left_out = {(fault_kind(possible.fault), possible.skipped) for possible in possible_faults if possible.skipped}
    assert left_out == {
        ("drop", "the agent of n1 does not offer drop"),
        ("corrupt", "the agent of n1 does not offer corrupt"),
        ("delay", "the agent of n1 does not offer delay-operation"),
    }


@pytest.mark.parametrize(
    ("fault", "word"), [(Drop(), "drop"), (Corrupt("flip"), "corrupt"), (Delay(1.0, "operation"), "delay-operation")]
)
def test_a_plan_with_what_an_agent_cannot_do_is_skipped(fault: Any, word: str) -> None:
    plan = Plan((Step(At(point("net.send", target="peer:n2")), fault),))
    assert unsupported(plan, {"n1": OLD_CAPABILITIES}) == f"the agent of n1 does not offer {word}"


# --- packaging


def test_the_wheel_has_what_the_jar_is_made_of_and_nothing_that_was_built() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    packed = {source: target for source, target in wheel["force-include"].items() if source.startswith("agents/jvm")}
    assert packed == {f"agents/jvm/{name}": f"undermine/_agents/jvm/{name}" for name in jvm_agent.SOURCES}
    for source in packed:
        assert (ROOT / source).exists(), f"{source} is to be packed and not there"
        built = [path for path in (ROOT / source).rglob("*") if path.suffix in (".class", ".jar", ".so", ".o")]
        assert built == []


def test_ci_installs_what_is_needed() -> None:
    packages = (ROOT / ".ci" / "packages").read_text()
    assert "openjdk-17-jdk-headless" in packages
    assert "maven" in packages
    assert os.access(ROOT / ".ci" / "packages", os.X_OK)
