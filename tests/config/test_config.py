"""Valid files become structs with all defaults; every mistake names its line, its key and what to do."""

from __future__ import annotations

import json
import random
import re
import sys
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import msgspec
import pytest
from tables import for_each

from undermine import resources
from undermine.cli import init
from undermine.config.load import load
from undermine.config.schema import (
    Campaign,
    Checkers,
    Config,
    DiskError,
    Faults,
    Health,
    Hunt,
    NetworkError,
    Ready,
    Restart,
    Role,
    RunLimits,
    Variable,
    Workload,
    changes,
    parse_duration,
)
from undermine.config.tables import TABLES
from undermine.config.templates import render, render_command
from undermine.model.errors import UserError
from undermine.model.faults import DEFAULT_KINDS, DISK_ERRORS, FAULT_KINDS, FAULT_NAMES, NETWORK_ERRORS, Fault
from undermine.model.run import NodeInfo, Op, Phase
from undermine.testing import run_view
from undermine.userland import registry

MINIMAL = """\
[campaign]
plugins = "hunt.py"
[roles.store]
nodes = 2
command = "{python} -m granary --port {port}"
"""

PLUGINS = "def workload(s): ...\ndef is_ready(node): ...\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "hunt.py").write_text(PLUGINS)
    return tmp_path


def loaded(project: Path, text: str, **overrides: str) -> Config:
    path = project / "undermine.toml"
    path.write_text(textwrap.dedent(text))
    return load(path, overrides)


def refusal(project: Path, text: str, **overrides: str) -> str:
    with pytest.raises(UserError) as caught:
        loaded(project, text, **overrides)
    message = str(caught.value)
    assert "\n" not in message
    return message.replace(f"{project}/", "")


# What is valid


def test_defaults(project: Path) -> None:
    config = loaded(project, MINIMAL)
    role = config.roles["store"]
    assert role.nodes == ("store1", "store2")
    assert role.command == ("{python}", "-m", "granary", "--port", "{port}")
    assert role.ready == Ready(tcp="main", timeout_s=15)
    assert role.cwd == "{dir}"
    assert config.hunt == Hunt()
    assert config.hunt.budget == 600
    assert config.dir == project / ".undermine"
    assert config.plugins == project / "hunt.py"
    assert config.node_ids == ("store1", "store2")


FULL = """\
[campaign]
dir = "out"
plugins = "hunt.py"
name = "nightly"

[params]
level = "info"
size = 3
rate = 0.5
sync = true

[roles.master]
nodes = ["m1"]
command = ["{python}", "-c", "{{}} {params.level}"]
ports = ["rpc", "gossip"]
ready = {http = "/ready", port = "gossip", status = 204, timeout_s = "1m"}
health = {command = "{python} -c '{port.rpc} {id}'"}

[roles.store]
nodes = ["s1", "s2", "s3"]
command = '{python} -m store "--name=the {id}" {peers.store}'
env = {MASTER = "{nodes.m1.host}:{nodes.m1.port.gossip}"}
cwd = "{project}"
agent = "python"
packages = ["granary", "granary.core"]
paths = ["{run}/shared"]
logs = ["logs/*.txt"]
start_after = ["master"]
peers = "{host}:{port}"
peers_join = " "

[roles.store.ready]
log = 'listening on \\d+'

[roles.worker]
nodes = 1
command = "{python} w.py {all.master}"
ports = []
peers = "{id}"
ready = {python = "is_ready"}
start_after = ["master", "store"]

[workload]
command = "{python} use.py {nodes.m1.host}:{nodes.m1.port} {all.store}"
timeout_s = 12

[run]
hang_s = 2.5

[faults]
kinds = ["crash"]
reboot_after_s = 0
roles = ["store"]

[hunt]
budget = "1h30m"
jobs = 2
"""


def test_everything(project: Path) -> None:
    config = loaded(project, FULL)
    assert config.roles["master"].ready == Ready(http="/ready", port="gossip", status=204, timeout_s=60)
    health = config.roles["master"].health
    assert health == Health(command=("{python}", "-c", "{port.rpc} {id}"))
    assert config.roles["store"].command[3] == "--name=the {id}"
    assert config.roles["store"].ready == Ready(log=r"listening on \d+")
    assert config.faults == Faults(kinds=("crash",), reboot_after_s=0, roles=("store",))
    assert config.hunt.budget == 5400
    assert config.params == {"level": "info", "size": 3, "rate": 0.5, "sync": True}
    assert [[role.name for role in group] for group in config.start_order()] == [
        ["master"],
        ["store"],
        ["worker"],
    ]
    assert config.role_of("s2").name == "store"


def test_a_config_survives_json(project: Path) -> None:
    config = loaded(project, FULL)
    assert msgspec.json.decode(msgspec.json.encode(config), type=Config) == config


def test_a_folder_means_its_file(project: Path) -> None:
    (project / "undermine.toml").write_text(MINIMAL)
    assert load(project).path == str(project / "undermine.toml")


