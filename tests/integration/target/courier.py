"""A node that waits for its disk and for its peer in all the ways that matter: `COMMAND` in, `ok` out.

write: into the system's cache. sync: until it is on the disk. tell: a few bytes to the peer, without an answer. ask: a few bytes,
and the answer. loop: the same, but waiting for the peer in a poll.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import threading


def main() -> None:
    host, port, folder, peer_host, peer_port = sys.argv[1:]
    node = Node(os.path.join(folder, "data"), (peer_host, int(peer_port)))
    listener = socket.create_server((host, int(port)))
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=node.serve, args=(connection,), daemon=True).start()


class Node:
    def __init__(self, path: str, peer: tuple[str, int]) -> None:
        self.fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        self.peer = peer

    def serve(self, connection: socket.socket) -> None:
        with connection:
            while command := connection.recv(100):
                getattr(self, command.decode(errors="replace").strip())()
                connection.sendall(b"ok\n")

    def write(self) -> None:
        os.write(self.fd, b"line\n")

    def sync(self) -> None:
        os.write(self.fd, b"line\n")
        os.fsync(self.fd)

    def echo(self) -> None:
        """Do nothing. Peers ask for this."""

    def tell(self) -> None:
        with socket.create_connection(self.peer) as out:
            out.sendall(b"echo\n")

    def ask(self) -> None:
        with socket.create_connection(self.peer) as out:
            out.sendall(b"echo\n")
            out.recv(100)

    def loop(self) -> None:
        with socket.create_connection(self.peer) as out:
            out.sendall(b"echo\n")
            select.select([out], [], [])
            out.recv(100)


if __name__ == "__main__":
    main()
