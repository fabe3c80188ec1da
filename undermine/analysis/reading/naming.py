"""Words for people from call stacks: which functions say something, and from where a message was sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from undermine.model.event import functions

_CALLERS_MAX = 2


def module(function: str) -> str:
    """Where a function is defined: its module, or its outermost class on a JVM."""
    return function.partition(":")[0].partition("$")[0]


def has_own_name(function: str) -> bool:
    """False for what is made within another function: a lambda, a decorator's wrapper; and for a module's own code."""
    return not any(part in function for part in ("<", "lambda$"))


def telling(some: Sequence[str]) -> str:
    """The first of these functions that has a name of its own, else the first."""
    return next(filter(has_own_name, some), some[0])


def sent_from(stack: Sequence[str]) -> str:
    """From where a message was sent: the place that sent it, and whom it did that for. A program sends almost everything from
    one place, so the functions of the next modules outwards are named too; in a program of one module, the next functions."""
    names = functions(stack)
    callers = list(_of_others(names)) or [name for name in names[1:] if has_own_name(name)]
    if not callers:
        return stack[0]
    outer, *inner = callers[:_CALLERS_MAX][::-1]
    return " > ".join((outer, *(name.partition(":")[2] for name in (*inner, stack[0]))))


def _of_others(names: Sequence[str]) -> Iterator[str]:
    """Going outwards, the first function of each module that is not the one before."""
    before = module(names[0])
    for name in names[1:]:
        if has_own_name(name) and module(name) != before:
            before = module(name)
            yield name