def test_values_for_nodes_and_workload(project: Path) -> None:
    config = loaded(project, FULL)
    infos = [
        NodeInfo(node, config.role_of(node).name, "h" + node, number, ports, "/d/" + node)
        for number, (node, ports) in enumerate(
            {"m1": {"rpc": 0, "gossip": 9}, "s1": {"main": 1}, "s2": {"main": 2}, "s3": {"main": 3}}.items()
        )
    ]
    values = config.values(infos, "s2", "/r")
    words = render_command(config.roles["store"].command, values)
    assert words == (sys.executable, "-m", "store", "--name=the s2", "hs1:1", "hs3:3")
    assert render(config.roles["store"].env["MASTER"], values) == "hm1:9"
    assert render("{index} {run} {project}", values) == f"2 /r {project}"
    assert render_command(config.workload.command, config.values(infos))[-1] == "hs3:3"


@for_each(
    ("program", "agent"),
    [
        ("{python}", "python"),
        ("python3.12", "python"),
        ("/opt/venv/bin/python", "python"),
        ("env A=1 python3", "python"),
        ("{project}/tool", "python"),
        ("{project}/serve.py", "python"),
        ("{project}/tool.sh", "none"),
        ("{dir}/tool", "none"),
        ("pythonista", "none"),
        ("java", "jvm"),
        ("{java}", "jvm"),
        ("/opt/jdk/bin/java -Xmx1g Main", "jvm"),
        ("env A=1 java Main", "jvm"),
        ("{params.java} Main", "jvm"),
        ("env A=1 {params.java} Main", "jvm"),
        ("{params.interpreter} -m store", "python"),
        ("javac", "none"),
        ("javaish/tool", "none"),
    ],
)
def test_auto_agent(project: Path, program: str, agent: str) -> None:
    for name, first in {"tool": "#!/x/bin/python3.11", "tool.sh": "#!/bin/sh"}.items():
        (project / name).write_text(first + "\n")
        (project / name).chmod(0o755)
    params = '[params]\njava = "/opt/jdk-25/bin/java"\ninterpreter = "pypy3"\n'
    text = params + MINIMAL.replace("{python}", program)
    (project / "undermine.toml").write_text(text)
    assert load(project, programs=False).runtime("store").name == agent
    (project / "undermine.toml").write_text(text + 'agent = "none"\n')
    assert load(project, programs=False).runtime("store").name == "none"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10m", 600), ("90s", 90), ("1h30m", 5400), ("1h 30m", 5400), ("0.5s", 0.5), ("2d", 172800), ("90", 90)],
)
def test_duration(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "10x", "30m1h", "-5s", "1m 1m", "ten", "1e3"])
def test_bad_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        parse_duration(text)


def test_groups_of_the_file_and_built_in_groups(project: Path) -> None:
    text = MINIMAL + "[groups]\nrack = ['store2', 'store1']\n[faults]\ngroups = ['rack', 'all', 'store']\n"
    (project / "undermine.toml").write_text(text)
    config = load(project)
    assert [config.group(name) for name in config.faults.groups] == [
        ("store2", "store1"),
        config.node_ids,
        config.roles["store"].nodes,
    ]


def test_a_campaign_may_choose_its_variables(project: Path) -> None:
    (project / "undermine.toml").write_text(MINIMAL)
    before = load(project)
    (project / "undermine.toml").write_text('variables = "auto"\n' + MINIMAL)
    config = load(project)
    assert (config.auto_variables, config.variables, before.auto_variables) == (True, {}, False)
    chosen = msgspec.structs.replace(config, variables={"term": Variable("app:Node.term", "term")})
    assert config.fingerprint() == chosen.fingerprint() != before.fingerprint()


def test_the_parts_of_the_workload_are_listed_by_a_parameter(project: Path) -> None:
    text = MINIMAL + "[params]\nwork = 'reads, locks,reads,'\nn = 3\n[workload]\nparts = 'work'\n"
    (project / "undermine.toml").write_text(text)
    config = load(project)
    assert config.parts == ("reads", "locks")
    assert load(project, {"work": "locks"}).parts == ("locks",)
    fewer = config.with_parts(("locks",))
    assert (fewer.params, fewer.parts) == ({"work": "locks", "n": 3}, ("locks",))
    (project / "undermine.toml").write_text(MINIMAL)
    assert load(project).parts == ()


def test_variables_of_a_role_come_before_those_of_all(project: Path) -> None:
    text = (
        MINIMAL + "variables = {term = 'app.store:Store.term'}\n[variables]\nterm = 'app:term'\nrole = 'app:X.y[z]'\n"
    )
    (project / "undermine.toml").write_text(text)
    assert load(project).variables_of("store1") == {
        "term": Variable("app.store:Store.term", "term"),
        "role": Variable("app:X.y[z]", "role"),
    }


def test_a_variable_may_hold_the_metadata_of_another_one(project: Path) -> None:
    text = MINIMAL + "[variables]\nseen = {path = 'app:Node.view[*].leader', metadata = 'leader'}\n"
    (project / "undermine.toml").write_text(text)
    config = load(project)
    assert config.variables == {"seen": Variable("app:Node.view[*].leader", "leader")}
    assert config.variable_names == {f"{node}.seen": True for node in config.node_ids}


