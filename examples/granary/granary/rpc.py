"""Calls between processes: length-prefixed, checksummed JSON over TCP.

The server has a thread for each connection. The client side (`Pool`) reuses connections. Every method
is safe to call twice, so a call over a reused connection that turns out to be dead is sent again."""

from __future__ import annotations

import contextlib
import logging
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from .errors import CallTimeout, GranaryError, Internal, Unreachable, from_wire, to_wire
from .process import spawn
from .sealed import seal, unseal

Address = tuple[str, int]
Handler = Callable[[dict[str, Any]], Any]
StreamHandler = Callable[[dict[str, Any], Iterator[dict[str, Any]]], Any]

FRAME_BYTES_MAX = 64 << 20
IDLE_TIMEOUT_S = 120.0
CONNECT_TIMEOUT_S = 0.4
IDLE_CONNECTIONS_MAX = 4
ACCEPTORS = 2

_LENGTH = struct.Struct(">I")

log = logging.getLogger("granary.rpc")


def parse_address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host, int(port)


def parse_peers(text: str) -> dict[str, Address]:
    """`s1=127.0.0.1:7001,s2=...` as a mapping."""
    peers = {}
    for part in text.split(","):
        if part:
            name, _, address = part.partition("=")
            peers[name] = parse_address(address)
    return peers


class BrokenConnection(ConnectionError):
    """The peer closed the connection or sent invalid data."""


def send_frame(sock: socket.socket, message: dict[str, Any]) -> None:
    payload = seal(message)
    sock.sendall(_LENGTH.pack(len(payload)) + payload)


def receive_frame(sock: socket.socket) -> dict[str, Any]:
    (length,) = _LENGTH.unpack(_receive_exactly(sock, _LENGTH.size))
    if length > FRAME_BYTES_MAX:
        raise BrokenConnection(f"frame of {length} bytes")
    try:
        message = unseal(_receive_exactly(sock, length))
    except ValueError as error:
        raise BrokenConnection(f"frame is damaged: {error}") from None
    if not isinstance(message, dict):
        raise BrokenConnection("frame is not an object")
    return message


