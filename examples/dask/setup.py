"""Fetches releases of Dask distributed from PyPI, each into its own folder: `python setup.py 2026.8.0`.

A release that is already there is not fetched again. Without arguments, the script fetches the release in undermine.toml;
`newest` is the newest release that pip finds. Run it with the Python in which Undermine is installed.
"""

from __future__ import annotations

from pathlib import Path

from undermine import packs

HERE = Path(__file__).resolve().parent


def ensure(version: str) -> Path:
    """Return the folder of this release and the packages that it needs. Fetch them if they are missing."""
    return packs.ensure_release(HERE, "distributed", version, "2026.8.0")


if __name__ == "__main__":
    packs.run(HERE, ensure)
