"""The list of findings, as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from rich.console import Console

from undermine.cli.console import console, plain
from undermine.findings.explaining import Explanation
from undermine.model.finding import Finding
from undermine.report.finding_lines import doubt_words, finding_lines, rate_words
from undermine.report.text import count

_NEW_LINES_MAX = 3


def show_findings(
    findings: Sequence[Finding],
    options: str = "",
    remarks: Mapping[str, str] | None = None,
    new_logs: Mapping[str, Sequence[str]] | None = None,
    partition_ends: Mapping[str, str] | None = None,
    explanations: Mapping[str, Explanation] | None = None,
) -> None:
    """Print the findings, the most certain first.

    `options` are the options with which later commands find this campaign. `remarks`, `new_logs`, `partition_ends` and
    `explanations` are by finding id: a note, the log lines that no correct run has, how the partitions of its run ended, and the
    finding in words.
    """
    out = console()
    if all(finding.dropped and not finding.suppressed for finding in findings):
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
        doubt = f" [yellow]({words})[/yellow]" if (words := doubt_words(finding)) else ""
        explanation = (explanations or {}).get(finding.id)
        title = explanation.title if explanation else finding.title
        out.print(f"\n[bold red]{finding.id}[/bold red] {plain(title)}{doubt}")
        if explanation:
            out.print(f"   {plain(explanation.sentence)}")
        if remark := (remarks or {}).get(finding.id):
            out.print(f"   note      {plain(remark)}")
        window = explanation.window if explanation else ""
        for name, text in finding_lines(finding, (partition_ends or {}).get(finding.id, ""), window=window):
            out.print(f"   {name:<9} {plain(text)}")
        for line in (new_logs or {}).get(finding.id, ())[:_NEW_LINES_MAX]:
            out.print(f"   new log   {plain(line)}")
        for command in ("replay", "bundle", "issue"):
            out.print(f"   {command:<9} undermine {command} {finding.id}{plain(options)}")
    _show_unreal(out, [finding for finding in findings if finding.dropped and not finding.suppressed], options)


def show_notes(notes: Sequence[tuple[str, Sequence[int]]]) -> None:
    """Print the facts that checkers noted in runs that passed."""
    out = console()
    if notes:
        out.print("\n[bold]notes[/bold]: seen in runs in which everything promised held, so these are not bugs")
    for note, runs in notes:
        out.print(f"   {plain(note)} ({count(len(runs), 'run')}, first in run {runs[0]})")


def _show_unreal(out: Console, findings: Sequence[Finding], options: str) -> None:
    if findings:
        out.print("\n[bold]dropped[/bold]: no slow device can cause these delays; another fault may still do the same harm")
    for finding in findings:
        out.print(f"\n[bold]{finding.id}[/bold] {plain(finding.title)}")
        for name, text in (
            ("injected", finding.plan.words(finding.lasted)),
            ("re-runs", rate_words(finding) if finding.tries else ""),
            ("reason", finding.realism.text),
            ("replay", f"undermine replay {finding.id}{options}"),
        ):
            if text:
                out.print(f"   {name:<9} {plain(text)}")


def _doubt(finding: Finding) -> int:
    """The order of the list: 0 for a confirmed finding, more for a less certain one."""
    if finding.suppressed:
        return 4
    if finding.undecided:
        return 1
    return 3 if finding.flaky else 0 if finding.confirmed else 1 if finding.believed else 2


def judged(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """The findings as JSON, with the properties that follow from their numbers. Only believed ones count for the exit code."""
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
