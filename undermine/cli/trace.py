"""The command `undermine trace`: its options, and what it shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from undermine import api
from undermine.analysis.trace_summary import Summary
from undermine.cli.console import console, plain
from undermine.cli.options import (
    HERE,
    ConfigOption,
    JsonOption,
    SetOption,
    listening,
    load_config,
    print_json,
)
from undermine.model.errors import ClusterError, UserError
from undermine.report.text import count

_ROWS_MAX = 12


def trace(
    config: ConfigOption = HERE,
    run: Annotated[
        str,
        typer.Option(
            "--run",
            help="Draw a stored run instead: the number of a run, or the id of a finding. Runs nothing.",
            metavar="ID",
            show_default=False,
        ),
    ] = "",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Folder to write the files to; by default that of the run.", show_default=False
        ),
    ] = None,
    campaign: Annotated[
        str,
        typer.Option(
            "--campaign",
            help="With `--run`: the campaign of the run; by default the latest one.",
            metavar="NAME",
            show_default=False,
        ),
    ] = "",
    params: SetOption = None,
    json: JsonOption = False,
) -> int:
    """Record one run without faults and draw which event caused which, across threads, tasks and nodes.

    Prints a summary and writes four files: `trace.html` (a space-time diagram), `trace.perfetto.json` (open it at
    ui.perfetto.dev), `trace.shiviz.log` and `trace.history.edn` (for Jepsen's checkers); with `[variables]` also two for
    Daikon. With `--run` it draws a stored run with its fault instead. Exits with 3 if the run without faults fails; it is drawn
    anyway.

    Examples:

    - `undermine trace`
    - `undermine trace --run F1`
    - `undermine trace --run 17 -o drawn`
    """
    if campaign and not run:
        raise UserError("--campaign only works with --run; add --run ID, or remove --campaign")
    with listening(json, title="trace") as listener:
        if run:
            result = api.trace_stored(load_config(config, params, programs=False), run, listener, out, campaign)
        else:
            result = api.trace(load_config(config, params), listener, out)
    if json:
        summary = result.summary
        numbers = {"paired_percent": summary.paired_percent, "events_per_s": summary.events_per_s}
        print_json({**msgspec.to_builtins(result), "summary": {**msgspec.to_builtins(summary), **numbers}})
    else:
        show(result)
    return ClusterError.exit_code if result.symptom else 0


def show(result: api.TraceResult) -> None:
    """Print the summary and the paths of the files."""
    out = console()
    summary = result.summary
    for warning in result.warnings:
        out.print(f"[yellow]warning:[/yellow] {plain(warning)}")
    out.print(
        f"[bold]{plain(result.run)}[/bold]: {count(summary.events, 'event')} in {summary.duration_s:.1f} s of "
        f"{count(len(summary.nodes), 'node or client', 'nodes and clients')}, "
        f"{count(summary.processes, 'process', 'processes')}, {count(summary.contexts, 'thread or task', 'threads and tasks')}"
    )
    parts = (_operations, _messages, _handlers, _clients, _unpaired, _edges, _stores, _store_pairs)
    for part in (table(summary) for table in parts):
        if part.row_count:
            out.print(part)
    for line in _lines(summary):
        out.print(line)
    _show_files(out, result)
    if result.symptom:
        out.print(f"[red]the cluster fails without a fault:[/red] {plain(result.symptom)}")


def _table(title: str, *columns: str, numbers: int) -> Table:
    """An empty table; its last `numbers` columns are numbers."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.caption_justify = "left"
    for place, name in enumerate(columns):
        right = place >= len(columns) - numbers
        table.add_column(name, justify="right" if right else "left", overflow="fold", no_wrap=right, style="")
    return table


def _fill(table: Table, rows: Sequence[tuple[str, ...]], what: str) -> Table:
    for row in rows[:_ROWS_MAX]:
        table.add_row(*(plain(cell) for cell in row))
    if len(rows) > _ROWS_MAX:
        more = len(rows) - _ROWS_MAX
        table.caption = f"{more} more {what}; --json lists all"
    return table


def _operations(summary: Summary) -> Table:
    """The operations by family."""
    families: dict[str, list[tuple[str, int]]] = {}
    for op, number in summary.operations.items():
        families.setdefault(op.partition(".")[0], []).append((op.partition(".")[2] or op, number))
    sums = sorted(((sum(n for _, n in ops), family) for family, ops in families.items()), reverse=True)
    rows = [(f, ", ".join(f"{op} {n:,}" for op, n in families[f]), f"{total:,}") for total, f in sums]
    return _fill(_table("\nOperations", "family", "", "events", numbers=1), rows, "families")


def _messages(summary: Summary) -> Table:
    rows = [(m.kind, f"{m.sender} → {m.receiver}", f"{m.count:,}", f"{m.bytes:,}") for m in summary.messages]
    title = f"\nMessages: {summary.messages_total:,}"
    return _fill(_table(title, "kind", "", "messages", "bytes", numbers=2), rows, "kinds and pairs")


def _handlers(summary: Summary) -> Table:
    rows = [(h.handler, f"{h.messages:,}", f"{h.operations:,}") for h in summary.handlers]
    table = _table("\nHandlers, and the operations that they caused", "function", "messages", "operations", numbers=2)
    return _fill(table, rows, "handlers")


def _clients(summary: Summary) -> Table:
    rows = [
        (c.operation, ", ".join(c.nodes), f"{c.count:,}", f"{c.messages:,}", f"{c.operations:,}")
        for c in summary.clients
    ]
    title = "\nClient operations, and what nodes did for them"
    return _fill(_table(title, "operation", "by", "times", "messages", "operations", numbers=3), rows, "operations")


def _unpaired(summary: Summary) -> Table:
    rows = [("; ".join((u.why, *u.places[:1])), f"{u.events:,}", f"{u.bytes:,}") for u in summary.unpaired]
    table = _table("\nSends and receives whose other end was not observed", "why", "events", "bytes", numbers=2)
    return _fill(table, rows, "reasons")


def _edges(summary: Summary) -> Table:
    sorts = (("causal", summary.causal), ("blocking", summary.blocking), ("store", summary.store_links))
    rows = [(kind, ", ".join(f"{name} {n:,}" for name, n in edges.items()), f"{sum(edges.values()):,}")
            for kind, edges in sorts if edges]  # fmt: skip
    return _fill(_table("\nEdges", "kind", "", "edges", numbers=1), rows, "kinds")


def _stores(summary: Summary) -> Table:
    rows = [
        (s.store, ", ".join(s.users), ", ".join(f"{c} {n:,}" for c, n in s.commands.items()), f"{s.operations:,}")
        for s in summary.stores
    ]
    return _fill(_table("\nExternal stores", "store", "used by", "", "operations", numbers=1), rows, "stores")


def _store_pairs(summary: Summary) -> Table:
    rows = [
        (s.kind, f"{s.source} → {s.target}", f"{s.sender} → {s.receiver}", f"{s.count:,}") for s in summary.store_pairs
    ]
    table = _table("\nData that passed through a store", "by", "", "", "times", numbers=1)
    return _fill(table, rows, "pairs")


def _lines(summary: Summary) -> Iterator[str]:
    colour = "green" if summary.paired_percent >= 99 else "yellow"
    paired = (
        f"[{colour}]{summary.paired_percent:.2f} %[/{colour}] of the {count(summary.bytes_received, 'byte')} received"
    )
    yield f"\npaired: {paired if summary.bytes_received else 'nothing was received'} between processes with an agent"
    yield f"{count(summary.holding_locks, 'event')} under a lock, {summary.under_deadline:,} within a time limit"
    for gap in summary.gaps:
        yield f"the agents in {plain(', '.join(gap.nodes))} cannot observe:"
        yield from (f"  [dim]{plain(text)}[/dim]" for text in gap.gaps)
    for text in summary.unread:
        yield f"[yellow]not read:[/yellow] {plain(text)}"
    for problem in summary.problems:
        yield f"[red]contradiction:[/red] {plain(problem)}"
    if not summary.problems:
        yield "the edges have no cycle, and none points back in time"
    yield f"analysed in {summary.analysis_s:.2f} s, {summary.events_per_s:,.0f} events a second"


def _show_files(out: Console, result: api.TraceResult) -> None:
    for path, what in (
        (result.html, "the space-time diagram"),
        (result.perfetto, "for ui.perfetto.dev"),
        (result.shiviz, f"for ShiViz, {count(result.shiviz_events, 'event')}"),
        (result.history, "for Knossos, Elle and Porcupine, the client operations"),
        *((path, "for Daikon, the variables at messages") for path in result.daikon),
    ):
        out.print(f"{plain(path)}  [dim]{what}[/dim]", soft_wrap=True)
