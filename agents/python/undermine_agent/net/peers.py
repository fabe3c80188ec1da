"""The peers of sockets, and the names of their connections.

A connection is named `LOCAL>REMOTE/N`: the two addresses as this side sees them and a number of its own. It is named
once, when it is created or first seen, so that operations on it cost nothing more. `+tls` marks payload, `+udp`
datagrams.
"""

from __future__ import annotations

import _socket
import _weakref
import os
from itertools import count

from undermine_agent.faults.table import slot_of
from undermine_agent.names.subjects import Subject
from undermine_agent.patching.observe import WeakTable

TLS, UDP = "+tls", "+udp"
ANYBODY = "*"
"""The remote address of an unconnected datagram socket, before a datagram names one."""
FAMILIES = (_socket.AF_INET, _socket.AF_INET6)
_OTHERS_MAX = 1000
_TYPE_MASK = 0xF
_base = _socket.socket
_fileno, _getpeername, _getsockname = _base.fileno, _base.getpeername, _base.getsockname
_family, _type = _base.__dict__["family"].__get__, _base.__dict__["type"].__get__
_LOCAL = {"localhost": "127.0.0.1", "": "127.0.0.1", "0.0.0.0": "127.0.0.1"}
_number = count(1).__next__


class Connection(Subject):
    """The subject of a connected socket, or of a datagram socket.

    `remote` is the other side's address. `called` is the address that the program connected to; it may be a host name.
    """

    __slots__ = ("local", "remote", "called", "number", "kind")

    def __init__(self, target: str, local: str, remote: str, kind: str = "", number: int = 0, called: str = ""):
        self.number = number or _number()
        Subject.__init__(self, target, "%s>%s/%d%s" % (local, remote, self.number, kind))
        self.local, self.remote, self.kind = local, remote, kind
        self.called = called or remote

    def like(self, target: str = "", kind=None):
        """A copy of this connection, with details that became known later."""
        kind = self.kind if kind is None else kind
        return Connection(target or self.target, self.local, self.remote, kind, self.number, self.called)


