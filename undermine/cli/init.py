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
# What Undermine needs to know about your system. Only the command of the role is yours to write;
# everything that is commented out shows its default. All keys: docs/configuration.md

[campaign]
plugins = "hunt.py"             # a Python file with your workload and your checkers
# dir = ".undermine"            # where results go, relative to this file
# files = []                    # what else `undermine bundle` takes along, like ["myapp/**/*.py"]
# name = ""                     # a title for reports
# setup = ""                    # what to run first, like "python setup.py {params.version}": said where something is missing

[params]                        # your own values: {params.NAME} below, --set NAME=VALUE on the command line
log_level = "info"

[roles.store]                   # one table for each kind of node; "store" is a name of your choice
nodes = 3                       # store1, store2 and store3; or a list: ["s1", "s2", "s3"]
# No shell runs this. {id} {role} {index} {host} {port} {dir} {project} {peers} {params.NAME} … are replaced
command = "your-server --id {id} --listen {host}:{port} --data {dir} --peers {peers} --log {params.log_level}"
# env = {PYTHONPATH = "{project}"}   # added to the environment
# cwd = "{dir}"                 # where it runs; {dir} is the node's own folder, empty at first
# ports = ["main"]              # names of the ports it needs: {port} is the first, {port.NAME} any
# peers = "{id}={host}:{port}"  # how {peers} writes one node,
# peers_join = ","              # and what stands between two
# agent = "auto"                # "python", "jvm", "none", or "auto": by the program, if it is a Python or a java
# packages = []                 # your code, like ["myapp"]; empty: all but the standard library
# operations = []               # functions that are one operation, like {function = "myapp.net:send", op = "msg.send"}
# adapters = ["http", "redis", "tornado"]  # libraries whose calls are one operation each; also "streams", or files of your own
# ready = {tcp = "main", timeout_s = 15}   # or {log = 'listening on \\d+'}, {http = "/up"}, {python = "f"}
# health = {http = "/health"}   # asked while a fault is in force; or {command = "…"}, {python = "…"}
# logs = ["*.log"]              # in {dir}; what it prints counts anyway
# start_after = []              # roles that must be ready before this one starts
# variables = {}                # what triggers may ask about, like {term = "myapp.raft:Node.term"}

[workload]
timeout_s = 30                  # a workload that takes longer without a fault is an error
# python = "workload"           # the function in hunt.py; default: the one marked @undermine.workload
# command = "…"                 # or a program of your own instead

[run]
hang_s = 8                      # no progress for so long is a hang
# patience_s = 60               # how long a suspect may take to recover: longer than your system's own timers
# gray_s = 2                    # clients wait longer than this for a node that says it is well: a gray failure
settle_timeout_s = 20           # how long your system may take to recover once everything is healed
# start_timeout_s = 60          # all nodes must be ready by then
# checker_timeout_s = 10
# isolation = "auto"            # as root each node has a network of its own; "ports": all on 127.0.0.1
# observe = "auto"              # "io": never watch locks, clocks and hand-over; "all": also while faults are injected
# late_s_max = 0.5              # what fails while the machine is later than this is run again

[faults]
kinds = ["crash", "reboot", "delay", "error", "drop", "partition", "pause"]   # "corrupt" if you keep checksums
max_steps = 2                   # faults in one run of the strategy random; others are told in [strategies.NAME]
# reboot_after_s = 0.3
# delay_s = 5.0                 # longer than the timeouts of your system, if you can wait
# delay_modes = ["thread", "operation"]   # as a slow disk, and as a slow network
# pause_s = 5.0                 # how long a node stands still
# partition_levels = ["network", "operation"]   # packets are lost where possible, else the agents do it
# partition_directions = ["both", "out", "in"]
# partition_losses = ["silent"]   # or "error": programs are told
# disk_errors = ["EIO", "ENOSPC"]
# network_errors = ["ECONNRESET", "ETIMEDOUT", "ECONNREFUSED"]
# roles = []                    # inject only into these; empty: all
# groups = []                   # hit nodes together too: "all", a role, or a name of a table [groups]

