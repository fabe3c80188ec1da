"""HTTP by the standard library and by libraries built on it (urllib3, requests): a request and its answer are
messages.

In a server of `http.server`, incoming requests are messages too. A dropped request is written nowhere: its caller
then finds the connection closed without an answer. So does a caller whose answer is dropped.
"""

from __future__ import annotations

import _weakref
import io


def install(hooks) -> None:
    hooks.when_imported("http.client", lambda module: hook_client(hooks, module))
    hooks.when_imported("http.server", lambda module: hook_server(hooks, module))
    hooks.when_imported("urllib3.connection", lambda module: hook_requests(hooks, module.HTTPConnection))


def hook_client(hooks, module) -> None:
    def lost(response, connection):
        connection.close()
        raise module.RemoteDisconnected("Remote end closed connection without response")

    cls = module.HTTPConnection
    hook_requests(hooks, cls)
    hooks.function(cls, "getresponse", "msg.recv", kind_of_answer, peer=address, dropped=lost, of_result=True)


def hook_requests(hooks, cls) -> None:
    original = cls.request

    def written_nowhere(connection, *args, **options):
        connection.close()
        connection.sock = Nowhere()
        return original(connection, *args, **options)

    hooks.function(cls, "request", "msg.send", kind_of_request, peer=address, dropped=written_nowhere)


def hook_server(hooks, module) -> None:
    hooks.function(
        module.BaseHTTPRequestHandler,
        "parse_request",
        "msg.recv",
        lambda parsed, handler: request_line(handler.command, handler.path) if parsed else None,
        peer=lambda handler: handler.connection,
        dropped=False,
        of_result=True,
    )


class Nowhere:
    """A socket without a peer: takes everything, answers nothing."""

    def sendall(self, data, *flags) -> None:
        pass

    def makefile(self, *args, **options):
        return io.BytesIO()

    def settimeout(self, timeout) -> None:
        pass

    def close(self) -> None:
        pass


def address(connection, *args, **options):
    return connection.host, connection.port


def request_line(method, url) -> str:
    """Method and path, without the query."""
    path = str(url).partition("?")[0]
    if "://" in path:  # the form that proxies get
        path = "/" + path.partition("://")[2].partition("/")[2]
    return "%s %s" % (str(method).upper(), path)


_asked: dict = {}  # address of a connection in memory -> its last request


def kind_of_request(connection, method, url, *args, **options) -> str:
    key = id(connection)
    line = request_line(method, url)
    _asked[key] = line, _weakref.ref(connection, lambda gone: _asked.pop(key, None))
    return line


def kind_of_answer(response, connection, *args, **options):
    if args or options:
        return None  # older versions of urllib3 try arguments that it refuses
    line = _asked.get(id(connection), ("?",))[0]
    return line if response is None else ("%s " % response.status, line)
