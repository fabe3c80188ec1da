"""Methods of texts and bytes: how labels flow through them. `args` begins with the text itself."""

from __future__ import annotations

import re

from undermine_agent.labels.formatting import by_format
from undermine_agent.labels.operators import elements, replace_part
from undermine_agent.labels.table import cut, joined, keep, of, over, own, put, shifted, within

_SEQUENCES = (str, bytes, bytearray)


def part(text, result, at: int):
    """Label a part of a text that begins there. A part that is all of the text is the text itself."""
    if result is text:
        return result
    segments = cut(of(text), at, at + len(result))
    if type(result) is bytearray:
        keep(result, segments)
        return result
    return put(result, segments)


def whole(result, args, options):
    """A result of the same length, character by character; else one that was made from all of the text."""
    text = args[0]
    if result is text or type(result) not in (*_SEQUENCES, int, float):
        return result
    size = len(result) if type(result) in _SEQUENCES else 1
    segments = of(text) if size == len(text) and type(result) in _SEQUENCES else over(size, of(text))
    return put(result, [*segments, *over(size, *map(of, args[1:]))])


def from_all(result, args, options):
    size = len(result) if type(result) in _SEQUENCES else 1
    return put(result, over(size, *map(within, args), within(options)))


def encoded(result, args, options):
    """`encode` and `decode`: the same positions for ASCII. Otherwise, each character beyond ASCII is a segment of its own."""
    text, segments = args[0], of(args[0])
    if not segments or len(result) == len(text):
        return put(result, segments)
    decodes = type(text) is not str
    encoding = options.get("encoding", args[1] if len(args) > 1 else "utf-8")
    runs = [each.span() for each in _ascii_or_not(result if decodes else text)]
    if len(runs) > _RUNS_MAX:
        return put(result, over(len(result), segments))
    found, at = [], 0
    for begin, end in runs:
        size = len((result if decodes else text)[begin:end].encode(encoding, "surrogatepass"))
        here, there = ((at, at + size), (begin, end)) if decodes else ((begin, end), (at, at + size))
        for part_begin, part_end, *rest, exact in cut(segments, *here):
            if size == end - begin:
                found.append((there[0] + part_begin, there[0] + part_end, *rest, exact))
            else:
                found.append((*there, *rest, False))
        at += size
    return put(result, joined(found))


_ascii_or_not = re.compile("[\0-\x7f]+|[^\0-\x7f]").finditer
_RUNS_MAX = 2000


def _hexadecimal(result, args, options):
    if len(result) != 2 * len(args[0]):
        return from_all(result, args, options)
    return put(result, [(2 * begin, 2 * end, *rest, False) for begin, end, *rest, _ in of(args[0])])


