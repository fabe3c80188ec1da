"""Reads and writes EDN, the data format of Clojure, as far as histories need it.

The input is untrusted: its depth is limited, and tags are ignored, never run. Keywords and symbols become texts without their
colon, lists and sets become lists.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from undermine.model.errors import UserError

DEPTH_MAX = 64
_SHOWN_MAX = 40
_TOKEN = re.compile(
    r"""[\s,]*+(?:;[^\n]*+[\s,]*+)*+(?:
    (?P<open>\#\{|[(\[{]) | (?P<close>[)\]}]) | (?P<discard>\#_) | (?P<tag>\#[A-Za-z][\w.*+!?<>=/$&%-]*) |
    "(?P<text>(?:[^"\\]|\\.)*+)" | (?P<char>\\(?:newline|space|tab|return|u[0-9a-fA-F]{4}|.)) |
    (?P<number>[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?[MN]?(?:/\d+)?)(?=[\s,;()\[\]{}"]|\Z) |
    (?P<name>(?![+-]?\d):?[^\s,;()\[\]{}"\#\\^@`~]+) | (?P<end>\Z))""",
    re.VERBOSE | re.DOTALL,
)
_CLOSING = {"(": ")", "[": "]", "{": "}", "#{": "}"}
_WORDS = {"nil": None, "true": True, "false": False}
_ESCAPES = {"t": "\t", "r": "\r", "n": "\n", "b": "\b", "f": "\f", "\\": "\\", '"': '"'}
_CHARS = {"newline": "\n", "space": " ", "tab": "\t", "return": "\r"}
_NAME = re.compile(r"[A-Za-z*!?_<>=$&%][\w.*+!?<>=$&%-]*", re.ASCII)
_NOTHING = object()
_END = object()


def read(text: str, name: str) -> Iterator[Any]:
    """The values of the text, one after the other. `name` is the name of the file in errors."""
    reader = _Reader(text, name)
    while (value := reader.value(0)) is not _END:
        if value is not _NOTHING:
            yield value


class _Reader:
    def __init__(self, text: str, name: str) -> None:
        self._text = text
        self._name = name
        self._at = 0

    def _wrong(self, what: str) -> UserError:
        line = self._text.count("\n", 0, self._at) + 1
        return UserError(f"{self._name}:{line}: not EDN: {what}")

    def value(self, depth: int, closing: str = "") -> Any:
        """The next value; `_END` at the end or at `closing`; `_NOTHING` for a value that is to be ignored."""
        if depth > DEPTH_MAX:
            raise self._wrong(f"it is nested more than {DEPTH_MAX} levels deep")
        found = _TOKEN.match(self._text, self._at)
        if found is None:
            raise self._wrong(f"unexpected {self._text[self._at : self._at + _SHOWN_MAX].strip()!r}")
        self._at = found.end()
        kind, token = found.lastgroup or "", found[found.lastgroup or 0]
        match kind:
            case "open":
                return self._collection(token, depth)
            case "close" | "end":
                if token != closing:
                    raise self._wrong(f"{closing!r} is missing" if closing else f"unexpected {token!r}")
                return _END
            case "discard" | "tag":
                value = _NOTHING
                while value is _NOTHING:
                    value = self.value(depth + 1)
                if value is _END:
                    raise self._wrong(f"nothing follows {token}")
                return _NOTHING if kind == "discard" else value
            case "text":
                return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", self._escaped, token, flags=re.DOTALL)
            case "char":
                return _CHARS.get(token[1:], chr(int(token[2:], 16)) if len(token) == 6 and token[1] == "u" else token[1:])
            case "number":
                return self._number(token)
        return _WORDS[token] if token in _WORDS else token.removeprefix(":")

    def _collection(self, opening: str, depth: int) -> Any:
        items = []
        while (value := self.value(depth + 1, _CLOSING[opening])) is not _END:
            if value is not _NOTHING:
                items.append(value)
        if opening != "{":
            return items
        if len(items) % 2:
            raise self._wrong("a map has a key without a value")
        return {_key(key): value for key, value in zip(items[::2], items[1::2], strict=True)}

    def _escaped(self, found: re.Match[str]) -> str:
        letter = found[1]
        if len(letter) == 5:
            return chr(int(letter[1:], 16))
        if letter not in _ESCAPES:
            raise self._wrong(f"unknown escape \\{letter}")
        return _ESCAPES[letter]

    def _number(self, token: str) -> int | float:
        try:
            above, _, below = token.partition("/")
            number = above.rstrip("MN")
            value = float(number) if re.search(r"[.eE]", number) or token.endswith("M") else int(number)
            return value / int(below) if below else value
        except (ValueError, ZeroDivisionError, OverflowError):
            raise self._wrong(f"{token[:_SHOWN_MAX]!r} is not a number") from None


def _key(key: Any) -> Any:
    """The key in a form that a dictionary takes."""
    if isinstance(key, list):
        return tuple(map(_key, key))
    return str(key) if isinstance(key, dict) else key


# --- writing


def keyword(name: str) -> str:
    """The name as a keyword, or as a text if a keyword cannot have it."""
    return f":{name}" if _NAME.fullmatch(name) else write(name)


def write(value: Any) -> str:
    """A value as it comes from JSON. Keys of maps become keywords."""
    if value is None or isinstance(value, bool):
        return {None: "nil", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else write(str(value))
    if isinstance(value, list | tuple):
        return f"[{' '.join(map(write, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{keyword(str(name))} {write(held)}' for name, held in value.items())}}}"
    return '"' + str(value).translate(_WRITTEN) + '"'


_WRITTEN = {ord(char): f"\\{letter}" for letter, char in _ESCAPES.items() if letter in 'trn\\"'}
