"""How often re-runs showed the symptom that gave a finding its title. Never counts runs.

The title is the worst verdict of the run that shows the finding best. A re-run with milder symptoms is a hit too, so the rate of
the finding may be higher than that of its title.
"""

from __future__ import annotations

from undermine.checkers.compose import name_of
from undermine.findings.grouping.groups import template
from undermine.model.finding import Finding


def title_hits(finding: Finding) -> int:
    """In how many re-runs the symptom of the title came back; if the finding doesn't say, its own hits."""
    verdict = finding.main_verdict
    wanted = template(name_of(verdict) if verdict else finding.title)
    return next((shown.hits for shown in finding.symptoms if template(shown.text) == wanted), finding.hits)


def title_words(finding: Finding) -> str:
    """`the symptom in the title came back in 1 of 3`; "" if its rate is that of the finding."""
    hits = title_hits(finding)
    return f"the symptom in the title came back in {hits} of {finding.tries}" if hits != finding.hits else ""
