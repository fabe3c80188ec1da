"""The texts of values: short, and the same in each run. Objects of the target are never asked for one."""

from __future__ import annotations

from undermine_agent.interpreter import forks
from undermine_agent.interpreter.plain import ABSENT, MAPPING, SEQUENCES, attribute, class_name, container_of, imported
from undermine_agent.names.subjects import CONTENT_MARK

# These limits are those of protocol/wire.toml.
TEXT_MAX = 120
LISTED_MAX = 32
SIZE_MAX = 4096  # of a container whose elements must be sorted or searched
_CHARS_MAX = 4096
_BITS_MAX = 4096


_nodes: list = []  # (address, name), the longest addresses first


def name_nodes(addresses: dict) -> None:
    """Write these addresses of nodes as their names from now on: addresses may differ from run to run."""
    _nodes[:] = sorted(addresses.items(), key=lambda each: -len(each[0]))


def text_of(value, depth: int = 0) -> str:
    """The text of a value. `depth`: in so many containers."""
    kind = type(value)
    if kind is str:
        return _short(value)
    text = _plain_text(value, kind)
    if text is None and depth < 2:
        container = container_of(value)
        text = None if container is None else _container_text(container, value, depth)
    return "<%s>" % class_name(kind) if text is None else _short(text)


def key_text(key):
    """The text of a key if it is a plain value or a tuple; None for other objects."""
    kind = type(key)
    if kind is str:
        return _short(key)
    text = _container_text(container_of(key), key, 1) if issubclass(kind, tuple) else _plain_text(key, kind)
    return None if text is None else _short(text)


def _plain_text(value, kind):
    if value is None or value is True or value is False:
        return str(value)
    if kind is not int and issubclass(type(kind), class_of("enum", "EnumMeta")):
        name = attribute(value, "_name_")
        if type(name) is str:
            return name
    if issubclass(kind, int):
        return int.__repr__(value) if int.bit_length(value) <= _BITS_MAX else None
    if issubclass(kind, float):
        return float.__repr__(value)
    if issubclass(kind, str):
        return str.__str__(value)
    if issubclass(kind, (bytes, bytearray)):
        return _text_of_bytes(value, bytes if issubclass(kind, bytes) else bytearray)
    return _text_of_uuid(value) if kind is imported("uuid", "UUID") else None


def class_of(module: str, name: str):
    """A class of the standard library if the target has imported it, else no class that anything is an instance of."""
    found = imported(module, name)
    return () if found is ABSENT else found


def _text_of_bytes(value, base) -> str:
    data = base.__getitem__(value, slice(0, _CHARS_MAX))
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "0x" + data.hex()


def _text_of_uuid(value):
    number = attribute(value, "int")
    digits = "%032x" % number if type(number) is int else ""
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])) if digits else None


def _container_text(container, value, depth: int) -> str:
    is_sequence, size = container in SEQUENCES, container.size(value)
    first, last = "[]" if is_sequence else "{}"
    if is_sequence:
        elements = [container.item(value, at) for at in range(min(size, LISTED_MAX))]
    elif size > SIZE_MAX:
        return "%s…%d%s" % (first, size, last)
    else:
        elements = container.elements(value)
    if container is MAPPING:
        elements = [key for key, _ in elements]
    texts = [text_of(element, depth + 1) for element in elements]
    if not is_sequence:
        texts.sort()
    if size > LISTED_MAX:
        texts[LISTED_MAX:] = ["…%d" % size]
    return first + ", ".join(texts) + last


def _short(text: str) -> str:
    """The text with names of nodes, short enough for a slot: a long one is cut, and ends with a hash of the whole."""
    if ":" in text:
        for address, name in _nodes:
            text = _named(text, address, name)
    if len(text) <= TEXT_MAX and text.isascii():
        return text.replace(CONTENT_MARK, " ")
    if len(text) > _CHARS_MAX:
        text = "%s…%d" % (text[:_CHARS_MAX], len(text))
    data = text.replace(CONTENT_MARK, " ").encode("utf-8", "backslashreplace")
    if len(data) <= TEXT_MAX:
        return data.decode()
    blake2b = forks.load("_blake2", "blake2b")
    return data[: TEXT_MAX - 9].decode("utf-8", "ignore") + "~" + blake2b(data, digest_size=4).hexdigest()


def _named(text: str, address: str, name: str) -> str:
    """The text with a node's name for its address. An address that continues with another digit isn't that node's."""
    at = text.find(address)
    while at >= 0:
        end = at + len(address)
        if not text[end : end + 1].isdigit():
            text, end = text[:at] + name + text[end:], at + len(name)
        at = text.find(address, end)
    return text
