"""The protocol that every runtime implements, and the facts about a runtime that other parts of the tool ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from undermine.model.event import AgentInfo
from undermine.program.compiled import Compiled

WRITTEN = "written"
"""The folder for files that agents cache, beside copies of their own files."""
Progress = Callable[[str], None]
"""A function that shows a line of text when something slow begins or ends."""


def no_progress(text: str) -> None:
    """Ignore the text."""


class Traits(msgspec.Struct, frozen=True):
    """How processes of a runtime behave. Code outside this room asks for a trait, never for a runtime's name."""

    stacks_asked_by: Literal["signal", "state"] = "signal"
    """How the tool asks an agent for its stacks: by a signal, or by a number in the shared state."""
    no_stacks: str = "no answer: its agent does not get to run"
    """Why a process that was asked for its stacks may not answer, if nothing else explains it."""
    clock_stack_may_be_cut: bool = False
    """The stack of a clock read may hold only its call site, without the callers."""
    socket_timeout_limits_sends: bool = True
    """The time limit of a socket applies to sends as well as to receives."""
    call_sites_vary_by_release: bool = False
    """Another release of the runtime may number the call sites of a function differently."""


class RoleCommand(msgspec.Struct, frozen=True):
    """How the nodes of a role are started, with all placeholders filled in."""

    command: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    packages: tuple[str, ...] = ()
    """The packages whose code counts as the target's own."""
    paths: tuple[Path, ...] = ()
    """More folders and files that count as the target's own."""


class ClassFiles(msgspec.Struct, frozen=True):
    """The compiled classes of a role."""

    path: tuple[str, ...]
    """Jars, folders, and `FOLDER/*` for all jars of a folder, in the order in which classes are looked up; empty if the command
    doesn't name them."""
    packages: tuple[str, ...] = ()
    """The packages that count as the target's own; empty: all of it."""


class RoleSources(msgspec.Struct, frozen=True):
    """Where the code of a role is."""

    folders: tuple[str, ...] = ()
    """Files and folders of source code."""
    script: str = ""
    """The name of the module that is run as a script; "" if none is."""
    classes: ClassFiles | None = None
    """For a runtime whose compiled code the tool reads (`read_classes`)."""


@runtime_checkable
class Runtime(Protocol):
    """One kind of agent: Python, JVM, or none at all."""

    @property
    def name(self) -> str:
        """The name that users write in `agent = "…"`, and that the names of its agents begin with."""

    @property
    def traits(self) -> Traits: ...

    @property
    def has_agent(self) -> bool:
        """False if its nodes are not observed; then only faults of whole processes are possible."""

    @property
    def takes_adapters(self) -> bool:
        """Can its agent load adapters?"""

    @property
    def without_native(self) -> str:
        """The words after the node's name with which `undermine check` reports an agent without its compiled part."""

    def starts(self, program: str) -> bool:
        """Return whether a command with this program starts this runtime. `agent = "auto"` asks this."""

    def class_path(self, command: Sequence[str]) -> str:
        """The class path that this command names; "" if it names none, or the runtime has no class paths."""

    def prepare(self, progress: Progress) -> None:
        """Build what all nodes need, if that may take long. Called once before the first run."""

    def agent_settings(self, command: Sequence[str], copies: Path | None = None) -> dict[str, Any]:
        """The part of an agent's configuration file that depends on the runtime. Builds what this command needs. If nodes run
        as another user than the tool, `copies` is a folder for copies of the files that they read. Its folder WRITTEN is for
        files that they write."""

    def environment(self, env: Mapping[str, str], copies: Path | None = None) -> dict[str, str]:
        """A copy of this environment, with the variables that make a process load the agent. `copies` is as above."""

    def why_slow(self, agent: AgentInfo) -> str:
        """Why this agent ran without its compiled part; "" if it had it."""

    def catch_up(self, agents: Iterable[AgentInfo]) -> None:
        """Build what agents of the first run turned out to need."""

    def sources(self, role: RoleCommand) -> RoleSources | None:
        """Where the code of this role is; None if the tool cannot read code of this runtime."""

    def read_classes(self, files: ClassFiles, named: Sequence[tuple[str, str]]) -> Compiled:
        """The findings in compiled classes. `named` has the functions that the user declared as operations, each with its
        `op`. Called only for files that `sources` returned."""