def test_every_fault_of_the_model_can_be_listed_and_wrong_bytes_must_be() -> None:
    kinds = {member.__struct_config__.tag for member in get_args(Fault)}
    assert kinds == set(FAULT_NAMES)
    assert kinds - set(Faults().kinds) == {name for name, row in FAULT_KINDS.items() if not row.default}
    assert "corrupt" not in Faults().kinds


@pytest.mark.parametrize(("jobs", "cores", "expected"), [(0, 1, 1), (0, 3, 1), (0, 4, 1), (0, 9, 2), (5, 2, 5)])
def test_jobs(jobs: int, cores: int, expected: int) -> None:
    assert Hunt(jobs=jobs).jobs_for(cores) == expected


def test_error_names_are_those_of_the_model() -> None:
    assert Faults().disk_errors == get_args(DiskError) == DISK_ERRORS
    assert Faults().network_errors == get_args(NetworkError) == NETWORK_ERRORS


# What is not. `+` stands for MINIMAL (lines 1 to 5), so that what follows begins in line 6.

MALFORMED = [
    # unknown and misplaced keys
    ("+prots = ['a']", "6: roles.store.prots is not a known key", 'did you mean "ports"?'),
    ("+[hnt]", "6: hnt is not a known key", 'did you mean "hunt"?'),
    ("+[run]\nbudget = '1m'", "7: run.budget is not a known key", "did you mean hunt.budget?"),
    ("+ready = {tpc = 'main'}", "6: roles.store.ready.tpc is not a known key", 'did you mean "tcp"?'),
    ("+[hunt]\n'a b' = 1", '7: hunt."a b" is not a known key', "keys of [hunt]: strategies, budget"),
    ("+name = 'x'", "6: roles.store.name is not a known key", "did you mean campaign.name?"),
    # types and ranges
    ("+[workload]\nparts = 'work'", "7: workload.parts must be the name of a parameter", '([params] has none), not "work"'),
    ("+[params]\nwork = 3\n[workload]\nparts = 'work'", "9: workload.parts must be", 'like work = "reads,writes"'),
    ("+[hunt]\n\njobs = '2'", "8: hunt.jobs must be", 'a whole number from 0 to 64, not "2"'),
    ("+[hunt]\njobs = 65", "7: hunt.jobs must be", "from 0 to 64, not 65"),
    ("+[hunt]\nseed = true", "7: hunt.seed must be", "not true"),
    ("+[run]\nisolation = 'port'", "7: run.isolation must be", 'did you mean "ports"'),
    ("+[run]\nlate_s_max = 0", "7: run.late_s_max must be", "greater than 0"),
    ("+[run]\nhang_s = 0", "7: run.hang_s must be", "greater than 0"),
    ("+[run]\nhang_s = nan", "7: run.hang_s must be", "greater than 0"),
    ("+[run]\nhang_s = true", "7: run.hang_s must be", "not true"),
    ("+[run]\nhang_s = 'soon'", "7: run.hang_s must be", 'not "soon"'),
    ("+[faults]\ndelay_s = -1", "7: faults.delay_s must be", "not -1"),
    ("+[hunt]\nbudget = 'ten'", "7: hunt.budget must be", '"1h30m" or 600, not "ten"'),
    ("+[hunt]\nbudget = '31d'", "7: hunt.budget must be", "at most 30 days"),
    ("hunt = 3\n+", "1: hunt must be a table", "not 3"),
    (
        "+agent = 'pyhton'",
        "6: roles.store.agent must be",
        'one of "auto", "python", "jvm", "none", not "pyhton"; did you mean "python"?',
    ),
    (
        "+ports = 'rpc'",
        "6: roles.store.ports must be",
        'a list of port names, like ["rpc", "gossip"], not "rpc"',
    ),
    ("+ports = ['a',\n 'b',\n 3]", "8: roles.store.ports must be", "but it holds 3"),
    ("+env = {A = 1}", "6: roles.store.env must be", "texts in quotes"),
    ("+[faults]\nkinds = [\n'crash',\n'dealy']", "9: faults.kinds must be", 'did you mean "delay"?'),
    ("+[faults]\nkinds = ['partitions']", "7: faults.kinds must be", 'did you mean "partition"?'),
    ("+[faults]\ndelay_modes = ['slow']", "7: faults.delay_modes must be", '"thread", "operation"'),
    ("+[faults]\npartition_levels = []", "7: faults.partition_levels must be", "not an empty list"),
    ("+[faults]\npartition_directions = ['up']", "7: faults.partition_directions must be", '"both", "out", "in"'),
    ("+[faults]\npartition_losses = ['loud']", "7: faults.partition_losses must be", '"silent", "error"'),
    ("+[faults]\npause_s = 0", "7: faults.pause_s must be", "a time greater than 0"),
    ("+[faults]\ngroups = ['rack']", '7: faults.groups names the unknown group "rack"', "(known groups: all, store)"),
    ("+[groups]\nall = ['store1']", "7: groups.all cannot be defined", "choose another name"),
    ("+[groups]\nstore = ['store1']", "7: groups.store cannot be defined", "choose another name"),
    ("+[groups]\nr = ['store1',\n'stor2']", '8: groups.r names the unknown node "stor2"', 'did you mean "store2"?'),
    ("+[groups]\nr = ['store1', 'store1']", '7: groups.r lists "store1" twice', "remove one"),
    ("+[groups]\nr = []", "7: groups.r must be a list of node names", "not an empty list"),
    ("+[groups]\nr = 'store1'", "7: groups.r must be a list of node names", 'not "store1"'),
    ("+[groups]\n'r 1' = ['store1']", '7: groups."r 1" has the invalid group name', "letters"),
    ("+[variables]\nterm = 'Node.term'", "7: variables.term must be a path", "package.module:Class.attribute"),
    ("+[variables]\nx = {path = 'm:x', kind = 1}", "7: variables.x.kind is unknown", "path and metadata"),
    ("+[variables]\nx = {metadata = 'm'}", "7: variables.x must be a path", "package.module:Class.attribute"),
    ("+[variables]\nx = {path = 'x'}", "7: variables.x.path must be a path", 'not "x"'),
    ("+[variables]\nx = {path = 'm:x', metadata = 1}", "7: variables.x.metadata must be a name", "not 1"),
    ("+variables = 'auto'", "6: roles.store.variables must be a table, not", "auto"),
    ("+[variables]\nterm = 1", "7: variables.term must be a path", "not 1"),
    ("+[variables]\n'a.b' = 'm:x'", '7: variables."a.b" has the invalid variable name', "letters"),
    ("+variables = {term = 'm:'}", "6: roles.store.variables.term must be a path", "package.module:Class.attribute"),
    ("+[faults]\nkinds = []", "7: faults.kinds must be", "not an empty list"),
    ("+[faults]\nkinds = ['crash', 'crash']", '7: faults.kinds lists "crash" twice', "remove one"),
    ("+[faults]\ndisk_errors = ['EIOO']", "7: faults.disk_errors must be", 'did you mean "EIO"?'),
    ("+[faults]\ndisk_errors = []\nnetwork_errors = []", '6: faults.kinds lists "error"', "both empty"),
    ("+[params]\na = [1]", "7: params.a must be", "text in quotes, a number, true or false, not a list"),
    ("+[params]\na = inf", "7: params.a must be", "a number"),
    ("+[params]\n'a.b' = 1", '7: params."a.b" has the invalid parameter name', "letters, digits"),
    # roles and nodes
    ("[campaign]\nplugins = 'hunt.py'\n", "1: roles is missing", "[roles.NAME]"),
    ("[roles]\nnodes = 3", "2: roles.nodes must be a table", "did you mean roles.NAME.nodes?"),
    ("[[roles]]\nnodes = 3", "1: roles must be tables", "[roles.NAME]"),
    ("[roles.a]\nnodes = 3", "1: roles.a.command is missing", "a command line"),
    ("[roles.a]\ncommand = 'x'", "1: roles.a.nodes is missing", "a number from 1 to 64"),
    ("[roles.a]\nnodes = 0\ncommand = 'x'", "2: roles.a.nodes must be", "from 1 to 64, not 0"),
    ("[roles.a]\nnodes = []\ncommand = 'x'", "2: roles.a.nodes must be", "not an empty list"),
    ("[roles.a]\nnodes = true\ncommand = 'x'", "2: roles.a.nodes must be", "not true"),
    ("[roles.a]\nnodes = ['x.y']\ncommand = 'x'", '2: roles.a.nodes has the invalid node name "x.y"', "letters"),
    ("[roles.'a b']\nnodes = 1\ncommand = 'x'", '1: roles."a b" has the invalid role name', "letters"),
    ("[roles.a]\nnodes = ['x',\n'x']\ncommand = 'x'", '3: roles.a.nodes lists "x" twice', "remove one"),
    (
        "+[roles.b]\nnodes = ['b1',\n\n'store2']\ncommand = 'true'",
        '9: roles.b.nodes names the node "store2"',
        "which role store also has",
    ),
    (
        "+start_after = ['stor']",
        '6: roles.store.start_after names the unknown role "stor"',
        'did you mean "store"?',
    ),
    ("+start_after = ['store']", "6: roles.store.start_after forms a cycle", "store after store"),
    (
        "+start_after = ['b']\n[roles.b]\nnodes = 1\ncommand = 'true'\nstart_after = ['store']",
        "10: roles.b.start_after forms a cycle",
        "store after b after store",
    ),
    (
        "+[faults]\nroles = ['Store']",
        '7: faults.roles names the unknown role "Store"',
        'did you mean "store"?',
    ),
    ("+ports = ['a b']", '6: roles.store.ports has the invalid port name "a b"', "letters"),
    ("+env = {'A-B' = 'x'}", "6: roles.store.env.A-B is not a valid variable name", "letters"),
    ("+packages = ['my-package']", "6: roles.store.packages must be", 'not "my-package"'),
    ("+logs = ['../x.log']", "6: roles.store.logs must be", "inside the node's {dir}"),
    # commands
    ("[roles.a]\nnodes = 1\ncommand = ''", "3: roles.a.command is empty", "name a program"),
    ("[roles.a]\nnodes = 1\ncommand = []", "3: roles.a.command is empty", "name a program"),
    ('[roles.a]\nnodes = 1\ncommand = "x \'y"', "3: roles.a.command cannot be split", "no closing quotation"),
    ("[roles.a]\nnodes = 1\ncommand = 3", "3: roles.a.command must be", "a command line"),
    (
        "+[workload]\ncommand = 'no-such-program-x'",
        "7: workload.command names the program",
        "not on the PATH",
    ),
    # ready and health
    ("+ready = {tcp = ''}", "6: roles.store.ready.tcp must be", 'non-empty text in quotes, not ""'),
    ('+env = {A = "x\\u0000"}', "6: roles.store.env.A must not contain", "NUL"),
    ("+cwd = ''", "6: roles.store.cwd must be", 'non-empty text in quotes, not ""'),
    ("+[campaign2]\n", "6: campaign2 is not a known key", 'did you mean "campaign"?'),
    (
        "+ready = {tcp = 'mian'}",
        '6: roles.store.ready.tcp names the unknown port "mian"',
        'did you mean "main"?',
    ),
    ("+ready = {tcp = 'main', log = 'x'}", "6: roles.store.ready.log cannot be combined with tcp", "keep only one of"),
    ("+[roles.store.ready]\n\nlog = 'a('", "8: roles.store.ready.log is not a valid regular expression", "position 1"),
    ("+ready = {http = 'health'}", "6: roles.store.ready.http must be a path", 'begins with "/"'),
    ("+ready = {http = '/', status = 99}", "6: roles.store.ready.status must be", "100 to 599"),
    ("+ready = {port = 'main'}", "6: roles.store.ready.port only works with http", "add http or remove it"),
    ("+ready = {python = 'is_raedy'}", "6: roles.store.ready.python names", 'did you mean "is_ready"?'),
    ("+ready = {timeout_s = 'x'}", "6: roles.store.ready.timeout_s must be", 'not "x"'),
    ("+health = {timeout_s = 1}", "6: roles.store.health is empty", "command, http, python"),
    ("+health = {command = '{python} {prot}'}", "6: roles.store.health.command has an unknown", "{port}?"),
    (
        "[campaign]\nplugins = 'hunt.py'\n[roles.a]\nnodes = 1\ncommand = 'true'\nports = []",
        "3: roles.a.ready is missing",
        "has no ports",
    ),
    # templates
    (
        "+cwd = '{projct}'",
        "6: roles.store.cwd has an unknown placeholder {projct}",
        "did you mean {project}?",
    ),
    (
        "+env = {A = 'x', B = '{idd}'}",
        "6: roles.store.env.B has an unknown",
        "did you mean {id}?",
    ),
    ("+paths = [\n'{dir',\n]", '7: roles.store.paths has a lone "{"', 'write "{{"'),
    (
        "+peers = '{id}@{port.rpc}'",
        "6: roles.store.peers has an unknown placeholder {port.rpc}",
        "known here: {id}",
    ),
    (
        "+[roles.b]\nnodes = 1\ncommand = [\n'true',\n'{params.x}']",
        "10: roles.b.command has an unknown",
        "{id}",
    ),
    (
        "+[workload]\ncommand = 'true {id}'",
        "7: workload.command has an unknown placeholder {id}",
        "{all.store}",
    ),
    (
        "+[workload]\ncommand = 'true {all.stor}'",
        "7: workload.command has an unknown",
        "did you mean {all.store}?",
    ),
    (
        "+env = {P = '{peers}'}\n[roles.w]\nnodes = 1\ncommand = 'true'\nports = []\nready = {log = 'x'}",
        "3: roles.store.peers has an unknown placeholder {port}",
        "node w1 of role w",
    ),
    # files
    ("+cwd = '{project}/nowhere'", "6: roles.store.cwd must be an existing folder", "nowhere"),
    ("+[workload]\npython = 'worklaod'", '7: workload.python names "worklaod"', 'did you mean "workload"?'),
    (
        "+[workload]\npython = 'workload'\ncommand = 'true'",
        "8: workload.command cannot be combined with python",
        "keep one",
    ),
    (
        "[campaign]\nplugins = 'hunts.py'\n[roles.a]\nnodes = 1\ncommand = 'true'",
        "2: campaign.plugins names",
        'did you mean "hunt.py"?',
    ),
    (
        "[campaign]\nplugins = '.'\n[roles.a]\nnodes = 1\ncommand = 'true'",
        "2: campaign.plugins names",
        "cannot be read",
    ),
    ("[roles.a]\nnodes = 1\ncommand = 'true'", "1: workload is missing", "campaign.plugins"),
    (
        "[roles.a]\nnodes = 1\ncommand = 'true'\nready = {python = 'f'}",
        "4: roles.a.ready.python names",
        "campaign.plugins is not set",
    ),
    (
        "[campaign]\nplugins = 'hunt.py'\ndir = 'hunt.py'\n[roles.a]\nnodes = 1\ncommand = 'true'",
        "3: campaign.dir must be a folder",
        "is a file",
    ),
    # programs
    (
        "[campaign]\nplugins = 'hunt.py'\n[roles.a]\nnodes = 1\ncommand = 'hunt.py'",
        "5: roles.a.command names",
        "did you mean {project}/hunt.py?",
    ),
    (
        "[campaign]\nplugins = 'hunt.py'\n[roles.a]\nnodes = 1\ncommand = './hunt.py'",
        "5: roles.a.command names",
        "write {project}/",
    ),
    (
        "[campaign]\nplugins = 'hunt.py'\n[roles.a]\nnodes = 1\ncommand = '{project}/hunt.py'",
        "5: roles.a.command names",
        "not executable",
    ),
    (
        "[campaign]\nplugins = 'hunt.py'\n[roles.a]\nnodes = 1\ncommand = '{project}/x'",
        "5: roles.a.command names",
        "does not exist",
    ),
    (
        "[campaign]\nplugins = 'hunt.py'\n[roles.a]\nnodes = 1\ncommand = '{python} hunt.py'",
        "5: roles.a.command names",
        "write {project}/hunt.py",
    ),
    (
        "[campaign]\nplugins = 'hunt.py'\n[roles.a]\nnodes = 1\ncommand = '{python} {project}/x.py'",
        "5: roles.a.command names",
        "does not exist",
    ),
]


