"""The short list of findings, for people and for machines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from rich.console import Console

from undermine.cli.console import console, plain
from undermine.findings.group import template
from undermine.model.finding import Finding
from undermine.report.text import count

EVIDENCE_LINES_MAX = 4
_NEW_LINES_MAX = 3
_VARIANTS_SHOWN = 3


def show_findings(
    findings: Sequence[Finding],
    options: str = "",
    remarks: Mapping[str, str] | None = None,
    new_logs: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """The short list, the most certain first; `options` is what later commands need to find this campaign. By id: what
    else there is to say of a finding, and log lines that no correct run has."""
    out = console()
    if not findings:
        out.print("[green]no findings[/green]")
    for finding in sorted(findings, key=_doubt):
        if finding.dropped and not finding.suppressed:
            continue
        if finding.suppressed:
            out.print(
                f"\n[dim]{finding.id} {plain(finding.title)}\n   suppressed {plain(finding.suppressed)}[/dim]",
                soft_wrap=True,
            )
            continue
        doubt = f" [yellow]({words})[/yellow]" if (words := _doubt_words(finding)) else ""
        out.print(f"\n[bold red]{finding.id}[/bold red] {plain(finding.title)}{doubt}")
        if remark := (remarks or {}).get(finding.id):
            out.print(f"   note      {plain(remark)}")
        for name, text in _finding_lines(finding):
            out.print(f"   {name:<9} {plain(text)}")
        for line in (new_logs or {}).get(finding.id, ())[:_NEW_LINES_MAX]:
            out.print(f"   new log   {plain(line)}")
        for command in ("replay", "bundle"):
            out.print(f"   {command:<9} undermine {command} {finding.id}{plain(options)}")
    _show_unreal(out, [finding for finding in findings if finding.dropped and not finding.suppressed], options)


def _show_unreal(out: Console, findings: Sequence[Finding], options: str) -> None:
    if findings:
        out.print("\n[bold]dropped[/bold]: no slow device causes these delays, so they are no bugs")
    for finding in findings:
        out.print(f"\n[bold]{finding.id}[/bold] {plain(finding.title)}")
        for name, text in (
            ("injected", str(finding.plan)),
            ("again", rate_words(finding)),
            ("reason", finding.realism.text),
            ("replay", f"undermine replay {finding.id}{options}"),
        ):
            out.print(f"   {name:<9} {plain(text)}")


def _doubt(finding: Finding) -> int:
    """0 for what is believed and was reproduced; the less there is to it, the more."""
    if finding.suppressed:
        return 4
    return 3 if finding.flaky else 0 if finding.confirmed else 1 if finding.believed else 2


def _doubt_words(finding: Finding) -> str:
    if finding.flaky:
        return "flaky: it fails without the fault too"
    return "" if finding.believed else "not reproduced"


def _finding_lines(finding: Finding) -> Iterator[tuple[str, str]]:
    yield "injected", str(finding.plan)
    by = ", ".join(finding.strategies)
    faults = f", with {', '.join(finding.faults)}" if finding.faults else ""
    yield "seen", f"in {count(len(finding.runs), 'run')}{f', by {by}' if by else ''}{faults}"
    yield "again", rate_words(finding)
    if finding.confirmed and finding.realism.answer:
        yield "device", str(finding.realism)
    for variant in finding.variants[:_VARIANTS_SHOWN]:
        yield "also by", f"{variant.plan} ({count(variant.runs, 'run')})"
    if (more := len(finding.variants) - _VARIANTS_SHOWN) > 0:
        yield "also by", f"faults at {count(more, 'other place')}"
    failing = [verdict for verdict in finding.verdicts if verdict.answer == "fail"]
    own = [verdict for verdict in failing if template(verdict.symptom) == template(finding.symptom)]
    for verdict in (own or failing)[:1]:
        yield from (("evidence", line) for line in verdict.evidence[-EVIDENCE_LINES_MAX:])


def rate_words(finding: Finding) -> str:
    if not finding.tries and not finding.elsewhere:
        return "not tried yet: `undermine replay` tells how often it comes back"
    if not finding.tries:
        return f"{count(finding.elsewhere, 're-run')} say nothing: the fault fired elsewhere or not at all"
    said = f"reproduced {finding.hits}/{finding.tries}"
    if finding.control_tries:
        said += f", {finding.control_hits}/{finding.control_tries} without the fault"
    return said


def judged(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Findings for machines, with what follows from their numbers: only those that are believed count for exit codes."""
    return [
        {
            **msgspec.to_builtins(f),
            "confirmed": f.confirmed,
            "flaky": f.flaky,
            "dropped": f.dropped,
            "believed": f.believed,
        }
        for f in findings
    ]
