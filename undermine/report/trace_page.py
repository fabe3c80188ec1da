"""The page of one traced run: its space-time diagram, and below it what is in the trace in numbers. One file, no network."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from undermine.analysis.trace_summary import Summary
from undermine.analysis.traced import Traced
from undermine.model.run import RunView
from undermine.report.html import environment, look
from undermine.report.spacetime import diagram
from undermine.report.text import count

_ROWS_MAX = 40


def page(view: RunView, traced: Traced, told: Summary, words: str, warnings: Sequence[str] = ()) -> str:
    env = environment()
    return env.get_template("trace.html").render(
        **look(env, ("style.css", "spacetime.css"), ("spacetime.js",)),
        words=words,
        plan=str(view.plan) if view.plan.steps else "",
        facts=_facts(told),
        warnings=warnings,
        told=told,
        rows_max=_ROWS_MAX,
        diagram=Markup(diagram(view, traced, page=True)),
    )


def _facts(told: Summary) -> list[tuple[str, str]]:
    paired = f"{told.paired_percent:.1f} %", f"of {told.bytes_received:,} bytes between nodes paired"
    return [
        (f"{told.events:,}", "events"),
        (str(len(told.nodes)), f"nodes and clients, {count(told.processes, 'process', 'processes')}"),
        (f"{told.contexts:,}", "threads and tasks"),
        (f"{told.messages_total:,}", "messages"),
        paired if told.bytes_received else ("0", "bytes between nodes"),
        (f"{sum(told.causal.values()):,}", "causal edges"),
        (f"{sum(told.blocking.values()):,}", "blocking edges"),
        *([(f"{sum(told.store_links.values()):,}", "relations by stores")] if told.store_links else []),
        (str(len(told.problems)), "contradictions"),
    ]
