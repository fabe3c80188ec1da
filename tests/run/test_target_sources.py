"""Where the source of the target's own code is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from undermine.config.load import load
from undermine.model.run import NodeInfo
from undermine.run.target_sources import target_sources

CONFIG = """
[roles.store]
nodes = ["s1", "s2"]
command = {command}
env = {{ PYTHONPATH = "{{project}}/lib" }}
packages = {packages}
[[roles.store.operations]]
function = "pack.net:Peer.send"
op = "msg.send"
[workload]
command = ["true"]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("lib/pack/__init__.py", "lib/pack/net.py", "lib/single.py", "node.py", "lib/empty/data.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    return tmp_path


def found(project: Path, command: str = '"{python} -m pack.net"', packages: str = '["pack"]') -> tuple[list[str], dict[str, str]]:
    path = project / "undermine.toml"
    path.write_text(CONFIG.format(command=command, packages=packages))
    nodes = [NodeInfo(node, "store", "127.0.0.1", 1, {"main": 1}, str(project / "run" / node)) for node in ("s1", "s2")]
    told = target_sources(load(path), nodes)
    assert told.named == (("pack.net:Peer.send", "msg.send"),)
    return [str(Path(folder).relative_to(project)) for folder in told.folders], dict(told.scripts)


def test_packages_and_modules_are_looked_for_as_the_interpreter_does(project: Path) -> None:
    assert found(project, packages='["pack", "single", "missing", "empty"]') == (["lib/pack", "lib/single.py"], {})


def test_a_script_that_counts_is_known_by_its_name(project: Path) -> None:
    assert found(project, '"{python} {project}/node.py"', '["pack", "node"]') == (["lib/pack", "node.py"], {"store": "node"})


def test_a_subpackage(project: Path) -> None:
    assert found(project, packages='["pack.net"]') == (["lib/pack/net.py"], {})


def test_what_the_interpreter_has_itself_is_found(project: Path) -> None:
    path = project / "undermine.toml"
    path.write_text(CONFIG.format(command='"{python} -m json"', packages='["json"]'))
    nodes = [NodeInfo("s1", "store", "127.0.0.1", 1, {"main": 1}, str(project / "run" / "s1"))]
    (folder,) = target_sources(load(path), nodes).folders
    assert Path(folder, "decoder.py").exists()


def test_the_class_files_of_a_jvm_role_are_those_of_its_command(project: Path) -> None:
    path = project / "undermine.toml"
    path.write_text(CONFIG.format(command='"java -cp {project}/lib/*:classes pack.Main -jar x"', packages='["pack"]'))
    nodes = [NodeInfo("s1", "store", "127.0.0.1", 1, {"main": 1}, str(project / "run" / "s1"))]
    told = target_sources(load(path, programs=False), nodes)
    (classes,) = told.classes
    assert classes.files.path == (f"{project}/lib/*", f"{project}/run/s1/classes")
    assert classes.files.packages == ("pack",)
    assert classes.named == (("pack.net:Peer.send", "msg.send"),)
    assert classes.runtime.name == "jvm"
    assert not told.folders
