"""The command line: reads arguments, shows progress, turns results into text or JSON and exit codes.

Exit codes: 0 nothing found, 1 findings, 2 the user's mistake, 3 the cluster fails without any fault, 4 the fault of a replay
never fired, 130 interrupted, 70 a defect of ours.
Everything it does is in `api.py`.
"""

from __future__ import annotations

import contextlib
import errno
import re
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console

import undermine
from undermine import api
from undermine.campaign.experiments import Listener
from undermine.cli import display, init
from undermine.cli import trace as trace_cli
from undermine.config.load import load
from undermine.config.schema import FILE_NAME, Config, parse_duration
from undermine.exchange import unpacking
from undermine.model.errors import Interrupted, UserError
from undermine.model.finding import Finding
from undermine.report.html import write_report

app = typer.Typer(
    name="undermine",
    help="Find fault-handling bugs in distributed systems: watch correct runs, inject faults where they hurt, check.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)

ConfigOption = Annotated[
    Path, typer.Option("--config", "-c", help="The undermine.toml, or its folder.", metavar="PATH")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document for machines.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="Override a value of [params].", metavar="NAME=VALUE", show_default=False),
]
CampaignOption = Annotated[
    str, typer.Option("--campaign", help="Name of a campaign; the latest one by default.", show_default=False)
]
StrategyOption = Annotated[
    list[str] | None,
    typer.Option("--strategy", "-s", help="Only this strategy (may be given several times).", show_default=False),
]
HERE = Path(FILE_NAME)
NOT_FIRED = 4
"""The exit code of a replay that says nothing."""
DEMO_JOBS = 2
"""The example spends most of its time waiting for its own timers, so two runs fit on the smallest machine."""


