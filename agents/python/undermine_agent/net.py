"""Hooks of TCP and UDP sockets, put on `socket.socket` once the target has imported it.

The peer is named by the address a socket connects to, or `accepted` where the other side called. A non-blocking
call that would block leaves no trace: how often a program asks in vain is an accident that does not recur.
Therefore a non-blocking call is recorded after it was done, unless a step waits before it: then the socket
is asked first whether it is ready. Unix sockets and the agent's own connection are never seen.
"""

from __future__ import annotations

import _socket
import _weakref
import errno
from time import monotonic_ns

from undermine_agent.names import Subject
from undermine_agent.patch import on_class

_base = _socket.socket
_gettimeout, _fileno, _getpeername, _getsockname = _base.gettimeout, _base.fileno, _base.getpeername, _base.getsockname
_family = _base.__dict__["family"].__get__
_FAMILIES = (_socket.AF_INET, _socket.AF_INET6)
_PEEK = _socket.MSG_PEEK
_DONT_WAIT = getattr(_socket, "MSG_DONTWAIT", 0)
_LOCAL = {"localhost": "127.0.0.1", "": "127.0.0.1", "0.0.0.0": "127.0.0.1"}


def install(agent, socket) -> None:
    peers = Peers(agent.config["addresses"])
    cls = socket.socket
    for name, flags_at, size_of, measure in (
        ("send", 1, _first_length, int),
        ("sendall", 1, _first_length, None),
        ("sendmsg", 2, _total_length, int),
    ):
        _hook_transfer(agent, peers, cls, name, "net.send", flags_at, size_of, measure)
    for name, flags_at, measure in (
        ("recv", 1, len),
        ("recv_into", 2, int),
        ("recvfrom", 1, _first_of_result),
        ("recvfrom_into", 2, _number_of_result),
        ("recvmsg", 2, _first_of_result),
    ):
        _hook_transfer(agent, peers, cls, name, "net.recv", flags_at, _asked, measure)
    _hook_sendto(agent, peers, cls)
    _hook_connect(agent, peers, cls)
    _hook_accept(agent, peers, cls)
    _hook_close(agent, peers, cls)


class Peers:
    """Whom each socket talks to. Known by address in memory, forgotten with the socket."""

    def __init__(self, addresses: dict):
        self.addresses = addresses
        self.known: dict = {}

    def of(self, sock):
        """The subject of a socket, or None if the socket does not count."""
        entry = self.known.get(id(sock))
        return entry[1] if entry is not None else self.learn(sock, self._guess(sock))

    def learn(self, sock, subject):
        key, known = id(sock), self.known

        def gone(reference):
            known.pop(key, None)

        known[key] = _weakref.ref(sock, gone), subject
        return subject

    def named(self, address) -> Subject:
        """The subject of a remote address."""
        name = _text(address)
        node = self.addresses.get(name)
        return Subject("peer:" + node, name) if node else Subject("other", name)

    def _guess(self, sock):
        """For a socket whose beginning was not seen: inherited, made from a descriptor, or not connected."""
        if _family(sock) not in _FAMILIES:
            return None
        try:
            subject = self.named(_getpeername(sock))
            if subject.target == "other" and _text(_getsockname(sock)) in self.addresses:
                return Subject("accepted", subject.resource)
            return subject
        except OSError:
            return Subject("other")


def _text(address) -> str:
    if not isinstance(address, tuple) or len(address) < 2:
        return str(address)
    host = str(address[0])
    if host.startswith("::ffff:"):
        host = host[7:]
    return "%s:%s" % (_LOCAL.get(host, host), address[1])


def _first_length(args) -> int:
    try:
        return memoryview(args[0]).nbytes
    except (IndexError, TypeError):
        return 0


def _total_length(args) -> int:
    try:
        return sum(memoryview(part).nbytes for part in args[0])
    except (IndexError, TypeError):
        return 0


def _asked(args) -> int:
    return args[0] if args and type(args[0]) is int else 0


def _first_of_result(result) -> int:
    return len(result[0])


def _number_of_result(result) -> int:
    return result[0]


def _ready(sock, sends: bool) -> bool:
    """True if the socket would not block now."""
    import select

    poll = select.poll()
    poll.register(_fileno(sock), select.POLLOUT if sends else select.POLLIN)
    return bool(poll.poll(0))


def _without_blocking(agent, operation, subject, size, measure, original, sock, args, options):
    """A call on a non-blocking socket. See the module's docstring."""
    lasting = agent.lasting
    if operation.before or lasting.entries or agent.state.generation != lasting.generation:
        if lasting.error_of(operation.name, subject) or _ready(sock, operation.name == "net.send"):
            return agent.perform(operation, subject, size, measure, original, sock, *args, **options)
        return original(sock, *args, **options)
    t_ns = monotonic_ns()
    try:
        result = original(sock, *args, **options)
    except (BlockingIOError, InterruptedError):
        raise
    except BaseException as error:
        call = agent.enter(operation, subject, size, t_ns)
        if call is not None:
            agent.leave(call, 0, error)
        raise
    call = agent.enter(operation, subject, size, t_ns)
    if call is not None:
        agent.leave(call, measure(result) if measure is not None and result is not None else 0)
        if call.error is not None:
            raise call.error
    return result


