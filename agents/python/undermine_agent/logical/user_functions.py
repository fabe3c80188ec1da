"""The logical operations that the user names: functions of the target, hooked when their module has been imported.

The module that runs as the program is never imported. Its functions are looked for at every audit event of the
interpreter (such as opening a file) until they are there.
"""

from __future__ import annotations

import os
import sys

from undermine_agent.logical.operations import TEXT_MAX, layer_of
from undermine_agent.logical.store_calls import StoreCall, shown
from undermine_agent.names.sites import module_name

RETURNED = "return"  # the first part of a path that starts at the function's result
_MISSING = object()
_HAS_REST, _HAS_OPTIONS = 4, 8  # flags of code objects: *args, **options


def install(agent) -> None:
    wanted = [UserFunction(layer_of(agent), description) for description in agent.config.get("operations", ())]
    for function in wanted:
        if function.module != "__main__":
            agent.imports.add(function.module, function.hook_in)
    if wanted:
        sys.addaudithook(main_watch(wanted))


class UserFunction:
    """One function that the user named."""

    def __init__(self, layer, description: dict):
        self.layer = layer
        self.description = description
        self.function = description["function"]
        self.module, _, self.qualname = self.function.partition(":")

    def hook_in(self, module) -> None:
        """Hook the function in its module, which has run; report it if that fails."""
        try:
            *outer, name = self.qualname.split(".")
            owner = module
            for part in outer:
                owner = getattr(owner, part)
            self.layer.hook(owner, name, **self.described(getattr(owner, name)))
        except Exception as error:
            self.layer.trouble("logical operation %s: %s" % (self.function, error))

    def described(self, function) -> dict:
        """The description of the function for the layer."""
        where = self.description
        of_result = any(_root(where.get(key)) == RETURNED for key in ("kind", "size", "content"))
        kind, size, content = (_finder(where.get(key), function, of_result) for key in ("kind", "size", "content"))
        kind = _as(kind_text, kind) if kind is not None else function.__name__
        is_read = where["op"] == "db.read"
        return {
            "op": where["op"],
            "kind": kind,
            "peer": _finder(where.get("peer"), function),
            "size": _as(_size, size),
            "content": _as(_content, content),
            "error": None,
            "dropped": None,
            "of_result": of_result,
            "does": self.asking(function, kind, of_result) if where.get("keys") else None,
            "got": _answer(where["values"], function) if is_read and where.get("values") else None,
        }

    def asking(self, function, kind, of_result):
        """A function that returns the request to the store; None if a call has no key."""
        where = self.description
        keys = [_finder(one, function, of_result) for one in where["keys"]]
        values = [_finder(one, function, of_result) for one in where.get("values", ()) if where["op"] != "db.read"]
        store, peer = (_finder(where.get(key), function, of_result) for key in ("store", "peer"))
        owner = self.function[: -len(self.qualname.rpartition(".")[2]) - 1]

        def does(*args, **options):
            def found(find):
                return find(*args, **options) if callable(find) else find

            asked = shown([found(find) for find in keys])
            if not asked:
                return None
            node = self.layer.peers.find(found(peer))[0].partition("peer:")[2]
            name = ":".join(shown(found(store))) or node or owner
            return StoreCall(name, [(found(kind)[:TEXT_MAX], asked, shown([found(find) for find in values]))])

        return does


def main_watch(wanted):
    """An audit hook. Those cannot be removed, so this one does nothing once all functions are found."""
    waiting = list(wanted)
    looking: list = []

    def watch(event, args):
        if not waiting or looking:
            return
        looking.append(event)  # its own work raises audit events too
        try:
            look()
        finally:
            looking.clear()

    def look():
        main = sys.modules.get("__main__")
        names = getattr(main, "__dict__", {})
        if not names.get("__file__") and not names.get("__spec__"):
            return  # not run yet, or it has no name
        known = ("__main__", _main_name(names))
        waiting[:] = [function for function in waiting if function.module in known]
        for function in list(waiting):
            if _is_there(names, function.qualname):
                waiting.remove(function)
                function.hook_in(main)

    return watch


def _main_name(names: dict) -> str:
    """The import name of the main module; for a script, the name of its file."""
    name = module_name(names)
    if name != "__main__":
        return name
    return os.path.splitext(os.path.basename(names.get("__file__") or ""))[0]


