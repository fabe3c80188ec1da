"""Options and functions that several commands share."""

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
    Path, typer.Option("--config", "-c", help="The configuration file, or the folder that it is in.", metavar="PATH")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON, without progress.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Override a value of `[params]`, like `--set size=3`. Repeatable.",
        metavar="NAME=VALUE",
        show_default=False,
    ),
]
CampaignOption = Annotated[
    str,
    typer.Option(
        "--campaign", help="The campaign to read; by default the latest one.", metavar="NAME", show_default=False
    ),
]
StrategyOption = Annotated[
    list[str] | None,
    typer.Option("--strategy", "-s", help="Use only this strategy. Repeatable.", metavar="NAME", show_default=False),
]
HERE = Path(FILE_NAME)
"""The default of `--config`."""


def load_config(path: Path, params: Sequence[str] | None = None, *, programs: bool = True) -> Config:
    return load(path, overrides(params), programs=programs)


def overrides(params: Sequence[str] | None) -> dict[str, str]:
    overrides = {}
    for text in params or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise UserError(f"--set {text!r} is not NAME=VALUE; write it like --set size=3")
        overrides[name] = value
    return overrides


def print_json(value: Any) -> None:
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2) + b"\n")
    sys.stdout.flush()


@contextlib.contextmanager
def listening(json_wanted: bool, **options: Any) -> Iterator[Listener]:
    """A listener that shows progress, or a silent one if JSON is wanted."""
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
        raise UserError(f"{option} must be greater than zero; write it like {option} {example}")
    return seconds


def later_options(config: Path, campaign: str = "") -> str:
    """The options with which a later command finds the same configuration and campaign."""
    return ("" if config == HERE else f" -c {config}") + (f" --campaign {campaign}" if campaign else "")