def _receive_exactly(sock: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = sock.recv(size - len(parts))
        if not part:
            raise BrokenConnection("closed by peer")
        parts += part
    return bytes(parts)


def close_quietly(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.close()


class Server:
    """Answers calls. `methods` take arguments, `streams` also take the frames that follow the call."""

    def __init__(self, address: Address, methods: dict[str, Handler],
                 streams: dict[str, StreamHandler] | None = None) -> None:
        self._methods = methods
        self._streams = streams or {}
        self._listener = _listen(address)

    def start(self) -> None:
        # More than one thread, so that one slow accept does not block the node.
        for number in range(ACCEPTORS):
            spawn(f"rpc-accept-{number}", self._accept_forever)

    def _accept_forever(self) -> None:
        failing = False
        while True:
            try:
                sock, peer = self._listener.accept()
            except OSError as error:
                if not failing:
                    log.warning("accept failed: %s", error)
                failing = True
                time.sleep(0.02)
                continue
            failing = False
            spawn("rpc-connection", self._serve, sock, peer)

    def _serve(self, sock: socket.socket, peer: Any) -> None:
        try:
            sock.settimeout(IDLE_TIMEOUT_S)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while True:
                request = receive_frame(sock)
                send_frame(sock, self._answer(request, sock))
        except OSError as error:
            log.debug("connection from %s ended: %s", peer, error)
        finally:
            close_quietly(sock)

    def _answer(self, request: dict[str, Any], sock: socket.socket) -> dict[str, Any]:
        method, arguments = str(request.get("method")), request.get("args") or {}
        try:
            if method in self._streams:
                return {"value": self._streams[method](arguments, _frames(sock))}
            if method not in self._methods:
                raise Internal(f"no method {method}")
            return {"value": self._methods[method](arguments)}
        except GranaryError as error:
            return to_wire(error)
        except BrokenConnection:
            raise
        except Exception as error:
            log.exception("%s failed", method)
            return to_wire(Internal(f"{method}: {error!r}"))


def _listen(address: Address) -> socket.socket:
    deadline = time.monotonic() + 5.0
    while True:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(128)
            return listener
        except OSError as error:
            close_quietly(listener)
            if time.monotonic() > deadline:
                raise
            log.warning("cannot listen on %s:%d yet: %s", *address, error)
            time.sleep(0.1)


def _frames(sock: socket.socket) -> Iterator[dict[str, Any]]:
    try:
        while not (frame := receive_frame(sock)).get("end"):
            yield frame
    except BrokenConnection:
        raise
    except OSError as error:
        raise BrokenConnection(str(error)) from None


class Pool:
    """Calls to any address, over connections that are kept for the next call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[Address, list[socket.socket]] = {}

    def call(self, address: Address, method: str, timeout_s: float = 1.0, /, **arguments: Any) -> Any:
        request = {"method": method, "args": arguments}
        sock = self._take(address)
        if sock is not None:
            try:
                return self._exchange(sock, address, request, timeout_s)
            except CallTimeout:
                raise
            except Unreachable:
                self._forget(address)
        return self._exchange(self._connect(address, timeout_s), address, request, timeout_s)

    @contextlib.contextmanager
    def stream(self, address: Address, timeout_s: float) -> Iterator[Stream]:
        """Open a separate connection for one call that is followed by many frames."""
        sock = self._connect(address, timeout_s)
        try:
            yield Stream(sock, f"{address[0]}:{address[1]}")
        finally:
            close_quietly(sock)

    def _exchange(self, sock: socket.socket, address: Address, request: dict[str, Any],
                  timeout_s: float) -> Any:
        try:
            sock.settimeout(timeout_s)
            send_frame(sock, request)
            reply = receive_frame(sock)
        except OSError as error:
            close_quietly(sock)
            raise _unreachable(f"{request['method']} at {address[0]}:{address[1]}", error) from None
        self._give_back(address, sock)
        return _value(reply)

    def _connect(self, address: Address, timeout_s: float) -> socket.socket:
        sock = None
        try:
            sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            sock.settimeout(min(timeout_s, CONNECT_TIMEOUT_S))
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.settimeout(timeout_s)
        except OSError as error:
            if sock is not None:
                close_quietly(sock)
            raise _unreachable(f"connect to {address[0]}:{address[1]}", error) from None
        return sock

    def _take(self, address: Address) -> socket.socket | None:
        with self._lock:
            idle = self._idle.get(address)
            return idle.pop() if idle else None

    def _give_back(self, address: Address, sock: socket.socket) -> None:
        with self._lock:
            idle = self._idle.setdefault(address, [])
            if len(idle) < IDLE_CONNECTIONS_MAX:
                idle.append(sock)
                return
        close_quietly(sock)

    def _forget(self, address: Address) -> None:
        with self._lock:
            socks = self._idle.pop(address, [])
        for sock in socks:
            close_quietly(sock)


class Stream:
    """The sending side of a call whose arguments do not fit one frame."""

    def __init__(self, sock: socket.socket, peer: str) -> None:
        self._sock = sock
        self._peer = peer

    def begin(self, method: str, **arguments: Any) -> None:
        self.send({"method": method, "args": arguments})

    def send(self, frame: dict[str, Any]) -> None:
        try:
            send_frame(self._sock, frame)
        except OSError as error:
            raise _unreachable(f"stream to {self._peer}", error) from None

    def finish(self) -> Any:
        self.send({"end": True})
        try:
            return _value(receive_frame(self._sock))
        except OSError as error:
            raise _unreachable(f"stream to {self._peer}", error) from None


def _unreachable(what: str, error: OSError) -> Unreachable:
    kind = CallTimeout if isinstance(error, TimeoutError) else Unreachable
    return kind(f"{what}: {error}")


def _value(reply: dict[str, Any]) -> Any:
    if "error" in reply:
        raise from_wire(reply)
    return reply.get("value")
