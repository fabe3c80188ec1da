"""Checks for ZooKeeper's promises that the built-in ledgers do not cover."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from undermine import RunView, Verdict
from undermine.ledgers import Ledger

SHOWN = 10
Tree = dict[str, dict[str, Any]]
"""Path to `data`, `version`, `acl`, `owner` and `stat`."""
KINDS = {"data": "the data", "version": "the version", "owner": "the owner", "acl": "the ACL", "stat": "the zxids"}


def last_look(history: Iterable[Any], read: str) -> dict[str, Any]:
    """Each node's answer in the last read of all nodes; None if it did not answer."""
    reads = [op for op in history if op.f == read and op.phase == "final" and op.status != "pending"]
    count = len({op.node for op in reads})
    return {op.node: op.value if op.status == "ok" else None for op in reads[-count:]} if count else {}


def in_order(names: list[str]) -> list[str]:
    """The names without the numbers that ZooKeeper appended, in the order of these numbers."""
    return [name.rpartition("-")[0] for name in sorted(names, key=lambda name: name.rpartition("-")[2])]


# -- the same tree everywhere ----------------------------------------------------------------------------


def differences(one: Tree, other: Tree) -> dict[str, list[str]]:
    """The differences between two servers: each kind with its paths."""
    found: dict[str, list[str]] = {}
    for path in sorted(one.keys() | other.keys()):
        if path not in one or path not in other:
            found.setdefault("whether a node exists", []).append(path)
            continue
        for name, kind in KINDS.items():
            if one[path][name] != other[path][name]:
                found.setdefault(f"{kind} of a node", []).append(path)
    return found


def _disagreements(history: Iterable[Any]) -> list[tuple[str, str, str, list[str]]]:
    trees = {node: tree for node, tree in last_look(history, "tree").items() if tree is not None}
    first = next(iter(trees), "")
    return [
        (kind, first, other, paths)
        for other in trees
        for kind, paths in differences(trees[first], trees[other]).items()
    ]


def _same_tree(run: RunView) -> Verdict:
    look = last_look(run.history, "tree")
    if found := _disagreements(run.history):
        kind = found[0][0]
        said = [f"{one} and {other}: {what}: {', '.join(paths[:SHOWN])}" for what, one, other, paths in found]
        shown = [f"{node} has {path}: {look[node].get(path)}" for path in found[0][3][:2] for node in found[0][1:3]]
        return Verdict.fail(f"servers disagree on {kind}", f"servers disagree on {kind}", [*said, *shown][:SHOWN])
    silent = sorted(node for node, tree in look.items() if tree is None)
    if silent or len(look) < 2:
        return Verdict.unknown(f"not read in the end: {', '.join(silent) or 'the tree of two servers'}")
    return Verdict.ok()


def _same_tree_yet(history: tuple[Any, ...]) -> str:
    found = _disagreements(history)
    return f"servers do not agree on {found[0][0]} yet" if found else ""


servers_hold_the_same_tree = Ledger("servers_hold_the_same_tree", _same_tree, _same_tree_yet, lasting=False)


# -- one leader ------------------------------------------------------------------------------------------


def wrong_modes(modes: dict[str, Any]) -> str:
    """A description of the wrong modes; "" if one server leads and all others follow."""
    leaders = sum(mode == "leader" for mode in modes.values())
    if leaders != 1:
        return "no leader" if leaders == 0 else f"{leaders} leaders"
    return "" if all(mode in ("leader", "follower") for mode in modes.values()) else "a server that does not follow"


def _one_leader(run: RunView) -> Verdict:
    modes = last_look(run.history, "mode")
    if not modes:
        return Verdict.unknown("no server was asked for its mode")
    wrong = wrong_modes(modes)
    said = [f"{node}: {mode or 'does not serve'}" for node, mode in modes.items()]
    return Verdict.fail(f"in the end there is {wrong}", f"{wrong} in the end", said) if wrong else Verdict.ok()


def _one_leader_yet(history: tuple[Any, ...]) -> str:
    return wrong_modes(last_look(history, "mode"))


one_leader_in_the_end = Ledger("one_leader_in_the_end", _one_leader, _one_leader_yet, lasting=False)


# -- ephemeral nodes -------------------------------------------------------------------------------------


def _left_behind(history: Iterable[Any]) -> dict[str, list[str]]:
    """The ephemeral nodes on each server that exist although all their sessions have ended."""
    return {node: names for node, names in last_look(history, "live").items() if names}


