"""The ways in which a generated Java program hands something on, in all and by the version of the JDK."""

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
"""Ways that only JVMs from this version on have."""
_OLD = Language(head=HEAD, mark='mark("{}");', word="static void", function=function, main=main, ways=WAYS)


def java(major: int) -> Language:
    """As JVMs of this version know it."""
    ways = dict(WAYS)
    for since, newer in NEWER.items():
        ways |= newer if major >= since else {}
    return replace(_OLD, ways=ways)


def late(language: Language) -> Language:
    """The same where all that is handed on begins late, and nobody gives it time."""
    return replace(language, head=language.head.replace("LATE_MS = 0", "LATE_MS = 40"))


def late_starters(language: Language) -> Language:
    """The same where whoever starts a thread goes on late."""

    def slow(word: str, name: str, lines: Sequence[str]) -> str:
        return function(word, name, lines).replace(".start();", ".start(); Thread.sleep(40);")

    return replace(language, function=slow)
