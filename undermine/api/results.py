"""Collects the results of a campaign for the files that a CI reads. Never starts a run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from undermine.analysis.coverage import coverage_of
from undermine.api.stored import findings as stored_findings
from undermine.api.stored import shown_by
from undermine.config.schema import Config
from undermine.model.errors import UserError
from undermine.model.finding import Finding, landings
from undermine.model.plan import final_at
from undermine.model.point import Point
from undermine.program.repository.files import line_of
from undermine.program.repository.sources import Sources
from undermine.report import data
from undermine.report.ci.results import Place, Results, Site
from undermine.report.explain.story import explanations_of
from undermine.report.head import head_of
from undermine.store.campaign_dirs import campaign_dir, open_store
from undermine.store.database import CampaignStore
from undermine.store.rundir import RunDir, load_record


def results(config: Config, campaign: str = "", baseline: Path | None = None, options: str = "") -> Results:
    """The results of a campaign. `options` are the command-line options with which a later command finds it."""
    folder = campaign_dir(config, campaign)
    found = stored_findings(config, campaign, baseline)
    with open_store(folder) as store:
        rows = store.run_rows()
        head = head_of(store, rows, found)
        took = {row["run"]: float(row["timing"].get("total_s", 0.0)) for row in rows}
        coverage = coverage_of(store).reached
        places = _Places(config, store)
        return Results(
            name=head.name,
            campaign=head.campaign,
            findings=tuple(data.ranked(found)),
            home=places.home,
            sites={finding.id: places.site(finding) for finding in found},
            explanations=explanations_of(store, found),
            seconds={finding.id: took.get(shown_by(finding), 0.0) for finding in found},
            strategies={name: share.runs for name, share in coverage.by_strategy.items()},
            notes=store.notes(),
            coverage=coverage,
            duration_s=sum(took.values()),
            version=head.version,
            options=options,
        )


class _Places:
    """Finds source lines in the user's repository."""

    def __init__(self, config: Config, store: CampaignStore) -> None:
        self._store = store
        self._sources = Sources(Path(config.project), {name: role.command for name, role in config.roles.items()})
        self.home = Place(self._sources.name_of(Path(config.path)) or Path(config.path).name)

    def site(self, finding: Finding) -> Site:
        """The call site of the last fault, or the innermost of its callers that the repository has."""
        for point in self._points(finding):
            function = point.get("loc").partition("#")[0]
            if ":" not in function:  # an operation of a client, or none at all
                continue
            seen = self._store.first_seen(point)
            if seen and seen.line and (file := self._file(function, point)):
                return Site(function, Place(file[0], seen.line))
            callers = self._store.frames(point)
            return Site(function, next(self._beginnings((function, *callers), point), None))
        return Site()

    def _points(self, finding: Finding) -> Iterator[Point]:
        """Where the steps of the finding fired, or would fire, the last one first."""
        with contextlib.suppress(UserError):  # its folder is gone
            record = load_record(RunDir(self._store.runs_dir / f"{shown_by(finding):06d}"))
            yield from (point for _, point in reversed(landings(record)))
        for step in reversed(finding.plan.steps):
            if at := final_at(step.trigger):
                yield at.point

    def _beginnings(self, functions: tuple[str, ...], point: Point) -> Iterator[Place]:
        """The lines in which these functions begin, as far as the repository has them."""
        for function in functions:
            if file := self._file(function, point):
                yield Place(file[0], line_of(self._sources.text_of(file[1]), function.partition(":")[2]) or 1)

    def _file(self, function: str, point: Point) -> tuple[str, Path] | None:
        """The source file of a function, and its name in the repository."""
        path = next(iter(self._sources.files_of(function, point.get("role"))), None)
        name = self._sources.name_of(path) if path else ""
        return (name, path) if path and name else None
