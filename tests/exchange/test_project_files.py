"""The files of a project that a bundle takes: named and imported ones, none from outside, and warnings about the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from undermine.config.load import load
from undermine.exchange import project_files
from undermine.exchange.project_files import Files, collect
from undermine.model.errors import UserError
from undermine.resources import example_dir

TOML = """
[campaign]
plugins = "hunt.py"
{campaign}

[params]
mode = ""

[roles.kv]
nodes = ["n1"]
command = "{command}"
{role}
"""

HUNT = "import undermine\n\n@undermine.workload\ndef workload(s): ...\n"


class Project:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write("hunt.py", HUNT)

    def write(self, name: str, text: str = "") -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def collect(self, *include: str, command: str = "{python} -c pass", campaign: str = "", role: str = "") -> Files:
        text = TOML.replace("{command}", command).replace("{campaign}", campaign).replace("{role}", role)
        self.write("undermine.toml", text)
        return collect(load(self.folder, programs=False), include)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "project").mkdir()
    return Project(tmp_path / "project")


def names(files: Files) -> list[str]:
    return [name for name in files.content if name not in ("undermine.toml", "hunt.py")]


def test_configuration_and_plug_in_file_are_always_taken(project: Project) -> None:
    files = project.collect()
    assert list(files.content) == ["hunt.py", "undermine.toml"]
    assert files.config == "undermine.toml"
    assert files.content["hunt.py"] == HUNT.encode()
    assert files.warnings == ()


def test_imports_are_followed_inside_the_project_only(project: Project) -> None:
    project.write("hunt.py", HUNT + "import json, helper\nfrom pkg.sub import thing\nfrom pkg import other\n")
    project.write("helper.py", "import deep.er\nimport helper\n")
    project.write("deep/er.py", "import nothing_here\nsyntax error")
    for name in ("pkg/__init__.py", "pkg/sub.py", "pkg/unused.py", "json_.py"):
        project.write(name)
    project.write("pkg/other/__init__.py", "from . import near\nfrom ..sibling import x\n")
    project.write("pkg/other/near.py")
    project.write("pkg/sibling.py", "from .. import beyond\n")
    project.write("beyond.py")
    assert names(project.collect()) == [
        "beyond.py",
        "deep/er.py",
        "helper.py",
        "pkg/__init__.py",
        "pkg/other/__init__.py",
        "pkg/other/near.py",
        "pkg/sibling.py",
        "pkg/sub.py",
    ]


def test_scripts_that_commands_name_are_taken_with_their_imports(project: Project) -> None:
    project.write("bin/server.py", "import beside\n")
    project.write("bin/beside.py")
    script = project.write("run.sh", "#!/bin/sh\n")
    script.chmod(0o755)
    files = project.collect(command="{project}/run.sh --conf={project}/bin/server.py")
    assert names(files) == ["bin/beside.py", "bin/server.py", "run.sh"]
    assert files.executable == {"run.sh"}


def test_adapters_are_taken(project: Project) -> None:
    project.write("ours.py")
    assert names(project.collect(role='adapters = ["ours.py"]')) == ["ours.py"]


@pytest.mark.parametrize("pattern", ["app/**/*.py", "app/**", "app/*.py"])
def test_patterns_add_files_but_no_leftovers(project: Project, pattern: str) -> None:
    for name in ("app/a.py", "app/__pycache__/a.pyc", "app/.git/config", ".undermine/latest/app/x.py", "elsewhere.py"):
        project.write(name)
    assert names(project.collect(campaign=f'files = ["{pattern}"]')) == ["app/a.py"]
    assert names(project.collect(pattern)) == ["app/a.py"]


def test_results_are_never_taken(project: Project) -> None:
    project.write(".undermine/campaigns/x/record.json")
    project.write("data.json")
    assert names(project.collect("**/*.json")) == ["data.json"]


def test_hidden_files_are_taken_only_if_they_are_named(project: Project) -> None:
    for name in ("app/.env", "app/.secrets/key", "app/.conf.d/a", "app/b"):
        project.write(name)
    files = project.collect("app/**")
    assert names(files) == ["app/b"]
    assert files.warnings == ("app/.env is left out because it is hidden; to add it, name it with its dot",)
    assert names(project.collect("app/.env", "app/.conf*/*")) == ["app/.conf.d/a", "app/.env"]


def test_bundles_and_unpacked_bundles_are_not_taken(project: Project) -> None:
    for name in ("F1.undermine", "F1.undermine.d/project/a.py", "a.py"):
        project.write(name)
    assert names(project.collect("**/*")) == ["a.py"]


def test_a_pattern_without_a_match_is_a_warning(project: Project) -> None:
    assert project.collect("no*").warnings == ("--include: no file matches 'no*'",)


@pytest.mark.parametrize("pattern", ["../x", "/etc/passwd", "a/../../x"])
def test_a_pattern_cannot_lead_out_of_the_project(project: Project, pattern: str) -> None:
    with pytest.raises(UserError, match="inside the project"):
        project.collect(pattern)
    with pytest.raises(UserError, match=r"toml:4: campaign\.files must be patterns inside the project"):
        project.collect(campaign=f'files = ["{pattern}"]')


def test_a_link_cannot_lead_out_of_the_project(project: Project, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    (project.folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    files = project.collect("*.txt")
    assert names(files) == []
    assert files.warnings[0] == "link.txt is left out because it links to a place outside of the project"


def test_a_plug_in_file_outside_of_the_project_is_refused(project: Project, tmp_path: Path) -> None:
    (tmp_path / "hunt.py").write_text(HUNT)
    text = TOML.replace('"hunt.py"', '"../hunt.py"').replace("{command}", "{python} -c pass")
    project.write("undermine.toml", text.replace("{campaign}", "").replace("{role}", ""))
    with pytest.raises(UserError, match=r"campaign\.plugins names .* outside of"):
        collect(load(project.folder, programs=False))


def test_absolute_paths_are_warnings(project: Project) -> None:
    role = 'env = {LIB = "/opt/lib:{project}/x", OK = "/dev/null", URL = "http://h/p"}'
    warnings = project.collect(command="/opt/server/bin/run --in {dir}/data -x/y", role=role).warnings
    assert warnings == (
        "roles.kv.command names /opt/server/bin/run, which must also exist on the other machine",
        "roles.kv.env.LIB names /opt/lib, which must also exist on the other machine",
    )


def test_code_that_is_run_and_not_taken_is_a_warning(project: Project) -> None:
    project.write("app/__init__.py")
    project.write("app/main.py")
    project.write("conf/a.json")
    files = project.collect(command="{python} -m app.main --conf {project}/conf", role='packages = ["app", "json"]')
    assert files.warnings == (
        "roles.kv runs app, which is not in the bundle; add its files to campaign.files",
        "roles.kv runs app.main, which is not in the bundle; add its files to campaign.files",
        "roles.kv.command names {project}/conf, which is not in the bundle; add its files to campaign.files",
    )
    assert project.collect("app/*", "conf/*", command="{python} -m app.main --conf {project}/conf").warnings == ()


def test_too_many_files_are_refused(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project_files, "FILES_MAX", 3)
    for number in range(4):
        project.write(f"d/{number}")
    with pytest.raises(UserError, match="too many or too large"):
        project.collect("d/*")
    monkeypatch.setattr(project_files, "BYTES_MAX", 10)
    with pytest.raises(UserError, match="too many or too large"):
        project.collect()


def test_the_embedded_example_can_be_bundled() -> None:
    files = collect(load(example_dir("granary"), programs=False))
    assert files.warnings == ()
    assert "granary/node.py" in files.content
    assert not any("__pycache__" in name for name in files.content)
