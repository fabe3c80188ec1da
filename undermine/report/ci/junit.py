"""JUnit XML, as Jenkins, GitLab and others read it. One test case for each finding: it fails, or it is skipped with the reason.

A test case keeps its name from hunt to hunt, so that a CI can show since when it fails. Each strategy that ran and showed no bug
is a case that passes, so a clean hunt is not an empty file. Notes are skipped cases. Never prints.
"""

from __future__ import annotations

import io
from typing import IO
from xml.etree import ElementTree as ET

from undermine.findings.explaining import own_verdict
from undermine.model.finding import Finding
from undermine.report.ci.results import NAME_MAX, Results, fails, name_of, why_not
from undermine.report.text import clip, count


def write(stream: IO[str], results: Results) -> None:
    """Write the whole file."""
    suite = ET.Element("testsuite", name=clip(f"undermine {results.name}", NAME_MAX))
    properties = ET.SubElement(suite, "properties")
    for name, value in (("campaign", results.campaign), ("undermine", results.version), *_coverage(results)):
        ET.SubElement(properties, "property", name=name, value=clip(value, NAME_MAX))
    for finding in results.findings:
        _add_finding(suite, results, finding)
    for note, runs in results.notes:
        case = _case(suite, results, "notes", clip(note, NAME_MAX))
        ET.SubElement(case, "skipped", message=f"noted in {count(len(runs), 'run')}; not a bug")
    failed = {strategy for finding in results.failing for strategy in finding.strategies}
    for strategy, experiments in results.strategies.items():
        if strategy not in failed:
            case = _case(suite, results, "strategies", clip(strategy, NAME_MAX))
            ET.SubElement(case, "system-out").text = count(experiments, "experiment")
    _count(suite, results)
    root = ET.Element("testsuites", suite.attrib)
    root.append(suite)
    ET.indent(root)
    data = io.BytesIO()
    ET.ElementTree(root).write(data, encoding="utf-8", xml_declaration=True)
    stream.write(data.getvalue().decode() + "\n")


def _coverage(results: Results) -> list[tuple[str, str]]:
    reached = results.coverage
    return [
        ("experiments", str(reached.runs)),
        ("locations", f"{reached.locations_fired} of {reached.locations}"),
        ("points", f"{reached.points_fired} of {reached.points}"),
    ]


def _add_finding(suite: ET.Element, results: Results, finding: Finding) -> None:
    case = _case(suite, results, "findings", name_of(finding), results.seconds.get(finding.id, 0.0))
    place = results.place(finding)
    case.set("file", clip(place.file, NAME_MAX))
    case.set("line", str(place.line))
    if fails(finding):
        verdict = own_verdict(finding)
        kind = clip(verdict.checker if verdict else "", 100) or "undermine"
        failure = ET.SubElement(case, "failure", message=results.title(finding), type=kind)
        failure.text = f"{finding.id} {results.title(finding)}\n{results.text(finding)}\n"
    else:
        ET.SubElement(case, "skipped", message=why_not(finding))
        ET.SubElement(case, "system-out").text = f"{finding.id} {results.title(finding)}\n{results.text(finding)}\n"


def _case(suite: ET.Element, results: Results, part: str, name: str, seconds: float = 0.0) -> ET.Element:
    classname = f"undermine.{clip(results.name, 100)}.{part}"
    return ET.SubElement(suite, "testcase", classname=classname, name=name, time=f"{seconds:.3f}")


def _count(suite: ET.Element, results: Results) -> None:
    cases = suite.findall("testcase")
    suite.set("tests", str(len(cases)))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("errors", "0")
    suite.set("skipped", str(len(suite.findall("testcase/skipped"))))
    suite.set("time", f"{results.duration_s:.3f}")
