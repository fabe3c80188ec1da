"""The ZooKeeper pack: its setup, the order of its workload, and that its checkers can fail. No server is started."""

from __future__ import annotations

import importlib.util
import itertools
import threading
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from undermine.config.load import load
from undermine.model.errors import UserError
from undermine.model.run import Op
from undermine.testing import run_view

PACK = Path(__file__).resolve().parents[2] / "examples" / "zookeeper"


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"zookeeper_pack_{name}", PACK / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


course, members, promises, setup = (module(name) for name in ("course", "members", "promises", "setup"))


# -- fetching


def dependencies(text: str, where: str) -> list[dict[str, str]]:
    space = "{http://maven.apache.org/POM/4.0.0}"
    path = "/".join(f"{space}{name}" for name in where.split("/"))
    return [
        {field.tag.removeprefix(space): field.text or "" for field in one}
        for one in ElementTree.fromstring(text).findall(path)
    ]


def test_the_project_asks_for_the_release_and_takes_other_versions_from_it() -> None:
    text = setup.pom([("org.apache.zookeeper", "zookeeper", "3.9.2"), ("some", "thing", "")], "3.9.2")
    release, thing = dependencies(text, "dependencies/dependency")
    assert (release["artifactId"], release["version"]) == ("zookeeper", "3.9.2")
    assert "version" not in thing
    (managed,) = dependencies(text, "dependencyManagement/dependencies/dependency")
    assert (managed["version"], managed["scope"], managed["type"]) == ("3.9.2", "import", "pom")


def test_versions_are_compared_as_numbers() -> None:
    assert setup.numbers("3.10.0") > setup.SINCE > setup.numbers("3.5.10")
    assert setup.numbers("3.5.4-beta") == (3, 5, 4)


@pytest.mark.parametrize("version", ["latest", "3.6.3; rm", "../3.6.3", ""])
def test_an_invalid_version_is_refused(version: str) -> None:
    with pytest.raises(SystemExit, match="is not a version"):
        setup.ensure(version)


def test_without_maven_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(setup, "HERE", tmp_path)
    with pytest.raises(SystemExit, match=r"no program mvn: install Maven"):
        setup.ensure("3.6.3")
    assert list((tmp_path / "versions").iterdir()) == []


def test_jars_that_let_it_log_and_jars_for_other_machines() -> None:
    assert setup.missing_binding(["slf4j-api-1.7.25.jar", "slf4j-log4j12-1.7.25.jar"]) == ()
    assert setup.missing_binding(["slf4j-api-1.7.35.jar"]) == setup.RELOAD4J
    assert setup.missing_binding(["slf4j-api-2.0.13.jar"]) == setup.LOGBACK
    assert setup.is_for_another_machine("netty-tcnative-boringssl-static-2.0.61.Final-osx-x86_64.jar")
    assert not setup.is_for_another_machine("netty-tcnative-boringssl-static-2.0.61.Final.jar")
    assert not setup.is_for_another_machine("netty-transport-native-epoll-4.1.105.Final-linux-x86_64.jar")


