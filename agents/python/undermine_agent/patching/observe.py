"""Helpers for hooks that only observe: locks, waits, queues, clocks.

Such operations are everywhere, so only calls from the target's own code are recorded; every other caller passes after
one look at its code. No step ever matches them: nothing is delayed or raised here.
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
"""The time limit, in nanoseconds, of a call that doesn't wait. 0 means that it may wait for ever."""
_number = count(1).__next__


class WeakTable:
    """A table by object identity. An entry goes away with its object and never keeps it alive."""

    def __init__(self):
        self.known: dict = {}

    def put(self, owner, value) -> None:
        self.known[id(owner)] = self._entry(owner, value)

    def first(self, owner, value):
        """The object's value; `value` becomes it if there is none yet."""
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
    """Return a function that names an object by its class and address."""
    subject_of = by_key(label, id, "%s@%x")
    subject_of.label = label
    return subject_of


def by_key(label: str, key_of, form: str):
    """Return a function that names an object by its class and its `key_of`."""
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
    """Return a function that finds a call's time limit in nanoseconds; 0: no limit, AT_ONCE: it doesn't wait.

    `position` counts from 0, without `self`. The argument before it is the flag of this name, if any, which says
    whether the call waits. A timeout equal to `none` means no limit, too.
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
    """Return a function that says whether the target's own code called the hook; cheap if it did not."""
    codes, targets_own, frame = agent.sites.codes, agent.targets_own, sys._getframe
    ask = _nobody_knows if fast.module is None else fast.module.called_by_target

    def is_own() -> bool:
        known = ask()
        if known is not None:
            return known
        try:
            caller = frame(2)
        except ValueError:  # called from C code
            return False
        return codes.get(id(caller.f_code), codes) is not None and not agent.off and targets_own(caller)

    return is_own


def own_behind(agent, *packages: str):
    """Like `own_caller`, but looks behind these packages of the standard library: did the target's code call them?

    A callback of an event loop has no caller.
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
    """Return a function that says whether anyone but the tool called, directly or through the standard library.

    For operations that a library does for the target, also in the library's own threads.
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
    """Like `own_caller`; calls from these modules of the standard library count too, whoever called them."""
    targets_own, frame, named = agent.targets_own, sys._getframe, frozenset(modules)

    def is_own() -> bool:
        try:
            caller = frame(2)
        except ValueError:  # called from C code
            return False
        return not agent.off and (caller.f_globals.get("__name__") in named or targets_own(caller))

    return is_own


def all_but(agent, codes):
    """Return a function that says whether the caller's code is not among these codes (by address)."""
    frame = sys._getframe

    def is_other() -> bool:
        try:
            caller = frame(2)
        except ValueError:  # called from C code
            return False
        return not agent.off and id(caller.f_code) not in codes

    return is_other


class _Code:
    """The part of a frame that says whose code it runs."""

    __slots__ = ("f_code", "f_globals")

    def __init__(self, function):
        self.f_code = function.__code__
        self.f_globals = function.__globals__


_FUNCTION, _METHOD, _PARTIAL = type(nanoseconds), type(WeakTable().put), _functools.partial
_CODE = frozenset((_FUNCTION, _METHOD, _PARTIAL))


def own_code(agent):
    """Return a function that finds the target's own code in a hand-over; it returns None if there is none.

    The code may be a function, a method, the function of a partial, or the first argument of a library's function. A
    method that ends somebody's wait (`Event.set`) counts too.
    """
    sites, signals = agent.sites, agent.signals
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
                if type(function.__self__) in signals:
                    return function
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
    """The original, with everything that it calls counted as part of it."""

    def do(*args, **options):
        state = agent.thread_state()
        busy, state.busy = state.busy, True
        try:
            return original(*args, **options)
        finally:
            state.busy = busy

    return do


