"""The launcher loads the agent if Python ignores PYTHONPATH or the environment is cleared; the program doesn't notice."""

from __future__ import annotations

import os
import subprocess
import zipfile

import pytest
from waiting import HANG_S

from undermine.resources import python_launcher

SHOW = """
import sys
open("x", "w").close()
print(sorted(globals()), __name__, __file__, __package__, type(__loader__).__name__, getattr(__spec__, "name", None))
print(sys.argv, sys.path, sys.modules["__main__"].__dict__ is globals(), sys.meta_path[-1])
sys.exit(3)
"""


def both_ways(tool, options, program, **changes):
    """Run a program directly and by the launcher; return both results."""
    command = {**tool.command("", ""), **changes}
    bare = {k: v for k, v in command["env"].items() if not k.startswith(("UNDERMINE", "PYTHON"))}
    plain = subprocess.run(**{**command, "args": [tool.python, *options, *program], "env": bare}, timeout=HANG_S)
    del command["env"]["PYTHONPATH"]
    command["args"] = [tool.python, *options, str(python_launcher()), *program]
    return plain, subprocess.run(**command, timeout=HANG_S)


def recorded(tool):
    assert not list(tool.trace_dir.glob("*.agent-error"))
    return sorted(tool.trace_dir.glob("*.events"))


@pytest.mark.parametrize("option", ["-I", "-E", "-S", "-s"])
def test_the_launcher_runs_a_script_as_python_would(tool, any_python, option):
    tool.python = any_python
    (tool.data / "server.py").write_text(SHOW)
    plain, launched = both_ways(tool, [option], ["server.py", "-v", "a b"])
    assert (launched.returncode, launched.stdout, launched.stderr) == (3, plain.stdout, "")
    assert recorded(tool)


@pytest.mark.parametrize("kind", ["module", "package", "folder", "zipfile"])
def test_the_launcher_runs_modules_folders_and_zipfiles_as_python_would(tool, any_python, kind):
    tool.python = any_python
    package = tool.data / "thing"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(SHOW)
    (tool.data / "alone.py").write_text(SHOW)
    with zipfile.ZipFile(tool.data / "thing.zip", "w") as archive:
        archive.writestr("__main__.py", SHOW)
    program = {"module": ["-m", "alone"], "package": ["-m", "thing"], "folder": ["thing"], "zipfile": ["thing.zip"]}
    plain, launched = both_ways(tool, ["-E"], [*program[kind], "-m", "x"])
    assert (launched.returncode, launched.stdout, launched.stderr) == (3, plain.stdout, "")
    assert recorded(tool)


def test_spawned_processes_load_the_agent(tool, any_python):
    tool.python = any_python
    (tool.data / "server.py").write_text(
        """
import multiprocessing, os
def work(number):
    open("x%d" % number, "w").close()
if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=work, args=(5,))
    process.start()
    process.join()
    print(process.exitcode, os.path.exists("x5"))
"""
    )
    plain, launched = both_ways(tool, ["-I"], ["server.py"])
    assert (launched.stdout, launched.stderr) == (plain.stdout, "") == ("0 True\n", "")
    assert len(recorded(tool)) >= 2


def test_a_missing_program_is_reported(tool):
    plain, launched = both_ways(tool, ["-I"], ["missing.py"])
    assert launched.returncode == plain.returncode == 2
    assert "missing.py" in launched.stderr
    plain, launched = both_ways(tool, ["-I"], ["-m", "missing"])
    assert (launched.returncode, launched.stderr) == (plain.returncode, plain.stderr)


def test_without_a_configuration_the_program_just_runs(tool):
    (tool.data / "server.py").write_text("import sys\nprint('undermine_agent' in sys.modules)")
    _, launched = both_ways(tool, ["-I"], ["server.py"], env={"PATH": os.environ["PATH"], "PYTHONPATH": ""})
    assert launched.stdout == "False\n"


def test_the_launcher_loads_the_agent_in_a_cleared_environment(tool):
    (tool.data / "server.py").write_text("open('x', 'w').close()")
    command = tool.command("", "")
    config = command["env"]["UNDERMINE_AGENT"]
    command["env"] = {}
    command["args"] = [tool.python, str(python_launcher()), "--config", config, "server.py"]
    assert subprocess.run(**command, timeout=HANG_S).returncode == 0
    assert recorded(tool)
