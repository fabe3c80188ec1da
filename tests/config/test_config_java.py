"""The class path of a Java command: found among its words, and whether anything is on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from undermine.config.load import load
from undermine.model.errors import UserError
from undermine.runtimes.class_path import class_path_of, is_empty, parts

CONFIG = """
[campaign]
{campaign}
[params]
release = "2"
[roles.server]
nodes = 1
agent = "jvm"
command = "{project}/java -cp {{project}}/lib-{{params.release}}/* Main"
[workload]
command = "{project}/java"
"""


@pytest.mark.parametrize(
    ("command", "class_path"),
    [
        ("java -Xmx1g -cp lib/* Main", "lib/*"),
        ("java -classpath a.jar:b.jar Main -cp other", "a.jar:b.jar"),
        ("java --class-path lib Main", "lib"),
        ("java --class-path=lib Main", "lib"),
        ("java -jar server.jar -cp other", ""),
        ("java Main", ""),
        ("java -cp", ""),
    ],
)
def test_the_class_path_of_a_command(command: str, class_path: str) -> None:
    assert class_path_of(command.split()) == class_path


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("java -cp a.jar:b Main", ("a.jar", "b")),
        ("java -Xmx1g -jar app.jar -cp other", ("app.jar",)),
        ("java --class-path=a:b Main -jar x", ("a", "b")),
        ("java Main", ("from", "env")),
        ("start.sh", ("from", "env")),
    ],
)
def test_the_files_with_the_classes_of_a_command(command: str, found: tuple[str, ...]) -> None:
    assert parts(command.split(), {"CLASSPATH": "from:env"}) == found


def test_a_class_path_is_empty_if_no_part_of_it_exists(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a.jar").touch()
    (tmp_path / "bare").mkdir()
    assert not is_empty(f"{tmp_path}/full/*", None)
    assert not is_empty(f"{tmp_path}/none/*:{tmp_path}/full/a.jar", None)
    assert not is_empty(f"{tmp_path}/bare", None)
    assert is_empty(f"{tmp_path}/bare/*:{tmp_path}/none.jar:", None)
    assert is_empty("none/*", tmp_path)
    assert not is_empty("full/*", tmp_path)
    assert not is_empty("none/*", None), "nobody knows where that is"
    assert not is_empty("", None)


@pytest.mark.parametrize(
    ("campaign", "advice"),
    [
        ("", "build or fetch it, or correct the path"),
        ('setup = "make release-{params.release}"', "run `make release-2` in "),
    ],
)
def test_an_empty_class_path_is_an_error_that_says_what_to_do(tmp_path: Path, campaign: str, advice: str) -> None:
    (tmp_path / "java").write_text("")
    (tmp_path / "java").chmod(0o755)
    (tmp_path / "undermine.toml").write_text(CONFIG.format(project=tmp_path, campaign=campaign))
    with pytest.raises(UserError, match=f"roles.server.command names the class path .*, which is empty; {advice}"):
        load(tmp_path)
    assert load(tmp_path, programs=False).node_ids == ("server1",)
    (tmp_path / "lib-2").mkdir()
    (tmp_path / "lib-2" / "a.jar").touch()
    assert load(tmp_path).node_ids == ("server1",)


def test_a_setup_with_an_unknown_placeholder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "undermine.toml").write_text(
        CONFIG.format(project=tmp_path, campaign='setup = "make {params.relaese}"')
    )
    with pytest.raises(UserError, match=r"campaign.setup .*params\.relaese"):
        load(tmp_path, programs=False)
