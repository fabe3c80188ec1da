"""Targets that use libraries with adapters: how they are configured and run, and clients and a server of HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

SITE = str(Path(pytest.__file__).resolve().parents[1])


def use(tool: Any, *adapters: str, **addresses: int) -> None:
    tool.addresses = {f"127.0.0.1:{port}": node for node, port in addresses.items()}
    tool.more_config = {
        "nodes": ["s1", *addresses],
        "adapters": [
            {"adapter": Path(name).stem, "path": name} if name.endswith(".py") else {"adapter": name}
            for name in adapters
        ],
    }


def run(tool: Any, source: str, **values: Any) -> Any:
    for name, value in values.items():
        source = source.replace(name, str(value))
    return tool.run(source, python_path=SITE)


SERVER = """
    import http.server, threading
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        def do_GET(self):
            body = self.path.encode()
            self.send_response(404 if "absent" in self.path else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        def log_message(self, *args):
            pass
    server = http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Handler)
    server.handle_error = lambda *args: None  # an exit kills a daemon thread that prints, and the lock of stderr with it
    threading.Thread(target=server.serve_forever, daemon=True).start()
"""
CLIENTS = {
    "http.client": """
    import http.client
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=200)
    def get(path):
        connection.request("GET", path)
        return connection.getresponse().read().decode()
""",
    "urllib": """
    import urllib.request, urllib.error
    def get(path):
        try:
            return urllib.request.urlopen("http://127.0.0.1:PORT" + path, timeout=200).read().decode()
        except urllib.error.HTTPError as error:
            return error.read().decode()
        except urllib.error.URLError as error:
            raise error.reason
""",
    "urllib3": """
    import urllib3
    pool = urllib3.PoolManager(retries=False, timeout=200)
    def get(path):
        return pool.request("GET", "http://127.0.0.1:PORT" + path).data.decode()
""",
}
GETS = """
    for path in ("/a", "/b", "/c"):
        try:
            print(get(path))
        except Exception as error:
            print(type(error).__name__)
            if "connection" in globals():
                connection.close()
"""
