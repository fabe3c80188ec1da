"""The pages of a running hunt: its report with a band that says what happens now, and its status as JSON.

A page is rendered when somebody asks for it, at most one at a time, and not again before some time has passed. Never writes to
the campaign store.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from markupsafe import Markup

from undermine.report.html import environment, render
from undermine.store.database import CampaignStore
from undermine.web.status import Session, status_of

_STATUS_S = 1.0
"""How long a status is current."""
_PAGE_S = 2.0
_REST = 4.0
"""A page is current for at least this many times the time that it took to make it, so that a large campaign doesn't occupy the
machine."""


class Pages:
    """The pages of one campaign. Safe to use from several threads."""

    def __init__(self, folder: Path, session: Session) -> None:
        self._session = session
        # a page takes seconds to make, and the status must not wait for it
        self._for_pages, self._for_status = (CampaignStore(folder, read_only=True) for _ in range(2))
        self._page = _Kept(self._render, _PAGE_S)
        self._status = _Kept(lambda: msgspec.json.encode(status_of(self._for_status, session)), _STATUS_S)

    def page(self) -> bytes:
        return self._page.content()

    def status(self) -> bytes:
        return self._status.content()

    def close(self) -> None:
        self._for_pages.close()
        self._for_status.close()

    def _render(self) -> bytes:
        with self._for_pages.snapshot():
            shown = {"status": status_of(self._for_pages, self._session), "time": time.strftime("%H:%M:%S")}
            band = Markup(environment().get_template("live.html").render(shown))
            return render(self._for_pages, band, ("live.js",)).encode(errors="replace")


class _Kept:
    """Content that is made when it is asked for, unless the last one is still current."""

    def __init__(self, make: Callable[[], bytes], current_s: float) -> None:
        self._make = make
        self._current_s = current_s
        self._content = b""
        self._until = 0.0
        self._lock = threading.Lock()

    def content(self) -> bytes:
        """The content; an old one at once while another thread makes the new one."""
        old = self._content
        if not self._lock.acquire(blocking=not old):
            return old
        try:
            begun = time.monotonic()
            if begun >= self._until:
                self._content = self._make()
                ended = time.monotonic()
                self._until = ended + max(self._current_s, _REST * (ended - begun))
            return self._content
        finally:
            self._lock.release()
