"""A run with a partition: its values over time, the messages that failed, where it ended, and how all this is drawn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest
from browser import CHROMIUM, Page, browsing
from report_campaigns import CampaignMaker, at_s, event, record

from undermine.analysis.trace_analysis import plain
from undermine.analysis.trace_summary import summary
from undermine.api import partition_ends
from undermine.model.columns import Columns
from undermine.model.event import Event, Trace
from undermine.model.faults import Partition
from undermine.model.finding import Finding
from undermine.model.plan import Compare, FirstUnseen, Plan, Step, When
from undermine.model.point import Point
from undermine.model.run import END, Moment, NodeExit, Receipt, RunRecord, RunView, Verdict
from undermine.report.card import card_of
from undermine.report.drawing.scene import Scene, scene_of
from undermine.report.drawing.spacetime import picture
from undermine.report.drawing.timeline import timeline
from undermine.report.html import render
from undermine.report.partitions import Cut, cuts_of, partition_part
from undermine.report.trace_page import page
from undermine.store.database import CampaignStore

HOSTILE = '</text></svg><script>alert(1)</script>"&\x1b[31m\u202e{{ 7*7 }}'
WHEN = When((Compare("s1.status[s3]", "==", "NORMAL"), Compare("s3.status[s3]", "==", "LEFT")))
UNTIL = FirstUnseen(("op", "target", "state"), state=(("s1.status[s3]",), ("s3.status[s3]",)), involves=("s1",))
ASK = "app.gossip:Gossip._ask"
ENDED = Moment(
    0, "s1", at_s(1.5), Point.of({"op": "net.connect", "target": "peer:s2", "loc": f"{ASK}#1", "state": "∅, LEFT"}), "", 8, 100
)


def sample(node: str, seq: int, seconds: float, text: str | None, name: str = "status", key: str = "s3") -> Event:
    more: dict[str, Any] = {"target": name, "resource": key, "content": text or "", "size": int(text is not None)}
    return event(node, seq, seconds, "variable.sample", "", stack=(), **more)


def failing(node: str, seq: int, seconds: float, to: str, op: str = "net.connect", error: str = "EHOSTUNREACH") -> Event:
    return event(node, seq, seconds, op, f"{ASK}#1", target=to, error=error, end_ns=at_s(seconds + 0.001))


def events(text: str = "NORMAL") -> list[Event]:
    made = [
        sample("s1", 1, 0.5, text),
        sample("s1", 2, 0.5, "7", "load", ""),
        sample("s3", 1, 0.5, text),
        sample("s3", 2, 1.0, "LEFT"),
        failing("s1", 3, 0.9, "peer:s2"),  # too early
        failing("s1", 4, 1.1, "peer:s2"),
        failing("s1", 5, 1.2, "peer:s2"),
        failing("s3", 3, 1.2, "peer:s1", "net.send", "ECONNRESET"),
        failing("s2", 1, 1.3, "peer:s3"),  # not cut off
        failing("s1", 6, 1.3, "accepted"),
        failing("s1", 12, 1.3, "peer:s2", "net.send", "EAGAIN"),  # the program tries again
        sample("s1", 7, 1.4, None),
        failing("s1", 8, 1.5, "peer:s2", error="ECONNRESET"),  # ended the partition
        failing("s1", 9, 1.6, "peer:s3", error="ECONNRESET"),  # later
        sample("s1", 10, 2.0, text),
    ]
    return sorted(made, key=lambda one: one.t_ns)


def cut_run(*, ended: bool = True, fault: Partition | None = None, **more: Any) -> RunRecord:
    fault = fault or Partition(nodes=("s1",), loss="error")
    what = Plan((Step(WHEN, fault, UNTIL if ended else None),), 7, "cofi", "while nodes disagree")
    receipts = [Receipt(0, "s1", "partition", at_s(1.5), held_ns=500_000_000)]
    receipts += [Receipt(0, "s1", END, at_s(1.5))] if ended else []
    return record(1, what, receipts, heal_reason="clients finished", ended=(ENDED,) if ended else (), **more)


def view(made: RunRecord | None = None) -> RunView:
    return RunView(made or cut_run(), (), Trace)


def scene(some: list[Event] | None = None, made: RunRecord | None = None) -> Scene:
    found = scene_of(view(made), Columns.of(events() if some is None else some))
    assert found is not None
    return found


def part_of(made: RunRecord, some: list[Event] | None = None) -> Any:
    return partition_part(made, Columns.of(events() if some is None else some), at_s(0))


# --- facts


def test_a_partition_spans_from_its_beginning_to_its_end() -> None:
    (cut,) = cuts_of(cut_run())
    assert (cut.nodes, cut.begun_ns, cut.ended_ns, cut.end) == (("s1",), at_s(1.0), at_s(1.5), ENDED)
    (mark, _) = scene().marks
    assert (mark.t_ns, mark.until_ns) == (at_s(1.0), at_s(1.5))
    assert part_of(record(1, Plan())) is None


def test_values_of_the_named_variable_are_shown_on_every_node_and_no_other_variable() -> None:
    shown = [(v.node, v.label, v.t_ns, v.until_ns, v.text) for v in scene().values]
    end_ns = scene().end_ns
    assert shown == [
        ("s1", "status[s3]", at_s(0.5), at_s(1.4), "NORMAL"),
        ("s3", "status[s3]", at_s(0.5), at_s(1.0), "NORMAL"),
        ("s3", "status[s3]", at_s(1.0), end_ns, "LEFT"),
        ("s1", "status[s3]", at_s(1.4), at_s(2.0), None),
        ("s1", "status[s3]", at_s(2.0), end_ns, "NORMAL"),
    ]


def test_a_node_that_ended_has_no_value_until_it_reads_again() -> None:
    made = cut_run(exits=(NodeExit("s3", 1, -9, at_s(0.1), at_s(1.2), True),))
    assert [(v.t_ns, v.until_ns) for v in scene(made=made).values if v.node == "s3"][-1] == (at_s(1.0), at_s(1.2))
    assert part_of(made).sentences[-1] == "At the end of the run, status[s3] was NORMAL on s1."


def test_only_messages_across_the_partition_while_it_lasts_have_failed() -> None:
    shown = [(f.sender, f.receiver, f.op, f.function, f.error, f.t_ns) for f in scene().failures]
    assert shown == [
        ("s1", "s2", "net.connect", ASK, "EHOSTUNREACH", at_s(1.1)),
        ("s1", "s2", "net.connect", ASK, "EHOSTUNREACH", at_s(1.2)),
        ("s3", "s1", "net.send", ASK, "ECONNRESET", at_s(1.2)),
    ]


@pytest.mark.parametrize(
    ("fault", "stopped"),
    [
        (Partition(nodes=("a",)), {"ab", "ba", "ac", "ca"}),
        (Partition(nodes=("a",), direction="out"), {"ab", "ac"}),
        (Partition(nodes=("a",), direction="in"), {"ba", "ca"}),
        (Partition(nodes=("a", "b")), {"ac", "ca", "bc", "cb"}),
        (Partition(nodes=("a",), others=("b",)), {"ab", "ba"}),
    ],
)
def test_a_partition_stops_messages_in_its_direction_only(fault: Partition, stopped: set[str]) -> None:
    cut = Cut(0, fault.nodes, 0, 1, fault)
    assert {a + b for a in "abc" for b in "abc" if cut.crosses(a, b)} == stopped


# --- words and tables


def test_the_story_says_where_it_began_and_where_it_ended() -> None:
    assert part_of(cut_run()).sentences == (
        "At 1.000 s, s1 was cut off from all other nodes, while status[s3] was NORMAL on s1 and LEFT on s3. 3 messages and "
        f"connections failed. The partition ended after 0.500 s, before s1 connected to s2 ({ASK}), while status[s3] was ∅ on s1 "
        "and LEFT on s3.",
        "At the end of the run, status[s3] was NORMAL on s1 and LEFT on s3.",
    )


def test_the_story_of_a_partition_that_lasted() -> None:
    first, _ = part_of(cut_run(ended=False)).sentences
    assert first.endswith("The partition lasted 0.500 s, until clients had finished.")


def test_a_state_whose_values_contain_the_separator_is_shown_as_it_is() -> None:
    odd = Moment(0, "s1", at_s(1.5), Point.of({**ENDED.point.as_dict(), "state": "{a, b}, LEFT"}))
    (first, _) = part_of(record(1, cut_run().plan, cut_run().receipts, ended=(odd,))).sentences
    assert first.endswith("while the state was {a, b}, LEFT.")


def test_the_tables_count_failures_by_kind_and_list_changes() -> None:
    part = part_of(cut_run())
    rows = [(row.sender, row.receiver, row.times, row.first, row.last) for row in part.failed]
    assert rows == [("s1", "s2", 2, "1.100 s", "1.200 s"), ("s3", "s1", 1, "1.200 s", "1.200 s")]
    changes = [(row.at, row.node, row.label, row.before, row.after, row.when) for row in part.changes]
    assert changes == [
        ("0.500 s", "s1", "status[s3]", "", "NORMAL", "before"),
        ("1.000 s", "s3", "status[s3]", "NORMAL", "LEFT", "during"),
        ("1.400 s", "s1", "status[s3]", "NORMAL", "∅", "during"),
        ("2.000 s", "s1", "status[s3]", "∅", "NORMAL", "after"),
    ]


def test_long_tables_say_how_much_is_left_out() -> None:
    flapping = [sample("s1", 100 + n, 1.6 + n / 100, f"v{n}") for n in range(40)]
    part = part_of(cut_run(), sorted([*events(), *flapping], key=lambda one: one.t_ns))
    assert len(part.changes) + part.changes_left_out == 44
    assert part.changes_left_out == 20


# --- drawings


def test_the_diagram_has_tracks_values_and_broken_arrows() -> None:
    made = picture(scene(), plain(Columns.of(events())))
    names = [lane["name"] for lane in made["lanes"]]
    assert dict(zip(names, made["tracks"], strict=True)) == {"m1": [], "s1": ["status[s3]"], "s2": [], "s3": ["status[s3]"]}
    shown = [(names[lane], words, colour) for lane, _, _, _, words, colour in made["values"]]
    assert shown == [("s1", "NORMAL", 0), ("s3", "NORMAL", 0), ("s3", "LEFT", 1), ("s1", "∅", -1), ("s1", "NORMAL", 0)]
    arrows = [(names[a], names[b], t, made["texts"][words]) for a, b, t, words in made["failures"]]
    assert arrows[0] == ("s1", "s2", 1_100_000_000, f"net.connect at {ASK}: EHOSTUNREACH")
    assert made["cuts"] == [[1_000_000_000, 1_500_000_000]]
    assert made["view"][0] < 1_000_000_000
    assert made["view"][1] > 3_000_000_000, "healing is in the first view"


def test_the_still_picture_has_them_too() -> None:
    svg = ElementTree.fromstring(timeline(scene()))
    marked = lambda kind: [e for e in svg.iter() if kind in e.get("class", "").split()]  # noqa: E731
    assert [e.text for e in marked("tl-value-text")] == ["NORMAL", "NORMAL", "LEFT", "∅", "NORMAL"]
    assert len(marked("tl-cut-time")) == 1
    assert len([e for e in marked("tl-failed") if len(e)]) == 3
    assert "end of the partition · s1" in [e.text for e in marked("tl-label")]
    assert {"message failed", "∅: absent"} <= {e.text for e in marked("tl-note")}


def test_failures_that_lie_close_together_share_an_arrow_in_the_still_picture() -> None:
    many = [failing("s1", 100 + n, 1.15 + n / 10**6, "peer:s2") for n in range(50)]
    svg = ElementTree.fromstring(timeline(scene(sorted([*events(), *many], key=lambda one: one.t_ns))))
    assert len([e for e in svg.iter() if e.get("class") == "tl-failed" and len(e)]) <= 5


def test_a_hostile_value_stays_text_in_the_still_picture() -> None:
    svg = ElementTree.fromstring(timeline(scene(events(HOSTILE))))
    assert not [e for e in svg.iter() if e.tag == "script"]
    assert any("<script>" in (e.text or "") for e in svg.iter("title"))


def test_the_card_shows_the_partition(tmp_path: Path) -> None:
    maker = CampaignMaker(tmp_path / "c")
    failed = Verdict("fail", "a member came back", checker="members", symptom="a member came back")
    made = cut_run()
    hostile = failing("s1", 11, 1.25, "peer:s2", error=HOSTILE)
    run = maker.run("cofi", made.plan, made=made, events=sorted([*events(), hostile], key=lambda e: e.t_ns), verdicts=[failed])
    finding = Finding("F1", failed.symptom, failed.text, made.plan, (run,), ("cofi",), (failed,), 1, 1, shown_by=run)
    maker.findings(finding)
    store = CampaignStore(maker.close())
    card = card_of(store, finding, {run: store.run_rows()[0]}, {}, brief=False)
    assert card.partition
    assert card.partition.sentences[0].startswith("At 1.000 s, s1 was cut off")
    shown = render(store)
    store.close()
    assert "Messages that failed" in shown
    assert "<script>alert" not in shown
    assert "&lt;script&gt;alert(1)" in shown


def test_the_card_says_who_took_the_place_of_a_node_of_the_plan(tmp_path: Path) -> None:
    maker = CampaignMaker(tmp_path / "c")
    made = cut_run(exchanged={"s2": "s1", "s1": "s2"})
    back = tuple(step.renamed(made.exchanged) for step in made.plan.steps)
    planned = msgspec.structs.replace(made.plan, steps=(msgspec.structs.replace(back[0], alike=(("s1", "s2"),)),))
    run = maker.run("cofi", planned, made=made, events=events())
    other = msgspec.structs.replace(made.plan, steps=(msgspec.structs.replace(back[0], until=None),))
    notes = []
    store = CampaignStore(maker.close())
    for plan in (planned, other):
        finding = Finding("F1", "s", "t", plan, (run,), ("cofi",), (), 1, 1, shown_by=run)
        notes.append(card_of(store, finding, {run: store.run_rows()[0]}, {}, brief=False).run_note)
    store.close()
    assert notes[0] == "In this run, s2 took the place of s1, s1 took the place of s2."
    assert notes[1].startswith("This run had another plan")


def test_the_terminal_gets_the_end_of_the_run_that_shows_the_finding(tmp_path: Path) -> None:
    maker = CampaignMaker(tmp_path / "c")
    runs = [maker.run("cofi", made.plan, made=made) for made in (cut_run(), cut_run(ended=False))]
    both = [
        Finding(f"F{run}", "s", "t", cut_run().plan, (run,), ("cofi",), (), shown_by=run) for run in (*runs, 77)
    ]
    assert partition_ends(maker.store, both) == {
        "F1": f"ended after 0.500 s, before s1 connected to s2 ({ASK}), while status[s3] was ∅ on s1 and LEFT on s3",
        "F2": "lasted 0.500 s, until clients had finished",
    }
    maker.close()


@pytest.fixture(scope="module")
def shown_page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    if not CHROMIUM:
        pytest.skip("no browser here")
    folder = tmp_path_factory.mktemp("partition")
    some = plain(Columns.of(events(HOSTILE)))
    (folder / "trace.html").write_text(page(view(), some, summary(some), "a run"))
    with browsing((folder / "trace.html").as_uri(), folder / "profile") as shown:
        shown.until("!!(document.querySelector('.st')?.diagram?.crosses)")
        shown.ask("window.D = document.querySelector('.st').diagram; 1")
        yield shown


def test_a_browser_draws_values_and_failures(shown_page: Page) -> None:
    shown = shown_page
    count = "(name) => document.querySelectorAll('.st-svg .' + name).length"
    assert shown.ask(f"['tl-value', 'tl-absent', 'tl-cut-time', 'st-failed', 'tl-over'].map({count})") == [5, 1, 1, 1, 1]
    assert shown.ask("D.crosses.map((group) => group.number)") == [1, 1, 1]
    shown.ask("D.look(0, 300e9); D.p.span = [0, 300e9]; D.look(0, 300e9)")
    shown.frames()
    assert shown.ask("D.crosses.map((group) => group.number)") == [2, 1], "close together"
    shown.ask("D.look(0.9e9, 1.6e9)")
    shown.frames()
    assert shown.ask("document.scripts.length") == 1
    assert shown.errors == []


def test_the_pointer_tells_a_value_and_a_failure(shown_page: Page) -> None:
    shown = shown_page
    shown.ask("D.look(0.9e9, 1.6e9)")
    shown.frames()
    left, top = shown.ask("(({left, top}) => [left, top])(D.svg.getBoundingClientRect())")
    x, y = shown.ask("(({x, top, bottom}) => [x, (top + bottom) / 2])(D.crosses[0])")
    shown.mouse("mouseMoved", left + x, top + y)
    said = shown.ask("D.tip.hidden ? '' : D.tip.textContent")
    assert "failed: s1 → s2" in said
    assert f"net.connect at {ASK}: EHOSTUNREACH" in said
    x, y = shown.ask(
        "(({x, y, width, height}) => [x.baseVal.value + width.baseVal.value / 2, y.baseVal.value + height.baseVal.value / 2])"
        "(document.querySelector('.tl-value.tl-absent'))"
    )
    shown.mouse("mouseMoved", left + x, top + y)
    assert "s1.status[s3] = ∅" in shown.ask("D.tip.textContent")


def test_failed_messages_can_be_hidden(shown_page: Page) -> None:
    shown = shown_page
    shown.ask("D.with.failures = false; D.later()")
    shown.frames()
    assert shown.ask("[document.querySelectorAll('.st-failed').length, D.crosses.length]") == [0, 0]
    shown.ask("D.with.failures = true; D.later()")
    shown.frames()