class Peers:
    """The peer of each socket, by the socket's address in memory. An entry goes away with its socket."""

    def __init__(self, config: dict, state, before_new):
        self.addresses, self.hosts = config["addresses"], config.get("hosts") or {}
        self.nodes = config.get("nodes") or []
        self.own = self.nodes.index(config["node"]) + 1 if config["node"] in self.nodes else 0
        self.state = state
        self.known: dict = {}  # the accelerator reads this, too
        self.others: dict = {}  # datagrams: (number of the socket, address) -> subject
        # Sockets whose operations are partly recorded by the layer above them: a transport, or TLS.
        self.quiet = WeakTable()
        self.before_new = before_new
        """Called before a socket becomes known: a connection that is new when a partition has ended is not reset."""
        self.limited = None
        """Called with a new connection whose time limit was set unseen."""

    def of(self, sock):
        """The subject of a socket; None if the socket doesn't count."""
        entry = self.known.get(id(sock))
        if entry is None:
            subject = self._guess(sock)
            return self.learn(sock, subject) if subject is None or has_name(subject) else subject
        if entry[2] and self.state.caller_at(entry[2], port_of(entry[1].remote)):
            return self.learn(sock, entry[1].like(self._target_of_caller(entry[1].remote, sock)))
        return entry[1]

    def learn(self, sock, subject):
        """Remember a socket's peer; for an unknown caller, also the slot in which it may announce itself."""
        key, known = id(sock), self.known
        if subject is not None and key not in known:
            self.before_new()
        waits = subject is not None and subject.target == "accepted" and not self.hosts
        slot = self._slot(subject.remote, sock) if waits else 0
        number = self.state.caller_at(slot, port_of(subject.remote)) if slot else 0
        if number and not self._is_another(number):
            slot = 0  # the caller has announced itself: it is this node

        def gone(reference):
            known.pop(key, None)

        known[key] = _weakref.ref(sock, gone), subject, slot
        return subject

    def connected_to(self, targets) -> list:
        """The sockets whose streams lead to one of these peers."""
        socks = [sock for sock in (reference() for reference, _, _ in list(self.known.values())) if sock is not None]
        subjects = [(sock, self.of(sock)) for sock in socks]
        return [sock for sock, its in subjects if has_name(its) and its.kind != UDP and its.target in targets]

    def can_be_late(self, name: str, subject) -> bool:
        """True if this transfer can be delayed without its thread. That needs a stream, and bytes that are not yet decrypted."""
        kind = getattr(subject, "kind", "")
        return UDP not in kind and (TLS not in kind or name == "net.send")

    def forget(self, sock) -> None:
        self.known.pop(id(sock), None)

    def connection(self, sock):
        """The name of a socket's connection; "" if it has none (yet)."""
        entry = self.known.get(id(sock))
        if entry is None:
            try:
                _getpeername(sock)
            except OSError:
                return ""
            subject = self.of(sock)
        else:
            subject = entry[1]
        return subject.resource if has_name(subject) else ""

    def listening(self, sock):
        """The address of a listening socket; "" for other sockets."""
        try:
            listens = sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_ACCEPTCONN)
            return text_of(_getsockname(sock)) if listens else ""
        except (AttributeError, OSError):
            return ""

    # --- finding the peer

    def named(self, address) -> Subject:
        """The subject of a remote address."""
        name = text_of(address)
        return Subject(self._target(name), name)

    def connected(self, sock, called: Subject) -> None:
        """A socket has connected, or has begun to: now its own address is known."""
        try:
            local = text_of(_getsockname(sock))
            try:
                remote = text_of(_getpeername(sock))
            except OSError:  # not connected yet
                remote = called.resource
            self.learn(sock, Connection(called.target, local, remote, kind_of(sock), called=called.resource))
        except OSError:
            pass

    def caller(self, name: str, sock) -> Subject:
        """The connection of a caller."""
        try:
            local = text_of(_getsockname(sock))
        except OSError:
            local = ANYBODY
        return Connection(self._target_of_caller(name, sock), local, name, kind_of(sock))

    def datagram(self, sock, address) -> Subject:
        """The subject of a datagram to an address. The socket may get its own address only by sending it."""
        own = self.of(sock)
        name = text_of(address)
        if not has_name(own):
            return Subject(self._target(name), name)
        key = own.number, name
        subject = self.others.get(key)
        if subject is None:
            if len(self.others) >= _OTHERS_MAX:
                self.others.clear()
            subject = self.others[key] = Connection(self._target(name), own.local, name, UDP, own.number)
        return subject

    def encrypted(self, sock, is_so: bool = True):
        """The subject of a socket whose TLS payload is seen from now on (or no longer)."""
        subject = self.of(sock)
        kind = TLS if is_so else ""
        if has_name(subject) and subject.kind != kind:
            subject = self.learn(sock, subject.like(kind=kind))
        return subject

    def by_descriptor(self, fd: int):
        """The program's socket that has this descriptor, or a borrowed one that doesn't close it. Slow."""
        for reference, _, _ in list(self.known.values()):
            sock = reference()
            if sock is not None and _fileno(sock) == fd:
                return sock
        return borrowed(fd)

    def _target(self, name: str) -> str:
        node = self.addresses.get(name)
        return "peer:" + node if node else "other"

    def _target_of_caller(self, name: str, sock) -> str:
        """`peer:NODE` if the caller announced its port or has an address of its own; else `accepted`."""
        node = self.hosts.get(name.rpartition(":")[0])
        number = 0 if node else self.state.caller_at(self._slot(name, sock), port_of(name))
        if self._is_another(number):
            node = self.nodes[number - 1]
        return "peer:" + node if node else "accepted"

    def _is_another(self, number: int) -> bool:
        """Is this the number of another node?"""
        return 0 < number <= len(self.nodes) and number != self.own

    @staticmethod
    def _slot(name: str, sock) -> int:
        """The slot of a connection that a caller of this name opened."""
        try:
            return slot_of(port_of(name), _getsockname(sock)[1])
        except OSError:
            return 0

    def announce(self, sock, address) -> None:
        """Announce this node to the other side as the caller."""
        if self.own and not self.hosts:
            try:
                port = _getsockname(sock)[1]
                self.state.put_caller_at(slot_of(port, port_of(text_of(address))), port, self.own)
            except OSError:
                pass

    def _guess(self, sock):
        """The subject of a socket that was inherited, made from a descriptor, or isn't connected."""
        if _family(sock) not in FAMILIES:
            return None
        kind, local = kind_of(sock), ANYBODY
        try:
            local = text_of(_getsockname(sock))
            remote = text_of(_getpeername(sock))
        except OSError:
            named = kind and not local.endswith(":0") and _fileno(sock) >= 0
            return Connection("other", local, ANYBODY, kind) if named else Subject("other")
        if remote not in self.addresses and local in self.addresses:
            return self.caller(remote, sock)
        return Connection(self._target(remote), local, remote, kind)


class Borrowed(_base):
    """A socket made from a descriptor that other code owns."""

    def __del__(self):
        self.detach()


def borrowed(fd: int):
    """A socket for a descriptor that other code owns; None if it isn't a socket. Leaves the descriptor unchanged."""
    try:
        if not os.get_blocking(fd):
            return Borrowed(-1, _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK, -1, fd)
        return Borrowed(-1, -1, -1, fd) if _socket.getdefaulttimeout() is None else None
    except OSError:
        return None


def has_name(subject) -> bool:
    """False for a socket without a connection; it may get one later."""
    return isinstance(subject, Connection)


def kind_of(sock) -> str:
    return "" if _type(sock) & _TYPE_MASK == _socket.SOCK_STREAM else UDP


def text_of(address) -> str:
    if not isinstance(address, tuple) or len(address) < 2:
        return str(address)
    host = str(address[0])
    if host.startswith("::ffff:"):
        host = host[7:]
    return "%s:%s" % (_LOCAL.get(host, host), address[1])


def port_of(name: str) -> int:
    port = name.rpartition(":")[2]
    return int(port) if port.isdigit() and int(port) < 65536 else 0
