"""Hooks of TCP and UDP sockets, put on `socket.socket` once the target has imported it.

`peers` finds the peers and names the connections. A non-blocking call that would block leaves no event: the number of
vain attempts is an accident that doesn't recur. Only `sendall` leaves one, with its error, since it may have sent a
part. So a non-blocking call is recorded after it was done. If a step waits for it, the socket is polled first. Unix
sockets and the agent's own connection are never seen.
"""

from __future__ import annotations

import _socket
import errno
from time import monotonic_ns

from undermine_agent.faults.impaired_transfers import Impairments, timed_out
from undermine_agent.faults.injection import make_error
from undermine_agent.faults.table import PORTS_AT
from undermine_agent.files.regular_files import total_length
from undermine_agent.interpreter import fast
from undermine_agent.names.subjects import Subject
from undermine_agent.net.peers import FAMILIES, UDP, Peers, has_name, kind_of, text_of
from undermine_agent.patching.observe import as_one
from undermine_agent.patching.patch import on_class

_base = _socket.socket
_gettimeout, _fileno, _getsockname = _base.gettimeout, _base.fileno, _base.getsockname
_family = _base.__dict__["family"].__get__
# The errors of a non-blocking socket that would have to wait; TLS adds its own.
WOULD_BLOCK: tuple = (BlockingIOError, InterruptedError)
_PEEK = _socket.MSG_PEEK
_DONT_WAIT = getattr(_socket, "MSG_DONTWAIT", 0)


def install(agent, socket) -> None:
    impairments = agent.impairments = Impairments(agent)
    peers = agent.peers = Peers(agent.config, agent.state, impairments.in_force)
    agent.lasting.reset_connections = impairments.reset
    if fast.module is not None:
        fast.module.use_ports(agent.state.view, agent.state.words[PORTS_AT])
    cls = socket.socket
    for name, flags_at, size_of, measure in _SENDING:
        _hook_transfer(agent, peers, cls, name, "net.send", flags_at, size_of, measure)
    for name, flags_at, measure in _RECEIVING:
        _hook_transfer(agent, peers, cls, name, "net.recv", flags_at, _asked, measure)
    _hook_sendto(agent, peers, cls)
    _hook_connect(agent, peers, cls)
    _hook_accept(agent, peers, cls)
    _hook_shutdown(agent, cls)
    _hook_close(agent, peers, cls)


def _first_length(args) -> int:
    try:
        return memoryview(args[0]).nbytes
    except (IndexError, TypeError):
        return 0


def _asked(args) -> int:
    return args[0] if args and type(args[0]) is int else 0


def _first_of_result(result) -> int:
    return len(result[0])


def _number_of_result(result) -> int:
    return result[0]


# Method, position of its flags, size that is asked for, size of the result.
_SENDING: tuple = (
    ("send", 1, _first_length, int),
    ("sendall", 1, _first_length, None),
    ("sendmsg", 2, total_length, int),
)
_RECEIVING: tuple = (
    ("recv", 1, len),
    ("recv_into", 2, int),
    ("recvfrom", 1, _first_of_result),
    ("recvfrom_into", 2, _number_of_result),
    ("recvmsg", 2, _first_of_result),
    ("recvmsg_into", 2, _number_of_result),
)


def _ready(sock, sends: bool) -> bool:
    """True if the socket would not block now."""
    import select

    poll = select.poll()
    poll.register(_fileno(sock), select.POLLOUT if sends else select.POLLIN)
    return bool(poll.poll(0))


def must_decide(agent, operation) -> bool:
    """True if a step or a lasting fault may have to decide about this operation first."""
    lasting = agent.lasting
    return bool(operation.before or lasting.entries or agent.state.generation != lasting.generation)


def _without_blocking(agent, operation, subject, size, measure, original, sock, args, options):
    """A call on a non-blocking socket. See the module's docstring."""
    lasting = agent.lasting
    in_parts = measure is None and operation.name == "net.send"
    if must_decide(agent, operation):
        if in_parts or lasting.error_of(operation.name, subject) or _ready(sock, operation.name == "net.send"):
            return agent.perform(operation, subject, size, measure, original, sock, *args, **options)
        return original(sock, *args, **options)
    t_ns = monotonic_ns()
    try:
        result = original(sock, *args, **options)
    except BaseException as error:
        if not in_parts and isinstance(error, WOULD_BLOCK):
            raise
        call = agent.enter(operation, subject, size, t_ns)
        if call is not None:
            agent.leave(call, 0, error)
        raise
    call = agent.enter(operation, subject, size, t_ns)
    if call is None:
        return result
    return agent.finish(call, result, measure(result) if measure is not None and result is not None else 0, None, args)


