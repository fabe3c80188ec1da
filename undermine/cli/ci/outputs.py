"""The options `--junit`, `--sarif`, `--github`, `--fail-under` and `--baseline`, and what they do at the end of a command."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from undermine.analysis.coverage import Reached
from undermine.cli.coverage import under_words
from undermine.model.errors import UserError
from undermine.report.ci import github, junit, sarif
from undermine.report.ci.results import Results
from undermine.report.html import write_file

FINDINGS = 1
UNDER = 5
"""The exit code if there are no findings, but less coverage than `--fail-under` wants."""

JunitOption = Annotated[
    Path | None,
    typer.Option("--junit", help="Also write the results as JUnit XML.", metavar="FILE", show_default=False),
]
SarifOption = Annotated[
    Path | None,
    typer.Option("--sarif", help="Also write the findings as SARIF 2.1.0.", metavar="FILE", show_default=False),
]
GithubOption = Annotated[
    bool | None,
    typer.Option(
        "--github/--no-github",
        help="Print annotations and write a job summary; by default if GITHUB_ACTIONS is `true`.",
        show_default=False,
    ),
]
FailUnderOption = Annotated[
    float | None,
    typer.Option(
        "--fail-under",
        min=0,
        max=100,
        help="Exit with 5 if faults fired at less than this percentage of the source locations.",
        metavar="PERCENT",
        show_default=False,
    ),
]
BaselineOption = Annotated[
    Path | None,
    typer.Option("--baseline", help="A file with known findings; only others fail.", metavar="FILE", show_default=False),
]
WriteBaselineOption = Annotated[
    Path | None,
    typer.Option(
        "--write-baseline", help="Add the findings to this file of known ones.", metavar="FILE", show_default=False
    ),
]


def refuse_places(junit_file: Path | None, sarif_file: Path | None) -> None:
    """Raise a `UserError` before a long hunt if a file cannot be written after it."""
    for option, file in (("--junit", junit_file), ("--sarif", sarif_file)):
        if file and not file.parent.exists():
            raise UserError(f"{option} {file}: the folder {file.parent} does not exist; create it, or choose another place")
        if file and (file.is_dir() or not os.access(file.parent, os.W_OK)):
            raise UserError(f"{option} {file}: no file can be written there; choose another place")


def github_wanted(option: bool | None) -> bool:
    return os.environ.get("GITHUB_ACTIONS") == "true" if option is None else option


@contextlib.contextmanager
def quiet_for(github_too: bool, json: bool) -> Iterator[None]:
    """Keep GitHub from taking a text of the target for a command. JSON never begins a line with one."""
    if not github_too or json:
        yield
        return
    stop, resume = github.silenced()
    typer.echo(stop)
    try:
        yield
    finally:
        typer.echo(resume)


def write_outputs(
    results: Results, junit_file: Path | None, sarif_file: Path | None, github_too: bool, json: bool
) -> None:
    """Write the files that are wanted, and print the annotations; beside JSON, to the other stream."""
    if junit_file:
        write_file(junit_file, lambda stream: junit.write(stream, results), "--junit")
    if sarif_file:
        write_file(sarif_file, lambda stream: sarif.write(stream, results), "--sarif")
    if github_too:
        for command in github.commands(results):
            typer.echo(command, err=json)
        if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
            _append(Path(summary), github.summary(results))


def _append(path: Path, text: str) -> None:
    try:
        with path.open("a", encoding="utf-8", errors="replace") as stream:
            stream.write(text)
    except OSError as error:
        raise UserError(f"the summary cannot be written to {path} ({error.strerror}); check GITHUB_STEP_SUMMARY") from None


def exit_code(found: bool, reached: Reached, fail_under: float | None) -> int:
    """Findings come before coverage. If it is too low, say so."""
    if found:
        return FINDINGS
    if fail_under is None or reached.percent >= fail_under:
        return 0
    typer.echo(under_words(reached, fail_under), err=True)
    return UNDER
