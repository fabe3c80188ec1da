"""Coverage as source code: each operation at its line, with its faults, its failing runs and everything that was skipped."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from report_campaigns import CampaignMaker, at_s, plan, point, record

from undermine.model.event import Event
from undermine.model.faults import Crash, Fault, Reboot
from undermine.model.finding import Finding
from undermine.model.plan import Plan
from undermine.model.point import Point, point_of
from undermine.model.run import Receipt, Verdict
from undermine.protocols import Dropped, PointSeen
from undermine.report import html
from undermine.report.coverage.operations import Operations
from undermine.report.coverage.source import FileView, file_views
from undermine.report.data import sources_of
from undermine.report.html import render

SOURCE = '''"""Keeps <orders>."""


def save(path, data):
    with open(path, "w") as file:
        file.write(data)


def load(path):
    return open(path).read()





def sweep(path):
    os.unlink(path)
'''
LOST = Verdict("fail", "data is lost", "data is lost", (), "ledger")


def at(op: str, name: str, node: str = "s1", module: str = "orders") -> Point:
    return point(node, op, f"shop.{module}:{name}#1", "orders")


WRITE, READ, UNLINK = at("file.write", "save"), at("file.read", "load"), at("file.unlink", "sweep")
LINES = {WRITE: 6, READ: 10, UNLINK: 17}


@pytest.fixture
def made(tmp_path: Path) -> CampaignMaker:
    """A campaign whose fault-free run wrote and read. Its target's source is in the repository."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "orders.py").write_text(SOURCE)
    os.utime(tmp_path / "shop" / "orders.py", (1, 1))
    identity = {"config": str(tmp_path / "undermine.toml"), "significant": {"faults": {"kinds": ["crash"]}}}
    made = CampaignMaker(tmp_path / "c", identity)
    points = [PointSeen(point, 1, 1, order, LINES[point]) for order, point in enumerate((WRITE, READ))]
    made.run("baseline", Plan(), points=points, verdicts=[Verdict.ok()])
    return made


def fire(made: CampaignMaker, where: Point, fault: Fault, *, fails: bool = False, more: tuple[PointSeen, ...] = ()) -> int:
    what = plan(fault, where)
    receipts = [Receipt(0, "s1", "crash", at_s(1))]
    return made.run("random", what, made=record(0, what, receipts), verdicts=[LOST if fails else Verdict.ok()], points=more)


def views(made: CampaignMaker, finding_of: dict[int, str] | None = None) -> list[FileView]:
    rows = made.store.run_rows()
    operations = Operations(made.store)
    operations.count(rows, list(operations.fired(rows)), finding_of or {})
    return file_views(operations, sources_of(made.store), rows[0]["started"])[0]


def marks(made: CampaignMaker) -> dict[int, str]:
    (view,) = views(made)
    return {block.first: block.mark for block in view.blocks if block.mark}


def test_a_line_says_which_faults_fired_and_which_runs_failed(made: CampaignMaker) -> None:
    fire(made, WRITE, Reboot(0.5))
    fire(made, WRITE, Crash())
    run = fire(made, WRITE, Crash(), fails=True)
    (view,) = views(made, {run: "F1"})
    (write,) = [block for block in view.blocks if block.first == 6 and block.mark]
    (note,) = write.notes
    assert (write.mark, write.code.strip()) == ("failed", "file.write(data)")
    assert (note.op, note.nodes, note.faults, note.failing, note.findings) == ("file.write", "s1", "crash ×2, reboot", 1, ("F1",))
    assert (view.name, view.operations, view.hit, view.failed) == ("shop/orders.py", 2, 1, 1)


def test_the_marks_of_lines(made: CampaignMaker) -> None:
    assert marks(made) == {6: "open", 10: "open"}
    fire(made, WRITE, Crash(), more=(PointSeen(UNLINK, 1, 0, 0, 17),))
    assert marks(made) == {6: "hit", 10: "open", 17: "recovery"}
    made.store.set_meta("reachable", [WRITE.id])
    assert marks(made) == {6: "hit", 10: "never", 17: "recovery"}


def test_a_line_says_what_was_skipped_and_by_which_rule(made: CampaignMaker) -> None:
    dropped = [Dropped(plan(Crash(), READ, nth=n), "policy first_reads_only, then x(3)") for n in (2, 3)]
    dropped.append(Dropped(plan(Reboot(1), READ), "policy fault_types(crash)"))
    made.store.write_round("exhaustive", [plan(Crash(), READ, nth=9)], dropped)
    made.run("random", plan(Crash(), READ), made=record(0, plan(Crash(), READ), status="not_fired"))
    made.store.set_meta("reachable", [WRITE.id])
    made.store.set_meta("impossible", {"s1 has no agent": [READ.id], "other": [WRITE.id]})
    (view,) = views(made)
    (read,) = [block for block in view.blocks if block.first == 10 and block.mark]
    assert read.notes[0].skipped == (
        "dropped: 2 by first_reads_only, 1 by fault_types",
        "1 plan still to run",
        "never fired in 1 run",
        "s1 has no agent",
    )