def _ephemerals(run: RunView) -> Verdict:
    ours = [op for op in run.history if op.f == "join"]
    if not ours:
        return Verdict.unknown("no client made an ephemeral node")
    if gone := [op for op in run.history if op.f == "see" and op.status == "ok" and not op.value]:
        said = [f"{op.client} does not see {op.args['name']}, which it made in this session" for op in gone]
        return Verdict.fail("an ephemeral node is gone before its session", "ephemeral node lost", said[:SHOWN])
    if left := _left_behind(run.history):
        said = [f"{node} still has {name}" for node, names in left.items() for name in names]
        return Verdict.fail(
            "an ephemeral node outlives its session", "ephemeral node outlives its session", said[:SHOWN]
        )
    look = last_look(run.history, "live")
    return Verdict.ok() if look and None not in look.values() else Verdict.unknown("not read in the end")


def _ephemerals_yet(history: tuple[Any, ...]) -> str:
    return "ephemeral nodes are still there" if _left_behind(history) else ""


ephemeral_nodes_live_as_their_sessions = Ledger("ephemeral_nodes_live_as_their_sessions", _ephemerals, _ephemerals_yet)


# -- conditional updates ---------------------------------------------------------------------------------


def conditional_updates_count_once(run: RunView) -> Verdict:
    """The counter's value equals its version: each conditional update adds one to both, and none is lost or applied twice."""
    updates = [op for op in run.history if op.f == "cas" and op.status != "fail"]
    sure = [op for op in updates if op.status == "ok"]
    reads = [op for op in run.history if op.f == "counter" and op.status == "ok"]
    if wrong := _wrong_update(sure) or _wrong_reads(reads):
        return wrong
    for read in (op for op in reads if op.phase == "final"):
        low = sum(op.end_ns <= read.start_ns for op in sure)
        high = sum(op.start_ns < read.end_ns for op in updates)
        said = [f"{low} acknowledged before, {high} possible, the counter is {read.value[0]} at {read.node}"]
        if read.value[0] < low:
            return Verdict.fail("the counter is too low", "acknowledged conditional update lost", said)
        if read.value[0] > high:
            return Verdict.fail("the counter is too high", "conditional update applied twice", said)
    final = any(op.phase == "final" for op in reads)
    return Verdict.ok() if final and updates else Verdict.unknown("the counter was not used, or not read in the end")


def _wrong_update(sure: list[Any]) -> Verdict | None:
    """Fail if a version was updated twice, or if an update did not lead to the next version."""
    by_version: dict[int, list[Any]] = {}
    for op in sure:
        by_version.setdefault(op.args["version"], []).append(op)
    for version, ops in by_version.items():
        said = [f"{op.client}: {op.args['version']} became {op.value}" for op in ops]
        if len(ops) > 1:
            return Verdict.fail(f"version {version} was updated twice", "two updates of one version", said)
        if ops[0].value != version + 1:
            return Verdict.fail("an update skipped a version", "an update led to a wrong version", said)
    return None


def _wrong_reads(reads: list[Any]) -> Verdict | None:
    for op in reads:
        if op.value[0] != op.value[1]:
            said = [f"{op.client} read value {op.value[0]} with version {op.value[1]}"]
            return Verdict.fail("value and version differ", "value and version of a node do not fit", said)
    return None


# -- access ----------------------------------------------------------------------------------------------


def access_is_kept(run: RunView) -> Verdict:
    """Nobody writes to a node of another user, and at the end each such node has its original ACL."""
    made = {op.args["path"]: op for op in run.history if op.f == "fence" and op.status == "ok"}
    if not made:
        return Verdict.unknown("no node with an ACL was made")
    if allowed := [op for op in run.history if op.f == "trespass" and op.status == "ok" and op.value == "allowed"]:
        said = [f"{op.client} wrote to {op.args['path']} without being its user" for op in allowed]
        return Verdict.fail("an ACL was not enforced", "write without permission", said[:SHOWN])
    trees = {node: tree for node, tree in last_look(run.history, "tree").items() if tree is not None}
    wrong = [
        f"{node}: {path} has {tree[path]['acl']} instead of {op.value}"
        for node, tree in trees.items()
        for path, op in made.items()
        if path in tree and tree[path]["acl"] != op.value
    ]
    lost = [f"{node}: {path} is gone" for node, tree in trees.items() for path in made if path not in tree]
    if wrong:
        return Verdict.fail("a node has another ACL than it was made with", "ACL changed", wrong[:SHOWN])
    if lost:
        return Verdict.fail("a node with an ACL is gone", "acknowledged fence lost", lost[:SHOWN])
    return Verdict.ok() if trees else Verdict.unknown("no tree was read in the end")
