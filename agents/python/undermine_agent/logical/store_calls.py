"""Operations on an external store as texts: commands, keys and values, and the answers.

Such a text is the `resource` of the operation. It shows which operation on a store made another one possible.
protocol/README.md describes the format. A long value is replaced by a digest, which identifies it when it comes back.
"""

from __future__ import annotations

from undermine_agent.interpreter import forks
from undermine_agent.wire.tinyjson import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

GOT = "db.got"
ENTRIES_MAX = 20
VALUES_MAX = 40
PLAIN_MAX = 64
BYTES_MAX = 3500
_DEPTH_MAX = 4
_PLAIN = (str, bytes, int, float)


class StoreCall:
    """The request of one operation to a store: `commands` are (name, keys, values). `kind` names the command set."""

    __slots__ = ("store", "kind", "commands")

    def __init__(self, store: str, commands, kind: str = ""):
        self.store = store
        self.kind = kind
        self.commands = list(commands)

    def text(self) -> str:
        """The commands, as the resource of the operation."""
        entries = [(name, shown(keys), shown(values)) for name, keys, values in self.commands]
        return bounded(self.store, "do", entries, self.kind)

    def keys(self) -> str:
        """The keys of the commands in one text, if they have numbers, which the target masks; else nothing."""
        text = " ".join([part for _, keys, _ in self.commands[:ENTRIES_MAX] for part in shown(keys)])
        return text if any(character.isdigit() for character in text) else ""

    def text_of(self, got) -> str:
        """The answer, as the resource of the event that follows: (key, values) each."""
        return bounded(self.store, "got", [(short(key), shown(values)) for key, values in got])


def short(value) -> str:
    """A key or value as text; a digest of its bytes if it is long."""
    if type(value) is str and len(value) <= PLAIN_MAX and value.isascii():
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        data = bytes(value)
    else:
        data = (value if isinstance(value, str) else _text_of(value)).encode("utf-8", "backslashreplace")
    if len(data) <= PLAIN_MAX:
        return data.decode("utf-8", "backslashreplace")
    blake2b = forks.load("_blake2", "blake2b")
    return "#" + blake2b(data, digest_size=6).hexdigest()


def _text_of(value) -> str:
    """The text of an object; the name of its class if the text would be its address, which differs in each run."""
    kind: Any = type(value)
    if hasattr(kind, "__members__"):  # an enumeration
        return value.name
    return kind.__name__ if kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__ else str(value)


def shown(values) -> list:
    """Texts of values, also in lists, dictionaries and sets; at most one more than are kept."""
    found: list = []
    _collect(values, found, 0)
    return found


def _collect(value, found: list, depth: int) -> None:
    if value is None or len(found) > VALUES_MAX:
        return
    if type(value) in _PLAIN:
        found.append(short(value))
        return
    if isinstance(value, dict):
        value = [part for item in value.items() for part in item]
    if not isinstance(value, (list, tuple, set, frozenset)):
        found.append(short(value))
    elif depth < _DEPTH_MAX:
        for part in value:
            _collect(part, found, depth + 1)


def bounded(store: str, name: str, entries: list, kind: str = "") -> str:
    """The JSON text with as many entries as there is room for; `more` if some are left out."""
    begin = '{"store":%s' % quoted(store) + (',"kind":%s' % quoted(kind) if kind else "")
    room = BYTES_MAX - len(begin) - 30
    kept, more = [], len(entries) > ENTRIES_MAX
    for entry in entries[:ENTRIES_MAX]:
        more |= any(type(part) is list and len(part) > VALUES_MAX for part in entry)
        text = "[%s]" % ",".join([_json(part) for part in entry])
        room -= len(text) + 1
        if room < 0:
            more = True
            break
        kept.append(text)
    return '%s,"%s":[%s]%s}' % (begin, name, ",".join(kept), ',"more":true' if more else "")


def _json(part) -> str:
    return "[%s]" % ",".join(map(quoted, part[:VALUES_MAX])) if type(part) is list else quoted(part)
