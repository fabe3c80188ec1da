"""The space-time diagram: its data say what the trace says, hostile texts stay data, and a browser draws it."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pytest
from browser import CHROMIUM, Page, browsing
from report_campaigns import at_s, op, plan, point, record
from traced_samples import analysis, done, events, stored

from undermine.analysis.trace_analysis import TraceAnalysis, plain
from undermine.analysis.trace_summary import summary
from undermine.model.columns import Columns
from undermine.model.event import Event, Trace
from undermine.model.faults import Crash
from undermine.model.run import NodeExit, Receipt, RunView
from undermine.report.drawing.event_groups import GROUPS, choose, group, is_late
from undermine.report.drawing.scene import scene_of
from undermine.report.drawing.spacetime import diagram, picture, unpacked
from undermine.report.trace_page import page

HOSTILE = '"><script>alert(1)</script></div>\x00\x1b[31m\u202e&{{ 7*7 }}'
WHERE = point("s2", "net.send", "app:net_send#1")


def view(**more: Any) -> RunView:
    exits = [NodeExit("s2", 1, -9, at_s(0.1), at_s(1.2), True)]
    made = record(1, plan(Crash(), WHERE), [Receipt(0, "s2", "crash", at_s(1.2))], exits, **more)
    return RunView(made, (op(0, "c1", "put", 1.0, 1.2, node="s1"), op(1, "c2", "put", 1.1, 0, "pending")), Trace)


def drawn(some: TraceAnalysis | None = None, **more: Any) -> dict[str, Any]:
    some = analysis() if some is None else some
    scene = scene_of(view(), some.columns)
    assert scene is not None
    return picture(scene, some, **more)


def texts(made: dict[str, Any], column: str) -> list[str]:
    return [made["texts"][number] for number in made["events"][column]]


def row_of(made: dict[str, Any], name: str, lane: str) -> int:
    lanes = [made["lanes"][made["subs"][sub][0]]["name"] for sub in made["events"]["s"]]
    return next(
        i for i, (op_name, at) in enumerate(zip(texts(made, "op"), lanes, strict=True)) if (op_name, at) == (name, lane)
    )


def test_nodes_come_first_then_clients_with_and_without_an_agent() -> None:
    made = drawn()
    assert [(lane["name"], lane["kind"]) for lane in made["lanes"]] == [
        ("m1", "node"),
        ("s1", "node"),
        ("s2", "node"),
        ("s3", "node"),
        ("c1", "client"),
        ("c2", "client"),
    ]
    assert [made["subs"][sub][1] for sub in made["lanes"][1]["subs"]] == ["rpc #", "pool #"]


def test_events_are_in_time_order_with_what_they_took() -> None:
    made = drawn()
    times = np.cumsum(made["events"]["t"])
    assert list(times) == sorted(times)
    write = row_of(made, "file.write", "s1")
    assert times[write] == 1_040_000_000
    assert made["events"]["d"][write] == 1_000_000
    assert made["events"]["size"][write] == 100
    assert len(made["events"]["t"]) == len(events())


def test_an_operation_that_never_returned_has_no_duration() -> None:
    some = [*events(), msgspec.structs.replace(done("s3", 1, 1.2, "net.recv"), end_ns=0)]
    made = drawn(analysis(some))
    assert made["events"]["d"][row_of(made, "net.recv", "s3")] == -1


def test_messages_and_edges_lead_from_event_to_event() -> None:
    made = drawn()
    sends = np.cumsum(made["messages"]["a"]).tolist()
    names = texts(made, "op")
    assert [names[i] for i in sends] == ["net.send"] * 3
    assert [names[i] for i in made["messages"]["b"]] == ["net.recv"] * 3
    assert [made["texts"][kind] for kind in made["messages"]["kind"]] == ["put", "put", "ack"]
    shown = {
        (names[a], names[b], *made["edgeKinds"][k])
        for a, b, k in zip(*(made["edges"][key] for key in ("a", "b", "kind")), strict=True)
    }
    assert shown == {
        ("handover.give", "handover.take", "handover", "causal"),
        ("file.write", "net.recv", "notify", "blocking"),
    }


def test_relations_of_stores_are_a_kind_of_their_own() -> None:
    made = drawn(stored())
    names = [f"{op} {target}" for op, target in zip(texts(made, "op"), texts(made, "target"), strict=True)]
    found = made["stores"]
    shown = [
        (names[a].split()[1], made["texts"][did], made["texts"][found_by], kind)
        for a, did, found_by, kind in zip(*(found[key] for key in ("a", "did", "found", "kind")), strict=True)
    ]
    assert shown == [
        ("PIPELINE(SET,RPUSH)", "RPUSH jobs of s1", "BLPOP jobs of s2", 0),
        ("PIPELINE(SET,RPUSH)", "SET k:x14 of s1", "GET k:x14 of s2", 2),
        ("PIPELINE(SET,RPUSH)", "SET k:x14 of s1", "EXISTS k:x14 of s2", 3),
    ]
    assert [names[i].split()[1] for i in made["taken"]] == ["BLPOP"]
    assert made["edges"]["a"] == [], "drawn twice"
    assert drawn()["stores"] == {"a": [], "b": [], "kind": [], "did": [], "found": []}


def test_where_the_write_is_not_drawn_the_read_still_names_it() -> None:
    made = drawn(stored(), events_max=2)  # those nearest to the fault
    assert texts(made, "op") == ["db.got", "db.read"]
    assert (made["stores"]["a"], made["texts"][made["stores"]["did"][0]]) == ([-1], "SET k:x14 of s1")


def test_causes_locks_and_limits_are_said() -> None:
    made = drawn()
    write, receive = row_of(made, "file.write", "s1"), row_of(made, "net.recv", "s2")
    assert made["texts"][made["held"][made["events"]["held"][write]][0]] == "lock, taken at app:Store.put#2"
    assert made["events"]["by"][receive] == row_of(made, "net.send", "s1")
    assert made["causes"][made["events"]["why"][receive]] == "message"
    last = max(i for i, t in enumerate(made["events"]["deadline"]) if t)
    assert made["events"]["deadline"][last] == 2_000_000_000
    assert made["texts"][made["events"]["limit"][last]] == "handover.give at app:handover_give#1"


def test_the_fault_the_healing_and_the_clients_are_there() -> None:
    made = drawn()
    ((lane, t, until, label, _, action, band),) = made["marks"]
    assert (made["lanes"][lane]["name"], t, until, label, action, bool(band)) == (
        "s2",
        1_200_000_000,
        t,
        "crash",
        "crash",
        True,
    )
    assert made["healed"] == 3_000_000_000
    assert made["stalled"] is None
    assert [(made["lanes"][o[0]]["name"], o[3], o[2]) for o in made["ops"]] == [
        ("c1", "ok", 1_200_000_000),
        ("c2", "pending", -1),
    ]
    assert ["fault", "injected fault"] in made["signs"]


def test_a_cause_that_is_not_drawn_is_replaced_by_its_own_cause() -> None:
    """Hand-overs are left out first: what they caused was caused by what caused them."""
    made = drawn(events_max=8)
    assert "handover.take" not in texts(made, "op")
    assert made["events"]["by"][row_of(made, "net.send", "s1")] == row_of(made, "net.recv", "s1")
    assert "8 of 10 events are drawn: without hand-overs and polls." in made["notes"]


def test_frequent_groups_are_left_out_first_and_then_distant_events() -> None:
    some = [done("s1", n, n / 10, op_name) for n, op_name in enumerate(["clock", "net.send"] * 10, 1)]
    columns = Columns.of(some)
    assert len(choose(columns, 20, 0).rows) == 20
    assert {columns.name(int(row)) for row in choose(columns, 12, 0).rows} == {"net.send"}
    near = choose(columns, 3, at_s(1.0), "the fault")
    assert [round((columns.t[row] - at_s(0)) / 1e9, 1) for row in near.rows] == [0.8, 1.0, 1.2]
    assert near.note == "3 of 20 events are drawn: without clocks and limits, those nearest to the fault."


def test_kinds_of_operations() -> None:
    assert [GROUPS[group(name)][0] for name in ("net.send", "raw.recv", "db.read", "lock.acquire", "x.y", "poll")] == [
        "net",
        "net",
        "store",
        "sync",
        "other",
        "handover",
    ]
    assert [
        name for name in ("net.recv", "net.send", "file.read", "handover.take", "queue.get", "poll") if is_late(name)
    ] == [
        "net.recv",
        "queue.get",
        "poll",
    ]


def test_many_threads_share_lanes() -> None:
    names = [f"worker {a}{b}" for a in "abcdefghij" for b in "klmnopqrst"]
    some = [done("s1", n, 1 + n / 1000, "file.read", thread=name) for n, name in enumerate(names)]
    made = drawn(plain(Columns.of(some)))
    names = [made["subs"][sub][1] for sub in made["lanes"][1]["subs"]]
    assert len(names) == 41
    assert names[-1] == "others"


def test_processes_of_a_node_have_lanes_of_their_own_and_a_restarted_one_has_its_old_ones() -> None:
    started = [(8, 1), (9, 1), (7, 1), (5, 2)]
    some = [
        done("s1", 1, 1 + n / 9, "file.read", thread="main", pid=p, incarnation=i) for n, (p, i) in enumerate(started)
    ]
    made = drawn(plain(Columns.of(some)))
    assert sorted(made["subs"][sub][1] for sub in made["lanes"][1]["subs"]) == ["7: main", "9: main", "main"]
    assert [made["subs"][sub][1] for sub in made["events"]["s"]] == ["main", "9: main", "7: main", "main"]


def test_a_run_without_a_trace_has_a_diagram_of_what_the_tool_saw() -> None:
    made = drawn(plain(Columns.of(())))
    assert made["events"]["t"] == []
    assert len(made["marks"]) == 1


def hostile() -> list[Event]:
    return [
        msgspec.structs.replace(
            e,
            target=HOSTILE,
            resource=HOSTILE * 100,
            thread=f"{e.thread} {HOSTILE}",
            stack=(HOSTILE, HOSTILE),
            op=e.op if e.op.startswith("net") else f"file.{HOSTILE}",
        )
        for e in events()
    ]


def test_texts_of_a_target_are_only_ever_data() -> None:
    some = analysis(hostile())
    shown = page(view(), some, summary(some), HOSTILE, [HOSTILE])
    assert "alert(1)" not in shown.replace(html.escape("<script>alert(1)</script>"), "")
    assert shown.count("<script") == 1
    assert "{{ 7*7 }}" in shown  # not run as a template
    packed = re.search(r'data-picture="([^"]*)"', shown)
    assert packed
    assert re.fullmatch("[A-Za-z0-9+/=]+", packed[1])
    made = unpacked(packed[1])
    assert not any(c in text for text in made["texts"] for c in "\x00\x1b\u202e")
    assert max(map(len, made["texts"])) <= 600


def test_the_page_needs_no_network() -> None:
    some = analysis()
    shown = page(view(), some, summary(some), "a run")
    assert "default-src 'none'" in shown
    assert not re.search(r'(?:src|href)="?(?:https?:)?//', shown)
    assert "@import" not in shown
    assert "app:handle" in shown
    assert "87.5 %" in shown


@pytest.fixture(scope="module")
def drawn_page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """The page of a hostile trace, in a browser."""
    if not CHROMIUM:
        pytest.skip("no browser here")
    folder = tmp_path_factory.mktemp("trace")
    some = analysis(hostile())
    path = folder / "trace.html"
    path.write_text(page(view(), some, summary(some), HOSTILE))
    with browsing(path.as_uri(), folder / "profile") as shown:
        shown.until("!!(document.querySelector('.st')?.diagram?.rows)")
        shown.ask("window.D = document.querySelector('.st').diagram; window.SPAN = [D.p.span, D.p.view]; 1")
        yield shown


def test_a_browser_draws_it_and_runs_nothing_of_the_targets(drawn_page: Page) -> None:
    shown = drawn_page.ask("document.documentElement.outerHTML")
    for kind in ("st-mark st-g-net", "st-message", "st-head", "tl-fault", "tl-healed", "tl-pending"):
        assert f'class="{kind}' in shown or f" {kind} " in shown, kind
    assert "crash · s2" in shown
    assert drawn_page.ask("document.scripts.length") == 1
    assert drawn_page.errors == []


def test_the_diagram_says_how_much_is_outside_the_window(drawn_page: Page) -> None:
    beyond = "[...document.querySelectorAll('.st-beyond')].map((text) => text.textContent)"
    drawn_page.ask("D.p.span = [0, 6e9]; D.look(3.1e9, 5.5e9)")
    drawn_page.frames()
    left, right = drawn_page.ask(beyond)
    assert left == "◂ first 3.1 s not shown: zoom out"
    assert right == "last 500 ms not shown ▸"
    drawn_page.ask("D.fit()")
    drawn_page.frames()
    assert drawn_page.ask(beyond) == []
    drawn_page.ask("[D.p.span, D.p.view] = SPAN; D.look(...D.p.view)")


def test_the_wheel_zooms_where_it_points_and_dragging_moves(drawn_page: Page) -> None:
    drawn_page.ask("D.fit()")
    drawn_page.frames()
    left, top = drawn_page.ask("(({left, top}) => [left, top])(D.svg.getBoundingClientRect())")
    before, at = drawn_page.ask("[D.to - D.from, D.timeAt(600)]")
    drawn_page.mouse("mouseWheel", left + 600, top + 60, deltaX=0, deltaY=-300)
    drawn_page.frames()
    after, still = drawn_page.ask("[D.to - D.from, D.timeAt(600)]")
    assert after < before
    assert abs(still - at) < before / 500
    drawn_page.mouse("mousePressed", left + 600, top + 60, button="left", buttons=1, clickCount=1)
    drawn_page.mouse("mouseMoved", left + 700, top + 60, button="left", buttons=1)
    drawn_page.mouse("mouseReleased", left + 700, top + 60, button="left", clickCount=1)
    drawn_page.frames()
    assert abs(drawn_page.ask("D.timeAt(700)") - still) < before / 500


def test_hovering_says_what_it_is_and_a_click_what_led_to_it(drawn_page: Page) -> None:
    drawn_page.ask("D.look(1.0e9, 1.2e9)")
    drawn_page.frames()
    i = drawn_page.ask("D.p.events.by.findLastIndex((by) => by >= 0)")
    x, y = drawn_page.ask(
        f"(() => {{ const [x, y] = D.place({i}), box = D.svg.getBoundingClientRect(); return [box.left + x, box.top + y]; }})()"
    )
    drawn_page.mouse("mouseMoved", x, y)
    drawn_page.frames()
    tip = drawn_page.ask("D.tip.hidden ? '' : D.tip.textContent")
    assert "net.recv" in tip or "net.send" in tip
    assert "<script>alert(1)</script>" in tip  # as text: it is in the stack
    drawn_page.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
    drawn_page.mouse("mouseReleased", x, y, button="left", clickCount=1)
    drawn_page.frames()
    assert "Causes, the nearest first" in drawn_page.ask("D.panel.textContent")
    assert drawn_page.ask("document.querySelectorAll('.st-chain').length") == 1
    assert drawn_page.errors == []


def test_a_filter_and_an_opened_lane(drawn_page: Page) -> None:
    drawn_page.ask("D.query = 'net.send'; D.filter(); D.toggleAll(); 1")
    drawn_page.frames()
    assert drawn_page.ask("D.shown.reduce((a, b) => a + b)") == 3
    assert drawn_page.ask("D.rows.length") > drawn_page.ask("D.p.lanes.length")
    drawn_page.ask("D.query = ''; D.filter(); D.toggleAll(); 1")


@pytest.fixture(scope="module")
def page_of_stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    if not CHROMIUM:
        pytest.skip("no browser here")
    folder = tmp_path_factory.mktemp("stores")
    some = stored()
    path = folder / "trace.html"
    path.write_text(page(view(), some, summary(some), "a run"))
    with browsing(path.as_uri(), folder / "profile") as shown:
        shown.until("!!(document.querySelector('.st')?.diagram?.rows)")
        shown.ask("window.D = document.querySelector('.st').diagram; D.look(0.99e9, 1.03e9); 1")
        shown.frames()
        yield shown


def target(shown: Page, name: str) -> int:
    found: int = shown.ask(f"D.p.events.target.findIndex((text) => D.p.texts[text].startsWith({name!r}))")
    return found


def test_a_read_names_the_write_and_a_write_its_readers(page_of_stores: Page) -> None:
    shown = page_of_stores
    shown.ask(f"D.pin({target(shown, 'GET')}); 1")
    assert "reads the value written by SET k:x14 of s1" in shown.ask("D.panel.textContent")
    assert "1.000000 s" in shown.ask("D.panel.querySelector('.st-causes').textContent")
    shown.ask("D.panel.querySelector('.st-causes button').click(); 1")
    assert shown.ask("D.pinned") == target(shown, "PIPELINE")
    said = shown.ask("D.panel.textContent")
    for words in ("taken by BLPOP jobs of s2", "read by GET k:x14 of s2", "followed by EXISTS k:x14 of s2"):
        assert words in said
    shown.ask(f"D.pin({target(shown, 'BLPOP')}); 1")
    assert "takes the item put by RPUSH jobs of s1" in shown.ask("D.panel.textContent")
    shown.ask(f"D.pin({target(shown, 'EXISTS')}); 1")
    assert "follows the change by SET k:x14 of s1" in shown.ask("D.panel.textContent")
    shown.frames()
    assert shown.ask("document.querySelectorAll('.st-related').length") == 1
    shown.ask("D.pin(-1)")
    assert shown.errors == []


def test_relations_of_stores_are_switched_on_in_the_legend(page_of_stores: Page) -> None:
    shown = page_of_stores
    drawn_now = "['st-given', 'st-depends'].map((name) => document.querySelectorAll('path.' + name).length)"
    assert shown.ask(drawn_now) == [0, 0]
    assert "hand-overs and waits" not in shown.ask("D.bar.textContent")
    shown.ask("document.querySelector('.st-links').click(); 1")
    shown.frames()
    assert shown.ask(drawn_now) == [1, 1]
    shown.ask("document.querySelector('.st-links').click(); 1")
    shown.frames()
    assert shown.ask(drawn_now) == [0, 0]


def test_an_operation_on_a_store_is_above_its_bytes(page_of_stores: Page) -> None:
    """It is drawn later, and it is what one points at where both are marked."""
    shown = page_of_stores
    order = shown.ask("[...document.querySelectorAll('.st-mark')].map((mark) => mark.getAttribute('class'))")
    assert order.index("st-mark st-g-store") > order.index("st-mark st-g-net")
    get = target(shown, "GET")
    assert shown.ask(f"D.hit(...D.place({get}).slice(0, 2)).event") == get
    raw = shown.ask("D.p.events.op.findIndex((op) => D.p.texts[op] === 'raw.recv')")
    assert shown.ask(f"D.hit(...D.place({raw}).slice(0, 2)).event") == get
    assert shown.ask(f"D.moment({target(shown, 'BLPOP')})") == 1_005_000_000, "a wait is marked where it ended"


def test_a_trace_without_stores_has_no_such_kind(drawn_page: Page) -> None:
    assert drawn_page.ask("document.querySelectorAll('.st-links').length") == 0


def test_without_a_script_the_still_picture_is_there() -> None:
    shown = diagram(view(), analysis())
    assert shown.startswith('<div class="st" data-picture="')
    assert '<svg class="tl"' in shown
