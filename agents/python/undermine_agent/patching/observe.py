"""Hooks that only observe: locks, waits, queues, clocks. Recorded only where the target's own code calls.

Such operations are everywhere, so every other caller passes after one look at its code. They are never matched by
steps: nothing is ever held or raised here.
"""

from __future__ import annotations

import _functools  # type: ignore[import-not-found]
import _weakref
import os
import sys
from itertools import count

from undermine_agent.interpreter import fast
from undermine_agent.names.sites import UNKNOWN, is_hosts, is_tools, module_name
from undermine_agent.names.subjects import Subject
from undermine_agent.patching.patch import dressed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

_SUBJECTS_MAX = 10_000
AT_ONCE = 1
"""The limit, in nanoseconds, of a wait that does not wait at all: 0 is one that may wait for ever."""
_number = count(1).__next__


class WeakTable:
    """What is known of objects, by identity; forgotten with the object, never keeping it alive."""

    def __init__(self):
        self.known: dict = {}

    def put(self, owner, value) -> None:
        self.known[id(owner)] = self._entry(owner, value)

    def first(self, owner, value):
        """What is known of the object: this, unless something is."""
        return self.known.setdefault(id(owner), self._entry(owner, value))[1]

    def _entry(self, owner, value):
        key, known = id(owner), self.known

        def gone(reference):
            if known.get(key, (None,))[0] is reference:
                del known[key]

        return _weakref.ref(owner, gone), value

    def get(self, owner):
        entry = self.known.get(id(owner))
        return entry[1] if entry is not None else None

    def pop(self, owner):
        entry = self.known.pop(id(owner), None)
        return entry[1] if entry is not None else None


def unique(kind: str) -> str:
    """An id that is unique in the process."""
    return "%s-%d" % (kind, _number())


def by_address(label: str):
    """Names an object by its class and address."""
    subject_of = by_key(label, id, "%s@%x")
    subject_of.label = label
    return subject_of


def by_key(label: str, key_of, form: str):
    """Names an object by its class and by what `key_of` says of it."""
    subjects: dict = {}
    make = Subject

    def subject_of(owner, *args, **options):
        key = key_of(owner)
        subject = subjects.get(key)
        if subject is None:
            if len(subjects) > _SUBJECTS_MAX:
                subjects.clear()
            subject = subjects[key] = make(label, form % (label, key))
        return subject

    return subject_of


def nothing(*args, **options) -> int:
    return 0


def limit(position: int, flag: str = "", default=None, none=None):
    """The time limit that a call was given, in nanoseconds; 0: none, AT_ONCE: it does not wait.

    `position` counts from 0, without `self`. Before it stands the flag of this name, if there is one, which says whether the call
    waits. `none` is what else means that there is no limit.
    """

    def size_of(owner, *args, **options):
        if flag and not (args[position - 1] if len(args) >= position else options.get(flag, True)):
            return AT_ONCE
        seconds = args[position] if len(args) > position else options.get("timeout", default)
        return 0 if seconds is None or seconds == none else max(nanoseconds(seconds), AT_ONCE)

    return size_of


def at_once(*args, **options) -> int:
    return AT_ONCE


def nanoseconds(seconds) -> int:
    try:
        return min(int(seconds * 1_000_000_000), (1 << 63) - 1) if seconds > 0 else 0
    except (TypeError, ValueError, OverflowError):
        return 0


def truth(result) -> int:
    return 1 if result is True else 0


def _nobody_knows() -> None:
    return None


def own_caller(agent):
    """A function that says whether the code that called the hook is the target's own; cheap where it is not."""
    codes, targets_own, frame = agent.sites.codes, agent.targets_own, sys._getframe
    ask = _nobody_knows if fast.module is None else fast.module.called_by_target

    def is_own() -> bool:
        known = ask()
        if known is not None:
            return known
        try:
            caller = frame(2)
        except ValueError:  # no Python code calls
            return False
        return codes.get(id(caller.f_code), codes) is not None and not agent.off and targets_own(caller)

    return is_own


def own_behind(agent, *packages: str):
    """The same for what these packages of the standard library call: is it the target's own code that called them?

    What an event loop calls back has no caller.
    """
    targets_own, frame = agent.targets_own, sys._getframe
    passed = frozenset(("undermine_agent", *packages))

    def is_own() -> bool:
        if agent.off:
            return False
        caller: FrameType | None = frame(2)
        while caller is not None:
            name = caller.f_globals.get("__name__")
            if name == "asyncio.events" or type(name) is not str:
                return False
            if name.partition(".")[0] not in passed:
                return targets_own(caller)
            caller = caller.f_back
        return False

    return is_own


