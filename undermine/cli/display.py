"""What a person sees in the terminal: live progress and results. Text from targets is shown as text, never as markup."""

from __future__ import annotations

import contextlib
import datetime
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Column, Table
from rich.text import Text

from undermine.analysis.coverage import Reached
from undermine.campaign.experiments import Listener, News
from undermine.findings.group import template
from undermine.model.finding import Finding
from undermine.runtimes.table import RUNTIMES

if TYPE_CHECKING:
    from undermine.api import CheckResult, HuntResult, PlanResult, ReplayResult
    from undermine.campaign.stored_plans import DroppedBy, Planned, StoredPlans
    from undermine.exchange.bundle import Written
    from undermine.exchange.suppressions import Known
    from undermine.model.run import Verdict

_EVIDENCE_LINES_MAX = 4
_SLOWEST_SHOWN = 5
_NAME_WIDTH_MAX = 40
_NEW_LINES_MAX = 3
_VARIANTS_SHOWN = 3
_LINES = (
    "building",
    "done",
    "broken",
    "resume",
    "round",
    "coverage",
    "warning",
    "remark",
    "suspect",
    "confirmed",
    "flaky",
    "not confirmed",
    "dropped",
)
"""Kinds of news that are a line each where there is no terminal."""
_DECISIONS = {
    "suspect": "red",
    "confirming": "red",
    "confirmed": "bold red",
    "flaky": "dim",
    "not confirmed": "dim",
    "dropped": "dim",
}
"""What is said of a symptom on the way to a finding, and how it is drawn from then on."""
_MARKS = {"fired": "ok", "not_fired": "not fired", "exhausted": "ok", "broken": "broken"}


def console() -> Console:
    """Wraps for people; what goes into a file or a pipe keeps its lines whole."""
    out = Console(highlight=False)
    return out if out.is_terminal else Console(highlight=False, soft_wrap=True)


def plain(text: str) -> str:
    """Text that may come from a target: no markup, no control characters."""
    return escape(printable(text))


def printable(text: str) -> str:
    return "".join(c if c.isprintable() or c == "\n" else " " if c == "\t" else "?" for c in text)


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
    before = board.coverage
    board.take(news)
    text = news.text
    if news.kind == "done":
        mark = _MARKS[news.data["status"]] if not news.data["symptom"] else "FAIL"
        text = f"run {news.data['run']:>4} {news.data['strategy']:<11} {mark:<9} {news.text}"
        if grown := _grown_words(before, board.coverage):
            text += f" (new: {grown})"
        if news.data["symptom"]:
            text += f" => {news.data['symptom']}"
    elif news.kind == "coverage":
        text = f"{news.text}: {coverage_words(board.coverage)}"
    if news.kind in _LINES:
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
        self._decisions: dict[str, tuple[str, str]] = {}
        self._now: dict[int, str] = {}
        self._warnings: list[str] = []
        self.coverage = Reached()

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._begun

    def take(self, news: News) -> None:
        run = news.data.get("run", 0)
        reached = news.data.get("coverage", self.coverage)
        if reached.runs >= self.coverage.runs:  # runs side by side may tell of themselves in another order
            self.coverage = reached
        if news.kind == "building":
            self._now[run] = printable(news.text)
        elif news.kind == "run":
            self._now.pop(0, None)
            self._now[run] = printable(f"{news.data['strategy']}: {news.text}")
        elif news.kind in ("warning", "remark"):
            self._warnings.append(printable(news.text))
        elif news.kind in _DECISIONS:
            symptom = printable(news.data.get("symptom", ""))
            said = "being confirmed" if news.kind == "suspect" else printable(news.text).removesuffix(f": {symptom}")
            self._decisions[symptom] = (said, _DECISIONS[news.kind])
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
        if self.coverage.runs:
            rows.append(Text(coverage_words(self.coverage), style="dim"))
        rows += [Text(text, style="yellow") for text in self._warnings]
        rows += [Text(f"now  {text}", overflow="ellipsis", no_wrap=True) for text in list(self._now.values())[:4]]
        rows += [self._symptom_row(symptom, n) for symptom, n in list(self._symptoms.items())]
        return Panel(Group(*rows), title=head, title_align="left")

    def _symptom_row(self, symptom: str, count: int) -> Text:
        said, style = self._decisions.get(symptom, ("", "red"))
        text = f"FAIL ×{count}  {symptom}" + (f" ({said})" if said else "")
        return Text(text, style=style, overflow="ellipsis", no_wrap=True)


