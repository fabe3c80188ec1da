"""The command `undermine init` and the files that it writes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from undermine.cli.options import (
    JsonOption,
    print_json,
)
from undermine.config.schema import FILE_NAME
from undermine.model.errors import UserError

TEMPLATE = """\
# The configuration of Undermine. You must set the command of the role; the rest has defaults.
# A line that is commented out shows the default. All keys: docs/configuration.md

[campaign]
plugins = "hunt.py"             # a Python file with your workload and your checkers
# dir = ".undermine"            # folder of the results, relative to this file
# files = []                    # more files for `undermine bundle`, like ["myapp/**/*.py"]
# name = ""                     # title of the report
# setup = ""                    # a command that prepares the system; errors about missing files name it

[params]                        # your own values: use {params.NAME} below, and --set NAME=VALUE on the command line
log_level = "info"

[roles.store]                   # one table for each role; "store" is a name of your choice
nodes = 3                       # store1, store2 and store3; or a list: ["s1", "s2", "s3"]
# No shell is involved. Replaced are: {id} {role} {index} {host} {port} {dir} {project} {peers} {params.NAME} …
command = "your-server --id {id} --listen {host}:{port} --data {dir} --peers {peers} --log {params.log_level}"
# env = {PYTHONPATH = "{project}"}   # added to the environment of the nodes
# cwd = "{dir}"                 # working folder; {dir} is the node's own folder, which starts empty
# ports = ["main"]              # names of its ports: {port} is the first one, {port.NAME} any
# peers = "{id}={host}:{port}"  # how {peers} writes one node
# peers_join = ","              # the text between two nodes
# agent = "auto"                # "python", "jvm", "none", or "auto": chosen by the program of the command
# packages = []                 # modules of your code, like ["myapp"]; empty: all but the standard library
# operations = []               # logical operations, like {function = "myapp.net:send", op = "msg.send"}
# adapters = ["http", "redis", "tornado"]  # libraries whose calls are logical operations; also "streams", or your own .py files
# ready = {tcp = "main", timeout_s = 15}   # or {log = 'listening on \\d+'}, {http = "/up"}, {python = "f"}
# health = {http = "/health"}   # how to ask a node for its health; or {command = "…"}, {python = "…"}
# restart = {after_s = 1, max = 5}   # if systemd, Kubernetes or the like starts a node again that ends by itself
# logs = ["*.log"]              # log files in {dir}; the output of a node is always kept
# start_after = []              # roles that must be ready before this one starts
# variables = {}                # variables that triggers may use, like {term = "myapp.raft:Node.term"}

[workload]
timeout_s = 30                  # time limit of the workload
# python = "workload"           # a function in hunt.py; by default the one marked @undermine.workload
# command = "…"                 # a program instead of a function

[run]
hang_s = 8                      # a run without progress for this time is a hang
# patience_s = 60               # how long a re-run waits for recovery: longer than your system's own timers
# gray_s = 2                    # clients wait longer than this while nodes report that they are healthy: a gray failure
settle_timeout_s = 20           # how long your system may take to recover after all faults are healed
# start_timeout_s = 60          # time limit until all nodes are ready
# checker_timeout_s = 10
# isolation = "auto"            # as root each node has its own network; "ports": all nodes use 127.0.0.1
# observe = "auto"              # "io": observe only I/O; "all": observe locks, clocks and hand-over in every run
# output_mb = 64                # longer logs of nodes lose their middle
# late_s_max = 0.5              # a failing run in which the machine was delayed longer than this is repeated

[faults]
kinds = ["crash", "reboot", "delay", "error", "drop", "partition", "pause"]   # also "corrupt", if your system has checksums
max_steps = 2                   # faults in one run of the strategy random; other strategies: [strategies.NAME]
# reboot_after_s = 0.3
# delay_s = 5.0                 # best longer than the timeouts of your system
# delay_modes = ["thread", "operation"]   # like a slow disk; like a slow network
# pause_s = 5.0                 # how long a node is frozen
# power = false                 # true: also reboot nodes so that they lose everything that they have not synced (fsync)
# power_kept = ["names", "none", "prefix"]   # what the disk has of everything that was not synced
# partition_levels = ["network", "operation"]   # drop packets where possible, else the agents drop operations
# partition_directions = ["both", "out", "in"]
# partition_losses = ["silent"]   # or "error": operations fail with an error
# disk_errors = ["EIO", "ENOSPC"]
# network_errors = ["ECONNRESET", "ETIMEDOUT", "ECONNREFUSED"]
# roles = []                    # inject only into these roles; empty: all
# groups = []                   # also hit these nodes together: "all", a role, or a name of the table [groups]

