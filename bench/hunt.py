"""Hunts with all strategies on several targets: how the budget is spent and how fast findings come, beside another checkout.

Each target is hunted with each seed. With `--against`, the command of another checkout hunts at the same time, so that a busy
machine slows both down alike. The figures of all hunts are computed here, from the stored campaigns. Experiments that hit what an
earlier run had hit count as run twice. `bench.repeats` finds them without the tool's own rules.

All hunts together take hours. With `--campaigns FOLDER`, their campaigns are kept there, and a hunt that has ended is not run
again. So the bench can be stopped and continued, and `bench.triage` can judge the findings of the same campaigns.

    python -m bench.hunt --targets granary rq --budget 10m --seeds 0 1 2 --against ../before --campaigns ../hunts
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from bench.processes import linked
from bench.repeats import repeating
from bench.table import table
from undermine.config.schema import parse_duration
from undermine.model.rounds import RERUNS, RoundKind
from undermine.store.campaign_dirs import open_store
from undermine.store.database import CampaignStore

HERE = Path(__file__).parents[1]


class Pack(msgspec.Struct, frozen=True):
    """A folder with an `undermine.toml`, relative to a checkout, and the parameters to hunt with."""

    folder: str
    params: dict[str, str] = {}


PACKS = {
    "granary": Pack("examples/granary"),
    "pysyncobj": Pack("examples/pysyncobj", {"version": "0.3.17"}),
    "rq": Pack("examples/rq", {"version": "1.16.1"}),
    "zookeeper": Pack("examples/zookeeper", {"version": "3.6.3"}),
}
LIMIT_FACTOR = 4
"""A hunt that takes this many times its budget is ended."""


class Figures(msgspec.Struct, frozen=True):
    """The figures of one hunt."""

    target: str
    checkout: str
    seed: int
    landings: dict[str, int]
    """By strategy: its experiments with a fault that took effect, without those that repeat an earlier run."""
    twice: int
    """Experiments whose faults hit what those of an earlier run had hit. A plan that didn't fire in full is tried again, so such
    runs don't count."""
    not_fired_share: float
    confirm_share: float
    """The part of the time of all rounds that confirmations, controls and realism checks took."""
    between_share: float
    """The part of the campaign's time in which no run was under way: the tool analysed and chose."""
    experiments_per_min: float
    findings: dict[str, float]
    """By title of a believed finding: the seconds from the begin of the campaign to its first failing run."""


def main() -> int:
    options = arguments()
    checkouts = {"now": HERE} | ({"before": options.against.resolve()} if options.against else {})
    for home in checkouts.values():
        for target in options.targets:
            set_up(home, PACKS[target])
    found: list[Figures] = []
    with tempfile.TemporaryDirectory(prefix="um-bench-") as scratch:
        folder = options.campaigns.resolve() if options.campaigns else Path(scratch)
        for seed in options.seeds:
            for target in options.targets:
                for checkout, campaign in campaigns(checkouts, target, PACKS[target], seed, options.budget, folder):
                    found.append(figures(target, checkout, seed, campaign))
                    print(msgspec.json.encode(found[-1]).decode(), flush=True)
    print(shown(found))
    print(json.dumps({"bench": "hunt", "budget": options.budget, "seeds": options.seeds, "targets": summary(found)}))
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-hunt", description=__doc__)
    parser.add_argument("--targets", nargs="+", choices=sorted(PACKS), default=sorted(PACKS))
    parser.add_argument("--budget", default="10m")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--against", type=Path, help="the folder of another checkout with its own .venv")
    parser.add_argument("--campaigns", type=Path, help="keep the campaigns here; a hunt that is here already isn't run again")
    options = parser.parse_args()
    parse_duration(options.budget)
    return options


def set_up(home: Path, pack: Pack) -> None:
    """Fetch the pack's release, with the script of this checkout's pack."""
    script = home / pack.folder / "setup.py"
    if script.exists():
        subprocess.run([home / ".venv/bin/python", script, *pack.params.values()], check=True, stdout=subprocess.DEVNULL)


def campaigns(
    checkouts: dict[str, Path], target: str, pack: Pack, seed: int, budget: str, folder: Path
) -> Iterator[tuple[str, Path]]:
    """Hunt with the commands of all checkouts at the same time; yield the name and the campaign of each.

    A hunt that has ended in this folder before isn't run again.
    """
    places = {name: folder / f"{target}-{name}-{seed}" for name in checkouts}
    missing = [name for name, place in places.items() if not place.exists()]
    with ThreadPoolExecutor() as pool:
        for _ in pool.map(lambda name: hunt(checkouts[name], pack, seed, budget, places[name]), missing):
            pass
    for name, place in places.items():
        yield name, campaign_in(place)


