"""The command line: the list of commands and their exit codes.

Exit codes: 0 no findings, 1 findings, 2 a mistake in the input, 3 the cluster fails without a fault, 4 the fault of a replay
never fired, 5 too little coverage, 70 a bug in Undermine, 130 interrupted.
"""

from __future__ import annotations

import errno
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.console import Console

import undermine
from undermine.cli.check import check
from undermine.cli.ci.regression import test
from undermine.cli.console import plain
from undermine.cli.hunt import demo, hunt
from undermine.cli.init import init, template_list
from undermine.cli.plan import plan
from undermine.cli.replay import bundle, replay
from undermine.cli.report import clean, issue, logs, report
from undermine.cli.suppress import suppress
from undermine.cli.trace import trace
from undermine.model.errors import Interrupted, UserError

app = typer.Typer(
    name="undermine",
    help="Find fault-handling bugs in distributed systems. Try `undermine demo` first, then `undermine init`.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)

COMMANDS: tuple[Callable[..., int], ...] = (
    demo,
    init,
    check,
    plan,
    hunt,
    replay,
    report,
    issue,
    logs,
    trace,
    bundle,
    test,
    suppress,
    clean,
)
"""In the order of `undermine --help`. A command has the name of its function."""

for command in COMMANDS:
    app.command()(command)


def main() -> None:
    """Run a command and exit with its code."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    errors = Console(stderr=True, soft_wrap=True, highlight=False)
    try:
        code = app(standalone_mode=False)
    except UserError as error:
        errors.print(f"[red]error:[/red] {plain(str(error))}")
        code = error.exit_code
    except (KeyboardInterrupt, Interrupted):
        errors.print(f"[yellow]interrupted[/yellow]{_resume_hint()}")
        code = Interrupted.exit_code
    except PermissionError as error:
        errors.print(f"[red]error:[/red] {plain(str(error))}; use a folder that you may write to, or set campaign.dir")
        code = UserError.exit_code
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            said = f"the disk is full; free some space; all stored runs are safe{_resume_hint()}"
        elif hasattr(error, "format_message"):
            # An error of click about the arguments. Click may be part of typer, so its class has no fixed import path.
            said = error.format_message()
            if getattr(error, "option_name", "") in ("--template", "-t"):
                said = f"{said} Choose one of these:\n{template_list()}"
        else:
            sys.exit(_print_bug(errors))
        errors.print(f"[red]error:[/red] {plain(said)}")
        code = UserError.exit_code
    sys.exit(code if isinstance(code, int) else 0)


def _resume_hint() -> str:
    return "; continue this hunt with `undermine hunt --resume`" if sys.argv[1:2] == ["hunt"] else ""


def _print_bug(errors: Console) -> int:
    """Print a bug in Undermine. Its exit code must differ from that of findings, which is 1."""
    errors.print(traceback.format_exc(), markup=False)
    errors.print("this is a bug in Undermine; please report it with the lines above")
    return 70


def _interrupt(number: int, frame: Any) -> None:
    raise Interrupted(signal.Signals(number).name)


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
