"""How the workload talks to one member beside its clients: by four-letter words, and by wishes to `Member.java`."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

WISH_S = 3.0
WORD_S = 1.0


def prepares(function: str) -> bool:
    """Is that a function of Member.java, which writes what ZooKeeper needs before it starts?"""
    return function.startswith(":Member.")


# -- four-letter words -----------------------------------------------------------------------------------


def ask(node: Any, word: str) -> str:
    """What a server answers to a four-letter word; "" if it does not."""
    try:
        with socket.create_connection((node.host, node.ports["client"]), WORD_S) as connection:
            connection.settimeout(WORD_S)
            connection.sendall(word.encode())
            return b"".join(iter(lambda: connection.recv(65536), b"")).decode(errors="replace")
    except OSError:
        return ""


def mode(node: Any) -> str:
    """`leader` or `follower`; "" while it does not serve."""
    return said_of("Mode", ask(node, "srvr"))


def agree(nodes: Iterable[Any]) -> bool:
    """Have all these servers done the same updates?"""
    zxids = {said_of("Zxid", ask(node, "srvr")) for node in nodes}
    return len(zxids) == 1 and zxids != {""}


def said_of(what: str, answer: str) -> str:
    """What `srvr` says of this; "" if nothing."""
    lines = (line.partition(":") for line in answer.splitlines())
    return next((value.strip() for key, _, value in lines if key == what), "")


# -- wishes ----------------------------------------------------------------------------------------------


def wish(node: Any, word: str) -> str:
    """Let the member `start` or `stop`. It stands until another wish, also for a process that is started anew."""
    number = str(time.monotonic_ns())
    part = Path(f"{node.dir}.wish.part")
    part.write_text(f"{number} {word}\n")
    os.replace(part, f"{node.dir}.wish")
    until = time.monotonic() + WISH_S
    while (state := words_in(f"{node.dir}.state"))[:1] != [number]:
        if time.monotonic() > until:
            raise TimeoutError(f"{node.id} does not {word}")
        time.sleep(0.01)
    return state[1]


def wished(node: Any) -> str:
    """The last wish, `start` or `stop`; "" if there was none."""
    return (words_in(f"{node.dir}.wish") or ["", ""])[1]


def stopped(node: Any) -> bool:
    """Does the member do nothing, as it was told to?"""
    number = (words_in(f"{node.dir}.wish") or ["0"])[0]
    return words_in(f"{node.dir}.state") == [number, "stopped"]


def words_in(path: str) -> list[str]:
    """The two words of such a file, or nothing."""
    try:
        words = Path(path).read_text().split()
    except OSError:
        return []
    return words if len(words) == 2 else []
