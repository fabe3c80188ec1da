"""TOML files with line numbers for error messages.

`tomllib` keeps no positions, so `scan` reads the text again and notes the line of every key, table and array element. It is
meant for text that `tomllib` has accepted, and it skips whatever it does not understand. `Source` joins file, data and lines;
`read` turns a table into a struct.
"""

from __future__ import annotations

import bisect
import json
import re
import tomllib
import types
import typing
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from undermine.config.templates import did_you_mean
from undermine.model.errors import UserError

KeyPath = tuple[str | int, ...]
T = TypeVar("T", bound=msgspec.Struct)

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_STRING = re.compile(
    r'"""(?:\\.|(?!""")[^\\])*"{3,5}'
    r"|'''(?:(?!''').)*'{3,5}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_BARE_VALUE = re.compile(r"[^,\]}#\n]*")


class Lines:
    """The line of every key path. A path without a line has the line of the nearest path above it."""

    def __init__(self) -> None:
        self._written: dict[KeyPath, int] = {}
        self._implied: dict[KeyPath, int] = {}

    def note(self, path: KeyPath, line: int) -> None:
        self._written.setdefault(path, line)
        for length in range(1, len(path)):
            self._implied.setdefault(path[:length], line)

    def of(self, path: KeyPath) -> int:
        for length in range(len(path), 0, -1):
            line = self._written.get(path[:length]) or self._implied.get(path[:length])
            if line is not None:
                return line
        return 1

    def by_key(self) -> dict[str, int]:
        """Dotted keys (no array elements) to lines."""
        paths = [path for path in self._implied | self._written if all(isinstance(p, str) for p in path)]
        return {dotted(path): self.of(path) for path in paths}


def scan(text: str) -> Lines:
    """The lines of all keys, tables and array elements of a valid TOML text."""
    scanner = _Scanner(text)
    scanner.document()
    return scanner.lines


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines = Lines()
        self._starts = [0] + [found.end() for found in re.finditer("\n", text)]

    def document(self) -> None:
        table: KeyPath = ()
        counts: Counter[KeyPath] = Counter()
        while self._skip(_BLANK) < len(self.text):
            before, line = self.at, self._line()
            if self._take("["):
                is_array = self._take("[")
                table = _under_last_element(self._key(), counts)
                if is_array:
                    counts[table] += 1
                    self.lines.note(table, line)
                    table = (*table, counts[table] - 1)
                self.lines.note(table, line)
                self._take("]]" if is_array else "]")
            else:
                self._pair(table)
            if self.at == before:
                self.at += 1

    def _pair(self, table: KeyPath) -> None:
        line = self._line()
        path = (*table, *self._key())
        self.lines.note(path, line)
        self._skip(_SPACE)
        self._take("=")
        self._skip(_SPACE)
        self._value(path)

    def _key(self) -> KeyPath:
        parts: list[str] = []
        while True:
            self._skip(_SPACE)
            if found := _STRING.match(self.text, self.at):
                parts.append(str(tomllib.loads(f"key = {found[0]}")["key"]))
            elif found := _BARE_KEY.match(self.text, self.at):
                parts.append(found[0])
            else:
                return tuple(parts)
            self.at = found.end()
            self._skip(_SPACE)
            if not self._take("."):
                return tuple(parts)

    def _value(self, path: KeyPath) -> None:
        if self._take("["):
            self._elements(path)
        elif self._take("{"):
            self._inline_table(path)
        else:
            found = _STRING.match(self.text, self.at) or _BARE_VALUE.match(self.text, self.at)
            self.at = found.end() if found else self.at

    def _elements(self, path: KeyPath) -> None:
        index = 0
        while self._skip(_BLANK) < len(self.text) and not self._take("]"):
            before = self.at
            self.lines.note((*path, index), self._line())
            self._value((*path, index))
            self._skip(_BLANK)
            index += self._take(",")
            if self.at == before:
                self.at += 1

    def _inline_table(self, path: KeyPath) -> None:
        while self._skip(_BLANK) < len(self.text) and not self._take("}"):
            before = self.at
            self._pair(path)
            self._skip(_BLANK)
            self._take(",")
            if self.at == before:
                self.at += 1

    def _skip(self, pattern: re.Pattern[str]) -> int:
        found = pattern.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return self.at

    def _take(self, token: str) -> bool:
        taken = self.text.startswith(token, self.at)
        self.at += len(token) * taken
        return taken

    def _line(self) -> int:
        return bisect.bisect_right(self._starts, self.at)


