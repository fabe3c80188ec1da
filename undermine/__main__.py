"""Where the command `undermine` begins: an interrupt has its exit code also while the rest is being loaded.

That takes most of a second. Nothing was started yet, so there is nothing to end or to remove: the process just ends, wherever
in somebody's import it is. What is raised there may be swallowed or turned into another error.
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
