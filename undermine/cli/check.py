"""The command `undermine check`: its options, and what it shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

from undermine import api
from undermine.analysis.agreement.suggestions import Suggestions
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
from undermine.cli.plan import learnt_lines
from undermine.report.text import count
from undermine.runtimes.table import RUNTIMES

_SLOWEST_SHOWN = 5
_NAME_WIDTH_MAX = 40
_PROBLEMS_SHOWN = 10
_VARIABLES_SHOWN = 60
_SUGGESTED_MAX = 10


def check(
    config: ConfigOption = HERE,
    params: SetOption = None,
    prove_checkers: Annotated[
        bool, typer.Option("--prove-checkers", help="Break the cluster on purpose and show which checkers notice.")
    ] = False,
    suggest_variables: Annotated[
        bool, typer.Option("--suggest-variables", help="Look for variables of the nodes, and print a block for undermine.toml.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Also list what the agents cannot observe.")] = False,
    json: JsonOption = False,
) -> int:
    """Check that a hunt can work here: run the workload three times without faults and report what was observed.

    Reports what this machine allows, which agents loaded, how stable the runs are, and how long a hunt takes. If
    `run.speed` isn't 1, it also says whether the fault-free run is the same as at speed 1. With
    `--prove-checkers` it also kills a node, causes a hang, loses data and changes answers; it exits with 1 if a checker
    notices none of these. If no node has one of the configured variables, it says why and exits with 2. With
    `--suggest-variables` it makes two more runs, in which agents look for attributes that nodes usually agree about, and
    prints the best of them.

    Examples:

    - `undermine check`
    - `undermine check --suggest-variables`
    - `undermine check -c my-system --prove-checkers`
    """
    loaded = load_config(config, params)
    with listening(json, title="check") as listener:
        result = api.check(loaded, listener, prove=prove_checkers, suggest=suggest_variables)
    if json:
        print_json(result)
    else:
        show_check(result, verbose=verbose)
    return 2 if result.unmatched else 1 if result.unproved else 0


def show_check(result: api.CheckResult, *, verbose: bool = False) -> None:
    """Print the result of the preflight."""
    out = console()
    machine = Table(title="This machine", title_justify="left", box=None, show_header=False)
    for ability in result.abilities:
        machine.add_row(
            "[green]yes[/green]" if ability.there else "[yellow]no[/yellow]", ability.name, plain(ability.detail)
        )
    out.print(machine)
    out.print(f"isolation of nodes: {plain(result.isolation)}")
    out.print(f"nodes run as: {plain(result.user) or 'the user of this command'}")
    _show_agents(out, result, verbose=verbose)
    for lines in (_points_lines(result), _speed_lines(result), _cost_lines(result), _baseline_lines(result)):
        for line in lines:
            out.print(line)
    if result.proofs:
        _show_proofs(out, result)
    _show_variables(out, result)
    for strategy, learnt in result.learnt.items():
        if learnt:
            out.print(f"[bold]{plain(strategy)}[/bold]")
        for line in learnt_lines(learnt):
            out.print(line)
    if result.suggestions is not None:
        for line in _suggestion_lines(result.suggestions):
            out.print(line, soft_wrap=True, highlight=False)


def _suggestion_lines(suggestions: Suggestions) -> Iterator[str]:
    """The suggested variables as a part of `undermine.toml`."""
    best = suggestions.best[:_SUGGESTED_MAX]
    if not best:
        yield f"[yellow]no variables to suggest[/yellow]: agents looked at {suggestions.paths:,} attributes"
        for reason, number in sorted(suggestions.dropped.items(), key=lambda item: -item[1]):
            yield f"  {number:,}: {reason}"
        return
    yield f"variables that nodes usually agree about, of {suggestions.paths:,} attributes, the best first:"
    for role in sorted({role for one in best for role in one.roles or ("",)}):
        yield ""
        yield plain(f"[roles.{role}.variables]" if role else "[variables]")
        for one in best:
            if role in (one.roles or ("",)):
                path = f'"{one.path}"'
                if one.metadata != one.name:
                    path = f'{{ path = {path}, metadata = "{one.metadata}" }}'
                yield plain(f"{one.name} = {path}  # {one.why}")
    yield ""
    yield "paste the lines that mean something to you into undermine.toml and run `undermine hunt`"


def _show_agents(out: Console, result: api.CheckResult, *, verbose: bool) -> None:
    agents = Table("node", "agent", "processes", "operations", title="Agents", title_justify="left", box=None)
    for seen in result.agents:
        loaded = f"{seen.loaded} {seen.runtime}".strip()
        if seen.loaded == "none":
            loaded = f"[red]{seen.wanted} did not load[/red]"
        if not RUNTIMES[seen.wanted].has_agent:
            agents.add_row(seen.node, "no agent: only process faults", "", "")
        else:
            agents.add_row(seen.node, loaded, str(seen.processes), str(sum(seen.operations.values())))
    out.print(agents)
    for seen in result.agents:
        if seen.why_slow:
            without = RUNTIMES[seen.wanted].without_native
            out.print(f"[yellow]{seen.node} {without}:[/yellow] {plain(seen.why_slow)}")
    if verbose:
        for gap in dict.fromkeys(gap for seen in result.agents for gap in seen.gaps):
            out.print(f"  not observed: {plain(gap)}")


def _points_lines(result: api.CheckResult) -> Iterator[str]:
    """How well the points recur in fault-free runs."""
    points = result.recurrence
    yield f"points: {points.in_all} of {points.points} ({points.share:.0%}) occurred in all {points.runs} fault-free runs"
    for node, (total, stable) in sorted(points.by_node.items()):
        yield f"  {node}: {stable} of {total}"
    for text in result.unstable:
        yield f"  not in every run: {plain(text)}"
    for node, operations in result.contents.used.items():
        for op, target in operations:
            yield f"  content is part of points: {plain(f'{op} {target} on {node}')}"
    for text, why in result.contents.left_out.items():
        yield f"  content is left out: {plain(f'{text}: {why}')}"


def _speed_lines(result: api.CheckResult) -> Iterator[str]:
    """Whether the fault-free run is the same as at speed 1."""
    if result.speed is None:
        return
    verdict, *details = result.speed.sentences
    yield f"[{'green' if result.speed.same else 'yellow'}]{plain(verdict)}[/]"
    for text in details:
        yield f"  {plain(text)}"


def _cost_lines(result: api.CheckResult) -> Iterator[str]:
    """How long runs take, and which faults are left out."""
    durations = ", ".join(f"{d:.1f}" for d in result.durations_s)
    yield f"a run takes {result.run_s:.1f} s ({durations}); {result.possible_faults:,} faults are possible at these points"
    for line in result.forecast.words:
        yield f"  {plain(line)}"
    for reason, number in result.skipped.items():
        yield f"  {number:,} faults are left out: {plain(reason)}"
    for problem in result.problems[:_PROBLEMS_SHOWN]:
        yield f"[yellow]trace:[/yellow] {plain(problem)}"
    if (left := len(result.problems) - _PROBLEMS_SHOWN) > 0:
        yield f"[yellow]trace:[/yellow] … and {left:,} more; `--json` has all"


def _baseline_lines(result: api.CheckResult) -> Iterator[str]:
    """Facts of the fault-free runs: flakiness, slow operations, log lines and health."""
    usual = result.baseline
    if usual.flaky:
        yield f"[red]the workload is flaky:[/red] {plain(usual.flaky)}"
    for note, runs in result.notes:
        yield f"[yellow]without any fault:[/yellow] {plain(note)} ({count(len(runs), 'run')}, first in run {runs[0]})"
    if slowest := sorted(usual.slowest_s.items(), key=lambda item: -item[1])[:_SLOWEST_SHOWN]:
        said = ", ".join(f"{plain(f)} {seconds:.2f} s" for f, seconds in slowest)
        yield f"slowest operations without a fault: {said}"
    if usual.templates:
        yield f"log templates learnt: {len(usual.templates)}"
    unwell = {node: why for node, why in result.health.items() if why}
    for node, why in unwell.items():
        yield f"[yellow]{plain(node)} reports that it is not healthy:[/yellow] {plain(why)}"
    if healthy := [node for node in result.health if node not in unwell]:
        yield f"health: {plain(', '.join(healthy))} report that they are healthy"
    if silent := [seen.node for seen in result.agents if seen.node not in result.health]:
        yield (
            f"health: not asked of {plain(', '.join(silent))}; set `health` in their role to also find nodes that report "
            "that they are healthy while their clients wait"
        )


def _show_variables(out: Console, result: api.CheckResult) -> None:
    """The values of variables at the end of a fault-free run, what nodes agree about at rest, and paths that match nothing."""
    if result.variables:
        table = Table("node", "variable", "value", title="Variables", title_justify="left", box=None)
        for seen in result.variables[:_VARIABLES_SHOWN]:
            table.add_row(plain(seen.node), plain(seen.label), "∅" if seen.value is None else plain(seen.value))
        out.print(table)
        if (left := len(result.variables) - _VARIABLES_SHOWN) > 0:
            out.print(f"  … and {left} more; `--json` has all")
        agreed = dict.fromkeys(each.one[1] for each in result.baseline.agreements.at_rest)
        out.print(f"nodes agree at rest about: {plain(', '.join(agreed)) or 'nothing'}")
    for missing in result.unmatched:
        out.print(f"[red]error:[/red] {plain(str(missing))}")


def _show_proofs(out: Console, result: api.CheckResult) -> None:
    widest = max(len(proof.checker) for proof in result.proofs)
    names = Column("checker", min_width=min(widest, _NAME_WIDTH_MAX), overflow="fold")
    table = Table(names, "can fail", "shown by", "after", title="Checkers", title_justify="left", box=None)
    for proof in result.proofs:
        if proof.proved:
            where = "real run" if proof.real else "altered copy"
            table.add_row(plain(proof.checker), "[green]yes[/green]", where, plain(proof.plant))
        else:
            table.add_row(plain(proof.checker), "[red]not shown[/red]", "", plain(proof.text))
    out.print(table)
    if result.unproved:
        out.print(
            f"[red]{len(result.unproved)} of {len(result.proofs)} checkers never failed:[/red] "
            f"{plain(', '.join(result.unproved))}; do not trust their passes until you have seen them fail"
        )
