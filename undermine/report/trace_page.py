"""The page of one recorded run: its space-time diagram, and the summary of its trace as tables. One file, no
network."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from undermine.analysis.trace_analysis import TraceAnalysis
from undermine.analysis.trace_summary import Summary
from undermine.model.run import RunView
from undermine.report.drawing.scene import origin_of
from undermine.report.drawing.spacetime import diagram
from undermine.report.html import environment, look
from undermine.report.partitions import partition_part
from undermine.report.text import count

_ROWS_MAX = 40


def page(view: RunView, analysis: TraceAnalysis, told: Summary, words: str, warnings: Sequence[str] = ()) -> str:
    env = environment()
    part = partition_part(view.record, analysis.columns, origin_of(view.record, view.history))
    return env.get_template("trace.html").render(
        **look(env, ("style.css", "spacetime.css"), ("spacetime.js",)),
        words=words,
        plan=view.plan.words(view.record.timing.faults) if view.plan.steps else "",
        partition=part.sentences if part else (),
        facts=_facts(told),
        warnings=warnings,
        told=told,
        rows_max=_ROWS_MAX,
        diagram=Markup(diagram(view, analysis, page=True)),
    )


def _facts(told: Summary) -> list[tuple[str, str]]:
    paired = f"{told.paired_percent:.1f} %", f"of {count(told.bytes_received, 'byte')} between nodes paired"
    processes = count(told.processes, "process", "processes")
    return [
        _counted(told.events, "event"),
        (str(len(told.nodes)), f"{'node or client' if len(told.nodes) == 1 else 'nodes and clients'}, {processes}"),
        _counted(told.contexts, "thread or task", "threads and tasks"),
        _counted(told.messages_total, "message"),
        paired if told.bytes_received else ("0", "bytes between nodes"),
        _counted(sum(told.causal.values()), "causal edge"),
        _counted(sum(told.blocking.values()), "blocking edge"),
        *(
            [_counted(sum(told.store_links.values()), "link through stores", "links through stores")]
            if told.store_links
            else []
        ),
        _counted(len(told.problems), "contradiction"),
    ]


def _counted(number: int, noun: str, plural: str = "") -> tuple[str, str]:
    digits, _, word = count(number, noun, plural).partition(" ")
    return digits, word
