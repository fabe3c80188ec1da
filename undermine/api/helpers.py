"""The helpers of a campaign, which never starts a process itself: they read the target's source and build accelerators."""

from __future__ import annotations

from collections.abc import Sequence

from undermine.campaign.helpers import Helpers
from undermine.config.schema import Config
from undermine.model.run import RunView
from undermine.program import Dependence, Named, Program
from undermine.protocols import TargetProgram
from undermine.run.target_sources import Sources, target_sources
from undermine.runtimes.table import catch_up


def helpers(config: Config) -> Helpers:
    """The helpers for campaigns with this configuration."""

    def read_program(run: RunView, folders: Sequence[str], observed: Sequence[tuple[str, str]]) -> TargetProgram:
        found = sources_of(config, run)
        program = Program.read(folders or found.folders, [Named(function, op) for function, op in found.named])
        return TargetProgram(program.with_observed(observed).facts(), found.scripts, Dependence(program))

    return Helpers(read_program, catch_up)


def sources_of(config: Config, run: RunView) -> Sources:
    """The locations of the target's source, as the nodes of a run would import it."""
    return target_sources(config, run.record.nodes)
