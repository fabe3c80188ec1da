"""Helpers for a pack's `setup.py`, which fetches releases of the system under test.

A release goes to `versions/VERSION` in the pack's folder. The folder appears only when it is complete, and is not fetched again.
These helpers never install anything outside the pack's folder. Their errors end the script with a message.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

NEWEST = "newest"
NUMBERS = r"\d+(\.\d+)+"
_PIP = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")


def run(pack: Path, ensure: Callable[[str], Path]) -> None:
    """Print the folder of each version on the command line, by default of the version in undermine.toml."""
    for version in sys.argv[1:] or [default_version(pack)]:
        print(ensure(version))


def default_version(pack: Path) -> str:
    return str(configuration(pack)["params"]["version"])


def configuration(pack: Path) -> dict[str, Any]:
    return tomllib.loads((pack / "undermine.toml").read_text())


def check_version(version: str, example: str, pattern: str = NUMBERS) -> None:
    """Exit unless the whole version matches the pattern: it becomes the name of a folder."""
    if not re.fullmatch(pattern, version):
        sys.exit(f"{version!r} is not a version; give one like {example}")


def need_program(name: str, advice: str) -> str:
    """Return the path of an installed program, or exit with the advice."""
    if found := shutil.which(name):
        return found
    sys.exit(f"there is no program {name}: {advice}")


def ensure_folder(folder: Path, fetch: Callable[[Path], None]) -> Path:
    """Return the folder. If it does not exist, `fetch` fills a temporary folder, which is then renamed."""
    if not folder.exists():
        folder.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as name:
            part = Path(name, "part")
            fetch(part)
            part.rename(folder)
    return folder


def ensure_release(pack: Path, project: str, version: str, example: str, *options: str) -> Path:
    """Return the folder of a release of a PyPI project. `newest` is the newest release that pip finds."""
    if version == NEWEST:
        version = newest_release(project)
    check_version(version, f"{example}, or {NEWEST}")
    return ensure_folder(pack / "versions" / version, lambda part: pip_install(f"{project}=={version}", part, *options))


def newest_release(project: str) -> str:
    """Ask pip, which installs nothing."""
    command = [*_PIP, "--dry-run", "--ignore-installed", "--no-deps", "--report", "-", project]
    done = subprocess.run(command, stdout=subprocess.PIPE)
    if done.returncode:
        sys.exit(f"pip cannot find {project}; its messages are above")
    return str(json.loads(done.stdout)["install"][0]["metadata"]["version"])


def pip_install(requirement: str, folder: Path, *options: str) -> None:
    """Install a requirement from PyPI into a folder, with all that it needs unless the options say otherwise."""
    print(f"fetching {requirement}", file=sys.stderr)
    if subprocess.run([*_PIP, *options, "--target", str(folder), requirement]).returncode:
        name = re.split("[=<>~!]", requirement)[0]
        sys.exit(f"pip cannot install {requirement}; its messages are above. `pip index versions {name}` lists all versions")
