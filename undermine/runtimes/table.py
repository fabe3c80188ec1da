"""The table of all runtimes, and functions that look up the runtime of a program or an agent."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from undermine.model.event import AgentInfo
from undermine.runtimes.base import Runtime
from undermine.runtimes.jvm import JvmRuntime
from undermine.runtimes.none import NoRuntime
from undermine.runtimes.python import PythonRuntime

PYTHON = PythonRuntime()
"""Has its own name because workloads, which run inside the tool's own helper, are always Python."""
NONE = NoRuntime()

RUNTIMES: Mapping[str, Runtime] = {runtime.name: runtime for runtime in (JvmRuntime(), PYTHON, NONE)}
"""All runtimes by name, in the order in which `agent = "auto"` asks them. The last one serves every command."""


def runtime_for(program: str) -> Runtime:
    """The first runtime that this program starts."""
    return next(runtime for runtime in RUNTIMES.values() if runtime.starts(program))


def runtime_of(agent: AgentInfo) -> Runtime:
    """The runtime whose agent this is. Agents report names such as `python-fast/1`; an unknown name has no runtime."""
    return RUNTIMES.get(re.split("[-/]", agent.agent)[0], NONE)


def catch_up(agents: Iterable[AgentInfo]) -> None:
    """After the first run: build for each runtime what its agents turned out to need."""
    found = list(agents)
    for runtime in RUNTIMES.values():
        runtime.catch_up([agent for agent in found if runtime_of(agent) is runtime])
