"""The command `undermine plan`: its options, and what it shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from undermine import api
from undermine.cli.console import console, plain
from undermine.cli.options import (
    HERE,
    ConfigOption,
    JsonOption,
    SetOption,
    StrategyOption,
    listening,
    load_config,
    print_json,
)
from undermine.model.plan import Plan
from undermine.store.stored_plans import DroppedBy, Planned, StoredPlans

_LEARNT_SHOWN = 12


def plan(
    config: ConfigOption = HERE,
    strategy: StrategyOption = None,
    count: Annotated[
        int, typer.Option("--count", "-n", min=1, max=1000, help="Number of plans to show for each strategy or policy.")
    ] = 10,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Also show the plans that policies drop, and the plan that represents each."),
    ] = False,
    campaign: Annotated[
        str,
        typer.Option(
            "--campaign",
            help="Show the plans of this campaign (or `latest`) and run nothing.",
            metavar="NAME",
            show_default=False,
        ),
    ] = "",
    params: SetOption = None,
    json: JsonOption = False,
) -> int:
    """Show which faults a hunt would inject, where and why. Injects nothing.

    It runs the workload without faults to find the points. With `--campaign` it runs nothing: it shows which plans a campaign
    still has to run, and which policy dropped each of the others. This also works while the campaign is being hunted.

    Examples:

    - `undermine plan --strategy exhaustive -n 20`
    - `undermine plan --strategy random --explain`
    - `undermine plan --campaign latest --explain`
    """
    if campaign:
        stored = api.plans(
            load_config(config, params, programs=False), campaign, strategy or (), count, every_dropped=explain
        )
        if json:
            print_json(stored)
        else:
            show_stored_plans(stored, explain=explain)
        return 0
    loaded = load_config(config, params)
    with listening(json, title="plan") as listener:
        result = api.plan(loaded, strategy or (), count, listener, every_dropped=explain)
    if json:
        print_json(result)
    else:
        show_plan(result, explain=explain)
    return 0


def show_plan(result: api.PlanResult, *, explain: bool = False) -> None:
    """Print the plans of each strategy; with `explain` also the dropped plans and their representatives."""
    out = console()
    out.print(f"{result.points:,} points, {result.possible_faults:,} possible faults")
    for predicted in result.predicted:
        shown = len(predicted.plans)
        more = f" ({predicted.kept:,} plans, the first {shown} are shown)" if predicted.kept > shown else ""
        out.print(f"\n[bold]{predicted.strategy}[/bold]: {predicted.summary}{more}")
        if not predicted.plans:
            out.print("  no plan")
        elif predicted.reasoned and len(whys := {plan.why for plan in predicted.plans}) == 1:
            out.print(f"  [dim]each: {plain(*whys)}[/dim]")
        for number, (plan, lines) in enumerate(zip(predicted.plans, _below(predicted), strict=True), 1):
            others = [f"also {one.strategy}: {one.text}" for one in result.other_reasons(plan, predicted.strategy)]
            _show_one(out, number, plan, [*lines, *others])
        for line in learnt_lines(result.learnt.get(predicted.strategy, ())):
            out.print(line)
        for rule in predicted.dropped:
            out.print(f"  [dim]{rule.count:,} dropped by {plain(rule.policy)}[/dim]")
            for example in rule.examples if explain else ():
                instead = f"; represented by {plain(example.instead)}" if example.instead else ""
                out.print(f"       {plain(example.plan)}{instead}")
            if explain and (unlisted := rule.count - len(rule.examples)):
                out.print(f"       … and {unlisted:,} more")
    for reason, number in result.skipped.items():
        out.print(f"{number:,} possible faults are left out: {plain(reason)}")


def _below(predicted: api.Predicted) -> Iterator[list[str]]:
    """For each plan, the lines below it: what tells it apart from others that read alike, and its reason, unless all plans have
    the same reason."""
    shared = len({plan.why for plan in predicted.plans}) == 1
    before = ""
    for plan in predicted.plans:
        why = "" if shared else cut_reason(plan.why, before)
        before = plan.why
        yield list(filter(None, (predicted.apart.get(plan.id), why)))


def cut_reason(why: str, before: str) -> str:
    """The reason of a plan with "…" for the parts that the plan before has too."""
    if why == before:
        return "for the same reason" if why else ""
    parts, known = why.split("; "), set(before.split("; "))
    shown = ["…" if part in known else part for part in parts]
    if set(shown) == {"…"}:
        return why  # it lacks a part of the other reason
    return "; ".join(part for n, part in enumerate(shown) if n == 0 or part != "…" or shown[n - 1] != "…")


def _show_one(out: Console, number: int, plan: Plan, below: Iterable[str]) -> None:
    out.print(f"  {number:>3}. {plain(str(plan))}")
    for line in below:
        out.print(f"       [dim]{plain(line)}[/dim]")


def learnt_lines(learnt: Sequence[str]) -> Iterator[str]:
    """The lines about the facts that a strategy has learnt from the fault-free runs."""
    if learnt:
        yield "  learnt from the fault-free runs:"
    for line in learnt[:_LEARNT_SHOWN]:
        yield f"    {plain(line)}"
    if (left := len(learnt) - _LEARNT_SHOWN) > 0:
        yield f"    … and {left} more; `--json` has all"


def show_stored_plans(result: StoredPlans, *, explain: bool = False) -> None:
    """Print the plans that a campaign still has to run and those that it dropped; `explain`: all of these were asked for."""
    out = console()
    out.print(f"campaign {plain(Path(result.folder).name)}")
    if not result.predicted:
        out.print("no strategy has proposed anything yet")
    for planned in result.predicted:
        _show_planned(out, planned)
        for rule in planned.dropped:
            _show_dropped(out, rule, explain=explain)


def _show_planned(out: Console, planned: Planned) -> None:
    covered = f"{planned.covered:,} already tried by other runs, " if planned.covered else ""
    counts = f"{planned.run:,} run, {covered}{planned.open:,} still to run{_later(planned)}"
    out.print(f"\n[bold]{plain(planned.strategy)}[/bold]: {counts}")
    for number, plan in enumerate(planned.plans, 1):
        _show_one(out, number, plan, filter(None, [planned.apart.get(plan.id)]))
    if (more := planned.open - len(planned.plans)) > 0:
        out.print(f"       … and {more:,} more")


def _later(planned: Planned) -> str:
    """Words for the plans that a strategy has yet to propose, if it proposes a few at a time."""
    if planned.later is None:
        return ", and it never runs out of others"
    return f", at least {planned.later:,} to be proposed later" if planned.later else ""


def _show_dropped(out: Console, rule: DroppedBy, *, explain: bool) -> None:
    out.print(f"  [dim]{rule.count:,} dropped by {plain(rule.policy)}[/dim]")
    for one in rule.examples:
        later = "" if one.rule == rule.policy else f" ({plain(one.rule)})"
        out.print(f"       {one.id} {plain(one.plan)}{later}")
        if one.instead:
            stands = f"{one.instead.id} {one.instead.plan}".strip()
            out.print(f"         represented by {plain(stands)} ({plain(one.instead.state)})")
    if more := rule.count - len(rule.examples):
        why = "" if not explain else " that were only counted"
        out.print(f"       … and {more:,} more{why}")