def _from_hexadecimal(result, args, options):
    text = args[-1]
    if len(text) != 2 * len(result):
        return from_all(result, args, options)
    halves = [(begin // 2, (end + 1) // 2, *rest, False) for begin, end, *rest, _ in of(text)]
    return put(result, halves)


# --- parts of a text


def _stripped(result, args, options):
    text = args[0]
    return part(text, result, len(text) - len(text.lstrip(*args[1:])))


def _stripped_right(result, args, options):
    return part(args[0], result, 0)


def _without_prefix(result, args, options):
    return part(args[0], result, len(args[0]) - len(result))


def _divided(result, args, options):
    """`partition` and `rpartition`. The separator in the result is the one in the arguments, not the one in the text."""
    text, found, at = args[0], [], 0
    for number, each in enumerate(result):
        made = own(each) if number == 1 and len(each) > 1 and of(text) else each
        found.append(part(text, made, at) if made else each)
        at += len(each)
    return tuple(found)


def _split(result, args, options):
    separator = options.get("sep", args[1] if len(args) > 1 else None)
    return _parts(result, args[0], lambda each: len(each) + (len(separator) if separator else 0))


def _lines(result, args, options):
    return _parts(result, args[0], lambda each: max(len(each), 1))


def _parts(result, text, width):
    """The parts of a text, each labelled by the place where it stands; `width` is the distance to the earliest next one."""
    at = 0
    for number, each in enumerate(result) if of(text) else ():
        at = text.find(each, at) if each else at
        result[number] = part(text, each, at)
        at += width(each)
    return result


# --- texts that are put together


def noted(values, seen: list):
    """The same values; `seen` has those that have been read. An iterator can be read only once."""
    for value in values:
        seen.append(value)
        yield value


def _collected(args, options):
    if len(args) != 2 or type(args[1]) in (list, tuple) or not hasattr(type(args[1]), "__iter__"):
        return args, options
    seen: list = []
    return (args[0], noted(elements(args[1]), seen)), options, (args[0], seen)


def _joined(result, args, options):
    separator, parts = args
    if type(parts) in _SEQUENCES:
        parts = list(parts)
    around, found, at = of(separator), [], 0
    for number, each in enumerate(parts):
        if number:
            if around:
                found.extend(shifted(around, at))
            at += len(separator)
        segments = of(each)
        if segments:
            found.extend(shifted(segments, at))
        at += len(each) if type(each) in _SEQUENCES else memoryview(each).nbytes
    return put(result, joined(found)) if found else result


def _padded(result, args, options):
    text = args[0]
    return result if result is text else put(result, shifted(of(text), max(result.find(text), 0)))


def _replaced(result, args, options):
    text, old, new = args[:3]
    if result is text or not (of(text) or of(new)):
        return result
    count = args[3] if len(args) > 3 else options.get("count", -1)
    if not old:
        return put(result, over(len(result), of(text), of(new)))
    pieces, found, at, begin = text.split(old, count), [], 0, 0
    for number, piece in enumerate(pieces):
        if number:
            found.extend(shifted(of(new), at))
            at += len(new)
            begin += len(old)
        found.extend(shifted(cut(of(text), begin, begin + len(piece)), at))
        at, begin = at + len(piece), begin + len(piece)
    return put(result, joined(found))


# --- bytearrays, in place


def _sized(args, options):
    memo = {"": len(args[0])}
    if len(args) != 2 or type(args[1]) in (*_SEQUENCES, memoryview) or not hasattr(type(args[1]), "__iter__"):
        return args, memo
    seen: list = []
    return (args[0], noted(args[1], seen)), memo, (args[0], seen)


def _extended(result, args, options):
    array, values, size = args[0], args[1], options[""]
    segments = of(values)
    if type(values) is list:
        segments = [each for at, value in enumerate(values) for each in shifted(of(value), at)]
    if segments:
        keep(array, joined([*of(array), *shifted(segments, size)]))
    return result


def _appended(result, args, options):
    if of(args[1]):
        keep(args[0], [*of(args[0]), *shifted(of(args[1]), options[""])])
    return result


def _inserted(result, args, options):
    array, at, value = args
    replace_part(array, options[""], slice(at, at), of(value), 1)
    return result


def _popped(result, args, options):
    array, size = args[0], options[""]
    at = args[1] if len(args) > 1 else -1
    at += size if at < 0 else 0
    segments = cut(of(array), at, at + 1)
    replace_part(array, size, slice(at, at + 1), (), -1)
    return put(result, segments)


def _emptied(result, args, options):
    keep(args[0], ())
    return result


def _reversed(result, args, options):
    keep(args[0], over(len(args[0]), of(args[0])))
    return result


def _copied(result, args, options):
    if of(args[0]):
        keep(result, of(args[0]))
    return result


_BOTH = {
    **dict.fromkeys(("upper", "lower", "title", "capitalize", "swapcase", "translate", "expandtabs"), whole),
    "strip": _stripped, "lstrip": _stripped, "rstrip": _stripped_right, "removeprefix": _without_prefix,
    "removesuffix": _stripped_right, "partition": _divided, "rpartition": _divided, "split": _split, "rsplit": _split,
    "splitlines": _lines, "join": (_joined, _collected), "ljust": _padded, "rjust": _padded, "center": _padded,
    "zfill": _padded, "replace": _replaced,
}  # fmt: skip
METHODS: dict = {
    str: {**_BOTH, "casefold": whole, "encode": encoded, "format": by_format, "__str__": whole},
    bytes: {**_BOTH, "decode": encoded, "hex": _hexadecimal},
    bytearray: {
        **_BOTH, "decode": encoded, "hex": _hexadecimal, "extend": (_extended, _sized), "append": (_appended, _sized),
        "insert": (_inserted, _sized), "pop": (_popped, _sized), "clear": _emptied, "reverse": _reversed, "copy": _copied,
    },
    memoryview: {"tobytes": whole, "hex": _hexadecimal},
}  # fmt: skip
"""By type and name: `label(result, args, options)`, or that and a function that prepares the arguments."""
CLASS_METHODS: dict = {
    (bytes, "fromhex"): _from_hexadecimal, (bytearray, "fromhex"): _from_hexadecimal,
}  # fmt: skip
