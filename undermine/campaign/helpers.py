"""The types of the helpers that a campaign calls for work that needs a process or the target's files. Does none of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from undermine.model.event import AgentInfo
from undermine.model.run import RunView
from undermine.program.repository.changes import Changed
from undermine.protocols import TargetProgram, no_program

ReadProgram = Callable[[RunView, Sequence[str], Sequence[tuple[str, str]]], TargetProgram]
"""Reads the source of the target. The arguments are a fault-free run that shows the nodes' interpreters, the files and folders
that the user named (if any), and the calls that runs have shown, as pairs of caller and callee."""

CatchUp = Callable[[Sequence[AgentInfo]], None]
"""Builds the accelerator for interpreters that only the first run showed."""


def _no_program(run: RunView, folders: Sequence[str], observed: Sequence[tuple[str, str]]) -> TargetProgram:
    return no_program(folders)


def no_catch_up(agents: Sequence[AgentInfo]) -> None:
    pass


class Helpers(msgspec.Struct, frozen=True):
    """The helpers of one campaign; by default they do nothing."""

    read_program: ReadProgram = _no_program
    catch_up: CatchUp = no_catch_up
    changed: Changed = Changed()
    """The functions in which faults are tried first."""
