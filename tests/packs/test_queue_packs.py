"""The packs for RQ, Celery, Dask and PySyncObj: their setup, how they read recorded runs, and that their checkers can fail."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from undermine import packs
from undermine.config.load import load
from undermine.model.faults import Crash, Fault, Partition
from undermine.model.plan import At, Plan, Step
from undermine.model.run import Op, Receipt, Verdict
from undermine.testing import event, point, run_view
from undermine.userland import registry

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def module(pack: str, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{pack}_pack_{name}", EXAMPLES / pack / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def hunt_of(pack: str, folder: Path) -> ModuleType:
    """The plug-in file as the tool loads it, in a folder without a fetched release."""
    path = list(sys.path)
    for name in (EXAMPLES / pack).glob("*.[pt][yo]*"):
        shutil.copy(name, folder)
    try:
        made: ModuleType = registry.load(folder / "hunt.py").module
        return made
    finally:
        sys.path[:] = path


@pytest.fixture(scope="module")
def rq_hunt(tmp_path_factory: pytest.TempPathFactory) -> Any:
    pytest.importorskip("redis")
    return hunt_of("rq", tmp_path_factory.mktemp("rq"))


@pytest.fixture(scope="module")
def dask_hunt(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return hunt_of("dask", tmp_path_factory.mktemp("dask"))


# --- fetching


@pytest.mark.parametrize("pack", ["rq", "celery", "dask", "pysyncobj"])
@pytest.mark.parametrize("version", ["latest", "1.16; rm", "../1.16", ""])
def test_an_invalid_version_is_refused(pack: str, version: str) -> None:
    with pytest.raises(SystemExit, match="is not a version"):
        module(pack, "setup").ensure(version)


@pytest.mark.parametrize("pack", ["rq", "celery"])
def test_without_redis_it_says_what_to_install(pack: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    setup = module(pack, "setup")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(setup, "HERE", tmp_path)
    with pytest.raises(SystemExit, match="no program redis-server: install it, on Debian by"):
        setup.ensure("1.16.1")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The requirements that were fetched. Fetching creates an empty folder, and the newest release is 9.1."""
    made: list[str] = []

    def fetch(requirement: str, folder: Path, *options: str) -> None:
        made.append(requirement)
        folder.mkdir()

    monkeypatch.setattr(packs, "pip_install", fetch)
    monkeypatch.setattr(packs, "newest_release", lambda project: "9.1")
    monkeypatch.setattr(packs, "need_program", lambda name, advice: name)
    return made


