"""The content of a valid `undermine.toml` as frozen structs. `load.load` creates them from a file.

Names of strategies and checkers are checked later, with `Config.check_names`, by the code that knows them.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from undermine.agent_protocol import DelayMode
from undermine.config.adapters import DEFAULT as DEFAULT_ADAPTERS
from undermine.config.lines import show
from undermine.config.templates import (
    DEFAULT_ENTRY,
    DEFAULT_JOIN,
    Entry,
    NodeFacts,
    Value,
    Values,
    did_you_mean,
    placeholders,
    render,
)
from undermine.model.errors import UserError
from undermine.model.fault_limits import FaultLimits
from undermine.model.faults import (
    Direction,
    DiskError,
    FaultName,
    Kept,
    Level,
    Logical,
    Loss,
    NetworkError,
)
from undermine.model.run import NodeInfo
from undermine.runtimes.base import Runtime
from undermine.runtimes.table import RUNTIMES, runtime_for

FILE_NAME = "undermine.toml"
NODES_MAX = 64
ALL = "all"
"""The built-in group of all nodes."""
SECONDS_MAX = 86_400
SPEED_MAX = 100
TRUE_S_MIN = 1.0
BUDGET_S_MAX = 30 * SECONDS_MAX

Agent = Literal["auto", "python", "jvm", "none"]
"""The names of all runtimes, and `auto`."""
Isolation = Literal["auto", "namespaces", "ports"]
Observe = Literal["auto", "all", "io"]
LogicalOp = Literal["msg.send", "msg.recv", "db.read", "db.write", "db.commit"]
Param = Value

_SECONDS = 'at most a day, like 20, 0.5 or "1m30s"'
Seconds = Annotated[float, Meta(gt=0, le=SECONDS_MAX, description=f"a time greater than 0 and {_SECONDS}")]
Pause = Annotated[float, Meta(ge=0, le=SECONDS_MAX, description=f"a time of {_SECONDS}")]
Budget = Annotated[
    float,
    Meta(gt=0, le=BUDGET_S_MAX, description='a time of at most 30 days, like "10m", "90s", "1h30m" or 600'),
]
Restarts = Annotated[int, Meta(ge=1, le=1000, description="a whole number from 1 to 1000")]
Text = Annotated[str, Meta(description="text in quotes")]
# Not `min_length`, because "" is the default of optional keys and a stored configuration must be readable.
Template = Annotated[str, Meta(description="non-empty text in quotes", extra={"filled": True})]
Texts = Annotated[tuple[Annotated[str, Meta(min_length=1)], ...], Meta(description='a list of texts, like ["a", "b"]')]
Paths = Annotated[tuple[Annotated[str, Meta(min_length=1)], ...], Meta(description='a path, like "key", or a list of paths')]
Command = Annotated[
    tuple[str, ...],
    Meta(description='a command line, like "server --id {id}", or a list of its words'),
]
NodeNames = Annotated[
    tuple[str, ...], Meta(min_length=1, description=f"a list of node names or a number from 1 to {NODES_MAX}")
]
PortNames = Annotated[tuple[str, ...], Meta(description='a list of port names, like ["rpc", "gossip"]')]
RoleNames = Annotated[tuple[str, ...], Meta(description="a list of role names")]
GroupNames = Annotated[tuple[str, ...], Meta(description='a list of group names, like ["rack1", "all"]')]


class Variable(msgspec.Struct, frozen=True):
    """A variable of the target: its path in the program, and the metadata that it holds. Only variables that hold the same
    metadata are compared."""

    path: str
    metadata: str

    @property
    def has_keys(self) -> bool:
        """Is it one variable for each key?"""
        return "[*" in self.path


Variables = Annotated[
    dict[str, Variable], Meta(description='a table of paths in quotes, like {term = "package.module:Class.attribute"}')
]
Status = Annotated[int, Meta(ge=100, le=599, description="an HTTP status from 100 to 599")]
Environment = Annotated[dict[str, str], Meta(description='a table of texts in quotes, like {PORT = "{port}"}')]


def _whole(low: int, high: int) -> Meta:
    return Meta(ge=low, le=high, description=f"a whole number from {low} to {high}")


class Campaign(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table [campaign]: files and folders. Paths are relative to the file."""

    dir: Template = ".undermine"
    plugins: Text = ""
    files: Texts = ()
    name: Text = ""
    setup: Text = ""


