"""Writes the HTML report: one file that needs no network. Without scripts it is complete, but its diagrams are still
pictures.

A target's texts are hostile input: templates escape everything, `finalize` strips control characters and cuts long
texts, and the page's content policy blocks whatever might slip through.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from undermine.model.errors import UserError
from undermine.model.finding import Finding
from undermine.report import data
from undermine.report.card import card_of, certainty_of
from undermine.report.coverage.source import MARKS, FileView
from undermine.report.coverage.view import coverage_of
from undermine.report.explain.story import explanations_of
from undermine.report.head import head_of
from undermine.report.predictions import predictions_of
from undermine.report.run_table import BYTES_MAX, run_blocks_of
from undermine.report.text import clean, clip, count
from undermine.store.database import CampaignStore

FINDINGS_MAX = 200
_CARDS_BYTES_MAX = 1_200_000
"""After this many bytes, further cards are brief; after twice as many, they are left out."""
_SOURCE_BYTES_MAX = 1_000_000
"""After this many bytes of source, further files are left out."""
_LARGE_PARTS_BYTES_MAX = 3_900_000
"""Of cards, source and runs together. With the small parts, the page has at most 5 MB, so that it can be mailed."""


def write_report(folder: Path, output: Path | None = None) -> Path:
    """Write the report of the campaign in this folder. Returns its path."""
    if not (folder / "campaign.db").exists():
        raise UserError(f"there is no campaign in {folder}; run `undermine hunt` first")
    store = CampaignStore(folder)
    try:
        with store.snapshot():  # a hunt may be running
            page = render(store)
    finally:
        store.close()
    return write_file(output or folder / "report.html", lambda stream: stream.write(page), "-o")


def render(store: CampaignStore, band: Markup = Markup(), scripts: Sequence[str] = ()) -> str:  # noqa: B008 - immutable
    """The whole page. `band` is shown below its head; `scripts` are more scripts of it, which may ask the page's own server."""
    env = environment()
    rows = store.run_rows()
    findings = data.ranked(store.findings())
    cards = _cards(env, store, findings[:FINDINGS_MAX], rows)
    shown = findings[: len(cards)]
    finding_of = {run: finding.id for finding in shown for run in finding.runs}
    coverage = coverage_of(store, rows, finding_of)
    files = _files(env, coverage.files)
    left = _LARGE_PARTS_BYTES_MAX - sum(len(part.encode()) for part in (*cards, *files))
    told = explanations_of(store, shown)
    titles = {name: clip(explanation.title.replace("`", ""), 240) for name, explanation in told.items()}
    return env.get_template("page.html").render(
        **look(env, ("style.css", "spacetime.css"), ("copy.js", "spacetime.js", *scripts)),
        band=band,
        head=head_of(store, rows, findings, running=bool(band)),
        contents=[(f.id, titles[f.id], *certainty_of(f)) for f in shown],
        cards=[card for finding, card in zip(shown, cards, strict=True) if not _is_dropped(finding)],
        dropped=[card for finding, card in zip(shown, cards, strict=True) if _is_dropped(finding)],
        notes=[(clip(note, 400), runs) for note, runs in store.notes()],
        findings_left_out=len(findings) - len(cards),
        predictions=predictions_of(store, finding_of),
        coverage=coverage,
        files=files,
        files_left_out=[view.name for view in coverage.files[len(files) :]],
        marks=MARKS,
        workers=any(row["worker"] for row in rows),
        runs=run_blocks_of(store, rows, finding_of, min(BYTES_MAX, left)),
        runs_total=len(rows),
    )


def _is_dropped(finding: Finding) -> bool:
    return finding.dropped and not finding.suppressed


def _cards(env: Environment, store: CampaignStore, findings: Sequence[Finding], rows: Sequence[data.Row]) -> list[Markup]:
    by_run = {row["run"]: row for row in rows}
    lines, sources = data.lines_of(store), data.sources_of(store)
    template = env.get_template("finding.html")
    cards: list[Markup] = []
    spent = 0
    for finding in findings:
        if spent > 2 * _CARDS_BYTES_MAX:
            break
        brief = spent > _CARDS_BYTES_MAX
        card = card_of(store, finding, by_run, lines, sources, brief=brief)
        pictures = {"picture": Markup(card.picture), "shown_by": Markup(card.shown_by)}
        cards.append(Markup(template.render(card=card, **pictures, brief=brief)))
        spent += len(cards[-1].encode())
    return cards


def _files(env: Environment, views: Sequence[FileView]) -> list[Markup]:
    """The annotated source files that fit into the page."""
    template = env.get_template("source.html")
    files: list[Markup] = []
    left = _SOURCE_BYTES_MAX
    for view in views:
        made = Markup(template.render(view=view, marks=MARKS, open=not files))
        left -= len(made.encode())
        if left < 0:
            break
        files.append(made)
    return files


def look(env: Environment, styles: Sequence[str], scripts: Sequence[str]) -> dict[str, Any]:
    """The styles and scripts of a page, and the hash that lets its content policy allow only these scripts."""
    script = "".join(_source(env, name) for name in scripts)
    return {
        "style": Markup("".join(_source(env, name) for name in styles)),
        "script": Markup(script),
        "script_hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    }


@cache
def environment() -> Environment:
    env = Environment(
        loader=PackageLoader("undermine.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters["count"] = count
    env.filters["code"] = _with_code
    return env


def _with_code(text: str) -> Markup:
    """The text, escaped, with the parts between backticks as code."""
    parts = clean(text).split("`")
    return Markup().join(Markup("<code>{}</code>").format(part) if n % 2 else escape(part) for n, part in enumerate(parts))


def _finalize(value: Any) -> Any:
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _source(env: Environment, name: str) -> str:
    assert env.loader is not None
    return env.loader.get_source(env, name)[0]


def write_file(output: Path, write: Callable[[IO[str]], Any], option: str) -> Path:
    """Write a file that only its owner may read, atomically: a reader sees the old file or the new one.

    `option`: the command-line option that chooses another path, for the error message.
    """
    temporary = output.parent / f".{output.name}.{os.getpid()}.tmp"
    try:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(handle, "w", encoding="utf-8", errors="replace", newline="\n") as stream:
            write(stream)
        os.replace(temporary, output)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise UserError(
            f"{_what(output)} cannot be written to {output} ({error.strerror}); choose another place with {option}"
        ) from error
    return output


def _what(output: Path) -> str:
    return "the trace" if output.name.startswith("trace.") else "the report"