def test_a_release_that_is_there_is_not_fetched_again(
    fetched: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    setup = module("rq", "setup")
    monkeypatch.setattr(setup, "HERE", tmp_path)
    newest = setup.ensure("newest")
    assert newest == tmp_path / "versions" / "9.1"
    assert fetched == ["redis==8.1.0", "rq==9.1"]
    assert setup.ensure("9.1") == newest
    assert fetched == ["redis==8.1.0", "rq==9.1"]
    assert sorted(path.name for path in (tmp_path / "versions").iterdir()) == ["9.1"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["client", "versions"]


def test_a_release_that_cannot_be_fetched_leaves_no_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    setup = module("dask", "setup")
    monkeypatch.setattr(setup, "HERE", tmp_path)
    monkeypatch.setattr(packs, "_PIP", ("false",))
    with pytest.raises(SystemExit, match=r"pip cannot install distributed==1\.0; .*pip index versions distributed`"):
        setup.ensure("1.0")
    assert list((tmp_path / "versions").iterdir()) == []


def test_without_arguments_the_configured_release_is_fetched(
    fetched: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "undermine.toml").write_text('[params]\nversion = "1.2"\n')
    monkeypatch.setattr(sys, "argv", ["setup.py"])
    packs.run(tmp_path, lambda version: packs.ensure_release(tmp_path, "system", version, "1.0"))
    assert fetched == ["system==1.2"]
    assert capsys.readouterr().out == f"{tmp_path}/versions/1.2\n"


@pytest.mark.parametrize("pack", ["rq", "celery", "dask"])
def test_the_configuration_is_sound(pack: str) -> None:
    config = load(EXAMPLES / pack)
    assert config.params["version"]
    assert [config.runtime(role).name for role in config.roles] == (
        ["python", "python"] if pack == "dask" else ["none", "python"]
    )


# --- RQ


def ran(job: str, begin: int, end: int, worker: str = "w1") -> dict[str, Any]:
    return {"job": job, "worker": worker, "pid": begin, "begin_ns": begin, "end_ns": end}


def told(f: str, value: Any, **more: Any) -> Op:
    return Op(0, "final", f, "redis", {}, "ok", value, phase="final", start_ns=9, end_ns=10, **more)


def rq_view(runs: list[dict[str, Any]], failed: list[str], *, crashed: bool = False) -> Any:
    plan = Plan((Step(At(point()), Crash()),)) if crashed else Plan()
    receipts = [Receipt(0, "w1", "crash", 1)] if crashed else []
    return run_view(plan, ops=[told("runs", runs), told("failed", failed)], receipts=receipts)


def answers(hunt: Any, view: Any) -> dict[str, str]:
    checks = (
        hunt.run_again_only_after_a_failure,
        hunt.never_by_two_at_a_time,
        hunt.what_was_done_is_not_declared_failed,
    )
    verdicts: list[Verdict] = [check(view) for check in checks]
    return {verdict.symptom or verdict.answer: verdict.text for verdict in verdicts}


def test_jobs_that_ran_once_pass(rq_hunt: Any) -> None:
    assert set(answers(rq_hunt, rq_view([ran("a", 1, 2), ran("b", 1, 0)], ["b"]))) == {"pass"}


def test_a_job_that_was_done_and_declared_failed(rq_hunt: Any) -> None:
    assert "live job declared failed" in answers(rq_hunt, rq_view([ran("a", 1, 2)], ["a"]))
    assert set(answers(rq_hunt, rq_view([ran("a", 1, 2)], ["a"], crashed=True))) == {"pass"}


def test_a_job_that_was_done_twice(rq_hunt: Any) -> None:
    twice = [ran("a", 1, 2), ran("a", 3, 4, "w2")]
    assert "job run twice" in answers(rq_hunt, rq_view(twice, []))
    assert set(answers(rq_hunt, rq_view(twice, [], crashed=True))) == {"pass"}
    assert set(answers(rq_hunt, rq_view([ran("a", 1, 0), ran("a", 3, 4)], []))) == {"pass"}


def test_a_job_that_two_workers_run_at_once(rq_hunt: Any) -> None:
    both = [ran("a", 1, 5), ran("a", 3, 9, "w2")]
    assert "job run by two workers at a time" in answers(rq_hunt, rq_view(both, [], crashed=True))


def test_the_file_of_a_worker_is_read(rq_hunt: Any, tmp_path: Path) -> None:
    lines = [("a", "begin", 1, 7), ("a", "end", 2, 7), ("b", "begin", 3, 8), ("c", "begin", 4, 7), ("d", "begin", 5, 7)]
    text = "".join(json.dumps({"job": j, "what": w, "t_ns": t, "pid": p}) + "\n" for j, w, t, p in lines)
    (tmp_path / "w1.ran").write_text(text)
    session = SimpleNamespace(
        role=lambda role: [SimpleNamespace(id="w1", dir=f"{tmp_path}/w1"), SimpleNamespace(id="w2", dir="/no")]
    )
    found = rq_hunt.runs(session)
    assert sorted((run.job, run.begin_ns, run.end_ns) for run in found) == [
        ("a", 1, 2),
        ("b", 3, 0),
        ("c", 4, 0),
        ("d", 5, 0),
    ]


class FakePipeline:
    """Answers every read with one entry that names the key."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def __enter__(self) -> FakePipeline:
        return self

    def __exit__(self, *raised: object) -> None:
        pass

    def read(self, key: str, first: int, last: int) -> None:
        self.keys.append(key)

    lrange = zrange = read

    def execute(self) -> list[list[bytes]]:
        return [[f"job in {key}:execution".encode()] for key in self.keys]


def test_jobs_are_looked_for_in_every_queue(rq_hunt: Any) -> None:
    connection = SimpleNamespace(pipeline=FakePipeline)
    registries = {f"{name}_job_registry": name for name in rq_hunt.REGISTRIES}
    work = [
        SimpleNamespace(
            key=queue,
            connection=connection,
            **{name: SimpleNamespace(key=f"{registry} {queue}") for name, registry in registries.items()},
        )
        for queue in ("jobs", "more")
    ]
    found = rq_hunt.places(work)
    assert found["queue"] == ["job in jobs", "job in more"]
    assert found["failed"] == ["job in failed jobs", "job in failed more"]
    assert set(found) == {"queue", "intermediate", *rq_hunt.REGISTRIES}


@pytest.mark.parametrize(("named", "left", "expected"), [(False, False, set()), (False, True, {"a"}), (True, False, {"a"})])
def test_a_started_job_is_given_up_if_its_worker_is_dead(
    rq_hunt: Any, monkeypatch: pytest.MonkeyPatch, named: bool, left: bool, expected: set[str]
) -> None:
    """A job that does not name its worker is given up later: the worker may be slow."""
    fields = {("rq:job:a", "worker_name"): b"w1", ("rq:worker:w1", "pid"): b"7"} if named else {}
    connection = SimpleNamespace(hget=lambda key, field: fields.get((key, field)))
    monkeypatch.setattr(rq_hunt, "places", lambda work: {"started": ["a"], "failed": [], "intermediate": []})
    monkeypatch.setattr(rq_hunt, "lives", lambda pid: pid != 7)
    assert rq_hunt.given_up([SimpleNamespace(connection=connection)], left) == expected


def test_each_run_of_a_job_is_recorded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    jobs = module("rq", "jobs")
    monkeypatch.setenv(jobs.LOG, str(tmp_path / "log"))
    assert jobs.work("a", 0) == "a"
    noted = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [(line["job"], line["what"]) for line in noted] == [("a", "begin"), ("a", "end")]


# --- Celery


@pytest.fixture(scope="module")
def celery_hunt(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return hunt_of("celery", tmp_path_factory.mktemp("celery"))


@pytest.mark.parametrize(("ran", "symptom"), [(["a", "b", "last"], ""), (["a", "last"], "accepted task lost")])
def test_an_accepted_task_that_never_ran_is_lost(celery_hunt: Any, ran: list[str], symptom: str) -> None:
    submitted = [did("submit", task, task=task) for task in "ab"] + [did("submit", None, "unknown", task="c")]
    assert celery_hunt.no_task_is_lost(run_view(ops=[*submitted, did("ran", ran, phase="final")])).symptom == symptom
    assert celery_hunt.no_task_is_lost(run_view(ops=submitted)).answer == "unknown"


class FakeCelery(FakePipeline):
    """A queue with task a, and task b that a worker has taken."""

    def hvals(self, key: str) -> None:
        self.keys.append(key)

    def execute(self) -> list[list[bytes]]:
        waiting, taken = ({"headers": {"id": task}} for task in "ab")
        return [[json.dumps(waiting).encode()], [json.dumps([taken, "exchange", "celery"]).encode()]]


def test_redis_has_the_tasks_that_wait_and_those_that_a_worker_has_taken(celery_hunt: Any) -> None:
    assert celery_hunt.known(SimpleNamespace(pipeline=FakeCelery)) == {"a", "b"}


def test_only_complete_runs_of_tasks_count(celery_hunt: Any, tmp_path: Path) -> None:
    lines = [{"task": task, "what": what} for task, what in (("a", "begin"), ("a", "end"), ("b", "begin"))]
    (tmp_path / "w1.ran").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert celery_hunt.done_in(tmp_path / "w1.ran") == ["a"]
    assert celery_hunt.done_in(tmp_path / "w2.ran") == []


# --- Dask


def did(f: str, value: Any, status: str = "ok", phase: str = "workload", **args: Any) -> Op:
    return Op(0, "c", f, "", args, status, value, phase=phase, start_ns=1, end_ns=2)  # type: ignore[arg-type]


def test_a_wrong_result_is_seen(dask_hunt: Any) -> None:
    right = did("compute", [1, 2], right=[1, 2])
    assert dask_hunt.results_are_right(run_view(ops=[right])).answer == "pass"
    assert (
        dask_hunt.results_are_right(run_view(ops=[right, did("compute", [2, 1], right=[1, 2])])).symptom
        == "wrong result"
    )
    assert dask_hunt.results_are_right(run_view(ops=[did("compute", None, "unknown", right=1)])).answer == "unknown"


@pytest.mark.parametrize(
    ("fault", "waited_s", "symptom"),
    [
        (Partition(("w1",)), 7, ""),
        (Partition(("w1",)), 10, "computation waits for an unreachable worker"),
        (Partition(("w1", "w2")), 10, ""),
        (Partition(("sched",)), 10, ""),
        (Crash(), 10, ""),
    ],
)
def test_a_computation_ends_without_one_worker(dask_hunt: Any, fault: Fault, waited_s: int, symptom: str) -> None:
    at = event("net.send", node="w1", t_ns=10**9)
    op = Op(0, "c", "compute", "", {}, "unknown", start_ns=1, end_ns=at.t_ns + waited_s * 10**9)
    judged = dask_hunt.computations_end_without_one_worker(run_view(ops=[op], events=[at], faults=[(fault, at)]))
    assert judged.symptom == symptom


@pytest.mark.parametrize(
    ("gets", "rest", "symptom"),
    [
        (["a", "b"], [], ""),
        (["a"], ["b"], ""),
        (["a", "a"], ["b"], "queue item twice"),
        (["a"], ["a"], "queue item twice"),
        (["a"], [], "queue item lost"),
    ],
)
def test_items_of_a_queue(dask_hunt: Any, gets: list[str], rest: list[str], symptom: str) -> None:
    puts = [did("put", None, job=item) for item in "ab"]
    ops = [*puts, *(did("get", item) for item in gets), did("rest", rest, phase="final")]
    assert dask_hunt.items_come_once(run_view(ops=ops)).symptom == symptom
    unsure = [*ops, did("get", None, "unknown")]
    assert dask_hunt.items_come_once(run_view(ops=unsure)).symptom == ("" if symptom == "queue item lost" else symptom)


def test_parts_of_the_workload(dask_hunt: Any) -> None:
    assert dask_hunt.parts("all") == set(dask_hunt.PARTS)
    assert dask_hunt.parts("map, lock") == {"map", "lock"}
    with pytest.raises(ValueError, match="there is no part 'mop'"):
        dask_hunt.parts("mop")


def test_dasks_workers_and_clients_choose_the_same_lease(dask_hunt: Any) -> None:
    """Dask reads the lease time where a lock is created: in a task on a worker, or in the workload."""
    env = load(EXAMPLES / "dask", programs=False).roles["worker"].env
    assert env["DASK_DISTRIBUTED__SCHEDULER__LOCKS__LEASE_TIMEOUT"] == f"{dask_hunt.LEASE_S:g}s"