def not_the_tools(agent):
    """A function that says whether anybody but the tool itself called, be it by way of the standard library.

    For what the target has even if a library sees to it, in a thread of the library's own.
    """
    frame, targets_own = sys._getframe, agent.targets_own

    def is_so() -> bool:
        if agent.off:
            return False
        caller: FrameType | None = frame(2)
        while caller is not None:
            if is_hosts(caller.f_code.co_filename):
                return targets_own(caller) or not is_tools(module_name(caller.f_globals))
            caller = caller.f_back
        return True

    return is_so


def own_or_by(agent, *modules: str):
    """As `own_caller`; what these modules of the standard library call counts too, whoever called them."""
    targets_own, frame, named = agent.targets_own, sys._getframe, frozenset(modules)

    def is_own() -> bool:
        try:
            caller = frame(2)
        except ValueError:  # no Python code calls
            return False
        return not agent.off and (caller.f_globals.get("__name__") in named or targets_own(caller))

    return is_own


def all_but(agent, codes):
    """A function that says whether any code called but this, by address."""
    frame = sys._getframe

    def is_other() -> bool:
        try:
            caller = frame(2)
        except ValueError:  # no Python code calls
            return False
        return not agent.off and id(caller.f_code) not in codes

    return is_other


class _Code:
    """As much of a frame as is needed to say whose code it runs."""

    __slots__ = ("f_code", "f_globals")

    def __init__(self, function):
        self.f_code = function.__code__
        self.f_globals = function.__globals__


_FUNCTION, _METHOD, _PARTIAL = type(nanoseconds), type(WeakTable().put), _functools.partial
_CODE = frozenset((_FUNCTION, _METHOD, _PARTIAL))


def own_code(agent):
    """A function that finds the target's own code in what is handed over, whoever hands it over; None if it has none.

    It may be a function, a method, what a partial calls, or the first argument of a library's function.
    """
    sites = agent.sites
    codes = sites.codes

    def find(function, args=()):
        for _ in range(10):
            kind = type(function)
            if kind is _FUNCTION:
                offsets = codes.get(id(function.__code__), UNKNOWN)
                if offsets is UNKNOWN:
                    offsets = sites.classify(_Code(function))
                if offsets is not None:
                    return function
            elif kind is _METHOD:
                function = function.__func__
                continue
            elif kind is _PARTIAL:
                function, args = function.func, function.args + args
                continue
            if not args or type(args[0]) not in _CODE:
                return None
            function, args = args[0], ()
        return None

    return find


def as_one(agent, original):
    """The original, with everything that it calls below taken as part of it."""

    def do(*args, **options):
        state = agent.thread_state()
        busy, state.busy = state.busy, True
        try:
            return original(*args, **options)
        finally:
            state.busy = busy

    return do


def observed(agent, op, subject_of, size_of=nothing, measure=truth, is_own=None, unless=None):
    """How to make a hook that records the calls of the target's own code. Also for module functions.

    `op` is an operation's name, or a function that finds it from the call's arguments. `unless`: the calls of all code are
    recorded, but for this, by address.
    """
    operation_of, perform = _operation_of(agent, op), agent.perform
    codes, targets_own, frame = agent.sites.codes, agent.targets_own, sys._getframe

    def recorded(original, args, options):
        try:
            operation, subject = operation_of(*args, **options), subject_of(*args, **options)
            size = size_of(*args, **options)
        except Exception:  # the original says better what is wrong
            return original(*args, **options)
        if subject is None:
            return original(*args, **options)
        return perform(operation, subject, size, measure, original, *args, **options)

    # Most callers are known not to be the target's own code: they take the shortest way.
    def make(original):
        def hook(*args, **options):
            try:
                caller = frame(1)
            except ValueError:  # no Python code calls
                return original(*args, **options)
            if codes.get(id(caller.f_code), codes) is None or agent.off or not targets_own(caller):
                return original(*args, **options)
            return recorded(original, args, options)

        return hook

    def make_asking(original):
        def hook(*args, **options):
            return recorded(original, args, options) if is_own() else original(*args, **options)

        return hook

    if unless is not None:
        is_own = all_but(agent, unless)
        fast.offer(make_asking, fast.OBSERVE, agent.operations[op], None, 0, 0, 0, 0, {}, unless)
    if is_own is not None:
        return make_asking
    if type(op) is str:
        simple = size_of is nothing and measure is truth
        fast.offer(make, fast.OBSERVE, agent.operations[op], getattr(subject_of, "label", None) if simple else None)
    return make


