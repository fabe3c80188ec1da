"""The commands that look at a stored campaign or remove it: `undermine report`, `logs` and `clean`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from undermine import api
from undermine.cli.console import console, plain
from undermine.cli.coverage import show_coverage
from undermine.cli.findings import judged, show_findings
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
    loaded = load_config(config, programs=False)
    if recheck:
        with listening(json, title="recheck") as listener:
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
        said = {"report": str(page), "findings": judged(findings), "remarks": remarks, "new_logs": new_logs}
        print_json({**said, "coverage": coverage.reached, "growth": coverage.growth})
    else:
        show_findings(findings, later_options(config, campaign), remarks, new_logs)
        show_coverage(coverage.reached)
        typer.echo(f"report: {page}")
    return 1 if any(finding.believed for finding in findings) else 0


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
    files = api.log_files(load_config(config, programs=False), what, node, campaign)
    if json:
        print_json({path.name: path.read_text(errors="replace") for path in files})
    else:
        show_logs(files)
    return 0


def show_logs(files: Sequence[Path]) -> None:
    out = console()
    for path in files:
        out.rule(path.name, align="left")
        out.print(plain(path.read_text(errors="replace")), soft_wrap=True)


def clean(
    config: ConfigOption = HERE,
    everything: Annotated[bool, typer.Option("--all", help="Remove all campaigns too.")] = False,
    json: JsonOption = False,
) -> int:
    """Remove what a killed tool left behind: processes, sockets, temporary folders.

    Example: `undermine clean --all`
    """
    done = api.clean(load_config(config, programs=False), everything=everything)
    if json:
        print_json({"done": done})
    else:
        for line in done or ["nothing to clean"]:
            typer.echo(line)
    return 0
