"""The commands `undermine hunt` and `undermine demo`, and what they show."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from undermine import api
from undermine.campaign.running import Listener, Notice
from undermine.cli.ci.outputs import (
    BaselineOption,
    FailUnderOption,
    GithubOption,
    JunitOption,
    SarifOption,
    exit_code,
    github_wanted,
    quiet_for,
    refuse_places,
    write_outputs,
)
from undermine.cli.console import console, plain
from undermine.cli.coverage import coverage_words, show_coverage, show_strategies
from undermine.cli.findings import judged, show_findings, show_notes
from undermine.cli.options import (
    HERE,
    ConfigOption,
    JsonOption,
    SetOption,
    StrategyOption,
    later_options,
    listening,
    load_config,
    print_json,
    seconds_of,
)
from undermine.config.schema import Config
from undermine.model.errors import Interrupted, UserError
from undermine.report.html import write_report
from undermine.report.text import count
from undermine.web.serving import serving


class Engines(StrEnum):
    """The engines that run plans."""

    LOCAL = "local"
    DASK = "dask"


DEMO_JOBS = 2
DEMO_SHRINK_S = 20.0
"""For the smallest plan and the window of the first finding: nobody waits long for a demonstration."""
"""Runs at a time. The example mostly waits for its own timers, so two runs fit on a small machine."""


def hunt(
    config: ConfigOption = HERE,
    strategy: StrategyOption = None,
    budget: Annotated[
        str,
        typer.Option(
            help="How long to hunt, like `90s`, `10m` or `1h30m`; by default `hunt.budget`.", show_default=False
        ),
    ] = "",
    max_runs: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Stop after this number of strategy runs; fault-free and confirmation runs are extra.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the workload and the strategies.", show_default=False)
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, max=64, help="Number of runs at a time; with `--engine dask`, of each worker.", show_default=False),
    ] = None,
    engine: Annotated[
        Engines, typer.Option(help="Where to run: on this machine, or on the workers of a Dask cluster.")
    ] = Engines.LOCAL,
    scheduler: Annotated[
        str,
        typer.Option(
            help="With `--engine dask`: the address of the scheduler, or its scheduler file.",
            metavar="ADDRESS",
            show_default=False,
        ),
    ] = "",
    resume: Annotated[bool, typer.Option("--resume", help="Continue the latest campaign.")] = False,
    accept_changes: Annotated[
        bool,
        typer.Option(
            "--accept-changes", help="With `--resume`: continue although the configuration or the tool changed."
        ),
    ] = False,
    changed_since: Annotated[
        str,
        typer.Option(
            "--changed-since",
            help="Try faults in functions first that changed since this git commit or branch.",
            metavar="REF",
            show_default=False,
        ),
    ] = "",
    baseline: BaselineOption = None,
    fail_under: FailUnderOption = None,
    junit: JunitOption = None,
    sarif: SarifOption = None,
    github: GithubOption = None,
    web: Annotated[
        bool, typer.Option("--web", help="Also serve the report on loopback while the hunt runs, and print its address.")
    ] = False,
    params: SetOption = None,
    json: JsonOption = False,
) -> int:
    """Hunt for bugs: inject faults, check every run and confirm what fails. Exits with 1 if it found bugs.

    Strategies take turns until the budget is used up; each gets at least one run. A failure is re-run to confirm it. While plans
    wait, re-runs use at most a third of the budget (`hunt.confirm_share`); the rest is made at the end, even if that exceeds the
    budget. You can interrupt a hunt at any time and continue it with `--resume`.

    Examples:

    - `undermine hunt --budget 10m`
    - `undermine hunt -s random --max-runs 50 --seed 7`
    - `undermine hunt --resume`
    - `undermine hunt --budget 10m --changed-since origin/main`
    - `undermine hunt --budget 1h --web`
    - `undermine hunt --engine dask --scheduler tcp://lab1:8786`
    - `undermine hunt --baseline known.toml --junit junit.xml --sarif undermine.sarif --fail-under 50`
    """
    loaded = load_config(config, params)
    budget_s = seconds_of("--budget", budget, "10m") if budget else loaded.hunt.budget
    refuse_places(junit, sarif)
    _refuse_engine(engine, scheduler)
    github_too = github_wanted(github)
    with quiet_for(github_too, json):
        with (
            _findings_so_far(loaded, config, json),
            listening(json, title="hunt", budget_s=budget_s) as shown,
            _live_page(shown, budget_s, json) if web else contextlib.nullcontext(shown) as listener,
        ):
            result = api.hunt(
                loaded,
                strategies=strategy or (),
                budget_s=budget_s,
                runs_max=max_runs,
                seed=seed,
                jobs=jobs,
                scheduler=scheduler,
                resume=resume,
                accept_changes=accept_changes,
                baseline=baseline,
                changed_since=changed_since,
                listener=listener,
            )
        _show_result(result, json, config)
    if junit or sarif or github_too:
        campaign = Path(result.folder).name
        results = api.results(loaded, campaign, baseline, later_options(config, campaign))
        write_outputs(results, junit, sarif, github_too, json)
    return exit_code(bool(result.believed), result.coverage, fail_under)


def _refuse_engine(engine: Engines, scheduler: str) -> None:
    if engine is Engines.DASK and not scheduler:
        raise UserError("`--engine dask` needs the address of the scheduler: add --scheduler tcp://HOST:8786")
    if engine is Engines.LOCAL and scheduler:
        raise UserError("`--scheduler` is for another engine: add --engine dask, or leave it out")


def demo(
    budget: Annotated[str, typer.Option(help="How long to hunt, like `90s` or `10m`.", metavar="TIME")] = "90s",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the workload and the strategies.")] = 0,
    folder: Annotated[Path, typer.Option("--dir", help="Folder for the example and the results.")] = Path(
        "undermine-demo"
    ),
    json: JsonOption = False,
) -> int:
    """Hunt in the embedded example cluster. Needs no configuration and no root.

    It takes about two minutes. It exits with 0, also if it finds bugs.

    Example:

    - `undermine demo`
    """
    loaded = load_config(api.demo_config(folder))
    loaded = msgspec.structs.replace(loaded, hunt=msgspec.structs.replace(loaded.hunt, shrink_s=DEMO_SHRINK_S))
    budget_s = seconds_of("--budget", budget, "10m")
    with listening(json, title="demo", budget_s=budget_s) as listener:
        result = api.hunt(loaded, budget_s=budget_s, seed=seed, jobs=DEMO_JOBS, listener=listener)
    _show_result(result, json, folder)
    return 0


@contextlib.contextmanager
def _live_page(shown: Listener, budget_s: float, json: bool) -> Iterator[Listener]:
    """A listener that also serves the page of the campaign, from its beginning until the hunt ends."""
    with contextlib.ExitStack() as pages:

        def listen(news: Notice) -> None:
            shown(news)
            if news.kind != "campaign":
                return
            try:
                address = pages.enter_context(serving(Path(news.data["folder"]), budget_s))
            except OSError as error:
                shown(Notice("warning", f"the live report cannot be served: {error.strerror}"))
                return
            shown(Notice("page", f"live report: {address}", {"address": address}))
            if json:
                typer.echo(f"live report: {address}", err=True)

        yield listen


@contextlib.contextmanager
def _findings_so_far(loaded: Config, config: Path, json: bool) -> Iterator[None]:
    """If the user interrupts, show the findings so far."""
    try:
        yield
    except (KeyboardInterrupt, Interrupted):
        with contextlib.suppress(UserError), api.open_store(api.campaign_dir(loaded)) as store:
            if not json:
                if found := store.findings():
                    show_findings(found, later_options(config), explanations=api.explanations(store, found))
                show_coverage(api.coverage_of(store).reached)
        raise


def _show_result(result: api.HuntResult, json: bool, config: Path) -> None:
    page = write_report(Path(result.folder))
    if json:
        print_json({**msgspec.to_builtins(result), "findings": judged(result.findings), "report": str(page)})
    else:
        show_hunt(result, page, later_options(config))


def show_hunt(result: api.HuntResult, page: Path, options: str = "") -> None:
    """Print the findings, the number of runs, coverage and the path of the report."""
    out = console()
    show_findings(
        result.findings, options, result.remarks, result.new_logs, result.partition_ends, result.explanations
    )
    show_notes(result.notes)
    statuses = ", ".join(f"{n} {status.replace('_', ' ')}" for status, n in sorted(result.statuses.items()))
    runs = count(sum(result.statuses.values()), "run")
    out.print(f"\n{runs} in this campaign ({statuses}); this session took {result.duration_s:.0f} s")
    out.print(coverage_words(result.coverage))
    show_strategies(out, result.coverage, result.covered)
    out.print(f"report: {plain(str(page))}", soft_wrap=True)
