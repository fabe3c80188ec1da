"""A tiny key-value server that stores each put before it acknowledges it, more or less safely. It speaks as `kv.py` does.

    plain        writes a new file and renames it; syncs nothing
    file-sync    also syncs the new file before it renames it, but not the rename
    safe         also syncs the folder
    sqlite-full  a database; its last deletion of a journal is not synced, as the manual of SQLite says (pragma synchronous)
    sqlite-extra a database that syncs that too
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import sys


def main() -> None:
    host, port, folder, behaviour = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
    os.chdir(folder)
    kind, _, level = behaviour.partition("-")
    store = Database(level) if kind == "sqlite" else Snapshots(behaviour)
    listener = socket.create_server((host, port))
    while True:
        connection, _ = listener.accept()
        try:
            serve(connection, store)
        except ConnectionError as error:
            print(f"lost a client: {error}", file=sys.stderr, flush=True)


class Snapshots:
    """All data in one file, which each put replaces."""

    def __init__(self, behaviour: str) -> None:
        self._file_sync = behaviour != "plain"
        self._folder_sync = behaviour == "safe"
        self._data: dict[str, str] = {}
        if os.path.exists("state"):
            with open("state") as stream:
                self._data = json.load(stream)

    def put(self, key: str, value: str) -> None:
        data = {**self._data, key: value}
        with open("state.new", "w") as stream:
            json.dump(data, stream)
            stream.flush()
            if self._file_sync:
                os.fsync(stream.fileno())
        os.rename("state.new", "state")
        if self._folder_sync:
            folder = os.open(".", os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)
        self._data = data

    def get(self, key: str) -> str:
        return self._data.get(key, "none")


class Database:
    def __init__(self, level: str) -> None:
        self._db = sqlite3.connect("data.db", isolation_level=None)
        self._db.execute(f"pragma synchronous = {level}")
        self._db.execute("create table if not exists pairs (key text primary key, value text)")

    def put(self, key: str, value: str) -> None:
        self._db.execute("insert or replace into pairs values (?, ?)", (key, value))

    def get(self, key: str) -> str:
        found = self._db.execute("select value from pairs where key = ?", (key,)).fetchone()
        return str(found[0]) if found else "none"


def serve(connection: socket.socket, store: Snapshots | Database) -> None:
    with connection, connection.makefile("rw") as stream:
        for line in stream:
            verb, key, *value = line.split()
            if verb == "put":
                store.put(key, value[0])
            stream.write((store.get(key) if verb == "get" else "ok") + "\n")
            stream.flush()


if __name__ == "__main__":
    main()
