"""Kills a hunt at random moments and resumes it, again and again. Nothing may be left behind, lost or run twice.

Each time the tool is killed, or its guardian, or both, or the user interrupts. Then everything that this hunt has started must
end by itself. If both were killed, the next hunt removes the rest before its first run, so it is asked after the next hunt that
began a run. At last the hunt is resumed once more, and must end well.

    python -m bench.kills 500 0     # 500 kills, seed 0
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from undermine import api
from undermine.deployments import cgroups, sweep
from undermine.deployments.guardian.processes import children_by_file
from undermine.model.errors import UserError
from undermine.store.rundir import RunDir, load_record

KILLS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 0
MOMENT_S_MAX = 8.0
"""A kill comes at most this long after the start: during start-up, fault-free runs, experiments or re-runs."""
END_S_MAX = 30.0
LAST_RUNS = 5
WAYS = {"tool": 6, "guardian": 2, "both": 2, "interrupt": 1}
"""The ways to end a hunt, and how often each is chosen."""
INTERRUPTED = 130
START_UP = "start-up"
Slots = dict[tuple[int, int], int]
"""By round and index of a plan: its run."""


class Hunts:
    """The hunt that is killed and resumed, and everything that went wrong."""

    def __init__(self, project: Path) -> None:
        self.project = project
        self.results = project / ".undermine"
        self.wrong: list[str] = []
        self._number = 0

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        self._number += 1
        resume = ["--resume"] if self.database.exists() else []
        command = [sys.executable, "-m", "undermine", "hunt", "-c", str(self.project), "--budget", "24h", *resume, *options]
        with open(self.project / "output.txt", "wb") as output:
            return subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)

    @property
    def database(self) -> Path:
        return self.results / "latest" / "campaign.db"

    def end(self, tool: subprocess.Popen[bytes], way: str) -> None:
        """End the hunt in this way, and wait until it is gone."""
        guardians = [pid for pid in children_by_file(tool.pid) if _name(pid) == "um-guardian"]
        if way == "interrupt":
            tool.send_signal(signal.SIGINT)
        for pid in guardians if way in ("guardian", "both") else ():
            os.kill(pid, signal.SIGKILL)
        if way in ("tool", "both") or (way == "guardian" and not guardians):
            tool.kill()
        try:
            code = tool.wait(END_S_MAX)
        except subprocess.TimeoutExpired:
            self.note(f"the tool did not end within {END_S_MAX:g} s", way)
            tool.kill()
            code = tool.wait()
        if way == "interrupt" and code != INTERRUPTED:
            self.note(f"exit code {code} after an interrupt", way)

    def note(self, what: str, way: str) -> None:
        self.wrong.append(what)
        print(f"kill {self._number} ({way}): {what}\n{self.output()}", flush=True)

    def output(self) -> str:
        return (self.project / "output.txt").read_text(errors="replace")[-1500:]

    def left(self, tool: int) -> list[str]:
        """The processes, temporary folders and cgroups of this hunt."""
        marker = b"UNDERMINE_CAMPAIGN=" + os.fsencode(self.results.resolve())
        found = [f"process {pid}" for pid in sweep._own_processes() if marker in sweep._environ(pid)]
        found += map(str, Path(tempfile.gettempdir()).glob(f"um-{tool}-*"))
        top = cgroups.mount()
        return found + [str(path) for path in (top.glob(f"{cgroups.PREFIX}{tool}-*") if top else ())]

    def slots(self) -> Slots:
        """The plans that have a run."""
        if not self.database.exists():
            return {}
        with sqlite3.connect(self.database) as db:
            return {(a, b): run for a, b, run in db.execute("SELECT round, idx, run FROM slots WHERE run IS NOT NULL")}

    def last_run(self) -> int:
        """The number of the last run that was begun; 0 if there is none."""
        if not self.database.exists():
            return 0
        with sqlite3.connect(self.database) as db:
            return int(db.execute("SELECT COALESCE(MAX(run), 0) FROM runs").fetchone()[0])

    def interrupted(self, before: int) -> str:
        """The kind of run that a kill interrupted. `before` is the last run of the hunts before."""
        if not self.database.exists():
            return START_UP
        with sqlite3.connect(self.database) as db:
            query = "SELECT r.kind, x.state = 'done' FROM runs x JOIN rounds r USING (round) WHERE x.run > ? ORDER BY x.run DESC"
            row = db.execute(query, (before,)).fetchone()
        return START_UP if row is None else "between runs" if row[1] else str(row[0])

    def look_for_losses(self, before: Slots, way: str) -> Slots:
        """Compare the stored runs with those before; read the record of each new one."""
        now = self.slots()
        if not before.items() <= now.items():
            self.note(f"{len(before.items() - now.items())} stored runs were lost or repeated", way)
        for run in {run for slot, run in now.items() if slot not in before}:
            try:
                load_record(RunDir(self.database.parent / "runs" / f"{run:06d}"))
            except UserError as error:
                self.note(str(error), way)
        return now

    def check_database(self) -> None:
        with sqlite3.connect(self.database) as db:
            answer = db.execute("PRAGMA integrity_check").fetchone()[0]
            twice = db.execute(
                "SELECT COUNT(*) FROM (SELECT 1 FROM runs WHERE status NOT IN ('broken', 'not_fired') "
                "GROUP BY round, idx HAVING COUNT(*) > 1)"
            ).fetchone()[0]
        if answer != "ok":
            self.wrong.append(f"the database is damaged: {answer}")
        if twice:
            self.wrong.append(f"{twice} plans have two runs")


def main() -> int:
    rng = random.Random(SEED)
    begun = time.monotonic()
    made: Counter[str] = Counter()
    interrupted: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="um-bench-") as folder:
        hunts = Hunts(api.demo_config(Path(folder, "granary")))
        stored: Slots = {}
        pending: list[int] = []
        for number in range(1, KILLS + 1):
            way = rng.choices(list(WAYS), list(WAYS.values()))[0]
            last_before = hunts.last_run()
            tool = hunts.start()
            time.sleep(rng.uniform(0.0, MOMENT_S_MAX))
            if tool.poll() is not None:
                hunts.note(f"the tool ended by itself with exit code {tool.returncode}", "none")
            hunts.end(tool, way)
            made[way] += 1
            interrupted[hunts.interrupted(last_before)] += 1
            if way == "both":
                pending.append(tool.pid)
            else:
                removed = pending if hunts.last_run() > last_before else []  # else it was killed before it removed the rest
                await_nothing_left(hunts, [*removed, tool.pid], way)
                removed.clear()
            stored = hunts.look_for_losses(stored, way)
            if number % 25 == 0:
                print(f"{number} kills, {len(stored)} runs stored, {len(hunts.wrong)} defects", flush=True)
        last = hunts.start("--max-runs", str(LAST_RUNS))
        if (code := last.wait()) not in (0, 1):
            hunts.note(f"exit code {code} of the last hunt", "none")
        await_nothing_left(hunts, [*pending, last.pid], "none")
        stored = hunts.look_for_losses(stored, "none")
        hunts.check_database()
    summary = {
        "bench": "kills",
        "kills": dict(made),
        "interrupted": dict(interrupted),
        "runs_stored": len(stored),
        "defects": dict(Counter(hunts.wrong)),
        "duration_s": round(time.monotonic() - begun),
    }
    print(json.dumps(summary))
    return 1 if hunts.wrong else 0


def await_nothing_left(hunts: Hunts, tools: list[int], way: str) -> None:
    """Wait until nothing of these tools is left."""
    for tool in tools:
        if not wait_until(lambda: not hunts.left(tool)):  # noqa: B023 - called at once
            hunts.note(f"left behind: {', '.join(hunts.left(tool))}", way)


def wait_until(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + END_S_MAX
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


if __name__ == "__main__":
    sys.exit(main())
