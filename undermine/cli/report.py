"""The commands that look at a stored campaign or remove it: `undermine report`, `logs` and `clean`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from undermine import api, target_files
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
from undermine.report.html import write_report
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
    json: JsonOption = False,
) -> int:
    """Write the HTML report of a campaign and list its findings. Exits with 1 if there are findings.

    The report is one file that needs no network. After you edit a checker, `--recheck` judges the stored runs again.

    Examples:

    - `undermine report -o bugs.html`
    - `undermine report --recheck`
    """
    loaded = load_config(config, programs=False)
    if recheck:
        with listening(json, title="recheck") as listener:
            changed, _ = api.recheck(loaded, campaign, listener)
        if not json:
            typer.echo(f"the verdicts of {count(changed, 'run')} changed")
    findings = api.findings(loaded, campaign)
    page = write_report(api.campaign_dir(loaded, campaign), output)
    remarks = api.remarks(loaded, findings)
    with api.open_store(api.campaign_dir(loaded, campaign)) as store:
        new_logs = api.new_logs(store, findings)
        ends = api.partition_ends(store, findings)
        notes = store.notes()
        coverage = api.coverage_of(store)
    if json:
        said = {"report": str(page), "findings": judged(findings), "remarks": remarks, "new_logs": new_logs}
        print_json({**said, "partition_ends": ends, "notes": notes, "coverage": coverage.reached, "growth": coverage.growth})
    else:
        show_findings(findings, later_options(config, campaign), remarks, new_logs, ends)
        show_notes(notes)
        show_coverage(coverage.reached)
        typer.echo(f"report: {page}")
    # a suspicion counts too: no re-run follows a report
    return 1 if any(finding.believed or finding.undecided for finding in findings) else 0


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
