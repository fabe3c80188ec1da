"""Finds what could be a variable: all paths that lead to plain values in the target's own objects.

The tool asks for a survey before the user has named any variable. Each path is then sampled like a variable, with the path as
its name. A survey takes a small share of the time: it is skipped until enough time has passed since the last one. Paths
whose values change are read each time, the others in turns.

Found objects are not watched, and none of their classes is changed: the garbage collector knows them.
"""

from __future__ import annotations

import _thread
import _weakref
import gc
import sys
from itertools import chain, islice
from time import monotonic_ns, thread_time_ns

from undermine_agent.interpreter.plain import (
    ABSENT,
    MAPPING,
    SEQUENCES,
    attribute,
    classes_of,
    container_of,
    own_names,
)
from undermine_agent.names.sites import module_name, target_modules
from undermine_agent.variables.paths import Paths, find_module
from undermine_agent.variables.texts import key_text

INSTANCES_MAX = 2  # of a class at which paths start: with more, it would be unclear which one is meant
PATHS_MAX = 1000
ROOT_PATHS_MAX = 200  # those with the fewest steps
_VISITED_MAX = 2000
KEYS_MAX = 64
SAMPLES_MAX = 1000  # of one path; one that changes so often isn't something that nodes agree about
_STEPS_MAX = 3
_LOOKED_AT = 3  # elements of a container
_TUPLE_MAX = 4  # elements of a tuple
_IN_TURN = 64  # paths that have not changed
_LOOK_PAUSE, _SEARCH_PAUSE = 10, 30  # how much longer than a reading, or a search, the time until the next one is
_SEARCH_NS_MIN = 300_000_000
_OPENED = ("<", "{", "[")  # texts of objects and containers: their attributes and elements may be new
_TELLING = ("id", "key", "name", "address", "addr", "uid", "host")  # attributes that tell objects apart, the best first
_FUNCTION, _MODULE = type(lambda: None), type(sys)


class Survey:
    """The paths found so far, and the texts that they had last. `make` creates a variable from a name and a path."""

    def __init__(self, packages, make, changed):
        self.counts = target_modules(packages)
        self.make = make
        self.changed = changed  # records what is new in a reading
        self.paths = Paths()
        self.variables: dict = {}
        self.samples: dict = {}
        self.active: list = []
        self.quiet: list = []
        self.own: set = set()  # the addresses of the target's classes
        self.starts: dict = {}  # modules and names at which paths start
        self.outdated: set = set()  # those from which paths must be looked for
        self.next_look_ns = self.next_search_ns = 0
        self.lock = _thread.allocate_lock()

    def look(self, reading: int, stack, t_ns: int) -> None:
        now = monotonic_ns()
        if now < self.next_look_ns or not self.lock.acquire(False):
            return
        try:
            begun = thread_time_ns()
            new: list = []
            if now >= self.next_search_ns:
                self._search()
                cost = thread_time_ns() - begun
                self.next_search_ns = now + max(_SEARCH_NS_MIN, _SEARCH_PAUSE * cost)
                begun += cost
            if self.outdated:
                new = self._walk()
            in_turn, self.quiet = new + self.quiet[:_IN_TURN], self.quiet[_IN_TURN:]
            for variable in [*self.active, *in_turn]:
                self._read(variable, reading, stack, t_ns)
            self.active = [each for each in self.active if each.name in self.samples]
            for variable in in_turn:
                if variable.name in self.samples:
                    (self.active if self.samples[variable.name] > 1 else self.quiet).append(variable)
            self.next_look_ns = now + _LOOK_PAUSE * (thread_time_ns() - begun)
        finally:
            self.lock.release()

    def _read(self, variable, reading: int, stack, t_ns: int) -> None:
        found = variable.read()
        if found is None or found == variable.texts:
            return
        known = variable.texts
        changed = [text for key, text in found.items() if known is None or known.get(key) != text]
        count = self.samples[variable.name] = self.samples[variable.name] + (1 if known is None else max(1, len(changed)))
        if count > SAMPLES_MAX or len(found) > KEYS_MAX:
            self._give_up(variable, reading)
            return
        if known is not None and any(text.startswith(_OPENED) for text in changed):
            self.outdated.add((variable.path.root.module, variable.path.root.name))
        self.changed(variable, found, reading, stack, t_ns)

    def _give_up(self, variable, reading: int) -> None:
        """Record that a path leads nowhere from now on, and don't read it again."""
        del self.samples[variable.name]
        self.changed(variable, {}, reading, None, 0)

    # --- search

    def _search(self) -> None:
        """Look for the living instances of classes. All paths are looked for again."""
        modules = self._modules()
        self.own = {id(kind) for kind, _, _ in self._classes(modules)}
        self.starts = dict.fromkeys([*self._instances(modules), *self._entries(modules)])
        self.outdated.update(self.starts)

    def _walk(self) -> list:
        """Look for paths that are not known yet; return their variables."""
        walk = _Walk(self.own, {id(thing) for start in self.starts for thing in self._living(start)})
        new = []
        for module, name in [start for start in self.starts if start in self.outdated]:
            value = self.paths.root(module, name).read(find_module(module))
            found = sorted(set(islice(walk.paths("%s:%s" % (module, name), value), _VISITED_MAX)), key=_steps)
            for path in found[:ROOT_PATHS_MAX]:
                if path not in self.variables and len(self.variables) < PATHS_MAX:
                    variable = self.variables[path] = self.make(path, self.paths.path(path), {})
                    self.samples[path] = 0
                    new.append(variable)
        self.outdated.clear()
        return new

    def _living(self, start):
        root = self.paths.roots.get(start)
        references = root.instances if root is not None else ()
        return [thing for thing in (reference() for reference in references) if thing is not None]

    def _modules(self) -> dict:
        """The target's modules, by the names under which they are imported."""
        found: dict = {}
        for name, module in list(sys.modules.items()):
            if type(module) is _MODULE and self.counts(name):
                found.setdefault(module_name(module.__dict__), module)
        return found

    @staticmethod
    def _classes(modules: dict):
        """The classes that these modules define, with the names of the modules and of the classes."""
        for module_is, module in modules.items():
            for name in own_names(module):
                kind = attribute(module, name)
                if issubclass(type(kind), type):
                    defined_in = attribute(kind, "__module__")
                    if type(defined_in) is str and defined_in in (module_is, "__main__"):
                        yield kind, module_is, name

    @staticmethod
    def _entries(modules: dict):
        """The variables of modules. Constants have names in capitals."""
        for module_is, module in modules.items():
            for name in own_names(module):
                if type(name) is str and not name.startswith("__") and not name.isupper():
                    value = attribute(module, name)
                    if _is_plain(value) or container_of(value) is not None:
                        yield module_is, name

    def _instances(self, modules: dict):
        """Find the instances of each class that has few of them. An instance belongs to the base class, if that has few too:
        then different kinds of nodes have the same paths."""
        own = {id(kind): (kind, module, name) for kind, module, name in self._classes(modules)}
        bases = _lineages(own)
        living: dict = {}
        for thing in [each for each in _by_age() if id(type(each)) in bases]:
            for at in bases[id(type(thing))]:
                many = living.setdefault(at, [])
                if len(many) <= INSTANCES_MAX:
                    many.append(thing)
        done: dict = {}
        for things in list(living.values()):
            for thing in things:
                at = next((each for each in bases[id(type(thing))] if len(living[each]) <= INSTANCES_MAX), None)
                if at is not None:
                    done.setdefault(at, living[at])
        for root in self.paths.roots.values():
            root.instances = []
        for at, things in done.items():
            cls, module, name = own[at]
            root = self.paths.root(module, name)
            root.cls = cls
            root.instances = [reference for reference in map(_reference, things) if reference is not None]
            if root.instances:
                yield module, name


