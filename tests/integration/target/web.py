"""A tiny HTTP server for the tests: says "ready" in its log, answers /health, remembers a counter in a file."""

from __future__ import annotations

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        counter = Path(sys.argv[3], "count")
        if self.path == "/count":
            counter.write_text(str(int(counter.read_text()) + 1) if counter.exists() else "1")
        self.send_response(200 if self.path in ("/health", "/count") else 404)
        self.end_headers()
        self.wfile.write(counter.read_bytes() if counter.exists() else b"0")

    def log_message(self, *_: object) -> None:
        pass


server = ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Handler)
print("now ready to serve", flush=True)
server.serve_forever()