def _is_there(names: dict, qualname: str) -> bool:
    first, *inner = qualname.split(".")
    owner = names.get(first)
    for part in inner:
        owner = getattr(owner, "__dict__", {}).get(part)
    return owner is not None


def _answer(where: list, function):
    """A function that returns the values that a read returned, for each of its keys."""
    finders = [_finder(one, function, of_result=True) for one in where]

    def got(result, commands):
        keys = commands[0][1]
        values = shown([find(result) for find in finders])
        if len(keys) == len(values) > 1:
            return [(key, [value]) for key, value in zip(keys, values)]
        return [(key, values) for key in keys]

    return got


# --- paths into a call's arguments


def _finder(where, function, of_result=False):
    """A function that finds a value in a call's arguments; a text; or None.

    With `of_result`, the function's result comes before the arguments.
    """
    if where is None or "text" in where:
        return where and where["text"]
    root, path = parse(where["argument"])
    take = _taker(root, function)

    def find(*args, **options):
        value = args[0] if root == RETURNED else take(args[1:] if of_result else args, options)
        for by_name, key in path:
            value = _get(value, by_name, key)
        return None if value is _MISSING else value

    return find


def parse(text: str):
    """The root of a path and the accesses that follow: pairs of (is an attribute, name or key)."""
    ends = [at for at in (text.find("."), text.find("[")) if at >= 0]
    at = min(ends, default=len(text))
    root, path = text[:at], []
    while at < len(text):
        if text[at] == "[":
            stop = text.find("]", at)
            if stop < 0:
                raise ValueError("%r lacks a ]" % text)
            path.append((False, text[at + 1 : stop].strip("'\"")))
            at = stop + 1
        else:
            ends = [end for end in (text.find(".", at + 1), text.find("[", at + 1)) if end >= 0]
            stop = min(ends, default=len(text))
            path.append((True, text[at + 1 : stop]))
            at = stop
    return root, path


def _root(where) -> str:
    return parse(where["argument"])[0] if where is not None and "argument" in where else ""


def _get(value, by_name: bool, key: str):
    if value is _MISSING:
        return _MISSING
    try:
        if by_name:
            return getattr(value, key)
        if key.lstrip("-").isdigit():
            try:
                return value[int(key)]
            except (KeyError, TypeError):
                pass
        return value[key]
    except Exception:
        return _MISSING


def _taker(root: str, function):
    """Take a parameter, by name or number, from a call's arguments; its default if it wasn't given."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    function = getattr(function, "__func__", function)
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    defaults = dict(zip(reversed(names), reversed(function.__defaults__ or ())))
    defaults.update(function.__kwdefaults__ or {})
    position = int(root) if root.isdigit() else names.index(root) if root in names else -1
    count = code.co_argcount + code.co_kwonlyargcount
    extra = code.co_varnames[count : count + bool(code.co_flags & _HAS_REST) + bool(code.co_flags & _HAS_OPTIONS)]
    rest = extra[0] if code.co_flags & _HAS_REST else ""
    others = extra[bool(rest)] if code.co_flags & _HAS_OPTIONS else ""
    if position < 0 and root not in (RETURNED, *code.co_varnames[:count], *extra) and not others:
        raise ValueError("there is no parameter %r" % root)

    def take(args, options):
        if root in options:
            return options[root]
        if 0 <= position < len(args):
            return args[position]
        if root == rest:
            return args[code.co_argcount :]
        return options if root == others else defaults.get(root, _MISSING)

    return take


def _as(convert, find):
    """Keep a text; convert a found value."""
    return (lambda *args, **options: convert(find(*args, **options))) if callable(find) else find


def kind_text(value) -> str:
    """A short name for the kind of a message: its text, its number, or the name of its class."""
    if hasattr(type(value), "__members__"):  # an enumeration
        return value.name
    if isinstance(value, (str, int, float)):
        return str(value)
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("utf-8", "backslashreplace")
    if value is None:
        return "?"
    return value.__name__ if isinstance(value, type) else type(value).__name__


def _content(value) -> str:
    return "" if value is None else kind_text(value)


def _size(value) -> int:
    return value if isinstance(value, int) else len(value) if hasattr(value, "__len__") else 0
