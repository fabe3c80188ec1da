"""Stand-ins that pass for functions of the target: in looks, when bound, and when pickled.

Everything except a call leads to the original, including its code and closure. So `inspect` sees the original's
signature and kind, and `pickle` stores its name. Where `cloudpickle` stores functions by value, it stores the
original, which runs in a process without the agent.
"""

from __future__ import annotations

_AS_ORIGINAL = ("__doc__", "__module__")  # otherwise every class has its own


class Disguise:
    """Base class of stand-ins. Each function has its own subclass, with `__call__` and `__wrapped__` (the original)."""

    __slots__ = ("__weakref__",)

    @property  # type: ignore[misc]
    def __class__(self):
        return type(self.__wrapped__)

    @property
    def __dict__(self):  # type: ignore[override]
        return self.__wrapped__.__dict__

    def __getattr__(self, name):
        return getattr(self.__wrapped__, name)

    def __setattr__(self, name, value):
        setattr(self.__wrapped__, name, value)

    def __delattr__(self, name):
        delattr(self.__wrapped__, name)

    def __get__(self, instance, owner=None):
        if instance is None or not hasattr(type(self.__wrapped__), "__get__"):
            return self
        return _Method(self, instance)  # type: ignore[misc]

    def __repr__(self):
        return repr(self.__wrapped__)

    def __dir__(self):
        return dir(self.__wrapped__)

    def __reduce_ex__(self, protocol):
        return self.__wrapped__.__qualname__


_Method = type(Disguise().__repr__)


def disguised(original, run):
    """A stand-in for the original that calls `run(args, options)`."""

    def __call__(self, /, *args, **options):
        return run(args, options)

    return _passing_for(original, __call__)


def standing_in(original, hook):
    """A stand-in for the original that calls the hook, with no frame in between."""
    return _passing_for(original, staticmethod(hook))


def _passing_for(original, __call__):
    def reading(name: str) -> property:
        return property(lambda self: getattr(original, name))

    attributes: dict = {name: reading(name) for name in _AS_ORIGINAL}
    attributes.update(__slots__=(), __call__=__call__, __wrapped__=staticmethod(original))
    return type(getattr(original, "__name__", "function"), (Disguise,), attributes)()
