"""Logical operations: functions that count as one operation, with the kind of a message and the peer.

Operations below the function with the same peer are part of it, in the same thread or coroutine, and get no event of
their own. Everything else is recorded as usual. While lasting faults are in force, the raw operations are recorded
again, since those faults apply to them.
"""

from __future__ import annotations

import sys
from time import monotonic_ns

from undermine_agent.core import LOST, note_error
from undermine_agent.faults.injection import make_error
from undermine_agent.logical.store_calls import GOT
from undermine_agent.names.subjects import Subject, content_of, mask
from undermine_agent.patching.disguise import disguised

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TEXT_MAX = 200
_CACHE_MAX = 10_000
_GENERATOR, _COROUTINE, _ASYNC_GENERATOR = 0x20, 0x80, 0x200  # flags of code objects
_RAW = frozenset({"net.connect", "net.send", "net.recv", "net.close"})
_DATABASE = _RAW | {"db.read", "db.write", "db.commit"}
PARTS = {
    "msg.send": _RAW | {"msg.send"},
    "msg.recv": frozenset({"net.recv", "msg.recv"}),  # sends of a handler are not part of the receive
    "db.read": _DATABASE,
    "db.write": _DATABASE,
    "db.commit": _DATABASE,
}


class LogicalSubject(Subject):
    """`peer` is `peer:NODE` or `other`; `awaits` is true if a coroutine carries out the operation. A trigger may name
    the `full_content` even if it isn't part of points.
    """

    __slots__ = ("peer", "awaits", "full_content")

    def __init__(self, target: str, resource: str, peer: str, awaits: bool, content: str = "", is_used: bool = False):
        Subject.__init__(self, target, resource, False, content if is_used else "")
        self.peer = peer
        self.awaits = awaits
        self.full_content = content


class StoreSubject(LogicalSubject):
    """The subject of an operation on a store: its resource describes what is `asked`."""

    __slots__ = ("asked",)

    def __init__(self, like: LogicalSubject, asked):
        content = like.full_content
        LogicalSubject.__init__(self, like.target, asked.text(), like.peer, like.awaits, content, bool(like.content))
        self.asked = asked


class LogicalCall:
    """A logical operation under way. `moved` is the connection of its last transfer with its peer.

    `mark` is a context variable if a fault waits for a transfer: it is set in tasks that the operation starts.
    """

    __slots__ = ("layer", "below", "peer", "moved", "is_over", "mark")

    def __init__(self, layer: Layer, op: str, peer: str):
        self.layer = layer
        self.below = PARTS[op]
        self.peer = peer
        self.is_over = False
        self.moved: Any = None
        self.mark: Any = None

    def end(self) -> None:
        self.is_over = True
        if self.moved is not None:
            self.layer.unseen.discard(self.peer)
        else:
            self.layer.unseen.add(self.peer)


class CurrentCall:
    """The innermost logical operation of this thread or, while it runs, of this coroutine."""

    def __init__(self, agent):
        self.agent = agent

    @property
    def call(self):
        return self.agent.thread_state().logical_call

    @call.setter
    def call(self, logical_call) -> None:
        self.agent.thread_state().logical_call = logical_call


