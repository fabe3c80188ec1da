"""`undermine trace` on stored runs: what it prints and writes, and what it says when it cannot. Nothing is started."""

from __future__ import annotations

import contextlib
import io
import json
import signal
import stat
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pytest
from report_campaigns import CampaignMaker, at_s, op, plan, point, record
from test_spacetime import HOSTILE
from traced_samples import analysis, done, stored

from undermine.analysis.trace_summary import summary
from undermine.cli import commands as cli
from undermine.cli import trace as trace_cli
from undermine.model.event import Event
from undermine.model.faults import Crash
from undermine.model.finding import Finding
from undermine.model.plan import Plan
from undermine.model.run import Conditions, NodeExit, Receipt
from undermine.report import trace_page
from undermine.report.drawing.spacetime import unpacked
from undermine.store.campaign_dirs import TRACES

TOML = """
[roles.store]
nodes = ["s1", "s2"]
command = "{python} nothing.py"

[workload]
command = "true"
"""
A_TO_B, B_TO_A = "127.0.0.1:41200>127.0.0.1:20001/1", "127.0.0.1:20001>127.0.0.1:41200/1"


def exchanged() -> list[Event]:
    """s1 sends two messages over one connection to s2, which writes a file for each."""
    return [
        done(
            "s1", 1, 1.00, "net.send", thread="main", resource=A_TO_B, target=f"peer:s2 {HOSTILE}", size=10, result=10
        ),
        done("s2", 1, 0.90, "net.recv", 0.11, thread="rpc", resource=B_TO_A, result=10),
        done("s2", 2, 1.02, "file.write", thread="rpc", target="log", loc="app:Log.add#1"),
        done("s1", 2, 1.10, "net.send", thread="main", resource=A_TO_B, size=20, result=20),
        done("s2", 3, 1.05, "net.recv", 0.06, thread="rpc", resource=B_TO_A, result=20),
        done("s2", 4, 1.12, "file.write", thread="rpc", target="log", loc="app:Log.add#1"),
    ]


def with_status() -> list[Event]:
    """Both nodes show the value of a variable before they exchange messages."""
    more = {"target": "status", "resource": "s3", "content": "LEFT", "size": 1}
    return [done(node, 10, 0.5, "variable.sample", thread="main", **more) for node in ("s1", "s2")]


