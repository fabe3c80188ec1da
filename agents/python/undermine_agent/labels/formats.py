"""Formats whose encoders and decoders are not in Python: struct, JSON, pickle, MessagePack.

The codec does its work alone. Then the encoded bytes are read once more for the positions of their values, and each position
is matched with the value that is there.
"""

from __future__ import annotations

import re

from undermine_agent.interpreter import forks
from undermine_agent.labels.operators import replace_part
from undermine_agent.labels.table import cut, joined, of, over, parts_of, put, relabelled, shifted, within
from undermine_agent.labels.texts import encoded

_TEXTS = (str, bytes, bytearray)

# --- struct

_fields_known: dict = {}
_FIELD = re.compile(r"(\d*)([a-zA-Z?])")


def _fields(form) -> list:
    """The offset and size of each value of a format."""
    form = form.decode() if type(form) is bytes else form
    found = _fields_known.get(form)
    if found is None:
        if len(_fields_known) >= 1000:
            _fields_known.clear()
        found = _fields_known[form] = _offsets(form.replace(" ", ""))
    return found


def _offsets(form: str) -> list:
    size_of = forks.load("struct", "calcsize")
    order, fields = (form[0], form[1:]) if form[:1] in tuple("@=<>!") else ("", form)
    found, before = [], order
    for field in _FIELD.finditer(fields):
        count, kind = field.groups()
        if kind == "s" or kind == "p":
            size = int(count or 1)
            found.append((size_of(before), size))
        elif kind != "x":
            size = size_of("=" + kind) if order in ("=", "<", ">", "!") else size_of(kind)
            begin = size_of(before + "0" + kind)  # with the bytes that align it
            found.extend((begin + number * size, size) for number in range(int(count or 1)))
        before += field.group()
    return found


def _unpacked(result, form, data, offset: int = 0):
    segments = of(data)
    if not segments or type(result) is not tuple:
        return result
    found = []
    for value, (begin, size) in zip(result, _fields(form)):
        part = cut(segments, offset + begin, offset + begin + size)
        found.append(put(value, part if type(value) is bytes else over(1, part)))
    return tuple(found)


def _packed(form, values) -> list:
    found: list = []
    for value, (begin, size) in zip(values, _fields(form)):
        segments = of(value)
        if segments:
            found.extend(shifted(cut(segments, 0, size) if type(value) in _TEXTS else over(size, segments), begin))
    return joined(found)


def _unpack(result, args, options):
    return _unpacked(result, *args[:2])


def _unpack_from(result, args, options):
    return _unpacked(result, args[0], args[1], args[2] if len(args) > 2 else options.get("offset", 0))


def _pack(result, args, options):
    return put(result, _packed(args[0], args[1:]))


def _pack_into(result, args, options):
    form, buffer, offset, *values = args
    segments, size = _packed(form, values), forks.load("struct", "calcsize")(form)
    if type(buffer) is bytearray and (segments or of(buffer)):
        offset += len(buffer) if offset < 0 else 0
        replace_part(buffer, len(buffer), slice(offset, offset + size), segments, 0)
    return result


def _iterated(result, args, options):
    form, data = args[:2]
    if not of(data):
        return result
    size = forks.load("struct", "calcsize")(form)
    return (_unpacked(values, form, data, number * size) for number, values in enumerate(result))


STRUCT = {"pack": _pack, "unpack": _unpack, "unpack_from": _unpack_from, "pack_into": _pack_into, "iter_unpack": _iterated}


def _of_object(label):
    """The same for a method of `struct.Struct`, which has its format."""
    return lambda result, args, options: label(result, (args[0].format, *args[1:]), options)


STRUCT_METHODS = {name: _of_object(label) for name, label in STRUCT.items()}

# --- JSON

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
        return put(result, _value_at(segments, begin, end, is_text, result))
    return _matched(result, _slots_of_json(result), _positions(text), segments, bool(options) or len(args) > 1)


