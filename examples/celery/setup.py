"""Fetches releases of Celery from PyPI, each into its own folder: `python setup.py 5.7.0`.

A release that is already there is not fetched again. Without arguments, the script fetches the release in undermine.toml;
`newest` is the newest release that pip finds. Run it with the Python in which Undermine is installed.

Redis must be installed already. If it is missing, the script says how to install it.
"""

from __future__ import annotations

from pathlib import Path

from undermine import packs

HERE = Path(__file__).resolve().parent
EXAMPLE = "5.7.0"


def ensure(version: str) -> Path:
    """Return the folder of this release and the packages that it needs, redis-py too. Fetch them if they are missing."""
    if version != packs.NEWEST:
        packs.check_version(version, f"{EXAMPLE}, or {packs.NEWEST}")
    packs.need_program("redis-server", "install it, on Debian by `apt-get install redis-server`")
    return packs.ensure_release(HERE, "celery[redis]", version, EXAMPLE)


if __name__ == "__main__":
    packs.run(HERE, ensure)