class Function:
    """One function that is a logical operation. `Hooks.function` in `adapters` documents its parameters.

    `of_result` is true if the operation is known only from the function's result: a message that has arrived. `does`
    and `got` are for operations on a store: what is asked of it, and what came back.
    """

    def __init__(self, layer, original, op, kind, peer, size, error, dropped, of_result, does=None, got=None, content=None):
        self.layer = layer
        self.agent = layer.agent
        self.current = layer.current
        self.original = original
        self.op, self.kind, self.peer, self.size = op, kind, peer, size
        self.error, self.dropped = error, dropped
        self.of_result = of_result
        self.does = does
        self.content = content
        self.got: Any = got if layer.notes_answers else None
        self.awaits = bool(flags_of(original) & _COROUTINE)
        self.name = getattr(original, "__qualname__", "?")

    def stand_in(self):
        if self.awaits:
            return disguised(self.original, self.begin_coroutine)
        return disguised(self.original, self.run_for_result if self.of_result else self.run)

    # --- functions

    def run(self, args, options):
        begun = self.begin(args, options)
        if begun is None:
            return self.original(*args, **options)
        call, logical_call = begun
        change = call.change
        try:
            result = self.agent.carry_out(call, None, self.within(logical_call), args, options)
        except OSError as error:
            if error is not call.error:
                raise
            raise self.raised(error) from None
        if change is not None and change.lost:
            return self.instead_of_lost(args, options)
        if self.got is not None:
            self.answered(call, result)
        return result

    def begin(self, args, options, result=(), t_ns=0):
        """Record the beginning and decide. Return a call and its `LogicalCall`; None: just call the original."""
        agent = self.agent
        found = None if agent.off else self.describe(result + args, options, args)
        if found is None:
            return None
        op, subject, size = found
        call = agent.enter(agent.operations[op], subject, size, t_ns)
        if call is None:
            return None
        if call.error is not None:
            raise self.raised(agent.refuse(call))
        logical_call = LogicalCall(self.layer, op, subject.peer if self.peer is not None else "")
        if agent.lasting.entries:
            agent.lasting.begin(call.seq, logical_call)
        return call, logical_call

    def within(self, logical_call):
        """The original, with this logical operation under way during the call."""
        current, original = self.current, self.original

        def scoped(*args, **options):
            outer, current.call = current.call, logical_call
            try:
                return original(*args, **options)
            finally:
                current.call = outer
                if logical_call is not None:
                    logical_call.end()

        return scoped

    def run_for_result(self, args, options):
        pending = None if self.agent.off else self.pending_call(args, options)
        receive = self.within(pending) if pending is not None else self.original
        while True:
            t_ns = monotonic_ns()
            try:
                result = receive(*args, **options)
            except BaseException as error:
                self.failed(args, options, error, t_ns)
                raise
            begun = self.begin(args, options, (result,), t_ns)
            if begun is None:
                return result
            connection = pending.moved if pending is not None else None
            handled, result = self.received(begun[0], result, args, options, connection)
            if handled:
                return result

    def received(self, call, result, args, options, connection=None):
        """End a receive. Return (True, result), or (False, None) if the message is lost and the next one is awaited."""
        change = call.change
        if change is not None:
            result = change.instead(lambda *_, **__: result, args, options)
        lost = change is not None and change.lost
        self.agent.leave(call, 0, LOST if lost else None)
        if call.error is not None:
            raise self.raised(call.error)
        if self.got is not None and not lost:
            self.answered(call, result)
        if lost:
            sock = change.lose_connection(connection)
            if sock is not None and self.dropped is not None:
                sock.recv(1)  # raises at the program's time limit, or when the connection is reset
                raise make_error("ECONNRESET", None)
            return self.dropped is not None, self.dropped and self.instead_of_lost((result, *args), options)
        return True, result if call.change is None else call.change.after(result)

    def failed(self, args, options, error, t_ns) -> None:
        begun = self.begin(args, options, (None,), t_ns)
        if begun is not None:
            self.agent.leave(begun[0], 0, error)

    # --- coroutines

    def begin_coroutine(self, args, options):
        inner = self.original(*args, **options)
        if not hasattr(inner, "send"):
            return inner
        run = self.receive_in_coroutine if self.of_result else self.run_coroutine
        outer: Any = run(inner, args, options)
        outer.__name__, outer.__qualname__ = self.original.__name__, self.original.__qualname__
        return outer

    async def run_coroutine(self, inner, args, options):
        try:
            begun = self.begin(args, options)
        except BaseException:
            inner.close()
            raise
        if begun is None:
            return await inner
        call, logical_call = begun
        change = call.change
        try:
            result = await self.changed(change, DrivenCoroutine(self.current, logical_call, inner), args, options)
        except BaseException as error:
            self.agent.leave(call, 0, error)
            if call.error is not None:
                raise self.raised(call.error) from None
            raise
        lost = change is not None and change.lost
        if lost:
            result = self.instead_of_lost(args, options)
        self.agent.leave(call, 0, LOST if lost else None)
        if call.error is not None:
            raise self.raised(call.error)
        if self.got is not None and not lost:
            self.answered(call, result)
        if call.change is None:
            return result
        await waited(call.change)
        return call.change.after(result)

    async def changed(self, change, driven, args, options):
        """Carry out the operation as decided: at once, later, in another way or not at all."""
        if change is None:
            return await driven
        try:
            await waited(change)
        except BaseException:
            driven.inner.close()
            raise

        def begun(*changed_args, **changed_options):
            if changed_args != args or changed_options != options:
                driven.inner.close()
                driven.inner = self.original(*changed_args, **changed_options)
            return driven

        given = change.instead(begun, args, options)
        if given is driven:
            return await driven
        driven.inner.close()
        return given

    async def receive_in_coroutine(self, inner, args, options):
        logical_call = self.pending_call(args, options)
        while True:
            t_ns = monotonic_ns()
            try:
                result = await DrivenCoroutine(self.current, logical_call, inner)
            except BaseException as error:
                self.failed(args, options, error, t_ns)
                raise
            begun = self.begin(args, options, (result,), t_ns)
            if begun is None:
                return result
            if begun[0].change is not None:
                await waited(begun[0].change)
            handled, result = self.received(begun[0], result, args, options)
            if handled:
                return result
            inner = self.original(*args, **options)

    # --- describing the operation

    def describe(self, args, options, given):
        """Operation, subject and size of a call; None if it isn't an operation, or cannot be described."""
        try:
            op = self.op(*args, **options) if callable(self.op) else self.op
            kind = self.kind(*args, **options) if callable(self.kind) else self.kind
            if op is None or kind is None:
                return None
            peer, address = self.layer.peers.find(self.peer(*given, **options) if callable(self.peer) else self.peer)
            size = self.size(*args, **options) if callable(self.size) else 0
            fixed, varying = kind if type(kind) is tuple else ("", str(kind))
            asked = self.does(*args, **options) if self.does is not None else None
            content = self.content(*args, **options) if callable(self.content) else asked and asked.keys()
            subject = self.layer.subject(op, fixed, varying, peer, address, self.awaits, content or "")
            if asked is not None:
                subject = StoreSubject(subject, asked)
            return op, subject, size if type(size) is int else 0
        except Exception as error:
            self.layer.trouble("%s: %s: %s" % (self.name, type(error).__name__, error))
            return None

    def answered(self, call, result) -> None:
        """Record a store's answer as an event of its own, right after the operation; its size is the operation's number."""
        try:
            asked = getattr(call.subject, "asked", None)
            if asked is None:
                return
            got = self.got(result, asked.commands)
            if got:
                subject = Subject(call.subject.target, asked.text_of(got))
                noted = self.agent.enter(self.agent.operations[GOT], subject, call.seq)
                if noted is not None:
                    self.agent.leave(noted)
        except Exception as error:
            self.layer.trouble("%s: %s: %s" % (self.name, type(error).__name__, error))

    def pending_call(self, args, options):
        """The `LogicalCall` of a receive whose message has not arrived yet."""
        try:
            return LogicalCall(
                self.layer, "msg.recv", self.layer.peers.find(self.peer(*args, **options) if callable(self.peer) else "")[0]
            )
        except Exception:
            return None

    def raised(self, error):
        """The library's exception for this error of the operating system."""
        if self.error is None:
            return error
        try:
            return self.error(error)
        except Exception as trouble:
            self.layer.trouble("%s: %s: %s" % (self.name, type(trouble).__name__, trouble))
            return error

    def instead_of_lost(self, args, options):
        return self.dropped(*args, **options) if callable(self.dropped) else self.dropped


