"""Names of objects that agree between two runs: by the path from an owner that lives long.

An object of the target's classes begins with a name of its own: its class, the function that created it, and a number
(`app:Master@main#1`). It takes the path from the first older object that it is stored into by a name or a key:
`app:Master@main#1.jobs`, `app:Master@main#1.peers['s2']`. Modules and classes are named after themselves.

An object that a handler created is private, and not worth recording, until it is stored into an object that isn't, or
until another handler touches it.

Names of objects end with the objects. Containers cannot be watched in this way, and their addresses are used again. So
a container has a name during a handler that has reached it through its owner, and is kept alive meanwhile. Later it has
the name only if it is still found at that place.

Nothing here calls code of the target: no comparison, hash, `repr` or attribute of its classes.
"""

from __future__ import annotations

import _weakref
import sys
from _collections import deque  # type: ignore[import-not-found]
from itertools import count, islice

from undermine_agent.names.sites import AGENT_DIR, module_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TYPES_MAX = 10_000
PLACES_MAX = 1000
REACHED_MAX = 50_000
KEY_CHARS_MAX = 60
ITERATED_MAX = 100
SCALAR, MAPPING, SEQUENCE, SET, CODE, MODULE, CLASS, OBJECT, OWN_OBJECT = range(9)
CONTAINERS = (MAPPING, SEQUENCE, SET)
MISSING = object()
ANY = "[*]"
"""The way to the size of a container, and to elements without a key."""
_frame = sys._getframe


class Name:
    """The owner's name and the way from there. Without an owner, the way is all.

    `private`: the handler that created the object, until others reach it. `own`: the class and creator of an object that
    may still take the path of an owner.
    """

    __slots__ = ("owner", "edge", "own", "private", "born", "object", "key", "_text", "_version", "_places", "_kept")
    version = 0  # of all names: an object that takes a path changes the names of everything below it
    _count = count(1).__next__

    def __init__(self, owner, edge: str, own: str = "", private: int = 0, kept: bool = False):
        self.owner = owner
        self.edge = edge
        self.own = own
        self.private = private
        # A container is as old as the object that has it.
        self.born = owner.born if kept else Name._count()
        self.object: Any = None  # a weak reference
        self.key: Any = MISSING  # if the way is a key
        self._text, self._version = "", -1
        self._places: dict = {}
        self._kept: dict = {}

    @property
    def text(self) -> str:
        if self._version != Name.version:
            self._text = self.edge if self.owner is None else self.owner.text + self.edge
            self._version = Name.version
            self._places = {}
        return self._text

    def place(self, edge: str) -> str:
        """The text of a place in the object."""
        text, places = self.text, self._places
        found = places.get(edge)
        if found is None:
            if len(places) >= PLACES_MAX:
                places.clear()
            found = places[edge] = text + edge
        return found

    def container(self, edge: str, key) -> Name:
        """The name of the container at a place in the object."""
        found = self._kept.get(edge)
        if found is None:
            if len(self._kept) >= PLACES_MAX:
                self._kept.clear()
            found = self._kept[edge] = Name(self, edge, kept=True)
            found.key = key
        return found

    def move(self, owner: Name, edge: str) -> bool:
        """Take the path from this owner, if it is older (a part that knows the whole doesn't own it) and the path is no other
        object's too."""
        if not self.own or owner.born >= self.born or edge == ANY:
            return False
        self.owner, self.edge, self.own, self.private = owner, edge, "", 0
        Name.version += 1
        return True


class Scratch:
    """One thread's memory of the handler that it runs."""

    __slots__ = ("extent", "handler", "held", "pauses", "pushed", "recorded")

    def __init__(self):
        self.handler = 0  # the number of the handler, or of the pause in a thread that polls; 0: neither
        self.extent = self.pauses = -1
        self.recorded: set = set()
        self.held: dict = {}  # by address: an object that cannot be watched, and its name
        self.pushed: list = []  # parts of accesses whose other part comes later, with their numbers

    def forget(self) -> None:
        self.held.clear()
        self.pushed.clear()

    def popped(self, number: int):
        """The part with this number; MISSING if there is none. Parts above it belong to accesses that an exception ended."""
        pushed = self.pushed
        for at in range(len(pushed) - 1, -1, -1):
            if pushed[at][0] == number:
                found = pushed[at][1]
                del pushed[at:]
                return found
        return MISSING


