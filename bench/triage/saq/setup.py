"""Fetches releases of SAQ from PyPI, each into its own folder: `python setup.py 0.26.4`."""

from __future__ import annotations

from pathlib import Path

from undermine import packs

HERE = Path(__file__).resolve().parent
REDIS = "redis==7.4.1"
"""SAQ 0.26.4 asks for a redis-py older than 8.0."""


def ensure(version: str) -> Path:
    """Return the folder of this release and the packages that it needs. Fetch them if they are missing."""
    if version != packs.NEWEST:
        packs.check_version(version, f"0.26.4, or {packs.NEWEST}")
    packs.need_program("redis-server", "install it, on Debian by `apt-get install redis-server`")
    return packs.ensure_release(HERE, "saq", version, "0.26.4", REDIS)


if __name__ == "__main__":
    packs.run(HERE, ensure)