class DrivenCoroutine:
    """Awaits a coroutine; its logical operation is under way only while the coroutine itself runs."""

    __slots__ = ("current", "logical_call", "inner")

    def __init__(self, current, logical_call, inner):
        self.current = current
        self.logical_call = logical_call
        self.inner = inner

    def __await__(self):
        try:
            return (yield from self._steps())
        finally:
            if self.logical_call is not None:
                self.logical_call.end()

    def _steps(self):
        current, logical_call, inner = self.current, self.logical_call, self.inner
        mark: Any = logical_call.mark if logical_call is not None else None
        step, value = inner.send, None
        while True:
            outer, current.call = current.call, logical_call
            token = mark.set(True) if mark is not None else None
            try:
                awaited = step(value)
            except StopIteration as end:
                return end.value
            finally:
                current.call = outer
                if token is not None:
                    mark.reset(token)
            try:
                step, value = inner.send, (yield awaited)
            except GeneratorExit:
                inner.close()
                raise
            except BaseException as error:
                step, value = inner.throw, error


async def waited(change) -> None:
    """Wait as long as a change asks, without blocking the loop. The change doesn't wait again after this."""
    for seconds in change.pauses() if hasattr(change, "pauses") else ():
        await sys.modules["asyncio"].sleep(seconds)


