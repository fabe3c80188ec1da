"""The tables of the campaign's database, and the statements that upgrade those of an earlier version. Never reads a run."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from undermine.model.errors import UserError
from undermine.store.points import POINTS_SCHEMA

SCHEMA_VERSION = 8

_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE rounds (
    round INTEGER PRIMARY KEY, strategy TEXT NOT NULL, created REAL NOT NULL, finished REAL, used_s REAL NOT NULL DEFAULT 0,
    kind TEXT NOT NULL DEFAULT 'strategy');
CREATE TABLE slots (
    round INTEGER NOT NULL REFERENCES rounds, idx INTEGER NOT NULL, plan TEXT NOT NULL, plan_id TEXT NOT NULL,
    run INTEGER, covered INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (round, idx));
CREATE TABLE reasons (plan_id TEXT NOT NULL, reason TEXT NOT NULL, PRIMARY KEY (plan_id, reason));
CREATE TABLE runs (
    run INTEGER PRIMARY KEY AUTOINCREMENT, round INTEGER NOT NULL, idx INTEGER NOT NULL, attempt INTEGER NOT NULL,
    state TEXT NOT NULL, status TEXT, reason TEXT NOT NULL DEFAULT '', started REAL NOT NULL, ended REAL,
    timing TEXT, symptom TEXT NOT NULL DEFAULT '', landed TEXT NOT NULL DEFAULT '[]', slow_ops TEXT NOT NULL DEFAULT '[]',
    worker TEXT NOT NULL DEFAULT '');
CREATE INDEX runs_of_slots ON runs (round, idx);
CREATE TABLE verdicts (
    run INTEGER NOT NULL, checker TEXT NOT NULL, answer TEXT NOT NULL, verdict TEXT NOT NULL, PRIMARY KEY (run, checker));
CREATE TABLE fired (
    run INTEGER NOT NULL, step INTEGER NOT NULL, point TEXT NOT NULL, fault TEXT NOT NULL, detail TEXT NOT NULL,
    serving INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (run, step)) WITHOUT ROWID;
CREATE TABLE occurrences (run INTEGER NOT NULL, step INTEGER NOT NULL, numbers TEXT NOT NULL, PRIMARY KEY (run, step));
CREATE TABLE dropped (
    plan_id TEXT NOT NULL, strategy TEXT NOT NULL, plan TEXT NOT NULL, rule TEXT NOT NULL, instead TEXT NOT NULL,
    PRIMARY KEY (plan_id, strategy));
CREATE TABLE findings (finding TEXT PRIMARY KEY, symptom TEXT NOT NULL UNIQUE, body TEXT NOT NULL);
CREATE TABLE numbers (symptom TEXT PRIMARY KEY, number INTEGER NOT NULL UNIQUE);
"""
_MIGRATIONS = {
    3: ("ALTER TABLE runs ADD COLUMN slow_ops TEXT NOT NULL DEFAULT '[]'",),
    4: (  # version 4 stored the kind of a round without a strategy as the name of its strategy
        "ALTER TABLE rounds ADD COLUMN kind TEXT NOT NULL DEFAULT 'strategy'",
        "UPDATE rounds SET kind = strategy, strategy = '' "
        "WHERE strategy IN ('baseline', 'benign', 'confirm', 'control', 'realism', 'replay')",
    ),
    5: (
        "ALTER TABLE slots ADD COLUMN covered INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE fired ADD COLUMN serving INTEGER NOT NULL DEFAULT 0",
        "CREATE TABLE reasons (plan_id TEXT NOT NULL, reason TEXT NOT NULL, PRIMARY KEY (plan_id, reason))",
        "CREATE INDEX runs_of_slots ON runs (round, idx)",
    ),
    6: (  # a table of its own: an older version that still hunts in this campaign fills all columns of `fired` by position
        "CREATE TABLE occurrences (run INTEGER NOT NULL, step INTEGER NOT NULL, numbers TEXT NOT NULL, PRIMARY KEY (run, step))",
    ),
    7: ("ALTER TABLE runs ADD COLUMN worker TEXT NOT NULL DEFAULT ''",),
}
"""By version of the schema: the statements that upgrade it to the next version."""


def is_older(db: sqlite3.Connection) -> bool:
    """Did an older version of the tool write the database?"""
    (version,) = db.execute("PRAGMA user_version").fetchone()
    return version in _MIGRATIONS


def prepare(db: sqlite3.Connection, path: Path, change: Callable[[], AbstractContextManager[sqlite3.Connection]]) -> None:
    """Create the tables of a new database, or upgrade those of an older version. `change` begins a transaction."""
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version == 0:
        with change():
            for statement in (_SCHEMA + POINTS_SCHEMA).split(";"):
                if statement.strip():
                    db.execute(statement)
            db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
    elif version in _MIGRATIONS:
        with change():
            (version,) = db.execute("PRAGMA user_version").fetchone()  # another process may have upgraded it meanwhile
            for older in range(version, SCHEMA_VERSION):
                for statement in _MIGRATIONS[older]:
                    db.execute(statement)
            db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
    elif version != SCHEMA_VERSION:
        raise UserError(f"{path} was written by another version of undermine; start a new campaign without --resume")