def _under_last_element(key: KeyPath, counts: Mapping[KeyPath, int]) -> KeyPath:
    """`[a.b]` after `[[a]]` belongs to the last element of `a`."""
    path: KeyPath = ()
    for position, part in enumerate(key):
        path = (*path, part)
        if counts.get(path) and position < len(key) - 1:
            path = (*path, counts[path] - 1)
    return path


def dotted(path: Iterable[str | int]) -> str:
    """The key as TOML writes it, without indexes of array elements."""
    names = [part for part in path if isinstance(part, str)]
    return ".".join(name if _BARE_KEY.fullmatch(name) else json.dumps(name) for name in names)


class Source:
    """One TOML file: its path, its data and its lines."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.data = _parse(path, text)
        self.lines = scan(text)
        self._refuse_nul((), self.data)

    def _refuse_nul(self, path: KeyPath, value: Any) -> None:
        """Refuse texts that cannot be a path, an argument or a variable."""
        if isinstance(value, str) and "\0" in value:
            raise self.error(path, "must not contain the character NUL; remove it")
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, inner in items:
            self._refuse_nul((*path, key), inner)

    @staticmethod
    def load(path: Path) -> Source:
        try:
            return Source(path, path.read_bytes().decode("utf-8-sig"))
        except FileNotFoundError:
            raise UserError(f"{path}: there is no such file; `undermine init` writes one") from None
        except UnicodeDecodeError as error:
            line = error.object[: error.start].count(b"\n") + 1
            raise UserError(f"{path}:{line}: the file is not UTF-8 text; save it as UTF-8") from None
        except OSError as error:
            raise UserError(f"{path}: the file cannot be read: {error.strerror}") from None

    def error(self, path: KeyPath, text: str) -> UserError:
        """An error with the text `FILE:LINE: KEY TEXT`."""
        return UserError(f"{self.path}:{self.lines.of(path)}: {dotted(path)} {text}")


_SYNTAX_HINTS = {
    "Invalid value": "text goes in quotes",
    "Unescaped": "write text with backslashes in single quotes, like 'ready \\d+'",
    "Illegal character '\\n'": "a closing quote is missing",
    "Expected '=' after a key": "a line is KEY = VALUE, a table is [NAME]",
    "Unterminated string": "a closing quote is missing",
    "Unclosed array": "a closing ] is missing",
}


def _parse(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        said = str(error)
        found = re.fullmatch(r"(.*) \(at (?:line (\d+), column \d+|end of document)\)", said, re.DOTALL)
        said, line = (found[1], found[2]) if found else (said, None)
        number = int(line) if line else len(text.rstrip().split("\n"))
        hint = next((f" ({hint})" for start, hint in _SYNTAX_HINTS.items() if said.startswith(start)), "")
        raise UserError(f"{path}:{number}: this is not valid TOML: {said[:1].lower()}{said[1:]}{hint}") from None


def show(value: object) -> str:
    """A short text for a value of the file."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    return json.dumps(value, default=str, ensure_ascii=False)


Reader = Callable[[Source, KeyPath, Any], Any]


