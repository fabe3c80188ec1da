"""Fetches versions of Dask distributed from PyPI, each into a folder of its own: `python setup.py 2026.8.0`.

A version that is there is not fetched again. Without a version, the one that undermine.toml names.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent


def folder_of(version: str) -> Path:
    return HERE / "versions" / version


def ensure(version: str) -> Path:
    """The folder in which this version is, fetched if need be."""
    if not re.fullmatch(r"\d+(\.\d+)+", version):
        sys.exit(f"{version!r} is no version: say something like 2026.8.0")
    folder = folder_of(version)
    if not folder.exists():
        folder.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as name:
            target = Path(name, "target")
            _install(version, target)
            target.rename(folder)
    return folder


def _install(version: str, target: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if subprocess.run([*pip, "--target", str(target), f"distributed=={version}"]).returncode:
        sys.exit(
            f"pip cannot install distributed {version}: see its words above; `pip index versions distributed` lists all"
        )


def default_version() -> str:
    return str(tomllib.loads((HERE / "undermine.toml").read_text())["params"]["version"])


if __name__ == "__main__":
    for wanted in sys.argv[1:] or [default_version()]:
        print(ensure(wanted))
