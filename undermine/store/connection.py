"""The connection to a campaign's database: its transactions, and its table of single values. Knows no other table."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from undermine.model.errors import UserError
from undermine.store.schema import is_older, prepare


class Connection:
    """The open database of one campaign. Safe to use from several threads.

    With `upgrade`, a database that an older version of the tool has written is upgraded. Otherwise, its reader gets an upgraded
    copy in memory: the older version may still be hunting.
    """

    def __init__(self, folder: Path, *, read_only: bool = False, upgrade: bool = True) -> None:
        self.folder = folder
        self._lock = threading.RLock()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / "campaign.db"
        try:
            with contextlib.suppress(OSError):  # the next line reports it
                path.touch(mode=0o600)  # no other user may read it
            self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=30)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            if (read_only or not upgrade) and is_older(self._db):
                self._db = _copied(self._db)
            prepare(self._db, path, self._change)
            if read_only:
                self._db.execute("PRAGMA query_only=ON")
        except sqlite3.DatabaseError as error:
            raise UserError(f"{path} cannot be opened ({error}); move it elsewhere and start a new campaign") from error

    def close(self) -> None:
        with self._lock:
            self._db.close()

    @contextlib.contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        """One transaction. A full disk raises a `UserError` and leaves the database as it was."""
        with self._lock:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                yield self._db
                self._db.execute("COMMIT")
            except BaseException as error:
                with contextlib.suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
                if isinstance(error, sqlite3.OperationalError) and ("full" in str(error) or "disk I/O" in str(error)):
                    raise UserError(
                        f"cannot write to {self.folder} ({error}); free some space, then run `undermine hunt --resume`: "
                        "nothing stored so far is lost"
                    ) from error
                raise

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Everything that is read inside belongs to one moment, while another process writes."""
        with self._lock:
            self._db.execute("BEGIN")
            try:
                yield
            finally:
                self._db.execute("ROLLBACK")

    def _all(self, sql: str, *values: Any) -> list[Any]:
        with self._lock:
            return self._db.execute(sql, values).fetchall()

    def set_meta(self, key: str, value: Any) -> None:
        with self._change() as db:
            db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, json.dumps(value)))

    def meta(self, key: str, default: Any = None) -> Any:
        rows = self._all("SELECT value FROM meta WHERE key = ?", key)
        return json.loads(rows[0][0]) if rows else default


def _copied(db: sqlite3.Connection) -> sqlite3.Connection:
    """A copy in memory of a database, which it closes."""
    copy = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    with contextlib.closing(db):
        db.backup(copy)
    return copy
