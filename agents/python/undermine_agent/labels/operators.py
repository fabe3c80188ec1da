"""Operators, subscripts, loops and formatted texts: how labels flow through them. Each hook carries out the operation itself."""

from __future__ import annotations

import _operator

from undermine_agent.labels import table
from undermine_agent.labels.formatting import formatted, percent
from undermine_agent.labels.table import cut, joined, keep, labels, of, over, put, shifted

_SEQUENCES = (str, bytes, bytearray)
_INDEXED = frozenset((str, bytes, bytearray, memoryview))
_MATCH = type(__import__("re").match("", ""))
_NUMBERS = (int, float)
_OBJECTS = ("decimal", "pathlib")
"""Modules whose objects have no parts, and never change."""
_find = labels.get

_PLAIN = {
    "+": _operator.add, "-": _operator.sub, "*": _operator.mul, "/": _operator.truediv, "//": _operator.floordiv,
    "%": _operator.mod, "**": _operator.pow, "<<": _operator.lshift, ">>": _operator.rshift, "|": _operator.or_,
    "^": _operator.xor, "&": _operator.and_, "+=": _operator.iadd, "-=": _operator.isub, "*=": _operator.imul,
    "/=": _operator.itruediv, "//=": _operator.ifloordiv, "%=": _operator.imod, "**=": _operator.ipow, "<<=": _operator.ilshift,
    ">>=": _operator.irshift, "|=": _operator.ior, "^=": _operator.ixor, "&=": _operator.iand,
}  # fmt: skip


def hooks(guard) -> dict:
    """The hooks of operators, by kind. `guard(label, result, *args)` labels a result, and never raises."""
    found: dict = {}
    for kind, function in _PLAIN.items():
        found[kind] = _operation(kind.rstrip("="), function, guard)
    found["neg"], found["~"] = _sign(_operator.neg, guard), _sign(_operator.invert, guard)
    found["[]"] = _subscript(guard)
    found["=[]"] = _container
    found["item="], found["attribute="] = _changes(found)
    found["for"] = _loop
    found["is"] = table.plain
    found["{}"] = _format(guard)
    found["f"] = _join(guard)
    return found


def _operation(kind: str, function, guard):
    label = _concatenation if kind == "+" else percent if kind == "%" else _repetition if kind == "*" else _computed
    looks_inside = kind == "%"

    def operation(one, other):
        if not labels:
            return function(one, other)
        first, second = _find(id(one)), _find(id(other))
        if first is None and second is None and not (looks_inside and type(one) in _SEQUENCES):
            return function(one, other)
        size = len(one) if type(one) in _SEQUENCES else 0
        return guard(label, function(one, other), one, other, size)

    return operation


def _concatenation(result, one, other, size):
    if type(result) not in _SEQUENCES:
        return _computed(result, one, other, size)
    before = of(one) if one is not result or type(one) is bytearray else cut(of(one), 0, size)
    segments = joined([*before, *shifted(of(other), size)])
    if type(result) is bytearray:
        keep(result, segments)
        return result
    return put(result, segments)


def _repetition(result, one, other, size):
    text, times = (one, other) if type(one) in _SEQUENCES else (other, one)
    if type(text) not in _SEQUENCES or type(times) is not int:
        return _computed(result, one, other, size)
    segments, length = of(text), size or len(text)
    found = [each for number in range(min(times, 64)) for each in shifted(segments, number * length)]
    return put(result, found)


def _computed(result, one, other, size):
    if type(result) in _SEQUENCES:
        return put(result, over(len(result), of(one), of(other)))
    return computed(result, of(one), of(other))


def computed(result, *several):
    """Label a number, or an object such as a path, that was made from values with these segments."""
    cls = type(result)
    if cls in _NUMBERS:
        return put(result, over(1, *several))
    if cls.__module__.partition(".")[0] in _OBJECTS:
        segments = over(1, *several)
        if segments:
            keep(result, segments)
    return result


def _changes(operations):
    """Hooks of `owner[key] += value` and `owner.name += value`. They return a stand-in for the owner, whose item or attribute
    stands for its value while the operator is applied."""
    named = {"__i%s__" % function.__name__[1:]: operations[kind] for kind, function in _PLAIN.items() if kind.endswith("=")}
    methods = {name: _applied(operation) for name, operation in named.items()}
    left = type("Left", (_Value,), {"__slots__": (), **methods})

    class Item(_Value):
        __slots__ = ()

        def __getitem__(self, key):
            return left(self.value[key])

        def __setitem__(self, key, value):
            self.value[key] = value

    class Attribute:
        __slots__ = ("held",)

        def __getattribute__(self, name):
            return left(getattr(_owner_of(self), name))

        def __setattr__(self, name, value):
            setattr(_owner_of(self), name, value)

    slot = Attribute.__dict__["held"]
    _owner_of = slot.__get__

    def attribute(owner):
        if not labels:
            return owner
        made = Attribute()
        slot.__set__(made, owner)
        return made

    return (lambda owner: Item(owner) if labels else owner), attribute


