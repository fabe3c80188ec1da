"""The command `undermine test`: its options, and what it shows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from undermine import api
from undermine.cli.console import console, plain
from undermine.cli.options import HERE, CampaignOption, ConfigOption, JsonOption, load_config, print_json


def test(
    findings: Annotated[
        list[str] | None,
        typer.Argument(help="The ids of findings, like F1; by default all that are reported.", show_default=False),
    ] = None,
    folder: Annotated[Path, typer.Option("--dir", help="The folder of your tests.")] = Path("tests"),
    times: Annotated[int, typer.Option("--times", "-n", min=1, max=1000, help="Number of runs in the test.")] = 3,
    config: ConfigOption = HERE,
    campaign: CampaignOption = "",
    json: JsonOption = False,
) -> int:
    """Write a regression test for pytest for each finding: it replays the plan and fails if the bug comes back.

    A test is named after its symptom, and has its plan in a file beside it. Commit both. A test that exists already is left as it
    is. Nothing is run.

    Examples:

    - `undermine test`
    - `undermine test F1 F3 --dir tests/faults --times 5`
    """
    written = api.regression_tests(load_config(config, programs=False), findings or (), folder, times, campaign)
    if json:
        print_json(written)
        return 0
    out = console()
    for one in written:
        said = "wrote" if one.new else "left as it is:"
        out.print(f"{one.finding}: {said} {plain(one.test)}", soft_wrap=True)
        if one.doubt:
            out.print(f"  [yellow]{one.finding} is not reported as a bug:[/yellow] {plain(one.doubt)}", soft_wrap=True)
    if not written:
        out.print("no findings are reported, so there is no test to write")
    return 0
