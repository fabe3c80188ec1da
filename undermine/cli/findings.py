"""The list of findings, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from rich.console import Console

from undermine.cli.console import console, plain
from undermine.findings.titles import title_words
from undermine.model.finding import Finding
from undermine.model.predictions.candidate import why
from undermine.report.text import count

EVIDENCE_LINES_MAX = 4
_NEW_LINES_MAX = 3
_VARIANTS_SHOWN = 3
_FRAMES_SHOWN = 6


def show_findings(
    findings: Sequence[Finding],
    options: str = "",
    remarks: Mapping[str, str] | None = None,
    new_logs: Mapping[str, Sequence[str]] | None = None,
    partition_ends: Mapping[str, str] | None = None,
) -> None:
    """Print the findings, the most certain first.

    `options` are the options with which later commands find this campaign. `remarks`, `new_logs` and `partition_ends` are by
    finding id: a note, the log lines that no correct run has, and how the partitions of its run ended.
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
        doubt = f" [yellow]({words})[/yellow]" if (words := _doubt_words(finding)) else ""
        out.print(f"\n[bold red]{finding.id}[/bold red] {plain(finding.title)}{doubt}")
        if remark := (remarks or {}).get(finding.id):
            out.print(f"   note      {plain(remark)}")
        for name, text in _finding_lines(finding, (partition_ends or {}).get(finding.id, "")):
            out.print(f"   {name:<9} {plain(text)}")
        for line in (new_logs or {}).get(finding.id, ())[:_NEW_LINES_MAX]:
            out.print(f"   new log   {plain(line)}")
        for command in ("replay", "bundle"):
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


def _doubt_words(finding: Finding) -> str:
    if finding.undecided:
        return "suspected, to be confirmed"
    if finding.flaky:
        return "flaky: it also fails without the fault"
    return "" if finding.believed else "not reproduced"


def _finding_lines(finding: Finding, partition_end: str) -> Iterator[tuple[str, str]]:
    yield "injected", finding.plan.words(finding.lasted)
    if finding.smallest:
        yield "smallest", f"{finding.smallest} ({finding.smallest_rate})"
    if finding.when:
        yield "when", finding.when_words
    if partition_end:
        yield "partition", partition_end
    by = ", ".join(finding.strategies)
    faults = f", with {', '.join(finding.faults)}" if finding.faults else ""
    yield "seen", f"in {count(len(finding.runs), 'run')}{f', by {by}' if by else ''}{faults}"
    if reasons := why(finding.reasons):
        yield "why", reasons
    yield "re-runs", rate_words(finding)
    yield from (("symptom", words) for words in finding.symptom_rates)
    if finding.confirmed and finding.realism.answer:
        yield "device", str(finding.realism)
    yield from (("fails at", str(frame)) for frame in finding.frames[:_FRAMES_SHOWN])
    for variant in finding.variants[:_VARIANTS_SHOWN]:
        yield "also by", f"{variant.plan.words(variant.lasted)} ({count(variant.runs, 'run')})"
    if (more := len(finding.variants) - _VARIANTS_SHOWN) > 0:
        yield "also by", f"faults at {count(more, 'other place')}"
    if verdict := finding.main_verdict:
        yield from (("evidence", line) for line in verdict.evidence[-EVIDENCE_LINES_MAX:])


def rate_words(finding: Finding) -> str:
    if finding.undecided and not finding.tries:
        return "to be made by `undermine hunt --resume`"
    if not finding.tries and not finding.elsewhere:
        return "not re-run yet; `undermine replay` measures how often it fails"
    if not finding.tries:
        return f"no result: in {count(finding.elsewhere, 're-run')} the fault fired elsewhere or not at all"
    said = ", ".join(filter(None, (f"reproduced {finding.hits}/{finding.tries}", finding.controls)))
    return "; ".join(filter(None, (said, title_words(finding))))


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
