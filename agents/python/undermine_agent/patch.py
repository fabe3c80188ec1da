"""How hooks are put in place: on modules, on C types, on Python classes, and on modules not imported yet.

A replaced module function does not bind when it is a class attribute, pickles by name, has the name, text and
signature of the original and takes its place in the `os.supports_*` sets. Hooks keep all they need in closures:
they may be called after the interpreter has emptied the modules.
"""

from __future__ import annotations

import os
import sys

from undermine_agent import native


class Function:
    """A stand-in for a built-in function; each hook is a subclass with its own `__call__`."""

    __slots__ = ("__weakref__",)

    def __repr__(self):
        return "<built-in function %s>" % self.__name__

    def __reduce__(self):
        return self.__name__

    @property
    def __signature__(self):
        import inspect

        return inspect.signature(self.__wrapped__)


def stand_in(original, call, module: str) -> Function:
    """A `Function` for the original; `call` is its `__call__` and takes the stand-in itself first."""
    attributes = {
        "__slots__": (),
        "__call__": call,
        "__wrapped__": staticmethod(original) if hasattr(original, "__get__") else original,
        "__name__": original.__name__,
        "__qualname__": original.__name__,
        "__doc__": original.__doc__,
        "__module__": module,
        "__self__": getattr(original, "__self__", None),
        "__text_signature__": getattr(original, "__text_signature__", None),
    }
    return type(original.__name__, (Function,), attributes)()


def on_module(module, name: str, call) -> None:
    """Replace a function of a module; in `os`, also in its sets of what functions can do."""
    original = getattr(module, name)
    replacement = stand_in(original, call, module.__name__)
    if module is os:
        for functions in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids):
            if original in functions:
                functions.discard(original)
                functions.add(replacement)
    setattr(module, name, replacement)


def dressed(call, original):
    """A hook of a method, made to look like the original."""
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        try:
            setattr(call, name, getattr(original, name))
        except (AttributeError, TypeError):
            pass
    call.__wrapped__ = original
    return call


def on_type(cls: type, name: str, call) -> None:
    """Replace a method of a C type."""
    native.set_type_entry(cls, name, dressed(call, cls.__dict__[name]))


def on_class(cls: type, name: str, call) -> None:
    """Replace a method of a Python class."""
    setattr(cls, name, dressed(call, getattr(cls, name)))


class ImportWatch:
    """A finder that finds nothing itself: it lets the others find a module, and hooks it once it has run."""

    def __init__(self, wanted: dict):
        self.wanted = wanted

    def start(self) -> None:
        for name in list(self.wanted):
            module = sys.modules.get(name)
            if module is not None:
                self.arrived(name, module)
        if self.wanted:
            sys.meta_path.insert(0, self)

    def arrived(self, name: str, module) -> None:
        hook = self.wanted.pop(name, None)
        if hook is not None:
            hook(module)
        if not self.wanted and self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name, path=None, target=None):
        if name not in self.wanted:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None and finder is not self else None
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader, self)
                return spec
        return None


class _Loader:
    """Steps aside before the module runs: the module sees its real loader only."""

    def __init__(self, loader, watch: ImportWatch):
        self.loader = loader
        self.watch = watch

    def __getattr__(self, name):
        return getattr(self.loader, name)

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        spec = module.__spec__
        spec.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        self.watch.arrived(spec.name, module)