def _transfer(agent, operation, subject, size, measure, original, sock, flags, args, options):
    if _gettimeout(sock) == 0.0 or flags & _DONT_WAIT:
        return _without_blocking(agent, operation, subject, size, measure, original, sock, args, options)
    return agent.perform(operation, subject, size, measure, original, sock, *args, **options)


def _hook_transfer(agent, peers, cls, name, op, flags_at, size_of, measure) -> None:
    original = getattr(cls, name)
    operation = agent.operations[op]

    def method(self, *args, **options):
        if agent.off:
            return original(self, *args, **options)
        subject = peers.of(self)
        flags = options.get("flags", args[flags_at] if len(args) > flags_at else 0)
        if subject is None or type(flags) is int and flags & _PEEK:
            return original(self, *args, **options)
        flags = flags if isinstance(flags, int) else 0
        return _transfer(agent, operation, subject, size_of(args), measure, original, self, flags, args, options)

    on_class(cls, name, method)


def _hook_sendto(agent, peers, cls) -> None:
    original = cls.sendto
    operation = agent.operations["net.send"]

    def sendto(self, *args):
        if agent.off or _family(self) not in _FAMILIES or len(args) < 2:
            return original(self, *args)
        subject, size = peers.named(args[-1]), _first_length(args)
        return _transfer(agent, operation, subject, size, int, original, self, 0, args, {})

    on_class(cls, "sendto", sendto)


def _hook_connect(agent, peers, cls) -> None:
    original, original_ex = cls.connect, cls.connect_ex
    operation = agent.operations["net.connect"]

    def begin(sock, address):
        """The call, or None where the connecting has begun before: programs ask again until it is done."""
        if agent.off or _family(sock) not in _FAMILIES:
            return None
        subject = peers.named(address)
        entry = peers.known.get(id(sock))
        if entry is not None and _gettimeout(sock) == 0.0 and entry[1].resource == subject.resource:
            return None
        peers.learn(sock, subject)
        return agent.enter(operation, subject)

    def connect(self, address, /):
        call = begin(self, address)
        if call is None:
            return original(self, address)
        if call.error is not None:
            peers.known.pop(id(self), None)
            raise agent.refuse(call)
        try:
            original(self, address)
        except BaseException as error:
            waits = isinstance(error, BlockingIOError)
            agent.leave(call, 0, None if waits else error)
            if call.error is not None:
                raise call.error from None
            if not waits:
                peers.known.pop(id(self), None)
            raise
        agent.leave(call)
        if call.error is not None:
            raise call.error

    def connect_ex(self, address, /):
        call = begin(self, address)
        if call is None:
            return original_ex(self, address)
        if call.error is not None:
            peers.known.pop(id(self), None)
            return agent.refuse(call).errno
        try:
            number = original_ex(self, address)
        except BaseException as error:
            agent.leave(call, 0, error)
            raise
        failed = number not in (0, errno.EINPROGRESS, errno.EWOULDBLOCK)
        agent.leave(call, 0, OSError(number, "") if failed else None)
        return number if call.error is None else call.error.errno

    on_class(cls, "connect", connect)
    on_class(cls, "connect_ex", connect_ex)


def _hook_accept(agent, peers, cls) -> None:
    original = cls.accept
    operation = agent.operations["net.accept"]

    def accepted(sock):
        result = original(sock)
        peers.learn(result[0], Subject("accepted", _text(result[1])))
        return result

    def accept(self):
        if agent.off or _family(self) not in _FAMILIES:
            return original(self)
        entry = peers.known.get(id(self))
        if entry is None or entry[1].target != "listen":
            peers.learn(self, Subject("listen", _text(_getsockname(self))))
            entry = peers.known[id(self)]
        return _transfer(agent, operation, entry[1], 0, None, accepted, self, 0, (), {})

    on_class(cls, "accept", accept)


def _hook_close(agent, peers, cls) -> None:
    """The real closing, which may come later than `close()` where a file was made from the socket."""
    original = cls._real_close
    operation = agent.operations["net.close"]

    def _real_close(self, *args, **options):
        if agent.off or _fileno(self) < 0:
            return original(self, *args, **options)
        subject = peers.of(self)
        peers.known.pop(id(self), None)
        call = agent.enter(operation, subject) if subject is not None else None
        if call is None:
            return original(self, *args, **options)
        if call.error is not None:  # the descriptor is given up all the same
            error = agent.refuse(call)
            original(self, *args, **options)
            raise error
        try:
            original(self, *args, **options)
        except BaseException as error:
            agent.leave(call, 0, error)
            raise
        agent.leave(call)
        if call.error is not None:
            raise call.error

    on_class(cls, "_real_close", _real_close)
