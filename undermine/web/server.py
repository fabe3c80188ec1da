"""The process that serves the pages of a running hunt. It ends with the hunt: when its input ends or its parent is gone.

    python -m undermine.web.server FD    # the hunt passes the socket, and one line of JSON on standard input

It answers GET and HEAD for two addresses, both below a secret token, and only on loopback. The name of the host in a request
must be that of loopback, so that no foreign web site can have a browser ask. Everything is bounded: the connections at a time,
the time of each, and how often a page is made. Never writes anything.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import select
import socket
import sys
import threading
import traceback
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import TCPServer, ThreadingMixIn
from typing import Any

import msgspec

from undermine.web.pages import Pages
from undermine.web.status import Session

LOOPBACK = "127.0.0.1"
CONNECTIONS_MAX = 8
_CONNECTION_S = 10.0
_PARENT_S = 1.0
_NICE = 10
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Order(msgspec.Struct, frozen=True):
    """What to serve. It comes through a pipe, since every user of the machine can read the arguments of a process."""

    folder: str
    token: str
    session: Session


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: Server
    timeout = _CONNECTION_S
    server_version = "undermine"
    sys_version = ""

    def setup(self) -> None:
        """Read the request for a limited time: `timeout` alone begins anew with each byte."""
        super().setup()
        self._limit = threading.Timer(_CONNECTION_S, self._stop_reading)
        self._limit.daemon = True
        self._limit.start()

    def finish(self) -> None:
        self._limit.cancel()
        super().finish()

    def _stop_reading(self) -> None:
        with contextlib.suppress(OSError):  # it has ended
            self.connection.shutdown(socket.SHUT_RD)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def log_message(self, *_: Any) -> None:
        """Log nothing: addresses contain the token."""

    def _answer(self, *, with_body: bool) -> None:
        status, kind, content = self._content()
        self.send_response(status)
        for name, value in {**_HEADERS, "Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            self.wfile.write(content)

    def _content(self) -> tuple[int, str, bytes]:
        """The status of the answer, the type of its content, and the content."""
        token, slash, name = self.path.partition("?")[0].removeprefix("/").partition("/")
        is_ours = hmac.compare_digest(token.encode(errors="replace"), self.server.token.encode())
        if not (is_ours and slash and self.headers.get("Host") in self.server.names):
            return 404, "text/plain", b"not found\n"
        try:
            if name == "":
                return 200, "text/html", self.server.pages.page()
            if name == "status":
                return 200, "application/json", self.server.pages.status()
        except Exception:
            self.server.complain()
            return 503, "text/plain", b"the page cannot be made now: reload it. web.log in the folder of the campaign says why\n"
        return 404, "text/plain", b"not found\n"


class Server(ThreadingMixIn, TCPServer):
    """Answers at most `CONNECTIONS_MAX` requests at a time, each in a thread. It closes further connections at once."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, listening: socket.socket, token: str, pages: Pages) -> None:
        super().__init__(listening.getsockname(), Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.token = token
        self.pages = pages
        port = listening.getsockname()[1]
        self.names = (f"{LOOPBACK}:{port}", f"localhost:{port}")
        self._has_complained = False
        self._free = threading.BoundedSemaphore(CONNECTIONS_MAX)

    def complain(self) -> None:
        """Print the error that is being handled, unless there was one before: an open page asks every two seconds."""
        if not self._has_complained:
            self._has_complained = True
            traceback.print_exc()

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that went away is no error."""
        if not isinstance(sys.exception(), OSError):
            self.complain()


def end_with_parent() -> None:
    """End this process when its input ends, or when the hunt was killed and somebody else holds the pipe open."""
    parent = os.getppid()
    while os.getppid() == parent:
        readable, _, _ = select.select([0], [], [], _PARENT_S)
        if readable and not os.read(0, 4096):
            break
    os._exit(0)


def _first_line() -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            os._exit(0)
        line += byte
    return line


def main() -> None:
    os.nice(_NICE)
    order = msgspec.json.decode(_first_line(), type=Order)
    threading.Thread(target=end_with_parent, daemon=True).start()
    with socket.socket(fileno=int(sys.argv[1])) as listening:
        Server(listening, order.token, Pages(Path(order.folder), order.session)).serve_forever()


if __name__ == "__main__":
    main()
