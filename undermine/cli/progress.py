"""Progress of runs: a live view on a terminal, else one line for each finished run.

The view shows the time left, the rate, the runs that are under way, coverage, and the findings so far.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from undermine.analysis.coverage import Reached
from undermine.campaign.running import Listener, Notice
from undermine.cli.console import console, printable
from undermine.cli.coverage import coverage_words, growth_words
from undermine.model.finding import named
from undermine.model.rounds import RoundKind
from undermine.report.text import count, duration
from undermine.web.status import RECENT_S, rate_words, time_words

_LINES = (
    "building",
    "workers",
    "page",
    "done",
    "broken",
    "resume",
    "round",
    "coverage",
    "forecast",
    "covered",
    "warning",
    "remark",
    "suspect",
    "waiting",
    "confirmed",
    "flaky",
    "not reproduced",
    "dropped",
    "joined",
    "shrunk",
    "bounded",
)
"""Kinds of news that are printed as a line if there is no terminal."""
_DECISIONS = {
    "suspect": "red",
    "waiting": "red",
    "confirming": "red",
    "confirmed": "bold red",
    "flaky": "dim",
    "not reproduced": "dim",
    "dropped": "dim",
    "comparing": "bold red",
    "joined": "dim",
    "shrinking": "bold red",
    "shrunk": "bold red",
    "bounding": "bold red",
    "bounded": "bold red",
}
"""Kinds of news that decide about a symptom, with the style that its row has from then on."""
_SUSPECTED = frozenset({"suspect", "waiting", "confirming"})
_CONFIRMED = frozenset({"confirmed", "comparing", "shrinking", "shrunk", "bounding", "bounded"})
_WARNINGS_MAX = 20
"""The most warnings that stay on the screen."""
_MARKS = {"fired": "ok", "not_fired": "not fired", "exhausted": "ok", "broken": "broken"}


@contextlib.contextmanager
def progress(title: str, budget_s: float = 0.0) -> Iterator[Listener]:
    """A listener that draws a live view on a terminal, else prints a line for each finished run."""
    board = Board(title, budget_s)
    out = console()
    if not out.is_terminal:
        yield lambda news: _print_line(out, board, news)
        return
    try:
        with Live(board, console=out, refresh_per_second=4, transient=True):
            yield board.take
    finally:  # the view is gone, but a warning still matters
        for text in board.warnings[:_WARNINGS_MAX]:
            out.print(Text(text, style="yellow"), soft_wrap=True)
        if (more := len(board.warnings) - _WARNINGS_MAX) > 0:
            out.print(Text(f"… and {count(more, 'more warning')}", style="yellow"))


def _print_line(out: Console, board: Board, news: Notice) -> None:
    before = board.coverage
    board.take(news)
    text = news.text
    if news.kind == "done":
        symptom = _symptom(news)
        mark = _MARKS[news.data["status"]] if not symptom else "FAIL"
        text = f"run {news.data['run']:>4} {news.data['strategy']:<11} {mark:<9} {news.text}"
        if grown := growth_words(before, board.coverage):
            text += f" (new: {grown})"
        if symptom:
            text += f" => {'; '.join((symptom, *_lesser_symptoms(news)))}"
    elif news.kind == "coverage":
        text = f"{news.text}: {coverage_words(board.coverage)}"
    if news.kind in _LINES:
        out.print(f"[{board.elapsed_s:5.0f} s] {printable(text)}", markup=False, soft_wrap=True)


def _symptom(news: Notice) -> str:
    """The symptom that a run failed with; "" if it passed. A fault-free run has none that a finding is made of, but may fail."""
    is_fault_free = news.data.get("round") == RoundKind.BASELINE.value
    return str(news.data["symptom"] or "; ".join(news.data.get("symptoms", ()) if is_fault_free else ()))


def _lesser_symptoms(news: Notice) -> list[str]:
    """The other symptoms of a run with a fault."""
    worst = news.data["symptom"]
    return list(dict.fromkeys(each for each in news.data.get("symptoms", ()) if worst and each not in ("", worst)))


class Board:
    """The live view: counts, current runs, warnings and symptoms."""

    def __init__(self, title: str, budget_s: float) -> None:
        self._title = title
        self._budget_s = budget_s
        self._begun = time.monotonic()
        self._budget_begun = 0.0
        """When the campaign began; 0 before that."""
        self._ended: list[float] = []
        """When each run ended."""
        self._runs = 0
        self._by_strategy: dict[str, int] = {}
        self._statuses: dict[str, int] = {}
        self._symptoms: dict[str, int] = {}
        self._decisions: dict[str, dict[str, tuple[str, str]]] = {}
        """By symptom and name of a finding: what was said of it, and the style of its row."""
        self._kinds: dict[str, str] = {}
        """By name of a finding: the kind of the last decision about it."""
        self._now: dict[int, tuple[float, str]] = {}
        """By run: when it began, and its words."""
        self._page = ""
        self._workers = ""
        """How many workers a cluster has, and how many runs they have at a time."""
        self._remarks: dict[str, bool] = {}
        """Warnings and remarks: is it a warning?"""
        self.coverage = Reached()

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings so far, each once."""
        return tuple(text for text, is_warning in self._remarks.items() if is_warning)

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._begun

    def take(self, news: Notice) -> None:
        run = news.data.get("run", 0)
        reached = news.data.get("coverage", self.coverage)
        if reached.runs >= self.coverage.runs:  # parallel runs may report out of order
            self.coverage = reached
        if news.kind == "building":
            self._now[run] = time.monotonic(), printable(news.text)
        elif news.kind == "campaign":
            self._budget_begun = time.monotonic()
        elif news.kind == "workers":
            self._workers = printable(news.text)
        elif news.kind == "page":
            self._page = printable(news.text)
        elif news.kind == "run":
            self._now.pop(0, None)
            self._now[run] = time.monotonic(), printable(f"{news.data['strategy']}: {news.text}")
        elif news.kind in ("warning", "remark"):
            self._remarks[printable(news.text)] = news.kind == "warning"
        elif news.kind in _DECISIONS:
            symptom = printable(news.data.get("symptom", ""))
            name = printable(named(news.data.get("symptom", ""), news.data.get("when", "")))
            said = "being confirmed" if news.kind == "suspect" else printable(news.text).removesuffix(f": {name}")
            self._decisions.setdefault(symptom, {})[name] = (said, _DECISIONS[news.kind])
            self._kinds[name] = news.kind
        elif news.kind == "done":
            self._now.pop(run, None)
            self._runs += 1
            self._ended.append(time.monotonic())
            for counter, key in ((self._by_strategy, news.data["strategy"]), (self._statuses, news.data["status"])):
                counter[key] = counter.get(key, 0) + 1
            if symptom := printable(_symptom(news)):
                self._symptoms[symptom] = self._symptoms.get(symptom, 0) + 1

    def __rich__(self) -> RenderableType:
        rows: list[RenderableType] = []
        head = ", ".join(filter(None, (f"{self._title}: {count(self._runs, 'run')} in {duration(self.elapsed_s)}", self._rate)))
        if self._budget_s:
            used_s = time.monotonic() - self._budget_begun if self._budget_begun else 0.0
            head += f"; {time_words(used_s, self._budget_s)}"
            bar = Table.grid()
            bar.add_row(ProgressBar(total=self._budget_s, completed=min(used_s, self._budget_s), width=60))
            rows.append(bar)
        counts = [f"{name} {n}" for name, n in (*self._by_strategy.items(), *self._statuses.items())]
        rows.append(Text("  ".join(counts) or "starting", style="dim"))
        if self.coverage.runs:
            rows.append(Text(coverage_words(self.coverage), style="dim"))
        rows += [Text(text, style="yellow") for text in self._remarks]
        if self._workers:
            rows.append(Text(self._workers, style="dim"))
        if self._page:
            rows.append(Text(self._page, overflow="fold"))
        now = ((duration(time.monotonic() - begun), text) for begun, text in list(self._now.values())[:4])
        rows += [Text(f"now  {since}  {text}", overflow="ellipsis", no_wrap=True) for since, text in now]
        if words := self._finding_words:
            rows.append(Text(f"findings: {words}"))
        rows += [row for symptom, n in list(self._symptoms.items()) for row in self._symptom_rows(symptom, n)]
        return Panel(Group(*rows), title=head, title_align="left")

    @property
    def _rate(self) -> str:
        """How many runs ended in a minute, lately."""
        since_s = min(RECENT_S, self.elapsed_s)
        return rate_words(sum(ended >= time.monotonic() - since_s for ended in self._ended), since_s)

    @property
    def _finding_words(self) -> str:
        """`2 confirmed, 1 suspected`"""
        kinds = list(self._kinds.values())
        numbers = {"confirmed": sum(kind in _CONFIRMED for kind in kinds), "suspected": sum(kind in _SUSPECTED for kind in kinds)}
        return ", ".join(f"{number} {word}" for word, number in numbers.items() if number)

    def _symptom_rows(self, symptom: str, count: int) -> Iterator[Text]:
        """A row for each of its findings; the first one has the number of runs."""
        head = f"FAIL ×{count}  "
        for name, (said, style) in list(self._decisions.get(symptom, {symptom: ("", "red")}).items()):
            text = f"{head}{name}" + (f" ({said})" if said else "")
            yield Text(text, style=style, overflow="ellipsis", no_wrap=True)
            head = " " * len(head)