class Ready(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The condition under which a node is ready. Exactly one of tcp, log, http and python is set."""

    tcp: Template = ""
    log: Template = ""
    http: Template = ""
    port: Template = ""
    status: Status = 200
    python: Template = ""
    timeout_s: Seconds = 15.0


class Health(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the tool asks a node for its health. Exactly one of command, http and python is set."""

    command: Command = ()
    http: Template = ""
    port: Template = ""
    status: Status = 200
    python: Template = ""
    timeout_s: Seconds = 5.0


class Restart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A supervisor, such as systemd or Kubernetes: it starts a node again that ends by itself."""

    after_s: Pause = 1.0
    max: Restarts = 5
    """It gives up after this number of restarts of a node in one run."""


class LogicalOperation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A function of the target that counts as one operation. Its kind, peer, size, content, store, keys and values are
    paths, or `=` and a text."""

    function: Template
    op: LogicalOp
    kind: Template = ""
    peer: Template = ""
    size: Template = ""
    content: Template = ""
    store: Template = ""
    keys: Paths = ()
    values: Paths = ()


class Role(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table [roles.NAME]: nodes that are started by the same command. `name` is the name of the table, not a key."""

    name: str
    nodes: NodeNames
    command: Command
    env: Environment = {}
    cwd: Template = "{dir}"
    ports: PortNames = ("main",)
    agent: Agent = "auto"
    packages: Texts = ()
    paths: Texts = ()
    operations: tuple[LogicalOperation, ...] = ()
    adapters: Texts = DEFAULT_ADAPTERS
    ready: Ready = Ready()
    health: Health | None = None
    restart: Restart | None = None
    logs: Texts = ("*.log",)
    start_after: RoleNames = ()
    variables: Variables = {}
    peers: Template = DEFAULT_ENTRY
    peers_join: Text = DEFAULT_JOIN

    def environment(self, values: Values) -> dict[str, str]:
        """The environment of the tool with the variables of the role. The deployment adds those of the agent."""
        return {**os.environ, **{name: render(text, values) for name, text in self.env.items()}}


class Workload(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table [workload]: a function of the plug-in file (by default the decorated one) or a command."""

    python: Template = ""
    command: Command = ()
    timeout_s: Seconds = 30.0
    parts: Text = ""
    """The parameter that lists the parts of the workload, separated by commas; "": it has no parts."""


class RunLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table [run]: isolation of nodes, what agents observe, and the limits of one run."""

    isolation: Isolation = "auto"
    observe: Observe = "auto"
    start_timeout_s: Seconds = 60.0
    settle_timeout_s: Seconds = 20.0
    hang_s: Seconds = 8.0
    patience_s: Seconds = 60.0
    gray_s: Seconds = 2.0
    speed: Annotated[int, _whole(1, SPEED_MAX)] = 1
    checker_timeout_s: Seconds = 10.0
    late_s_max: Seconds = 0.5
    user: Text = ""
    output_mb: Annotated[int, _whole(1, 4096)] = 64


_DEFAULTS = FaultLimits()
_ANY = Meta(description="a list of {choices}")
_SOME = Meta(min_length=1, description="a list of {choices}")


class Faults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table [faults]: the faults that may be injected."""

    kinds: Annotated[tuple[FaultName, ...], _SOME] = _DEFAULTS.kinds
    reboot_after_s: Pause = _DEFAULTS.reboot_after_s
    delay_s: Seconds = _DEFAULTS.delay_s
    delay_modes: Annotated[tuple[DelayMode, ...], _SOME] = _DEFAULTS.delay_modes
    pause_s: Seconds = _DEFAULTS.pause_s
    outage_s_max: Pause = 10.0
    partition_levels: Annotated[tuple[Level, ...], _SOME] = _DEFAULTS.partition_levels
    partition_directions: Annotated[tuple[Direction, ...], _SOME] = _DEFAULTS.partition_directions
    partition_losses: Annotated[tuple[Loss, ...], _SOME] = _DEFAULTS.partition_losses
    power: bool = _DEFAULTS.power
    power_kept: Annotated[tuple[Kept, ...], _SOME] = _DEFAULTS.power_kept
    disk_errors: Annotated[tuple[DiskError, ...], _ANY] = _DEFAULTS.disk_errors
    network_errors: Annotated[tuple[NetworkError, ...], _ANY] = _DEFAULTS.network_errors
    logical: Logical = _DEFAULTS.logical
    roles: RoleNames = ()
    groups: GroupNames = ()
    max_steps: Annotated[int, _whole(1, 8)] = 2


class Checkers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table [checkers]: checkers to switch on or off, and regular expressions for log lines that fail a run or never do."""

    enable: Texts = ()
    disable: Texts = ()
    fail_on: Texts = ()
    ignore: Texts = ()


class Hunt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table [hunt]: the budget and the number of runs. `budget` is in seconds."""

    strategies: Texts = ()
    budget: Budget = 600.0
    max_runs: Annotated[int, _whole(0, 1_000_000)] = 0
    seed: Annotated[int, _whole(0, 2**53)] = 0
    jobs: Annotated[int, _whole(0, 64)] = 0
    batch: Annotated[int, _whole(0, 10_000)] = 0
    steps: Annotated[int, _whole(1, 8)] = 1
    tries: Annotated[int, _whole(1, 100)] = 5
    confirm: Annotated[int, _whole(0, 100)] = 3
    confirm_share: Annotated[float, Meta(ge=0, le=1, description="a number from 0 to 1")] = 0.33
    realism_s: Pause = 10.0
    shrink_s: Pause = 60.0
    baseline_runs: Annotated[int, _whole(1, 100)] = 3
    benign_runs: Annotated[int, _whole(0, 100)] = 3

    def jobs_for(self, cores: int) -> int:
        """The number of runs at a time: `jobs`, else one for each four cores."""
        return self.jobs or max(1, cores // 4)


_Table = TypeVar("_Table", bound=msgspec.Struct)

AUTO = "auto"
_SIGNIFICANT = ("roles", "params", "groups", "variables", "strategies", "workload", "run", "faults", "checkers")


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A valid `undermine.toml`. The first four fields are about the file, the others are its tables."""

    path: str
    project: str
    lines: dict[str, int]
    plugins_digest: str
    roles: dict[str, Role]
    params: dict[str, Param] = {}
    groups: dict[str, tuple[str, ...]] = {}
    variables: dict[str, Variable] = {}
    strategies: dict[str, dict[str, Any]] = {}
    """The tables [strategies.NAME]: options that each strategy checks itself."""
    campaign: Campaign = Campaign()
    workload: Workload = Workload()
    run: RunLimits = RunLimits()
    faults: Faults = Faults()
    checkers: Checkers = Checkers()
    hunt: Hunt = Hunt()
    auto_variables: bool = False
    """`variables = "auto"`: a campaign chooses its variables itself, and keeps them."""

    @property
    def dir(self) -> Path:
        """The folder of the results."""
        return Path(self.project, self.campaign.dir)

    @property
    def plugins(self) -> Path | None:
        return Path(self.project, self.campaign.plugins) if self.campaign.plugins else None

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the workload that run; none if the workload has no parts."""
        words = str(self.params[self.workload.parts]).split(",") if self.workload.parts else ()
        return tuple(dict.fromkeys(filter(None, (word.strip() for word in words))))

    def with_parts(self, parts: Iterable[str]) -> Config:
        """A copy in which only these parts of the workload run."""
        return msgspec.structs.replace(self, params={**self.params, self.workload.parts: ",".join(parts)})

    @property
    def node_ids(self) -> tuple[str, ...]:
        return tuple(node for role in self.roles.values() for node in role.nodes)

    @property
    def node_roles(self) -> dict[str, str]:
        """The name of each node's role."""
        return {node: role.name for role in self.roles.values() for node in role.nodes}

    def role_of(self, node: str) -> Role:
        return next(role for role in self.roles.values() if node in role.nodes)

    def group(self, name: str) -> tuple[str, ...]:
        """The nodes of a named group; `all` and every role are groups too."""
        if name in self.groups:
            return self.groups[name]
        return self.node_ids if name == ALL else self.roles[name].nodes

    def variables_of(self, node: str) -> dict[str, Variable]:
        """The variables that agents read in this node."""
        return self.variables | self.role_of(node).variables

    @property
    def metadata(self) -> dict[str, str]:
        """By name of a variable: the metadata that it holds."""
        every = (self.variables, *(role.variables for role in self.roles.values()))
        return {name: variable.metadata for variables in every for name, variable in variables.items()}

    @property
    def variable_names(self) -> dict[str, bool]:
        """All variables (`NODE.NAME`) that a trigger may use. Does it have keys?"""
        return {
            f"{node}.{name}": variable.has_keys
            for node in self.node_ids
            for name, variable in self.variables_of(node).items()
        }

    def start_order(self) -> list[list[Role]]:
        """Roles in groups: a group may start when all groups before it are ready."""
        groups: list[list[Role]] = []
        done: set[str] = set()
        while len(done) < len(self.roles):
            waiting = [role for name, role in self.roles.items() if name not in done]
            groups.append([role for role in waiting if done.issuperset(role.start_after)])
            done.update(role.name for role in groups[-1])
        return groups

    def values(self, nodes: Sequence[NodeInfo], node: str = "", run: str = "") -> Values:
        """The values of placeholders for this node in a run; without a node, for the workload."""
        facts = tuple(NodeFacts.of(info, self.role_of(info.id).nodes.index(info.id) + 1) for info in nodes)
        return values_of(facts, node, run, self.project, self.params, self.roles)

    def user_of(self, node: str) -> str:
        """The user that this node runs as; "" for the user of the tool."""
        role = self.role_of(node)
        return render(self.run.user, user_values(role, node, self.project, self.params))

    def runtime(self, role: str) -> Runtime:
        """The runtime of this role's nodes; `agent = "auto"` is resolved from the program."""
        wanted = self.roles[role].agent
        if wanted != "auto":
            return RUNTIMES[wanted]
        return runtime_for(self.program(role))

    def program(self, role: str) -> str:
        """The program that this role's command starts. Placeholders that differ between nodes stay."""
        program = _program_of(self.roles[role].command)
        return _filled(program, Values((), project=self.project, params=self.params))

    def at_speed(self, speed: int) -> Config:
        """A copy for one run whose clocks are this much faster: the seconds of the target's time as true seconds.

        Limits of the tool that a busy machine can exceed stay at 1 s at least.
        """
        if speed == 1:
            return self
        return msgspec.structs.replace(
            self,
            run=_shortened(self.run, speed, settle_timeout_s=TRUE_S_MIN, hang_s=TRUE_S_MIN, gray_s=0.0),
            roles={name: _role_at_speed(role, speed) for name, role in self.roles.items()},
        )

    def where(self, key: str) -> str:
        """`FILE:LINE` of a dotted key, or of the table that it would be in."""
        while key and key not in self.lines:
            key = key.rpartition(".")[0]
        return f"{self.path}:{self.lines.get(key, 1)}"

    def check_names(self, key: str, names: Iterable[str], known: Iterable[str]) -> None:
        """Raise an error for a name that is not known."""
        known = sorted(known)
        for name in names:
            if name not in known:
                allowed = f"(known names: {', '.join(known)})" if known else "(there are none)"
                hint = did_you_mean(name, known)
                raise UserError(f"{self.where(key)}: {key} has the unknown name {show(name)}{hint} {allowed}")

    def significant(self) -> dict[str, Any]:
        """All values that change what a run does or how it is judged, as JSON types."""
        tables = {name: getattr(self, name) for name in _SIGNIFICANT}
        tables |= {"variables": AUTO} if self.auto_variables else {}
        tables |= {"hunt": {"seed": self.hunt.seed}, "plugins_digest": self.plugins_digest}
        values: dict[str, Any] = json.loads(json.dumps(msgspec.to_builtins(tables)))
        if self.run.speed == 1:
            del values["run"]["speed"]  # campaigns that are older than this option can be resumed
        return values

    def fingerprint(self) -> str:
        """A digest that is equal for configurations whose runs may share a campaign. The order of keys does not matter."""
        data = json.dumps(self.significant(), sort_keys=True, separators=(",", ":"))
        return hashlib.blake2b(data.encode(), digest_size=16).hexdigest()


def _shortened(table: _Table, speed: int, **least_s: float) -> _Table:
    """A copy with these times divided by the speed. A time above its least one doesn't become shorter than that."""
    times = {name: (getattr(table, name), least) for name, least in least_s.items()}
    return msgspec.structs.replace(table, **{name: max(s / speed, min(s, least)) for name, (s, least) in times.items()})


def _role_at_speed(role: Role, speed: int) -> Role:
    return msgspec.structs.replace(role, restart=_shortened(role.restart, speed, after_s=0.0)) if role.restart else role


def changes(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """The differences between two `Config.significant()`, a phrase for each key."""
    return list(_changes(old, new, ""))


def _changes(old: dict[str, Any], new: dict[str, Any], prefix: str) -> Iterable[str]:
    for name in dict.fromkeys([*old, *new]):
        key, before, after = prefix + name, old.get(name), new.get(name)
        if _exact(before) == _exact(after) and (name in old) == (name in new):
            continue
        if key == "plugins_digest":
            yield "the plug-in file has changed"
        elif name not in old:
            yield f"{key} was added"
        elif name not in new:
            yield f"{key} was removed"
        elif isinstance(before, dict) and isinstance(after, dict):
            yield from _changes(before, after, key + ".")
        else:
            yield f"{key} was {_short(before)} and is now {_short(after)}"


def _exact(value: Any) -> str:
    """The value as JSON. Unlike `==`, it tells `1` from `true` and `1.0`, as the fingerprint does."""
    return json.dumps(value, sort_keys=True)


def _short(value: Any) -> str:
    if isinstance(value, dict):
        value = {name: inner for name, inner in value.items() if inner}
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."


def parse_duration(text: str) -> float:
    """Seconds in "90s", "10m", "1h30m" or "90"; raises ValueError."""
    compact = text.strip().lower()
    number = r"(\d+(?:\.\d+)?)"
    if re.fullmatch(number, compact, re.ASCII):
        return float(compact)
    units = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
    found = re.fullmatch(" ?".join(f"(?:{number} ?{unit})?" for unit in units), compact, re.ASCII)
    if not compact or found is None:
        raise ValueError(f'{show(text)} is not a time like "90s", "10m" or "1h30m"')
    return sum(float(part or 0) * factor for part, factor in zip(found.groups(), units.values(), strict=True))


def values_of(
    facts: tuple[NodeFacts, ...],
    node: str,
    run: str,
    project: str,
    params: Mapping[str, Param],
    roles: Mapping[str, Role],
) -> Values:
    own = next(fact for fact in facts if fact.id == node) if node else None
    entries = {name: Entry(role.peers, role.peers_join) for name, role in roles.items()}
    return Values(facts, own, run, project, params=params, entries=entries)


def user_values(role: Role, node: str, project: str, params: Mapping[str, Param]) -> Values:
    """The values of placeholders in `run.user`, which is the same in every run."""
    own = NodeFacts(node, role.name, role.nodes.index(node) + 1, "", {}, "")
    return Values((own,), own, "", project, params=params)


def _program_of(command: Sequence[str]) -> str:
    """The word of the command that names the program; `env` and its variables are skipped."""
    if Path(command[0]).name != "env":
        return command[0]
    return next((word for word in command[1:] if "=" not in word and not word.startswith("-")), command[0])


def _filled(program: str, values: Values) -> str:
    """The program with its placeholders replaced, if they are the same for all nodes; else unchanged."""
    same = all(name == "project" or name.startswith("params.") for name in placeholders(program))
    return render(program, values) if same else program
