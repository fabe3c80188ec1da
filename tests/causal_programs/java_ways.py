"""All kinds of hand-over in generated Java programs, by the version of the JDK."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from generator import Language, Way
from java_pools import FORKED, POOLS, STAGES, THREADS, VIRTUAL
from java_queues import QUEUES
from java_streams import FILES, STREAMS
from java_text import HEAD, function, main
from java_waits import LOCKS, WAITS

WAYS: dict[str, Way] = {**THREADS, **POOLS, **STAGES, **QUEUES, **WAITS, **LOCKS, **STREAMS, **FILES}
NEWER: dict[int, dict[str, Way]] = {21: VIRTUAL, 25: FORKED}
"""The ways that need at least this version of the JVM."""
_OLD = Language(head=HEAD, mark='mark("{}");', word="static void", function=function, main=main, ways=WAYS)


def java(major: int) -> Language:
    """Java as JVMs of this version support it."""
    ways = dict(WAYS)
    for since, newer in NEWER.items():
        ways |= newer if major >= since else {}
    return replace(_OLD, ways=ways)


def late(language: Language) -> Language:
    """The same language, but handed-over work begins late and nobody waits for it to begin."""
    return replace(language, head=language.head.replace("LATE_MS = 0", "LATE_MS = 40"))


def late_starters(language: Language) -> Language:
    """The same language, but a thread that starts another one continues late."""

    def slow(word: str, name: str, lines: Sequence[str]) -> str:
        return function(word, name, lines).replace(".start();", ".start(); Thread.sleep(40);")

    return replace(language, function=slow)
