"""A time limit that the target only compares with its clock: the tool observes its value and plans a delay that crosses it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from integration_project import TOML, Project

SERVER = '''
import os, socket, sys, threading, time


class Store:
    def __init__(self, folder, conf):
        self.folder, self.conf, self.data = folder, conf, {}

    def put(self, key, value):
        begun = time.monotonic()
        with open(os.path.join(self.folder, key), "w") as out:
            out.write(value)
        if time.monotonic() - begun > 2 * self.conf["write_limit_s"]:
            raise TimeoutError("the disk is too slow")
        self.data[key] = value


def serve(connection, store):
    with connection, connection.makefile("rw") as stream:
        for line in stream:
            command, key, *value = line.split()
            if command == "put":
                store.put(key, value[0])
            stream.write(store.data.get(key, "none") + "\\n")
            stream.flush()


def main():
    host, port, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    store = Store(folder, {"write_limit_s": float(sys.argv[4])})
    listener = socket.create_server((host, port))
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(connection, store), daemon=True).start()


if __name__ == "__main__":
    main()
'''


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    (tmp_path / "server.py").write_text(SERVER)
    command = 'command = ["{python}", "{project}/server.py", "{host}", "{port}", "{dir}", "{params.limit_s}"]'
    lines = [command if line.startswith("command") else line for line in TOML.splitlines()]
    toml = "\n".join(lines).replace('behaviour = ""', "limit_s = 10")
    made.write(toml.replace("ready =", 'packages = ["server"]\nready ='))
    return made


def test_a_limit_that_is_only_compared_is_exceeded_by_half(project: Project) -> None:
    (predicted,) = project.json("plan", "-s", "sieve")["predicted"]
    plans = {point_of(plan): plan for plan in predicted["plans"]}
    plan = plans["__main__:Store.put"]
    assert plan["steps"][0]["fault"]["delay_s"] == 30
    assert "runs compared a clock with 20 s at server:Store.put line 13" in plan["why"]


def point_of(plan: dict[str, Any]) -> str:
    """The function of the delayed operation."""
    return str(dict(plan["steps"][0]["trigger"]["second"]["point"]["items"])["loc"]).partition("#")[0]
