"""How the workload controls one member: by four-letter words, and by request files for `Member.java`."""

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
    """True for a function of Member.java, which writes ZooKeeper's files before it starts."""
    return function.startswith(":Member.")


# -- four-letter words -----------------------------------------------------------------------------------


def ask(node: Any, word: str) -> str:
    """A server's answer to a four-letter word; "" if there is none."""
    try:
        with socket.create_connection((node.host, node.ports["client"]), WORD_S) as connection:
            connection.settimeout(WORD_S)
            connection.sendall(word.encode())
            return b"".join(iter(lambda: connection.recv(65536), b"")).decode(errors="replace")
    except OSError:
        return ""


def mode(node: Any) -> str:
    """`leader` or `follower`; "" while it does not serve."""
    return field_of("Mode", ask(node, "srvr"))


def agree(nodes: Iterable[Any]) -> bool:
    """True if all these servers have applied the same updates."""
    zxids = {field_of("Zxid", ask(node, "srvr")) for node in nodes}
    return len(zxids) == 1 and zxids != {""}


def field_of(key: str, answer: str) -> str:
    """The value of a key in the answer to `srvr`; "" if it is missing."""
    lines = (line.partition(":") for line in answer.splitlines())
    return next((value.strip() for name, _, value in lines if name == key), "")


# -- wishes ----------------------------------------------------------------------------------------------


def wish(node: Any, word: str) -> str:
    """Ask the member to `start` or `stop`. The request holds until the next one, also after the process was restarted."""
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
    """The last request, `start` or `stop`; "" if there was none."""
    return (words_in(f"{node.dir}.wish") or ["", ""])[1]


def stopped(node: Any) -> bool:
    """True if the member has stopped on request."""
    number = (words_in(f"{node.dir}.wish") or ["0"])[0]
    return words_in(f"{node.dir}.state") == [number, "stopped"]


def words_in(path: str) -> list[str]:
    """The two words of a request or state file, or an empty list."""
    try:
        words = Path(path).read_text().split()
    except OSError:
        return []
    return words if len(words) == 2 else []
