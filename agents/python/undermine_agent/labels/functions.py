"""Built-in functions and those of the standard library: how labels flow through them."""

from __future__ import annotations

from _functools import partial  # type: ignore[import-not-found]

from undermine_agent.labels.formatting import formatted
from undermine_agent.labels.operators import computed, elements
from undermine_agent.labels.table import cut, joined, keep, labels, of, over, own, put, relabelled, shifted, within
from undermine_agent.labels.texts import encoded, from_all, noted

_SEQUENCES = (str, bytes, bytearray)
_METHOD = type(len)


# --- built-in functions


def _text(result, args, options):
    """`str(value)`, also of bytes with an encoding."""
    if len(args) > 1 or options:
        return encoded(result, args, options) if args and type(args[0]) in (bytes, bytearray) else result
    return formatted(result, args[0]) if args and result is not args[0] else result


def _bytes(result, args, options):
    """`bytes(...)` and `bytearray(...)`."""
    if not args or result is args[0] or type(args[0]) is int:
        return result
    given = args[0]
    if type(given) is str:
        return encoded(result, args, options)
    segments = of(given)
    if type(given) in (list, tuple):
        segments = joined([each for at, value in enumerate(given) for each in shifted(of(value), at)])
    if type(result) is not bytearray:
        return put(result, segments)
    if segments:
        keep(result, segments)
    return result


def _listed(args, options):
    """Read a text as elements with their labels."""
    if not args:
        return args, options
    first = args[0]
    if type(first) in _SEQUENCES and id(first) in labels:
        first = elements(first)
    return (first, *args[1:]), options


def _collected(args, options):
    if not args or not hasattr(type(args[0]), "__next__"):
        return args, options
    seen: list = []
    return (noted(args[0], seen), *args[1:]), options, (seen, *args[1:])


def _viewed(result, args, options):
    if of(args[0]):
        keep(result, of(args[0]))
    return result


def _number(result, args, options):
    return computed(result, *map(within, args))


def _character(result, args, options):
    return put(result, over(len(result), of(args[0])))


def _pair(result, args, options):
    segments = over(1, *map(of, args))
    return tuple([put(each, segments) for each in result]) if segments and type(result) is tuple else result


def _same(result, args, options):
    return result


def _mapped(args, options):
    """`map(int, texts)`: give the function its stand-in, and the values their labels."""
    if not args:
        return args, options
    return (stand_in(args[0]), *map(elements, args[1:])), options


# --- decimals


def _decimal(result, args, options):
    """A decimal that was made from the arguments. A decimal of a decimal is the same object."""
    return result if args and result is args[0] else _number(result, args, options)


# --- functions of modules


def derived(result, args, options):
    """A result of which only the arguments are known. A text that has an argument in it, or is a part of one, has its labels
    there; all other texts, bytes and numbers have all labels of the arguments."""
    inside = within((args, options))
    if not inside:
        return result
    texts = [each for each in (*args, *options.values()) if type(each) in (str, bytes) and of(each)]

    def label(value):
        if type(value) not in _SEQUENCES:
            return put(value, over(1, inside))
        if not value or type(value) is bytearray:
            return value
        value = own(value) if len(value) > 1 and id(value) not in labels else value
        return put(value, _around(value, texts) or over(len(value), inside))

    cls = type(result)
    if cls in (*_SEQUENCES, int, float, list, tuple, dict):
        return relabelled(result, label)
    if isinstance(result, tuple):
        return _named(result, label)
    if cls.__module__ in _STATEFUL:
        keep(result, over(1, inside))
    return result


def _around(value, texts) -> list:
    found: list = []
    for text in texts:
        if type(text) is not type(value):
            continue
        if text in value:
            found.extend(shifted(of(text), value.rfind(text)))
        elif len(value) > 2 and value in text:
            at = text.find(value)
            found.extend(cut(of(text), at, at + len(value)))
    return sorted(found)


def _named(result, label):
    """A tuple with names, such as a parsed URL."""
    if hasattr(type(result), "_make"):
        return type(result)._make([relabelled(part, label) for part in result])
    return result


_STATEFUL = frozenset(("_hashlib", "_sha2", "_sha256", "_sha512", "_sha1", "_md5", "_blake2", "zlib", "_bz2", "_lzma", "hmac"))


def stateful(result, args, options):
    """A method of an object such as a hash: its labels are those of everything that it was given."""
    owner, inside = args[0], within(args[1:])
    if inside:
        keep(owner, over(1, of(owner), inside))
    segments = of(owner)
    if segments and type(result) in (*_SEQUENCES, int):
        return put(result, over(len(result) if type(result) in _SEQUENCES else 1, segments))
    if segments and result is not None and type(result).__module__ in _STATEFUL:
        keep(result, segments)
    return result


# --- regular expressions


def _groups(result, args, options):
    match, asked = args[0], args[1:] or (0,)
    whole = match.string
    if not of(whole):
        return result
    given = result if len(asked) > 1 else (result,)
    found = tuple([_span(each, whole, match.span(key)) for each, key in zip(given, asked)])
    return found if len(asked) > 1 else found[0]