def hunt(home: Path, pack: Pack, seed: int, budget: str, place: Path) -> None:
    """Hunt with the command of a checkout. `place` exists once the hunt has ended."""
    unfinished = place.with_name(f"{place.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    folder = linked(home / pack.folder, unfinished)
    (folder / "undermine.toml").unlink()  # results go to the folder of the real file
    shutil.copy(home / pack.folder / "undermine.toml", folder)
    values = [word for name, value in pack.params.items() for word in ("--set", f"{name}={value}")]
    program = str(home / ".venv/bin/undermine")
    command = [program, "hunt", "-c", str(folder), "--budget", budget, "--seed", str(seed), *values]
    limit_s = LIMIT_FACTOR * parse_duration(budget) + 600
    with open(unfinished / "output.txt", "wb") as output:
        subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, timeout=limit_s, check=False, env=dict(os.environ))
    unfinished.rename(place)


def campaign_in(place: Path) -> Path:
    """The campaign of the hunt that has ended here."""
    found = sorted(place.glob("*/.undermine/campaigns/*"))
    if not found:
        sys.exit(f"the hunt {place.name} began no campaign: {(place / 'output.txt').read_text()[-2000:]}")
    return found[-1]


# --- figures


def figures(target: str, checkout: str, seed: int, campaign: Path) -> Figures:
    with open_store(campaign) as store:
        rows = store.run_rows()
        begun = min(row["started"] for row in rows)
        ended = max(row["ended"] or row["started"] for row in rows)
        proposed = [row for row in rows if row["kind"] is RoundKind.STRATEGY and row["status"] != "broken"]
        landings, twice = landed(store, {row["run"]: row["status"] for row in proposed})
        spent = Counter[bool]()
        for row in rows:
            spent[row["kind"] in RERUNS] += (row["ended"] or row["started"]) - row["started"]
        first = {row["run"]: row["started"] - begun for row in rows}
        return Figures(
            target=target,
            checkout=checkout,
            seed=seed,
            landings=dict(landings),
            twice=twice,
            not_fired_share=share(sum(row["status"] == "not_fired" for row in proposed), len(proposed)),
            confirm_share=share(spent[True], spent[True] + spent[False]),
            between_share=share(ended - begun - covered_s(rows), ended - begun),
            experiments_per_min=round(60 * len(proposed) / max(ended - begun, 1.0), 2),
            findings={f.title: round(first[f.runs[0]], 1) for f in store.findings() if f.believed and f.runs},
        )


def landed(store: CampaignStore, experiments: dict[int, str]) -> tuple[Counter[str], int]:
    """The landings of each strategy, and the number of experiments that repeat an earlier run. `experiments` has the status of
    each run."""
    tried = [one for one in store.tried(()) if one.landed]
    repeats = repeating(store.folder, [one.run for one in tried])
    by_strategy = Counter(one.strategy for one in tried if one.run in experiments and one.run not in repeats)
    return by_strategy, sum(experiments.get(run, "not_fired") != "not_fired" for run in repeats)


def covered_s(rows: Sequence[Mapping[str, Any]]) -> float:
    """The time in which at least one run was under way."""
    total = until = 0.0
    for begun, ended in sorted((row["started"], row["ended"] or row["started"]) for row in rows):
        total += max(ended - max(begun, until), 0.0)
        until = max(until, ended)
    return total


def share(part: float, of: float) -> float:
    return round(part / of, 3) if of else 0.0


# --- tables


def summary(found: Sequence[Figures]) -> list[dict[str, Any]]:
    """The medians over seeds, for each target and checkout."""
    groups: dict[tuple[str, str], list[Figures]] = {}
    for one in found:
        groups.setdefault((one.target, one.checkout), []).append(one)
    rows = []
    for (target, checkout), hunts in groups.items():
        strategies = sorted({name for one in hunts for name in one.landings})
        rows.append(
            {
                "target": target,
                "checkout": checkout,
                "landings": {name: statistics.median(one.landings.get(name, 0) for one in hunts) for name in strategies},
                **{
                    name: statistics.median(getattr(one, name) for one in hunts)
                    for name in ("twice", "not_fired_share", "confirm_share", "between_share", "experiments_per_min")
                },
                "findings": statistics.median(len(one.findings) for one in hunts),
                "first_finding_s": statistics.median(min(one.findings.values(), default=float("nan")) for one in hunts),
            }
        )
    return rows


def shown(found: Sequence[Figures]) -> str:
    shares = ("not fired", "confirming", "between runs")
    head = ("target", "checkout", "landings", "twice", *shares, "experiments/min", "findings", "first after")
    body = [
        (
            row["target"],
            row["checkout"],
            ", ".join(f"{name} {count:g}" for name, count in row["landings"].items()),
            f"{row['twice']:g}",
            f"{row['not_fired_share']:.0%}",
            f"{row['confirm_share']:.0%}",
            f"{row['between_share']:.0%}",
            f"{row['experiments_per_min']:.1f}",
            f"{row['findings']:g}",
            f"{row['first_finding_s']:.0f} s",
        )
        for row in summary(found)
    ]
    return table(head, body)


if __name__ == "__main__":
    sys.exit(main())
