"""Reads attributes and containers as the interpreter stores them. None of the target's code runs.

A value that only a property, `__getattr__` or another method of the target would return is `ABSENT`.
"""

from __future__ import annotations

import sys
from _collections import deque  # type: ignore[import-not-found]

ABSENT = object()
_FUNCTION, _MODULE = type(lambda: None), type(sys)
_GETSET = type(type.__dict__["__dict__"])
_mro_of = type.__dict__["__mro__"].__get__
_name_of = type.__dict__["__name__"].__get__
_dict_of_class = type.__dict__["__dict__"].__get__
_dict_of_module = _MODULE.__dict__["__dict__"].__get__  # type: ignore[index]
_CLASSES_MAX = 1000
_kinds: dict = {}  # by address of a class: its hash may be code of the target


class _Slotted:
    __slots__ = ("slot",)


_SLOT = type(_Slotted.__dict__["slot"])
_name_of_slot = _SLOT.__dict__["__name__"].__get__


def imported(module: str, name: str):
    """An entry of a module, if the target has imported the module."""
    found = sys.modules.get(module, ABSENT)
    return _dict_of_module(found).get(name, ABSENT) if type(found) is _MODULE else ABSENT


def attribute(owner, name: str):
    kind = type(owner)
    known = _kinds.get(id(kind)) or _kind_of(kind)
    if known.is_module:
        return _dict_of_module(owner).get(name, ABSENT)
    if known.is_class:
        value = _in_classes(owner, name)
        return ABSENT if _is_descriptor(value) else value
    if known.answers_itself:
        return ABSENT
    value = _in_classes(kind, name)
    if value is not ABSENT:
        descriptor = type(value)
        if descriptor is _SLOT or descriptor is imported("_collections", "_tuplegetter"):
            try:
                return value.__get__(owner, kind)
            except AttributeError:  # an empty slot
                return ABSENT
        if _in_classes(descriptor, "__set__") is not ABSENT:
            return ABSENT
    own = known.dict_of(owner)
    if type(own) is dict and name in own:
        return own[name]
    return ABSENT if _is_descriptor(value) else value


def own_values(owner) -> list:
    """The values of an object's own attributes and slots. Modules and classes have none here."""
    kind = type(owner)
    known = _kinds.get(id(kind)) or _kind_of(kind)
    if known.is_module or known.is_class:
        return []
    own = known.dict_of(owner)
    found = list(own.values()) if type(own) is dict else []
    for slot in known.slots:
        try:
            found.append(slot.__get__(owner, kind))
        except AttributeError:
            pass
    return found


def own_names(owner) -> list:
    """The names of a module's entries, or of an object's own attributes and slots."""
    kind = type(owner)
    known = _kinds.get(id(kind)) or _kind_of(kind)
    own = _dict_of_module(owner) if known.is_module else known.dict_of(owner)
    found = list(own) if type(own) is dict else []
    return found + [_name_of_slot(slot) for slot in known.slots]


def classes_of(kind: type) -> tuple:
    """A class and its bases, in the order in which attributes are looked up."""
    return _mro_of(kind)


class _Kind:
    """The facts about a class that decide how its instances are read."""

    __slots__ = ("cls", "is_module", "is_class", "answers_itself", "dict_of", "slots")

    def __init__(self, cls):
        self.cls = cls  # its address must not become another's
        self.is_module, self.is_class = issubclass(cls, _MODULE), issubclass(cls, type)
        self.answers_itself = type(_in_classes(cls, "__getattribute__")) is _FUNCTION
        descriptor = _in_classes(cls, "__dict__")
        self.dict_of = descriptor.__get__ if type(descriptor) is _GETSET else _nothing
        entries = [value for each in _mro_of(cls) for value in list(_dict_of_class(each).values())]
        self.slots = [value for value in entries if type(value) is _SLOT]


def _kind_of(cls) -> _Kind:
    if len(_kinds) >= _CLASSES_MAX:
        _kinds.clear()
    known = _kinds[id(cls)] = _Kind(cls)
    return known


def _nothing(owner):
    return None


def class_name(kind: type) -> str:
    return _name_of(kind)


def _is_descriptor(value) -> bool:
    return _in_classes(type(value), "__get__") is not ABSENT


def _in_classes(kind, name: str):
    """The entry of this name in a class or its bases."""
    for each in _mro_of(kind):
        value = _dict_of_class(each).get(name, ABSENT)
        if value is not ABSENT:
            return value
    return ABSENT


# --- containers


class Container:
    """How the containers of one built-in type, and of its subclasses, are read."""

    __slots__ = ("type", "size", "item", "_iterator")

    def __init__(self, kind, iterator, item=None):
        self.type = kind
        self.size = kind.__len__
        self.item = item  # finds an element by its index
        self._iterator = iterator

    def elements(self, value) -> list:
        """The elements now; those of a dictionary are its items. RuntimeError: another thread changed it meanwhile."""
        return list(self._iterator(value))


MAPPING = Container(dict, dict.items)
SETS = (Container(set, set.__iter__), Container(frozenset, frozenset.__iter__))
SEQUENCES = tuple(Container(kind, kind.__iter__, kind.__getitem__) for kind in (list, tuple, deque))
_CONTAINERS = (MAPPING, *SETS, *SEQUENCES)
_BY_TYPE = {id(container.type): container for container in _CONTAINERS}


def container_of(value):
    """The `Container` for this value, or None."""
    kind = type(value)
    found = _BY_TYPE.get(id(kind))
    if found is None:
        for container in _CONTAINERS:
            if issubclass(kind, container.type):
                return container
    return found
