"""The pytest plugin: with the marker `undermine`, a test hunts in a cluster or replays a plan. Never changes other tests.

pytest imports this module in every suite of an environment that has Undermine. So the tool itself is imported only when a marked
test runs.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from undermine import api
    from undermine.config.schema import Config

MARKER = "undermine"
FIXTURE = "undermine_result"
_HELP = (
    f"{MARKER}(config='undermine.toml', budget='60s'): hunt in this cluster, and fail if there are findings. "
    "With replay='plan.json' or a bundle, and times=3: replay it, and fail if the failure comes back."
)


@dataclasses.dataclass(frozen=True)
class Wanted:
    """The arguments of the marker. Paths are relative to the test's file, or else to pytest's root folder."""

    config: str = "undermine.toml"
    budget: str = ""
    """How long to hunt, like `60s`; by default `hunt.budget`."""
    max_runs: int | None = None
    strategies: Sequence[str] = ()
    seed: int | None = None
    jobs: int | None = None
    baseline: str = ""
    """A file with known findings, which don't fail the test."""
    changed_since: str = ""
    """A git commit; faults in functions that changed since it are tried first."""
    replay: str = ""
    """A plan file or a bundle to replay; without it, the test hunts. Only the plan of a bundle is used."""
    times: int = 3
    control: bool = False
    """Replay also without the fault."""
    params: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of a hunt or of a replay, which the fixture `undermine_result` returns."""

    hunt: api.HuntResult | None = None
    replays: tuple[api.ReplayResult, ...] = ()
    problem: str = ""
    """Why the test fails, in words; "" if it passes."""

    def check(self) -> None:
        """Fail the test if the hunt has findings, the failure came back, or the fault never fired."""
        if self.problem:
            pytest.fail(self.problem, pytrace=False)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _HELP)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Hunt or replay before the body of a marked test, unless the test asks for the result and judges it itself."""
    if item.get_closest_marker(MARKER) and FIXTURE not in getattr(item, "fixturenames", ()):
        _result_of(item).check()


@pytest.fixture
def undermine_result(request: pytest.FixtureRequest) -> Result:
    """The result of the hunt or of the replay that the marker `undermine` asks for."""
    return _result_of(request.node)


def _result_of(item: pytest.Item) -> Result:
    from undermine.cli.console import printable
    from undermine.model.errors import UserError

    try:
        wanted = _wanted(item)
        config = _config(item, wanted)
        return _replay(item, wanted, config) if wanted.replay else _hunt(item, wanted, config)
    except UserError as error:
        mistake = printable(f"undermine: {error}")
    pytest.fail(mistake, pytrace=False)  # one sentence, without a traceback through the tool


def _wanted(item: pytest.Item) -> Wanted:
    from undermine.model.errors import UserError

    marker = item.get_closest_marker(MARKER)
    if marker is None:
        raise UserError(f"a test that uses {FIXTURE} needs @pytest.mark.{MARKER}(config=…)")
    try:
        return Wanted(*marker.args, **marker.kwargs)
    except TypeError as error:
        known = ", ".join(field.name for field in dataclasses.fields(Wanted))
        said = str(error).replace("Wanted.__init__()", f"@pytest.mark.{MARKER}")
        raise UserError(f"{said}; its arguments are {known}") from None


def _path(item: pytest.Item, text: str) -> Path:
    """A path of the marker: beside the test's file if it is there, else below the root folder."""
    beside = item.path.parent / text
    return beside if beside.exists() else item.config.rootpath / text


def _config(item: pytest.Item, wanted: Wanted) -> Config:
    from undermine.config.load import load

    return load(_path(item, wanted.config), {name: str(value) for name, value in wanted.params.items()})


