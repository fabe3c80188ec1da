"""Runs all analyses of one trace in order: paired bytes, links through stores, causes, locks and limits, messages."""

from __future__ import annotations

import time

import numpy as np

from undermine.analysis.causality.blocking import BLOCKS
from undermine.analysis.causality.causality import CAUSE_KINDS, causality, with_messages
from undermine.analysis.exposure.locks_and_limits import locks_and_limits
from undermine.analysis.messages.messages import messages
from undermine.analysis.messages.pairing import pair
from undermine.analysis.reading.contexts import Contexts
from undermine.analysis.stores.links import links
from undermine.analysis.trace_analysis import Arrows, Messages, StoreLinks, TraceAnalysis
from undermine.model.columns import Columns


def analyse(columns: Columns) -> TraceAnalysis:
    """Analyse the events of a run: causes, messages, waits, locks and time limits."""
    begun = time.perf_counter()
    pairing = pair(columns)
    store_links = links(columns)
    causes = causality(columns, pairing, store_links)
    edges, under = causes.blocking, locks_and_limits(columns, causes.contexts)
    found = messages(columns, pairing, causes.contexts, causes.cause)
    causes = with_messages(causes, found.send, found.receive)
    return TraceAnalysis(
        columns=columns,
        context=causes.context,
        contexts=_names(columns, causes.contexts),
        cause=causes.cause,
        cause_kind=causes.cause_kind,
        cause_kinds=CAUSE_KINDS,
        messages=Messages(found.send, found.receive, found.bytes, found.kind, found.handler, found.texts),
        blocking=Arrows(edges.source, edges.target, edges.kind, BLOCKS),
        stores=StoreLinks(
            store_links.source, store_links.target, store_links.kind.astype(np.int32), details=store_links.details
        ),
        held=under.held,
        held_sets=under.lock_sets,
        deadline=under.deadline,
        deadline_of=under.deadline_of,
        bytes_received=pairing.received,
        bytes_paired=pairing.paired,
        unpaired=pairing.unpaired,
        unpaired_messages=found.unpaired,
        problems=tuple(causes.problems()),
        analysis_s=time.perf_counter() - begun,
    )


def _names(columns: Columns, contexts: Contexts) -> list[str]:
    """The name of each context: a thread's own name, or the name of a task's function."""
    names = ["" for _ in range(contexts.count)]
    found, firsts = np.unique(contexts.context, return_index=True)
    for context, row in zip(found.tolist(), firsts.tolist(), strict=True):
        thread = columns.text(int(columns.thread[row])) or "main"
        if contexts.is_task(context):
            take = int(contexts.take[row])
            names[context] = f"task {columns.text(int(columns.target[take if take >= 0 else row]))}"
        else:
            names[context] = thread
    return names