def _value_at(segments, begin: int, end: int, is_text: bool, value) -> list:
    part = cut(segments, begin, end)
    if is_text and type(value) in _TEXTS and len(value) == end - begin:
        return part
    return over(len(value) if type(value) in _TEXTS else 1, part)


def _matched(result, leaves, positions, segments, changed: bool):
    """Label the leaves of a decoded value, which are in the order of the text."""
    if changed or len(leaves) != len(positions):
        return relabelled(result, lambda value: put(value, over(len(value) if type(value) in _TEXTS else 1, segments)))
    places = iter(positions)
    seen: dict = {}

    def label(value):
        begin, end, is_text = next(places)
        found = _value_at(segments, begin, end, is_text, value)
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
        _leaves_of_json(args[0], bool(options.get("sort_keys")), leaves)
        positions = _positions(result)
        if len(leaves) != len(positions):
            raise _Mismatch
    except (_Mismatch, RecursionError, TypeError):
        return put(result, over(len(result), inside))
    found: list = []
    for leaf, (begin, end, _) in zip(leaves, positions):
        segments = of(leaf)
        if segments:
            same = type(leaf) is str and len(leaf) == end - begin
            found.extend(shifted(segments if same else over(end - begin, segments), begin))
    return put(result, joined(found))


def _leaves_of_json(value, by_key: bool, found: list) -> None:
    if value is None or value is True or value is False:
        return
    if isinstance(value, (str, int, float)):
        found.append(value)
    elif isinstance(value, dict):
        for key, part in sorted(value.items()) if by_key else value.items():
            found.append(key)
            _leaves_of_json(part, by_key, found)
    elif isinstance(value, (list, tuple)):
        for part in value:
            _leaves_of_json(part, by_key, found)
    else:
        raise _Mismatch


JSON = {"loads": _json_loaded, "dumps": _json_dumped}
JSON_CODECS = {
    "encode": lambda result, args, options: _json_dumped(result, args[1:], {"sort_keys": args[0].sort_keys}),
    "decode": lambda result, args, options: _json_loaded(result, args[1:2], {}),
}

# --- values with positions: pickle, MessagePack


def _pickled(data) -> list:
    """Value, begin and end of each text, bytes object and number in a pickle."""
    found: list = []
    last = None
    try:
        for opcode, value, at in forks.load("pickletools", "genops")(data):
            if last is not None:
                found.append((last[0], at - last[1], at))
            last = None
            if type(value) in (*_TEXTS, int, float) and opcode.name not in _NOT_VALUES:
                last = value, _size_in_pickle(opcode.name, value)
    except Exception:  # a pickle that refers to others
        return []
    return found


_NOT_VALUES = frozenset(("PROTO", "FRAME", "BINGET", "LONG_BINGET", "BINPUT", "LONG_BINPUT", "GET", "PUT", "GLOBAL", "MEMOIZE"))


def _size_in_pickle(name: str, value) -> int:
    if type(value) is str:
        return len(value.encode("utf-8", "surrogatepass")) + (name in ("UNICODE", "STRING"))
    if type(value) in _TEXTS:
        return len(value)
    sizes = {"BININT1": 1, "BININT2": 2, "BININT": 4, "BINFLOAT": 8}
    if name in sizes:
        return sizes[name]
    return (value.bit_length() + 8) // 8 if name in ("LONG1", "LONG4") else len(repr(value)) + 1


