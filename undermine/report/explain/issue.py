"""Writes a finding as a bug report in Markdown, ready to file with the project of the target. Only reads.

A target's texts are hostile input: control characters are removed, long texts are cut, and everything outside of a code block is
escaped, so that a log line can't make a link, mention a person or end its block.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from undermine.checkers.compose import news_of
from undermine.findings.explaining import explained, own_verdict
from undermine.model.finding import Finding
from undermine.model.plan import describe_step
from undermine.report.card import Card, card_of, columns_of
from undermine.report.data import lines_of, run_dir, sources_of
from undermine.report.explain.source import Excerpt
from undermine.report.explain.story import record_of
from undermine.report.text import clean, clip, count
from undermine.store.database import CampaignStore

_LINES_MAX = 40
_LINE_CHARS_MAX = 300
_PLAN_CHARS_MAX = 200_000
_THREADS_MAX = 6
_FRAMES_MAX = 12
_SPECIAL = re.compile(r"([\\*_\[\]<>#|~])")
_NOTHING = "&#8203;"
"""A space of no width. GitHub finds mentions and numbers of issues after it has read entities and backslashes, so these don't
help."""
_LINKS = {"&": "&amp;", "@": f"@{_NOTHING}", r"\#": rf"\#{_NOTHING}", "://": f":{_NOTHING}//", "www.": f"www{_NOTHING}."}
"""Parts of entities, mentions and links, and how to write them so that they are only text."""
_BACKTICKS = re.compile("`+")


@dataclass(frozen=True)
class _Facts:
    """Everything that the report is made from."""

    finding: Finding
    card: Card
    identity: Mapping[str, Any]
    nodes: Mapping[str, int]
    """By role: the number of its nodes."""
    runtimes: Sequence[str]
    news: Sequence[str]
    baseline_runs: int
    options: str


def issue(store: CampaignStore, finding: Finding, options: str = "") -> str:
    """The bug report. `options` are the command-line options with which a later command finds this campaign."""
    rows = {row["run"]: row for row in store.run_rows()}
    record = record_of(store, finding)
    facts = _Facts(
        finding=finding,
        card=card_of(store, finding, rows, lines_of(store), sources_of(store), brief=False),
        identity=store.meta("identity") or {},
        nodes=Counter(info.role for info in record.nodes) if record else {},
        runtimes=_runtimes(store, record.id) if record else (),
        news=news_of(store.verdicts(record.id)) if record else (),
        baseline_runs=store.baselines(),
        options=options,
    )
    explanation = explained(finding, record, frames_of=store.frames)
    parts = [
        f"# {prose(explanation.title, 250)}",
        prose(explanation.sentence, 800) + ".",
        *_versions(facts),
        *_steps(facts),
        *_expected(facts),
        *_actual(facts),
        *_evidence(facts),
        *_plan(facts),
    ]
    return "\n\n".join(parts) + "\n"


# --- parts


def _versions(facts: _Facts) -> Iterator[str]:
    yield "## Versions"
    identity = facts.identity
    params = (identity.get("significant") or {}).get("params") or {}
    rows = [f"`{_code(name)}`: {_inline(value)}" for name, value in params.items() if value != ""]
    rows += [f"runtime: {prose(runtime, 100)}" for runtime in facts.runtimes]
    rows.append(f"found with Undermine {prose(identity.get('version') or '(unknown version)', 40)}")
    yield "\n".join(f"- {row}" for row in rows)


def _steps(facts: _Facts) -> Iterator[str]:
    finding, plan = facts.finding, facts.finding.smallest or facts.finding.plan
    yield "## Steps to reproduce"
    nodes = ", ".join(f"{number} × {prose(role, 60)}" for role, number in facts.nodes.items())
    work = prose(plan.work, 200) if plan.work else "the workload"
    steps = [f"Start a cluster{f' ({nodes})' if nodes else ''} and run {work}"]
    steps += [f"Inject `{_code(describe_step(step), 600)}`" for step in plan.steps]
    steps.append("End all faults: killed nodes start again. Wait until the cluster has settled")
    yield "\n".join(f"{number}. {step}." for number, step in enumerate(steps, 1))
    yield "Undermine does this by itself:"
    smallest = " --smallest" if finding.smallest else ""
    yield _block(f"undermine replay {finding.id}{smallest}{facts.options}")
    yield f"`{_code(f'undermine bundle {finding.id}{facts.options}')}` packs everything that another machine needs for it."


def _expected(facts: _Facts) -> Iterator[str]:
    yield "## Expected"
    without = f", as it does in {count(facts.baseline_runs, 'run')} without one" if facts.baseline_runs else ""
    yield f"The check{_name_of_check(facts)} passes in spite of the fault{without}."


def _name_of_check(facts: _Facts) -> str:
    """The name of the checker that gave the finding its symptom, after a space; "" if it isn't known."""
    verdict = own_verdict(facts.finding)
    return f" `{_code(verdict.checker)}`" if verdict and verdict.checker else ""


