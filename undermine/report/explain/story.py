"""Collects what explains a finding: its title and sentence, and the source lines of the sites. Only reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from undermine.findings.explaining import Explanation, explained
from undermine.model.columns import Columns
from undermine.model.errors import UserError
from undermine.model.event import Event
from undermine.model.finding import Finding
from undermine.model.plan import Step, place_of
from undermine.model.point import CLIENT
from undermine.model.run import RunRecord, RunView
from undermine.program.repository.sources import Sources
from undermine.report.data import run_dir, sources_of
from undermine.report.explain.source import Excerpt, Place, excerpts
from undermine.store.database import CampaignStore
from undermine.store.rundir import load_record

_CALLERS_MAX = 3


def explanations_of(store: CampaignStore, findings: Iterable[Finding]) -> dict[str, Explanation]:
    """By id: each finding in words, by the record of the run that shows it best."""
    sources = sources_of(store)
    return {finding.id: explained(finding, record_of(store, finding), sources.line_of, store.frames) for finding in findings}


def record_of(store: CampaignStore, finding: Finding) -> RunRecord | None:
    """The record of the run that shows the finding best; None if it can't be read."""
    try:
        return load_record(run_dir(store, finding.shown_by or finding.runs[0]))
    except (UserError, IndexError):
        return None


def excerpts_of(sources: Sources, finding: Finding, view: RunView | None, columns: Columns) -> tuple[Excerpt, ...]:
    """The source lines at the bounds of the window, at the operations that the faults hit, and at their callers."""
    struck = struck_by(view, columns) if view else []
    return excerpts(sources, (*_bounds(sources, finding), *_sites(sources, struck)))


def struck_by(view: RunView, columns: Columns) -> list[tuple[Step, Event]]:
    """The steps of a run that fired at operations of nodes, with these operations."""
    found: dict[int, Event] = {}
    for moment in view.record.moments:
        if moment.step in found or moment.node == CLIENT or not 0 <= moment.step < len(view.plan.steps):
            continue
        events = columns.events(np.flatnonzero(columns.seq == moment.seq))
        same = [event for event in events if (event.node, event.pid) == (moment.node, moment.pid)]
        if same:
            found[moment.step] = same[-1]
    return [(view.plan.steps[step], event) for step, event in sorted(found.items())]


def _bounds(sources: Sources, finding: Finding) -> Iterator[Place]:
    """The lines of the window's sites; of the operations themselves, if only those are known."""
    if window := finding.window:
        marks = ("the window opens here", "the window closes here")
        for bound, site, mark in zip((window.opens, window.closes), window.sites, marks, strict=True):
            if bound:
                own, role = bound.point.get("loc"), bound.point.get("role")
                if site != own and sources.line_of(site, role):
                    yield Place(site, 0, mark, role)
                else:
                    yield Place(own, bound.line, mark, role)


def _sites(sources: Sources, struck: Iterable[tuple[Step, Event]]) -> Iterator[Place]:
    """The operations at which the faults fired, and their callers in the project."""
    for step, event in struck:
        yield Place(event.loc, event.line, f"the fault was injected {place_of(step.trigger)} this operation", event.role)
        for site in [loc for loc in event.stack[1:] if sources.line_of(loc, event.role)][:_CALLERS_MAX]:
            yield Place(site, 0, "called here", event.role)
