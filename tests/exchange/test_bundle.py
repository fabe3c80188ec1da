"""Bundles: what is in them, that they are the same bytes each time, and that a stranger's file does no harm."""

from __future__ import annotations

import datetime
import json
import os
import stat
import subprocess
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tables import for_each

from undermine import api
from undermine.config.load import load
from undermine.config.schema import Config
from undermine.exchange import bundle, evidence, unpacking
from undermine.exchange import manifest as manifests
from undermine.exchange.evidence import Seen
from undermine.exchange.manifest import FORMAT, Manifest
from undermine.exchange.safe_zip import ZipLimits
from undermine.model.errors import UserError
from undermine.model.faults import Crash
from undermine.model.finding import Finding, ShownSymptom
from undermine.model.plan import At, Plan, Step
from undermine.model.run import NodeInfo, RunRecord, Verdict
from undermine.store.rundir import RunDir, save_record
from undermine.testing import point

TOML = """
[campaign]
plugins = "hunt.py"
[params]
mode = "a"
fast = true
share = 0.5
count = 3
[roles.kv]
nodes = ["n1"]
command = "{python} {project}/kv.py --mode={params.mode}"
"""
PLAN = Plan((Step(At(point()), Crash()),), 7, "random")


@pytest.fixture
def config(tmp_path: Path) -> Config:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "undermine.toml").write_text(TOML)
    (folder / "hunt.py").write_text("import undermine\n\n@undermine.workload\ndef workload(s): ...\n")
    (folder / "kv.py").write_text("print('hello')\n")
    (folder / "kv.py").chmod(0o755)
    return load(folder)


@pytest.fixture
def seen(config: Config) -> Seen:
    run = RunDir(Path(config.project, ".undermine/campaigns/x/runs/000004"))
    run.create()
    nodes = (NodeInfo("n1", "kv", "127.0.0.1", 1, {"main": 1}, str(run.node("n1"))),)
    save_record(run, RunRecord(4, PLAN, "fired", nodes=nodes))
    run.history.write_text('{"index":0}\n')
    run.log("n1", 1, "err").write_text(f"opened {run.node('n1')}/log\nread {config.project}/kv.py\n")
    run.log("n1", 1, "out").write_text("")
    verdict = Verdict("fail", f"n1 lost {config.project}/x", "lost", (f"in {run.path}/nodes",), "ledger")
    shown = (ShownSymptom(f"lost {config.project}/x", 3),)
    finding = Finding("F1", "lost", "n1 lost", PLAN, (3, 4), ("random",), (verdict,), 3, 3, shown_by=4, symptoms=shown)
    return Seen(finding, run.path, (verdict,), {"n1": "CPython 3.11.2"}, ((0, point()),))


def identity(config: Config) -> dict[str, Any]:
    return {"significant": config.significant(), "isolation": "ports", "python": "3.11.2"}


def write(config: Config, seen: Seen, output: Path) -> bundle.Written:
    return bundle.write(config, identity(config), seen, output)


@pytest.fixture
def made(config: Config, seen: Seen, tmp_path: Path) -> Path:
    path = tmp_path / "F1.undermine"
    write(config, seen, path)
    return path