def _by_age():
    """All objects that the garbage collector knows, the oldest first."""
    return chain.from_iterable(gc.get_objects(generation) for generation in (2, 1, 0))


def _lineages(own: dict) -> dict:
    """By address of a class: the addresses of the target's classes that it derives from, the outermost base first."""
    kinds = [kind for kind, _, _ in own.values()]
    found: dict = {}
    for kind in kinds:
        if id(kind) not in found:
            found[id(kind)] = [id(each) for each in reversed(classes_of(kind)) if id(each) in own]
            kinds += type.__subclasses__(kind)
    return found


def _steps(path: str):
    return path.count(".") + path.count("["), path


def _reference(thing):
    try:
        return _weakref.ref(thing)
    except TypeError:
        return None


class _Walk:
    """Finds paths from one object. `own` has the addresses of the target's classes: only their instances are entered, but not
    those at which other paths start (`roots`)."""

    def __init__(self, own, roots):
        self.own = own
        self.roots = roots

    def paths(self, text: str, value):
        if _is_plain(value) or container_of(value) is not None:
            yield from self._from(text, value, _STEPS_MAX)
            return
        for name, inner in _attributes(value):
            yield from self._from("%s.%s" % (text, name), inner, _STEPS_MAX - 1)

    def _from(self, text: str, value, steps: int):
        container = container_of(value)
        if _is_plain(value):
            yield text
        elif container is not None:
            try:
                if container.size(value) <= KEYS_MAX:
                    yield from self._in_container(text, container, value, steps)
            except (RuntimeError, IndexError):  # another thread has changed it meanwhile
                pass
        elif steps and id(type(value)) in self.own and id(value) not in self.roots:
            for name, inner in _attributes(value):
                yield from self._from("%s.%s" % (text, name), inner, steps - 1)

    def _in_container(self, text: str, container, value, steps: int):
        elements = container.elements(value)
        keys = [key for key, _ in elements] if container is MAPPING else elements
        if all(map(_is_plain, keys)):
            yield text
        if not elements or not steps:
            return
        if container is MAPPING:
            name = "*" if all(key_text(key) is not None for key in keys) else _telling(keys)
            for _, element in elements[:_LOOKED_AT] if name else ():
                yield from self._from("%s[%s]" % (text, name), element, steps - 1)
        elif container in SEQUENCES and container.type is tuple:
            for at, element in enumerate(elements[:_TUPLE_MAX]):
                yield from self._from("%s[%d]" % (text, at), element, steps - 1)
        elif not _is_plain(keys[0]):
            name = _telling(keys)
            for element in elements[:_LOOKED_AT] if name else ():
                yield "%s[%s]" % (text, name)
                yield from self._from("%s[%s]" % (text, name), element, steps - 1)


def _attributes(owner):
    """The attributes of an object that a path can name, and their values."""
    for name in own_names(owner):
        if type(name) is str and name.isidentifier():
            value = attribute(owner, name)
            if value is not ABSENT:
                yield name, value


def _is_plain(value) -> bool:
    """Is it a plain value that nodes may agree about? Fractions are times, sizes and loads."""
    return not issubclass(type(value), (float, tuple)) and key_text(value) is not None


def _telling(things: list) -> str:
    """`*.id`, with the attribute whose values tell these objects apart; "" if there is none."""
    things = things[:KEYS_MAX]
    names = [name for name, value in _attributes(things[0]) if type(value) in (str, int)]
    for wanted in _TELLING:
        for name in sorted(names, key=len):
            if wanted in name.lower():
                texts = [key_text(attribute(thing, name)) for thing in things]
                if None not in texts and len(set(texts)) == len(texts):
                    return "*.%s" % name
    return ""
