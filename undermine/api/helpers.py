"""The helpers of a campaign, which never starts a process itself: they read the target's code and build accelerators."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from undermine.campaign.helpers import Helpers
from undermine.config.schema import Config
from undermine.model.run import RunView
from undermine.program import Compiled, Dependence, Named, Program, joined
from undermine.program.dependence import JoinedQuestions
from undermine.program.repository.changes import Changed
from undermine.protocols import TargetProgram
from undermine.run.target_sources import RoleClasses, Sources, target_sources
from undermine.runtimes.base import ClassFiles
from undermine.runtimes.table import catch_up


def helpers(config: Config, changed: Changed | None = None) -> Helpers:
    """The helpers for campaigns with this configuration."""

    def read_program(run: RunView, folders: Sequence[str], observed: Sequence[tuple[str, str]]) -> TargetProgram:
        found = sources_of(config, run)
        program = Program.read(folders or found.folders, [Named(function, op) for function, op in found.named])
        compiled = [_compiled(each, folders) for each in found.classes]
        facts = joined([program.with_observed(observed).facts(), *(each.facts(observed) for each in compiled)])
        dependence = JoinedQuestions([each.dependence() for each in compiled], Dependence(program))
        return TargetProgram(facts, found.scripts, dependence)

    return Helpers(read_program, catch_up, changed or Changed())


def _compiled(classes: RoleClasses, folders: Sequence[str]) -> Compiled:
    """The findings in the classes of a role: in jars and folders of classes that the user named, if any; else in its own."""
    given = tuple(each for each in folders if each.endswith(".jar") or next(Path(each).rglob("*.class"), None))
    files = ClassFiles(given, classes.files.packages) if given else classes.files
    return classes.runtime.read_classes(files, classes.named) if files.path else Compiled()


def sources_of(config: Config, run: RunView) -> Sources:
    """The locations of the target's source, as the nodes of a run would import it."""
    return target_sources(config, run.record.nodes)
