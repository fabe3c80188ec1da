"""The JVM: programs that `java` runs. The agent is a jar that `jvm_agent.py` builds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from undermine.model.event import AgentInfo
from undermine.program.compiled import Compiled
from undermine.resources import readable_copy
from undermine.runtimes import class_path, jvm_agent, jvm_classes
from undermine.runtimes.base import WRITTEN, ClassFiles, Progress, RoleCommand, RoleSources, Traits

NO_STACKS = "no answer: its agent's thread does not get to run"


class JvmRuntime:
    """One jar serves all JVMs. It is built before the first run, so `catch_up` has nothing to do."""

    name = "jvm"
    traits = Traits(
        stacks_asked_by="state",  # a JVM agent cannot catch a signal
        no_stacks=NO_STACKS,
        clock_stack_may_be_cut=True,
        socket_timeout_limits_sends=False,  # Java sets SO_TIMEOUT, which limits receives alone
    )
    has_agent = True
    takes_adapters = False
    without_native = "has an agent without its native helper"

    def starts(self, program: str) -> bool:
        """True for `java` itself, in any folder. Scripts don't count: they may run other programs before `java`."""
        return program == "{java}" or Path(program).name == "java"

    def class_path(self, command: Sequence[str]) -> str:
        return class_path.class_path_of(command)

    def prepare(self, progress: Progress) -> None:
        jvm_agent.agent_jar(progress)

    def agent_settings(self, command: Sequence[str], copies: Path | None = None) -> dict[str, Any]:
        jar = _jar(copies)
        woven = str(copies / WRITTEN) if copies else jvm_agent.woven_dir(jar)
        return {"accelerator": jvm_agent.helper_dir(jar), "woven": woven}

    def environment(self, env: Mapping[str, str], copies: Path | None = None) -> dict[str, str]:
        name = "JAVA_TOOL_OPTIONS"
        return {**env, name: jvm_agent.tool_options(_jar(copies), env.get(name, ""))}

    def why_slow(self, agent: AgentInfo) -> str:
        return jvm_agent.why_no_helper(agent)

    def catch_up(self, agents: Iterable[AgentInfo]) -> None: ...

    def sources(self, role: RoleCommand) -> RoleSources | None:
        path = class_path.parts(role.command, role.env)
        return RoleSources(classes=ClassFiles(tuple(str(role.cwd / part) for part in path), role.packages))

    def read_classes(self, files: ClassFiles, named: Sequence[tuple[str, str]]) -> Compiled:
        return jvm_classes.read(files, named)


def _jar(copies: Path | None) -> Path:
    jar = jvm_agent.agent_jar()
    return readable_copy(jar.parent, copies, (jar.name, jvm_agent.HELPER)) / jar.name
