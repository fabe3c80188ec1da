"""Results made by hand, with friendly and with hostile texts."""

from __future__ import annotations

from typing import Any

from undermine.findings.explaining import Explanation
from undermine.model.faults import Crash
from undermine.model.finding import Finding, Realism
from undermine.model.plan import At, Plan, Step
from undermine.model.run import Verdict
from undermine.report.ci.results import Place, Results, Site
from undermine.testing import point

HOSTILE = "%0A,: \u202e \x1b[2J\x1b]0;x\x07\x00\ud800\ufffe]]><x>&\r\n::error file=x::owned\n##[error]x | `a` [l](http://x) @a"
"""A text of a target that means something to a terminal, to XML, to GitHub and to Markdown."""


TOLD = {"F1": Explanation("Acknowledged put lost if a node is killed", "n1 was killed; then: k1 is gone")}


def finding(number: int = 1, **more: Any) -> Finding:
    fields: dict[str, Any] = {
        "id": f"F{number}",
        "symptom": "acknowledged put lost",
        "title": "k1 was acknowledged and is gone",
        "plan": Plan((Step(At(point()), Crash()),)),
        "runs": (4, 5),
        "strategies": ("sieve",),
        "verdicts": (Verdict("fail", "k1 was acknowledged and is gone", "acknowledged put lost", ("k1 = none",), "ledger"),),
        "tries": 3,
        "hits": 3,
        "control_tries": 3,
    }
    return Finding(**{**fields, **more})


def hostile() -> Finding:
    verdict = Verdict("fail", HOSTILE, HOSTILE, (HOSTILE, "x" * 5000), HOSTILE)
    encodable = HOSTILE.replace("\ud800", "")
    plan = Plan((Step(At(point(target=encodable, loc=f"{encodable}:f#1")), Crash()),))
    return finding(9, symptom=HOSTILE, title=HOSTILE, verdicts=(verdict,), plan=plan, when=HOSTILE, strategies=(HOSTILE,))


def every_kind() -> tuple[Finding, ...]:
    """One finding of each kind."""
    return (
        finding(1),
        finding(2, symptom="worker hangs", undecided=True, hits=0, tries=1),
        finding(3, symptom="suppressed one", suppressed="until 2027-01-31: issue 12"),
        finding(4, symptom="flaky one", control_hits=1),
        finding(5, symptom="lucky one", hits=0),
        finding(6, symptom="unreal one", realism=Realism("dropped", "the write took 0.1 s")),
    )


def results(*findings: Finding, **more: Any) -> Results:
    fields: dict[str, Any] = {
        "name": "granary",
        "campaign": "2026-11-18-120000",
        "findings": findings,
        "home": Place("undermine.toml"),
        "sites": {"F1": Site("app:write", Place("src/app.py", 42)), "F9": Site(f"{HOSTILE}:f", Place(HOSTILE, 7))},
        "explanations": {"F9": Explanation(HOSTILE, HOSTILE, HOSTILE)},
        "strategies": {"sieve": 4, "random": 2},
        "notes": [("worker ends and is started again", [3, 8])],
        "version": "0.1.0",
    }
    return Results(**{**fields, **more})