[checkers]
# enable = []                   # names of built-in checkers that are off by default
# disable = []                  # names of checkers to switch off
# fail_on = []                  # regular expressions for log lines that fail a run, like ["data loss"]
# ignore = []                   # regular expressions for log lines to ignore

[hunt]
budget = "10m"                  # "90s", "1h30m" or a number of seconds
# strategies = []               # empty: all
# max_runs = 0                  # 0: only the budget limits a hunt
# seed = 0
# jobs = 0                      # number of runs at a time; 0: one for each four cores
# steps = 1                     # the most faults in a run; 2 extends every plan by what any strategy predicts next
# tries = 5                     # how often a plan is run until its faults fire
# confirm = 3                   # how often a failing run is repeated to confirm it
# confirm_share = 0.33          # the part of the budget that re-runs may use while experiments wait
# realism_s = 10                # believe a delay only if a device that is this much slower causes it; 0: believe any delay
# baseline_runs = 3             # fault-free runs at the start
# benign_runs = 3               # then runs with a fault before the clients start, to learn what is normal
"""

PLUGINS = '''\
"""The workload that uses this system, and the checkers that judge each run."""

from __future__ import annotations

import undermine
from undermine import ledgers


def put(node, key, value):
    """Write through one node; raise unless it acknowledges. Use node.host, node.port or node.ports["main"]."""
    raise NotImplementedError("call your client here")


def get(node, key):
    """Read through one node."""
    raise NotImplementedError("call your client here")


@undermine.workload
def workload(s):
    """Use the cluster for a second or two, as its users do. `s` records every operation."""
    stores = s.role("store")  # s.nodes has all nodes
    seed = s.rng.randrange(1000)  # random, but the same for the same seed

    def client(name):
        for number in range(10):
            node = stores[(seed + number) % len(stores)]
            key, value = f"{name}-{number}", number
            # An exception means that the outcome is unknown; attempt() records it and continues.
            # Raise undermine.Refused if the operation certainly did not happen.
            s.attempt(
                "put",
                lambda: put(node, key, value),  # noqa: B023
                client=name,
                node=node.id,
                args={"key": key, "value": value},
            )

    s.clients({name: lambda name=name: client(name) for name in ("c1", "c2")})  # each in its own thread


@undermine.final
def final(s):
    """Read everything back. It runs after all faults are healed, and is repeated until it does not raise."""
    for node in s.role("store"):
        for name in ("c1", "c2"):
            for number in range(10):
                key = f"{name}-{number}"
                outcome = s.attempt(
                    "get",
                    lambda: get(node, key),  # noqa: B023
                    client="final",
                    node=node.id,
                    args={"key": key},
                )
                if not outcome.ok:
                    raise RuntimeError(f"{node.id} does not answer yet: {outcome.error}")


# A ledger checks the answers that clients got, also if operations were concurrent, refused or never answered.
# There are ledgers for lost writes, stale reads, logs, replicas, jobs, locks and leaders: docs/ledgers.md
undermine.check(ledgers.no_acknowledged_write_lost(write="put", read="get", key="key", value="value", by="node"))

# Your own checker is a function of the run: use run.history, run.trace, run.logs, run.plan and run.receipts.
# @undermine.checker
# def mine(run):
#     if …:
#         return undermine.Verdict.fail("k1 is 5, not 7", symptom="a sum is wrong")  # one symptom for each bug
#     return undermine.Verdict.ok()  # or undermine.Verdict.unknown("nothing could be read")
'''

FILES = {"undermine.toml": TEMPLATE, "hunt.py": PLUGINS}


def init(
    folder: Annotated[Path, typer.Argument(help="Folder to write the files to.")] = Path("."),
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")] = False,
    json: JsonOption = False,
) -> int:
    """Write undermine.toml and hunt.py, two commented files to start from.

    Example:

    - `undermine init my-system`
    """
    written = write(folder, force=force)
    if json:
        print_json({"written": [str(path) for path in written]})
    else:
        for path in written:
            typer.echo(f"wrote {path}")
        typer.echo(f"next: set the command in {folder / FILE_NAME}, then run `undermine check -c {folder}`")
    return 0


def write(dir: Path, force: bool = False) -> list[Path]:
    """Write both files and return their paths. Writes nothing if one exists, unless `force` is set."""
    paths = {dir / name: text for name, text in FILES.items()}
    there = [str(path) for path in paths if path.exists() or path.is_symlink()]
    if there and not force:
        verb, them = ("exists", "it") if len(there) == 1 else ("exist", "them")
        raise UserError(f"{' and '.join(there)} {verb} already; move {them} away, or use --force to overwrite {them}")
    try:
        dir.mkdir(parents=True, exist_ok=True)
        for path, text in paths.items():
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{error.filename or dir} cannot be written: {error.strerror}") from None
    return list(paths)
