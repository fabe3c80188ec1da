"""`undermine trace`: analyses, summarises and draws a fault-free run in which agents record everything, or a stored run.

The story of `trace`:

1. Make a fault-free run. Agents observe all families of operations, in the workload's clients too.
2. Read its events as columns and analyse them: pairs, contexts, causes, locks and time limits, stores, messages.
3. Summarise them and write four files to the run's folder or to `out`: `trace.html`, `trace.perfetto.json`, `trace.shiviz.log`,
   `trace.history.edn`. If the run shows variables of nodes, write `trace.decls` and `trace.dtrace` too.

The checkers judge the fault-free run, as in a hunt. A failed run is drawn too, since its trace shows why it failed.

`trace_stored` does steps 2 and 3 for a stored run of a campaign, with its fault. Never prints.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from undermine import plugins
from undermine.analysis.agreement.daikon import daikon_files
from undermine.analysis.agreement.samples import samples_of
from undermine.analysis.pipeline import analyse
from undermine.analysis.trace_analysis import TraceAnalysis
from undermine.analysis.trace_summary import Summary, summary
from undermine.api.opening import build_agents
from undermine.api.trace_warnings import warnings
from undermine.campaign.running import Listener, Notice
from undermine.checkers.compose import check_all, symptom_of
from undermine.config.schema import Config
from undermine.deployments.sweep import sweep
from undermine.exchange import jepsen
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
HISTORY = "trace.history.edn"
DECLS, DTRACE = "trace.decls", "trace.dtrace"

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
    """The symptom that a fault-free run failed with; empty if it passed, and for stored runs, which were already judged."""
    daikon: tuple[str, ...] = ()
    """The declarations and the data trace for Daikon; empty if the run shows no variables of nodes."""
    history: str = ""
    """The client operations, in the form of Jepsen."""


class Recorded(msgspec.Struct, frozen=True):
    """The folder of a finished run, and its verdicts if it was judged here."""

    folder: Path
    verdicts: tuple[Verdict, ...] = ()

    @property
    def symptom(self) -> str:
        """The symptom that it failed with; a symptom without details has nothing after the colon."""
        return symptom_of(self.verdicts).rstrip(": ")


def trace(config: Config, listener: Listener, out: Path | None = None) -> TraceResult:
    """Record, judge and draw a fault-free run; if it fails, the result has its symptom."""
    if out:
        _folder(out)  # raises before a process is started
    recorded = record(config, listener, plugins.checkers)
    name = config.campaign.name or Path(config.path).resolve().parent.name
    words = f"{name}: a run without faults{', which failed' if recorded.symptom else ''}"
    return draw(config, recorded, words, listener, out)


def trace_stored(
    config: Config, what: str, listener: Listener, out: Path | None = None, campaign: str = ""
) -> TraceResult:
    """Draw a stored run of a campaign: by its number, or by the id of a finding, for the run that shows it best."""
    folder, words = stored_run(config, what, campaign)
    return draw(config, Recorded(folder), words, listener, out)


def stored_run(config: Config, what: str, campaign: str = "") -> tuple[Path, str]:
    """The folder of a stored run, and its description."""
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
    """Run the workload once without a fault, with everything observed, and judge the run if there are checkers."""
    build_agents(config, listener)
    sweep(config.dir)
    home = config.dir / TRACES
    plan = Plan(seed=config.hunt.seed, strategy=STRATEGY, why="shows what causes what in a correct run")
    with open_store(home, exclusive=True, fresh=True), open_engine(config, home) as engine:
        folder = home / "runs" / "000001"
        data: dict[str, Any] = {"run": 1, "strategy": STRATEGY}
        listener(Notice("run", "without faults, everything observed", data))
        judges = checkers(config, engine.declared["checkers"]) if checkers else ()
        view = engine.runner.execute(folder, 1, plan, None, Conditions(observe_all=True))
        verdicts = check_all(view, judges, lambda: engine.user_checks(folder)) if checkers else ()
        tidy(folder, keep_data=False)
        record = view.record
        if record.status == "broken":
            raise ClusterError(f"the cluster fails without any fault: {record.reason}")
        recorded = Recorded(folder, verdicts)
        data |= {"status": record.status, "symptom": recorded.symptom}
        listener(Notice("done", "without faults, everything observed", data))
    return recorded


# --- drawing


def draw(config: Config, run: Recorded, words: str, listener: Listener, out: Path | None = None) -> TraceResult:
    """Analyse the run in a folder and write its files."""
    folder = run.folder
    target = _folder(out or folder)
    view = load_view(RunDir(folder))
    columns = read_columns(RunDir(folder).trace)
    listener(Notice("building", f"analysing {count(len(columns), 'event')}"))
    traced = analyse(columns)
    summarised = summary(traced)
    origin_ns = origin_of(view.record, view.history) or (int(columns.t[0]) if len(columns) else 0)
    listener(Notice("building", f"drawing {count(len(columns), 'event')}"))
    warned = warnings(view, columns, summarised, plugins.builtin_checkers(config), run.verdicts)
    html = write_file(target / HTML, lambda stream: stream.write(page(view, traced, summarised, words, warned)), "--out")
    timeline = write_file(target / PERFETTO, lambda stream: perfetto.write(stream, view, traced, origin_ns), "--out")
    written: list[int] = []
    log = write_file(
        target / SHIVIZ, lambda stream: written.append(shiviz.write(stream, view, traced, origin_ns)[0]), "--out"
    )
    files = str(html), str(timeline), str(log)
    daikon = _write_daikon(target, traced, config)
    history = write_file(target / HISTORY, lambda stream: jepsen.write(stream, view), "--out")
    return TraceResult(words, str(folder), summarised, *files, sum(written), warned, run.symptom, daikon, str(history))


def _write_daikon(target: Path, traced: TraceAnalysis, config: Config) -> tuple[str, ...]:
    """Write the values of variables at messages for Daikon, if there are any; return the paths."""
    samples = samples_of(traced.columns, config.metadata)
    if not samples.variables:
        return ()
    files = daikon_files([(traced, samples)])
    decls = write_file(target / DECLS, lambda stream: stream.write(files.decls), "--out")
    dtrace = write_file(target / DTRACE, lambda stream: stream.write(files.dtrace), "--out")
    return str(decls), str(dtrace)


def _folder(path: Path) -> Path:
    """Create the folder if it does not exist; return it."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"the folder {path} cannot be created ({error.strerror}); choose another one with --out"
        ) from error
    return path
