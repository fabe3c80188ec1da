"""The agent of a process whose contents are recorded: each operation that moved bytes is followed by their tokens.

The accelerator leaves such operations to Python, so that they all come through `finish`.
"""

from __future__ import annotations

from undermine_agent.agent import Agent
from undermine_agent.content import moved
from undermine_agent.content.tokens import EDGE_BYTES, Tokens
from undermine_agent.core import Core
from undermine_agent.files.sqlite import Statement
from undermine_agent.interpreter import fast
from undermine_agent.names.subjects import Subject

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LOOK = {
    "file.write": moved.out,
    "file.read": moved.into,
    "file.map_write": moved.into_mapping,
    "file.map_read": moved.from_mapping,
    "net.send": moved.out,
    "net.recv": moved.into,
    "raw.send": moved.out,
    "raw.recv": moved.into,
    "pipe.write": moved.out,
    "pipe.read": moved.into,
}


class ContentAgent(Agent):
    def __init__(self, config: dict):
        fast.leave_bytes_to_python()
        super().__init__(config)
        self.tokens = self.operations["content.tokens"]
        self.notes_tokens = bool(config.get("content"))

    perform: Any = Core.perform  # the accelerator's would record without `finish`

    def finish(self, call, result, size=0, error=None, args=()):
        try:
            return super().finish(call, result, size, error, args)
        finally:
            if error is None and self.notes_tokens:
                self._note_tokens(call, result, args)

    def _note_tokens(self, call, result, args) -> None:
        look = _LOOK.get(call.operation.name)
        if look is None and type(call.subject) is not Statement:
            return
        try:
            found = Tokens()
            if look is not None:
                found.add(*look(result, args))
            else:
                _add_values(found, moved.values(result, args[2:]))
            digests = found.text()
            if digests:
                noted = self.enter(self.tokens, Subject("", digests), call.seq, 0, call.stack)
                if noted is not None:
                    self.leave(noted)
        except (TypeError, ValueError, BufferError):
            pass  # not plain bytes, or a buffer that has been closed since
        except Exception as error:
            self._note(error)


def _add_values(found: Tokens, values) -> None:
    """Add the tokens of values, until they have as many bytes as one buffer that is looked at."""
    left = 2 * EDGE_BYTES
    for value in values:
        if type(value) is int:
            found.add_number(value)
            continue
        data = value[:left].encode("utf-8", "surrogatepass") if type(value) is str else bytes(value[:left])
        found.add(data)
        left -= len(data)
        if left <= 0:
            return
