"""Fetches versions of RQ from PyPI, each into a folder of its own: `python setup.py 1.16.1 1.16.2`.

A version that is there is not fetched again. Without a version, the one that undermine.toml names; `newest` is the newest that
pip finds. Redis itself is the system's: this says how to install it if there is none.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
NEWEST = "newest"


def folder_of(version: str) -> Path:
    return HERE / "versions" / version


def ensure(version: str) -> Path:
    """The folder in which this version is, fetched if need be, with the client library that it needs."""
    if version != NEWEST and not re.fullmatch(r"\d+(\.\d+)+", version):
        sys.exit(f"{version!r} is no version: say something like 1.16.2, or {NEWEST}")
    need_redis()
    ensure_client()
    if version != NEWEST and folder_of(version).exists():
        return folder_of(version)
    (HERE / "versions").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=HERE / "versions") as name:
        target = Path(name, "target")
        _install("rq" if version == NEWEST else f"rq=={version}", target)
        folder = folder_of(installed(target))
        if not folder.exists():
            target.rename(folder)
    return folder


def ensure_client() -> None:
    """redis-py, which the workload's clients use whatever release they test."""
    folder = HERE / "client"
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=HERE) as name:
            target = Path(name, "target")
            _install("redis>=5", target)
            target.rename(folder)


def need_redis() -> None:
    if shutil.which("redis-server") is None:
        sys.exit("there is no program redis-server: install it, on Debian by `apt-get install redis-server`")


def _install(what: str, target: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if subprocess.run([*pip, "--target", str(target), what]).returncode:
        sys.exit(f"pip cannot install {what}: see its words above; `pip index versions rq` lists its versions")


def installed(folder: Path) -> str:
    """Which version of RQ is in there."""
    found = next(folder.glob("rq-*.dist-info")).name
    return found.removeprefix("rq-").removesuffix(".dist-info")


def default_version() -> str:
    return str(tomllib.loads((HERE / "undermine.toml").read_text())["params"]["version"])


if __name__ == "__main__":
    for wanted in sys.argv[1:] or [default_version()]:
        print(ensure(wanted))
