"""The way to a variable: a module, then a name in it or the newest living instance of a class in it, then attributes
and keys. `[*]` leads to one variable for each key.
"""

from __future__ import annotations

import _weakref
import sys

from undermine_agent.interpreter.plain import ABSENT, MAPPING, SEQUENCES, attribute, container_of
from undermine_agent.names.sites import module_name
from undermine_agent.patching.patch import on_class
from undermine_agent.variables.locks import held_elsewhere
from undermine_agent.variables.texts import SIZE_MAX, key_text, text_of

KEYS_MAX = 256
_INSTANCES_MAX = 16
ATTRIBUTE, ITEM, EACH = range(3)


class Held(Exception):
    """Another thread holds the lock of an owner, or changes a container: the reading doesn't count."""


class Access:
    """One step of a path. `guarded`: the object before it is an owner of the variable, and its locks count."""

    __slots__ = ("kind", "name", "guarded")

    def __init__(self, kind: int, name: str):
        self.kind, self.name = kind, name
        self.guarded = False


class Path:
    def __init__(self, root: Root, accesses: list):
        self.root = root
        self.accesses = accesses
        self.has_keys = any(access.kind == EACH for access in accesses)
        _mark_owners(accesses)

    def read(self, despite_locks: bool):
        """The texts by key; None if the module isn't loaded. An absent variable is missing. May raise `Held`."""
        module = find_module(self.root.module)
        if module is ABSENT:
            return None
        found: dict = {}
        value = self.root.read(module)
        if value is not ABSENT:
            try:
                self._follow(value, 0, (), despite_locks, found)
            except (RuntimeError, IndexError):  # another thread has changed a container meanwhile
                if not despite_locks:
                    raise Held from None
        return found

    def _follow(self, value, at: int, keys: tuple, despite_locks: bool, found: dict) -> None:
        accesses = self.accesses
        while at < len(accesses):
            access = accesses[at]
            at += 1
            kind = access.kind
            if kind == ATTRIBUTE:
                if access.guarded and not despite_locks and held_elsewhere(value):
                    raise Held
                value = attribute(value, access.name)
            elif kind == ITEM:
                value = item_of(value, access.name)
            else:
                for text, element in each_of(value, access.name):
                    self._follow(element, at, (*keys, text), despite_locks, found)
                return
            if value is ABSENT:
                return
        found[",".join(keys)] = text_of(value)


def _mark_owners(accesses: list) -> None:
    """The owners have the last attribute of a path, or an attribute that is a container with `[*]`."""
    wanted = True
    for access in reversed(accesses):
        if access.kind == EACH:
            wanted = True
        elif access.kind == ATTRIBUTE:
            access.guarded = wanted
            wanted = False


def item_of(value, key: str):
    """The element with this key: a text or, if there is none, another plain value with that text."""
    container = container_of(value)
    if container in SEQUENCES:
        index = int(key) if key.lstrip("-").isdecimal() else None
        size = container.size(value)
        return ABSENT if index is None or not -size <= index < size else container.item(value, index)
    if container is not MAPPING or container.size(value) > SIZE_MAX:
        return ABSENT
    items = container.elements(value)
    for each, element in items:
        if type(each) is str and each == key:
            return element
    for each, element in items:
        if type(each) is not str and key_text(each) == key:
            return element
    return ABSENT


def each_of(value, name: str) -> list:
    """The texts of keys, and what is found there. With a name, that attribute of the keys (of a list: of its elements)."""
    container = container_of(value)
    if container is None or container.size(value) > SIZE_MAX:
        return []
    elements = container.elements(value)
    if container is MAPPING:
        pairs = elements
    elif container in SEQUENCES and not name:
        pairs = [(str(at), element) for at, element in enumerate(elements)]
    else:
        pairs = [(element, element) for element in elements]
    found = []
    for key, element in pairs:
        text = key_text(attribute(key, name) if name else key)
        if text is not None:
            found.append((text, element))
    if len(found) > KEYS_MAX:
        found.sort(key=_first)
        del found[KEYS_MAX:]
    return found


def _first(pair):
    return pair[0]


class Root:
    """A name in a module. If it is a class, its instances are remembered, but never kept alive."""

    def __init__(self, module: str, name: str):
        self.module = module
        self.name = name
        self.cls: type | None = None
        self.instances: list = []

    def arrived(self, module) -> None:
        self.watch(attribute(module, self.name))

    def read(self, module):
        value = attribute(module, self.name)
        if not issubclass(type(value), type):
            return value
        if self.cls is not value:
            self.watch(value)
            self.instances = existing(value)
        for reference in reversed(self.instances):
            instance = reference()
            if instance is not None:
                return instance
        return ABSENT

    def watch(self, cls) -> None:
        if issubclass(type(cls), type) and self.cls is not cls:
            self.cls = cls
            self.instances = []
            try:
                on_class(cls, "__init__", self._hook)
            except Exception:
                pass  # a class that cannot be changed: its variables are absent

    def _hook(self, original):
        """Remember each new instance. `object.__init__` rejects arguments that `__new__` has taken."""
        note = self._note
        nothing = original is object.__init__ and self.cls.__new__ is not object.__new__

        def __init__(self, *args, **options):
            note(self)
            if not nothing:
                original(self, *args, **options)

        return __init__

    def _note(self, instance) -> None:
        try:
            reference = _weakref.ref(instance)
        except TypeError:
            return
        self.instances = [*self.instances[1 - _INSTANCES_MAX :], reference]


class Paths:
    """Makes paths from their texts. Paths that start at the same name share it."""

    def __init__(self) -> None:
        self.roots: dict = {}

    def path(self, text: str) -> Path:
        module, _, rest = text.partition(":")
        name, accesses = parse(rest)
        return Path(self.root(module, name), accesses)

    def root(self, module: str, name: str) -> Root:
        found = self.roots.get((module, name))
        if found is None:
            found = self.roots[module, name] = Root(module, name)
        return found


def parse(path: str):
    """Parse `name.attribute[key][*]`: return the name and the accesses that follow."""
    name, at = _word(path, 0)
    accesses = []
    while at < len(path):
        if path[at] == "[":
            end = path.index("]", at)
            key = path[at + 1 : end]
            if key == "*" or key.startswith("*."):
                accesses.append(Access(EACH, key[2:]))
            else:
                accesses.append(Access(ITEM, key.strip("'\"")))
            at = end + 1
        else:
            attribute_name, at = _word(path, at + 1)
            accesses.append(Access(ATTRIBUTE, attribute_name))
    return name, accesses


def _word(path: str, at: int):
    end = at
    while end < len(path) and path[end] not in ".[":
        end += 1
    if end == at:
        raise ValueError("not a path: %r" % path)
    return path[at:end], end


def find_module(name: str):
    """An imported module, or `ABSENT`. The one that runs by `-m` or as a script is found by its import name."""
    main = sys.modules.get("__main__")
    if main is not None and name != "__main__" and module_name(main.__dict__) == name:
        return main
    return sys.modules.get(name, ABSENT)


def existing(cls: type) -> list:
    """Instances created before their class was watched, as far as the garbage collector knows them."""
    import gc

    kinds, found = [cls], []
    for kind in kinds:
        kinds += [each for each in type.__subclasses__(kind) if not any(each is known for known in kinds)]  # type: ignore[var-annotated]
        for thing in gc.get_referrers(kind):
            if type(thing) is kind:
                try:
                    found.append(_weakref.ref(thing))
                except TypeError:
                    pass
    return found