def measured_after(agent, op, subject_of, measure, size_of=nothing, is_own=None, whole=False):
    """As `observed`, for methods whose result can be seen at their object when they are done: `measure(self)`.

    A child that was forked in between never records the end. `whole`: what is called below is part of it.
    """
    operation, is_own, pid = agent.operations[op], is_own or own_caller(agent), os.getpid

    def make(original):
        do = as_one(agent, original) if whole else original

        def hook(self, *args, **options):
            if not is_own():
                return original(self, *args, **options)
            try:
                subject = subject_of(self, *args, **options)
                size = size_of(self, *args, **options)
            except Exception:  # the original says better what is wrong
                subject = None
            parent = pid()
            call = agent.enter(operation, subject, size) if subject is not None else None
            if call is None:
                return original(self, *args, **options)
            try:
                result = do(self, *args, **options)
            except BaseException as error:
                if pid() == parent:
                    agent.leave(call, 0, error)
                raise
            if pid() == parent:
                agent.leave(call, _number_of(measure, self))
            return result

        return hook

    return make


def _number_of(measure, owner) -> int:
    try:
        return measure(owner) or 0
    except Exception:
        return 0


def _operation_of(agent, op):
    operations = agent.operations
    if callable(op):
        return lambda *args, **options: operations[op(*args, **options)]
    operation = operations[op]
    return lambda *args, **options: operation


def where_made(agent, driven, original, is_own, part=False):
    """A hook, for `on_coroutine`, that finds out where a coroutine is made whether the target's own code makes it.

    By whom it is driven says nothing: `wait_for`, `gather` and tasks drive what the target has made. Gives the coroutine
    `driven(place, ...)`, where `place` is None if others have made it. `part`: a task that does nothing but this is a part
    of the task that starts it.
    """
    made = dressed(_copy(driven), original)
    dressed(driven, original)
    place, sites = agent.current_stack, agent.sites
    if part:
        agent.parts[id(made.__code__)] = made.__code__

    def hook(*args, **options):
        if is_own():
            return made((sites.stacks, place()), *args, **options)
        return driven(None, *args, **options)

    return hook


def _copy(function):
    """The same function with code of its own: a coroutine can be told by its code."""
    return _FUNCTION(  # type: ignore[misc]
        function.__code__.replace(), function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )


def asked_at(agent, place):
    """The stack at which a coroutine was made that others drive; None where the events have none of that time any more."""
    return place[1] if place[0] is agent.sites.stacks else None


def observed_coroutine(agent, op, subject_of, size_of=nothing, measure=truth, is_own=None, part=True, begun=None):
    """The same for coroutine functions, for `on_coroutine`: recorded where the target's own code makes or awaits them.

    `begun` is told of each that begins: its stack, if others do it, and what it was called with. It gives a function that is told
    the result.
    """
    operation_of, is_own = _operation_of(agent, op), is_own or own_caller(agent)

    def make(original):
        async def driven(place, /, *args, **options):
            own = is_own()
            if not own and place is None:
                return await original(*args, **options)
            try:
                operation, subject = operation_of(*args, **options), subject_of(*args, **options)
                stack = None if own else asked_at(agent, place)
                call = agent.enter(operation, subject, size_of(*args, **options), 0, stack)
                ended = begun(stack, *args, **options) if begun is not None and call is not None else None
            except (AttributeError, TypeError):  # the original says better what is wrong
                call = None
            if call is None:
                return await original(*args, **options)
            try:
                result = await original(*args, **options)
            except BaseException as error:
                agent.leave(call, 0, error)
                raise
            finally:
                del args, options  # an exception that is kept keeps this frame
            agent.leave(call, measure(result))
            if ended is not None:
                ended(result)
            return result

        return where_made(agent, driven, original, is_own, part)

    return make


def observe_methods(agent, cls, label: str, replace, methods: dict, make_hook=observed, subject_of=None) -> None:
    """Observe methods of a class: name -> operation, or (operation, size_of). What it inherits or lacks is left out."""
    subject_of = subject_of or by_address(label)
    for name, what in methods.items():
        if name in cls.__dict__:
            op, size_of = what if isinstance(what, tuple) else (what, nothing)
            replace(cls, name, make_hook(agent, op, subject_of, size_of))
