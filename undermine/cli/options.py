"""Options that several commands share, and the means that all of them use."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from undermine import api
from undermine.campaign.running import Listener
from undermine.cli.progress import progress
from undermine.config.load import load
from undermine.config.schema import FILE_NAME, Config, parse_duration
from undermine.model.errors import UserError

ConfigOption = Annotated[
    Path, typer.Option("--config", "-c", help="The undermine.toml, or its folder.", metavar="PATH")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document for machines.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="Override a value of [params].", metavar="NAME=VALUE", show_default=False),
]
CampaignOption = Annotated[
    str, typer.Option("--campaign", help="Name of a campaign; the latest one by default.", show_default=False)
]
StrategyOption = Annotated[
    list[str] | None,
    typer.Option("--strategy", "-s", help="Only this strategy (may be given several times).", show_default=False),
]
HERE = Path(FILE_NAME)


def load_config(path: Path, params: Sequence[str] | None = None, *, programs: bool = True) -> Config:
    return load(path, overrides(params), programs=programs)


def overrides(params: Sequence[str] | None) -> dict[str, str]:
    overrides = {}
    for text in params or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise UserError(f"--set {text!r} is not NAME=VALUE; write for example --set fixes=all")
        overrides[name] = value
    return overrides


def print_json(value: Any) -> None:
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2) + b"\n")
    sys.stdout.flush()


@contextlib.contextmanager
def listening(json_wanted: bool, **options: Any) -> Iterator[Listener]:
    """Live progress on a terminal, lines elsewhere, nothing for machines."""
    if json_wanted:
        yield api.silent
    else:
        with progress(**options) as listener:
            yield listener


def seconds_of(option: str, text: str, example: str) -> float:
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise UserError(f"{option} {error}") from None
    if seconds <= 0:
        raise UserError(f"{option} must be more than nothing; write for example {option} {example}")
    return seconds


def later_options(config: Path, campaign: str = "") -> str:
    """What a later command needs to find the same config and campaign."""
    return ("" if config == HERE else f" -c {config}") + (f" --campaign {campaign}" if campaign else "")