def _actual(facts: _Facts) -> Iterator[str]:
    finding, card = facts.finding, facts.card
    yield "## Actual"
    shown = [f"{prose(verdict.text, 400)} (`{_code(verdict.checker)}`)" for verdict in card.verdicts]
    yield "\n".join(f"- {line}" for line in shown or [prose(finding.title, 400)])
    if finding.tries:
        without = finding.controls.replace("/", " of ")
        yield f"It failed in {finding.hits} of {finding.tries} runs with the fault" + (f", and {without}." if without else ".")
    yield from (prose(doubt, 500) for doubt in card.doubts)
    if card.smallest:
        yield f"The steps above are the smallest plan that fails as often ({prose(finding.smallest_rate, 20)})."
    if card.window:
        yield f"The window: {prose(card.window, 800)}."


def _evidence(facts: _Facts) -> Iterator[str]:
    card = facts.card
    yield "## Evidence"
    if card.receipts:
        yield "Proof that the fault took effect, in seconds since the run began:"
        yield _block(*(f"{row.at}  {row.action} of {row.node}  {row.detail}".rstrip() for row in card.receipts))
    own = own_verdict(facts.finding)
    if evidence := (own.evidence if own else ()) or card.evidence:
        yield f"Evidence of the check{_name_of_check(facts)}:"
        yield _block(*evidence)
    if facts.news:
        yield "Log lines that no run without a fault has:"
        yield _block(*facts.news)
    for excerpt in card.excerpts:
        yield from _source(excerpt)
    stuck = [(process, thread) for process in card.stuck for thread in process.threads if thread.mood == "stuck"]
    for process, thread in stuck[:_THREADS_MAX]:
        yield f"Stuck: {prose(thread.name, 80)} of {prose(process.title, 80)}, {prose(thread.says, 300)}"
        yield _block(*thread.frames[:_FRAMES_MAX])
    if card.stack:
        yield "The call stack at which the fault was injected, innermost first:"
        yield _block(*card.stack)


def _source(excerpt: Excerpt) -> Iterator[str]:
    yield f"`{_code(excerpt.file)}`, in `{_code(excerpt.function)}`:"
    width = len(str(excerpt.lines[-1].number))
    lines = (f"{line.number:>{width}}  {line.text}" + (f"    <- {line.mark}" if line.mark else "") for line in excerpt.lines)
    yield _block(*lines)


def _plan(facts: _Facts) -> Iterator[str]:
    plan = json.dumps(msgspec.to_builtins(facts.finding.smallest or facts.finding.plan))  # in ASCII, so cleaning changes nothing
    yield "<details><summary>The plan, for <code>undermine replay plan.json</code></summary>"
    yield _block(plan, language="json")
    yield "</details>"


def _runtimes(store: CampaignStore, run: int) -> tuple[str, ...]:
    """The interpreters of the nodes, as their agents described them."""
    processes = columns_of(run_dir(store, run)).processes
    return tuple(dict.fromkeys(process.runtime for process in processes if process.runtime))


# --- Markdown


def prose(text: object, chars_max: int) -> str:
    """One line in which only pairs of backticks mean something: the text between them is code. Several backticks in a row count
    as one: in Markdown, they would be paired with an equal number of them only."""
    parts = _BACKTICKS.split(clip(str(text), chars_max))
    if len(parts) % 2 == 0:  # the last backtick has no partner
        parts[-2:] = [f"{parts[-2]}'{parts[-1]}"]
    return "".join(f"`{part}`" if number % 2 else _escaped(part) for number, part in enumerate(parts))


def _escaped(text: str) -> str:
    text = _SPECIAL.sub(r"\\\1", text)
    for part, harmless in _LINKS.items():
        text = text.replace(part, harmless)
    return text


def _code(text: str, chars_max: int = 200) -> str:
    """The text for the inside of a pair of backticks."""
    return clip(text, chars_max).replace("`", "'")


def _inline(value: object) -> str:
    return f"`{_code(str(value))}`"


def _block(*lines: str, language: str = "") -> str:
    """A code block that none of its lines can end."""
    chars_max = _PLAN_CHARS_MAX if language else _LINE_CHARS_MAX
    shown = [clean(part, chars_max) for line in lines for part in clean(line, _PLAN_CHARS_MAX).splitlines()]
    if len(shown) > _LINES_MAX:
        shown = [*shown[:_LINES_MAX], f"... ({len(shown) - _LINES_MAX} more lines)"]
    fence = "`" * max(3, 1 + max((len(run) for line in shown for run in _BACKTICKS.findall(line)), default=0))
    return "\n".join((f"{fence}{language}", *shown, fence))

