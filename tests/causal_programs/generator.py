"""Generates small random concurrent programs whose causes and waits are known.

A program is a tree of functions. Each function calls `mark`, which the agent observes, and hands work over to other functions
in one of the ways of its language (`ways.py`, `java_ways.py`). While the generator writes the program, it notes the cause of
each mark.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Language:
    """The language of generated programs."""

    head: str
    """The beginning of each program."""
    mark: str
    """A call of `mark`, with a placeholder for the name."""
    word: str
    """The first word of a plain function."""
    function: Callable[[str, str, Sequence[str]], str]
    """The text of a function: its first word, its name with its parameters, and its lines."""
    main: Callable[[str], str]
    """The end of a program, which calls the function of this name."""
    ways: Mapping[str, Way]
    """The ways that plain functions can use."""
    favourites: tuple[str, ...] = ()
    """Ways that are chosen more often: each entry counts once more."""
    others: Callable[[Program, Body, Sequence[str]], None] = lambda program, body, names: None
    """Uses the named ways that plain functions cannot use, such as those of tasks."""


@dataclass(frozen=True)
class Cause:
    """The expected cause of a mark: the last mark before the hand-over, and the kinds of edges that lead from there to it."""

    kinds: tuple[str, ...]
    giver: str
    way: str


@dataclass(frozen=True)
class Wait:
    """An expected edge from a release to a wait: each is the first operation of its name after a mark of its thread or task."""

    kind: str
    source: str
    release: str
    target: str
    wait: str
    way: str


@dataclass(frozen=True)
class Limit:
    """The expected time limit of an operation, the first of its name after a mark of its thread or task; 0: no limit."""

    mark: str
    op: str
    seconds: float
    way: str


@dataclass
class Body:
    """A function of the program."""

    name: str
    program: Program
    cause: Cause | None
    depth: int
    lines: list[str] = field(default_factory=list)
    last: str = ""
    locks: int = 0
    """The number of locks and semaphores that it holds at this line."""
    limited: bool = False
    """Whether a time limit is in force at this line."""

    def mark(self) -> str:
        """Add a call of `mark`, note its expected cause, and return its name."""
        self.last = f"m{self.program.number()}"
        self.program.causes[self.last] = self.cause
        self.program.under[self.last] = self.locks, self.limited
        self.add(self.program.language.mark.format(self.last))
        return self.last

    def add(self, *lines: str) -> None:
        self.lines += lines


class Program:
    """A program under construction; `source` is its text in the end."""

    def __init__(self, language: Language, seed: int, steps: int = 2, depth: int = 2) -> None:
        self.language = language
        self.random = random.Random(seed)
        self.steps, self.depth = steps, depth
        self.causes: dict[str, Cause | None] = {}
        self.under: dict[str, tuple[int, bool]] = {}
        self.waits: list[Wait] = []
        self.limits: list[Limit] = []
        self.parts: list[str] = []
        self.ways: list[str] = []
        self._count = 0

    def number(self) -> int:
        self._count += 1
        return self._count

    @property
    def source(self) -> str:
        return self.language.head + "\n".join(self.parts)

    def wait(self, kind: str, source: str, release: str, target: str, wait: str) -> None:
        self.waits.append(Wait(kind, source, release, target, wait, self.ways[-1]))

    def limit(self, mark: str, op: str, seconds: float) -> None:
        self.limits.append(Limit(mark, op, seconds, self.ways[-1]))

    def cause(self, kinds: str, giver: str) -> Cause:
        return Cause(tuple(kinds.split()), giver, self.ways[-1])

    def begin(self, cause: Cause | None, depth: int, parameters: str = "") -> Body:
        return Body(f"f{self.number()}({parameters})", self, cause, depth)

    def end(self, body: Body, word: str = "") -> str:
        """Finish the function and return its name."""
        self.parts.append(self.language.function(word or self.language.word, body.name, body.lines))
        return body.name.partition("(")[0]

    def leaf(self, cause: Cause | None, *lines: str, parameters: str = "") -> tuple[str, str]:
        """Add a function that hands nothing over; return its name and its last mark."""
        body = self.begin(cause, 0, parameters)
        body.mark()
        body.mark()
        body.add(*lines)
        return self.end(body), body.last

    def child(
        self, body: Body, kinds: str, giver: str, *ends: str, before: tuple[str, ...] = (), parameters: str = "",
        ways: Mapping[str, Way] | None = None, word: str = "",
    ) -> tuple[str, str]:  # fmt: skip
        """Add a function that may hand work over; return its name and its last mark. `before` and `ends` are lines around
        its body."""
        child = self.begin(self.cause(kinds, giver), body.depth - 1, parameters)
        child.add(*before)
        child.mark()
        self.fill(child, ways)
        child.mark()
        child.add(*ends)
        return self.end(child, word), child.last

    def fill(self, body: Body, ways: Mapping[str, Way] | None = None) -> None:
        """Add random steps to the body, fewer at greater depth."""
        table = self.language.ways if ways is None else ways
        names = [*sorted(table), *(name for name in self.language.favourites if name in table)]
        for _ in range(self.random.randint(1, self.steps) if body.depth > 0 else 0):
            self.use(body, table, self.random.choice(names))

    def use(self, body: Body, ways: Mapping[str, Way], name: str) -> None:
        self.ways.append(name)
        ways[name](self, body)
        self.ways.pop()
        body.mark()

    def finish(self, main: Body) -> Program:
        """Add the last mark of the main function and return the program."""
        main.mark()
        self.parts.append(self.language.main(self.end(main)))
        return self


Way = Callable[[Program, Body], None]
"""Adds one kind of hand-over to a function, and notes its expected causes and waits."""


def program(language: Language, seed: int, steps: int = 2, depth: int = 2) -> Program:
    """A random program; the same numbers give the same program."""
    made = Program(language, seed, steps, depth)
    main = made.begin(None, depth)
    main.mark()
    made.fill(main)
    return made.finish(main)


def every_way(language: Language, names: Sequence[str]) -> Program:
    """A program that uses each of these ways once."""
    made = Program(language, 0, 0, 0)
    main = made.begin(None, 0)
    main.mark()
    for name in names:
        if name in language.ways:
            made.use(main, language.ways, name)
    language.others(made, main, names)
    return made.finish(main)
