"""The entry point of the command `undermine`. It gives an interrupt its exit code while the other modules are imported.

Imports take most of a second. Nothing is started yet, so the process can simply end. It does not raise an exception, because
the import of another library could swallow it.
"""

from __future__ import annotations

import os
import signal
from typing import Any

from undermine.model.errors import Interrupted


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    from undermine.cli import commands as cli

    cli.main()


def _end(number: int, frame: Any) -> None:
    try:
        os.write(2, b"interrupted\n")
    finally:
        os._exit(Interrupted.exit_code)


if __name__ == "__main__":
    main()
