"""Every runtime of the table is complete. A new runtime that lacks something fails here, and the message says what."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import get_args

import pytest

from undermine.cli.init import BLANK
from undermine.config.schema import FILE_NAME, Agent
from undermine.model.event import AgentInfo
from undermine.resources import templates_dir
from undermine.runtimes import accelerator, jvm_agent
from undermine.runtimes.base import ClassFiles, RoleCommand, RoleSources, Runtime, Traits
from undermine.runtimes.table import NONE, RUNTIMES, catch_up, runtime_for, runtime_of

PROJECT = Path(__file__).resolve().parents[2]
COMMANDS = {
    "python": (sys.executable, "-m", "app"),
    "jvm": ("java", "-cp", "app.jar", "app.Main"),
    "none": ("redis-server",),
}
"""For each runtime a command that starts it."""


def names(protocol: type) -> set[str]:
    return {name for name in vars(protocol) if not name.startswith("_")}


@pytest.fixture(params=RUNTIMES)
def runtime(request: pytest.FixtureRequest) -> Runtime:
    return RUNTIMES[request.param]


@pytest.fixture(autouse=True)
def nothing_is_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A jar that is there already, and no accelerator."""
    jar = tmp_path / "agent.jar"
    jar.touch()
    monkeypatch.setenv(jvm_agent.OVERRIDE, str(jar))
    monkeypatch.setenv("UNDERMINE_ACCELERATOR", "0")


def agent_of(runtime: Runtime, **more: str) -> AgentInfo:
    return AgentInfo("n1", 1, 1, f"{runtime.name}-x/1", "", 2, **more)


# --- the protocol


def test_a_runtime_has_all_parts_of_the_protocol_and_no_public_others(runtime: Runtime) -> None:
    assert isinstance(runtime, Runtime), f"{runtime.name} lacks {names(Runtime) - set(dir(runtime))}"
    assert {name for name in dir(runtime) if not name.startswith("_")} == names(Runtime)
    for name, method in inspect.getmembers(Runtime, inspect.isfunction):
        if not name.startswith("_"):
            own = inspect.signature(getattr(type(runtime), name))
            assert list(own.parameters) == list(inspect.signature(method).parameters), name


def test_a_runtime_that_lacks_a_part_is_not_accepted() -> None:
    class Half:
        name = "half"

        def starts(self, program: str) -> bool:
            return False

    assert not isinstance(Half(), Runtime)


def test_the_table_is_keyed_by_name_and_its_last_entry_serves_every_command() -> None:
    assert all(name == runtime.name for name, runtime in RUNTIMES.items())
    assert list(RUNTIMES.values())[-1] is NONE


# --- where users meet it


def test_users_can_choose_it(runtime: Runtime) -> None:
    assert runtime.name in get_args(Agent), f"config/schema.py: Agent lacks {runtime.name}"
    template = (templates_dir() / BLANK / FILE_NAME).read_text()
    assert f'"{runtime.name}"' in template, f"the file that `undermine init` writes does not name {runtime.name}"
    row = re.search(r"^\| `agent` .*$", (PROJECT / "docs" / "configuration.md").read_text(), re.MULTILINE)
    assert row
    assert f'"{runtime.name}"' in row[0], f"docs/configuration.md does not name {runtime.name}"


def test_users_cannot_choose_what_is_not_there() -> None:
    assert set(get_args(Agent)) == {"auto", *RUNTIMES}


def test_its_agent_is_documented_and_passes_the_conformance_suite(runtime: Runtime) -> None:
    if not runtime.has_agent:
        pytest.skip("it has no agent")
    assert (PROJECT / "docs" / f"agents-{runtime.name}.md").is_file()
    suite = (PROJECT / "tests" / "conformance" / "conftest.py").read_text()
    assert re.search(rf'^KINDS = .*"{runtime.name}\b', suite, re.MULTILINE), f"the suite does not run for {runtime.name}"


