"""Command-line options that benchmarks share, and their types. A mistake becomes a message of the parser."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

import msgspec

from undermine.config.schema import parse_duration

Part = TypeVar("Part", bound=str)


class HuntOptions(msgspec.Struct, Generic[Part], frozen=True):
    """The options of a benchmark that hunts on several targets."""

    targets: tuple[str, ...]
    parts: tuple[Part, ...]
    budget_s: float
    seed: int


def hunt_options(
    arguments: Sequence[str], prog: str, description: str | None, targets: Iterable[str], parts: Sequence[Part]
) -> HuntOptions[Part]:
    """Read the options; by default, all targets and all parts."""
    known = tuple(targets)
    parser = ArgumentParser(prog=prog, description=description)
    parser.add_argument("--targets", type=some_of(known), default=known, help=f"some of {','.join(known)} (default: all)")
    parser.add_argument("--parts", type=some_of(parts), default=tuple(parts), help=f"some of {','.join(parts)} (default: all)")
    parser.add_argument("--budget", type=duration, default="10m", help="time for each hunt (default: 10m)")
    parser.add_argument("--seed", type=int, default=0)
    said = parser.parse_args(arguments)
    return HuntOptions(said.targets, said.parts, said.budget, said.seed)


def some_of(known: Iterable[str]) -> Callable[[str], tuple[str, ...]]:
    """The type of an option with some of the known names, separated by commas, each once."""
    names = tuple(known)

    def read(text: str) -> tuple[str, ...]:
        chosen = tuple(dict.fromkeys(text.split(",")))
        if unknown := [each for each in chosen if each not in names]:
            raise ArgumentTypeError(f"unknown: {', '.join(unknown)}; known are {', '.join(names)}")
        return chosen

    return read


def duration(text: str) -> float:
    """The type of an option with a duration, such as 90s or 10m."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None
