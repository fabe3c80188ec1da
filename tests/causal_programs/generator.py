"""Small concurrent programs whose causes and waits are known: made at random, from a table of ways to hand something on.

A program is a tree of functions. Each one marks what it does (`mark`, which the agent sees) and hands work on to others in one
of the ways of `ways.py`. While the text of the program is written, it is written down with it what caused each mark.

Whatever a way needs is imported before there is a thread: some programs fork in one thread while others run, and a child that is
forked while another thread imports a module waits for ever where it imports that module itself.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

HEAD = '''
import asyncio, concurrent.futures, contextlib, multiprocessing, os, queue, socket, subprocess, sys, threading, time
import concurrent.futures.process, concurrent.futures.thread, encodings.idna
import multiprocessing.pool, multiprocessing.popen_fork, multiprocessing.synchronize

fork = multiprocessing.get_context("fork")
HERE = os.getcwd()


def mark(name):
    try:
        os.stat(os.path.join(HERE, "mark-" + name))
    except FileNotFoundError:
        pass


def later():
    """Time for somebody else to begin waiting."""
    time.sleep(0.02)

'''


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
        self.add(f'mark("{self.last}")')
        return self.last

    def add(self, *lines: str) -> None:
        self.lines += lines

    def text(self, word: str) -> str:
        return "\n".join([f"{word} {self.name}:", *(f"    {line}" for line in self.lines), "", ""])


class Program:
    """A program in the making, and in the end its `source`."""

    def __init__(self, seed: int, steps: int = 2, depth: int = 2) -> None:
        self.random = random.Random(seed)
        self.steps, self.depth = steps, depth
        self.causes: dict[str, Cause | None] = {}
        self.under: dict[str, tuple[int, bool]] = {}
        self.waits: list[Wait] = []
        self.parts: list[str] = []
        self.ways: list[str] = []
        self._count = 0

    def number(self) -> int:
        self._count += 1
        return self._count

    @property
    def source(self) -> str:
        return HEAD + "\n".join(self.parts)

    def wait(self, kind: str, source: str, release: str, target: str, wait: str) -> None:
        self.waits.append(Wait(kind, source, release, target, wait, self.ways[-1]))

    def cause(self, kinds: str, giver: str) -> Cause:
        return Cause(tuple(kinds.split()), giver, self.ways[-1])

    def begin(self, cause: Cause | None, depth: int, parameters: str = "") -> Body:
        return Body(f"f{self.number()}({parameters})", self, cause, depth)

    def end(self, body: Body, word: str = "def") -> str:
        """The function is written: its name."""
        self.parts.append(body.text(word))
        return body.name.partition("(")[0]

    def leaf(self, cause: Cause, *lines: str) -> tuple[str, str]:
        """A function that hands nothing on: its name, and its last mark."""
        body = self.begin(cause, 0)
        body.mark()
        body.mark()
        body.add(*lines)
        return self.end(body), body.last


def program(seed: int, steps: int = 2, depth: int = 2) -> Program:
    """A program at random; the same for the same numbers."""
    from causal_programs.ways import fill

    made = Program(seed, steps, depth)
    main = made.begin(None, depth)
    main.mark()
    fill(made, main, is_async=False)
    main.mark()
    name = made.end(main)
    made.parts.append(_main(name))
    return made


def every_way(names: list[str]) -> Program:
    """A program that uses each of these ways once."""
    from causal_programs.ways import ASYNC, SYNC, use

    made = Program(0, 0, 0)
    main, later = made.begin(None, 0), made.begin(None, 0)
    main.mark()
    for name in names:
        if name in SYNC:
            use(made, main, SYNC, name)
    giver = main.mark()
    made.ways.append("run")
    later.cause = made.cause("start", giver)
    later.mark()
    for name in names:
        if name in ASYNC:
            use(made, later, ASYNC, name)
    main.add(f"asyncio.run({made.end(later, 'async def')}())")
    main.mark()
    made.parts.append(_main(made.end(main)))
    return made


def _main(name: str) -> str:
    return f'if __name__ == "__main__":\n    globals()[sys.argv[1] if len(sys.argv) > 1 else "{name}"]()\n'
