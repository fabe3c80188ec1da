"""Reads the variables of the node that triggers use, and publishes changed values to the shared state.

A path finds a variable: a module, then a name in it or the newest living instance of a class in it, then attributes
and keys. If anything fails on the way, also in the target's code, the variable is absent.
"""

from __future__ import annotations

import _thread
import _weakref
import sys

from undermine_agent.interpreter import forks
from undermine_agent.names.sites import module_name
from undermine_agent.patching.patch import on_class

TEXT_MAX = 120
_INSTANCES_MAX = 16
_ABSENT = object()


class Variables:
    """The variables of this node. The table checks it before all trigger parts, so that they see current values."""

    def __init__(self, descriptions):
        self.lock = _thread.allocate_lock()
        self.roots: dict = {}
        self.mine = []
        for description in descriptions:
            if "" not in description["slots"]:
                continue
            module, _, rest = description["path"].partition(":")
            name, accesses = parse(rest)
            root = self.roots.setdefault((module, name), Root(module, name))
            self.mine.append(Variable(int(description["slots"][""]), root, accesses))

    def install(self, imports) -> None:
        """Watch the classes at which paths start, from the moment their modules are imported."""
        for root in self.roots.values():
            imports.add(root.module, root.arrived)

    def reached(self, state, call) -> bool:
        """Publish changed values. Called while the agent is at work, so that hooks do nothing meanwhile."""
        with self.lock:
            for variable in self.mine:
                text = text_of(variable.read())
                if text != variable.published:
                    state.publish(variable.slot, text)
                    variable.published = text
        return False

    def after_fork(self) -> None:
        self.lock = _thread.allocate_lock()


class Variable:
    """A slot, the root of its path and the accesses that follow."""

    def __init__(self, slot: int, root: Root, accesses):
        self.slot = slot
        self.root = root
        self.accesses = accesses
        self.published: object = _ABSENT  # nothing published yet, not even that it is absent

    def read(self):
        """The value, or `_ABSENT`."""
        try:
            value = self.root.read()
            for access in self.accesses:
                value = access(value)
            return value
        except Exception:
            return _ABSENT


class Root:
    """A name in a module. If it is a class, its instances are remembered, but never kept alive."""

    def __init__(self, module: str, name: str):
        self.module = module
        self.name = name
        self.cls: type | None = None
        self.instances: list = []

    def arrived(self, module) -> None:
        try:
            self.watch(getattr(module, self.name, None))
        except Exception:
            pass  # a class that cannot be changed: its variables are absent

    def read(self):
        value = getattr(find_module(self.module), self.name)
        if not isinstance(value, type):
            return value
        if self.cls is not value:
            self.watch(value)
            self.instances = existing(value)
        for reference in reversed(self.instances):
            instance = reference()
            if instance is not None:
                return instance
        return _ABSENT

    def watch(self, cls) -> None:
        if isinstance(cls, type) and self.cls is not cls:
            self.cls = cls
            self.instances = []
            on_class(cls, "__init__", self._hook)

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


def parse(path: str):
    """Parse `name.attribute[key]`: return the name and a function for each access that follows."""
    name, at = _word(path, 0)
    accesses = []
    while at < len(path):
        if path[at] == "[":
            end = path.index("]", at)
            accesses.append(_item(path[at + 1 : end].strip("'\"")))
            at = end + 1
        else:
            attribute, at = _word(path, at + 1)
            accesses.append(_attribute(attribute))
    return name, accesses


def _word(path: str, at: int):
    end = at
    while end < len(path) and path[end] not in ".[":
        end += 1
    if end == at:
        raise ValueError("not a path: %r" % path)
    return path[at:end], end


def _attribute(name: str):
    return lambda value: getattr(value, name)


def _item(key: str):
    """Look up a key as text; if there is none, as a number."""

    def access(value):
        try:
            return value[key]
        except (KeyError, TypeError, IndexError):
            return value[int(key)]

    return access


def find_module(name: str):
    """An imported module. The one that runs by `-m` or as a script is found by its import name."""
    main = sys.modules.get("__main__")
    if main is not None and module_name(main.__dict__) == name:
        return main
    return sys.modules[name]


def existing(cls: type) -> list:
    """Instances created before their class was watched, as far as the garbage collector knows them."""
    import gc

    kinds, found = [cls], []
    for kind in kinds:
        kinds += [each for each in type.__subclasses__(kind) if each not in kinds]  # type: ignore[var-annotated]
        for thing in gc.get_referrers(kind):
            if type(thing) is kind:
                try:
                    found.append(_weakref.ref(thing))
                except TypeError:
                    pass
    return found


def text_of(value):
    """The text of a plain value, short enough for a slot; None for any other value."""
    if value is None or value is True or value is False:
        text = str(value)
    elif isinstance(value, str):
        text = str.__str__(value)
    elif isinstance(value, int):
        text = int.__repr__(value)
    elif isinstance(value, float):
        text = float.__repr__(value)
    else:
        return None
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= TEXT_MAX:
        return data.decode()
    blake2b = forks.load("_blake2", "blake2b")
    return data[: TEXT_MAX - 9].decode("utf-8", "ignore") + "~" + blake2b(data, digest_size=4).hexdigest()