[checkers]
# disable = []                  # names of checkers that you do not want
# fail_on = []                  # regular expressions: log lines that fail a run, like ["data loss"]
# ignore = []                   # regular expressions: log lines that never count

[hunt]
budget = "10m"                  # "90s", "1h30m" or a number of seconds
# strategies = []               # empty: all that fit
# max_runs = 0                  # 0: no limit but the budget
# seed = 0
# jobs = 0                      # runs at a time; 0: one for each four cores
# confirm = 3                   # how often a failing run is run again
# realism_s = 10                # a delay is believed if a device that is slower by so much causes it; 0: any delay is
# baseline_runs = 3             # runs without a fault at the start
# benign_runs = 3               # then runs with a fault while nothing happens: what is normal when a node is gone
"""

PLUGINS = '''\
"""How Undermine uses this system, and what must be true afterwards."""

from __future__ import annotations

import undermine
from undermine import ledgers


def put(node, key, value):
    """Write through one node: raise if it did not say yes. (node.host, node.port, node.ports["main"])"""
    raise NotImplementedError("replace this with a call of your client")


def get(node, key):
    """Read through one node."""
    raise NotImplementedError("replace this with a call of your client")


@undermine.workload
def workload(s):
    """Use the cluster as its users do, for a second or two. `s` records every operation."""
    stores = s.role("store")  # or s.nodes: all of them
    seed = s.rng.randrange(1000)  # random, but the same again for the same seed

    def client(name):
        for number in range(10):
            node = stores[(seed + number) % len(stores)]
            key, value = f"{name}-{number}", number
            # An exception means "unknown": it may have happened or not. attempt() records it and goes on.
            # Raise undermine.Refused where it certainly did not happen.
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
    """Runs when all faults are healed, again and again until it does not raise: read everything back."""
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


# What must be true. A ledger compares what clients were told with what is there, whatever was concurrent, refused or left
# open; there are others for stale reads, logs, replicas, jobs, locks and leaders: docs/ledgers.md
undermine.check(ledgers.no_acknowledged_write_lost(write="put", read="get", key="key", value="value", by="node"))

# A checker of your own is a function of the run: run.history, run.trace, run.logs, run.plan, run.receipts.
# @undermine.checker
# def mine(run):
#     if …:
#         return undermine.Verdict.fail("k1 is 5, not 7", symptom="a sum is wrong")  # the same bug: the same symptom
#     return undermine.Verdict.ok()  # or undermine.Verdict.unknown("nothing could be read")
'''

FILES = {"undermine.toml": TEMPLATE, "hunt.py": PLUGINS}


def init(
    folder: Annotated[Path, typer.Argument(help="Where to write the files.")] = Path("."),
    force: Annotated[bool, typer.Option("--force", help="Overwrite what is there.")] = False,
    json: JsonOption = False,
) -> int:
    """Write a commented undermine.toml and hunt.py to start from.

    Example: `undermine init my-system`
    """
    written = write(folder, force=force)
    if json:
        print_json({"written": [str(path) for path in written]})
    else:
        for path in written:
            typer.echo(f"wrote {path}")
        typer.echo(f"next: set the command in {folder / FILE_NAME}, then `undermine check -c {folder}`")
    return 0


def write(dir: Path, force: bool = False) -> list[Path]:
    """Write both files; refuses before the first if either is there, unless forced."""
    paths = {dir / name: text for name, text in FILES.items()}
    there = [str(path) for path in paths if path.exists() or path.is_symlink()]
    if there and not force:
        verb = "exists" if len(there) == 1 else "exist"
        raise UserError(f"{' and '.join(there)} {verb} already; move them away or use --force to overwrite them")
    try:
        dir.mkdir(parents=True, exist_ok=True)
        for path, text in paths.items():
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{error.filename or dir} cannot be written: {error.strerror}") from None
    return list(paths)
