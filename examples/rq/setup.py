"""Fetches releases of RQ from PyPI, each into its own folder: `python setup.py 1.16.1 1.16.2`.

A release that is already there is not fetched again. Without arguments, the script fetches the release in undermine.toml;
`newest` is the newest release that pip finds. Run it with the Python in which Undermine is installed.

Redis must be installed already. If it is missing, the script says how to install it.
"""

from __future__ import annotations

from pathlib import Path

from undermine import packs

HERE = Path(__file__).resolve().parent
REDIS = "redis==8.1.0"
"""One release of redis-py, so that its default number of retries is the same for everybody."""


def ensure(version: str) -> Path:
    """Return the folder of this release and the packages that it needs. Fetch them if they are missing."""
    if version != packs.NEWEST:
        packs.check_version(version, f"1.16.2, or {packs.NEWEST}")
    packs.need_program("redis-server", "install it, on Debian by `apt-get install redis-server`")
    ensure_client()
    return packs.ensure_release(HERE, "rq", version, "1.16.2", REDIS)


def ensure_client() -> None:
    """Fetch redis-py, which the workload's clients use with every release of RQ."""
    packs.ensure_folder(HERE / "client", lambda part: packs.pip_install(REDIS, part))


if __name__ == "__main__":
    packs.run(HERE, ensure)
