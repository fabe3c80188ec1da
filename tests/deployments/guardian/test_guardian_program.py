"""The guardian is a program of its own: it starts without the rest of the tool, and imports nothing of it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from undermine.deployments import guardian

FOLDER = Path(guardian.__file__).parent
OWN = {path.stem for path in FOLDER.glob("*.py")}
SLOW_TO_IMPORT = {"asyncio", "importlib.metadata", "inspect", "logging", "shutil", "subprocess", "tempfile", "typing_extensions"}


def test_its_files_import_only_the_standard_library_and_each_other() -> None:
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                assert {alias.name.partition(".")[0] for alias in node.names} <= sys.stdlib_module_names, path.name
            elif isinstance(node, ast.ImportFrom) and node.level:
                assert (node.level, node.module in OWN) == (1, True), path.name
            elif isinstance(node, ast.ImportFrom):
                assert (node.module or "").partition(".")[0] in {*sys.stdlib_module_names, "guardian"}, path.name


def test_it_loads_quickly_and_without_the_tool() -> None:
    code = f"import sys; sys.path.insert(0, {str(FOLDER.parent)!r}); import guardian.guardian; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert {"guardian.keeper", "guardian.processes"} <= loaded
    assert not {name for name in loaded if name.startswith("undermine")}
    assert not loaded & SLOW_TO_IMPORT
