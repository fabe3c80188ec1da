"""JSON: texts and documents in streams.

The codec does its work alone. Then the text is read once more for the positions of its keys, texts and numbers, and each
position is matched with the value that is there.
"""

from __future__ import annotations

import re

from undermine_agent.labels.formats import value_at
from undermine_agent.labels.functions import stand_in
from undermine_agent.labels.table import joined, of, over, put, relabelled, shifted, within
from undermine_agent.labels.texts import encoded

_TEXTS = (str, bytes, bytearray)

_TOKENS = re.compile(r'"((?:[^"\\]|\\.)*)"|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|true|false|null', re.DOTALL).finditer


class _Mismatch(Exception):
    """The text and the value don't show the same structure."""


def _positions(text: str) -> list:
    """Begin, end and whether it is a text, for each key, text and number."""
    found = []
    for token in _TOKENS(text):
        kind = token.lastindex
        if kind is not None:
            found.append((*token.span(kind), kind == 1))
    return found


def _json_loaded(result, args, options):
    text = args[0]
    if not of(text):
        return result
    if type(text) is not str:
        text = encoded(text.decode(), (text,), {})
    segments = of(text)
    if type(result) is str and type(args[0]) is str or type(result) in (int, float):
        begin, end, is_text = _positions(text)[0]
        return put(result, value_at(segments, begin, end, is_text, result))
    return _matched(result, _slots_of_json(result), _positions(text), segments, bool(options) or len(args) > 1)


def _matched(result, leaves, positions, segments, changed: bool):
    """Label the leaves of a decoded value, which are in the order of the text."""
    if changed or len(leaves) != len(positions):
        return relabelled(result, lambda value: put(value, over(len(value) if type(value) in _TEXTS else 1, segments)))
    places = iter(positions)
    seen: dict = {}

    def label(value):
        begin, end, is_text = next(places)
        found = value_at(segments, begin, end, is_text, value)
        if id(value) in seen:  # decoders use one object for equal keys
            found = over(len(value) if type(value) in _TEXTS else 1, found, of(value))
        made = put(value, found)
        seen[id(made)] = made
        return made

    return relabelled(result, lambda value: value if type(value) is bool else label(value), 1000)


def _slots_of_json(value) -> list:
    """The keys, texts and numbers of a decoded value, in the order in which `relabelled` gets to them."""
    found: list = []

    def note(leaf):
        if type(leaf) is not bool:
            found.append(leaf)
        return leaf

    relabelled(value, note, 1000)
    return found


def _json_dumped(result, args, options):
    inside = within(args[0])
    if not inside:
        return result
    try:
        leaves: list = []
        _find_leaves(args[0], bool(options.get("sort_keys")), leaves)
        positions = _positions(result)
        if len(leaves) != len(positions):
            raise _Mismatch
    except (_Mismatch, RecursionError, TypeError):
        return put(result, over(len(result), inside))
    return put(result, _placed(leaves, positions))


def _placed(leaves, positions) -> list:
    """The segments of a text that has these values at these positions."""
    found: list = []
    for leaf, (begin, end, _) in zip(leaves, positions):
        segments = of(leaf)
        if segments:
            same = type(leaf) is str and len(leaf) == end - begin
            found.extend(shifted(segments if same else over(end - begin, segments), begin))
    return joined(found)


def _find_leaves(value, by_key: bool, found: list) -> None:
    if value is None or value is True or value is False:
        return
    if isinstance(value, (str, int, float)):
        if type(value) is float and value - value != 0:
            raise _Mismatch  # NaN and infinity aren't numbers of JSON
        found.append(value)
    elif isinstance(value, dict):
        for key, part in sorted(value.items()) if by_key else value.items():
            if key is not None and not isinstance(key, (str, int, float)):
                raise _Mismatch
            found.append(key)
            _find_leaves(part, by_key, found)
    elif isinstance(value, (list, tuple)):
        for part in value:
            _find_leaves(part, by_key, found)
    else:
        raise _Mismatch


# --- documents in streams


class _Reader:
    """Stands for a stream while `json.load` reads it. `text` is the document with its labels."""

    __slots__ = ("stream", "text")

    def __init__(self, stream):
        self.stream = stream
        self.text = None

    def read(self):
        self.text = stand_in(self.stream.read)()
        return self.text


def _before_load(args, options):
    """`options` are those of this call alone: a stream by name becomes an argument by position."""
    if not args and "fp" not in options:
        return args, options
    return (_Reader(args[0] if args else options.pop("fp")), *args[1:]), options


def _after_load(result, args, options):
    if not args or args[0].text is None:
        return result
    return _json_loaded(result, (args[0].text, *args[1:]), options)


class _Writer:
    """Stands for a stream while `json.dump` writes to it, part by part. Each key, text and number is in one part."""

    __slots__ = ("stream", "inside", "leaves")

    def __init__(self, stream, value, options):
        self.stream = stream
        self.inside = within(value)
        self.leaves = None
        if not self.inside or options.get("cls") is not None:
            return
        leaves: list = []
        try:
            _find_leaves(value, bool(options.get("sort_keys")), leaves)
        except (_Mismatch, RecursionError, TypeError):
            return
        self.leaves = iter(leaves)

    def write(self, part):
        write = stand_in(self.stream.write)
        return write(put(part, self._segments_of(part)) if self.inside and type(part) is str else part)

    def _segments_of(self, part) -> list:
        if self.leaves is not None:
            positions = _positions(part)
            leaves = [leaf for _, leaf in zip(positions, self.leaves)]
            if len(leaves) == len(positions):
                return _placed(leaves, positions)
            self.leaves = None
        return over(len(part), self.inside)


def _before_dump(args, options):
    if not args or len(args) < 2 and "fp" not in options:
        return args, options
    writer = _Writer(args[1] if len(args) > 1 else options["fp"], args[0], options)
    if len(args) < 2:
        del options["fp"]
    return (args[0], writer, *args[2:]), options


def _after_dump(result, args, options):
    return result


JSON = {
    "loads": _json_loaded, "dumps": _json_dumped, "load": (_after_load, _before_load), "dump": (_after_dump, _before_dump),
}  # fmt: skip
CODECS = {
    "encode": lambda result, args, options: _json_dumped(result, args[1:], {"sort_keys": args[0].sort_keys}),
    "decode": lambda result, args, options: _json_loaded(result, args[1:2], {}),
}
