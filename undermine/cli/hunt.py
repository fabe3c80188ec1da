"""The commands `undermine hunt` and `undermine demo`, and what they show."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from undermine import api
from undermine.cli.console import console, plain
from undermine.cli.coverage import coverage_words, show_coverage, show_strategies
from undermine.cli.findings import judged, show_findings
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

DEMO_JOBS = 2
"""The example spends most of its time waiting for its own timers, so two runs fit on the smallest machine."""


def hunt(
    config: ConfigOption = HERE,
    strategy: StrategyOption = None,
    budget: Annotated[str, typer.Option(help="How long to hunt in this session, like 10m.", show_default=False)] = "",
    max_runs: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Stop after so many runs of strategies; fault-free and confirming runs come on top.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of workload and strategies.", show_default=False)
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, max=64, help="Runs side by side.", show_default=False)] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the latest campaign.")] = False,
    accept_changes: Annotated[
        bool, typer.Option("--accept-changes", help="Resume although something changed.")
    ] = False,
    params: SetOption = None,
    json: JsonOption = False,
) -> int:
    """The loop, under a budget: trace, predict, inject, check. Exits with 1 if bugs were found.

    Strategies take turns by time; each is sure of one round. What fails is re-run at once to confirm it, also when that
    takes longer than the budget. Interrupt it at any moment; `--resume` goes on.

    Examples: `undermine hunt --budget 10m`, `undermine hunt -s random --max-runs 50 --seed 7`, `undermine hunt --resume`
    """
    loaded = load_config(config, params)
    budget_s = seconds_of("--budget", budget, "10m") if budget else loaded.hunt.budget
    with _findings_so_far(loaded, config, json), listening(json, title="hunt", budget_s=budget_s) as listener:
        result = api.hunt(
            loaded,
            strategies=strategy or (),
            budget_s=budget_s,
            runs_max=max_runs,
            seed=seed,
            jobs=jobs,
            resume=resume,
            accept_changes=accept_changes,
            listener=listener,
        )
    return _hunt_result(result, json, config)


def demo(
    budget: Annotated[str, typer.Option(help="How long to hunt.")] = "90s",
    seed: Annotated[int, typer.Option(min=0, help="Seed of workload and strategies.")] = 0,
    folder: Annotated[Path, typer.Option("--dir", help="Where the example and the results go.")] = Path(
        "undermine-demo"
    ),
    json: JsonOption = False,
) -> int:
    """Hunt in the embedded example cluster for a minute and a half: no configuration, no root. Exits with 0 when it did its job.

    Example: `undermine demo`
    """
    loaded = load_config(api.demo_config(folder))
    budget_s = seconds_of("--budget", budget, "10m")
    with listening(json, title="demo", budget_s=budget_s) as listener:
        result = api.hunt(loaded, budget_s=budget_s, seed=seed, jobs=DEMO_JOBS, listener=listener)
    _hunt_result(result, json, folder)
    return 0


@contextlib.contextmanager
def _findings_so_far(loaded: Config, config: Path, json: bool) -> Iterator[None]:
    """Show what was found when the user interrupts."""
    try:
        yield
    except (KeyboardInterrupt, Interrupted):
        with contextlib.suppress(UserError), api.open_store(api.campaign_dir(loaded)) as store:
            if not json:
                if store.findings():
                    show_findings(store.findings(), later_options(config))
                show_coverage(api.coverage_of(store).reached)
        raise


def _hunt_result(result: api.HuntResult, json: bool, config: Path) -> int:
    page = write_report(Path(result.folder))
    if json:
        print_json({**msgspec.to_builtins(result), "findings": judged(result.findings), "report": str(page)})
    else:
        show_hunt(result, page, later_options(config))
    return 1 if result.believed else 0


def show_hunt(result: api.HuntResult, page: Path, options: str = "") -> None:
    out = console()
    show_findings(result.findings, options, result.remarks, result.new_logs)
    statuses = ", ".join(f"{n} {status}" for status, n in sorted(result.statuses.items()))
    out.print(
        f"\n{sum(result.statuses.values())} runs in this campaign ({statuses}), this session took {result.duration_s:.0f} s; "
        f"{coverage_words(result.coverage)}"
    )
    show_strategies(out, result.coverage)
    out.print(f"report: {plain(str(page))}", soft_wrap=True)
