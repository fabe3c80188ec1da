"""Nodes without an agent: any program at all. They can be killed, frozen and cut off, but not observed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from undermine.model.event import AgentInfo
from undermine.program.compiled import Compiled
from undermine.runtimes.base import ClassFiles, Progress, RoleCommand, RoleSources, Traits


class NoRuntime:
    """Accepts every command and leaves it unchanged."""

    name = "none"
    traits = Traits()
    has_agent = False
    takes_adapters = False
    without_native = ""

    def starts(self, program: str) -> bool:
        return True

    def class_path(self, command: Sequence[str]) -> str:
        return ""

    def prepare(self, progress: Progress) -> None: ...

    def agent_settings(self, command: Sequence[str], copies: Path | None = None) -> dict[str, Any]:
        return {}

    def environment(self, env: Mapping[str, str], copies: Path | None = None) -> dict[str, str]:
        return dict(env)

    def why_slow(self, agent: AgentInfo) -> str:
        return agent.why_slow

    def catch_up(self, agents: Iterable[AgentInfo]) -> None: ...

    def sources(self, role: RoleCommand) -> RoleSources | None:
        return None

    def read_classes(self, files: ClassFiles, named: Sequence[tuple[str, str]]) -> Compiled:
        return Compiled()
