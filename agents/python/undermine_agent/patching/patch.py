"""Installs hooks: on modules, C types and Python classes, also on modules that are not imported yet.

`make(original)` creates a hook, which takes the original's arguments. A hook calls the original only by that
argument: a name looked up elsewhere may lead to the hook again.

A coroutine function is hooked by a plain function that passes for one: the place where a coroutine is created says
whose it is.

With the accelerator, built-in functions are redirected in place and stay the same objects; `fast.offer` says what the
accelerator may do for a hook. Without it, they are replaced. A replaced module function doesn't bind as a class
attribute, pickles by name, has the original's name, text and signature, and joins it in the `os.supports_*` sets.
Hooks keep everything they need in closures: they may run after the interpreter has emptied the modules.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

from undermine_agent.interpreter import fast, forks, native


class Function:
    """A stand-in for a built-in function; each hook is a subclass with its own `__call__`."""

    __slots__ = ("__weakref__",)
    __name__: str
    __wrapped__: Callable

    def __repr__(self):
        return "<built-in function %s>" % self.__name__

    def __reduce__(self):
        return self.__name__

    @property
    def __signature__(self):
        import inspect

        return inspect.signature(self.__wrapped__)


def stand_in(original, hook, module: str) -> Function:
    """A `Function` that calls the hook and passes for the original."""
    attributes = {
        "__slots__": (),
        "__call__": staticmethod(hook),
        "__wrapped__": staticmethod(original) if hasattr(original, "__get__") else original,
        "__name__": original.__name__,
        "__qualname__": original.__name__,
        "__doc__": original.__doc__,
        "__module__": module,
        "__self__": getattr(original, "__self__", None),
        "__text_signature__": getattr(original, "__text_signature__", None),
    }
    return type(original.__name__, (Function,), attributes)()


def _redirected(original, make, cls=None) -> bool:
    """Redirect a built-in function or method in place, for instances of the class only; false if that cannot be done."""
    return fast.module is not None and fast.module.redirect(original, make, getattr(make, "native", None), cls)


def on_module(module, name: str, make, aliases=()) -> None:
    """Hook a built-in function of a module and of its aliases, which have it by the same name; in `os`, also in its sets."""
    original = getattr(module, name)
    sets: tuple = (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids)
    sets = tuple(functions for functions in sets if original in functions) if module is os else ()
    for functions in sets:
        functions.discard(original)  # its hash is about to change
    replacement = original
    if not _redirected(original, make):
        replacement = stand_in(original, make(original), original.__module__ if aliases else module.__name__)
        for owner in (module, *aliases):
            setattr(owner, name, replacement)
    for functions in sets:
        functions.update((original, replacement))


def dressed(hook, original, cls=None):
    """The hook of a method, with the original's name and documentation."""
    if cls is not None:
        hook.__module__ = getattr(cls, "__module__", hook.__module__)  # methods of C types have no module
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        try:
            setattr(hook, name, getattr(original, name))
        except (AttributeError, TypeError):
            pass
    hook.__wrapped__ = original
    return hook


def on_type(cls: type, name: str, make) -> None:
    """Hook a method of a C type."""
    original = cls.__dict__[name]
    if _redirected(original, make):
        return
    native.set_type_entry(cls, name, dressed(make(original), original, cls))


def _itself(original):
    return original


def on_slot(cls: type, name: str, make) -> None:
    """Hook a special method of a C type."""
    original = cls.__dict__[name]
    native.set_slot(cls, name, dressed(make(fast.base("Original", _itself)(original)), original, cls))


def on_class(cls: type, name: str, make) -> None:
    """Hook a method of a Python class, its own or inherited."""
    original = getattr(cls, name)
    if _redirected(original, make, cls):
        return
    if fast.module is not None and hasattr(make, "native") and type(original) is type(on_class):
        setattr(cls, name, fast.module.Method(original, make, make.native))
        return
    setattr(cls, name, dressed(make(original), original, cls))


def on_coroutine(cls, name: str, make) -> None:
    """Hook a coroutine function of a Python class or module by a plain function that returns a coroutine.

    The hook runs where the coroutine is created, before anyone drives it. `inspect` still sees a coroutine function.
    """
    original = getattr(cls, name)
    hook = make(original)
    if fast.module is not None and type(original) is type(on_class):
        setattr(cls, name, fast.module.Method(original, lambda _: hook, None))
    else:
        setattr(cls, name, forks.load("undermine_agent.patching.disguise", "standing_in")(original, hook))


class ImportWatch:
    """A finder that finds nothing itself: it lets the others find a module, and hooks the module after it has run."""

    def __init__(self, wanted: dict):
        self.wanted = wanted

    def start(self) -> None:
        for name in list(self.wanted):
            module = sys.modules.get(name)
            if module is not None:
                self.arrived(name, module)
        if self.wanted:
            sys.meta_path.insert(0, self)

    def add(self, name: str, hook) -> None:
        """Add a hook for a module, after its other hooks; run it at once if the module is already imported."""
        if name in sys.modules:
            hook(sys.modules[name])
            return
        earlier = self.wanted.get(name)
        self.wanted[name] = hook if earlier is None else lambda module: (earlier(module), hook(module))
        if self not in sys.meta_path:
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
    """Steps aside before the module runs: the module sees only its real loader."""

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