def read(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


# --- writing


def test_a_bundle_holds_manifest_project_and_evidence(made: Path) -> None:
    assert list(read(made)) == [
        "manifest.json",
        "evidence/history.jsonl",
        "evidence/logs/n1.1.err",
        "evidence/record.json",
        "evidence/verdicts.json",
        "project/hunt.py",
        "project/kv.py",
        "project/undermine.toml",
    ]
    assert stat.S_IMODE(made.stat().st_mode) == 0o600


def test_the_manifest_has_the_finding_and_its_circumstances(config: Config, made: Path) -> None:
    manifest = unpacking.read_manifest(made)
    assert manifest.finding.plan == PLAN
    assert manifest.finding.hits == 3
    assert manifest.params == {"mode": "a", "fast": True, "share": 0.5, "count": 3}
    assert (manifest.isolation, manifest.python) == ("ports", "3.11.2")
    assert manifest.agents == {"n1": "CPython 3.11.2"}
    assert manifest.fingerprint == config.fingerprint()
    assert manifest.commands == {"kv": ("{python}", "{project}/kv.py", "--mode={params.mode}")}
    assert manifest.landed == ((0, point()),)
    assert manifest.run == 4


def test_a_bundle_has_no_path_of_this_machine(made: Path, config: Config) -> None:
    files = read(made)
    for name, data in files.items():
        assert config.project.encode() not in data, name
    assert files["evidence/logs/n1.1.err"] == b"opened {run}/nodes/n1/log\nread {project}/kv.py\n"
    assert json.loads(files["evidence/record.json"])["nodes"][0]["dir"] == "{run}/nodes/n1"


def test_the_same_finding_gives_the_same_bytes(config: Config, seen: Seen, made: Path, tmp_path: Path) -> None:
    os.utime(Path(config.project, "kv.py"), (1, 1))
    write(config, seen, tmp_path / "again.undermine")
    assert (tmp_path / "again.undermine").read_bytes() == made.read_bytes()


def test_parameters_are_those_of_the_campaign(config: Config, seen: Seen, tmp_path: Path) -> None:
    hunted = load(Path(config.project), {"mode": "b", "fast": "false", "share": "0.25"})
    path = tmp_path / "b.undermine"
    written = bundle.write(config, identity(hunted), seen, path)
    assert written.warnings == ()
    manifest = unpacking.read_manifest(path)
    assert manifest.fingerprint == hunted.fingerprint()
    assert load(Path(config.project), manifests.param_texts(manifest.params)).params == hunted.params


def test_changes_since_the_campaign_are_warnings(config: Config, seen: Seen, tmp_path: Path) -> None:
    before = identity(config)
    Path(config.project, "undermine.toml").write_text(TOML + "[run]\nhang_s = 3\n")
    written = bundle.write(load(Path(config.project)), before, seen, tmp_path / "b.undermine")
    assert written.warnings == (
        "changed since the campaign began: run.hang_s was 8.0 and is now 3.0; the bundle has the current value",
    )


def test_logs_keep_their_end_and_evidence_its_limit(
    config: Config, seen: Seen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "_LOG_BYTES_MAX", 100)
    monkeypatch.setattr(evidence, "_EVIDENCE_BYTES_MAX", 5_000)
    run = RunDir(seen.run)
    run.log("n1", 1, "err").write_text("".join(f"line {number}\n" for number in range(1000)))
    run.history.write_bytes(b"x" * 6_000)
    written = write(config, seen, tmp_path / "b.undermine")
    files = read(tmp_path / "b.undermine")
    log = files["evidence/logs/n1.1.err"].decode()
    assert log.startswith("... ")
    assert log.splitlines()[1:] == [f"line {number}" for number in range(1000 - len(log.splitlines()) + 1, 1000)]
    assert "evidence/history.jsonl" not in files
    assert written.warnings == ("evidence/history.jsonl is left out: it is too large (6,000 bytes)",)
    assert unpacking.read_manifest(tmp_path / "b.undermine").left_out == written.warnings


def test_a_bundle_of_a_removed_run_has_only_verdicts(config: Config, seen: Seen, tmp_path: Path) -> None:
    gone = msgspec.structs.replace(seen, run=seen.run.parent / "000099")
    written = write(config, gone, tmp_path / "b.undermine")
    assert "the run that shows the finding was removed" in written.warnings[0]
    assert unpacking.read_manifest(tmp_path / "b.undermine").finding.id == "F1"


def test_a_file_that_is_not_a_bundle_is_not_overwritten(config: Config, seen: Seen, made: Path, tmp_path: Path) -> None:
    write(config, seen, made)
    other = tmp_path / "notes.txt"
    other.write_text("mine")
    with pytest.raises(UserError, match="exists and is not a bundle"):
        write(config, seen, other)
    assert other.read_text() == "mine"
    with pytest.raises(UserError, match="cannot be written"):
        write(config, seen, tmp_path / "no" / "such.undermine")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_the_manifest_has_the_commit_and_marks_uncommitted_changes(config: Config, seen: Seen, tmp_path: Path) -> None:
    def git(*words: str) -> None:
        who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *who, "-C", config.project, *words], check=True, capture_output=True)

    try:
        git("init", "-q")
    except OSError:
        pytest.skip("there is no git")
    git("add", "hunt.py", "kv.py", "undermine.toml")
    git("commit", "-q", "-m", "all")
    write(config, seen, tmp_path / "b.undermine")
    commit = unpacking.read_manifest(tmp_path / "b.undermine").commit
    assert len(commit) == 40
    Path(config.project, "kv.py").write_text("changed")
    write(config, seen, tmp_path / "b.undermine")
    assert unpacking.read_manifest(tmp_path / "b.undermine").commit == commit + "+"