# --- coverage


def coverage_words(reached: Reached) -> str:
    """`faults fired at 33 of 175 points, 23 of 40 source locations; 12 recovery classes (last new one 31 runs ago)`"""
    said = (
        f"faults fired at {reached.points_fired} of {reached.points} points, "
        f"{reached.locations_fired} of {reached.locations} source locations"
    )
    if reached.recovery_points_fired:
        said += f" and {_count(reached.recovery_points_fired, 'recovery point')}"
    if not reached.recovery_classes:
        return f"{said}; no recovery was seen" if reached.runs else said
    return f"{said}; {_classes(reached.recovery_classes)} ({reached.since_new})"


def _classes(number: int) -> str:
    return f"{number} recovery class{'es' * (number != 1)}"


def _grown_words(before: Reached, now: Reached) -> str:
    """What a run has brought, if it has: for logs, where what stays the same is not repeated."""
    parts = []
    if now.locations_fired > before.locations_fired:
        parts.append(f"location {now.locations_fired} of {now.locations}")
    if now.recovery_classes > before.recovery_classes:
        parts.append(f"recovery class {now.recovery_classes}")
    return ", ".join(parts)


# --- results


def show_findings(
    findings: Sequence[Finding],
    options: str = "",
    remarks: Mapping[str, str] | None = None,
    new_logs: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """The short list, the most certain first; `options` is what later commands need to find this campaign. By id: what
    else there is to say of a finding, and log lines that no correct run has."""
    out = console()
    if not findings:
        out.print("[green]no findings[/green]")
    for finding in sorted(findings, key=_doubt):
        if finding.dropped and not finding.suppressed:
            continue
        if finding.suppressed:
            out.print(
                f"\n[dim]{finding.id} {plain(finding.title)}\n   suppressed {plain(finding.suppressed)}[/dim]",
                soft_wrap=True,
            )
            continue
        doubt = f" [yellow]({words})[/yellow]" if (words := _doubt_words(finding)) else ""
        out.print(f"\n[bold red]{finding.id}[/bold red] {plain(finding.title)}{doubt}")
        if remark := (remarks or {}).get(finding.id):
            out.print(f"   note      {plain(remark)}")
        for name, text in _finding_lines(finding):
            out.print(f"   {name:<9} {plain(text)}")
        for line in (new_logs or {}).get(finding.id, ())[:_NEW_LINES_MAX]:
            out.print(f"   new log   {plain(line)}")
        for command in ("replay", "bundle"):
            out.print(f"   {command:<9} undermine {command} {finding.id}{plain(options)}")
    _show_unreal(out, [finding for finding in findings if finding.dropped and not finding.suppressed], options)


def _show_unreal(out: Console, findings: Sequence[Finding], options: str) -> None:
    if findings:
        out.print("\n[bold]dropped[/bold]: no slow device causes these delays, so they are no bugs")
    for finding in findings:
        out.print(f"\n[bold]{finding.id}[/bold] {plain(finding.title)}")
        for name, text in (
            ("injected", str(finding.plan)),
            ("again", _rate_words(finding)),
            ("reason", finding.realism.text),
            ("replay", f"undermine replay {finding.id}{options}"),
        ):
            out.print(f"   {name:<9} {plain(text)}")


def _doubt(finding: Finding) -> int:
    """0 for what is believed and was reproduced; the less there is to it, the more."""
    if finding.suppressed:
        return 4
    return 3 if finding.flaky else 0 if finding.confirmed else 1 if finding.believed else 2


def _doubt_words(finding: Finding) -> str:
    if finding.flaky:
        return "flaky: it fails without the fault too"
    return "" if finding.believed else "not reproduced"


def _finding_lines(finding: Finding) -> Iterator[tuple[str, str]]:
    yield "injected", str(finding.plan)
    by = ", ".join(finding.strategies)
    faults = f", with {', '.join(finding.faults)}" if finding.faults else ""
    yield "seen", f"in {_count(len(finding.runs), 'run')}{f', by {by}' if by else ''}{faults}"
    yield "again", _rate_words(finding)
    if finding.confirmed and finding.realism.answer:
        yield "device", str(finding.realism)
    for variant in finding.variants[:_VARIANTS_SHOWN]:
        yield "also by", f"{variant.plan} ({_count(variant.runs, 'run')})"
    if (more := len(finding.variants) - _VARIANTS_SHOWN) > 0:
        yield "also by", f"faults at {_count(more, 'other place')}"
    failing = [verdict for verdict in finding.verdicts if verdict.answer == "fail"]
    own = [verdict for verdict in failing if template(verdict.symptom) == template(finding.symptom)]
    for verdict in (own or failing)[:1]:
        yield from (("evidence", line) for line in verdict.evidence[-_EVIDENCE_LINES_MAX:])


def _rate_words(finding: Finding) -> str:
    if not finding.tries and not finding.elsewhere:
        return "not tried yet: `undermine replay` tells how often it comes back"
    if not finding.tries:
        return f"{_count(finding.elsewhere, 're-run')} say nothing: the fault fired elsewhere or not at all"
    said = f"reproduced {finding.hits}/{finding.tries}"
    if finding.control_tries:
        said += f", {finding.control_hits}/{finding.control_tries} without the fault"
    return said


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def show_hunt(result: HuntResult, page: Path, options: str = "") -> None:
    out = console()
    show_findings(result.findings, options, result.remarks, result.new_logs)
    statuses = ", ".join(f"{n} {status}" for status, n in sorted(result.statuses.items()))
    out.print(
        f"\n{sum(result.statuses.values())} runs in this campaign ({statuses}), this session took {result.duration_s:.0f} s; "
        f"{coverage_words(result.coverage)}"
    )
    _show_strategies(out, result.coverage)
    out.print(f"report: {plain(str(page))}", soft_wrap=True)


def show_coverage(reached: Reached) -> None:
    """Of a campaign that is stored."""
    out = console()
    if reached.runs:
        out.print(f"\n{_count(reached.runs, 'experiment')}; {coverage_words(reached)}")
        _show_strategies(out, reached)


def _show_strategies(out: Console, reached: Reached) -> None:
    """What each contributed, where there are several."""
    for name, share in reached.by_strategy.items() if len(reached.by_strategy) > 1 else ():
        out.print(
            f"   {plain(name)}: {_count(share.runs, 'experiment')}, {_count(share.points_fired, 'point')}, "
            f"{_count(share.locations_fired, 'source location')}, {_classes(share.recovery_classes)}, "
            f"{share.new_classes} of them first"
        )


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
        if seen.loaded == "none":
            loaded = f"[red]{seen.wanted} did not load[/red]"
        if not RUNTIMES[seen.wanted].has_agent:
            agents.add_row(seen.node, "no agent: process faults only", "", "")
        else:
            agents.add_row(seen.node, loaded, str(seen.processes), str(sum(seen.operations.values())))
    out.print(agents)
    for seen in result.agents:
        if seen.why_slow:
            without = RUNTIMES[seen.wanted].without_native
            out.print(f"[yellow]{seen.node} {without}:[/yellow] {plain(seen.why_slow)}")
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
    out.print(
        f"every fault at every point once: {result.possible_faults} runs, about {minutes} minute{'s' * (minutes > 1)}"
    )
    for reason, count in result.skipped.items():
        out.print(f"  left out {count}: {plain(reason)}")
    for problem in result.problems:
        out.print(f"[yellow]trace:[/yellow] {plain(problem)}")
    for line in _baseline_lines(result):
        out.print(line)
    if result.proofs:
        _show_proofs(out, result)


def _baseline_lines(result: CheckResult) -> Iterator[str]:
    """What is normal: is the workload flaky, what is slow, what do nodes say of themselves and in their logs."""
    usual = result.baseline
    if usual.flaky:
        yield f"[red]the workload is flaky:[/red] {plain(usual.flaky)}"
    if slowest := sorted(usual.slowest_s.items(), key=lambda item: -item[1])[:_SLOWEST_SHOWN]:
        said = ", ".join(f"{plain(f)} {seconds:.2f} s" for f, seconds in slowest)
        yield f"slowest operations without a fault: {said}"
    if usual.templates:
        yield f"log lines learnt: {len(usual.templates)} templates"
    unwell = {node: why for node, why in result.health.items() if why}
    for node, why in unwell.items():
        yield f"[yellow]{plain(node)} says that it is not healthy:[/yellow] {plain(why)}"
    if healthy := [node for node in result.health if node not in unwell]:
        yield f"asked for their health and healthy: {plain(', '.join(healthy))}"
    if silent := [seen.node for seen in result.agents if seen.node not in result.health]:
        yield (
            f"not asked for their health: {plain(', '.join(silent))}; with `health` in their role, a node that says it is "
            "fine while its clients suffer is found too"
        )


def _show_proofs(out: Console, result: CheckResult) -> None:
    widest = max(len(proof.checker) for proof in result.proofs)
    names = Column("checker", min_width=min(widest, _NAME_WIDTH_MAX), overflow="fold")
    table = Table(names, "can fail", "seen in", "since", title="checkers", title_justify="left", box=None)
    for proof in result.proofs:
        if proof.proved:
            where = "real run" if proof.real else "altered copy"
            table.add_row(plain(proof.checker), "[green]yes[/green]", where, plain(proof.plant))
        else:
            table.add_row(plain(proof.checker), "[red]not shown[/red]", "", plain(proof.text))
    out.print(table)
    if result.unproved:
        out.print(
            f"[red]{len(result.unproved)} of {len(result.proofs)} checkers were not seen to fail:[/red] "
            f"{plain(', '.join(result.unproved))}; what they pass means nothing until you have seen them fail"
        )


def show_plan(result: PlanResult, *, explain: bool = False) -> None:
    """What would be injected; with `explain` also each plan that was dropped, why, and what stands for it."""
    out = console()
    out.print(f"{result.points} points, {result.possible_faults} pairs of point and fault")
    for predicted in result.predicted:
        more = f" ({predicted.kept} in all)" if predicted.kept > len(predicted.plans) else ""
        out.print(f"\n[bold]{predicted.strategy}[/bold]: {predicted.summary}{more}")
        reasons = {plan.why for plan in predicted.plans}
        for number, plan in enumerate(predicted.plans, 1):
            why = f" ({plain(plan.why)})" if len(reasons) > 1 else ""
            out.print(f"  {number:>3}. {plain(str(plan))}{why}")
        for rule in predicted.dropped:
            out.print(f"  [dim]dropped {rule.count}: {plain(rule.policy)}[/dim]")
            for example in rule.examples if explain else ():
                instead = f"; for it stands {plain(example.instead)}" if example.instead else ""
                out.print(f"       {plain(example.sequence)}{instead}")
            if explain and (untold := rule.count - len(rule.examples)):
                out.print(f"       … and {untold:,} more")
    for reason, count in result.skipped.items():
        out.print(f"left out {count}: {plain(reason)}")


def show_stored_plans(result: StoredPlans, *, explain: bool = False) -> None:
    """What a campaign has still to run, and what it will not run, why, and what stands for it; `explain`: all were asked for."""
    out = console()
    out.print(f"campaign {plain(Path(result.folder).name)}")
    if not result.predicted:
        out.print("no strategy has proposed anything yet")
    for planned in result.predicted:
        _show_planned(out, planned)
        for rule in planned.dropped:
            _show_dropped(out, rule, explain=explain)


def _show_planned(out: Console, planned: Planned) -> None:
    out.print(f"\n[bold]{plain(planned.strategy)}[/bold]: {planned.run:,} run, {planned.open:,} still to run")
    for number, plan in enumerate(planned.plans, 1):
        out.print(f"  {number:>3}. {plain(str(plan))}")
    if (more := planned.open - len(planned.plans)) > 0:
        out.print(f"       … and {more:,} more")


def _show_dropped(out: Console, rule: DroppedBy, *, explain: bool) -> None:
    out.print(f"  [dim]dropped {rule.count:,}: {plain(rule.policy)}[/dim]")
    for one in rule.examples:
        later = "" if one.rule == rule.policy else f" ({plain(one.rule)})"
        out.print(f"       {one.id} {plain(one.sequence)}{later}")
        if one.instead:
            stands = f"{one.instead.id} {one.instead.sequence}".strip()
            out.print(f"         for it stands {plain(stands)} ({plain(one.instead.state)})")
    if more := rule.count - len(rule.examples):
        why = "" if not explain else " that were counted and not kept"
        out.print(f"       … and {more:,} more{why}")


def show_replays(results: Sequence[ReplayResult]) -> None:
    """How often each came back; for plans that are no finding's, also what the checkers said in each run."""
    out = console()
    for result in results:
        for warning in result.warnings:
            out.print(f"[yellow]different:[/yellow] {plain(warning)}")
        own = not result.finding
        _show_replayed(out, result, "" if own else f"{plain(result.finding)}: ", verdicts=own)
        for variant in result.variants:
            _show_replayed(out, variant, "variant: ", verdicts=own)
    for folder in dict.fromkeys(result.folder for result in results):
        out.print(f"runs are kept in {plain(folder)}", soft_wrap=True)


def _show_replayed(out: Console, result: ReplayResult, title: str, verdicts: bool) -> None:
    out.print(f"{title}{plain(str(result.plan))}")
    style = "bold red" if result.hits else "yellow" if not result.fired else "green"
    out.print(f"[{style}]{replay_words(result)}[/{style}]")
    if result.realism.answer:
        out.print(f"  slow device: {plain(str(result.realism))}")
    for symptom in result.symptoms:
        times = sum(run.symptom == symptom for run in result.runs if run.kind == "fault" and run.counted)
        out.print(f"  {times} × {plain(symptom)}")
    for run in result.runs:
        what = f"run {run.run}" + (" without the fault" if run.kind == "control" else "")
        if not run.counted or (verdicts and run.status != "fired"):
            out.print(f"  {what} {_STATUS_WORDS.get(run.status, run.status)}: {plain(run.reason)}")
        if verdicts or (run.kind == "control" and run.symptom):
            _show_verdicts(out, what, [v for v in run.verdicts if run.counted or v.answer == "fail"])


_STATUS_WORDS = {"fired": "does not count", "not_fired": "did not fire", "exhausted": "did not fire", "broken": "broke"}


def _show_verdicts(out: Console, what: str, verdicts: Sequence[Verdict]) -> None:
    for verdict in verdicts:
        answer = {"fail": "[red]fails[/red]", "unknown": "[yellow]cannot tell[/yellow]"}[verdict.answer]
        out.print(f"  {what}: {plain(verdict.checker)} {answer}: {plain(verdict.text)}")
        for line in verdict.evidence[-_EVIDENCE_LINES_MAX:]:
            out.print(f"      {plain(line)}")


def replay_words(result: ReplayResult) -> str:
    """`failed 5 of 5 in which the fault fired, 0 of 5 without the fault`"""
    if not result.plan.steps:
        return f"failed {result.hits} of {result.fired} without any fault"
    if result.fired:
        said = f"failed {result.hits} of {result.fired} in which the fault fired"
    else:
        said = f"the fault never fired ({_count(result.tries, 'run')})"
    if result.control_fired:
        said += f", {result.control_hits} of {result.control_fired} without the fault"
    elif result.control_tries:
        said += f"; without the fault its moment never came ({_count(result.control_tries, 'run')})"
    return said


def show_bundle(written: Written) -> None:
    out = console()
    for warning in written.warnings:
        out.print(f"[yellow]note:[/yellow] {plain(warning)}")
    out.print(f"wrote {plain(written.path)}: {_count(len(written.files), 'file')}, {written.bytes / 1024:.0f} KiB")
    out.print(f"on another machine: undermine replay {plain(Path(written.path).name)}")


def show_known(entries: Sequence[Known], today: datetime.date) -> None:
    out = console()
    if not entries:
        out.print("nothing is suppressed")
    for entry in entries:
        over = "" if entry.holds(today) else " [yellow](over: it is reported again)[/yellow]"
        fault = f" (only with {entry.fault})" if entry.fault else ""
        out.print(f"[bold]{entry.id}[/bold] {plain(entry.symptom)}{fault}")
        out.print(f"       {plain(entry.words)}{over}")


def show_logs(files: Sequence[Path]) -> None:
    out = console()
    for path in files:
        out.rule(path.name, align="left")
        out.print(plain(path.read_text(errors="replace")), soft_wrap=True)