def transfer(agent, operation, subject, size, measure, original, sock, flags, args, options):
    """One send or receive on a socket."""
    waits = _gettimeout(sock) != 0.0 and not flags & _DONT_WAIT
    lasting = agent.lasting
    if lasting.entries or agent.state.generation != lasting.generation:
        impaired = agent.impairments.change_for(operation, subject, sock)
        if impaired is not None:
            return impaired.transfer(operation, size, measure, original, waits, (sock, *args), options)
    if not waits:
        return _without_blocking(agent, operation, subject, size, measure, original, sock, args, options)
    return agent.perform(operation, subject, size, measure, original, sock, *args, **options)


def woken(original):
    """The original receive. If its connection is reset while it waits, the kernel answers EPIPE, which no other receive gets."""

    def receive(*args, **options):
        try:
            return original(*args, **options)
        except BrokenPipeError:
            raise make_error("ECONNRESET", None) from None

    receive.__name__ = getattr(original, "__name__", "")
    return receive


def _hook_transfer(agent, peers, cls, name, op, flags_at, size_of, measure) -> None:
    operation = agent.operations[op]
    quiet, unseen = peers.quiet.known, as_one(agent, transfer)
    addressed = name == "sendmsg"

    def make(original):
        if op == "net.recv":
            original = woken(original)

        def method(self, *args, **options):
            if agent.off:
                return original(self, *args, **options)
            subject = peers.of(self)
            if addressed and len(args) > 3 and args[3] is not None and subject is not None and kind_of(self) == UDP:
                subject = peers.datagram(self, args[3])
            flags = options.get("flags", args[flags_at] if len(args) > flags_at else 0)
            flags = flags if isinstance(flags, int) else 0
            if subject is None or flags & _PEEK:
                return original(self, *args, **options)
            do = unseen if id(self) in quiet and op in peers.quiet.get(self) else transfer
            return do(agent, operation, subject, size_of(args), measure, original, self, flags, args, options)

        return method

    if _can_be_native():
        size = fast.LENGTH if size_of is _first_length else fast.NUMBER if size_of is _asked else fast.NOTHING
        if size != fast.NOTHING:
            measured = fast.RESULT if measure is not None else fast.NOTHING
            fast.offer(make, fast.SOCKET, operation, peers.known, size, 0, measured, flags_at, quiet)
    on_class(cls, name, make)


def _can_be_native() -> bool:
    """The accelerator reads the fields of sockets: check with a socket that was never opened."""
    return fast.module is not None and fast.module.socket_has(_base.__new__(_base), -1, 0, -1_000_000_000)


def _hook_sendto(agent, peers, cls) -> None:
    operation = agent.operations["net.send"]
    quiet, unseen = peers.quiet.known, as_one(agent, transfer)

    def make(original):
        def sendto(self, *args):
            if agent.off or _family(self) not in FAMILIES or len(args) < 2:
                return original(self, *args)
            subject = peers.datagram(self, args[-1]) if kind_of(self) == UDP else peers.of(self)
            do = unseen if id(self) in quiet else transfer
            if do is transfer and not has_name(subject) and not must_decide(agent, operation):
                return _first_datagram(agent, operation, original, self, args)
            return do(agent, operation, subject, _first_length(args), int, original, self, 0, args, {})

        return sendto

    on_class(cls, "sendto", make)


def _first_datagram(agent, operation, original, sock, args):
    """Send and then record: the socket gets its own address by this send, which doesn't wait."""
    t_ns = monotonic_ns()
    result = original(sock, *args)
    call = agent.enter(operation, agent.peers.datagram(sock, args[-1]), _first_length(args), t_ns)
    return result if call is None else agent.finish(call, result, result, None, args)


