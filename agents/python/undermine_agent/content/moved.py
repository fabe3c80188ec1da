"""The bytes that an operation moved, found in its arguments and its result.

The arguments may be those of a method, with or without its object, or of a function whose first argument is a descriptor.
"""

from __future__ import annotations

import _io
import sys

from undermine_agent.content.tokens import EDGE_BYTES

_PLAIN = (bytes, bytearray)
_WHOLE = 2 * EDGE_BYTES
VALUES_MAX = 1000


def out(result, args):
    """The edges of the bytes that were written or sent: as many as the result says, all if it isn't a number."""
    return _parts(_buffer_in(args), result if type(result) is int else None)


def into(result, args):
    """The edges of the bytes that were read or received: the result, or the beginning of a buffer in the arguments."""
    if type(result) is tuple:  # with the address of the sender
        result = result[0] if result else None
    if type(result) is int:
        return _parts(_buffer_in(args), result)
    if isinstance(result, _io.BytesIO):  # a message of `multiprocessing`
        result = result.getvalue()
    return _parts(result, None)


def from_mapping(result, args):
    return _parts(result, None) if type(result) is bytes else ()


def into_mapping(result, args):
    data = args[-1] if args else None
    return _parts(data, result if type(result) is int else None) if _is_buffer(data) else ()


def _is_buffer(data) -> bool:
    return type(data) in _PLAIN or type(data) is memoryview


def _buffer_in(args):
    """The buffer, or the list of buffers, among the arguments. The object of a mapped file never gets here."""
    for arg in args:
        if _is_buffer(arg) or type(arg) in (list, tuple):
            return arg
        try:
            return memoryview(arg)
        except TypeError:  # the object, a descriptor, a number
            pass
    return None


def _parts(data, size):
    """The edges of a buffer, or of all buffers in a list together, up to this size."""
    if type(data) in (list, tuple):
        return _joined(data, size)
    if type(data) not in _PLAIN:
        if data is None:
            return ()
        data = memoryview(data).cast("B")
    length = len(data) if size is None else min(size, len(data))
    if length <= 0:
        return ()
    if length <= _WHOLE:
        return (bytes(data[:length]),)
    return bytes(data[:EDGE_BYTES]), bytes(data[length - EDGE_BYTES : length])


def _joined(buffers, size):
    views = [memoryview(buffer).cast("B") for buffer in buffers]
    total = sum(map(len, views))
    left = total if size is None else min(size, total)
    if left <= _WHOLE:
        return (_first(views, left),)
    skipped, ends = left - EDGE_BYTES, []
    for view in views:
        if skipped < len(view):
            ends.append(view[skipped:])
        skipped = max(skipped - len(view), 0)
    return _first(views, EDGE_BYTES), _first(ends, EDGE_BYTES)


def _first(views, size: int) -> bytes:
    """The first bytes of these buffers."""
    found = []
    for view in views:
        if size <= 0:
            break
        found.append(bytes(view[:size]))
        size -= len(found[-1])
    return b"".join(found)


def values(*nested):
    """The texts, bytes and integers in parameters and rows of a database; nothing whose reading would run the target's code."""
    left, count = [*reversed(nested)], 0
    row = getattr(sys.modules.get("_sqlite3"), "Row", tuple)
    while left and count < VALUES_MAX:
        value = left.pop()
        count += 1
        if type(value) is row:
            value = tuple(value)
        if type(value) in (list, tuple):
            left.extend(reversed(value[:VALUES_MAX]))
        elif type(value) is dict:
            left.extend(reversed(list(value.values())[:VALUES_MAX]))
        elif type(value) in (str, bytes, bytearray, memoryview, int):
            yield value