def test_lines_around_operations_are_shown_and_gaps_are_named(made: CampaignMaker) -> None:
    (view,) = views(made)
    assert [(block.first, block.last, block.is_gap) for block in view.blocks] == [
        (1, 2, True),
        (3, 5, False),
        (6, 6, False),
        (7, 9, False),
        (10, 10, False),
        (11, 13, False),
        (14, 17, True),
    ]
    assert view.blocks[1].numbers == "3\n4\n5"


def test_an_edited_file_is_doubted(made: CampaignMaker, tmp_path: Path) -> None:
    assert not views(made)[0].changed
    os.utime(tmp_path / "shop" / "orders.py")
    assert views(made)[0].changed
    assert "This file was changed after the hunt began" in render(made.store)


def test_operations_without_source_are_a_table(made: CampaignMaker, tmp_path: Path) -> None:
    elsewhere, beyond = at("net.send", "send", module="wire"), at("file.stat", "late")
    fire(made, WRITE, Crash(), more=(PointSeen(elsewhere, 1, 0, 0, 3), PointSeen(beyond, 1, 0, 1, 99)))
    page = render(made.store)
    table = page[page.index("Operations whose source isn't in the repository") :].partition("</table>")[0]
    assert "shop.wire:send#1" in table
    assert "shop.orders:late#1" in table
    assert "shop.orders:save#1" not in table


def test_scripts_are_found_by_their_role(tmp_path: Path) -> None:
    (tmp_path / "worker.py").write_text("import os\nos.unlink('x')\n")
    roles = {"worker": {"command": ["python3", "{project}/worker.py"]}}
    made = CampaignMaker(tmp_path / "c", {"config": str(tmp_path / "undermine.toml"), "significant": {"roles": roles}})
    loc = "__main__:<module>#1"
    for role in ("worker", "other"):
        seen = point_of(Event("w1", role, 1, 1, 1, 1, "file.unlink", loc, 2, (loc,)))
        made.run("baseline", Plan(), points=[PointSeen(seen, 1, 1, 0, 2)])
    (view,) = views(made)
    assert (view.name, view.operations) == ("worker.py", 1)


def test_hostile_source_is_text(made: CampaignMaker, tmp_path: Path) -> None:
    lines = ["<script>alert(1)</script></pre>\x1b[31m\u202e" + "x" * 5000] * 40
    (tmp_path / "shop" / "orders.py").write_text("\n".join(lines))
    page = render(made.store)
    assert "<script>alert" not in page
    assert "\u202e" not in page
    assert "\x1b" not in page
    assert page.count("&lt;script&gt;alert(1)") == 11, "three lines around each of the two operations"
    assert "x" * 300 not in page


def test_a_file_that_is_no_regular_file_is_not_read(made: CampaignMaker, tmp_path: Path) -> None:
    (tmp_path / "secret.py").write_text("secret = 1\n" * 99)
    (tmp_path / "shop" / "orders.py").unlink()
    (tmp_path / "shop" / "orders.py").symlink_to(tmp_path / "secret.py")
    assert "secret" not in render(made.store)


def test_files_that_do_not_fit_are_named(made: CampaignMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "_SOURCE_BYTES_MAX", 10)
    page = render(made.store)
    assert "Files that do not fit into this page" in page
    assert "<li><code>shop/orders.py</code></li>" in page


def test_the_source_links_to_its_finding(made: CampaignMaker) -> None:
    run = fire(made, WRITE, Crash(), fails=True)
    made.findings(Finding("F1", "data is lost", "data is lost", plan(Crash(), WRITE), (run,), ("random",), (LOST,), 3, 3))
    page = render(made.store)
    assert re.search(r"1 failing run</b> <a href=\"#F1\">F1</a>", page)
    assert 'id="F1"' in page


def test_strategies_say_what_is_left_and_which_policies_dropped_plans(made: CampaignMaker) -> None:
    dropped = [Dropped(plan(Crash(), READ, nth=n, strategy="exhaustive"), "policy <b>mine</b>") for n in range(2, 7)]
    made.store.write_round("exhaustive", [plan(Crash(), READ), plan(Crash(), WRITE)], dropped)
    text = " ".join(re.sub(r"<[^>]*>", " ", render(made.store)).split())
    assert "exhaustive 0 0 0 2 5 0 0 0 0" in text
    assert "Plans of exhaustive that policies dropped 5 policy &lt;b&gt;mine&lt;/b&gt; 5 plans crash before file.read" in text
