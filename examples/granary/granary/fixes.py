"""Switches for behaviour that is being rolled out; see BUGS.md."""

from __future__ import annotations

NAMES = ("snapshot-copy", "recovery-supersede", "commit-lease", "open-watch", "epoch-first",
         "gossip-tombstone")


class Fixes:
    """The set of switches that are on; `"name" in fixes` asks for one."""

    def __init__(self, text: str = "") -> None:
        names = [name for name in text.split(",") if name]
        self._on = frozenset(NAMES if "all" in names else names)
        unknown = self._on - set(NAMES) - {"none"}
        if unknown:
            raise ValueError(f"unknown fix: {', '.join(sorted(unknown))}; known: {', '.join(NAMES)}")

    def __contains__(self, name: str) -> bool:
        return name in self._on

    def __str__(self) -> str:
        return ",".join(sorted(self._on)) or "none"
