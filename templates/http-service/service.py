"""A stand-in for your service: PUT and GET /items/KEY. It has a bug: it overwrites its only file. Replace it by your own."""

from __future__ import annotations

import argparse
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

LOCK = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    file: Path
    items: dict[str, str]

    def do_GET(self) -> None:
        value = self.items.get(self.path)
        self.answer(200 if value is not None or self.path == "/health" else 404, value or "")

    def do_PUT(self) -> None:
        value = self.rfile.read(int(self.headers["Content-Length"])).decode()
        with LOCK:
            self.items[self.path] = value
            self.file.write_text(json.dumps(self.items))  # a crash in the middle leaves half a file
        self.answer(200, "")

    def answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """Log nothing for each request."""


def main() -> None:
    options = argparse.ArgumentParser()
    for name in ("--host", "--port", "--data"):
        options.add_argument(name, required=True)
    given = options.parse_args()
    Handler.file = Path(given.data, "items.json")
    Handler.items = json.loads(Handler.file.read_text()) if Handler.file.exists() else {}
    ThreadingHTTPServer((given.host, int(given.port)), Handler).serve_forever()


if __name__ == "__main__":
    main()
