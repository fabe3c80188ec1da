"""JSON by the C parts of the standard library alone: `import json` costs each process some milliseconds."""

from __future__ import annotations

try:
    import _json
except ImportError:  # an interpreter without that C module
    _json = None  # type: ignore[assignment]


class _Settings:
    strict = False
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float
    memo: dict = {}


def loads(text: str):
    """The value of a JSON text; raises ValueError if the text isn't JSON."""
    if _json is None:
        import json

        return json.loads(text)
    text = text.strip()
    try:
        value, end = _json.make_scanner(_Settings)(text, 0)  # type: ignore[arg-type]
    except StopIteration:
        raise ValueError("not JSON") from None
    if end != len(text):
        raise ValueError("data after the JSON value")
    return value


def dumps(value) -> str:
    """JSON without spaces, keys in the given order. For the agent's own messages: no floats, no special cases."""
    if isinstance(value, str):
        return quoted(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(quoted(key) + ":" + dumps(item) for key, item in value.items()) + "}"
    return "[" + ",".join(map(dumps, value)) + "]"


def quoted(text: str) -> str:
    """A text as a JSON string."""
    if _json is None:
        import json

        return json.dumps(text)
    return _json.encode_basestring_ascii(text)
