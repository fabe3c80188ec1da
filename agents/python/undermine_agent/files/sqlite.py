"""Hooks of sqlite: one statement, fetch or commit is one operation on the database's file.

SQLite does its own input and output, so the file operations below are not seen. Parameters are looked at only if contents are
recorded.
"""

from __future__ import annotations

import os

from undermine_agent.names.subjects import Subject, mask
from undermine_agent.patching.observe import as_one
from undermine_agent.patching.patch import on_slot, on_type

TEXT_MAX = 300
_CACHE_MAX = 10_000
_READS = frozenset(("SELECT", "VALUES", "PRAGMA", "EXPLAIN", "BEGIN", "SAVEPOINT", "ANALYZE"))
_ENDS = frozenset(("COMMIT", "END", "ROLLBACK", "RELEASE"))
_WRITES = frozenset(("INSERT", "UPDATE", "DELETE", "REPLACE"))
# The words that come before the first name of a table.
_BEFORE_TABLE = frozenset(("FROM", "INTO", "TABLE", "INDEX", "VIEW", "TRIGGER", "UPDATE", "PRAGMA"))
_FILLERS = frozenset(("IF", "NOT", "EXISTS", "OR", "ABORT", "FAIL", "IGNORE", "REPLACE", "ROLLBACK", "ONLY"))
_MESSAGES = {
    "ENOSPC": "database or disk is full",
    "EDQUOT": "database or disk is full",
    "EACCES": "attempt to write a readonly database",
    "EROFS": "attempt to write a readonly database",
    "EAGAIN": "database is locked",
    "ETIMEDOUT": "database is locked",
}


def install(agent, sqlite) -> None:
    databases = Databases(agent, sqlite.OperationalError)
    _hook_connection(agent, databases, sqlite.Connection)
    _hook_statements(agent, databases, sqlite.Connection, lambda connection: connection)
    _hook_statements(agent, databases, sqlite.Cursor, _connection)
    _hook_fetches(agent, databases, sqlite.Cursor)


class Statement(Subject):
    """The subject of a statement. Injected errors are SQLite's own. A rollback works on a broken disk, too."""

    __slots__ = ("op", "path", "make_error")

    def __init__(self, command: str, op: str, table: str, text: str, file, make_error):
        words = [command, mask(table), file.target]
        ends_badly = command == "ROLLBACK"
        super().__init__(" ".join(filter(None, words)), text[:TEXT_MAX], file.on_disk and not ends_badly)
        self.op = op
        self.path = "" if ends_badly else file.resource
        self.make_error = make_error

    def error(self, name: str) -> Exception:
        return self.make_error(_MESSAGES.get(name, "disk I/O error"))


class Databases:
    """The databases that count, by connection, and the statements seen so far.

    Connections don't support weak references. Each is entered again when it is created, so a reused address is never
    stale.
    """

    def __init__(self, agent, make_error):
        self.agent = agent
        self.make_error = make_error
        self.files: dict = {}
        self.known: dict = {}
        self.last: dict = {}

    def connected(self, connection, path) -> None:
        self.files.pop(id(connection), None)
        file = self.agent.subject(_plain(path))
        if file is not None:
            self.files[id(connection)] = file

    def statement(self, connection, text, command: str = ""):
        """The subject of a statement; None if the database doesn't count."""
        file = self.files.get(id(connection)) if self.files else None
        if file is None or type(text) is not str:
            return None
        key = id(file), text, command
        subject = self.known.get(key)
        if subject is None:
            if len(self.known) >= _CACHE_MAX:
                self.known.clear()
            verb, table = parse(text)
            op = "db.write" if command == "SCRIPT" else _operation(verb, text)
            subject = Statement(command or verb, op, table, text, file, self.make_error)
            self.known[key] = subject
        return subject

    def executed(self, cursor, subject) -> None:
        if len(self.last) >= _CACHE_MAX:
            self.last.clear()
        self.last[id(cursor)] = subject


