"""`undermine trace`: one run without faults in which agents record everything, or a stored run; analysed, summed up, drawn.

The story of `trace`:

1. A fault-free run, with all families of operations observed and with agents in the workload's clients too.
2. Its events as columns, and what they say: pairs, contexts, causes, locks and time limits, stores, messages.
3. A summary, and three files in the run's folder or where the user says: `trace.html`, `trace.perfetto.json`, `trace.shiviz.log`.

A fault-free run is judged by the checkers, as in a hunt. One that failed is drawn all the same: its trace shows why.

`trace_stored` does 2 and 3 for a run that a campaign has kept, with its fault.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from undermine import plugins
from undermine.analysis.pipeline import analyse
from undermine.analysis.trace_summary import Summary, summary
from undermine.api.opening import build_agents
from undermine.api.trace_warnings import warnings
from undermine.campaign.running import Listener, Notice
from undermine.checkers.compose import check_all, symptom_of
from undermine.config.schema import Config
from undermine.deployments.sweep import sweep
from undermine.model.codec import read_columns
from undermine.model.errors import ClusterError, UserError
from undermine.model.plan import Plan
from undermine.model.run import Conditions, Verdict
from undermine.protocols import Checker
from undermine.report import perfetto, shiviz
from undermine.report.drawing.scene import origin_of
from undermine.report.html import write_file
from undermine.report.text import count
from undermine.report.trace_page import page
from undermine.run.engine import open_engine
from undermine.store.campaign_dirs import TRACES, campaign_dir, find_finding, open_store
from undermine.store.rundir import RunDir, load_view, tidy

STRATEGY = "trace"
HTML, PERFETTO, SHIVIZ = "trace.html", "trace.perfetto.json", "trace.shiviz.log"

Checkers = Callable[[Config, Sequence[str]], Sequence[Checker]]
"""Creates the checkers of a configuration, given the names of the user's own."""


class TraceResult(msgspec.Struct, frozen=True):
    """The summary of a traced run, and its files."""

    run: str
    """The run, in words."""
    folder: str
    summary: Summary
    html: str
    perfetto: str
    shiviz: str
    shiviz_events: int
    warnings: tuple[str, ...] = ()
    symptom: str = ""
    """The symptom that a fault-free run failed with; empty if it passed, and for stored runs, which are judged already."""


class Recorded(msgspec.Struct, frozen=True):
    """A fault-free run that is over, and its verdicts."""

    folder: Path
    verdicts: tuple[Verdict, ...] = ()

    @property
    def symptom(self) -> str:
        """The symptom that it failed with; a symptom without details has nothing after the colon."""
        return symptom_of(self.verdicts).rstrip(": ")


def trace(config: Config, listener: Listener, out: Path | None = None) -> TraceResult:
    """Record a fault-free run, judge it and draw it; one that failed has a symptom, and is drawn all the same."""
    if out:
        _folder(out)  # before anything is started for it
    recorded = record(config, listener, plugins.checkers)
    name = config.campaign.name or Path(config.path).resolve().parent.name
    words = f"{name}: a run without faults{', which failed' if recorded.symptom else ''}"
    return draw(config, recorded, words, listener, out)


def trace_stored(
    config: Config, what: str, listener: Listener, out: Path | None = None, campaign: str = ""
) -> TraceResult:
    """Draw a run of a campaign: by its number, or the one that shows a finding best."""
    folder, words = stored_run(config, what, campaign)
    return draw(config, Recorded(folder), words, listener, out)


def stored_run(config: Config, what: str, campaign: str = "") -> tuple[Path, str]:
    """The folder of a stored run, and which one it is in words."""
    home = campaign_dir(config, campaign)
    with open_store(home) as store:
        if what.isascii() and what.isdigit():
            run, words = int(what), f"run {int(what)}"
        else:
            found = find_finding(store, what)
            run = found.shown_by or found.runs[0]
            words = f"run {run}, which shows {found.id}"
    folder = home / "runs" / f"{run:06d}"
    if not RunDir(folder).trace.is_dir():
        raise UserError(f"run {run} has no trace in {home}; `undermine report` lists the runs")
    return folder, f"{words} of campaign {home.name}"


# --- recording


def record(config: Config, listener: Listener, checkers: Checkers | None = None) -> Recorded:
    """Run the workload once without a fault, with everything observed, and judge it if there is somebody to do so."""
    build_agents(config, listener)
    sweep(config.dir)
    home = config.dir / TRACES
    plan = Plan(seed=config.hunt.seed, strategy=STRATEGY, why="what causes what in a correct run")
    with open_store(home, exclusive=True, fresh=True), open_engine(config, home) as engine:
        folder = home / "runs" / "000001"
        told: dict[str, Any] = {"run": 1, "strategy": STRATEGY}
        listener(Notice("run", "without faults, everything observed", told))
        judges = checkers(config, engine.userland.declared["checkers"]) if checkers else ()
        view = engine.runner.execute(folder, 1, plan, None, Conditions(observe_all=True))
        verdicts = check_all(view, judges, lambda: engine.user_checks(folder)) if checkers else ()
        tidy(folder, keep_data=False)
        record = view.record
        if record.status == "broken":
            raise ClusterError(f"the cluster fails without any fault: {record.reason}")
        recorded = Recorded(folder, verdicts)
        told |= {"status": record.status, "symptom": recorded.symptom}
        listener(Notice("done", "without faults, everything observed", told))
    return recorded


# --- drawing


def draw(config: Config, run: Recorded, words: str, listener: Listener, out: Path | None = None) -> TraceResult:
    """Analyse the run in a folder and write the three files."""
    folder = run.folder
    target = _folder(out or folder)
    view = load_view(RunDir(folder))
    columns = read_columns(RunDir(folder).trace)
    listener(Notice("building", f"analysing {count(len(columns), 'event')}"))
    traced = analyse(columns)
    told = summary(traced)
    origin_ns = origin_of(view.record, view.history) or (int(columns.t[0]) if len(columns) else 0)
    listener(Notice("building", f"drawing {count(len(columns), 'event')}"))
    said = warnings(view, columns, told, run.verdicts, config.checkers.disable)
    html = write_file(target / HTML, lambda stream: stream.write(page(view, traced, told, words, said)), "--out")
    fuller = write_file(target / PERFETTO, lambda stream: perfetto.write(stream, view, traced, origin_ns), "--out")
    written: list[int] = []
    log = write_file(
        target / SHIVIZ, lambda stream: written.append(shiviz.write(stream, view, traced, origin_ns)[0]), "--out"
    )
    files = str(html), str(fuller), str(log)
    return TraceResult(words, str(folder), told, *files, sum(written), said, run.symptom)


def _folder(path: Path) -> Path:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"the folder {path} cannot be made ({error.strerror}); choose another one with --out"
        ) from error
    return path