def _packed_by_msgpack(data) -> list:
    """Value, begin and end of each text, bytes object and number in a MessagePack document."""
    data, at, found = bytes(data), 0, []
    while at < len(data):
        kind = data[at]
        at += 1
        if kind < 0x80 or kind >= 0xE0:
            found.append((kind if kind < 0x80 else kind - 256, at - 1, at))
        elif 0xA0 <= kind < 0xC0:
            size = kind & 0x1F
            found.append((data[at : at + size].decode("utf-8", "replace"), at, at + size))
            at += size
        elif kind in _MSGPACK_TEXTS:
            width, is_text = _MSGPACK_TEXTS[kind]
            size = int.from_bytes(data[at : at + width], "big")
            at += width
            value = data[at : at + size]
            found.append((value.decode("utf-8", "replace") if is_text else value, at, at + size))
            at += size
        elif kind in _MSGPACK_NUMBERS:
            form, size = _MSGPACK_NUMBERS[kind]
            found.append((forks.load("struct", "unpack")(form, data[at : at + size])[0], at, at + size))
            at += size
        elif kind in _MSGPACK_SIZES:
            at += _MSGPACK_SIZES[kind]
        elif kind in (0xC7, 0xC8, 0xC9):
            width = 1 << (kind - 0xC7)
            at += width + 1 + int.from_bytes(data[at : at + width], "big")
        elif 0xD4 <= kind <= 0xD8:
            at += 1 + (1 << (kind - 0xD4))
    return found


_MSGPACK_TEXTS = {0xC4: (1, False), 0xC5: (2, False), 0xC6: (4, False), 0xD9: (1, True), 0xDA: (2, True), 0xDB: (4, True)}
_MSGPACK_NUMBERS = {
    0xCA: (">f", 4), 0xCB: (">d", 8), 0xCC: (">B", 1), 0xCD: (">H", 2), 0xCE: (">I", 4), 0xCF: (">Q", 8),
    0xD0: (">b", 1), 0xD1: (">h", 2), 0xD2: (">i", 4), 0xD3: (">q", 8),
}  # fmt: skip
_MSGPACK_SIZES = {0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4}


class _Places:
    """The positions of values in encoded bytes. Equal values are taken in order; the last one stands for all that follow."""

    def __init__(self, found):
        self.left: dict = {}
        for value, begin, end in reversed(found):
            self.left.setdefault((type(value), value), []).append((begin, end))

    def take(self, value):
        key = (bytes, bytes(value)) if type(value) is bytearray else (type(value), value)
        places = self.left.get(key)
        if not places:
            return None
        return places.pop() if len(places) > 1 else places[0]


def _decoder(read):
    def label(result, args, options):
        data = args[0]
        segments = of(data)
        if not segments:
            return result
        places = _Places(read(data))

        def label_one(value):
            place = places.take(value) if type(value) is not bool else None
            if place is None:
                return value
            begin, end = place
            return put(value, _value_at(segments, begin, end, type(value) in _TEXTS, value))

        return relabelled(result, label_one, 50)

    return label


def _encoder(read):
    def label(result, args, options):
        if type(result) is not bytes or not within(args[0], True):
            return result
        places, found = _Places(read(result)), []
        for leaf in _leaves(args[0]):
            place = places.take(leaf)
            segments = of(leaf)
            if not segments:
                continue
            if place is None:
                found.extend(over(len(result), segments))
                continue
            begin, end = place
            same = type(leaf) in _TEXTS and len(leaf) == end - begin
            found.extend(shifted(segments if same else over(end - begin, segments), begin))
        return put(result, joined(sorted(found)))

    return label


def _leaves(value) -> list:
    found: list = []
    _find_leaves(value, found, 50)
    return found


def _find_leaves(value, found: list, depth: int) -> None:
    if type(value) in (*_TEXTS, int, float):
        found.append(value)
    elif depth and value is not None and type(value) is not bool:
        for part in parts_of(value, True):
            _find_leaves(part, found, depth - 1)


PICKLE = {"loads": _decoder(_pickled), "dumps": _encoder(_pickled)}
_unpacked_document, _packed_document = _decoder(_packed_by_msgpack), _encoder(_packed_by_msgpack)
MSGPACK = {"packb": _packed_document, "dumps": _packed_document, "unpackb": _unpacked_document, "loads": _unpacked_document}