def _plain(path):
    """The path of a database; for a URI, the path in it."""
    if isinstance(path, int):
        return None
    try:
        path = os.fsdecode(path)
    except TypeError:
        return None
    if path.startswith("file:"):
        path = path[5:].partition("?")[0]
        path = "/" + path.lstrip("/") if path.startswith("//") else path
    return None if path in ("", ":memory:") else path


def parse(text: str):
    """The verb of a statement and the first table that it names."""
    words = _words(text)
    verb = words[0].upper() if words else ""
    for number, word in enumerate(words):
        if word.upper() in _BEFORE_TABLE and not (word.upper() == "UPDATE" and number):
            for name in words[number + 1 :]:
                if name.upper() not in _FILLERS:
                    return verb, name.strip("\"'`[]")
    return verb, ""


def _words(text: str) -> list:
    """The beginning of a statement without comments and punctuation."""
    lines = [line.partition("--")[0] for line in text[:2000].splitlines()]
    plain = " ".join(lines)
    while "/*" in plain:
        before, _, rest = plain.partition("/*")
        plain = before + " " + rest.partition("*/")[2]
    for mark in "();,=":
        plain = plain.replace(mark, " ")
    return plain.split()


def _operation(verb: str, text: str) -> str:
    if verb in _ENDS:
        return "db.commit"
    if verb == "WITH":
        return "db.read" if _WRITES.isdisjoint(word.upper() for word in _words(text)) else "db.write"
    return "db.read" if verb in _READS else "db.write"


def _hook_connection(agent, databases, cls) -> None:
    operations = agent.operations

    def make_init(original):
        def __init__(self, *args, **options):
            original(self, *args, **options)
            if not agent.off:
                databases.connected(self, args[0] if args else options.get("database"))

        return __init__

    def ending(command_of):
        def make(original):
            one = as_one(agent, original)

            def method(self, *args):
                subject = None
                if not agent.off and id(self) in databases.files and _in_transaction(self):
                    subject = databases.statement(self, command_of(args))
                if subject is None:
                    return original(self, *args)
                return agent.perform(operations["db.commit"], subject, 0, None, one, self, *args)

            return method

        return make

    on_slot(cls, "__init__", make_init)
    on_type(cls, "commit", ending(lambda args: "COMMIT"))
    on_type(cls, "rollback", ending(lambda args: "ROLLBACK"))
    on_type(cls, "__exit__", ending(lambda args: "ROLLBACK" if args and args[0] is not None else "COMMIT"))


def _in_transaction(connection) -> bool:
    try:
        return connection.in_transaction
    except Exception:  # closed, or another thread's: the original complains
        return False


def _hook_statements(agent, databases, cls, connection_of) -> None:
    """Hook execution by a cursor, or by a connection, which creates a cursor and returns it."""

    def executing(command):
        def make(original):
            one = as_one(agent, original)

            def method(self, *args, **options):
                subject = None
                if not agent.off and databases.files and args:
                    subject = databases.statement(connection_of(self), args[0], command)
                if subject is None:
                    return original(self, *args, **options)
                operation = agent.operations[subject.op]
                cursor = agent.perform(operation, subject, 0, None, one, self, *args, **options)
                databases.executed(cursor, subject)
                return cursor

            return method

        return make

    on_type(cls, "execute", executing(""))
    on_type(cls, "executemany", executing(""))
    on_type(cls, "executescript", executing("SCRIPT"))


def _hook_fetches(agent, databases, cls) -> None:
    operation, perform = agent.operations["db.read"], agent.perform

    def make(original):
        def method(self, *args, **options):
            last = databases.last.get(id(self)) if databases.last and not agent.off else None
            subject = last and databases.statement(_connection(self), last.resource, "FETCH")
            if subject is None:
                return original(self, *args, **options)
            return perform(operation, subject, 0, None, original, self, *args, **options)

        return method

    for name in ("fetchone", "fetchmany", "fetchall"):
        on_type(cls, name, make)


def _connection(cursor):
    try:
        return cursor.connection
    except Exception:  # a cursor whose creation failed
        return None
