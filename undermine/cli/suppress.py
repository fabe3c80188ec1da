"""The command `undermine suppress`: its options, and what it shows."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer

from undermine import api
from undermine.cli.console import console, plain, printable
from undermine.cli.options import (
    HERE,
    CampaignOption,
    ConfigOption,
    JsonOption,
    load_config,
    print_json,
    seconds_of,
)
from undermine.exchange.suppressions import Suppression
from undermine.model.errors import UserError


def suppress(
    finding: Annotated[str, typer.Argument(help="The id of the finding, like F1.", show_default=False)] = "",
    reason: Annotated[str, typer.Option(help="Why the finding need not be reported.", show_default=False)] = "",
    until: Annotated[
        str,
        typer.Option(
            help="The last day of the suppression, like 2027-01-31, or `never`.", metavar="DAY", show_default=False
        ),
    ] = "",
    lasts: Annotated[
        str,
        typer.Option(
            "--for", help="How long the suppression lasts, like `30d`; by default 90 days.", show_default=False
        ),
    ] = "",
    fault: Annotated[
        str,
        typer.Option(
            help="Only while no other kind of fault leads to the finding.",
            metavar="KIND",
            show_default=False,
        ),
    ] = "",
    listed: Annotated[bool, typer.Option("--list", help="Show all suppressions.")] = False,
    remove: Annotated[
        str,
        typer.Option(
            "--remove", help="Remove the suppression with this id of `--list`.", metavar="ID", show_default=False
        ),
    ] = "",
    config: ConfigOption = HERE,
    campaign: CampaignOption = "",
    json: JsonOption = False,
) -> int:
    """Keep a finding from being reported until a date.

    A suppressed finding is shown dimmed and ignored by the exit code. The suppression is written to
    undermine-suppressions.toml; commit that file.

    Examples:

    - `undermine suppress F1 --reason "see issue 12" --for 30d`
    - `undermine suppress --list`
    - `undermine suppress --remove 1d59b3`
    """
    if sum(map(bool, (finding, listed, remove))) != 1:
        raise UserError("give exactly one of: a finding like F1, --list, --remove ID")
    loaded = load_config(config, programs=False)
    if remove:
        changed, said = api.unsuppress(loaded, remove), "is reported again"
    elif finding:
        lasts_s = seconds_of("--for", lasts, "30d") if lasts else None
        changed = api.suppress(loaded, finding, reason, until=until, lasts_s=lasts_s, fault=fault, campaign=campaign)
        said = f"is suppressed {changed.words}"
    entries = api.suppressions(loaded) if listed else (changed,)
    if json:
        print_json([{**msgspec.to_builtins(entry), "id": entry.id} for entry in entries])
    elif listed:
        show_suppressions(entries, api.today())
    else:
        typer.echo(printable(f"{changed.id} {changed.symptom}: {said}"))
    return 0


def show_suppressions(entries: Sequence[Suppression], today: datetime.date) -> None:
    out = console()
    if not entries:
        out.print("no suppressions")
    for entry in entries:
        ended = "" if entry.holds(today) else " [yellow](ended: the finding is reported again)[/yellow]"
        fault = f" (only with {entry.fault})" if entry.fault else ""
        out.print(f"[bold]{entry.id}[/bold] {plain(entry.symptom)}{fault}")
        out.print(f"       {plain(entry.words)}{ended}")