@for_each(("text", "start", "hint"), MALFORMED)
def test_malformed(project: Path, text: str, start: str, hint: str) -> None:
    message = refusal(project, text.replace("+", MINIMAL, 1))
    assert message.startswith(f"undermine.toml:{start}"), message
    assert hint in message, message


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file; `undermine init` writes one"):
        load(tmp_path, {})


def test_syntax(project: Path) -> None:
    assert refusal(project, MINIMAL + "cwd = here\n").startswith("undermine.toml:6: this is not valid TOML")


def test_plugins_that_are_not_python(project: Path) -> None:
    (project / "hunt.py").write_text("x = 1\ndef (:\n")
    message = refusal(project, MINIMAL)
    assert message.startswith("undermine.toml:2: campaign.plugins names a file that is not valid Python: hunt.py:2")


def test_a_star_import_may_define_anything(project: Path) -> None:
    (project / "hunt.py").write_text("from helpers import *\n")
    config = loaded(project, MINIMAL + "ready = {python = 'somewhere_else'}\n")
    assert config.roles["store"].ready.python == "somewhere_else"


def test_programs_need_not_be_here_for_a_report(project: Path) -> None:
    (project / "undermine.toml").write_text(MINIMAL.replace("{python}", "not-here-at-all"))
    assert load(project, programs=False).roles["store"].command[0] == "not-here-at-all"
    with pytest.raises(UserError, match="not on the PATH"):
        load(project)