def _hunt(item: pytest.Item, wanted: Wanted, config: Config) -> Result:
    from undermine import api
    from undermine.cli.coverage import coverage_words
    from undermine.cli.options import later_options, seconds_of
    from undermine.report.html import write_report
    from undermine.report.text import count

    result = api.hunt(
        config,
        strategies=tuple(wanted.strategies),
        budget_s=seconds_of("budget", wanted.budget, "60s") if wanted.budget else None,
        runs_max=wanted.max_runs,
        seed=wanted.seed,
        jobs=wanted.jobs,
        baseline=_path(item, wanted.baseline) if wanted.baseline else None,
        changed_since=wanted.changed_since,
    )
    folder = Path(result.folder)
    page = write_report(folder)
    item.user_properties.append(("undermine_campaign", folder.name))
    runs = count(sum(result.statuses.values()), "run")
    item.add_report_section("call", MARKER, f"{runs}; {coverage_words(result.coverage)}\nreport: {page}\n")
    lines = []
    if result.believed:
        files = api.results(config, folder.name, options=later_options(Path(config.path), folder.name))
        lines = [f"undermine: {count(len(result.believed), 'finding')} in {runs}; report: {page}"]
        for finding in result.believed:
            lines += ["", f"{finding.id} {files.title(finding)}", files.text(finding)]
    return Result(hunt=result, problem="\n".join(lines))


def _replay(item: pytest.Item, wanted: Wanted, config: Config) -> Result:
    from undermine import api
    from undermine.exchange import unpacking

    path = _path(item, wanted.replay)
    own = _with_own_folder(item, config)
    if path.is_file() and unpacking.is_bundle(path):
        results = [api.replay_bundle(path, own, wanted.times, control=wanted.control)]
    else:
        results = list(api.replay_plans(own, api.read_plans(path), wanted.times, control=wanted.control))
    results = [result if result.fired else _replay_loosely(result, wanted, own) for result in results]
    problem = "\n".join(filter(None, (_problem(result) for result in results)))
    return Result(replays=tuple(results), problem=problem)


def _replay_loosely(missed: api.ReplayResult, wanted: Wanted, config: Config) -> api.ReplayResult:
    """Replay a plan whose moment no longer exists at the most similar operation, since a fix usually changes the moment."""
    from undermine import api
    from undermine.model.plan import looser
    from undermine.report.text import clip

    for plan in looser(missed.plan):
        (result,) = api.replay_plans(config, [plan], wanted.times, control=wanted.control)
        if result.fired:
            text = f"undermine: the exact moment no longer exists, so the test used this plan: {plan}; hunt again for a new one"
            warnings.warn(pytest.PytestWarning(clip(text, 1000)), stacklevel=1)
            return result
    return missed


def _with_own_folder(item: pytest.Item, config: Config) -> Config:
    """A copy whose replays have a folder of their own. Tests of one project may run side by side."""
    import msgspec

    readable = re.sub(r"\W+", "-", item.name)[:40].strip("-")
    digest = hashlib.blake2b(item.nodeid.encode(errors="replace"), digest_size=4).hexdigest()
    folder = config.dir / "pytest" / f"{readable}-{digest}"
    return msgspec.structs.replace(config, campaign=msgspec.structs.replace(config.campaign, dir=str(folder)))


def _problem(result: api.ReplayResult) -> str:
    """Why a test with this replay fails; "" if it passes."""
    from undermine.cli.replay import replay_words
    from undermine.report.text import clean, one_line

    if result.fired and not result.hits:
        return ""
    lines = [("injected", str(result.plan))]
    counted = [run for run in result.runs if run.kind == "fault" and run.counted]
    for symptom in result.symptoms:
        lines.append(("symptom", f"{sum(symptom in run.symptoms for run in counted)} × {symptom}"))
    if shown := next((run for run in counted if run.symptom), None):
        verdicts = [verdict for verdict in shown.verdicts if verdict.answer == "fail"]
        lines += [("evidence", line) for verdict in verdicts for line in (verdict.text, *verdict.evidence[-4:])]
    if not result.fired:
        lines += [(f"run {run.run}", f"{run.status}: {run.reason}") for run in result.runs if run.kind == "fault"]
        lines.append(("hint", "the moment of the fault may no longer exist; if the bug is fixed for good, remove this test"))
    lines.append(("runs", result.folder))
    text = "\n".join(f"{name:<9} {one_line(line, 1000)}" for name, line in lines)
    return clean(f"undermine: {replay_words(result)}\n{text}", 12_000)
