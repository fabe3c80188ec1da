"""A stand-in for your system: a log that a fixed leader, the node with the smallest id, replicates to all nodes.

It never elects another leader, so nothing works while that node is down. Replace it by your own.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PEER_S = 1.0


class Node:
    def __init__(self, name: str, folder: str, peers: dict[str, str]) -> None:
        self.name = name
        self.peers = peers
        self.term = 1
        self.leader = min([name, *peers])
        self.lock = threading.Lock()
        self.path = Path(folder, "log.json")
        self.log: list[list[str]] = json.loads(self.path.read_text()) if self.path.exists() else []

    def put(self, key: str, value: str) -> None:
        """As the leader: write an entry, and return when a majority has it."""
        with self.lock:
            self.log = [*self.log, [key, value]]
            new = self.path.with_suffix(".new")
            with new.open("w") as file:
                json.dump(self.log, file)
                file.flush()
                os.fsync(file.fileno())
            new.rename(self.path)
            if 1 + sum(map(self.replicate, self.peers.values())) <= (1 + len(self.peers)) / 2:
                raise TimeoutError("no majority")

    def replicate(self, address: str) -> bool:
        """Send the whole log to a follower."""
        connection = http.client.HTTPConnection(address, timeout=PEER_S)
        try:
            connection.request("POST", "/append", json.dumps({"log": self.log}))
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def handle(self, path: str, body: dict[str, Any]) -> Any:
        if path == "/append":
            self.log = body["log"]
            return None
        if path == "/put":
            return self.put(body["key"], body["value"])
        if path == "/get":
            return dict(self.log).get(body["key"])
        return {"term": self.term, "leader": self.leader, "leads": self.leader == self.name}


def serve(node: Node, host: str, port: int) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
            if self.path in ("/put", "/get") and node.name != node.leader:
                return self.answer(409, f"ask {node.leader}")
            try:
                return self.answer(200, node.handle(self.path, body))
            except TimeoutError as error:
                return self.answer(503, str(error))

        do_GET = do_POST

        def answer(self, status: int, value: Any) -> None:
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Log nothing for each request."""

    ThreadingHTTPServer((host, port), Handler).serve_forever()


def main() -> None:
    options = argparse.ArgumentParser()
    for name in ("--id", "--host", "--raft", "--api", "--dir", "--peers"):
        options.add_argument(name, required=True)
    given = options.parse_args()
    node = Node(given.id, given.dir, dict(peer.split("=") for peer in given.peers.split(",")))
    threading.Thread(target=serve, args=(node, given.host, int(given.raft)), daemon=True).start()
    serve(node, given.host, int(given.api))


if __name__ == "__main__":
    main()
