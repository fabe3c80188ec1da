"""Targets with variables, and the samples that an agent recorded of them."""

from __future__ import annotations

from typing import Any

from fake_tool import Outcome

SEND = """
    import socket
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    def send():
        return sender.sendto(b"x", ("127.0.0.1", 9))
"""


def variable(path: str, name: str = "v", **slots: int) -> dict[str, Any]:
    return {"node": "s1", "name": name, "path": f"__main__:{path}", "slots": slots}


def samples(outcome: Outcome, *names: str) -> list[tuple[str, str | None]]:
    """Key and text of the samples, in order; None: absent."""
    found = [event for event in outcome.ok().of("variable.sample") if not names or event.target in names]
    assert not [event for event in found if event.size not in (0, 1) or event.end_ns != event.t_ns]
    return [(event.resource, event.content if event.size else None) for event in found if event.size or not event.content]


def reasons(outcome: Outcome) -> list[str]:
    """Why a path led nowhere, in order."""
    found = [event for event in outcome.ok().of("variable.sample") if not event.size and event.content]
    assert not [event for event in found if event.resource]
    return [event.content for event in found]