def _hook_connect(agent, peers, cls) -> None:
    operation = agent.operations["net.connect"]

    def begin(sock, address):
        """The subject; None if the program only asks again whether its connection is ready."""
        if agent.off or _family(sock) not in FAMILIES:
            return None
        subject = peers.named(address)
        entry = peers.known.get(id(sock))
        again = entry is not None and _gettimeout(sock) == 0.0
        if again and getattr(entry[1], "called", "") == subject.resource:
            return None
        return peers.learn(sock, subject)

    def is_refused(call, sock):
        """Let a delay hold this connect, within the socket's time limit. True if the connect must fail."""
        if call.error is None and call.change is not None:
            limit_s = _gettimeout(sock)
            if not limit_s:
                call.change.wait()
            elif call.change.outlasts(limit_s):
                call.error = timed_out()
        return call.error is not None

    def begun(sock, address, subject, is_seen):
        peers.announce(sock, address)
        peers.connected(sock, subject)
        _report_limit(peers, sock, is_seen)

    def make(original):
        def connect(self, address, /):
            subject = begin(self, address)
            if subject is None:
                return original(self, address)
            call = agent.enter(operation, subject)
            if call is not None and is_refused(call, self):
                peers.forget(self)
                raise agent.refuse(call)
            try:
                original(self, address)
            except BaseException as error:
                waits = isinstance(error, BlockingIOError)
                if waits:
                    begun(self, address, subject, call is not None)
                else:
                    peers.forget(self)
                if call is not None:
                    agent.leave(call, 0, None if waits else error)
                    if call.error is not None:
                        raise call.error from None
                raise
            begun(self, address, subject, call is not None)
            if call is not None:
                agent.finish(call, None)

        return connect

    def make_ex(original):
        def connect_ex(self, address, /):
            subject = begin(self, address)
            if subject is None:
                return original(self, address)
            call = agent.enter(operation, subject)
            if call is not None and is_refused(call, self):
                peers.forget(self)
                return agent.refuse(call).errno or errno.EWOULDBLOCK  # as CPython answers if the time limit is over
            try:
                number = original(self, address)
            except BaseException as error:
                if call is not None:
                    agent.leave(call, 0, error)
                raise
            failed = number not in (0, errno.EINPROGRESS, errno.EWOULDBLOCK)
            if not failed:
                begun(self, address, subject, call is not None)
            if call is None:
                return number
            agent.leave(call, 0, OSError(number, "") if failed else None)
            return number if call.error is None else call.error.errno

        return connect_ex

    on_class(cls, "connect", make)
    on_class(cls, "connect_ex", make_ex)


def _report_limit(peers, sock, is_seen: bool = True) -> None:
    """Report the time limit of a new connection: the default, or one that was set before an unseen connect."""
    if peers.limited is not None and _gettimeout(sock) and not (is_seen and _socket.getdefaulttimeout() is None):
        peers.limited(sock)


def _hook_accept(agent, peers, cls) -> None:
    operation = agent.operations["net.accept"]

    def make(original):
        def accept(self):
            if agent.off or _family(self) not in FAMILIES:
                return original(self)
            entry = peers.known.get(id(self))
            if entry is None or entry[1].target != "listen":
                peers.learn(self, Subject("listen", text_of(_getsockname(self))))
                entry = peers.known[id(self)]
            made = []

            def accepted(sock):
                result = original(sock)
                made.append(result[0])
                peers.learn(result[0], peers.caller(text_of(result[1]), result[0]))
                return result

            try:
                result = transfer(agent, operation, entry[1], 0, None, accepted, self, 0, (), {})
            except BaseException:  # nobody gets a connection that was accepted before an injected error
                for sock in made:
                    _base.close(sock)
                raise
            _report_limit(peers, result[0])
            return result

        return accept

    on_class(cls, "accept", make)


def _hook_shutdown(agent, cls) -> None:
    """Hook `shutdown`. It isn't an operation of its own, but it waits behind queued bytes."""

    def make(original):
        def shutdown(self, how, /):
            impairments = agent.impairments
            if agent.off or not impairments.in_force() or not impairments.shut_down(self, agent.peers.of(self), how):
                return original(self, how)

        return shutdown

    on_class(cls, "shutdown", make)


def _hook_close(agent, peers, cls) -> None:
    """Hook the real close, which may come later than `close()` if a file was made from the socket."""
    operation = agent.operations["net.close"]

    def make(original):
        def _real_close(self, *args, **options):
            if agent.off or _fileno(self) < 0:
                return original(self, *args, **options)
            subject = peers.of(self)
            if subject is not None and agent.impairments.in_force():
                agent.impairments.closing(self, subject)
            peers.forget(self)
            seen = subject is not None and peers.quiet.pop(self) is None
            call = agent.enter(operation, subject) if seen else None
            if call is None:
                return original(self, *args, **options)
            if call.error is not None:  # the descriptor is released all the same
                error = agent.refuse(call)
                original(self, *args, **options)
                raise error
            try:
                original(self, *args, **options)
            except BaseException as error:
                agent.leave(call, 0, error)
                raise
            agent.finish(call, None)

        return _real_close

    on_class(cls, "_real_close", make)