def test_a_path_of_its_own_is_searched(project: Path) -> None:
    (project / "bin").mkdir()
    (project / "bin" / "served").write_text("#!/bin/sh\n")
    (project / "bin" / "served").chmod(0o755)
    text = MINIMAL.replace("{python}", "served")
    loaded(project, text + 'env = {PATH = "{project}/bin"}\n')
    loaded(project, text + 'env = {PATH = "{dir}/bin"}\n')
    assert "not on the PATH" in refusal(project, text)


# --set


def test_overrides_keep_their_type(project: Path) -> None:
    config = loaded(project, FULL, level="4", size="5", rate="2", sync="false")
    assert config.params == {"level": "4", "size": 5, "rate": 2, "sync": False}


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("levle", "x", 'no parameter of this name; did you mean "level"? ([params] has level, size, rate, sync)'),
        ("size", "big", 'must be a number, like params.size in undermine.toml:8, not "big"'),
        ("rate", "inf", "must be a number"),
        ("sync", "maybe", "must be true or false"),
    ],
)
def test_bad_override(project: Path, name: str, value: str, words: str) -> None:
    message = refusal(project, FULL, **{name: value})
    assert message.startswith(f"--set {name}: ")
    assert words in message


def test_override_without_params(project: Path) -> None:
    assert "[params] has none" in refusal(project, MINIMAL, x="1")


