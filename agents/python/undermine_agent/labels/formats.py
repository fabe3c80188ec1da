"""Formats whose encoders and decoders are not in Python: struct, arrays, pickle, MessagePack.

The codec does its work alone. Then the encoded bytes are read once more for the positions of their values, and each position
is matched with the value that is there.
"""

from __future__ import annotations

import re

from undermine_agent.interpreter import forks
from undermine_agent.labels.operators import ITEMS, STORES, replace_part
from undermine_agent.labels.table import cut, joined, keep, labels, of, over, parts_of, put, relabelled, shifted, within

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

# --- arrays: their labels are those of their bytes, by position


def _size(array) -> int:
    return len(array) * array.itemsize


def _segments_of(values, array) -> list:
    """The labels of the bytes that these values have in an array."""
    size = array.itemsize
    if type(values) in (list, tuple):
        return joined([each for at, value in enumerate(values) for each in shifted(over(size, of(value)), at * size)])
    if type(values) is str:
        return over(len(values) * size, of(values))
    return list(of(values))


def _array_created(result, args, options):
    if len(args) > 1:
        segments = _segments_of(args[1], result)
        if segments:
            keep(result, segments)
    return result


def _sized(args, options):
    return args, {"size": _size(args[0])}


def _extended(result, args, memo):
    array, segments = args[0], _segments_of(args[1], args[0])
    if segments:
        keep(array, joined([*of(array), *shifted(segments, memo["size"])]))
    return result


def _appended(result, args, memo):
    return _extended(result, (args[0], [args[1]]), memo)


def _moved(result, args, memo):
    """Items have other places now: all of the array, and an item that was removed, has all labels."""
    array, segments = args[0], [*of(args[0]), *(part for value in args[1:] for part in of(value))]
    if segments:
        keep(array, over(_size(array), segments))
    return put(result, over(1, segments)) if type(result) in (int, float) else result


def _bytes_of(result, args, options):
    return put(result, of(args[0]))


def _listed(result, args, options):
    array = args[0]
    if of(array):
        for at, value in enumerate(result):
            result[at] = _item(value, array, at)
    return result


def _item(result, array, key):
    size = array.itemsize
    if type(key) is not slice:
        at = (key + len(array) if key < 0 else key) * size
        return put(result, over(len(result) if type(result) is str else 1, cut(of(array), at, at + size)))
    begin, end, step = key.indices(len(array))
    segments = cut(of(array), begin * size, end * size) if step == 1 else over(_size(result), of(array))
    if segments:
        keep(result, segments)
    return result


class _Store:
    """Stands for an array while one of its items is stored or deleted."""

    __slots__ = ("owner",)

    def __init__(self, owner):
        self.owner = owner

    def __setitem__(self, key, value):
        array, before = self.owner, _size(self.owner)
        array[key] = value
        values = value if type(key) is slice else [value]
        _replace(array, before, key, _segments_of(values, array))

    def __delitem__(self, key):
        array, before = self.owner, _size(self.owner)
        del array[key]
        _replace(array, before, key, ())


def _replace(array, before: int, key, segments) -> None:
    if not segments and id(array) not in labels:
        return
    size = array.itemsize
    count = before // size
    begin, end, step = key.indices(count) if type(key) is slice else (key + count * (key < 0), key + count * (key < 0) + 1, 1)
    if step != 1:
        keep(array, over(_size(array), of(array), segments))
        return
    replace_part(array, before, slice(begin * size, end * size), segments, _size(array) - before)


ARRAY = {"array": _array_created}
ARRAYS = {
    "tobytes": _bytes_of, "tolist": _listed, "append": (_appended, _sized),
    **dict.fromkeys(("extend", "frombytes", "fromlist"), (_extended, _sized)),
    **dict.fromkeys(("pop", "insert", "remove", "reverse", "byteswap"), (_moved, _sized)),
}  # fmt: skip


def install_arrays(cls) -> None:
    ITEMS[cls], STORES[cls] = _item, _Store


# --- values with positions: pickle, MessagePack


def value_at(segments, begin: int, end: int, is_text: bool, value) -> list:
    part = cut(segments, begin, end)
    if is_text and type(value) in _TEXTS and len(value) == end - begin:
        return part
    return over(len(value) if type(value) in _TEXTS else 1, part)


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
            return put(value, value_at(segments, begin, end, type(value) in _TEXTS, value))

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
