"""Measures the cost of the JVM agent in a real ZooKeeper ensemble, and the experiments per minute.

Three servers start in turn bare and with the agent, serve a fixed number of operations of one client, and are killed. Figures
are ratios of medians. CPU is that of the servers alone. Then the tool hunts with random faults.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench.news import print_news
from bench.processes import (
    Env,
    agent_files,
    background,
    children_cpu_s,
    compared,
    free_ports,
    linked,
    set_up,
)
from undermine import api
from undermine.config.load import load
from undermine.config.schema import Config
from undermine.config.templates import render
from undermine.model.run import NodeInfo
from undermine.runtimes import jvm_agent

PACK = Path(__file__).parents[1] / "examples" / "zookeeper"
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 7
HUNT_S = float(sys.argv[2]) if len(sys.argv) > 2 else 120
NODES = 100
START_S_MAX = 60
BARE, AGENT = "bare", "agent"
KINDS = (BARE, AGENT)


def main() -> None:
    set_up(PACK)
    config = load(PACK, {"late": "none"})
    measured: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
    for number in range(ROUNDS + 1):
        for kind in KINDS:
            found = measure(config, kind)
            print(f"{kind}: {', '.join(f'{key} {value:.2f}' for key, value in found.items())}", file=sys.stderr)
            if number:  # the first round of each reads everything from the disk
                measured[kind].append(found)
    summary = {"bench": "jvm", "rounds": ROUNDS, "version": config.params["version"], **ratios(measured), **hunted()}
    print(json.dumps(summary))


def ratios(measured: dict[str, list[dict[str, float]]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key in measured[BARE][0]:
        bare, agent = ([each[key] for each in measured[kind]] for kind in (BARE, AGENT))
        found[key] = compared(bare, agent, AGENT)
    return found


def hunted() -> dict[str, object]:
    """Hunt as a user would, with the tool's default number of jobs."""
    with tempfile.TemporaryDirectory(prefix="um-bench-") as name:
        folder = linked(PACK, Path(name))
        begun = time.monotonic()
        result = api.hunt(load(folder), strategies=["random"], budget_s=HUNT_S, listener=print_news)
        elapsed_s = time.monotonic() - begun
        with api.open_store(Path(result.folder)) as store:
            rows = [row for row in store.run_rows() if row["status"] != "broken"]
    return {"runs": len(rows), "runs_per_minute": round(len(rows) / elapsed_s * 60, 1)}


# --- one ensemble


def measure(config: Config, kind: str) -> dict[str, float]:
    """Run one ensemble. Return the seconds until all serve, the seconds for the operations, and the servers' CPU seconds."""
    with tempfile.TemporaryDirectory(prefix="um-bench-") as name:
        folder = Path(name)
        nodes = ensemble(config, folder)
        before = children_cpu_s()
        begun = time.monotonic()
        with servers(config, nodes, folder, environments(config, nodes, folder, kind)):
            wait_until_all_serve(nodes)
            start_s = time.monotonic() - begun
            workload_s = use(nodes)
        return {"start_s": start_s, "workload_s": workload_s, "cpu_s": children_cpu_s() - before}


def ensemble(config: Config, folder: Path) -> list[NodeInfo]:
    names = config.roles["server"].ports
    ports = iter(free_ports(len(config.node_ids) * len(names)))
    nodes = []
    for node in config.node_ids:
        own = {name: next(ports) for name in names}
        home = folder / node
        home.mkdir()
        nodes.append(NodeInfo(node, "server", "127.0.0.1", own[names[0]], own, str(home)))
    return nodes


def environments(config: Config, nodes: list[NodeInfo], folder: Path, kind: str) -> Callable[[NodeInfo], Env]:
    if kind == BARE:
        return lambda _: dict(os.environ)
    jar = jvm_agent.agent_jar()
    write = agent_files(folder)
    listening = {f"{node.host}:{port}": node.id for node in nodes for port in node.ports.values()}
    common = {
        "nodes": list(config.node_ids), "addresses": listening, "observe": [], "accelerator": jvm_agent.helper_dir(jar),
        "woven": jvm_agent.woven_dir(jar),
        "packages": list(config.roles["server"].packages),
    }  # fmt: skip

    def environment(node: NodeInfo) -> Env:
        path = write(node.id, Path(node.dir), **common)
        return {**os.environ, "UNDERMINE_AGENT": str(path), "JAVA_TOOL_OPTIONS": jvm_agent.tool_options(jar)}

    return environment


@contextmanager
def servers(
    config: Config, nodes: list[NodeInfo], folder: Path, environment: Callable[[NodeInfo], Env]
) -> Iterator[None]:
    with ExitStack() as stack:
        for node in nodes:
            values = config.values(nodes, node.id, str(folder))
            command = [render(word, values) for word in config.roles["server"].command]
            stack.enter_context(background(command, environment(node), Path(node.dir)))
        yield


def wait_until_all_serve(nodes: list[NodeInfo]) -> None:
    import members  # type: ignore[import-not-found]  # of the pack

    until = time.monotonic() + START_S_MAX
    while not all(members.mode(node) for node in nodes):
        if time.monotonic() > until:
            sys.exit("the ensemble did not start")
        time.sleep(0.01)


def use(nodes: list[NodeInfo]) -> float:
    """The seconds that one client needs to create, read, change and delete nodes, one operation after the other."""
    from kazoo.client import KazooClient  # type: ignore[import-not-found]  # of the pack

    client: Any = KazooClient(hosts=",".join(f"{node.host}:{node.port}" for node in nodes))
    client.start(timeout=START_S_MAX)
    try:
        begun = time.monotonic()
        for number in range(NODES):
            client.create(f"/n{number}", b"x" * 32)
        for number in range(NODES):
            client.get(f"/n{number}")
        for number in range(NODES):
            client.set(f"/n{number}", b"y" * 32)
        for number in range(NODES):
            client.delete(f"/n{number}")
        return time.monotonic() - begun
    finally:
        client.stop()
        client.close()


if __name__ == "__main__":
    sys.path[:0] = [str(PACK), str(PACK / "client")]
    main()
