"""The tool's side of `process.py`: calls into the user's plug-in file, each in a process of its own.

If the helper process dies, every open call ends with code None and the run that made it is broken.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from undermine.model.errors import UserError

_LOAD_TIMEOUT_S = 60.0


class Call:
    """One call into the user's file, from its start to its end."""

    def __init__(self, owner: UserlandClient, call_id: int) -> None:
        self._owner = owner
        self.id = call_id
        self._done = threading.Event()
        self.code: int | None = None

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of the call; return false if it has not ended after `timeout_s`."""
        return self._done.wait(timeout_s)

    def kill(self) -> None:
        self._owner.kill(self.id)
        self.wait(5.0)

    def end(self, code: int | None) -> None:
        self.code = code
        self._done.set()


class UserlandClient:
    """A running helper process; use as a context manager."""

    def __init__(self, plugins: Path | None, env: Mapping[str, str], log: Path) -> None:
        self._lock = threading.Lock()
        self._ids = itertools.count(1)
        self._calls: dict[int, Call] = {}
        self._is_over = False
        self._log = open(log, "ab")  # noqa: SIM115 - lives as long as the process
        self._process = subprocess.Popen(
            [sys.executable, "-m", "undermine.userland.process", str(plugins or "")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, **env},
            start_new_session=True,
        )
        self.declared = self._first_word(plugins)
        threading.Thread(target=self._read, name="userland", daemon=True).start()

    def __enter__(self) -> UserlandClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _first_word(self, plugins: Path | None) -> dict[str, list[Any]]:
        assert self._process.stdout is not None
        timer = threading.Timer(_LOAD_TIMEOUT_S, self._process.kill)
        timer.start()
        try:
            line = self._process.stdout.readline()
        finally:
            timer.cancel()
        word: dict[str, Any] = (
            json.loads(line) if line else {"error": f"{plugins} ended the process or hung while it was loaded; fix the file"}
        )
        if "error" in word:
            self.close()
            raise UserError(word["error"])
        loaded: dict[str, list[Any]] = word["loaded"]
        return loaded

    def call(self, kind: str, **parameters: Any) -> Call:
        with self._lock:
            call = Call(self, next(self._ids))
            self._calls[call.id] = call
            is_over = self._is_over
        if is_over:  # a dead helper's pipe may accept requests for a moment after its answers have ended
            self._end_all()
        else:
            self._send({"id": call.id, "call": kind, **parameters})
        return call

    def kill(self, call_id: int) -> None:
        self._send({"kill": call_id})

    def close(self) -> None:
        """End the helper and all its children."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            with self._lock:
                self._process.stdin.write(json.dumps(message).encode() + b"\n")
                self._process.stdin.flush()
        except (OSError, ValueError):
            self._end_all()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            with self._lock:
                call = self._calls.pop(answer["id"], None)
            if call:
                call.end(answer["exit"])
        with self._lock:
            self._is_over = True
        self._end_all()

    def _end_all(self) -> None:
        with self._lock:
            calls, self._calls = list(self._calls.values()), {}
        for call in calls:
            call.end(None)
