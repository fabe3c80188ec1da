"""Hunts in systems whose findings were judged by reading their source: how many findings are true, and how many share a cause?

`triage.toml` has the labels: for each target, which symptoms have which cause, and whether that is a bug. Each target is hunted
with the default strategies, or `--campaigns` names a folder with campaigns of earlier hunts. A finding without a label is listed
as `not judged`: read the source, add a label, and run the bench again on the same campaigns.

Figures for each target and in total:

* precision: different true bugs, divided by believed findings. A second finding for the same bug lowers it, too, and so does a
  finding that is not judged.
* findings for a cause: believed findings that are true, divided by different true bugs.
* worst in title: findings whose title is the text of the worst of their symptoms, divided by believed findings.

    python -m bench.triage --targets saq,luigi --budget 8m --campaigns ../triage
    python -m bench.triage --targets rq,granary --seeds 0 1 2 --campaigns ../hunts   # judges the campaigns of bench.hunt
    python -m bench.triage --against ../before    # hunts with the command of another checkout at the same time
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from bench.hunt import HERE, PACKS, Pack, campaigns, set_up
from bench.options import some_of
from bench.table import table
from undermine.checkers.compose import rank_of
from undermine.config.schema import parse_duration
from undermine.model.finding import Finding
from undermine.store.campaign_dirs import open_store

TARGETS = {
    **PACKS,
    "celery": Pack("examples/celery", {"version": "5.7.0"}),
    "dask": Pack("examples/dask", {"version": "2026.8.0"}),
    "jgroups-raft": Pack("bench/triage/jgroups-raft"),
    "luigi": Pack("bench/triage/luigi"),
    "saq": Pack("bench/triage/saq"),
}
Judgement = Literal["bug", "by design", "artefact", "pack"]
"""`artefact`: the injection did what no real fault does. `pack`: the workload or a checker of the pack is wrong."""
NOT_JUDGED: Final = "not judged"


class Label(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The judgement about findings of one target. The first label that matches counts."""

    target: str
    symptom: str
    """A regular expression that matches a finding's whole symptom."""
    cause: str
    """Findings with the same cause are the same bug."""
    judgement: Judgement
    because: str
    """The place in the source, or the documentation, that settles it."""
    when: str = ""
    """A regular expression that occurs in the circumstances, if the symptom alone doesn't tell. Findings of older versions have
    no circumstances, so they match."""
    at: str = ""
    """A regular expression that occurs in the text of the plan's triggers, if symptom and circumstances don't tell."""


class Judged(msgspec.Struct, frozen=True):
    """One believed finding with its label."""

    target: str
    checkout: str
    seed: int
    id: str
    name: str
    title: str
    rate: str
    judgement: Judgement | Literal["not judged"]
    cause: str
    worst_in_title: bool


def main() -> int:
    options = arguments()
    labels = read_labels(HERE / "bench" / "triage.toml")
    checkouts = {"now": HERE} | ({"before": options.against.resolve()} if options.against else {})
    with tempfile.TemporaryDirectory(prefix="um-triage-") as scratch:
        folder = options.campaigns.resolve() if options.campaigns else Path(scratch)
        judged: list[Judged] = []
        hunts = Counter[tuple[str, str]]()
        for seed, target in product(options.seeds, options.targets):
            pack = TARGETS[target]
            homes = {name: home for name, home in checkouts.items() if (home / pack.folder / "undermine.toml").exists()}
            for home in homes.values():
                set_up(home, pack)
            for checkout, campaign in campaigns(homes, target, pack, seed, options.budget, folder):
                hunts[checkout, target] += 1
                judged += judge(target, checkout, seed, campaign, labels)
    print(listed(judged))
    print(shown(judged, hunts))
    print(json.dumps({"bench": "triage", "budget": options.budget, "seeds": options.seeds, "figures": figures(judged, hunts)}))
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-triage", description=__doc__.splitlines()[0] if __doc__ else "")
    names = tuple(TARGETS)
    parser.add_argument("--targets", type=some_of(names), default=names, help=f"some of {','.join(names)} (default: all)")
    parser.add_argument("--budget", default="8m")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--against", type=Path, help="the folder of another checkout with its own .venv")
    parser.add_argument("--campaigns", type=Path, help="keep the campaigns here; a hunt that is here already isn't run again")
    options = parser.parse_args()
    parse_duration(options.budget)
    return options