# --- unpacking


def test_only_the_owner_can_read_unpacked_files(made: Path, tmp_path: Path) -> None:
    unpacked = unpacking.unpack(made, tmp_path / "there")
    there = tmp_path / "there"
    assert {p.relative_to(there).as_posix(): p.read_bytes() for p in there.rglob("*") if p.is_file()} == read(made)
    assert all(stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 for path in [there, *there.rglob("*")])
    assert os.access(there / "project/kv.py", os.X_OK)
    assert not (there / "project/hunt.py").stat().st_mode & 0o100
    assert load(unpacked.config).fingerprint() == unpacked.manifest.fingerprint


def test_a_bundle_is_unpacked_once_and_an_empty_folder_will_do(made: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    unpacking.unpack(made, there)
    (there / "project/.undermine").mkdir()
    (there / "project/.undermine/result").write_text("kept")
    unpacking.unpack(made, there)
    assert (there / "project/.undermine/result").read_text() == "kept"


def test_unpacking_overwrites_nothing(made: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    (there / "mine").write_text("mine")
    with pytest.raises(UserError, match="holds other files; choose another --dir"):
        unpacking.unpack(made, there)
    assert [path.name for path in there.iterdir()] == ["mine"]
    other = tmp_path / "other"
    unpacking.unpack(made, other)
    (other / "project/kv.py").write_text("fixed")
    with pytest.raises(UserError, match=r"kv\.py differs from the file in .*; to run the changed files use -c "):
        unpacking.unpack(made, other)
    assert (other / "project/kv.py").read_text() == "fixed"


def test_a_link_is_not_followed(made: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="holds other files"):
        unpacking.unpack(made, tmp_path / "link")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_leftover_temporary_folder_is_not_changed(made: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/file").write_text("mine")
    (tmp_path / f".there.{os.getpid()}").symlink_to(tmp_path / "mine")
    with pytest.raises(UserError, match=r"cannot be unpacked into .*; choose another --dir"):
        unpacking.unpack(made, tmp_path / "there")
    assert (tmp_path / "mine/file").read_text() == "mine"


# --- a stranger's file

Member = tuple[str | zipfile.ZipInfo, bytes]


def forged(made: Path, *members: Member, manifest: Callable[[dict[str, Any]], Any] = lambda _: None) -> Path:
    """A copy of the bundle with more in it."""
    path = made.with_name("forged.undermine")
    with zipfile.ZipFile(path, "w") as out, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that are there twice
        for name, data in read(made).items():
            if name == manifests.MANIFEST:
                said = json.loads(data)
                manifest(said)
                data = json.dumps(said).encode()
            out.writestr(name, data)
        for name, data in members:
            out.writestr(name, data)
    return path


def link(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.create_system = 3
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


def folder(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFDIR | 0o755) << 16
    return info


@for_each(
    ("member", "said"),
    [
        ("../evil", "is not a safe file name"),
        ("project/../../evil", "is not a safe file name"),
        ("/tmp/evil", "is not a safe file name"),
        ("project//evil", "is not a safe file name"),
        ("project/./evil", "is not a safe file name"),
        ("project\\..\\evil", "is not a safe file name"),
        ("project/e\x1b[2Jvil", "is not a safe file name"),
        ("project/" + "x" * 2000, "has a name that is too long"),
        ("project/" + "x/" * 100 + "x", "has a name that is too long"),
        ("evil", "is not in project/ or evidence/"),
        (".bashrc", "is not in project/ or evidence/"),
        ("project", "is not in project/ or evidence/"),
        ("project/kv.py", "occurs twice"),
        ("project/kv.py/inside", "both a file and a folder"),
        (link("project/link"), "is not a plain file"),
        (folder("project/dir"), "is not a plain file"),
    ],
)
def test_a_member_that_does_not_belong_there_is_refused(
    made: Path, tmp_path: Path, member: str | zipfile.ZipInfo, said: str
) -> None:
    path = forged(made, (member, b"/etc/passwd"))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError, match=said) as raised:
        unpacking.unpack(path, tmp_path / "there")
    assert str(raised.value).isprintable()
    assert sorted(tmp_path.rglob("*")) == before


def test_too_many_or_too_large_files_are_refused(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "_LIMITS", ZipLimits(members=20))
    many = forged(made, *((f"project/{number}", b"") for number in range(20)))
    with pytest.raises(UserError, match="28 files, more than 20"):
        unpacking.unpack(many, tmp_path / "there")
    monkeypatch.setattr(unpacking, "_LIMITS", ZipLimits(total_bytes=1 << 20))
    with pytest.raises(UserError, match="larger than 1 MiB in total"):
        unpacking.unpack(forged(made, *((f"project/{n}", bytes(1 << 18)) for n in range(5))), tmp_path / "there")
    monkeypatch.setattr(unpacking, "_LIMITS", ZipLimits(member_bytes=1 << 10))
    with pytest.raises(UserError, match="is larger than 0 MiB"):
        unpacking.unpack(forged(made, ("project/bomb", bytes(1 << 11))), tmp_path / "there")
    assert not (tmp_path / "there").exists()


def test_a_huge_list_of_members_is_not_read(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert unpacking.read_manifest(made)
    monkeypatch.setattr(zipfile, "ZipFile", None)
    large = bytearray(made.read_bytes())
    end = large.rindex(b"PK\x05\x06")
    large[end + 12 : end + 16] = (1 << 30).to_bytes(4, "little")
    path = tmp_path / "large.undermine"
    path.write_bytes(large)
    with pytest.raises(UserError, match="more than 10000 files"):
        unpacking.read_manifest(path)
    whole = made.read_bytes()
    path.write_bytes(whole[:end] + b"PK\x06\x07" + bytes(16) + whole[end:])
    with pytest.raises(UserError, match="very large"):
        unpacking.read_manifest(path)


def test_a_member_that_lies_about_its_size_is_refused(made: Path, tmp_path: Path) -> None:
    path = forged(made, ("project/zz-bomb", b"A" * 4096))
    data = bytearray(path.read_bytes())
    entry = data.rindex(b"PK\x01\x02")
    data[entry + 24 : entry + 28] = (16).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(UserError, match="is not a valid bundle"):
        unpacking.unpack(path, tmp_path / "there")
    assert not (tmp_path / "there").exists()


@pytest.mark.parametrize("cut", [3, 50, 400, -1, -10, -200])
def test_a_truncated_bundle_is_refused(made: Path, tmp_path: Path, cut: int) -> None:
    path = tmp_path / "cut.undermine"
    path.write_bytes(made.read_bytes()[:cut])
    with pytest.raises(UserError, match="is not a valid bundle"):
        unpacking.unpack(path, tmp_path / "there")
    assert not (tmp_path / "there").exists()


def test_a_changed_byte_does_no_harm(made: Path, tmp_path: Path) -> None:
    whole = made.read_bytes()
    path = tmp_path / "flipped.undermine"
    for at in range(0, len(whole), 13):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        there = tmp_path / f"there{at}"
        try:
            unpacking.unpack(path, there)
        except UserError as error:
            said = str(error)
        else:
            said = ""
        assert said.isprintable()
        assert there.exists() == (not said)
    assert {p.name[:5] for p in tmp_path.iterdir()} <= {"there", "proje", "F1.un", "flipp"}


def test_a_newer_format_has_its_own_error(made: Path, tmp_path: Path) -> None:
    newer = forged(made, manifest=lambda said: said.update(format=FORMAT + 1, finding="of another shape"))
    with pytest.raises(
        UserError, match=f"has format {FORMAT + 1}, but this version reads formats up to {FORMAT}; install a newer"
    ):
        unpacking.unpack(newer, tmp_path / "there")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda said: said.pop("finding"), "its manifest.json cannot be read"),
        (lambda said: said.update(format="1"), "its manifest.json cannot be read"),
        (lambda said: said.update(config="../../undermine.toml"), "it does not hold its configuration "),
        (lambda said: said.update(config="other.toml"), "it does not hold its configuration 'other.toml'"),
    ],
)
def test_a_wrong_manifest_is_refused(
    made: Path, tmp_path: Path, change: Callable[[dict[str, Any]], Any], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        unpacking.unpack(forged(made, manifest=change), tmp_path / "there")
    assert not (tmp_path / "there").exists()


def test_a_bundle_that_shows_other_commands_than_it_runs_is_refused(made: Path, tmp_path: Path) -> None:
    harmless = forged(made, manifest=lambda said: said.update(commands={"store": ["true"]}))
    with pytest.raises(UserError, match="its configuration has other commands than it shows"):
        api.replay_bundle(harmless, folder=tmp_path / "there")


def test_another_zip_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.zip"
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("project/x", "")
    with pytest.raises(UserError, match=r"it has no manifest\.json"):
        unpacking.unpack(path, tmp_path / "there")
    assert unpacking.is_bundle(path)
    assert not unpacking.is_bundle(tmp_path)
    path.write_text('{"steps": []}')
    assert not unpacking.is_bundle(path)


# --- here and there


def test_differences_to_this_machine_are_listed() -> None:
    finding = Finding("F1", "s", "t", PLAN, (1,), (), ())
    manifest = Manifest(FORMAT, "0.0.1", finding, "undermine.toml", isolation="namespaces", python="2.7.18")
    manifest = msgspec.structs.replace(manifest, agents={"n1": "CPython 3.9", "n2": "CPython 3.9", "n3": "CPython 3.9"})
    said = manifests.differences(manifest, "ports")
    assert said[0].startswith("undermine was 0.0.1 there and is ")
    assert said[1].startswith("Python was 2.7.18 there")
    assert said[2] == "nodes were isolated by namespaces there and are isolated by ports here"
    assert manifests.other_runtimes(manifest, {"n1": "CPython 3.9", "n2": "PyPy 7"}) == [
        "the agent of n2 ran in CPython 3.9 there and runs in PyPy 7 here",
        "the agent of n3 ran in CPython 3.9 there and did not load here",
    ]


def test_a_bundle_of_this_machine_has_no_differences(made: Path) -> None:
    manifest = unpacking.read_manifest(made)
    same = msgspec.structs.replace(manifest, python="")
    assert manifests.differences(same, "ports") == []
    assert manifests.other_runtimes(same, {"n1": "CPython 3.11.2"}) == []


def test_a_bundle_has_no_time(made: Path) -> None:
    with zipfile.ZipFile(made) as archive:
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    assert str(datetime.date.today()) not in read(made)["manifest.json"].decode()
