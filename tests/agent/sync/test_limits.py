"""Time limits of sockets, whoever sets them, and the operations to which they apply."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fake_tool import minor_of
from free_ports import free_port

from undermine.analysis.pipeline import analyse
from undermine.model.columns import Columns

SERVER = """
    import http.client, http.server, socket, threading, urllib.request

    class Answer(http.server.BaseHTTPRequestHandler):
        timeout = 104

        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *args):
            pass

    def serve():
        server = http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Answer)
        threading.Thread(target=server.serve_forever, daemon=True).start()
"""


def limits(outcome: Any, *ops: str) -> set[tuple[str, str, float]]:
    """For each operation with a time limit: its function, the operation, the limit in seconds."""
    columns = Columns.of(outcome.trace.events, outcome.trace.agents)
    names = [stack[0].split("#")[0].split(":")[1].split(".")[-1] for stack in columns.stacks]
    return {
        (names[columns.stack[row]], columns.name(row), float(columns.size[by]) / 1e9)
        for row, by in enumerate(analyse(columns).deadline_of.tolist())
        if by >= 0 and columns.name(row).startswith(ops or ("net.", "msg.", "raw."))
    }


@pytest.mark.parametrize("adapters", [(), ("http",)], ids=["bytes", "messages"])
def test_time_limits_set_by_the_standard_library_are_recorded(tool: Any, any_python: str, adapters: tuple[str, ...]) -> None:
    tool.python = any_python
    port = free_port()
    tool.addresses = {f"127.0.0.1:{port}": "s2"}
    tool.more_config = {"nodes": ["s1", "s2"], "adapters": [{"adapter": name} for name in adapters]}
    program = SERVER + """
    def ask():
        connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=103)
        connection.request("GET", "/")
        connection.getresponse().read()
        connection.close()

    def fetch():
        urllib.request.urlopen("http://127.0.0.1:PORT/", timeout=105).read()

    def unlimited():
        socket.create_connection(("127.0.0.1", PORT)).close()

    serve()
    ask()
    fetch()
    unlimited()
    """
    found = limits(tool.run(program.replace("PORT", str(port))).ok())
    ops = ("msg.send", "msg.recv", "raw.send", "raw.recv") if adapters else ("net.connect", "net.send", "net.recv")
    assert {("ask", op, 103.0) for op in ops} | {("fetch", op, 105.0) for op in ops} <= found
    assert ("do_GET", "net.send", 104.0) in found
    assert {name for name, _, seconds in found if seconds != 104} == {"ask", "fetch"}


def test_default_limits_and_limits_of_listening_sockets_are_recorded(tool: Any) -> None:
    outcome = tool.run(
        """
        import socket

        def listen():
            listener = socket.create_server(("127.0.0.1", 0))
            listener.settimeout(103)
            return listener

        def accept(listener):
            return listener.accept()[0]

        def by_default(listener):
            socket.setdefaulttimeout(105)
            one = socket.create_connection(listener.getsockname())
            other = accept(listener)
            socket.setdefaulttimeout(None)
            one.send(b"x")
            other.recv(1)

        def lifted(listener):
            one = socket.create_connection(listener.getsockname(), timeout=107)
            one.setblocking(True)
            one.send(b"x")

        listener = listen()
        by_default(listener)
        lifted(listener)
        """
    ).ok()
    assert limits(outcome, "net.send", "net.recv", "net.accept") == {
        ("accept", "net.accept", 103.0),
        ("by_default", "net.send", 105.0),
        ("by_default", "net.recv", 105.0),
    }


TLS = """
    import socket, ssl, threading

    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain("../key.pem")
    calling = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    calling.check_hostname, calling.verify_mode = False, ssl.CERT_NONE

    def serve(listener):
        with serving.wrap_socket(listener.accept()[0], server_side=True) as connection:
            connection.sendall(connection.recv(1))

    def ask():
        client = socket.create_connection(listener.getsockname())
        client.settimeout(106)
        with calling.wrap_socket(client) as connection:
            connection.sendall(b"x")
            connection.recv(1)

    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=serve, args=(listener,))
    thread.start()
    ask()
    thread.join()
"""


def test_a_limit_stays_when_the_connection_speaks_tls(tool: Any, key: Path) -> None:
    (tool.folder / "key.pem").write_text(key.read_text())
    found = limits(tool.run(TLS).ok(), "net.send", "net.recv")
    assert found == {("ask", "net.send", 106.0), ("ask", "net.recv", 106.0)}


def test_a_limit_changed_inside_its_block_is_recorded(tool: Any, any_python: str) -> None:
    if minor_of(any_python) < 11:
        pytest.skip("no such scopes there")
    tool.python = any_python
    outcome = tool.run(
        """
        import asyncio, os

        def at_first(): os.mkdir("a")
        def lifted(): os.mkdir("b")
        def set_again(): os.mkdir("c")
        def by_another(): os.mkdir("d")
        def afterwards(): os.mkdir("e")

        async def other(scope, loop):
            scope.reschedule(loop.time() + 190)
            by_another()

        async def main():
            loop = asyncio.get_running_loop()
            async with asyncio.timeout(150) as scope:
                at_first()
                scope.reschedule(None)
                lifted()
                scope.reschedule(loop.time() + 170)
                set_again()
                await asyncio.create_task(other(scope, loop))
            afterwards()

        asyncio.run(main())
        """
    ).ok()
    found = {(name, round(seconds, -1)) for name, _, seconds in limits(outcome, "file.mkdir")}
    assert found == {("at_first", 150), ("set_again", 170)}
    assert not [event for event in outcome.of("timeout") if event.end_ns == 0]
