"""A finding in lines of plain text, for the terminal and for the files that a CI reads. Never cleans or escapes a text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from undermine.findings.explaining import own_verdict, window_words
from undermine.findings.titles import title_words
from undermine.model.finding import Finding
from undermine.model.predictions.candidate import why
from undermine.report.text import count

EVIDENCE_LINES_MAX = 6
_VARIANTS_SHOWN = 3
_FRAMES_SHOWN = 6


def doubt_words(finding: Finding) -> str:
    """Why the finding isn't confirmed; "" if it is believed."""
    if finding.undecided:
        return "suspected, to be confirmed"
    if finding.flaky:
        return "flaky: it also fails without the fault"
    return "" if finding.believed else "not reproduced"


def finding_lines(
    finding: Finding, partition_end: str = "", evidence_max: int = EVIDENCE_LINES_MAX, window: str = ""
) -> Iterator[tuple[str, str]]:
    """The facts about a finding, each with its name. Texts of the target are in them as they are; the caller cleans them.
    `window` has the words for its window, if they are known with source lines."""
    yield "injected", finding.plan.words(finding.lasted)
    if finding.smallest:
        yield "smallest", f"{finding.smallest} ({finding.smallest_rate})"
    if window := window or window_words(finding):
        yield "window", window
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
    if words := finding.worker_words:
        yield "workers", words
    yield from (("symptom", words) for words in finding.symptom_rates)
    if finding.confirmed and finding.realism.answer:
        yield "device", str(finding.realism)
    yield from (("fails at", str(frame)) for frame in finding.frames[:_FRAMES_SHOWN])
    for variant in finding.variants[:_VARIANTS_SHOWN]:
        yield "also by", f"{variant.plan.words(variant.lasted)} ({count(variant.runs, 'run')})"
    if (more := len(finding.variants) - _VARIANTS_SHOWN) > 0:
        yield "also by", f"faults at {count(more, 'other place')}"
    if verdict := own_verdict(finding):
        yield from (("evidence", line) for line in _ends(verdict.evidence, evidence_max))


def _ends(lines: Sequence[str], lines_max: int) -> list[str]:
    """The first line, which says what follows, and the last ones: the cause is at the end of a traceback."""
    left_out = len(lines) - lines_max
    if left_out <= 0:
        return list(lines)
    return [*lines[:1], f"… ({count(left_out, 'more line')})", *lines[left_out + 1 :]]


def rate_words(finding: Finding) -> str:
    """How often it came back with the fault and without it, in words."""
    if finding.undecided and not finding.tries:
        return "to be made by `undermine hunt --resume`"
    if not finding.tries and not finding.elsewhere:
        return "not re-run yet; `undermine replay` measures how often it fails"
    if not finding.tries:
        return f"no result: in {count(finding.elsewhere, 're-run')} the fault fired elsewhere or not at all"
    said = ", ".join(filter(None, (f"reproduced {finding.hits}/{finding.tries}", finding.controls)))
    return "; ".join(filter(None, (said, title_words(finding))))
