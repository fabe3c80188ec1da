"""Fetches releases of Luigi from PyPI, each into its own folder: `python setup.py 3.8.1`."""

from __future__ import annotations

from pathlib import Path

from undermine import packs

HERE = Path(__file__).resolve().parent


def ensure(version: str) -> Path:
    """Return the folder of this release and the packages that it needs. Fetch them if they are missing."""
    if version != packs.NEWEST:
        packs.check_version(version, f"3.8.1, or {packs.NEWEST}")
    return packs.ensure_release(HERE, "luigi", version, "3.8.1")


if __name__ == "__main__":
    packs.run(HERE, ensure)