class Names:
    def __init__(self, counts):
        self._counts = counts  # says whether a module is the target's own, by its name
        self.kinds: dict = {}
        self.objects: dict = {}  # by address: a weak reference, and the name
        self.reached: dict = {}  # by address: the name that a container had; another one may have the address now
        self.roots: dict = {}
        self.numbers: dict = {}

    def kind(self, cls: type) -> int:
        """How objects of a class are named."""
        known = self.kinds.get(id(cls))
        if known is None:
            if len(self.kinds) >= TYPES_MAX:
                self.kinds.clear()
            known = self.kinds[id(cls)] = self._kind(cls), cls  # kept alive, so that no other class gets its address
        return known[0]

    def _kind(self, cls: type) -> int:
        for base in type.__dict__["__mro__"].__get__(cls):
            if id(base) in _KINDS:
                return _KINDS[id(base)]
            if base.__module__ == "enum":
                return SCALAR
        module = cls.__module__
        return OWN_OBJECT if type(module) is str and self._counts(module) else OBJECT

    def of(self, scratch: Scratch, owner):
        """The name of an object; None if it has none."""
        entry = self.objects.get(id(owner))
        if entry is not None:
            name = entry[1]
            if name.private:
                if name.private == scratch.handler:
                    return None
                self._share(name)
            return name
        entry = scratch.held.get(id(owner))
        if entry is not None:
            return entry[1]
        kind = self.kind(type(owner))
        if kind is OWN_OBJECT:
            return self._of_new(scratch, owner)
        if kind is MODULE or kind is CLASS:
            return self.of_root(owner)
        return self._reached_before(scratch, owner) if kind in CONTAINERS else None

    def _reached_before(self, scratch: Scratch, container):
        """The name that a container had in an earlier handler, or before an `await`, if it is still at that place."""
        name = self.reached.get(id(container))
        if name is None or self._at(name) is not container:
            return None
        scratch.held[id(container)] = container, name
        return name

    def _at(self, name: Name):
        """The object at the place that a name says now; MISSING if there is none."""
        if name.object is not None:
            found = name.object()
            return MISSING if found is None else found
        if name.owner is None:
            return sys.modules.get(name.edge, MISSING)
        owner, edge = self._at(name.owner), name.edge
        if owner is MISSING or name.key is MISSING and edge[0] == "[":
            return MISSING
        if edge[0] == "[":
            return looked_up(owner, self.kind(type(owner)), name.key)
        return attribute(owner, edge[1:])

    def of_root(self, owner):
        """The name of a module or class; None if it isn't the target's."""
        if self.kind(type(owner)) is MODULE:
            name = module_name(owner.__dict__)
            return self._root(name) if self._counts(name) else None
        module = type.__dict__["__module__"].__get__(owner) if type(owner) is type else owner.__module__
        if type(module) is not str or not self._counts(module):
            return None
        return self._root("%s:%s" % (module, type.__dict__["__qualname__"].__get__(owner)))

    def _root(self, text: str) -> Name:
        root = self.roots.get(text)
        if root is None:
            root = self.roots[text] = Name(None, text)
            root.born = 0  # before all objects
        return root

    def of_global(self, names: dict, name: str) -> Name:
        return self._root(module_name(names)).container(":" + name, MISSING)

    def _of_new(self, scratch: Scratch, owner):
        """The name of an object that nobody has touched yet; None if it is private."""
        cls = type(owner)
        if not cls.__weakrefoffset__:
            return None
        own = "%s:%s@%s" % (cls.__module__, cls.__qualname__, _creator())
        name = self._put(owner, Name(None, "", own, scratch.handler))
        if name.private:
            return None
        self._share(name)
        return name

    def _share(self, name: Name) -> None:
        number = self.numbers[name.own] = self.numbers.get(name.own, 0) + 1
        name.edge, name.private = "%s#%d" % (name.own, number), 0

    def _put(self, owner, name: Name) -> Name:
        key, objects = id(owner), self.objects

        def gone(reference):
            if objects.get(key, (None,))[0] is reference:
                del objects[key]

        name.object = _weakref.ref(owner, gone)
        objects[key] = name.object, name
        return name

    def adopt(self, scratch: Scratch, value, kind: int, owner: Name, edge: str, key=MISSING) -> None:
        """Name a value that was found at, or is being stored into, a place with a name."""
        if kind < MAPPING or CODE <= kind <= CLASS:
            return
        address = id(value)
        entry = self.objects.get(address)
        if entry is not None:
            if not entry[1].move(owner, edge) and entry[1].private:
                self._share(entry[1])
        elif kind >= OBJECT and type(value).__weakrefoffset__:
            self._put(value, Name(owner, edge))
        elif address not in scratch.held:
            name = owner.container(edge, key) if edge else owner
            scratch.held[address] = value, name
            if len(self.reached) >= REACHED_MAX:
                self.reached.clear()
            self.reached[address] = name

    def adopt_all(self, scratch: Scratch, container, kind: int, owner: Name) -> None:
        """Name the values of a container that is read as a whole."""
        if kind is MAPPING:
            for key, value in _first_items(container):
                self.adopt(scratch, value, self.kind(type(value)), owner, key_text(key), key)
        elif type(container) is list:
            for at, value in enumerate(container[:ITERATED_MAX]):
                kind = self.kind(type(value))
                self.adopt(scratch, value, kind, owner, element_edge(kind, at), at)