class _Value:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


def _applied(operation):
    return lambda self, other: operation(self.value, other)


def _sign(function, guard):
    def sign(value):
        result = function(value)
        return guard(_signed, result, value) if id(value) in labels else result

    return sign


def _signed(result, value):
    return computed(result, of(value))


# --- subscripts


def _subscript(guard):
    def subscript(owner, key):
        result = owner[key]
        cls = type(owner)
        if cls in _INDEXED:
            return guard(item_of, result, owner, key) if id(owner) in labels else result
        if cls is _MATCH:
            return guard(_group, result, owner, key)
        label = ITEMS.get(cls)
        return result if label is None or id(owner) not in labels else guard(label, result, owner, key)

    return subscript


ITEMS: dict = {}
"""By type: `label(result, owner, key)` for an item, or for a part."""


def item_of(result, owner, key):
    segments = of(owner)
    if type(key) is not slice:
        at = _operator.index(key)
        at += len(owner) if at < 0 else 0
        return put(result, cut(segments, at, at + 1))
    begin, end, step = key.indices(len(owner))
    if step == 1:
        found = cut(segments, begin, end)
    else:
        parts = range(begin, end, step)
        found = [each for at, part in enumerate(parts[:1024]) for each in shifted(cut(segments, part, part + 1), at)]
    if type(result) in (bytearray, memoryview):
        if found:
            keep(result, found)
        return result
    return put(result, found)


def _group(result, match, key):
    return part_of(result, match.string, *match.span(key))


def part_of(result, whole, begin: int, end: int):
    return put(result, cut(of(whole), begin, end)) if type(result) in _SEQUENCES else result


class _Store:
    """Stands for a bytearray while one of its items is stored or deleted."""

    __slots__ = ("owner",)

    def __init__(self, owner):
        self.owner = owner

    def __setitem__(self, key, value):
        owner, size = self.owner, len(self.owner)
        owner[key] = value
        replace_part(owner, size, key, of(value), len(owner) - size)

    def __delitem__(self, key):
        owner, size = self.owner, len(self.owner)
        del owner[key]
        replace_part(owner, size, key, (), len(owner) - size)


def replace_part(owner, size: int, key, segments, growth: int) -> None:
    """The bytes at this key of a bytearray, which had this size, are replaced by bytes with these segments."""
    begin, end, step = key.indices(size) if type(key) is slice else (key + size * (key < 0), key + size * (key < 0) + 1, 1)
    if step != 1:
        keep(owner, over(len(owner), of(owner), segments))
        return
    end = max(begin, end)
    before, after = cut(of(owner), 0, begin), shifted(cut(of(owner), end, size), end + growth)
    inner = cut(segments, 0, end + growth - begin)
    keep(owner, joined([*before, *shifted(inner, begin), *after]))


def _container(owner):
    if not labels:
        return owner
    store = STORES.get(type(owner))
    return owner if store is None else store(owner)


STORES: dict = {bytearray: _Store}
"""By type: a class whose instances stand for an object while one of its items is stored or deleted."""


# --- loops


def _loop(values):
    if not labels:
        return values
    cls = type(values)
    if cls in _SEQUENCES:
        return _elements(values) if id(values) in labels else values
    lines = LINES.get(cls)
    return values if lines is None else lines(values)


LINES: dict = {}
"""By type of stream: a function that returns its lines with labels."""


def _elements(values):
    segments = of(values)
    for at, value in enumerate(values):
        yield put(value, cut(segments, at, at + 1))


def elements(values):
    """The elements of a value that is about to be read one by one, with their labels."""
    return list(_elements(values)) if type(values) in _SEQUENCES and id(values) in labels else values


# --- f-strings


def _format(guard):
    def form(value, how, form):
        shown = value if how < 0 else str(value) if how == 115 else repr(value) if how == 114 else ascii(value)
        result = format(shown, form)
        return guard(formatted, result, value) if labels else result

    return form


def _join(guard):
    def join(*parts):
        result = "".join(parts)
        return guard(_text, result, parts) if labels else result

    return join


def _text(result, parts):
    found, at = [], 0
    for part in parts:
        entry = _find(id(part))
        if entry is not None:
            found.extend(shifted(entry[1], at))
        at += len(part)
    return put(result, joined(found))
