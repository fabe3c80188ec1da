"""All analyses of one trace, in their order: pairs, links of stores, causes, locks and limits, messages."""

from __future__ import annotations

import time

import numpy as np

from undermine.analysis.causality.blocking import BLOCKS
from undermine.analysis.causality.causality import CAUSES, causality, with_messages
from undermine.analysis.exposure.holding import holding
from undermine.analysis.messages.channels import pair
from undermine.analysis.messages.messages import messages
from undermine.analysis.reading.contexts import Contexts
from undermine.analysis.stores.links import links
from undermine.analysis.traced import Arrows, Messages, StoreLinks, Traced
from undermine.model.columns import Columns


def analyse(columns: Columns) -> Traced:
    """What the events of a run say of causes, messages, locks and limits."""
    begun = time.perf_counter()
    pairing = pair(columns)
    related = links(columns)
    known = causality(columns, pairing, related)
    edges, under = known.blocking, holding(columns, known.contexts)
    sent = messages(columns, pairing, known.contexts, known.causor)
    known = with_messages(known, sent.send, sent.receive)
    return Traced(
        columns=columns,
        context=known.context,
        contexts=_names(columns, known.contexts),
        causor=known.causor,
        cause=known.cause,
        causes=CAUSES,
        messages=Messages(sent.send, sent.receive, sent.bytes, sent.kind, sent.handler, sent.texts),
        blocking=Arrows(edges.source, edges.target, edges.kind, BLOCKS),
        stores=StoreLinks(related.source, related.target, related.kind.astype(np.int32), about=related.about),
        held=under.held,
        held_sets=under.sets,
        deadline=under.deadline,
        deadline_of=under.deadline_of,
        bytes_received=pairing.received,
        bytes_paired=pairing.paired,
        unpaired=pairing.unpaired,
        unpaired_messages=sent.unpaired,
        problems=tuple(known.problems()),
        analysis_s=time.perf_counter() - begun,
    )


def _names(columns: Columns, known: Contexts) -> list[str]:
    """Of each thread its own name, of each task that of its function."""
    names = ["" for _ in range(known.count)]
    found, firsts = np.unique(known.context, return_index=True)
    for context, row in zip(found.tolist(), firsts.tolist(), strict=True):
        thread = columns.text(int(columns.thread[row])) or "main"
        if known.is_task(context):
            take = int(known.take[row])
            names[context] = f"task {columns.text(int(columns.target[take if take >= 0 else row]))}"
        else:
            names[context] = thread
    return names
