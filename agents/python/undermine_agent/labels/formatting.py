"""Formatted texts: `%`, `str.format`, `string.Template` and the values of f-strings.

Each value that is a plain text or number is formatted again alone, which shows where it is in the result. A format with
other values labels all of the result.
"""

from __future__ import annotations

import re
from _string import formatter_parser as _fields  # type: ignore[import-not-found]

from undermine_agent.labels.table import joined, of, over, put, shifted, within

_PLAIN = (str, bytes, bytearray, int, float, bool, type(None))
_SPEC = r"%(?:\((.*?)\))?([#0\- +]*)(\*|\d+)?(?:\.(\*|\d+))?[hlL]?([a-zA-Z%])"
_specs, _specs_of_bytes = re.compile(_SPEC, re.DOTALL).finditer, re.compile(_SPEC.encode(), re.DOTALL).finditer


def formatted(result, value):
    """The text of one value. The text of an object of the target's own may have labels already."""
    if type(result) is not str or type(value) not in _PLAIN and of(result):
        return result
    return put(result, placed_in(result, value))


def placed_in(result, value) -> list:
    """The segments of a text that shows one value."""
    segments = of(value)
    if not segments:
        segments = within(value) if type(value) not in _PLAIN else ()
        return over(len(result), segments)
    if type(value) is type(result) and value:
        at = result.find(value)
        if at >= 0:
            return shifted(segments, at)
    return over(len(result), segments)


def percent(result, form, values, size):
    """`form % values`, or the remainder of numbers."""
    if type(form) not in (str, bytes, bytearray):
        if type(result) in (int, float):
            return put(result, over(1, of(form), of(values)))
        return result
    inside = within(values)
    if not inside and not of(form):
        return result
    try:
        parts = _percent_parts(form, values)
    except Exception:  # a format that only the interpreter understands
        parts = None
    return put(result, _assembled(result, parts, inside, of(form)))


def _percent_parts(form, values) -> list:
    """The texts of the format and of its values, in order, each with its segments."""
    named = isinstance(values, dict)
    left = list(values) if type(values) is tuple else [values]
    found: list = []
    end = 0
    for spec in (_specs if type(form) is str else _specs_of_bytes)(form):
        found.append((form[end : spec.start()], ()))
        end = spec.end()
        key, _, width, precision, kind = spec.groups()
        if kind in ("%", b"%"):
            found.append((form[:0] + kind, ()))
            continue
        stars = [left.pop(0) for each in (width, precision) if each in ("*", b"*")]
        value = values[key] if named and key is not None else left.pop(0)
        if type(value) not in _PLAIN:
            return []
        part = spec.group() % ({key: value} if named and key is not None else (*stars, value))
        found.append((part, placed_in(part, value)))
    found.append((form[end:], ()))
    return found


def by_format(result, args, options):
    """`text.format(...)`."""
    form, values = args[0], args[1:]
    inside = within((values, options))
    if not inside:
        return put(result, over(len(result), of(form)))
    try:
        parts = _format_parts(form, values, options)
    except Exception:
        parts = []
    return put(result, _assembled(result, parts, inside, of(form)))


def _format_parts(form: str, values, options) -> list:
    found: list = []
    number = 0
    for text, name, spec, conversion in _fields(form):
        found.append((text, ()))
        if name is None:
            continue
        if not name:
            name, number = str(number), number + 1
        value = values[int(name)] if name.isdigit() else options[name]
        if type(value) not in _PLAIN or "{" in spec:
            return []
        part = ("{!%s:%s}" % (conversion, spec) if conversion else "{:%s}" % spec).format(value)
        found.append((part, placed_in(part, value)))
    return found


def by_template(result, args, options):
    """`template.substitute(...)` and `template.safe_substitute(...)`."""
    template, values = args[0], args[1:]
    inside, own = within((values, options)), of(template.template)
    if not inside:
        return put(result, over(len(result), own))
    try:
        parts = _template_parts(template, values[0] if values else {}, options)
    except Exception:
        parts = []
    return put(result, _assembled(result, parts, inside, own))


def _template_parts(template, values, options) -> list:
    if type(values) is not dict:
        return []
    found: list = []
    end = 0
    for field in template.pattern.finditer(template.template):
        found.append((template.template[end : field.start()], ()))
        end = field.end()
        name = field.group("named") or field.group("braced")
        if name is None or name not in options and name not in values:
            found.append((template.delimiter if field.group("escaped") is not None else field.group(), ()))
            continue
        value = options[name] if name in options else values[name]
        if type(value) not in _PLAIN:
            return []
        part = str(value)
        found.append((part, placed_in(part, value)))
    found.append((template.template[end:], ()))
    return found


def _assembled(result, parts, inside, own) -> list:
    """The segments of a result that consists of these parts; if it doesn't, all of it has all labels."""
    if not parts or own or len(result) != sum(len(part) for part, _ in parts):
        return over(len(result), inside, own)
    found, at = [], 0
    for part, segments in parts:
        found.extend(shifted(segments, at))
        at += len(part)
    return joined(found)