def test_what_check_says_of_an_agent_without_its_compiled_part(runtime: Runtime) -> None:
    assert bool(runtime.without_native) == runtime.has_agent
    why = runtime.why_slow(agent_of(runtime, why_slow="the reason"))
    assert why == ("UNDERMINE_ACCELERATOR=0" if runtime.has_agent else "the reason")


# --- starting nodes


def test_auto_finds_it_by_its_command(runtime: Runtime) -> None:
    assert runtime.name in COMMANDS, f"add a command that starts {runtime.name} to this test"
    assert runtime_for(COMMANDS[runtime.name][0]) is runtime


def test_its_agent_is_loaded_by_the_environment_alone(runtime: Runtime) -> None:
    given = {"PATH": "/bin", "PYTHONPATH": "/mine", "JAVA_TOOL_OPTIONS": "-Xss1m"}
    made = runtime.environment(given)
    changed = {name for name in made if made[name] != given.get(name)}
    assert bool(changed) == runtime.has_agent
    assert set(given) <= set(made)
    for name in changed & set(given):
        assert given[name] in made[name], f"what the user has in {name} is lost"
    assert given == {"PATH": "/bin", "PYTHONPATH": "/mine", "JAVA_TOOL_OPTIONS": "-Xss1m"}, "the given one is not changed"


def test_its_agent_is_told_where_its_compiled_part_is(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNDERMINE_ACCELERATOR")
    monkeypatch.setattr(accelerator, "prepare", lambda command: Path("/built"))
    told = runtime.agent_settings(COMMANDS[runtime.name])
    assert bool(told.get("accelerator")) == runtime.has_agent
    assert all(isinstance(value, str) for value in told.values())


def test_preparing_twice_is_harmless(runtime: Runtime) -> None:
    said: list[str] = []
    runtime.prepare(said.append)
    runtime.prepare(said.append)
    assert said == [], "nothing had to be built"


# --- reading traces


def test_its_agents_are_known_by_their_names(runtime: Runtime) -> None:
    assert runtime_of(agent_of(runtime)) is runtime
    assert isinstance(runtime.traits, Traits)


@pytest.mark.parametrize("name", ["", "fake", "pythonic/1", "jvmlike"])
def test_unknown_agents_have_no_runtime(name: str) -> None:
    assert runtime_of(AgentInfo("n1", 1, 1, name, "", 2)) is NONE


def test_only_agents_of_its_own_are_given_to_a_runtime_to_catch_up_with(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(accelerator, "ensure", asked.append)
    why = accelerator.NOT_BUILT
    catch_up([agent_of(runtime, executable=sys.executable, why_slow=why) for runtime in RUNTIMES.values()])
    assert asked == [sys.executable]


def test_the_tool_runs_no_program_that_only_an_agent_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node could report any program as its interpreter, also one that is called like one or is on the PATH."""
    monkeypatch.delenv("UNDERMINE_ACCELERATOR", raising=False)
    ran = tmp_path / "ran"
    forged = tmp_path / "python3"
    forged.write_text(f"#!/bin/sh\ntouch {ran}\n")
    forged.chmod(0o755)
    for name in (str(forged), "/bin/sh"):
        agent = agent_of(RUNTIMES["python"], executable=name, why_slow=accelerator.NOT_BUILT)
        catch_up([agent])
        assert "not on the PATH" in RUNTIMES["python"].why_slow(agent)
    assert not ran.exists()


def test_it_says_where_its_source_is_or_that_it_cannot(runtime: Runtime, tmp_path: Path) -> None:
    (tmp_path / "app.py").touch()
    role = RoleCommand(COMMANDS[runtime.name], tmp_path, {}, ("app",))
    found = runtime.sources(role)
    source = RoleSources((str(tmp_path / "app.py"),))
    classes = RoleSources(classes=ClassFiles((str(tmp_path / "app.jar"),), ("app",)))
    assert found == {"python": source, "jvm": classes}.get(runtime.name)
