"""The commands `undermine replay` and `undermine bundle`, and what they show."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from undermine import api
from undermine.cli.console import console, plain
from undermine.cli.options import (
    HERE,
    CampaignOption,
    ConfigOption,
    JsonOption,
    SetOption,
    listening,
    load_config,
    overrides,
    print_json,
)
from undermine.exchange import unpacking
from undermine.exchange.bundle import Written
from undermine.model.errors import UserError
from undermine.model.run import Verdict
from undermine.report.finding_lines import EVIDENCE_LINES_MAX
from undermine.report.text import count

NOT_FIRED = 4
"""The exit code of a replay in which the fault never fired."""


def replay(
    what: Annotated[str, typer.Argument(help="The id of a finding, like F1, or a bundle, or a JSON file with plans.")],
    times: Annotated[
        int | None,
        typer.Option(
            "--times",
            "-n",
            min=1,
            max=1000,
            help="Number of runs; by default 5, or 1 for a plan file.",
            show_default=False,
        ),
    ] = None,
    no_control: Annotated[
        bool, typer.Option("--no-control", help="Skip the control runs, which are the same without the fault.")
    ] = False,
    variants: Annotated[
        bool, typer.Option("--variants", help="Also run the other plans that led to the finding.")
    ] = False,
    smallest: Annotated[
        bool, typer.Option("--smallest", help="Run the smallest plan of the finding instead of its first one.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option("--dir", help="Folder to unpack a bundle to; by default BUNDLE.d.", show_default=False),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            "-c",
            help="The configuration file, or its folder; by default undermine.toml, or that of the bundle.",
            metavar="PATH",
            show_default=False,
        ),
    ] = None,
    campaign: CampaignOption = "",
    params: SetOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Run the code in a bundle without asking.")] = False,
    json: JsonOption = False,
) -> int:
    """Re-run a finding with and without its fault, and print how often it fails.

    Exits with 1 if the failure came back, and with 4 if the fault never fired. A replay of a bundle runs the commands and the
    plug-in file that are in it, so replay only bundles from people you trust. It asks first; scripts use `--yes`.

    Examples:

    - `undermine replay F1 -n 10`
    - `undermine replay F1 --smallest`
    - `undermine replay F1.undermine`
    - `undermine replay plan.json`
    """
    options = {"control": not no_control, "variants": variants}
    path = Path(what)
    by_id = _is_finding(what)
    bundled = not by_id and unpacking.is_bundle(path)
    _check_options(by_id, bundled, folder=folder, config=config, campaign=campaign, variants=variants)
    if smallest and (variants or not by_id):
        raise UserError("--smallest is only for a finding like F1, without --variants; remove one of them")
    if bundled and config is None:
        _ask_to_run(path, yes=yes)
    with listening(json, title=f"replay {what}") as listener:
        if by_id:
            loaded = load_config(config or HERE, params)
            results = [api.replay(loaded, what, times or 5, campaign, listener, smallest=smallest, **options)]
        elif bundled:
            given = load_config(config, params) if config else None
            own = overrides(params) if config is None else {}
            results = [api.replay_bundle(path, given, times or 5, listener, folder=folder, params=own, **options)]
        else:
            plans = api.read_plans(path)
            loaded = load_config(config or HERE, params)
            results = list(api.replay_plans(loaded, plans, times or 1, campaign, listener, control=not no_control))
    if json:
        print_json(results[0] if by_id or bundled else results)
    else:
        show_replays(results)
    return _exit_code(results)


def _ask_to_run(path: Path, *, yes: bool) -> None:
    """Let the user decide before anything of a bundle runs. Nothing was unpacked yet."""
    manifest = unpacking.read_manifest(path)
    if yes:
        return
    user = "root" if os.geteuid() == 0 else "you"
    runs = f"{path} brings a plug-in file and commands, which would run as {user}"
    if not sys.stdin.isatty():
        instead = "replay it as an unprivileged user, or " if user == "root" else ""
        raise UserError(f"{runs}; if you trust them, add --yes, else {instead}use -c with a project of your own")
    out = Console(stderr=True, soft_wrap=True, highlight=False)
    out.print(f"{plain(runs)}:")
    for command in manifest.commands.values():
        out.print(f"  {plain(shlex.join(command))}")
    if not typer.confirm("Run them?", err=True):
        raise UserError("nothing was unpacked or run")


def _check_options(
    by_id: bool, bundled: bool, *, folder: Path | None, config: Path | None, campaign: str, variants: bool
) -> None:
    """Refuse options that do not fit: a finding by its id, a bundle, or else a plan file."""
    if folder and (not bundled or config):
        raise UserError("--dir is only for a bundle that brings its own configuration; remove --dir")
    if campaign and bundled:
        raise UserError("--campaign is only for findings and plan files, not for bundles; remove --campaign")
    if variants and not by_id and not bundled:
        raise UserError("--variants is only for findings and bundles, not for plan files; remove --variants")


def _exit_code(results: Sequence[api.ReplayResult]) -> int:
    if any(result.came_back for result in results):
        return 1
    return 0 if all(result.fired for result in results) else NOT_FIRED


def _is_finding(what: str) -> bool:
    """True if this is the id of a finding, not a file."""
    if re.fullmatch("[Ff][0-9]+", what):
        return True
    if Path(what).is_file():
        return False
    if re.search("[./]", what):
        raise UserError(f"there is no file {what}; give a bundle, a plan file, or a finding like F1")
    return True


def show_replays(results: Sequence[api.ReplayResult]) -> None:
    """Print how often each plan failed; for plans of a file also the verdicts of each run."""
    out = console()
    for result in results:
        for warning in result.warnings:
            out.print(f"[yellow]difference:[/yellow] {plain(warning)}")
        own = not result.finding
        _show_replayed(out, result, "" if own else f"{plain(result.finding)}: ", verdicts=own)
        for variant in result.variants:
            _show_replayed(out, variant, "variant: ", verdicts=own)
    for folder in dict.fromkeys(result.folder for result in results):
        out.print(f"the runs are in {plain(folder)}", soft_wrap=True)


def _show_replayed(out: Console, result: api.ReplayResult, title: str, verdicts: bool) -> None:
    out.print(f"{title}{plain(str(result.plan))}")
    style = "bold red" if result.hits else "yellow" if not result.fired else "green"
    out.print(f"[{style}]{replay_words(result)}[/{style}]")
    if result.realism.answer:
        out.print(f"  slow device: {plain(str(result.realism))}")
    for symptom in result.symptoms:
        times = sum(symptom in run.symptoms for run in result.runs if run.kind == "fault" and run.counted)
        out.print(f"  {times} × {plain(symptom)}")
    for run in result.runs:
        without = " without the last fault" if result.last_control else " without the fault"
        what = f"run {run.run}" + (without if run.kind == "control" else "")
        if not run.counted or (verdicts and run.status != "fired"):
            out.print(f"  {what} {_STATUS_WORDS.get(run.status, run.status)}: {plain(run.reason)}")
        if verdicts or (run.kind == "control" and run.symptom):
            _show_verdicts(out, what, [v for v in run.verdicts if run.counted or v.answer == "fail"])


_STATUS_WORDS = {
    "fired": "does not count",
    "not_fired": "did not fire",
    "exhausted": "did not fire",
    "broken": "broke",
}


def _show_verdicts(out: Console, what: str, verdicts: Sequence[Verdict]) -> None:
    for verdict in verdicts:
        answer = {"fail": "[red]fails[/red]", "unknown": "[yellow]is undecided[/yellow]"}[verdict.answer]
        out.print(f"  {what}: {plain(verdict.checker)} {answer}: {plain(verdict.text)}")
        for line in verdict.evidence[-EVIDENCE_LINES_MAX:]:
            out.print(f"      {plain(line)}")


def replay_words(result: api.ReplayResult) -> str:
    """`failed in 5 of 5 runs with the fault, in 0 of 5 without it`"""
    if not result.plan.steps:
        return f"failed in {result.hits} of {count(result.fired, 'run')} without a fault"
    if result.fired:
        said = f"failed in {result.hits} of {count(result.fired, 'run')} with the fault"
    else:
        said = f"the fault never fired in {count(result.tries, 'run')}"
    if result.control_fired:
        without = "without the last one" if result.last_control else "without it"
        said += f", in {result.control_hits} of {result.control_fired} {without}"
    elif result.control_tries:
        said += f"; {count(result.control_tries, 'control run')} never reached the moment of the fault"
    return said


# --- bundle


def bundle(
    finding: Annotated[str, typer.Argument(help="The id of the finding, like F1.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The file to write; by default F1.undermine.", show_default=False),
    ] = None,
    include: Annotated[
        list[str] | None,
        typer.Option(
            "--include", help="More files of the project to add, besides `campaign.files`. Repeatable.", metavar="GLOB"
        ),
    ] = None,
    config: ConfigOption = HERE,
    campaign: CampaignOption = "",
    json: JsonOption = False,
) -> int:
    """Write a finding to one file, so that it can be replayed on another machine.

    The file holds the plan, your configuration, your plug-in file and logs. Check it for secrets before you share it.

    Examples:

    - `undermine bundle F1`
    - `undermine bundle F1 -o lost-write.undermine --include 'myapp/**/*.py'`
    """
    written = api.bundle(load_config(config, programs=False), finding, output, include or (), campaign)
    if json:
        print_json(written)
    else:
        show_bundle(written)
    return 0


def show_bundle(written: Written) -> None:
    out = console()
    for warning in written.warnings:
        out.print(f"[yellow]note:[/yellow] {plain(warning)}")
    out.print(f"wrote {plain(written.path)}: {count(len(written.files), 'file')}, {written.bytes / 1024:.0f} KiB")
    out.print(f"to replay it on another machine: undermine replay {plain(Path(written.path).name)}")
