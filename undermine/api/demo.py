"""`undermine demo`: copies the example that is part of the package to a folder of the user. Never starts a run."""

from __future__ import annotations

import shutil
from pathlib import Path

from undermine.resources import example_dir


def demo_config(home: Path) -> Path:
    """Copy the embedded example to a folder where results may be written; return that folder."""
    source = example_dir("granary")
    home.mkdir(parents=True, exist_ok=True)
    for name in ("undermine.toml", "hunt.py"):
        shutil.copy2(source / name, home / name)
    shutil.rmtree(home / "granary", ignore_errors=True)
    shutil.copytree(source / "granary", home / "granary", ignore=shutil.ignore_patterns("__pycache__"))
    return home