class Project:
    """A folder with one campaign of three runs: without faults, with one, and without faults but with a variable."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "undermine.toml").write_text(TOML)
        home = folder / ".undermine" / "campaigns" / "2026-01-01"
        home.mkdir(parents=True)
        campaign = CampaignMaker(home)
        everything = Conditions(observe_all=True)
        campaign.run("baseline", Plan(), made=record(1, Plan(), conditions=everything), events=exchanged())
        what = plan(Crash(), point("s2", "file.write", "app:Log.add#1", "log"))
        made = record(2, what, [Receipt(0, "s2", "crash", at_s(1.2))])
        self.run_id = campaign.run("random", what, made=made, events=exchanged(), history=[op(0, "c1", "put", 1, 1.2)])
        campaign.run("baseline", Plan(), made=record(3, Plan(), conditions=everything), events=[*with_status(), *exchanged()])
        campaign.findings(Finding("F1", "lost", "a write is lost", what, (self.run_id,), ("random",), ()))
        campaign.close()
        (folder / ".undermine" / "latest").symlink_to("campaigns/2026-01-01")

    def run(self, *args: str) -> tuple[Any, str, str]:
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
        code: Any = None
        try:
            with (
                contextlib.chdir(self.folder),
                contextlib.redirect_stdout(out),
                contextlib.redirect_stderr(err),
                mock.patch.object(sys, "argv", ["undermine", "trace", *args]),
            ):
                cli.main()
        except SystemExit as ended:
            code = ended.code
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        said = [stream.buffer.getvalue().decode() for stream in (out, err)]  # type: ignore[attr-defined]
        return code, said[0], said[1]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_a_run_is_summed_up_and_its_files_are_in_its_folder(project: Project) -> None:
    code, out, err = project.run("--run", "1")
    assert (code, err) == (0, "")
    assert "run 1 of campaign 2026-01-01: 6 events" in out
    assert "paired: 100.00 % of the 30 bytes" in out
    assert "the edges have no cycle, and none points back in time" in out
    assert "s1 → s2" in out
    folder = project.folder / ".undermine/campaigns/2026-01-01/runs/000001"
    for name in ("trace.html", "trace.perfetto.json", "trace.shiviz.log"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
        assert name in out
    assert not (folder / "trace.decls").exists(), "it shows no variable"
    assert "\x1b" not in out
    assert _picture(folder / "trace.html")["healed"] is None, "there was nothing to heal"
    assert "healed" not in (folder / "trace.perfetto.json").read_text() + (folder / "trace.shiviz.log").read_text()


def test_a_run_with_variables_has_files_for_daikon(project: Project) -> None:
    code, out, err = project.run("--run", "3")
    assert (code, err) == (0, "")
    folder = project.folder / ".undermine/campaigns/2026-01-01/runs/000003"
    assert "variable s2.status[s3]" in (folder / "trace.decls").read_text().splitlines()
    lines = (folder / "trace.dtrace").read_text().splitlines()
    assert lines.count("s1.status[s3]") == 2, "once for each message"
    assert "trace.decls" in out
    assert "trace.dtrace" in out


def _picture(path: Path) -> dict[str, Any]:
    """The scene that the page of a trace draws."""
    return unpacked(path.read_text().split('data-picture="')[1].split('"')[0])


def test_a_finding_is_drawn_with_its_fault(project: Project, tmp_path: Path) -> None:
    code, out, err = project.run("--run", "f1", "--out", "drawn/here")
    assert (code, err) == (0, "")
    assert "which shows F1" in out
    assert "recorded input and output only" in out
    made = _picture(tmp_path / "drawn" / "here" / "trace.html")
    assert made["healed"]
    assert [(mark[3], made["lanes"][mark[0]]["name"]) for mark in made["marks"]] == [("crash", "s2")]
    assert len(made["messages"]["a"]) == 2
    assert "crash on s2" in (tmp_path / "drawn" / "here" / "trace.perfetto.json").read_text()
    assert not (project.folder / ".undermine/campaigns/2026-01-01/runs/000002/trace.html").exists()


def test_a_stored_run_that_went_wrong_is_only_drawn(project: Project) -> None:
    campaign = CampaignMaker(project.folder / ".undermine" / "campaigns" / "2026-01-01")
    made = record(
        3, Plan(), exits=[NodeExit("s2", 1, 7, at_s(0), at_s(1.5), False)], conditions=Conditions(observe_all=True)
    )
    number = campaign.run("baseline", Plan(), made=made, events=exchanged())
    campaign.close()
    code, out, err = project.run("--run", str(number))
    assert (code, err) == (0, "")
    assert "warning: s2 ended by itself with exit code 7 at 1.500 s: it logged nothing\n" in out


def test_machines_get_one_document(project: Project) -> None:
    code, out, _ = project.run("--run", "1", "--json")
    told = json.loads(out)
    assert code == 0
    assert told["summary"]["operations"] == {"file.write": 2, "net.recv": 2, "net.send": 2}
    assert told["summary"]["paired_percent"] == 100
    assert [m["count"] for m in told["summary"]["messages"]] == [2]
    assert told["summary"]["causal"]["message"] == 2
    assert (told["summary"]["store_links"], told["summary"]["store_pairs"]) == ({}, [])
    assert Path(told["html"]).is_file()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--run", "F9"], "there is no finding 'F9' in this campaign; its findings are: F1"),
        (["--run", "77"], "run 77 has no trace"),
        (["--campaign", "2026-01-01"], "--campaign only works with --run"),
        (["--run", "1", "--campaign", "other"], "there is no campaign 'other'"),
        (["--run", "1", "--out", "undermine.toml"], "cannot be created"),
        (["-c", "nowhere", "--run", "1"], "nowhere"),
    ],
)
def test_mistakes_are_said_in_a_sentence(project: Project, args: list[str], said: str) -> None:
    code, out, err = project.run(*args)
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert said in err


def test_where_nothing_was_received_no_share_of_it_is_said() -> None:
    told = msgspec.structs.replace(summary(analysis()), bytes_received=0, bytes_paired=0)
    assert next(iter(trace_cli._lines(told))) == "\npaired: nothing was received between processes with an agent"
    assert ("0", "bytes between nodes") in trace_page._facts(told)


def test_relations_of_operations_on_stores_are_told_apart_from_causes() -> None:
    told = summary(stored())
    cells = [list(column.cells) for column in trace_cli._edges(told).columns]
    assert (cells[0][-1], cells[1][-1], cells[2][-1]) == ("store", "item 1, key 1, value 1", "3")
    cells = [list(column.cells) for column in trace_cli._store_pairs(told).columns]
    assert ("value", "SET k:x<n> → GET k:x<n>", "s1 → s2", "1") in list(zip(*cells, strict=True))
    assert ("3", "links through stores") in trace_page._facts(told)
    assert not trace_cli._store_pairs(summary(analysis())).row_count


def test_one_is_not_said_in_the_plural() -> None:
    told = msgspec.structs.replace(
        summary(analysis()),
        events=1,
        nodes=("s1",),
        processes=1,
        contexts=1,
        messages_total=1,
        bytes_received=1,
        holding_locks=1,
    )
    lines = list(trace_cli._lines(told))
    assert "of the 1 byte received" in lines[0]
    assert lines[1].startswith("1 event under a lock, ")
    facts = trace_page._facts(told)
    assert facts[:4] == [("1", "event"), ("1", "node or client, 1 process"), ("1", "thread or task"), ("1", "message")]


def test_a_recorded_run_is_scratch() -> None:
    """`undermine clean --all` removes it."""
    from undermine.store.campaign_dirs import SCRATCH

    assert TRACES in SCRATCH
