"""Compares CPython's own regression tests with and without the Python agent, test by test: is the agent invisible?

Each test module runs in its own process and folder, once each way. A test that ends differently runs alone three times each
way before it counts as a difference. The agent is fully active: the tests' folder is its node's disk, and the tests' code is the
target's own. No test uses an external network.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from undermine.model.codec import read_trace
from undermine.model.event import STACKS_SIGNAL
from undermine.resources import python_agent_dir
from undermine.runtimes import accelerator

RUNNER = Path(__file__).parent / "targets" / "regression.py"
MINORS = ("3.9", "3.10", "3.11", "3.12", "3.13")
MODULES = (
    "test_io", "test_fileio", "test_socket", "test_threading", "test_threading_local", "test_thread", "test_queue",
    "test_selectors", "test_select", "test_asyncio", "test_subprocess", "test_sqlite3", "test_sqlite", "test_pickle",
    "test_pickletools", "test_os", "test_posix", "test_tempfile", "test_shutil", "test_mmap", "test_ssl",
    "test_concurrent_futures", "test_multiprocessing_fork", "test_signal", "test_zipfile",
)  # fmt: skip
LONGEST_FIRST = ("test_asyncio", "test_concurrent_futures", "test_multiprocessing_fork", "test_socket", "test_io")
SILENT_S_MAX = 150
"""A process that neither begins nor ends a test for this time hangs."""
ENDING_S_MAX = 10
"""Some tests leave threads behind that keep their process alive."""
DEATHS_MAX = 5
TIMES_ALONE = 3
SUSPECTS_MAX = 40
"""With more suspects the agent is broken, and single tests are not examined."""
WHY_MAX = 1200
INTERRUPTED = threading.Event()
PACKAGED = re.compile(r"(/tmp/um-[\w/.-]+|0x[0-9a-f]+|\d+)")


@dataclass
class Tally:
    """The result for one interpreter."""

    modules: int = 0
    tests: int = 0
    same: int = 0
    events: int = 0
    different: list[dict[str, str]] = field(default_factory=list)
    flaky: list[str] = field(default_factory=list)


@dataclass
class Ran:
    """The results of one run: for each test its outcome and the reason."""

    tests: dict[str, tuple[str, str]] = field(default_factory=dict)
    events: int = 0
    loaded: bool = False
    trouble: list[str] = field(default_factory=list)


def main() -> None:
    asked = arguments()
    tallies = {minor: Tally() for minor in asked.python}
    jobs = [(minor, module) for minor in asked.python for module in modules_of(interpreters()[minor], asked.module)]
    jobs.sort(key=lambda job: job[1] not in LONGEST_FIRST)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    with ThreadPoolExecutor(asked.jobs) as pool:
        try:
            for minor, done in pool.map(lambda job: (job[0], compare(job[0], job[1], asked)), jobs):
                add(tallies[minor], done)
        except BaseException:
            INTERRUPTED.set()  # the threads end the processes that they have started
            pool.shutdown(cancel_futures=True)
            raise
    print(
        json.dumps({"bench": "transparency", "agent": asked.agent, "pythons": {k: vars(v) for k, v in tallies.items()}})
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.transparency", description=__doc__.splitlines()[0])
    parser.add_argument("--python", action="append", choices=interpreters(), help="version; may be repeated")
    parser.add_argument("--module", action="append", help="test module; may be repeated")
    parser.add_argument("--test", action="append", default=[], help="only this test, by its full name; may be repeated")
    parser.add_argument("--agent", choices=("pure", "fast"), default="fast", help="without or with its accelerator")
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    asked.python = asked.python or list(interpreters())
    for minor in asked.python if asked.agent == "fast" else ():
        built = accelerator.ensure(interpreters()[minor])
        if built.file is None:
            parser.error(f"no accelerator for {built.python}: {built.why_not}")
    return asked


def interpreters() -> dict[str, str]:
    """The interpreters of this machine by minor version, including the one that runs this."""
    found = {f"{sys.version_info.major}.{sys.version_info.minor}": sys.executable}
    for minor in MINORS:
        for path in sorted(Path.home().glob(f".pyenv/versions/{minor}.*/bin/python")):
            found[minor] = str(path)
    return {minor: found[minor] for minor in MINORS if minor in found}


def modules_of(python: str, wanted: Iterable[str] | None) -> list[str]:
    """The test modules that this interpreter has."""
    find = "import sys, importlib.util as u; print(*[m for m in sys.argv[1:] if u.find_spec('test.' + m)])"
    return subprocess.run(
        [python, "-c", find, *(wanted or MODULES)], capture_output=True, text=True, check=True
    ).stdout.split()


def add(tally: Tally, done: Tally) -> None:
    for name, value in vars(done).items():
        setattr(tally, name, getattr(tally, name) + value)


def compare(minor: str, module: str, asked: argparse.Namespace) -> Tally:
    """Compare one module of one interpreter, with and without the agent."""
    python, begun = interpreters()[minor], time.monotonic()
    bare = run(python, module, "", asked.test)
    with_agent = run(python, module, asked.agent, asked.test)
    tally = Tally(modules=1, tests=len(bare.tests.keys() | with_agent.tests.keys()), events=with_agent.events)
    suspects = sorted(unlike(bare, with_agent))
    for name in suspects:
        ends = {end_of(bare, name)}, {end_of(with_agent, name)}
        if len(suspects) <= SUSPECTS_MAX:
            ends = ends_alone(python, module, asked.agent, name)
        if ends[0] & ends[1]:
            tally.flaky.append(f"{module}: {name}")
        else:
            tally.different.append(difference(module, name, ends, with_agent))
    tally.same = tally.tests - len(tally.different) - len(tally.flaky)
    tally.different += [{"module": module, "test": "(the agent itself)", "with": line} for line in with_agent.trouble]
    if not with_agent.loaded:
        tally.different.append({"module": module, "test": "(the agent itself)", "with": "was not loaded"})
    if not INTERRUPTED.is_set():
        report(minor, module, tally, time.monotonic() - begun)
    return tally


def report(minor: str, module: str, tally: Tally, took_s: float) -> None:
    print(
        f"{minor} {module}: {tally.tests} tests, {tally.same} the same, {len(tally.different)} different, "
        f"{len(tally.flaky)} flaky, {tally.events} events, {took_s:.0f} s",
        *(f"  {entry}" for entry in tally.different),
        sep="\n",
        file=sys.stderr,
    )


def unlike(one: Ran, other: Ran) -> set[str]:
    """The tests that ended differently. For failures only the kind counts; for skipped tests the reason counts too."""
    names = one.tests.keys() | other.tests.keys()
    return {name for name in names if end_of(one, name) != end_of(other, name)}


def end_of(ran: Ran, name: str) -> str:
    outcome, why = ran.tests.get(name, ("not run", ""))
    return f"skipped: {PACKAGED.sub('…', why)}" if outcome == "skipped" else outcome


def ends_alone(python: str, module: str, agent: str, name: str) -> tuple[set[str], set[str]]:
    """The outcomes of a test that runs alone a few times, without the agent and with it."""
    bare, with_agent = (
        {end_of(run(python, module, kind, [name]), name) for _ in range(TIMES_ALONE)} for kind in ("", agent)
    )
    return bare, with_agent


def difference(module: str, name: str, ends: tuple[set[str], set[str]], with_agent: Ran) -> dict[str, str]:
    without, with_it = (" / ".join(sorted(end)) for end in ends)
    why = with_agent.tests.get(name, ("", ""))[1].strip()
    return {"module": module, "test": name, "without": without, "with": with_it, "why": why[-WHY_MAX:]}


def run(python: str, module: str, agent: str, only: list[str]) -> Ran:
    """Run all tests of a module, or some. After a test that hangs or kills its process, a new process runs the others."""
    ran = Ran()
    with tempfile.TemporaryDirectory(prefix="um-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        environment = prepared(folder, agent)
        for _ in range(DEATHS_MAX):
            if one_process(python, module, folder, environment, only, ran):
                break
        if agent:
            trace, _ = read_trace(folder / "trace")
            ran.events = len(trace)
            ran.loaded = any(says(path, f"python-{agent}") for path in (folder / "trace").glob("*.events"))
            # Event files may end early, because tests kill their children.
            ran.trouble = [problem for problem in trace.problems if ".agent-error" in problem]
    return ran


def says(path: Path, name: str) -> bool:
    """True if the agent introduced itself by this name."""
    with path.open("rb") as file:
        return name.encode() in file.read(4096)


def prepared(folder: Path, agent: str) -> dict[str, str]:
    """Create the folders, and return the environment: bare, or with the agent loaded as the tool loads it."""
    work, trace, state = folder / "work", folder / "trace", folder / "state"
    work.mkdir()
    trace.mkdir()
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "UNDERMINE", "COV", "VIRTUAL_ENV"))}
    environment = {**kept, "TMPDIR": str(work)}
    if not agent:
        return environment
    state.write_bytes(b"UMS2" + bytes(4092))
    config = {
        "version": 2, "node": "n", "role": "node", "incarnation": 1, "nodes": ["n"], "trace_dir": str(trace),
        "state": str(state), "socket": str(folder / "none"), "dir": str(work), "paths": [str(work)],
        "packages": ["test"], "addresses": {}, "hosts": {}, "cgroup": "",
        "stacks_signal": STACKS_SIGNAL,
        "accelerator": str(accelerator.folder()) if agent == "fast" else "",
        "operations": [], "adapters": [], "variables": [], "steps": [],
    }  # fmt: skip
    (folder / "agent.json").write_text(json.dumps(config))
    return {**environment, "UNDERMINE_AGENT": str(folder / "agent.json"), "PYTHONPATH": str(python_agent_dir())}


def one_process(python: str, module: str, folder: Path, environment: dict[str, str], only: list[str], ran: Ran) -> bool:
    """Run the tests that have not run yet. Return False if the process did not finish."""
    output = folder / "lines"
    output.write_bytes(b"")
    settings = json.dumps({"only": only, "not": [] if only else list(ran.tests)})
    with (folder / "said").open("ab") as said:
        process = subprocess.Popen(
            [python, str(RUNNER), module, str(output), settings],
            env=environment, cwd=folder / "work", stdin=subprocess.DEVNULL, stdout=said, stderr=said,
            start_new_session=True,
        )  # fmt: skip
        hung = not wait(process, output)
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    under_way = ""
    for line in lines:
        under_way = line.get("begins", "")
        if "test" in line:
            ran.tests[line["test"]] = line["outcome"], line["why"]
        elif "ended" in line:
            ran.tests[f"(environment of {module})"] = line["environment"], ""
            return True
    how = "hung" if hung else f"took the process with it ({process.returncode})"
    ran.tests[under_way or f"({module})"] = how, (folder / "said").read_text(errors="replace")[-2000:]
    return not under_way


def wait(process: subprocess.Popen[bytes], output: Path) -> bool:
    """Wait for the process. Return True if it ended by itself. Kills everything that it leaves behind in its session."""
    seen, since = b"", time.monotonic()
    while process.poll() is None and time.monotonic() - since < (ENDING_S_MAX if b'"ended"' in seen else SILENT_S_MAX):
        if INTERRUPTED.wait(0.05):
            break
        with output.open("rb") as lines:
            lines.seek(-min(200, output.stat().st_size), os.SEEK_END)
            last = lines.read()
        if last != seen:
            seen, since = last, time.monotonic()
    ended = process.poll() is not None
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
    return ended


if __name__ == "__main__":
    main()
