"""Hunts for one released bug of `cases.toml`, in a release that has it and in one that does not.

It hunts with the case's strategy in both releases, and with `random` in the bad one, with the same budget. A hunt ends when the
expected finding is confirmed. The exit code is 0 if most hunts in the bad release found it from a plan of the strategy and none
in the good one did.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any, Literal

import msgspec

from bench.news import print_news
from bench.recording import without_variables
from undermine import api
from undermine.campaign.running import Notice
from undermine.config.load import load
from undermine.config.schema import Config, Faults, parse_duration

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples"
RANDOM = "random"
JOBS = 2


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A released bug: the pack, how to hunt, and the expected symptom. It never names the place of the bug."""

    id: str
    pack: str
    bad: dict[str, str]
    good: dict[str, str]
    strategy: str
    budget: str
    finding: str
    symptom: str
    also: str = ""
    """A regular expression for another symptom of the same run. It distinguishes the bug from a lesser one of its kind."""
    faults: dict[str, Any] = {}
    """Settings that replace those of the pack's [faults], such as kinds and errors."""
    variables: Literal["pack", "auto"] = "pack"
    """`auto`: each hunt chooses its variables itself, as `variables = "auto"` says."""


class Found(Exception):
    """The expected finding is confirmed: the hunt is over."""


class Hunt(msgspec.Struct):
    """One hunt with its parameters and its result."""

    strategy: str
    params: dict[str, str]
    seed: int
    found: bool = False
    runs: int = 0
    """Runs of the strategy until the finding's first failing run, or all of them."""
    runs_all: int = 0
    """The same with fault-free runs, re-runs and controls, until the finding was confirmed."""
    time_s: float = 0.0
    symptom: str = ""
    plan: str = ""
    rate: str = ""
    others: list[str] = msgspec.field(default_factory=list)
    """Confirmed findings that the case does not expect."""


class Watcher:
    """Listens to a hunt and ends it when the expected finding is confirmed."""

    def __init__(self, hunt: Hunt, symptom: str, also: str = "") -> None:
        self.hunt = hunt
        self._pattern = re.compile(symptom)
        self._also = re.compile(also)
        self._first: dict[str, tuple[int, str]] = {}
        """For each symptom, the number of strategy runs until it first showed, and that run's plan."""
        self._whole: set[str] = set()
        """Symptoms that came together with one that matches `also`."""

    def __call__(self, news: Notice) -> None:
        print_news(news)
        if news.kind == "done":
            self._count(news)
        elif news.kind == "confirmed":
            self._confirmed(str(news.data["symptom"]), str(news.data["rate"]))

    def _count(self, news: Notice) -> None:
        self.hunt.runs_all += 1
        if news.data["strategy"] == self.hunt.strategy:
            self.hunt.runs += 1
            if symptom := news.data["symptom"]:
                self._first.setdefault(symptom, (self.hunt.runs, news.text))
                if any(map(self._also.search, news.data["symptoms"])):
                    self._whole.add(symptom)

    def _confirmed(self, symptom: str, rate: str) -> None:
        if not self._pattern.search(symptom) or symptom not in self._whole:
            self.hunt.others.append(f"{symptom} ({self._first.get(symptom, (0, 'a fault at rest'))[1]}, {rate})")
            return
        self.hunt.found, self.hunt.symptom, self.hunt.rate = True, symptom, rate
        self.hunt.runs, self.hunt.plan = self._first[symptom]
        raise Found


def cases() -> dict[str, Case]:
    rows = tomllib.loads((HERE / "cases.toml").read_text())["case"]
    return {case.id: case for case in msgspec.convert(rows, tuple[Case, ...])}


def configuration(case: Case, params: dict[str, str]) -> Config:
    """The pack's configuration for this release, with the case's faults.

    Only cofi gets the pack's variables, which it needs: they could give another strategy's bug away.
    """
    config = load(EXAMPLES / case.pack, params)
    config = config if case.strategy == "cofi" and case.variables == "pack" else without_variables(config)
    config = msgspec.structs.replace(config, auto_variables=case.variables == "auto")
    faults = msgspec.convert({**msgspec.to_builtins(config.faults), **case.faults}, Faults)
    return msgspec.structs.replace(config, faults=faults)


def hunt_once(case: Case, hunt: Hunt) -> Hunt:
    config, begun = configuration(case, hunt.params), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="um-case-") as folder:
        config = msgspec.structs.replace(config, campaign=msgspec.structs.replace(config.campaign, dir=folder))
        budget_s = parse_duration(case.budget)
        try:
            api.hunt(
                config,
                strategies=(hunt.strategy,),
                budget_s=budget_s,
                seed=hunt.seed,
                jobs=JOBS,
                listener=Watcher(hunt, case.symptom, case.also),
            )
        except Found:
            pass
    hunt.time_s = round(time.monotonic() - begun, 1)
    print(_line(hunt), flush=True)
    return hunt


def _line(hunt: Hunt) -> str:
    where = " ".join(f"{name}={value}" for name, value in hunt.params.items())
    cost = f"{hunt.runs} runs ({hunt.runs_all} in all), {hunt.time_s:.0f} s"
    lines = [f"{where}, {hunt.strategy}, seed {hunt.seed}: {'found after' if hunt.found else 'not found,'} {cost}"]
    lines += [hunt.symptom, f"{hunt.plan}, {hunt.rate}"] if hunt.found else []
    return "\n   ".join([*lines, *(f"also: {symptom}" for symptom in hunt.others)])


def prepare(case: Case) -> None:
    """Fetch both releases, if the pack has a script for that."""
    script = EXAMPLES / case.pack / "setup.py"
    for params in (case.bad, case.good):
        if script.exists():
            subprocess.run([sys.executable, script, params["version"]], check=True, stdout=subprocess.DEVNULL)


def main() -> int:
    known = cases()
    if len(sys.argv) < 2 or sys.argv[1] not in known:
        sys.exit(f"name a case: make case CASE=ID, where ID is one of {', '.join(known)}")
    case, times = known[sys.argv[1]], int(sys.argv[2]) if len(sys.argv) > 2 else 1
    print(f"{case.id}: {case.finding}", flush=True)
    prepare(case)
    bad = [hunt_once(case, Hunt(case.strategy, case.bad, seed)) for seed in range(times)]
    good = [hunt_once(case, Hunt(case.strategy, case.good, seed)) for seed in range(times)]
    at_random = [hunt_once(case, Hunt(RANDOM, case.bad, seed)) for seed in range(times)]
    passed = 2 * sum(hunt.found for hunt in bad) > times and not any(hunt.found for hunt in good)
    summary = {
        "bench": "case",
        "case": case.id,
        "of": times,
        "bad_found": sum(hunt.found for hunt in bad),
        "good_found": sum(hunt.found for hunt in good),
        "random_found": sum(hunt.found for hunt in at_random),
        "passed": passed,
        "hunts": msgspec.to_builtins([*bad, *good, *at_random]),
    }
    print(json.dumps(summary))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