# --- judging


def read_labels(path: Path) -> list[Label]:
    return msgspec.convert(tomllib.loads(path.read_text())["label"], list[Label])


def judge(target: str, checkout: str, seed: int, campaign: Path, labels: Iterable[Label]) -> Iterator[Judged]:
    """The believed findings of a campaign, each with its label."""
    mine = [label for label in labels if label.target == target]
    with open_store(campaign) as store:
        for finding in store.findings():
            if finding.believed:
                label = next((one for one in mine if matches(one, finding)), None)
                yield Judged(
                    target=target,
                    checkout=checkout,
                    seed=seed,
                    id=finding.id,
                    name=finding.name,
                    title=finding.title,
                    rate=finding.rate,
                    judgement=label.judgement if label else NOT_JUDGED,
                    cause=label.cause if label else "",
                    worst_in_title=worst_in_title(finding),
                )


def matches(label: Label, finding: Finding) -> bool:
    where = " ".join(str(step.trigger) for step in finding.plan.steps)
    return (
        re.fullmatch(label.symptom, finding.symptom) is not None
        and (not finding.when or re.search(label.when, finding.when) is not None)
        and re.search(label.at, where) is not None
    )


def worst_in_title(finding: Finding) -> bool:
    """Is no failing verdict worse than the one that gave the finding its title?"""
    failing = [verdict for verdict in finding.verdicts if verdict.answer == "fail"]
    titled = finding.main_verdict
    return titled is not None and all(rank_of(titled).order <= rank_of(verdict).order for verdict in failing)


# --- figures


def figures(judged: Sequence[Judged], hunts: Mapping[tuple[str, str], int]) -> list[dict[str, Any]]:
    """The figures of each target and checkout, and of all targets of a checkout together. `hunts` has the number of hunts."""
    rows = []
    for checkout in sorted({checkout for checkout, _ in hunts}):
        counts = {target: count for (of, target), count in sorted(hunts.items()) if of == checkout}
        for target, count in {**counts, "all": sum(counts.values())}.items():
            found = [one for one in judged if one.checkout == checkout and target in (one.target, "all")]
            rows.append({"checkout": checkout, "target": target, "hunts": count, **figures_of(found)})
    return rows


def figures_of(found: list[Judged]) -> dict[str, Any]:
    """The same bug in two hunts counts twice, since each hunt has a list of its own."""
    count = Counter(one.judgement for one in found)
    bugs = {(one.target, one.seed, one.cause) for one in found if one.judgement == "bug"}
    return {
        "findings": len(found),
        "bugs": len(bugs),
        "precision": round(len(bugs) / len(found), 3) if found else None,
        "findings_for_a_cause": round(count["bug"] / len(bugs), 2) if bugs else None,
        "worst_in_title": round(sum(one.worst_in_title for one in found) / len(found), 3) if found else None,
        "judgements": dict(count),
    }


def listed(judged: Iterable[Judged]) -> str:
    head = ("checkout", "target", "finding", "rate", "judgement", "cause")
    return table(head, [(one.checkout, one.target, f"{one.id} {one.name}", one.rate, one.judgement, one.cause) for one in judged])


def shown(judged: Sequence[Judged], hunts: Mapping[tuple[str, str], int]) -> str:
    head = ("checkout", "target", "hunts", "findings", "bugs", "precision", "for a cause", "worst in title", "judgements")
    return table(
        head,
        [
            (
                row["checkout"],
                row["target"],
                str(row["hunts"]),
                str(row["findings"]),
                str(row["bugs"]),
                "-" if row["precision"] is None else f"{row['precision']:.0%}",
                "-" if row["findings_for_a_cause"] is None else f"{row['findings_for_a_cause']:.2f}",
                "-" if row["worst_in_title"] is None else f"{row['worst_in_title']:.0%}",
                ", ".join(f"{name} {count}" for name, count in sorted(row["judgements"].items())),
            )
            for row in figures(judged, hunts)
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
