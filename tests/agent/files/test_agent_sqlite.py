"""The agent records sqlite operations, and injected errors look like sqlite's own."""

from __future__ import annotations

import subprocess
import sys

import pytest
from fake_tool import say

DATABASE = """
    import sqlite3

    def make(connection):
        connection.execute("CREATE TABLE IF NOT EXISTS jobs (id INTEGER, state TEXT)")

    def add(connection):
        with connection:
            connection.execute("INSERT INTO jobs VALUES (?, ?)", (1, "secret"))
            connection.executemany("insert or replace into jobs values (?, 'x')", [(2,), (3,)])

    def change(cursor):
        cursor.execute("UPDATE jobs SET state = 'y' WHERE id = 2 -- comment")
        cursor.connection.commit()
        cursor.connection.commit()

    def read(cursor):
        cursor.execute("WITH a AS (SELECT * FROM jobs) SELECT id FROM a")
        assert len(cursor.fetchall()) == 3
        cursor.execute("select count(*) from 'jobs'").fetchone()

    def undo(connection):
        connection.execute("DELETE FROM jobs")
        connection.rollback()
        connection.executescript("CREATE TABLE t2(x); DROP TABLE t2;")

    class Own(sqlite3.Connection):
        pass

    connection = sqlite3.connect("state-4.db")
    make(connection)
    add(connection)
    change(connection.cursor())
    read(connection.cursor())
    undo(connection)
    connection.close()
    own = sqlite3.connect("file:state-4.db?mode=rw", uri=True, factory=Own, isolation_level=None)
    own.execute("PRAGMA user_version")
    memory = sqlite3.connect(":memory:")
    memory.execute("CREATE TABLE unseen (x)")
    try:
        own.execute("SELECT * FROM missing")
    except sqlite3.OperationalError as error:
        print(error)
    for wrong in (own.execute, lambda: own.execute(5), lambda: sqlite3.connect()):
        try:
            wrong()
        except TypeError:
            pass
        else:
            raise AssertionError
    assert type(own) is Own and type(memory) is sqlite3.Connection
"""


def test_sqlite_statements_are_recorded(tool, any_python):
    tool.python = any_python
    outcome = tool.run(DATABASE).ok()
    seen = [(e.loc.split(":")[1].split("#")[0], f"{e.op} {e.target}") for e in outcome.trace]
    path = "state-<n>.db"
    assert seen == [
        ("make", f"db.write CREATE jobs {path}"),
        ("add", f"db.write INSERT jobs {path}"),
        ("add", f"db.write INSERT jobs {path}"),
        ("add", f"db.commit COMMIT {path}"),
        ("change", f"db.write UPDATE jobs {path}"),
        ("change", f"db.commit COMMIT {path}"),
        ("read", f"db.read WITH jobs {path}"),
        ("read", f"db.read FETCH jobs {path}"),
        ("read", f"db.read SELECT jobs {path}"),
        ("read", f"db.read FETCH jobs {path}"),
        ("undo", f"db.write DELETE jobs {path}"),
        ("undo", f"db.commit ROLLBACK {path}"),
        ("undo", f"db.write SCRIPT t<n> {path}"),
        ("<module>", f"db.read PRAGMA user_version {path}"),
        ("<module>", f"db.read SELECT missing {path}"),
    ]
    assert list(outcome.trace)[-1].error == "OperationalError"
    assert outcome.out == "no such table: missing\n"
    assert "secret" not in str([e.resource for e in outcome.trace])


def test_errors_are_those_of_sqlite(tool):
    tool.python = sys.executable
    tool.step({"fault": "error", "error": "EIO"}, {"op": "db.commit"})
    tool.step({"fault": "error", "error": "ENOSPC"}, {"op": "db.write", "nth": 3})
    outcome = tool.run(
        """
        import sqlite3
        connection = sqlite3.connect("x.db")
        connection.execute("CREATE TABLE t (x)")
        connection.execute("INSERT INTO t VALUES (1)")
        try:
            connection.commit()
        except sqlite3.OperationalError as error:
            print(error, connection.in_transaction)
        connection.commit()
        try:
            connection.execute("INSERT INTO t VALUES (2)")
        except sqlite3.OperationalError as error:
            print(error)
        print(connection.execute("SELECT count(*) FROM t").fetchall())
        """
    ).ok()
    assert outcome.out == "disk I/O error True\ndatabase or disk is full\n[(1,)]\n"


LASTING = """
    import sqlite3, sys
    def attempt(function, *args):
        try:
            return function(*args) and "done"
        except sqlite3.OperationalError as error:
            return str(error)
    here, elsewhere = sqlite3.connect("x.db"), sqlite3.connect("../y.db")
    for each in (here, elsewhere):
        each.execute("CREATE TABLE IF NOT EXISTS t (x)")
        each.execute("INSERT INTO t VALUES (1)")
        each.commit()
    here.execute("INSERT INTO t VALUES (2)")
    print("up", flush=True)
    sys.stdin.readline()
    print(attempt(here.execute, "INSERT INTO t VALUES (3)"), attempt(here.execute, "SELECT * FROM t"), sep=", ")
    print(attempt(here.commit), here.rollback(), attempt(elsewhere.execute, "SELECT * FROM t"), sep=", ", flush=True)
    sys.stdin.readline()
    print(here.execute("SELECT * FROM t").fetchall())
"""


@pytest.mark.parametrize("scope", ["disk", "file"])
@pytest.mark.parametrize("name", ["EIO", "ENOSPC"])
def test_a_broken_disk_or_file_breaks_its_database(tool, scope, name):
    tool.more_config["paths"] = [str(tool.folder)]
    value = str(tool.data / "x.db") if scope == "file" else ""
    target = subprocess.Popen(**tool.command(LASTING, ""), stdin=subprocess.PIPE)
    with target:
        assert target.stdout.readline() == "up\n"
        tool.change_lasting([{"step": 0, "kind": "error", "error": name, "scope": scope, "value": value}])
        say(target)
        broken = "disk I/O error" if name == "EIO" else "database or disk is full"
        assert target.stdout.readline() == f"{broken}, {broken if name == 'EIO' else 'done'}\n"
        assert target.stdout.readline() == f"{broken}, None, done\n"
        tool.change_lasting([])
        say(target)
        assert target.stdout.readline() == "[(1,)]\n"


def test_a_lasting_error_at_a_database_applies_to_its_file(tool):
    tool.step({"fault": "error", "error": "EIO", "scope": "file"}, {"op": "db.write", "nth": 2})
    outcome = tool.run(
        """
        import sqlite3
        connection = sqlite3.connect("x.db")
        connection.execute("CREATE TABLE t (x)")
        for statement in ("INSERT INTO t VALUES (1)", "SELECT 1"):
            try:
                connection.execute(statement)
            except sqlite3.OperationalError as error:
                print(error)
        """
    ).ok()
    assert outcome.out == "disk I/O error\n" * 2
    (claim,) = (request for request in tool.requests if request["type"] == "claim")
    assert claim["resource"] == str(tool.data / "x.db")