# Names that plug-ins know


def test_check_names(project: Path) -> None:
    config = loaded(project, MINIMAL + "[hunt]\nstrategies = ['randm']\n")
    config.check_names("hunt.strategies", ["random"], ["random", "exhaustive"])
    with pytest.raises(UserError) as caught:
        config.check_names("hunt.strategies", config.hunt.strategies, ["random", "exhaustive"])
    assert str(caught.value).endswith(
        'undermine.toml:7: hunt.strategies has the unknown name "randm"; did you mean "random"? '
        "(known names: exhaustive, random)"
    )


def test_where_falls_back_to_the_table(project: Path) -> None:
    config = loaded(project, MINIMAL)
    assert config.where("roles.store.health.http") == f"{config.path}:3"
    assert config.where("hunt.seed") == f"{config.path}:1"


# The fingerprint


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('budget = "1h30m"', 'budget = "5m"'),
        ("jobs = 2", "jobs = 3\nmax_runs = 9\nconfirm = 1\nbaseline_runs = 1\nstrategies = ['x']"),
        ('name = "nightly"', 'name = "x"'),
        ('dir = "out"', 'dir = "other"'),
        ("hang_s = 2.5", "hang_s = '2.5s'  # a comment"),
        ('level = "info"\nsize = 3', 'size = 3\nlevel = "info"'),
    ],
)
def test_what_does_not_change_runs(project: Path, old: str, new: str) -> None:
    assert old in FULL
    before, after = loaded(project, FULL), loaded(project, FULL.replace(old, new))
    assert before.fingerprint() == after.fingerprint()
    assert changes(before.significant(), after.significant()) == []


