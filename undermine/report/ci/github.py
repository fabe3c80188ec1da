"""The output for GitHub Actions: annotations at source lines, and a summary of the job in Markdown.

Workflow commands are lines of the log, so a text of the target must never begin one: `silenced` brackets all other output, and
`commands` escape what ends a property or a line. Never reads the environment.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from html import escape

from undermine.model.finding import Finding
from undermine.report.ci.results import Results, name_of, why_not
from undermine.report.finding_lines import rate_words
from undermine.report.text import clip, count

ANNOTATIONS_MAX = 10
"""GitHub shows at most this number of errors for a step."""
ROWS_MAX = 100
_MESSAGE_MAX = 2000
_CELL_MAX = 300
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+\-.!|~>@:])")


def commands(results: Results) -> Iterator[str]:
    """A workflow command for each failing finding: an error, or a warning if it is still to be confirmed."""
    failing = results.failing
    for finding in failing[:ANNOTATIONS_MAX]:
        place = results.place(finding)
        title = clip(f"{finding.id}: {name_of(finding)}", _CELL_MAX)
        message = clip(f"{results.title(finding)} — {finding.plan.words(finding.lasted)} ({rate_words(finding)})", _MESSAGE_MAX)
        kind = "warning" if finding.undecided else "error"
        where = f"file={_property(place.file)},line={place.line},title={_property(title)}"
        yield f"::{kind} {where}::{_data(message)}"
    if (more := len(failing) - ANNOTATIONS_MAX) > 0:
        yield f"::error title=Undermine::{count(more, 'more finding')}; the summary of the job lists them"


def silenced() -> tuple[str, str]:
    """Two commands: GitHub takes no line between them for a command. The word that ends it cannot be guessed."""
    word = secrets.token_hex(16)
    return f"::stop-commands::{word}", f"::{word}::"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(clip(text, _CELL_MAX)).replace(":", "%3A").replace(",", "%2C")


# --- the summary


def summary(results: Results) -> str:
    """The results in Markdown."""
    failing = results.failing
    head = count(len(failing), "finding") if failing else "No findings"
    lines = [f"## Undermine: {_cell(results.name)}", "", f"**{head}** in campaign {_cell(results.campaign)}.", ""]
    lines += _table(("", "finding", "injected", "re-runs", "source"), (_row(results, f) for f in failing[:ROWS_MAX]))
    if (more := len(failing) - ROWS_MAX) > 0:
        lines += [f"… and {count(more, 'more finding')}", ""]
    for finding in failing[:3]:
        lines += ["<details>", f"<summary>{escape(f'{finding.id} {results.title(finding)}')}</summary>", ""]
        lines += [f"    {line}" for line in results.text(finding).splitlines()]
        lines += ["", "</details>", ""]
    others = [(finding, why_not(finding)) for finding in results.findings if finding not in failing]
    lines += _table(("", "not reported", "why"), ((f.id, _cell(name_of(f)), _cell(why)) for f, why in others[:ROWS_MAX]))
    lines += _table(("note", "runs"), ((_cell(note), str(len(runs))) for note, runs in results.notes[:ROWS_MAX]))
    reached = results.coverage
    lines.append(
        f"{count(reached.runs, 'experiment')}; faults fired at {reached.locations_fired} of {reached.locations} source locations "
        f"and {reached.points_fired} of {reached.points} points."
    )
    return "\n".join(lines) + "\n"


def _row(results: Results, finding: Finding) -> tuple[str, ...]:
    place = results.place(finding)
    injected, rate = finding.plan.words(finding.lasted), rate_words(finding)
    return finding.id, _cell(name_of(finding)), _cell(injected), _cell(rate), _cell(f"{place.file}:{place.line}")


def _table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> list[str]:
    """The lines of a table and an empty one; none if there are no rows."""
    body = [f"| {' | '.join(row)} |" for row in rows]
    return [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *body, ""] if body else []


def _cell(text: str) -> str:
    """One line of text that is shown as it is: no markup, no HTML, no link, no mention."""
    line = clip(text, _CELL_MAX).replace("&", "&amp;").replace("<", "&lt;")
    return _MARKDOWN.sub(r"\\\1", line)
