"""The variables of the configuration, as `undermine check` and warnings show them."""

from __future__ import annotations

from pathlib import Path

from fake_engine import TOML, configured

from undermine.campaign.variables import VariableSeen, unmatched, values_at_end
from undermine.config.schema import Config
from undermine.model.event import Event
from undermine.model.run import NodeExit, RunView
from undermine.testing import event, run_view

PIDS = {"n1": 1, "n2": 2, "g1": 3}


def project(folder: Path) -> Config:
    """Two roles; all nodes have the leader, servers also have peers."""
    role = '[roles.gate]\nnodes = ["g1"]\ncommand = "true {port}"\nagent = "python"\n'
    own = 'agent = "python"\nvariables = {peers = "app:Server.peers[*]"}\n'
    toml = TOML.replace('nodes = ["n1"]', 'nodes = ["n1", "n2"]').replace('agent = "python"\n', own, 1)
    return configured(folder, toml + role + '[variables]\nleader = "app:Node.leader"\n')


def shown(node: str, name: str, value: str | None, key: str = "", t_ns: int = 5, why: str = "") -> Event:
    found = {"target": name, "resource": key, "content": why or value or "", "size": int(value is not None)}
    return event("variable.sample", node=node, pid=PIDS[node], t_ns=t_ns, **found)


def run(*events: Event, **more: object) -> RunView:
    """A run whose nodes send something after their first samples."""
    sent = [event("net.send", node=node, pid=pid, t_ns=6) for node, pid in PIDS.items()]
    events = tuple(sorted([*events, *sent], key=lambda each: each.t_ns))
    return run_view(events=events, nodes=("n1", "n2", "g1"), **{"settled_ns": 10, **more})  # type: ignore[arg-type]


MATCHED = (shown("g1", "leader", "n1"), shown("n2", "peers", "up", "n1"))


def test_values_are_those_at_the_end_by_node_and_key(tmp_path: Path) -> None:
    late = shown("n1", "leader", "n9", t_ns=11)
    events = [shown("n1", "leader", "n1"), shown("n1", "peers", "up", "n2"), shown("n2", "peers", "up", "n1"), late]
    gone = shown("n1", "peers", None, "n2", t_ns=7)
    assert list(values_at_end(project(tmp_path), run(*events, gone))) == [
        VariableSeen("n1", "leader", "n1"),
        VariableSeen("n1", "peers[n1]", None),
        VariableSeen("n1", "peers[n2]", None),
        VariableSeen("n2", "peers[n1]", "up"),
        VariableSeen("n2", "peers[n2]", None),
    ]


def test_a_node_that_is_down_shows_no_values(tmp_path: Path) -> None:
    down = NodeExit("n1", 1, 1, 0, 8, False)
    assert list(values_at_end(project(tmp_path), run(shown("n1", "leader", "n1"), exits=(down,)))) == []


def test_hostile_values_are_printable(tmp_path: Path) -> None:
    (seen,) = values_at_end(project(tmp_path), run(shown("n1", "peers", "\x1b[31m", "\x1bkey")))
    assert "\x1b" not in seen.label + str(seen.value)


def test_a_variable_of_all_roles_needs_to_match_in_one_node_and_that_of_a_role_in_one_of_its_nodes(tmp_path: Path) -> None:
    config = project(tmp_path)
    assert unmatched(config, [run(MATCHED[0]), run(MATCHED[1])]) == []
    assert [(each.name, each.role) for each in unmatched(config, [run(MATCHED[0])])] == [("peers", "server")]
    assert [(each.name, each.role) for each in unmatched(config, [run(MATCHED[1])])] == [("leader", "")]


def test_the_last_reasons_of_the_agents_are_named_once(tmp_path: Path) -> None:
    early = shown("n1", "peers", None, why="the module app isn't imported")
    reasons = [shown(node, "peers", None, why="Server (Server) has no plain attribute peers") for node in ("n1", "n2")]
    (missing,) = unmatched(project(tmp_path), [run(MATCHED[0], early, *reasons)])
    assert str(missing) == (
        "the variable peers of the role server matched nothing: n1: Server (Server) has no plain attribute peers "
        "(path app:Server.peers[*])"
    )


def test_without_reasons_of_agents_it_is_said_how_far_the_path_led(tmp_path: Path) -> None:
    config = project(tmp_path)
    loaded = "its class has no instance, or a later part of the path leads nowhere"
    leader, peers = unmatched(config, [run()])
    assert leader.why == "its module or class isn't loaded, or the node sent and received nothing"
    assert peers.why == f"{leader.why}; or {loaded}"
    (leader,) = unmatched(config, [run(MATCHED[1], shown("g1", "leader", None))])
    assert leader.why == f"g1: {loaded}"
    known = shown("g1", "leader", None, why="Node has no instance")
    (leader,) = unmatched(config, [run(MATCHED[1], known, shown("g1", "leader", None, t_ns=9))])
    assert leader.why == "g1: Node has no instance"


def test_a_project_without_variables_reads_no_trace(tmp_path: Path) -> None:
    def unreadable() -> None:
        raise AssertionError("the trace was read")

    view = RunView(run().record, (), unreadable)  # type: ignore[arg-type]
    assert unmatched(configured(tmp_path), [view]) == []
