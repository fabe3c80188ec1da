"""The commands that look at a stored campaign or remove it: `undermine report`, `issue`, `logs` and `clean`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from undermine import api, target_files
from undermine.analysis.coverage import Reached
from undermine.cli.ci.outputs import (
    BaselineOption,
    FailUnderOption,
    GithubOption,
    JunitOption,
    SarifOption,
    WriteBaselineOption,
    exit_code,
    github_wanted,
    quiet_for,
    write_outputs,
)
from undermine.cli.console import console, plain
from undermine.cli.coverage import show_coverage
from undermine.cli.findings import judged, show_findings, show_notes
from undermine.cli.options import (
    HERE,
    CampaignOption,
    ConfigOption,
    JsonOption,
    later_options,
    listening,
    load_config,
    print_json,
)
from undermine.config.schema import Config
from undermine.model.errors import UserError
from undermine.model.finding import Finding
from undermine.report.html import write_file, write_report
from undermine.report.text import count

_LOG_BYTES_MAX = 256 << 20


def report(
    config: ConfigOption = HERE,
    campaign: CampaignOption = "",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="File to write; by default report.html in the campaign.", show_default=False
        ),
    ] = None,
    recheck: Annotated[
        bool, typer.Option("--recheck", help="First run the checkers again on the stored runs.")
    ] = False,
    baseline: BaselineOption = None,
    write_baseline: WriteBaselineOption = None,
    fail_under: FailUnderOption = None,
    junit: JunitOption = None,
    sarif: SarifOption = None,
    github: GithubOption = None,
    json: JsonOption = False,
) -> int:
    """Write the HTML report of a campaign and list its findings. Exits with 1 if there are findings.

    The report is one file that needs no network. After you edit a checker, `--recheck` judges the stored runs again. With
    `--write-baseline`, the findings are known from now on: this command and `--baseline` ignore them.

    Examples:

    - `undermine report -o bugs.html`
    - `undermine report --recheck`
    - `undermine report --write-baseline known.toml`
    - `undermine report --junit junit.xml --sarif undermine.sarif`
    """
    loaded = load_config(config, programs=False)
    if recheck:
        with listening(json, title="recheck") as listener:
            changed, _ = api.recheck(loaded, campaign, listener)
        if not json:
            typer.echo(f"the verdicts of {count(changed, 'run')} changed")
    if write_baseline:
        baseline = _written_baseline(loaded, campaign, baseline, write_baseline)
    findings = api.findings(loaded, campaign, baseline)
    page = write_report(api.campaign_dir(loaded, campaign), output)
    github_too = github_wanted(github)
    with quiet_for(github_too, json):
        reached = _show_report(loaded, findings, page, campaign, later_options(config, campaign), json=json)
    if junit or sarif or github_too:
        results = api.results(loaded, campaign, baseline, later_options(config, campaign))
        write_outputs(results, junit, sarif, github_too, json)
    # a suspicion counts too: no re-run follows a report
    return exit_code(any(finding.believed or finding.undecided for finding in findings), reached, fail_under)


def _written_baseline(config: Config, campaign: str, baseline: Path | None, written: Path) -> Path:
    """Add the findings to a file of known ones, and use that file as the baseline."""
    if baseline:
        raise UserError("--baseline and --write-baseline cannot be used together; remove --baseline")
    api.write_baseline(config, written, campaign)
    return written


def _show_report(
    config: Config, findings: Sequence[Finding], page: Path, campaign: str, options: str, *, json: bool
) -> Reached:
    """Print the findings, notes and coverage of a campaign; return its coverage."""
    remarks = api.remarks(config, findings)
    with api.open_store(api.campaign_dir(config, campaign)) as store:
        new_logs = api.new_logs(store, findings)
        ends = api.partition_ends(store, findings)
        told = api.explanations(store, findings)
        notes = store.notes()
        coverage = api.coverage_of(store)
    if json:
        said = {"report": str(page), "findings": judged(findings), "explanations": told, "remarks": remarks, "new_logs": new_logs}
        print_json({**said, "partition_ends": ends, "notes": notes, "coverage": coverage.reached, "growth": coverage.growth})
    else:
        show_findings(findings, options, remarks, new_logs, ends, told)
        show_notes(notes)
        show_coverage(coverage.reached)
        typer.echo(f"report: {page}")
    return coverage.reached


def issue(
    finding: Annotated[str, typer.Argument(help="The id of a finding, like F1.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write; by default the report is printed.", show_default=False),
    ] = None,
    config: ConfigOption = HERE,
    campaign: CampaignOption = "",
    json: JsonOption = False,
) -> int:
    """Write a bug report about a finding in Markdown, ready to file with the project of the system.

    It has the versions, the steps, the expected and the actual outcome, the evidence, source lines and the replay command. Read
    it before you file it: it has log lines and names of files.

    Examples:

    - `undermine issue F1`
    - `undermine issue F1 -o bug.md`
    """
    loaded = load_config(config, programs=False)
    text = api.issue(loaded, finding, campaign, later_options(config, campaign))
    if output:
        write_file(output, lambda stream: stream.write(text), "-o")
    if json:
        print_json({"issue": text, "file": str(output) if output else ""})
    else:
        typer.echo(f"issue: {output}" if output else text, nl=bool(output))
    return 0


def logs(
    what: Annotated[str, typer.Argument(help="The number of a run, like 17, or the id of a finding, like F1.")],
    node: Annotated[
        str, typer.Option("--node", help="Only the logs of this node.", metavar="NODE", show_default=False)
    ] = "",
    config: ConfigOption = HERE,
    campaign: CampaignOption = "",
    json: JsonOption = False,
) -> int:
    """Print the output and the log files of all nodes of one run.

    For a finding, this is the run that shows it best.

    Examples:

    - `undermine logs F1`
    - `undermine logs 17 --node s1`
    """
    files = api.log_files(load_config(config, programs=False), what, node, campaign)
    if json:
        print_json({target_files.shown_name(path): _content(path) for path in files})
    else:
        show_logs(files)
    return 0


def show_logs(files: Sequence[Path]) -> None:
    out = console()
    for path in files:
        out.rule(plain(target_files.shown_name(path)), align="left")
        out.print(plain(_content(path)), soft_wrap=True)


def _content(path: Path) -> str:
    try:
        data, before = target_files.read_end(path, _LOG_BYTES_MAX)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    left_out = f"... {before:,} bytes left out ...\n" if before else ""
    return left_out + data.decode(errors="replace")


def clean(
    config: ConfigOption = HERE,
    everything: Annotated[bool, typer.Option("--all", help="Also remove all campaigns and their findings.")] = False,
    json: JsonOption = False,
) -> int:
    """Remove processes, sockets and temporary folders that a killed undermine left behind.

    Examples:

    - `undermine clean`
    - `undermine clean --all` also removes all campaigns
    """
    done = api.clean(load_config(config, programs=False), everything=everything)
    if json:
        print_json({"done": done})
    else:
        for line in done or ["nothing to clean"]:
            typer.echo(line)
    return 0