@for_each(
    ("old", "new", "words"),
    [
        ("hang_s = 2.5", "hang_s = 3", "run.hang_s was 2.5 and is now 3.0"),
        ("hang_s = 2.5", "hang_s = 2.5\nisolation = 'ports'", 'run.isolation was "auto" and is now "ports"'),
        ('nodes = ["m1"]', 'nodes = ["m1", "m2"]', 'roles.master.nodes was ["m1"] and is now ["m1", "m2"]'),
        ("size = 3", "size = 4", "params.size was 3 and is now 4"),
        ("size = 3", "size = 3\nmore = 1", "params.more was added"),
        ("rate = 0.5\n", "", "params.rate was removed"),
        ("sync = true", "sync = 1", "params.sync was true and is now 1"),
        ('kinds = ["crash"]', 'kinds = ["delay"]', 'faults.kinds was ["crash"] and is now ["delay"]'),
        ("timeout_s = 12", "timeout_s = 13", "workload.timeout_s was 12.0 and is now 13.0"),
        ("jobs = 2", "seed = 2", "hunt.seed was 0 and is now 2"),
        ("[hunt]", "[checkers]\ndisable = ['gray']\n[hunt]", 'checkers.disable was [] and is now ["gray"]'),
        (
            "health = {command",
            "# ",
            'roles.master.health was {"command": ["{python}", "-c", "{port.rpc} {id}"',
        ),
    ],
)
def test_what_changes_runs(project: Path, old: str, new: str, words: str) -> None:
    assert old in FULL
    before, after = loaded(project, FULL), loaded(project, FULL.replace(old, new))
    assert before.fingerprint() != after.fingerprint()
    said = changes(json.loads(json.dumps(before.significant())), after.significant())
    assert len(said) == 1
    assert said[0].startswith(words)


def test_the_plugins_content_counts(project: Path) -> None:
    before = loaded(project, FULL)
    (project / "hunt.py").write_text(PLUGINS + "# more\n")
    after = loaded(project, FULL)
    assert before.fingerprint() != after.fingerprint()
    assert changes(before.significant(), after.significant()) == ["the plug-in file has changed"]


def test_overrides_count_and_the_place_does_not(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "hunt.py").write_text(PLUGINS)
    assert loaded(project, FULL).fingerprint() == loaded(elsewhere, FULL).fingerprint()
    assert loaded(project, FULL).fingerprint() != loaded(project, FULL, size="9").fingerprint()


# init and the reference


def blank(name: str = "undermine.toml") -> str:
    """A file of the template that `init` copies if the user names none."""
    return (resources.templates_dir() / "blank" / name).read_text()


def test_init_writes_what_loads(tmp_path: Path) -> None:
    paths = init.write(tmp_path / "new")
    assert [path.name for path in paths] == ["undermine.toml", "hunt.py"]
    config = load(tmp_path / "new", programs=False)
    assert config.roles["store"].nodes == ("store1", "store2", "store3")
    with pytest.raises(UserError, match=r'roles\.store\.command names the program "your-server"'):
        load(tmp_path / "new")


def test_init_refuses_to_overwrite(tmp_path: Path) -> None:
    (tmp_path / "hunt.py").write_text("mine")
    with pytest.raises(UserError, match=r"hunt\.py exists already"):
        init.write(tmp_path)
    assert not (tmp_path / "undermine.toml").exists()
    assert (tmp_path / "hunt.py").read_text() == "mine"
    init.write(tmp_path, force=True)
    assert (tmp_path / "hunt.py").read_text() == blank("hunt.py")


def test_init_in_a_place_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        init.write(tmp_path / "file")