def observed(agent, op, subject_of, size_of=nothing, measure=truth, is_own=None, unless=None):
    """Return a factory of hooks that record calls from the target's own code. Also for module functions.

    `op` is an operation's name, or a function that finds it from the call's arguments. With `unless`, the calls of all
    code are recorded, except for these codes (by address).
    """
    operation_of, perform = _operation_of(agent, op), agent.perform
    codes, targets_own, frame = agent.sites.codes, agent.targets_own, sys._getframe

    def recorded(original, args, options):
        try:
            operation, subject = operation_of(*args, **options), subject_of(*args, **options)
            size = size_of(*args, **options)
        except Exception:  # let the original report the wrong arguments
            return original(*args, **options)
        if subject is None:
            return original(*args, **options)
        return perform(operation, subject, size, measure, original, *args, **options)

    # Most callers are known not to be the target's own code: they take the shortest path.
    def make(original):
        def hook(*args, **options):
            try:
                caller = frame(1)
            except ValueError:  # called from C code
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
    """Like `observed`, for methods whose result shows in their object afterwards: `measure(self)`.

    A child that is forked during the call never records its end. With `whole`, everything called below is part of the
    operation.
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
            except Exception:  # let the original report the wrong arguments
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
    """Return a hook for `on_coroutine` that notes whether the target's own code creates the coroutine.

    The caller that drives it says nothing: `wait_for`, `gather` and tasks drive coroutines that the target created. The
    hook returns the coroutine `driven(made_at, ...)`, where `made_at` is None if other code created it. With `part`, a
    task that runs only this coroutine is part of the task that starts it.
    """
    made = dressed(_copy(driven), original)
    dressed(driven, original)
    current_stack, sites = agent.current_stack, agent.sites
    if part:
        agent.parts[id(made.__code__)] = made.__code__

    def hook(*args, **options):
        if is_own():
            return made((sites.stacks, current_stack()), *args, **options)
        return driven(None, *args, **options)

    return hook


def _copy(function):
    """A copy of the function with its own code object, so that its coroutines can be recognised by their code."""
    return _FUNCTION(  # type: ignore[misc]
        function.__code__.replace(), function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )


def asked_at(agent, made_at):
    """The stack at which a coroutine was created; None if the stacks of that time have been forgotten."""
    return made_at[1] if made_at[0] is agent.sites.stacks else None


def observed_coroutine(agent, op, subject_of, size_of=nothing, measure=truth, is_own=None, part=True, begun=None):
    """Like `observed`, for coroutine functions and `on_coroutine`: the target's own code creates or awaits them.

    `begun` is called when one begins, with its stack (if other code drives it) and its arguments. It returns a function
    that gets the result.
    """
    operation_of, is_own = _operation_of(agent, op), is_own or own_caller(agent)

    def make(original):
        async def driven(made_at, /, *args, **options):
            own = is_own()
            if not own and made_at is None:
                return await original(*args, **options)
            try:
                operation, subject = operation_of(*args, **options), subject_of(*args, **options)
                stack = None if own else asked_at(agent, made_at)
                call = agent.enter(operation, subject, size_of(*args, **options), 0, stack)
                ended = begun(stack, *args, **options) if begun is not None and call is not None else None
            except (AttributeError, TypeError):  # let the original report the wrong arguments
                call = None
            if call is None:
                return await original(*args, **options)
            try:
                result = await original(*args, **options)
            except BaseException as error:
                agent.leave(call, 0, error)
                raise
            finally:
                del args, options  # a kept exception keeps this frame alive
            agent.leave(call, measure(result))
            if ended is not None:
                ended(result)
            return result

        return where_made(agent, driven, original, is_own, part)

    return make


def observe_methods(agent, cls, label: str, replace, methods: dict, make_hook=observed, subject_of=None) -> None:
    """Observe methods of a class: name -> operation, or (operation, size_of). Skips inherited and missing methods."""
    subject_of = subject_of or by_address(label)
    for name, what in methods.items():
        if name in cls.__dict__:
            op, size_of = what if isinstance(what, tuple) else (what, nothing)
            replace(cls, name, make_hook(agent, op, subject_of, size_of))
