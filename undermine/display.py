"""What a person sees in the terminal: live progress and results. Text from targets is shown as text, never as markup."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from undermine.experiments import Listener, News
from undermine.model.finding import Finding

if TYPE_CHECKING:
    from undermine.api import CheckResult, HuntResult, PlanResult, ReplayResult

_EVIDENCE_LINES_MAX = 4
_MARKS = {"fired": "ok", "not_fired": "not fired", "exhausted": "ok", "broken": "broken"}


def console() -> Console:
    """Wraps for people; what goes into a file or a pipe keeps its lines whole."""
    out = Console(highlight=False)
    return out if out.is_terminal else Console(highlight=False, soft_wrap=True)


def plain(text: str) -> str:
    """Text that may come from a target: no markup, no control characters."""
    return escape(printable(text))


def printable(text: str) -> str:
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)


@contextlib.contextmanager
def progress(title: str, budget_s: float = 0.0) -> Iterator[Listener]:
    """A live view on a terminal; a line for each finished run elsewhere."""
    board = _Board(title, budget_s)
    out = console()
    if not out.is_terminal:
        yield lambda news: _print_line(out, board, news)
        return
    with Live(board, console=out, refresh_per_second=4, transient=True):
        yield board.take


def _print_line(out: Console, board: _Board, news: News) -> None:
    board.take(news)
    text = news.text
    if news.kind == "done":
        mark = _MARKS[news.data["status"]] if not news.data["symptom"] else "FAIL"
        text = f"run {news.data['run']:>4} {news.data['strategy']:<11} {mark:<9} {news.text}"
        if news.data["symptom"]:
            text += f" => {news.data['symptom']}"
    if news.kind in ("done", "broken", "resume", "warning", "suspect"):
        out.print(f"[{board.elapsed_s:5.0f} s] {printable(text)}", markup=False, soft_wrap=True)


class _Board:
    """What has happened so far, drawn anew a few times a second."""

    def __init__(self, title: str, budget_s: float) -> None:
        self._title = title
        self._budget_s = budget_s
        self._begun = time.monotonic()
        self._runs = 0
        self._by_strategy: dict[str, int] = {}
        self._statuses: dict[str, int] = {}
        self._symptoms: dict[str, int] = {}
        self._now: dict[int, str] = {}
        self._warnings: list[str] = []

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._begun

    def take(self, news: News) -> None:
        run = news.data.get("run", 0)
        if news.kind == "run":
            self._now[run] = printable(f"{news.data['strategy']}: {news.text}")
        elif news.kind == "warning":
            self._warnings.append(printable(news.text))
        elif news.kind == "done":
            self._now.pop(run, None)
            self._runs += 1
            for counter, key in ((self._by_strategy, news.data["strategy"]), (self._statuses, news.data["status"])):
                counter[key] = counter.get(key, 0) + 1
            if symptom := printable(news.data.get("symptom", "")):
                self._symptoms[symptom] = self._symptoms.get(symptom, 0) + 1

    def __rich__(self) -> RenderableType:
        rows: list[RenderableType] = []
        head = f"{self._title}: {self._runs} runs in {self.elapsed_s:.0f} s"
        if self._budget_s:
            head += f" of {self._budget_s:.0f} s"
            bar = Table.grid()
            bar.add_row(ProgressBar(total=self._budget_s, completed=min(self.elapsed_s, self._budget_s), width=60))
            rows.append(bar)
        counts = [f"{name} {n}" for name, n in (*self._by_strategy.items(), *self._statuses.items())]
        rows.append(Text("  ".join(counts) or "starting", style="dim"))
        rows += [Text(text, style="yellow") for text in self._warnings]
        rows += [Text(f"now  {text}", overflow="ellipsis", no_wrap=True) for text in list(self._now.values())[:4]]
        rows += [
            Text(f"FAIL ×{n}  {s}", style="red", overflow="ellipsis", no_wrap=True)
            for s, n in list(self._symptoms.items())
        ]
        return Panel(Group(*rows), title=head, title_align="left")


# --- results


def show_findings(findings: Sequence[Finding], options: str = "") -> None:
    """The short list; `options` is what `undermine replay` needs to find this campaign."""
    out = console()
    if not findings:
        out.print("[green]no findings[/green]")
    for finding in findings:
        doubt = "" if finding.believed else " [yellow](not reproduced)[/yellow]"
        out.print(f"\n[bold red]{finding.id}[/bold red] {plain(finding.title)}{doubt}")
        out.print(f"   injected  {plain(str(finding.plan))}")
        out.print(
            f"   seen      {len(finding.runs)} run(s), by {', '.join(finding.strategies)}; reproduced {finding.rate}"
        )
        for verdict in finding.verdicts:
            if verdict.symptom == finding.symptom:
                for line in verdict.evidence[-_EVIDENCE_LINES_MAX:]:
                    out.print(f"   evidence  {plain(line)}")
        out.print(f"   replay    undermine replay {finding.id}{plain(options)}")


def show_hunt(result: HuntResult, page: Path, options: str = "") -> None:
    out = console()
    show_findings(result.findings, options)
    coverage = result.coverage
    statuses = ", ".join(f"{n} {status}" for status, n in sorted(result.statuses.items()))
    out.print(
        f"\n{sum(result.statuses.values())} runs in this campaign ({statuses}), this session took {result.duration_s:.0f} s; "
        f"faults fired at {coverage.points_fired} of {coverage.points} points, "
        f"{coverage.locations_fired} of {coverage.locations} source locations"
    )
    out.print(f"report: {plain(str(page))}", soft_wrap=True)


def show_check(result: CheckResult, *, verbose: bool = False) -> None:
    out = console()
    machine = Table(title="this machine", title_justify="left", box=None)
    for ability in result.abilities:
        machine.add_row(
            "[green]yes[/green]" if ability.there else "[yellow]no[/yellow]", ability.name, plain(ability.detail)
        )
    out.print(machine)
    out.print(f"nodes are kept apart by {plain(result.isolation)}")
    agents = Table("node", "agent", "processes", "operations", title="agents", title_justify="left", box=None)
    for seen in result.agents:
        loaded = f"{seen.loaded} {seen.runtime}".strip()
        if seen.wanted != "none" and seen.loaded == "none":
            loaded = f"[red]{seen.wanted} did not load[/red]"
        if seen.wanted == "none":
            agents.add_row(seen.node, "no agent: process faults only", "", "")
        else:
            agents.add_row(seen.node, loaded, str(seen.processes), str(sum(seen.operations.values())))
    out.print(agents)
    for seen in result.agents:
        if seen.why_slow:
            out.print(f"[yellow]{seen.node} is slower under its agent:[/yellow] no accelerator: {plain(seen.why_slow)}")
    if verbose:
        for gap in dict.fromkeys(gap for seen in result.agents for gap in seen.gaps):
            out.print(f"  not seen: {plain(gap)}")
    points = result.recurrence
    out.print(
        f"points: {points.points}, of which {points.in_all} ({points.share:.0%}) were in all {points.runs} fault-free runs"
    )
    for node, (total, stable) in sorted(points.by_node.items()):
        out.print(f"  {node}: {stable} of {total}")
    for text in result.unstable:
        out.print(f"  not in all runs: {plain(text)}")
    durations = ", ".join(f"{d:.1f}" for d in result.durations_s)
    out.print(
        f"a run takes {result.run_s:.1f} s ({durations}); 10 minutes are about {600 / max(result.run_s, 0.01):.0f} runs"
    )
    minutes = max(1, round(result.exhaustive_s / 60))
    out.print(f"every fault at every point once: {result.chances} runs, about {minutes} minute{'s' * (minutes > 1)}")
    for reason, count in result.skipped.items():
        out.print(f"  left out {count}: {plain(reason)}")
    for problem in result.problems:
        out.print(f"[yellow]trace:[/yellow] {plain(problem)}")


def show_plan(result: PlanResult) -> None:
    out = console()
    out.print(f"{result.points} points, {result.chances} pairs of point and fault")
    for predicted in result.predicted:
        out.print(f"\n[bold]{predicted.strategy}[/bold]: {predicted.summary}")
        reasons = {plan.why for plan in predicted.plans}
        for number, plan in enumerate(predicted.plans, 1):
            why = f" ({plain(plan.why)})" if len(reasons) > 1 else ""
            out.print(f"  {number:>3}. {plain(str(plan))}{why}")
    for title, counts in (("left out", result.skipped), ("dropped by your policies", result.dropped)):
        for reason, count in counts.items():
            out.print(f"{title} {count}: {plain(reason)}")


def show_replay(result: ReplayResult) -> None:
    out = console()
    out.print(f"{result.finding}: {plain(str(result.plan))}")
    out.print(f"failed {result.hits} of {result.fired} runs in which the fault fired ({result.tries} tries)")
    for symptom in result.symptoms:
        out.print(f"  {plain(symptom)}")


def show_logs(files: Sequence[Path]) -> None:
    out = console()
    for path in files:
        out.rule(path.name, align="left")
        out.print(plain(path.read_text(errors="replace")), soft_wrap=True)
