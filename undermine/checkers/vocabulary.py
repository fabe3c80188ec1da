"""The known log entries: templates, and whether an entry fits one of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

ANY = "<*>"
"""The word of a template that stands for any word."""
_END = ""


class Vocabulary:
    """Templates as a tree of words, so that a lookup is fast with any number of templates."""

    def __init__(self, templates: Iterable[str] = ()) -> None:
        self._texts: set[str] = set()
        self._tree: dict[str, Any] = {}
        for template in templates:
            self.add(template)

    def add(self, template: str) -> None:
        self._texts.add(template)
        node = self._tree
        for word in template.split():
            node = node.setdefault(word, {})
        node[_END] = {}

    def knows(self, words: Sequence[str]) -> bool:
        """Does a template have the same number of words, each equal or a wildcard?"""
        return _fits(self._tree, words, 0)

    def has(self, text: str) -> bool:
        """Is this one of the templates, word for word?"""
        return text in self._texts


def _fits(node: dict[str, Any], words: Sequence[str], index: int) -> bool:
    if index == len(words):
        return _END in node
    branches = (node.get(words[index]), node.get(ANY))
    return any(branch is not None and _fits(branch, words, index + 1) for branch in branches)
