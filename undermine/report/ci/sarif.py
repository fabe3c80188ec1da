"""SARIF 2.1.0, for code scanning: the checkers are the rules, and the reported and the suppressed findings are the results.

A finding is shown at the source line of the call at which its fault was injected. Its fingerprint depends only on its symptom and
circumstances, so a CI recognises it in the next hunt. Findings that were not reproduced are left out. Never prints.
"""

from __future__ import annotations

import hashlib
from typing import IO, Any
from urllib.parse import quote

import msgspec

from undermine.checkers.compose import rank_of
from undermine.findings.grouping.groups import template
from undermine.model.finding import Finding
from undermine.model.run import Rank
from undermine.report.ci.results import NAME_MAX, Place, Results, name_of
from undermine.report.text import clip

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
FINGERPRINT = "underminefinding/v1"
_RANKS = {
    Rank.PROMISE: "The target breaks a promise.",
    Rank.RECOVERY: "The target does not recover after a fault.",
    Rank.HANG: "A client waits forever.",
    Rank.DISAGREEMENT: "Nodes disagree for good.",
    Rank.DEATH: "A thread dies, and its node looks alive.",
    Rank.EXIT: "A node ends by itself.",
    Rank.WORKLOAD: "The workload fails.",
    Rank.GRAY: "A node reports that it is healthy while its clients wait.",
    Rank.LOGS: "A node logs an entry that correct runs do not have.",
}
_ERRORS = (Rank.PROMISE, Rank.RECOVERY, Rank.HANG, Rank.DISAGREEMENT, Rank.DEATH)
"""The ranks that are errors. The others are warnings, as their effect ends or a supervisor repairs it."""


def write(stream: IO[str], results: Results) -> None:
    """Write the whole file."""
    stream.write(msgspec.json.format(msgspec.json.encode(document(results)), indent=2).decode() + "\n")


def document(results: Results) -> dict[str, Any]:
    shown = [finding for finding in results.findings if finding in results.failing or finding.suppressed]
    rules = {_rule_id(finding): _rule(finding) for finding in shown}
    numbers = {name: number for number, name in enumerate(rules)}
    driver = {"name": "Undermine", "rules": list(rules.values())}
    if results.version:
        driver["version"] = results.version
    run = {
        "tool": {"driver": driver},
        "automationDetails": {"id": f"undermine/{clip(results.name, NAME_MAX)}/"},
        "invocations": [{"executionSuccessful": True}],
        "columnKind": "unicodeCodePoints",
        "results": [_result(results, finding, numbers[_rule_id(finding)]) for finding in shown],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule_id(finding: Finding) -> str:
    verdict = finding.main_verdict
    return clip(verdict.checker if verdict else "", NAME_MAX) or "undermine"


def _rank(finding: Finding) -> Rank:
    verdict = finding.main_verdict
    return rank_of(verdict) if verdict else Rank.PROMISE


def _level(rank: Rank) -> str:
    return "error" if rank in _ERRORS else "warning"


def _rule(finding: Finding) -> dict[str, Any]:
    rank = _rank(finding)
    return {
        "id": _rule_id(finding),
        "shortDescription": {"text": _RANKS[rank]},
        "defaultConfiguration": {"level": _level(rank)},
        "properties": {"rank": rank.value},
    }


def _result(results: Results, finding: Finding, rule: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        "ruleId": _rule_id(finding),
        "ruleIndex": rule,
        "level": _level(_rank(finding)),
        "message": {"text": f"{results.title(finding)}\n\n{results.text(finding)}"},
        "locations": [_location(results, finding)],
        "partialFingerprints": {FINGERPRINT: fingerprint(finding)},
        "occurrenceCount": max(1, len(finding.runs)),
        "properties": {"finding": finding.id, "name": name_of(finding), "rate": finding.rate},
    }
    if finding.suppressed:
        justification = clip(finding.suppressed, NAME_MAX)
        found["suppressions"] = [{"kind": "external", "status": "accepted", "justification": justification}]
    return found


def fingerprint(finding: Finding) -> str:
    """The same in every hunt: numbers, paths and quoted texts of the symptom are left out."""
    return hashlib.blake2b(template(finding.name).encode(errors="replace"), digest_size=16).hexdigest()


def _location(results: Results, finding: Finding) -> dict[str, Any]:
    site = results.site(finding)
    location: dict[str, Any] = {"physicalLocation": _physical(results.place(finding))}
    if site.function:
        module, _, name = site.function.rpartition(":")
        logical = {"name": clip(name or module, NAME_MAX), "fullyQualifiedName": clip(site.function, NAME_MAX)}
        location["logicalLocations"] = [{**logical, "kind": "function"}]
    return location


def _physical(place: Place) -> dict[str, Any]:
    return {"artifactLocation": {"uri": quote(place.file, errors="replace")}, "region": {"startLine": max(1, place.line)}}