def _all_groups(result, args, options):
    match = args[0]
    if not of(match.string):
        return result
    if type(result) is tuple:
        return tuple([_span(each, match.string, match.span(at + 1)) for at, each in enumerate(result)])
    return {name: _span(each, match.string, match.span(name)) for name, each in result.items()}


def _span(result, whole, span):
    if type(result) not in (str, bytes) or span[0] < 0 or result is whole:
        return result
    return put(result, cut(of(whole), *span))


def _found_in(result, args, options):
    """`findall` and `split`: parts of the text in order."""
    text = next((each for each in args[1:] if of(each)), None)
    if text is None or type(result) is not list:
        return result
    at = [0]

    def label(value):
        if type(value) is not type(text) or not value:
            return value
        found = text.find(value, at[0])
        if found < 0:
            return value
        at[0] = found
        return put(value, cut(of(text), found, found + len(value)))

    return relabelled(result, label)


# --- who has which rule

BUILTINS: dict = {
    "str": _text, "repr": _text, "ascii": _text, "format": _text, "bytes": (_bytes, _collected),
    "bytearray": (_bytes, _collected), "memoryview": _viewed, "ord": _number,
    **dict.fromkeys(("chr", "hex", "oct", "bin"), _character),
    "list": (_same, _listed), "tuple": (_same, _listed), "set": (_same, _listed), "frozenset": (_same, _listed),
    "sorted": (_same, _listed), "enumerate": (_same, _listed), "iter": (_same, _listed), "reversed": (_same, _listed),
    "divmod": _pair, "sum": (_number, _collected), "map": (_same, _mapped),
    **dict.fromkeys(("int", "float", "abs", "round", "pow"), _number),
}  # fmt: skip
INTEGERS = {"to_bytes": from_all, "__str__": _text, "conjugate": _number}
INTEGERS_CLASS = {"from_bytes": _number}
MATCHES = {"group": _groups, "groups": _all_groups, "groupdict": _all_groups, "expand": from_all}
PATTERNS = {"findall": _found_in, "split": _found_in, "sub": derived, "subn": derived}
DECIMAL = {"Decimal": _decimal}
DECIMALS = {
    **dict.fromkeys(("quantize", "normalize", "to_integral_value", "to_integral_exact", "scaleb"), _decimal),
    "to_eng_string": from_all,
}  # fmt: skip
MODULES = {
    "zlib": ("compress", "decompress", "crc32", "adler32", "compressobj", "decompressobj"),
    "gzip": ("compress", "decompress"),
    "bz2": ("compress", "decompress"),
    "lzma": ("compress", "decompress"),
    "base64": (
        "b64encode", "b64decode", "standard_b64encode", "standard_b64decode", "urlsafe_b64encode", "urlsafe_b64decode",
        "b32encode", "b32decode", "b16encode", "b16decode", "b85encode", "b85decode", "encodebytes", "decodebytes",
    ),
    "binascii": ("hexlify", "unhexlify", "b2a_hex", "a2b_hex", "b2a_base64", "a2b_base64", "crc32"),
    "hashlib": ("md5", "sha1", "sha224", "sha256", "sha384", "sha512", "blake2b", "blake2s", "sha3_256", "new"),
    "hmac": ("new", "digest"),
    "urllib.parse": (
        "quote", "unquote", "quote_plus", "unquote_plus", "urlencode", "urlparse", "urlsplit", "urlunparse", "urljoin",
        "parse_qs", "parse_qsl", "quote_from_bytes", "unquote_to_bytes",
    ),
    "posixpath": (
        "join", "basename", "dirname", "split", "splitext", "abspath", "normpath", "realpath", "relpath", "expanduser",
        "commonprefix",
    ),
    "os": ("fspath", "fsencode", "fsdecode"),
    "shlex": ("quote", "split", "join"),
    "html": ("escape", "unescape"),
    "textwrap": ("dedent", "indent", "fill", "shorten"),
    "codecs": ("encode", "decode"),
    "ast": ("literal_eval",),
    "re": ("sub", "subn"),
}  # fmt: skip
"""Functions whose results are made from their arguments."""
FOUND_IN = {"re": ("findall", "split")}

by_address: dict = {}
"""By address of a function: the function, and its stand-in."""
methods: dict = {}
"""By address of a type, and by name of a method: a class whose instances stand for an object while the method is called."""


def stand_in(function):
    """The function that is called in place of this one: also for a method that is bound to an object, and for a partial call."""
    entry = by_address.get(id(function))
    if entry is not None:
        return entry[1]
    cls = type(function)
    if cls is _METHOD:
        owner, name = function.__self__, function.__name__
        made = methods.get(id(type(owner)), {}).get(name)
        return function if made is None else getattr(made(owner), name)
    if cls is partial:
        inner = stand_in(function.func)
        return function if inner is function.func else partial(inner, *function.args, **function.keywords)
    return function