def read(
    kind: type[T],
    source: Source,
    path: KeyPath,
    table: Any,
    readers: Mapping[tuple[type, str], Reader],
    homes: Mapping[str, str],
    **given: Any,
) -> T:
    """Return the struct that a table describes.

    `readers` convert values of the file to values of the struct. `homes` are the full keys of names, for hints about keys in the
    wrong table. `given` are the fields that are not keys of the file.
    """
    if not isinstance(table, dict):
        raise source.error(path, f"must be a table, not {show(table)}")
    hints = {name: hint for name, hint in field_types(kind).items() if name not in given}
    refuse_unknown(source, path, table, hints, homes)
    values = dict(given)
    for field in msgspec.structs.fields(kind):
        name, here = field.name, (*path, field.name)
        if name in given:
            continue
        if name not in table:
            if field.required:
                raise source.error(here, f"is missing; it must be {_description(hints[name])}")
            continue
        value = table[name]
        if struct := _struct_of(hints[name]):
            values[name] = read(struct, source, here, value, readers, homes)
            continue
        if reader := readers.get((kind, name)):
            value = reader(source, here, value)
        values[name] = _convert(source, here, value, hints[name])
    return kind(**values)


def field_types(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The types of the fields of a struct, with their descriptions."""
    return typing.get_type_hints(kind, include_extras=True)


def refuse_unknown(
    source: Source, path: KeyPath, table: Mapping[str, Any], known: Iterable[str], homes: Mapping[str, str]
) -> None:
    """Raise an error for the first key that is not known."""
    known = list(known)
    for name in table:
        if name not in known:
            hint = did_you_mean(name, known)
            if name in homes and not any(other.lower() == name.lower() for other in known):
                hint = f"; did you mean {homes[name]}?"
            where = f"[{dotted(path)}]" if path else "the file"
            raise source.error((*path, name), f"is not a known key{hint} (keys of {where}: {', '.join(known)})")


def _struct_of(hint: Any) -> type[msgspec.Struct] | None:
    """The struct in `Struct` or `Struct | None`."""
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    structs = (option for option in options if isinstance(option, type) and issubclass(option, msgspec.Struct))
    return next(structs, None)


def _convert(source: Source, path: KeyPath, value: Any, hint: Any) -> Any:
    try:
        converted = msgspec.convert(value, hint)
    except msgspec.ValidationError as error:
        raise _refusal(source, path, value, hint, str(error)) from None
    if converted == "" and any((meta.extra or {}).get("filled") for meta in _metas(hint)):
        raise _refusal(source, path, value, hint, "")
    if isinstance(converted, tuple) and path[-1] != "command":
        for index, item in enumerate(converted):
            if item in converted[:index]:
                raise source.error((*path, index), f"lists {show(item)} twice; remove one")
    return converted


def _refusal(source: Source, path: KeyPath, value: Any, hint: Any, said: str) -> UserError:
    found = re.search(r"at `\$\[(\d+)\]", said)
    verb = "not"
    if found and isinstance(value, list):
        value, path, verb = value[int(found[1])], (*path, int(found[1])), "but it holds"
    choices = _choices(hint)
    nearest = did_you_mean(value, choices) if isinstance(value, str) else ""
    return source.error(path, f"must be {_description(hint)}, {verb} {show(value)}{nearest}")


def _metas(hint: Any) -> list[msgspec.Meta]:
    return [meta for meta in getattr(hint, "__metadata__", ()) if isinstance(meta, msgspec.Meta)]


def _description(hint: Any) -> str:
    described = next((meta.description for meta in _metas(hint) if meta.description), None)
    choices = ", ".join(f'"{choice}"' for choice in _choices(hint))
    return (described or "one of {choices}").replace("{choices}", choices)


def _choices(hint: Any) -> tuple[str, ...]:
    """The words of a `Literal` anywhere in the type."""
    if typing.get_origin(hint) is typing.Literal:
        return typing.get_args(hint)
    inner = hint.__origin__ if hasattr(hint, "__metadata__") else None
    options = (inner,) if inner is not None else typing.get_args(hint)
    return next((found for found in map(_choices, options) if found), ())
