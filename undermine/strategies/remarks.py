"""Remarks of a strategy for the user. The strategy may repeat itself; the user hears each remark once."""

from __future__ import annotations


class NewRemarks:
    """Remarks that the user hasn't heard yet."""

    def __init__(self) -> None:
        self._said: list[str] = []
        self._heard: set[str] = set()

    def say(self, *remarks: str) -> None:
        """Replace the remarks that wait for the user."""
        self._said = list(remarks)

    def take(self) -> list[str]:
        """The remarks that wait for the user, without those that the user has heard."""
        new, self._said = [remark for remark in self._said if remark not in self._heard], []
        self._heard.update(new)
        return new
