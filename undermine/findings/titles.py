"""How often re-runs showed the symptom that a finding's title names: its own. Never counts runs.

A re-run with another symptom that is as bad or worse is a hit, too, so the rate of the finding may be higher.
"""

from __future__ import annotations

from undermine.findings.grouping.groups import template
from undermine.model.finding import Finding


def title_hits(finding: Finding) -> int:
    """In how many re-runs the finding's own symptom came back; if the finding doesn't say, its hits."""
    wanted = template(finding.symptom)
    return next((shown.hits for shown in finding.symptoms if template(shown.text) == wanted), finding.hits)


def title_words(finding: Finding) -> str:
    """`the symptom in the title came back in 1 of 3`; "" if its rate is that of the finding."""
    hits = title_hits(finding)
    return f"the symptom in the title came back in {hits} of {finding.tries}" if hits != finding.hits else ""
