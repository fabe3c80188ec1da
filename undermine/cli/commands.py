"""The command line: the list of commands, and the exit code of every way in which one can end.

Exit codes: 0 nothing found, 1 findings, 2 the user's mistake, 3 the cluster fails without any fault, 4 the fault of a replay
never fired, 130 interrupted, 70 a bug in Undermine.
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
from undermine.cli.console import plain
from undermine.cli.hunt import demo, hunt
from undermine.cli.init import init
from undermine.cli.plan import plan
from undermine.cli.replay import bundle, replay
from undermine.cli.report import clean, logs, report
from undermine.cli.suppress import suppress
from undermine.cli.trace import trace
from undermine.model.errors import Interrupted, UserError

app = typer.Typer(
    name="undermine",
    help="Find fault-handling bugs in distributed systems: watch correct runs, inject faults where they hurt, check.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)

COMMANDS: tuple[Callable[..., int], ...] = (
    init,
    check,
    trace,
    plan,
    hunt,
    replay,
    bundle,
    suppress,
    logs,
    report,
    clean,
    demo,
)
"""In the order of `undermine --help`; a command has the name of its function."""

for command in COMMANDS:
    app.command()(command)


def main() -> None:
    """Run a command; every way it can end has its exit code."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    errors = Console(stderr=True, soft_wrap=True, highlight=False)
    try:
        code = app(standalone_mode=False)
    except UserError as error:
        errors.print(f"[red]error:[/red] {plain(str(error))}")
        code = error.exit_code
    except (KeyboardInterrupt, Interrupted):
        errors.print(f"[yellow]interrupted[/yellow]{_resumed()}")
        code = Interrupted.exit_code
    except PermissionError as error:
        errors.print(f"[red]error:[/red] {plain(str(error))}; run it where you may write, or set campaign.dir")
        code = UserError.exit_code
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            said = f"the disk is full; free some space: nothing stored is lost{_resumed()}"
        elif hasattr(error, "format_message"):
            # click's own complaints about arguments (click may be part of typer, so it is asked by shape)
            said = error.format_message()
        else:
            sys.exit(_defect(errors))
        errors.print(f"[red]error:[/red] {plain(said)}")
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