class FakeSession:
    """Runs every operation at once and remembers it."""

    def __init__(self, phase: Phase, history: list[Op]) -> None:
        self.nodes = [NodeInfo(f"store{n}", "store", "h", n, {"main": n}, "/d") for n in (1, 2, 3)]
        self.rng = random.Random(1)
        self.phase: Phase = phase
        self.history = history

    def role(self, role: str) -> list[NodeInfo]:
        return [node for node in self.nodes if node.role == role]

    def clients(self, functions: Mapping[str, Callable[[], Any]]) -> None:
        for function in functions.values():
            function()

    def attempt(
        self, f: str, function: Callable[[], Any], *, client: str, node: str, args: dict[str, Any]
    ) -> SimpleNamespace:
        value, now_ns = function(), 10 * len(self.history)
        op = Op(len(self.history), client, f, node, args, "ok", value, "", self.phase, now_ns, now_ns + 5)
        self.history.append(op)
        return SimpleNamespace(ok=True, value=value, error="")


@pytest.mark.parametrize(("forgets", "answer"), [("", "pass"), ("c2-3", "fail")])
def test_the_skeleton_finds_a_lost_write(tmp_path: Path, forgets: str, answer: str) -> None:
    init.write(tmp_path)
    declared = registry.load(tmp_path / "hunt.py")
    data: dict[str, Any] = {}
    declared.module.put = lambda node, key, value: data.update({key: value} if key != forgets else {})
    declared.module.get = lambda node, key: data.get(key)
    history: list[Op] = []
    declared.the_workload()(FakeSession("workload", history))
    declared.finals["final"](FakeSession("final", history))
    verdict = declared.checkers["no_acknowledged_put_lost"](run_view(ops=history))
    assert verdict is not None
    assert verdict.answer == answer


def uncommented(text: str) -> str:
    return re.sub(r"^# (?=\w+ = )", "", text, flags=re.MULTILINE)


def test_init_shows_every_default_truly(tmp_path: Path) -> None:
    """With all comments of the form `# key = value` made live, nothing changes but what has no default."""
    init.write(tmp_path)
    path = tmp_path / "undermine.toml"
    plain = load(path, programs=False)
    text = uncommented(blank())
    text = re.sub(r"^(env|health|restart) = .*\n|^command = \"…\".*\n|^python = .*\n", "", text, flags=re.MULTILINE)
    path.write_text(text)
    shown = load(path, programs=False)
    assert changes(plain.significant(), shown.significant()) == []
    assert (shown.campaign, shown.hunt) == (plain.campaign, plain.hunt)


SECTIONS: dict[str, type[msgspec.Struct]] = {
    "campaign": Campaign,
    "roles.NAME": Role,
    "roles.NAME.ready": Ready,
    "roles.NAME.health": Health,
    "roles.NAME.restart": Restart,
    "workload": Workload,
    "run": RunLimits,
    "faults": Faults,
    "checkers": Checkers,
    "hunt": Hunt,
}


@pytest.mark.parametrize("section", [name for name in SECTIONS if "." not in name] + ["roles.NAME"])
def test_init_mentions_every_key(section: str) -> None:
    header = section.replace("NAME", "store")
    part = blank().split(f"[{header}]", 1)[1].split("\n[", 1)[0]
    keys = (
        set(SECTIONS[section].__struct_fields__) - {"name"}
        if section == "roles.NAME"
        else set(SECTIONS[section].__struct_fields__)
    )
    missing = {key for key in keys if not re.search(rf"^(# )?{key} = ", part, re.MULTILINE)}
    assert missing <= {"paths"}


def test_init_lists_the_default_kinds_of_faults() -> None:
    kinds = re.search(r"^kinds = (\[.*?\])", blank(), re.MULTILINE)
    assert kinds is not None
    assert set(json.loads(kinds[1])) == set(DEFAULT_KINDS), "change the line `kinds` in templates/blank/undermine.toml"


def documented(section: str) -> dict[str, str]:
    text = Path(__file__).parents[2].joinpath("docs/configuration.md").read_text()
    part = text.split(f"## [{section}]\n", 1)[1].split("\n## ", 1)[0]
    return dict(re.findall(r"^\| \**`(\w+)`\** \| (.*?) ?\|", part, re.MULTILINE))


def default_text(value: Any) -> str:
    if isinstance(value, float):
        return f"`{value:g}`"
    if isinstance(value, tuple):
        return f"`{json.dumps(list(value))}`"
    return f"`{json.dumps(value)}`"


@pytest.mark.parametrize("section", SECTIONS)
def test_reference_has_every_key_and_default(section: str) -> None:
    rows = documented(section)
    kind = SECTIONS[section]
    fields = [field for field in msgspec.structs.fields(kind) if (kind, field.name) != (Role, "name")]
    assert set(rows) == {field.name for field in fields}
    in_words = {"ready", "health", "restart", "budget"}
    if section not in ("campaign", "roles.NAME"):
        in_words |= {"tcp", "log", "http", "port", "python", "command"}
    for field in fields:
        if field.name not in in_words and not field.required:
            default = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
            assert rows[field.name] == default_text(default), field.name


def test_reference_has_every_table() -> None:
    text = Path(__file__).parents[2].joinpath("docs/configuration.md").read_text()
    for table in TABLES:
        assert f"## [{table}" in text
