"""Small concurrent programs whose causes and waits are known: made at random, from a table of ways to hand something on.

A program is a tree of functions. Each one marks what it does (`mark`, which the agent sees) and hands work on to others in one
of the ways of its language (`ways.py`, `java_ways.py`). While the text of the program is written, it is written down with it what
caused each mark.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Language:
    """What programs are written in."""

    head: str
    """What each of them begins with."""
    mark: str
    """A call of `mark` with the name that is put in."""
    word: str
    """What a plain function begins with."""
    function: Callable[[str, str, Sequence[str]], str]
    """The text of a function: its first word, its name with its parameters, and its lines."""
    main: Callable[[str], str]
    """The end of a program, which calls the function of this name."""
    ways: Mapping[str, Way]
    """Those that plain functions can use."""
    favourites: tuple[str, ...] = ()
    """Ways that are chosen more often: once more for each time that they are here."""
    others: Callable[[Program, Body, Sequence[str]], None] = lambda program, body, names: None
    """Uses those of these ways that only other functions can use."""


@dataclass(frozen=True)
class Cause:
    """What a mark must be caused by: the mark before the giving, sending or starting, and what leads from there to it."""

    kinds: tuple[str, ...]
    giver: str
    way: str


@dataclass(frozen=True)
class Wait:
    """A wait that must be ended: the operations, each the first of its name after a mark of its thread or task."""

    kind: str
    source: str
    release: str
    target: str
    wait: str
    way: str


@dataclass(frozen=True)
class Limit:
    """How long an operation may take at most, the first of its name after a mark of its thread or task; 0: for ever."""

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
    """How many locks and semaphores it holds just now."""
    limited: bool = False
    """Whether it has to be over by some time."""

    def mark(self) -> str:
        """Do something that is seen, and say what it is caused by."""
        self.last = f"m{self.program.number()}"
        self.program.causes[self.last] = self.cause
        self.program.under[self.last] = self.locks, self.limited
        self.add(self.program.language.mark.format(self.last))
        return self.last

    def add(self, *lines: str) -> None:
        self.lines += lines


class Program:
    """A program in the making, and in the end its `source`."""

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
        """The function is written: its name."""
        self.parts.append(self.language.function(word or self.language.word, body.name, body.lines))
        return body.name.partition("(")[0]

    def leaf(self, cause: Cause | None, *lines: str, parameters: str = "") -> tuple[str, str]:
        """A function that hands nothing on: its name, and its last mark."""
        body = self.begin(cause, 0, parameters)
        body.mark()
        body.mark()
        body.add(*lines)
        return self.end(body), body.last

    def child(
        self, body: Body, kinds: str, giver: str, *ends: str, before: tuple[str, ...] = (), parameters: str = "",
        ways: Mapping[str, Way] | None = None, word: str = "",
    ) -> tuple[str, str]:  # fmt: skip
        """A function that may hand on itself: its name, and its last mark. `before` and `ends` are lines around what it does."""
        child = self.begin(self.cause(kinds, giver), body.depth - 1, parameters)
        child.add(*before)
        child.mark()
        self.fill(child, ways)
        child.mark()
        child.add(*ends)
        return self.end(child, word), child.last

    def fill(self, body: Body, ways: Mapping[str, Way] | None = None) -> None:
        """Some steps at random, fewer the deeper we are."""
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
        """All is written but the last mark of the function that is called first."""
        main.mark()
        self.parts.append(self.language.main(self.end(main)))
        return self


Way = Callable[[Program, Body], None]
"""Writes how a function hands something on, and what is known of that."""


def program(language: Language, seed: int, steps: int = 2, depth: int = 2) -> Program:
    """A program at random; the same for the same numbers."""
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
