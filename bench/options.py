"""Types of command-line options that benchmarks share. A mistake becomes a message of the parser."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable, Iterable

from undermine.config.schema import parse_duration


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