def main() -> None:
    """Run a command; every way it can end has its exit code."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    errors = Console(stderr=True, soft_wrap=True, highlight=False)
    try:
        code = app(standalone_mode=False)
    except UserError as error:
        errors.print(f"[red]error:[/red] {display.plain(str(error))}")
        code = error.exit_code
    except (KeyboardInterrupt, Interrupted):
        errors.print(f"[yellow]interrupted[/yellow]{_resumed()}")
        code = Interrupted.exit_code
    except PermissionError as error:
        errors.print(f"[red]error:[/red] {display.plain(str(error))}; run it where you may write, or set campaign.dir")
        code = UserError.exit_code
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            said = f"the disk is full; free some space: nothing stored is lost{_resumed()}"
        elif hasattr(error, "format_message"):
            # click's own complaints about arguments (click may be part of typer, so it is asked by shape)
            said = error.format_message()
        else:
            sys.exit(_defect(errors))
        errors.print(f"[red]error:[/red] {display.plain(said)}")
        code = UserError.exit_code
    sys.exit(code if isinstance(code, int) else 0)


def _resumed() -> str:
    return "; the hunt goes on where it stopped with `undermine hunt --resume`" if sys.argv[1:2] == ["hunt"] else ""


def _defect(errors: Console) -> int:
    """A crash of ours must not look like "findings" (1) to a pipeline."""
    errors.print(traceback.format_exc(), markup=False)
    return 70


def _interrupt(number: int, frame: Any) -> None:
    raise Interrupted(signal.Signals(number).name)


def _load(path: Path, params: Sequence[str] | None = None, *, programs: bool = True) -> Config:
    return load(path, _overrides(params), programs=programs)


def _overrides(params: Sequence[str] | None) -> dict[str, str]:
    overrides = {}
    for text in params or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise UserError(f"--set {text!r} is not NAME=VALUE; write for example --set fixes=all")
        overrides[name] = value
    return overrides


def _print_json(value: Any) -> None:
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2) + b"\n")
    sys.stdout.flush()


@contextlib.contextmanager
def _listening(json_wanted: bool, **options: Any) -> Iterator[Listener]:
    """Live progress on a terminal, lines elsewhere, nothing for machines."""
    if json_wanted:
        yield api.silent
    else:
        with display.progress(**options) as listener:
            yield listener


@app.command("init")
def init_command(
    folder: Annotated[Path, typer.Argument(help="Where to write the files.")] = Path("."),
    force: Annotated[bool, typer.Option("--force", help="Overwrite what is there.")] = False,
    json: JsonOption = False,
) -> int:
    """Write a commented undermine.toml and hunt.py to start from.

    Example: `undermine init my-system`
    """
    written = init.write(folder, force=force)
    if json:
        _print_json({"written": [str(path) for path in written]})
    else:
        for path in written:
            typer.echo(f"wrote {path}")
        typer.echo(f"next: set the command in {folder / FILE_NAME}, then `undermine check -c {folder}`")
    return 0


@app.command()
def check(
    config: ConfigOption = HERE,
    params: SetOption = None,
    prove_checkers: Annotated[
        bool, typer.Option("--prove-checkers", help="Plant wrongs and show which checkers notice.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Also say what the agents do not see.")] = False,
    json: JsonOption = False,
) -> int:
    """The preflight: what the machine allows, three fault-free runs, what can be seen, what a campaign would cost.

    With `--prove-checkers` also a dead node, a hang, lost data and altered answers: exits with 1 if a checker noticed none.

    Examples: `undermine check -c examples/granary`, `undermine check --prove-checkers`
    """
    loaded = _load(config, params)
    with _listening(json, title="check") as listener:
        result = api.check(loaded, listener, prove=prove_checkers)
    if json:
        _print_json(result)
    else:
        display.show_check(result, verbose=verbose)
    return 1 if result.unproved else 0


trace_cli.register(app, _load, _listening, _print_json)


@app.command()
def plan(
    config: ConfigOption = HERE,
    strategy: StrategyOption = None,
    count: Annotated[
        int, typer.Option("--count", "-n", min=1, max=1000, help="Plans to show for each strategy or policy.")
    ] = 10,
    explain: Annotated[
        bool, typer.Option("--explain", help="Each plan that policies drop, which one does, and what stands for it.")
    ] = False,
    campaign: Annotated[
        str,
        typer.Option(
            "--campaign",
            help="Read this campaign, or the `latest`, and run nothing.",
            metavar="NAME",
            show_default=False,
        ),
    ] = "",
    params: SetOption = None,
    json: JsonOption = False,
) -> int:
    """Predict: what would be injected, where and why; what is skipped and by which rule. Injects nothing.

    Runs without faults show where to begin. With `--campaign` nothing is run: it says what a campaign, also one that is being
    hunted, has still to run, and of everything that was dropped by which policy, and which plan stands for it.

    Examples: `undermine plan --strategy exhaustive -n 20`, `undermine plan -s NAME --explain`,
    `undermine plan --campaign latest --explain`
    """
    if campaign:
        stored = api.plans(
            _load(config, params, programs=False), campaign, strategy or (), count, every_dropped=explain
        )
        if json:
            _print_json(stored)
        else:
            display.show_stored_plans(stored, explain=explain)
        return 0
    loaded = _load(config, params)
    with _listening(json, title="plan") as listener:
        result = api.plan(loaded, strategy or (), count, listener, every_dropped=explain)
    if json:
        _print_json(result)
    else:
        display.show_plan(result, explain=explain)
    return 0


@app.command()
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
    loaded = _load(config, params)
    budget_s = _seconds("--budget", budget, "10m") if budget else loaded.hunt.budget
    with _findings_so_far(loaded, config, json), _listening(json, title="hunt", budget_s=budget_s) as listener:
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


@contextlib.contextmanager
def _findings_so_far(loaded: Config, config: Path, json: bool) -> Iterator[None]:
    """Show what was found when the user interrupts."""
    try:
        yield
    except (KeyboardInterrupt, Interrupted):
        with contextlib.suppress(UserError), api.open_store(api.campaign_dir(loaded)) as store:
            if not json:
                if store.findings():
                    display.show_findings(store.findings(), _options(config))
                display.show_coverage(api.coverage_of(store).reached)
        raise


def _seconds(option: str, text: str, example: str) -> float:
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise UserError(f"{option} {error}") from None
    if seconds <= 0:
        raise UserError(f"{option} must be more than nothing; write for example {option} {example}")
    return seconds


def _is_finding(what: str) -> bool:
    """Is this a finding's id, rather than a file?"""
    if re.fullmatch("[Ff][0-9]+", what):
        return True
    if Path(what).is_file():
        return False
    if re.search("[./]", what):
        raise UserError(f"there is no file {what}; name a bundle, a plan file, or a finding like F1")
    return True


def _options(config: Path, campaign: str = "") -> str:
    """What a later command needs to find the same config and campaign."""
    return ("" if config == HERE else f" -c {config}") + (f" --campaign {campaign}" if campaign else "")


