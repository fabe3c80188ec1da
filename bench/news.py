"""Prints the progress of a benchmark: a line for each run, on standard error."""

from __future__ import annotations

import sys

from undermine import api


def print_news(news: api.Notice) -> None:
    if news.kind == "done":
        print(f"run {news.data['run']}: {news.data['status']} {news.data['symptom']}", file=sys.stderr, flush=True)