class PeerFinder:
    """Finds the node behind a name, an address or a socket."""

    _LOCAL = {"localhost": "127.0.0.1", "": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::1": "127.0.0.1"}

    def __init__(self, agent):
        config = agent.config
        self.agent = agent
        self.names = frozenset(config.get("nodes", ()))
        self.addresses = config.get("addresses", {})
        self.hosts = config.get("hosts", {})

    def find(self, peer):
        """`peer:NODE`, or the socket hooks' other name for it, and the address as text."""
        if hasattr(peer, "getpeername"):
            return self._of_socket(peer)
        if isinstance(peer, bytes):
            peer = peer.decode("utf-8", "backslashreplace")
        if isinstance(peer, (tuple, list)) and len(peer) >= 2:
            peer = "%s:%s" % (peer[0], peer[1])
        if not isinstance(peer, str):
            return "other", ""
        if peer in self.names:
            return "peer:" + peer, peer
        return self._of_address(peer)

    def plain_host(self, host: str) -> str:
        """One host for all names of this machine."""
        return self._LOCAL.get(host, host)

    def _of_address(self, text: str):
        place = text.partition("://")[2] or text
        place = place.partition("/")[0].rpartition("@")[2]
        host, colon, port = place.rpartition(":")
        if not colon:
            host, port = place, ""
        host = host.strip("[]")
        host = self._LOCAL.get(host, host)
        node = self.addresses.get("%s:%s" % (host, port)) or self.hosts.get(host)
        return "peer:" + node if node else "other", place

    def _of_socket(self, sock):
        peers = getattr(self.agent, "peers", None)
        subject = peers.of(getattr(sock, "_sock", sock)) if peers is not None else None
        return (subject.target, getattr(subject, "remote", subject.resource)) if subject is not None else ("other", "")


class Layer:
    """All logical operations of this process."""

    def __init__(self, agent):
        self.agent = agent
        self.current = CurrentCall(agent)
        self.peers = PeerFinder(agent)
        self.subjects: dict = {}
        self.unseen: set = set()  # peers to which the last logical operation had no transfer that the agent saw
        self.troubles = 0
        self.notes_answers = agent.observes("raw")
        operations = agent.operations
        self.raw = {"net.send": operations["raw.send"], "net.recv": operations["raw.recv"]} if self.notes_answers else {}
        agent.covered = self.covered
        used = agent.config.get("contents")  # None: all contents are recorded, so that the tool can choose
        self.contents = None if used is None else frozenset(map(tuple, used))

    def covered(self, operation, subject):
        """True if an operation is part of the current logical one; or the operation that is recorded in its place."""
        logical_call = self.current.call
        if logical_call is None or operation.name not in logical_call.below:
            return False
        if isinstance(subject, LogicalSubject):
            return subject.peer == logical_call.peer
        if subject.target != logical_call.peer:
            return False
        logical_call.moved = subject
        if self.agent.lasting.entries:
            return False
        return self.raw.get(operation.name, True)

    def subject(self, op, fixed: str, varying: str, peer: str, address: str, awaits: bool, content="") -> LogicalSubject:
        """The subject of a kind whose second part is masked."""
        key = op, fixed, varying, peer, address, awaits, content
        found = self.subjects.get(key)
        if found is None:
            if len(self.subjects) >= _CACHE_MAX:
                self.subjects.clear()
            varying = varying[:TEXT_MAX]
            resource = "%s%s %s" % (fixed, varying, address) if address else fixed + varying
            target = "%s%s %s" % (fixed, mask(varying), peer)
            content = content_of(content)
            is_used = self.contents is None or (op, target) in self.contents
            found = self.subjects[key] = LogicalSubject(target, resource, peer, awaits, content, is_used)
        return found

    def hook(self, owner, name: str, **described) -> None:
        """Put a stand-in into the module or class, and wherever the module refers to the function."""
        entry = found_in(owner, name)
        wrapper = type(entry) if isinstance(entry, (staticmethod, classmethod)) else None
        original = entry.__func__ if wrapper is not None else entry
        if not callable(original) or isinstance(original, type):
            raise TypeError("%s is not a function" % name)
        if flags_of(original) & (_GENERATOR | _ASYNC_GENERATOR):
            raise TypeError("%s is a generator: it is not one operation" % name)
        stand_in = Function(self, original, **described).stand_in()
        if isinstance(owner, type):
            setattr(owner, name, stand_in if wrapper is None else wrapper(stand_in))
        else:
            replace_in(vars(owner), original, stand_in)

    def trouble(self, text: str) -> None:
        """Write a line to the agent's error file, for the first few errors."""
        self.troubles += 1
        if self.troubles <= 5:
            note_error(self.agent.config, RuntimeError(text))


def found_in(owner, name: str):
    """The entry in the class, one of its bases, or the module."""
    for place in owner.__mro__ if isinstance(owner, type) else (owner,):
        if name in vars(place):
            return vars(place)[name]
    raise AttributeError("%s has no %s" % (owner.__name__, name))


def replace_in(names: dict, original, stand_in) -> None:
    """Replace a function in all names of a module, and in its tables of functions."""
    for name, value in list(names.items()):
        if value is original:
            names[name] = stand_in
        elif type(value) is dict and name != "__builtins__":
            for key, entry in list(value.items()):
                if entry is original:
                    value[key] = stand_in
        elif type(value) is list:
            value[:] = [stand_in if entry is original else entry for entry in value]


def flags_of(function) -> int:
    """The flags of the function's code and of all functions it wraps."""
    flags = 0
    while function is not None:
        flags |= getattr(getattr(function, "__code__", None), "co_flags", 0)
        function = getattr(function, "__wrapped__", None)
    return flags


def layer_of(agent) -> Layer:
    """The one layer of this agent, created when it is first needed."""
    if getattr(agent, "layer", None) is None:
        agent.layer = Layer(agent)
    return agent.layer