def test_the_archive_is_made_with_the_collector_and_heap_of_the_nodes() -> None:
    assert setup.settings() == ["-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]


def test_a_release_that_was_not_fetched_is_named_with_the_command_that_fetches_it(tmp_path: Path) -> None:
    (java := tmp_path / "java").write_text("")
    java.chmod(0o755)
    with pytest.raises(
        UserError, match=r"versions/3\.0\.0/\*\", which is empty; run `python setup.py 3\.0\.0`"
    ):
        load(PACK / "undermine.toml", {"version": "3.0.0", "java": str(java)})


def test_the_configuration_is_valid_and_names_the_parts() -> None:
    config = load(PACK / "undermine.toml", {}, programs=False)
    assert config.node_ids == ("zk1", "zk2", "zk3")
    assert course.LATE in config.node_ids
    assert config.params["late"] == course.LATE
    assert course.parts(str(config.params["work"])) == set(course.PARTS)


# -- how the workload goes


def test_parts_of_the_workload_are_chosen_by_name() -> None:
    assert course.parts("all") == set(course.PARTS)
    assert course.parts("kv, late") == {"kv", "late"}
    assert course.parts("all, rolling") == {*course.PARTS, "rolling"}
    assert course.parts("none") == set()
    with pytest.raises(ValueError, match="no part 'kvs'"):
        course.parts("kvs")


@pytest.fixture
def all_begun(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(course, "THINK_S", 0)
    monkeypatch.setattr(course, "REST_S", 4.0)  # less than the workload has, and more than a busy machine needs

    def make(late: bool) -> Any:
        made = course.Course(late)
        for stage in course.STAGES:
            made.begin(stage)
        return made

    return make


def test_a_client_of_the_late_server_leaves_the_first_stage_out(all_begun: Any) -> None:
    everything = list(range(len(course.STAGES) * course.ROUNDS))
    assert list(all_begun(late=True).rounds("zk1")) == everything
    assert list(all_begun(late=True).rounds(course.LATE)) == everything[course.ROUNDS :]
    assert list(all_begun(late=False).rounds(course.LATE)) == everything


def test_a_client_tries_until_it_reaches_its_server_or_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([False, False, True, False])
    assert course.insist(lambda: next(answers))
    monkeypatch.setattr(course, "INSIST_S", 0.0)
    assert not course.insist(lambda: next(answers))
    assert next(answers, None) is None


class WatchedCondition(threading.Condition):
    """Tells when a thread begins to wait."""

    def __init__(self, waits: Callable[[], None]) -> None:
        super().__init__()
        self._waits = waits

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        self._waits()
        return super().wait_for(predicate, timeout)


def test_nobody_is_at_anything_while_there_is_rest(all_begun: Any) -> None:
    made, at_it, may_end, asks = all_begun(late=False), threading.Event(), threading.Event(), threading.Event()
    done: list[int] = []

    def use() -> None:
        for number in made.rounds("zk1"):
            at_it.set()
            may_end.wait()
            done.append(number)

    def waits() -> None:
        if threading.current_thread() is not client:
            may_end.set()  # rest has begun, while the client is at something
        elif made._resting:
            asks.set()

    client = threading.Thread(target=use)
    made._changed = WatchedCondition(waits)
    client.start()
    at_it.wait()
    with made.rest():
        assert done == [0]
        asks.wait()
        with made._changed:  # the client asks for its next round, and has left the lock to others
            assert not made._busy
        assert done == [0]
    client.join()
    assert len(done) == len(course.STAGES) * course.ROUNDS


def test_a_client_that_stops_is_not_waited_for(all_begun: Any) -> None:
    made = all_begun(late=False)
    for _ in made.rounds("zk1"):
        break
    begun = time.monotonic()
    with made.rest():
        assert time.monotonic() - begun < course.REST_S


def test_functions_that_prepare_a_server_are_recognised() -> None:
    assert members.prepares(":Member.replace")
    assert not members.prepares("org.apache.zookeeper.server.quorum:Leader.lead")
    assert not members.prepares("")


def test_nobody_begins_anything_when_time_is_over(all_begun: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(course, "WORKLOAD_S", 0)
    assert list(all_begun(late=False).rounds("zk1")) == []


def test_the_mode_of_a_server() -> None:
    assert members.field_of("Mode", "Zookeeper version: 3.6.3\nMode: leader\nNode count: 5\n") == "leader"
    assert members.field_of("Mode", "This ZooKeeper instance is not currently serving requests\n") == ""
    assert members.field_of("Mode", "") == ""


def test_servers_agree_if_all_answer_with_the_same_zxid(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: dict[str, str] = {}
    monkeypatch.setattr(members, "ask", lambda node, word: answers[node])
    for said, agree in (
        (("Zxid: 0x100000001", "Zxid: 0x100000001"), True),
        (("Zxid: 0x100000001", "Zxid: 0x100000002"), False),
        (("Zxid: 0x100000001", ""), False),
        (("", ""), False),
    ):
        answers.update(zip(("zk1", "zk2"), said, strict=True))
        assert members.agree(("zk1", "zk2")) is agree


@pytest.mark.parametrize(
    ("wish", "state", "stopped"),
    [
        (None, None, False),
        (None, "0 stopped", True),
        (None, "0 running", False),
        ("12 stop", "12 stopped", True),
        ("12 start", "0 stopped", False),
        ("12 start", "12 running", False),
        ("12 stop", "1 stopped", False),
        ("12 stop", "", False),
    ],
)
def test_a_member_is_stopped_if_it_answered_the_last_wish_so(
    tmp_path: Path, wish: str | None, state: str | None, stopped: bool
) -> None:
    node = SimpleNamespace(id="zk3", dir=str(tmp_path / "zk3"))
    for name, text in (("wish", wish), ("state", state)):
        if text is not None:
            (tmp_path / f"zk3.{name}").write_text(text)
    assert members.stopped(node) is stopped


def test_a_wish_that_nobody_answers_is_an_error_and_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "WISH_S", 0)
    node = SimpleNamespace(id="zk3", dir=str(tmp_path / "zk3"))
    assert members.wished(node) == ""
    with pytest.raises(TimeoutError, match="zk3 does not stop"):
        members.wish(node, "stop")
    assert members.wished(node) == "stop"


# -- what is promised


def ops(*made: tuple[Any, ...]) -> tuple[Op, ...]:
    """Operations one after the other: name, node, value, and what else differs."""
    counter = itertools.count(1)
    history = []
    for f, node, value, *more in made:
        index = next(counter)
        fields: dict[str, Any] = {"status": "ok", "phase": "final", **(more[0] if more else {})}
        history.append(Op(index, "c", f, node, value=value, start_ns=index * 10, end_ns=index * 10 + 5, **fields))
    return tuple(history)


def judge(checker: Any, *made: tuple[Any, ...]) -> tuple[str, str]:
    verdict = checker(run_view(ops=ops(*made), nodes=("zk1", "zk2", "zk3")))
    return verdict.answer, verdict.symptom


def a_node(**more: Any) -> dict[str, Any]:
    return {"data": "x", "version": 0, "acl": [], "owner": 0, "stat": [1, 1, 1, 0, 0, 0], **more}


TREE = {"/": a_node(), "/kv": a_node()}


def test_the_names_in_a_queue_by_their_numbers() -> None:
    assert promises.in_order(["b-0000000002", "zk1.3-0000000001", "a-0000000010"]) == ["zk1.3", "b", "a"]


@pytest.mark.parametrize(
    ("other", "kind"),
    [
        ({"/": a_node()}, "whether a node exists"),
        ({**TREE, "/kv": a_node(data="y")}, "the data of a node"),
        ({**TREE, "/kv": a_node(version=1)}, "the version of a node"),
        ({**TREE, "/kv": a_node(acl=[[31, "world", "anyone"]])}, "the ACL of a node"),
        ({**TREE, "/kv": a_node(stat=[1, 1, 2, 0, 0, 0])}, "the zxids of a node"),
    ],
)
def test_servers_that_hold_different_trees(other: Any, kind: str) -> None:
    checker = promises.servers_hold_the_same_tree
    assert judge(checker, ("tree", "zk1", TREE), ("tree", "zk2", other)) == ("fail", f"servers disagree on {kind}")
    assert checker.settled(ops(("tree", "zk1", TREE), ("tree", "zk2", other))) != ""


def test_the_last_look_at_the_trees_counts() -> None:
    checker = promises.servers_hold_the_same_tree
    looks = [("tree", "zk1", TREE), ("tree", "zk2", {}), ("tree", "zk1", TREE), ("tree", "zk2", TREE)]
    assert judge(checker, *looks)[0] == "pass"
    assert checker.settled(ops(*looks)) == ""
    assert judge(checker, *looks, ("tree", "zk1", TREE), ("tree", "zk2", None, {"status": "unknown"}))[0] == "unknown"
    assert judge(checker, ("tree", "zk1", TREE))[0] == "unknown"


@pytest.mark.parametrize(
    ("modes", "expected"),
    [
        (("leader", "follower", "follower"), ("pass", "")),
        (("leader", "leader", "follower"), ("fail", "2 leaders in the end")),
        (("follower", "follower", "follower"), ("fail", "no leader in the end")),
        (("leader", "follower", ""), ("fail", "a server that does not follow in the end")),
    ],
)
def test_one_leader_in_the_end(modes: tuple[str, ...], expected: tuple[str, str]) -> None:
    made = [("mode", f"zk{number}", mode) for number, mode in enumerate(modes, 1)]
    assert judge(promises.one_leader_in_the_end, *made) == expected
    assert bool(promises.one_leader_in_the_end.settled(ops(*made))) == (expected[0] == "fail")


def test_ephemeral_nodes() -> None:
    checker = promises.ephemeral_nodes_live_as_their_sessions
    join = ("join", "zk1", None, {"phase": "workload", "args": {"name": "a"}})
    seen, unseen = (("see", "zk1", value, {"phase": "workload", "args": {"name": "a"}}) for value in (True, False))
    assert judge(checker, join, seen, ("live", "zk1", []))[0] == "pass"
    assert judge(checker, join, unseen, ("live", "zk1", [])) == ("fail", "ephemeral node lost")
    left = join, seen, ("live", "zk1", []), ("live", "zk2", ["a"])
    assert judge(checker, *left) == ("fail", "ephemeral node outlives its session")
    assert checker.settled(ops(*left)) != ""
    assert judge(checker, ("live", "zk1", []))[0] == "unknown"


def cas(version: int, becomes: int, **more: Any) -> tuple[Any, ...]:
    return ("cas", "zk1", becomes, {"phase": "workload", "args": {"version": version}, **more})


@pytest.mark.parametrize(
    ("made", "symptom"),
    [
        ([cas(0, 1), cas(1, 2), ("counter", "zk2", [2, 2])], ""),
        ([cas(0, 1), cas(1, 0, status="unknown"), ("counter", "zk2", [1, 1]), ("counter", "zk2", [2, 2])], ""),
        ([cas(0, 1), cas(0, 0, status="fail"), ("counter", "zk2", [1, 1])], ""),
        ([cas(0, 1), cas(0, 1), ("counter", "zk2", [2, 2])], "two updates of one version"),
        ([cas(0, 2), ("counter", "zk2", [2, 2])], "an update led to a wrong version"),
        ([cas(0, 1), ("counter", "zk2", [1, 2])], "value and version of a node do not fit"),
        ([cas(0, 1), cas(1, 2), ("counter", "zk2", [1, 1])], "acknowledged conditional update lost"),
        ([cas(0, 1), ("counter", "zk2", [2, 2])], "conditional update applied twice"),
    ],
)
def test_conditional_updates(made: list[tuple[Any, ...]], symptom: str) -> None:
    assert judge(promises.conditional_updates_count_once, *made) == ("fail" if symptom else "pass", symptom)


def test_conditional_updates_that_nobody_looked_at() -> None:
    assert judge(promises.conditional_updates_count_once, cas(0, 1))[0] == "unknown"


ACCESS = [[31, "digest", "zk1"], [1, "world", "anyone"]]
FENCE = ("fence", "zk1", ACCESS, {"phase": "workload", "args": {"path": "/acl/a"}})


def trespass(answer: str) -> tuple[Any, ...]:
    return ("trespass", "zk1", answer, {"phase": "workload", "args": {"path": "/acl/a"}})


@pytest.mark.parametrize(
    ("made", "symptom"),
    [
        ([trespass("denied"), ("tree", "zk1", {"/acl/a": a_node(acl=ACCESS)})], ""),
        ([trespass("allowed"), ("tree", "zk1", {"/acl/a": a_node(acl=ACCESS)})], "write without permission"),
        ([("tree", "zk1", {"/acl/a": a_node(acl=ACCESS[1:])})], "ACL changed"),
        ([("tree", "zk1", {})], "acknowledged fence lost"),
    ],
)
def test_access(made: list[tuple[Any, ...]], symptom: str) -> None:
    assert judge(promises.access_is_kept, FENCE, *made) == ("fail" if symptom else "pass", symptom)


def test_access_without_fences() -> None:
    assert judge(promises.access_is_kept, ("tree", "zk1", {}))[0] == "unknown"
