"""A tiny key-value server for the tests. Its one bug: it acknowledges a put before it has written it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time

HEARTBEATS = """
import os, time
os.setsid()
while True:
    with open(f"beats.{os.getpid()}", "a") as out:
        out.write(f"{time.monotonic_ns()}\\n")
    time.sleep(0.01)
"""


def main() -> None:
    host, port, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    behaviour = sys.argv[4] if len(sys.argv) > 4 else ""
    if behaviour == "never-ready":
        threading.Event().wait()
    if behaviour == "exits":
        sys.exit("cannot start: no licence")
    if behaviour == "setsid-child":
        child = subprocess.Popen([sys.executable, "-c", HEARTBEATS], cwd=folder)
        while not os.path.exists(os.path.join(folder, f"beats.{child.pid}")):
            time.sleep(0.01)
    store = CampaignStore(os.path.join(folder, "log.txt"), ack_first=behaviour != "sound")
    listener = socket.create_server((host, port))
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(connection, store), daemon=True).start()


class CampaignStore:
    def __init__(self, path: str, ack_first: bool) -> None:
        self.path = path
        self.ack_first = ack_first
        self.lock = threading.Lock()
        self.data: dict[str, str] = {}
        if os.path.exists(path):
            with open(path) as stream:
                for line in stream:
                    key, equals, value = line.rstrip("\n").partition("=")
                    if equals:
                        self.data[key] = value

    def put(self, key: str, value: str) -> None:
        with self.lock:
            with open(self.path, "a") as out:
                out.write(f"{key}={value}\n")
            self.data[key] = value


def serve(connection: socket.socket, store: CampaignStore) -> None:
    try:
        with connection, connection.makefile("rw") as stream:
            for line in stream:
                words = line.split()
                if words[0] == "put" and store.ack_first:
                    answer(stream, "ok")
                    store.put(words[1], words[2])
                elif words[0] == "put":
                    store.put(words[1], words[2])
                    answer(stream, "ok")
                elif words[0] == "exit":
                    os._exit(7)
                elif words[0] == "raise":
                    raise ValueError("nobody catches this")
                else:
                    answer(stream, store.data.get(words[1], "none"))
    except (ConnectionError, TimeoutError) as error:
        print(f"lost a client: {error}", file=sys.stderr, flush=True)
    except OSError as error:
        print(f"cannot serve: {error}", file=sys.stderr, flush=True)
        os._exit(3)


def answer(stream, text: str) -> None:  # type: ignore[no-untyped-def]
    stream.write(text + "\n")
    stream.flush()


if __name__ == "__main__":
    main()
