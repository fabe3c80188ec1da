"""Readable names: the telling function of a call stack, the sender of a message, names without numbers and ids."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from undermine.model.event import functions

_CALLERS_MAX = 2
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_HEX = re.compile(rf"(?<![0-9a-z])(?:{_UUID}|(?=[a-f]*\d)[0-9a-f]{{8,}})(?![0-9a-z])", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")


def masked(name: str) -> str:
    """The name of a key with placeholders for ids and numbers, which differ from run to run."""
    return _NUMBER.sub("<n>", _HEX.sub("<hex>", name))


def module(function: str) -> str:
    """The module that defines a function, or its outermost class on a JVM."""
    return function.partition(":")[0].partition("$")[0]


def has_own_name(function: str) -> bool:
    """False for lambdas, functions within functions (such as a decorator's wrapper) and module code."""
    return not any(part in function for part in ("<", "lambda$"))


def telling(some: Sequence[str]) -> str:
    """The first of these functions that has its own name, else the first."""
    return next(filter(has_own_name, some), some[0])


def sent_from(stack: Sequence[str]) -> str:
    """A name for the sender of a message: the call site that sent it, and its callers.

    A program sends almost everything from one call site. So the first functions of the next modules outwards are named,
    too; in a program of one module, the next functions.
    """
    names = functions(stack)
    callers = list(_of_others(names)) or [name for name in names[1:] if has_own_name(name)]
    if not callers:
        return stack[0]
    outer, *inner = callers[:_CALLERS_MAX][::-1]
    return " > ".join((outer, *(name.partition(":")[2] for name in (*inner, stack[0]))))


def _of_others(names: Sequence[str]) -> Iterator[str]:
    """Going outwards, each function whose module differs from the one before."""
    before = module(names[0])
    for name in names[1:]:
        if has_own_name(name) and module(name) != before:
            before = module(name)
            yield name
