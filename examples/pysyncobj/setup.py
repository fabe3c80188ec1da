"""Fetches releases of PySyncObj from PyPI, each into its own folder: `python setup.py 0.3.13 0.3.14`.

A release that is already there is not fetched again. Without arguments, the script fetches the release in undermine.toml;
`newest` is the newest release that pip finds. Run it with the Python in which Undermine is installed.
"""

from __future__ import annotations

from pathlib import Path

from undermine import packs

HERE = Path(__file__).resolve().parent


def ensure(version: str) -> Path:
    """Return the folder of this release. Fetch the release if it is missing."""
    return packs.ensure_release(HERE, "pysyncobj", version, "0.3.14", "--no-deps")


if __name__ == "__main__":
    packs.run(HERE, ensure)
