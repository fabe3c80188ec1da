"""Results: everything that the files for a CI say about a campaign. Texts of the target are in it as they are."""

from __future__ import annotations

import msgspec

from undermine.analysis.coverage import Reached
from undermine.findings.explaining import Explanation, own_verdict
from undermine.model.finding import Finding
from undermine.report.finding_lines import doubt_words, finding_lines
from undermine.report.text import clean, clip, one_line

NAME_MAX = 300
"""The most characters of a finding's name."""
_EVIDENCE_LINES_MAX = 15
_LINE_MAX = 1000
_TEXT_MAX = 12_000


class Place(msgspec.Struct, frozen=True):
    """A line of a file. The file's name is relative to the repository."""

    file: str
    line: int = 1


class Site(msgspec.Struct, frozen=True):
    """Where a finding's last fault was injected: the call site, and its source line if the repository has it."""

    function: str = ""
    """`module:qualname`; "" if the fault belongs to no operation of the target's code."""
    place: Place | None = None


class Results(msgspec.Struct, frozen=True):
    """The results of a campaign."""

    name: str
    """The name of the system under test."""
    campaign: str
    findings: tuple[Finding, ...]
    """The worst first."""
    home: Place
    """The place of findings without a source line: the configuration."""
    sites: dict[str, Site] = {}
    """By finding id."""
    explanations: dict[str, Explanation] = {}
    """By finding id: what happened, in words."""
    seconds: dict[str, float] = {}
    """By finding id: how long the run takes that shows it best."""
    strategies: dict[str, int] = {}
    """By strategy: its experiments."""
    notes: list[tuple[str, list[int]]] = []
    coverage: Reached = Reached()
    duration_s: float = 0.0
    """The time of all runs together."""
    version: str = ""
    options: str = ""
    """The options with which a later command finds this campaign."""

    @property
    def failing(self) -> tuple[Finding, ...]:
        """The findings for which a CI job fails, as `undermine report` does."""
        return tuple(finding for finding in self.findings if fails(finding))

    @property
    def suppressed(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.suppressed)

    def site(self, finding: Finding) -> Site:
        return self.sites.get(finding.id, Site())

    def place(self, finding: Finding) -> Place:
        """The source line to show the finding at."""
        return self.site(finding).place or self.home

    def title(self, finding: Finding) -> str:
        """The title that a maintainer would give the issue; without one, the text of the verdict with the finding's symptom."""
        if explanation := self.explanations.get(finding.id):
            return clip(explanation.title, NAME_MAX)
        own = own_verdict(finding)
        return clip((own.text if own else finding.title) or finding.name, NAME_MAX)

    def replay_command(self, finding: Finding) -> str:
        return f"undermine replay {finding.id}{self.options}"

    def text(self, finding: Finding) -> str:
        """The finding in lines of cleaned text, with the command that replays it."""
        explanation = self.explanations.get(finding.id)
        lines = [("happened", explanation.sentence)] if explanation else []
        lines += [*finding_lines(finding, evidence_max=_EVIDENCE_LINES_MAX), ("replay", self.replay_command(finding))]
        return clean("\n".join(f"{name:<9} {one_line(text, _LINE_MAX)}" for name, text in lines), _TEXT_MAX)


def fails(finding: Finding) -> bool:
    """Is it reported as a bug, or still to be confirmed?"""
    return finding.believed or finding.undecided


def name_of(finding: Finding) -> str:
    """The name that the finding keeps from hunt to hunt. Numbers like F1 change, so they aren't part of it."""
    return clip(finding.name or finding.title, NAME_MAX)


def why_not(finding: Finding) -> str:
    """Why the finding isn't reported as a bug, in one line; "" if it is."""
    if fails(finding):
        return ""
    if finding.suppressed:
        return clip(f"suppressed {finding.suppressed}", NAME_MAX)
    if finding.dropped:
        return clip(f"dropped, since no slow device causes the delay: {finding.realism.text}", NAME_MAX)
    return doubt_words(finding)