def _judged(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Findings for machines, with what follows from their numbers: only those that are believed count for exit codes."""
    return [
        {
            **msgspec.to_builtins(f),
            "confirmed": f.confirmed,
            "flaky": f.flaky,
            "dropped": f.dropped,
            "believed": f.believed,
        }
        for f in findings
    ]


def _hunt_result(result: api.HuntResult, json: bool, config: Path) -> int:
    page = write_report(Path(result.folder))
    if json:
        _print_json({**msgspec.to_builtins(result), "findings": _judged(result.findings), "report": str(page)})
    else:
        display.show_hunt(result, page, _options(config))
    return 1 if result.believed else 0


@app.command()
def replay(
    what: Annotated[str, typer.Argument(help="A finding's id like F1, a bundle, or a JSON file with a plan.")],
    times: Annotated[
        int | None,
        typer.Option("--times", "-n", min=1, max=1000, help="How often: 5, a plan file once.", show_default=False),
    ] = None,
    no_control: Annotated[
        bool, typer.Option("--no-control", help="Do not run the same moments without the fault.")
    ] = False,
    variants: Annotated[
        bool, typer.Option("--variants", help="Also run the other plans that led to the finding.")
    ] = False,
    folder: Annotated[
        Path | None, typer.Option("--dir", help="Where a bundle is unpacked; BUNDLE.d by default.", show_default=False)
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", "-c", help="The undermine.toml, or its folder; a bundle has its own.", show_default=False
        ),
    ] = None,
    campaign: CampaignOption = "",
    params: SetOption = None,
    json: JsonOption = False,
) -> int:
    """Run a finding again, with the fault and without, and print how often it fails. Exits with 1 if it came back, with 4 if
    the fault never fired.

    Replaying a bundle runs the commands and the plug-in file that are in it: take bundles only from people you trust.

    Examples: `undermine replay F1 -n 10`, `undermine replay F1.undermine`, `undermine replay plan.json`
    """
    options = {"control": not no_control, "variants": variants}
    path = Path(what)
    by_id = _is_finding(what)
    bundled = not by_id and unpacking.is_bundle(path)
    if folder and (not bundled or config):
        raise UserError("--dir says where a bundle is unpacked, and nothing is unpacked here; leave it out")
    if campaign and bundled:
        raise UserError("--campaign is for findings and plan files: a bundle has its own finding; leave it out")
    if variants and not by_id and not bundled:
        raise UserError("--variants is for findings: a plan file has just its plans; leave it out")
    with _listening(json, title=f"replay {what}") as listener:
        if by_id:
            loaded = _load(config or HERE, params)
            results = [api.replay(loaded, what, times or 5, campaign, listener, **options)]
        elif bundled:
            unpacking.read_manifest(path)
            if config is None and not json:
                typer.echo(f"{what} brings its own commands and plug-in file: these are run now")
            given = _load(config, params) if config else None
            own = _overrides(params) if config is None else {}
            results = [api.replay_bundle(path, given, times or 5, listener, folder=folder, params=own, **options)]
        else:
            plans = api.read_plans(path)
            loaded = _load(config or HERE, params)
            results = list(api.replay_plans(loaded, plans, times or 1, campaign, listener, control=not no_control))
    if json:
        _print_json(results[0] if by_id or bundled else results)
    else:
        display.show_replays(results)
    if any(result.came_back for result in results):
        return 1
    return 0 if all(result.fired for result in results) else NOT_FIRED


@app.command()
def bundle(
    finding: Annotated[str, typer.Argument(help="The finding's id, like F1.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The file to write; F1.undermine by default.", show_default=False),
    ] = None,
    include: Annotated[
        list[str] | None,
        typer.Option("--include", help="More files of the project, besides campaign.files.", metavar="GLOB"),
    ] = None,
    config: ConfigOption = HERE,
    campaign: CampaignOption = "",
    json: JsonOption = False,
) -> int:
    """Write one file with which a finding can be replayed on another machine: plan, configuration, versions, evidence.

    Look at what is in it before you pass it on: it holds your plug-in file, your configuration and logs.

    Examples: `undermine bundle F1`, `undermine bundle F1 -o lost-write.undermine --include 'myapp/**/*.py'`
    """
    written = api.bundle(_load(config, programs=False), finding, output, include or (), campaign)
    if json:
        _print_json(written)
    else:
        display.show_bundle(written)
    return 0


@app.command()
def suppress(
    finding: Annotated[str, typer.Argument(help="The finding's id, like F1.", show_default=False)] = "",
    reason: Annotated[str, typer.Option(help="Why it need not be reported.", show_default=False)] = "",
    until: Annotated[
        str, typer.Option(help="The last day, like 2027-01-31, or never.", metavar="DAY", show_default=False)
    ] = "",
    lasts: Annotated[
        str, typer.Option("--for", help="Or how long, like 30d; 90d by default.", show_default=False)
    ] = "",
    fault: Annotated[
        str, typer.Option(help="Only while no other fault leads to it, like crash.", metavar="KIND", show_default=False)
    ] = "",
    listed: Annotated[bool, typer.Option("--list", help="Show what is suppressed.")] = False,
    remove: Annotated[
        str, typer.Option("--remove", help="Report it again: an id of the list.", metavar="ID", show_default=False)
    ] = "",
    config: ConfigOption = HERE,
    campaign: CampaignOption = "",
    json: JsonOption = False,
) -> int:
    """Do not report a known finding for a while. It is written to undermine-known.toml, which is meant to be committed.

    Examples: `undermine suppress F1 --reason "see issue 12" --for 30d`, `undermine suppress --list`
    """
    if sum(map(bool, (finding, listed, remove))) != 1:
        raise UserError("say one of: a finding to suppress, --list, or --remove ID")
    loaded = _load(config, programs=False)
    if remove:
        changed, said = api.unsuppress(loaded, remove), "is reported again"
    elif finding:
        lasts_s = _seconds("--for", lasts, "30d") if lasts else None
        changed = api.suppress(loaded, finding, reason, until=until, lasts_s=lasts_s, fault=fault, campaign=campaign)
        said = f"is suppressed {changed.words}"
    entries = api.suppressions(loaded) if listed else (changed,)
    if json:
        _print_json([{**msgspec.to_builtins(entry), "id": entry.id} for entry in entries])
    elif listed:
        display.show_known(entries, api.today())
    else:
        typer.echo(display.printable(f"{changed.id} {changed.symptom}: {said}"))
    return 0


@app.command()
def logs(
    what: Annotated[str, typer.Argument(help="A run's number or a finding's id.")],
    node: Annotated[str, typer.Option("--node", help="Only this node's.", show_default=False)] = "",
    config: ConfigOption = HERE,
    campaign: CampaignOption = "",
    json: JsonOption = False,
) -> int:
    """Print what the nodes of one run wrote.

    Examples: `undermine logs F1`, `undermine logs 17 --node s1`
    """
    files = api.log_files(_load(config, programs=False), what, node, campaign)
    if json:
        _print_json({path.name: path.read_text(errors="replace") for path in files})
    else:
        display.show_logs(files)
    return 0


@app.command()
def report(
    config: ConfigOption = HERE,
    campaign: CampaignOption = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write the page.", show_default=False)
    ] = None,
    recheck: Annotated[
        bool, typer.Option("--recheck", help="Run the checkers again on the stored runs first.")
    ] = False,
    json: JsonOption = False,
) -> int:
    """Write the HTML report of a campaign: one file, no network needed to read it. Exits with 1 if there are findings.

    Examples: `undermine report -o bugs.html`, `undermine report --recheck` after a checker was edited
    """
    loaded = _load(config, programs=False)
    if recheck:
        with _listening(json, title="recheck") as listener:
            changed, _ = api.recheck(loaded, campaign, listener)
        if not json:
            typer.echo(f"verdicts of {changed} run(s) changed")
    findings = api.findings(loaded, campaign)
    page = write_report(api.campaign_dir(loaded, campaign), output)
    remarks = api.remarks(loaded, findings)
    with api.open_store(api.campaign_dir(loaded, campaign)) as store:
        new_logs = api.new_logs(store, findings)
        coverage = api.coverage_of(store)
    if json:
        said = {"report": str(page), "findings": _judged(findings), "remarks": remarks, "new_logs": new_logs}
        _print_json({**said, "coverage": coverage.reached, "growth": coverage.growth})
    else:
        display.show_findings(findings, _options(config, campaign), remarks, new_logs)
        display.show_coverage(coverage.reached)
        typer.echo(f"report: {page}")
    return 1 if any(finding.believed for finding in findings) else 0


@app.command()
def clean(
    config: ConfigOption = HERE,
    everything: Annotated[bool, typer.Option("--all", help="Remove all campaigns too.")] = False,
    json: JsonOption = False,
) -> int:
    """Remove what a killed tool left behind: processes, sockets, temporary folders.

    Example: `undermine clean --all`
    """
    done = api.clean(_load(config, programs=False), everything=everything)
    if json:
        _print_json({"done": done})
    else:
        for line in done or ["nothing to clean"]:
            typer.echo(line)
    return 0


@app.command()
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
    loaded = _load(api.demo_config(folder))
    budget_s = _seconds("--budget", budget, "10m")
    with _listening(json, title="demo", budget_s=budget_s) as listener:
        result = api.hunt(loaded, budget_s=budget_s, seed=seed, jobs=DEMO_JOBS, listener=listener)
    _hunt_result(result, json, folder)
    return 0


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"undermine {undermine.__version__}")
        raise typer.Exit()


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Undermine your distributed system before production does."""