def _first_items(container) -> list:
    """The first items of a dictionary, which another thread may change meanwhile."""
    try:
        return list(islice(dict.items(container), ITERATED_MAX))
    except RuntimeError:
        return []


def element_edge(kind: int, at: int) -> str:
    """Objects move within a sequence, and keep their names. A container is named anew in each handler."""
    return "[%d]" % at if kind in CONTAINERS else ANY


def key_text(key) -> str:
    """The text of a key in a name."""
    if key is Ellipsis:
        return ANY
    text = _plain_text(key)
    return "[%s]" % (text if len(text) <= KEY_CHARS_MAX else text[:KEY_CHARS_MAX] + "…")


def _plain_text(key) -> str:
    if type(key) is tuple:
        return ", ".join(map(_plain_text, key))
    if type(key) in PLAIN:
        return repr(key)
    return "<%s>" % type(key).__name__


def attribute(owner, name: str):
    """The value of an attribute that the object itself has, without running code of the target; MISSING if there is none."""
    try:
        return object.__getattribute__(owner, "__dict__").get(name, MISSING)
    except AttributeError:
        return MISSING


def looked_up(container, kind: int, key):
    """The value at a key; MISSING if there is none, or if looking it up could run code of the target."""
    if kind is MAPPING:
        return dict.get(container, key, MISSING) if is_plain(key) else MISSING
    if type(container) is list and type(key) is int and -len(container) <= key < len(container):
        return container[key]
    return MISSING


def is_plain(key) -> bool:
    """May it be looked up in a dictionary without running code of the target?"""
    return type(key) in PLAIN or type(key) is tuple and all(map(is_plain, key))


PLAIN = frozenset((str, int, bytes, bool, float, type(None)))
_KINDS_OF: dict = {
    **dict.fromkeys((*PLAIN, complex, tuple, frozenset, range, slice, type(Ellipsis), type(NotImplemented)), SCALAR),
    **dict.fromkeys((BaseException, type(_weakref.ref), _weakref.ref), SCALAR),
    dict: MAPPING,
    list: SEQUENCE,
    bytearray: SEQUENCE,
    deque: SEQUENCE,
    set: SET,
    type(sys): MODULE,
    type: CLASS,
    **dict.fromkeys((type(key_text), type(len), type([].append), type(dict.get), type(Scratch().forget), property), CODE),
    **dict.fromkeys((type(str.__dict__["__add__"]), type(_frame()), type(_frame().f_code)), CODE),
}
_KINDS = {id(cls): kind for cls, kind in _KINDS_OF.items()}


def caller():
    """The innermost frame outside the agent."""
    frame = _frame(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(AGENT_DIR):
        frame = frame.f_back
    return frame


def _creator() -> str:
    """The function that creates an object: the caller of its `__init__`, or the one that touches it first."""
    frame = caller()
    while frame.f_code.co_name in ("__init__", "__new__", "__post_init__") and frame.f_back is not None:
        frame = frame.f_back
    return getattr(frame.f_code, "co_qualname", frame.f_code.co_name)
