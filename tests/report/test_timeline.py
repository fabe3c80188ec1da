"""The diagram: everything that counts is in it, at its place, and nothing that a target wrote breaks it."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from report_campaigns import T0, at_s, event, op, plan, point, record

from undermine.model.columns import Columns
from undermine.model.event import Event, Trace
from undermine.model.faults import Crash, Delay, Drop, Error, Fault, Partition, Pause, Reboot, fault_kind
from undermine.model.plan import Plan
from undermine.model.point import Point
from undermine.model.run import END, PENDING, HealthSample, NodeExit, Op, Receipt, RunRecord, RunView, Settling, Timing
from undermine.report.drawing.axis import Axis
from undermine.report.drawing.scene import OPS_MAX, Scene, scene_of, with_ops
from undermine.report.drawing.timeline import timeline

WHERE = point("s2", "file.write", "granary.disk:append#1", "log")
HOSTILE = '"><script>alert(1)</script>\x00\x1b[31m\u202e&'


def view(made: RunRecord, history: Sequence[Op] = (), events: Sequence[Event] = ()) -> RunView:
    return RunView(made, tuple(history), lambda: Trace(tuple(events)))


def scene_from(run: RunView) -> Scene | None:
    return scene_of(run, Columns.of(run.trace))


def drawn(run: RunView) -> ET.Element:
    return ET.fromstring(timeline(scene_from(run)))


def marked(svg: ET.Element, name: str) -> list[ET.Element]:
    return [e for e in svg.iter() if name in e.get("class", "").split()]


def bars(svg: ET.Element, name: str) -> list[ET.Element]:
    """Bars without those of the legend, which have no title."""
    return [e for e in marked(svg, name) if e.find("title") is not None]


def title(element: ET.Element) -> str:
    return element.findtext("title") or ""


def rebooted(**more: Any) -> RunRecord:
    what = plan(Reboot(0.4), WHERE)
    exits = [NodeExit("s2", 1, -9, at_s(0.1), at_s(1.2), True)]
    return record(1, what, [Receipt(0, "s2", "reboot", at_s(1.2), 100, 7)], exits, **more)


def test_lanes_fault_healing_and_outcomes_are_there() -> None:
    history = [
        op(0, "kv1", "put", 1.0, 1.1),
        op(1, "kv1", "put", 1.2, 1.4, "fail", error="refused"),
        op(2, "kv2", "put", 1.2, 2.4, "unknown"),
        op(3, "kv3", "get", 1.3, 0, "pending"),
    ]
    svg = drawn(view(rebooted(), history))
    assert [e.text for e in marked(svg, "tl-lane")] == ["m1", "s1", "s2", "s3"]
    assert [e.text for e in marked(svg, "tl-client")] == ["kv1", "kv2", "kv3"]
    assert [e.text for e in marked(svg, "tl-label")] == ["reboot · s2", "healed"]
    for status in ("ok", "fail", "unknown", "pending"):
        assert len(bars(svg, f"tl-{status}")) == 1
    assert "refused" in title(bars(svg, "tl-fail")[0])


def test_a_reboot_leaves_a_gap_in_the_lane() -> None:
    again = [event("s2", 1, 1.7, "file.open", "granary.disk:recover#1", incarnation=2, pid=101)]
    first, second = [b for b in bars(drawn(view(rebooted(), (), again)), "tl-node") if title(b).startswith("s2")]
    assert float(first.attrib["x"]) + float(first.attrib["width"]) < float(second.attrib["x"])
    assert "start 2: from 1.700 s" in title(second)


def test_without_a_trace_a_restart_follows_from_the_plan() -> None:
    scene = scene_from(view(rebooted()))
    assert scene is not None
    assert [life.start_ns for life in scene.lives if life.incarnation == 2] == [at_s(1.6)]


def test_a_crashed_node_comes_back_when_all_is_healed() -> None:
    exits = [NodeExit("s2", 1, -9, at_s(0.1), at_s(1.2), True)]
    made = record(1, plan(Crash(), WHERE), [Receipt(0, "s2", "crash", at_s(1.2))], exits)
    scene = scene_from(view(made))
    assert scene is not None
    assert [life.start_ns for life in scene.lives if life.incarnation == 2] == [made.healed_ns]


def test_a_node_that_ended_after_healing_stays_gone() -> None:
    exits = [NodeExit("s2", 1, 1, at_s(0.1), at_s(3.4), False)]
    svg = drawn(view(record(1, plan(Crash(), WHERE), (), exits)))
    assert len([b for b in bars(svg, "tl-node") if title(b).startswith("s2")]) == 1
    assert "on its own" in title(bars(svg, "tl-bad")[0])


def test_a_node_that_does_not_serve_again_looks_different() -> None:
    svg = drawn(view(rebooted(settling=Settling({"s2": "connection refused"}))))
    (bar,) = bars(svg, "tl-unready")
    assert "did not recover: connection refused" in title(bar)


def test_a_delay_is_drawn_from_its_beginning() -> None:
    """Its receipt is written when the thread is let go."""
    made = record(1, plan(Delay(2.0), WHERE), [Receipt(0, "s2", "delay", at_s(2.8), held_ns=2_000_000_000)])
    run = view(made, [op(0, "kv1", "put", 0.7, 0.8)])
    scene = scene_from(run)
    assert scene is not None
    assert scene.marks[0].t_ns == at_s(0.8)
    assert any("0.800 s s2: delay, held for 2.000 s" in title(e) for e in drawn(run).iter("g"))


@pytest.mark.parametrize(
    ("fault", "action", "band", "words"),
    [
        (Pause(2.0), "pause", "tl-paused", "pause, paused for 2.000 s"),
        (Partition(direction="out"), "partition", "tl-cut", "partition, outgoing, cut off for 2.000 s"),
    ],
)
def test_a_pause_or_partition_is_a_band_on_the_nodes_lane(fault: Fault, action: str, band: str, words: str) -> None:
    receipts = [Receipt(0, node, action, at_s(2.8), held_ns=2_000_000_000) for node in ("s1", "s2")]
    svg = drawn(view(record(1, plan(fault, WHERE), receipts), [op(0, "kv1", "put", 0.7, 2.9)]))
    lanes = {e.text: float(e.attrib["y"]) for e in marked(svg, "tl-lane")}
    drawn_at = [(float(e.attrib["y"]), float(e.attrib["width"])) for e in marked(svg, band)]
    bands = [(y, width) for y, width in drawn_at if width != 14]
    assert len(drawn_at) == 3  # and one in the legend
    assert [y - lanes[node] for (y, _), node in zip(bands, ("s1", "s2"), strict=True)] == [-10.0, -10.0]
    assert all(width > 100 for _, width in bands)
    assert any(f"s2: {words}" in title(e) for e in svg.iter("g"))


SEND = point("s2", "net.send", "granary.rpc:send#1", "peer:s1")
MESSAGE = point("s2", "msg.send", "granary.rpc:send#1", "beat peer:s1")


@pytest.mark.parametrize(
    ("fault", "where", "band", "until_s"),
    [
        (Drop(), SEND, "tl-lost", 3.0),
        (Error("EIO", "disk"), WHERE, "tl-failing", 3.0),
        (Drop(), MESSAGE, "tl-lost", 0),
        (Error("EIO"), WHERE, "tl-failing", 0),
    ],
)
def test_a_lasting_fault_is_a_band_and_a_single_one_is_not(
    fault: Fault, where: Point, band: str, until_s: float
) -> None:
    made = record(1, plan(fault, where), [Receipt(0, "s2", fault_kind(fault), at_s(1.0))])
    run = view(made, [op(0, "kv1", "put", 0.7, 2.9)])
    scene = scene_from(run)
    assert scene is not None
    assert scene.marks[0].until_ns == at_s(until_s or 1.0)
    assert bool(marked(drawn(run), band)) == bool(until_s)


def test_a_band_ends_where_the_steps_until_was_met() -> None:
    receipts = [Receipt(0, "s2", "drop", at_s(1.0)), Receipt(0, "s3", END, at_s(1.9))]
    scene = scene_from(view(record(1, plan(Drop(), SEND), receipts)))
    assert scene is not None
    assert [mark.until_ns for mark in scene.marks] == [at_s(1.9), at_s(1.9)]


def test_a_fault_that_never_took_effect_is_not_marked() -> None:
    scene = scene_from(view(record(1, plan(Drop("wire"), SEND), [Receipt(0, "s2", PENDING, at_s(1.0))])))
    assert scene is not None
    assert scene.marks == ()


def test_health_answers_are_on_the_lanes_of_their_nodes() -> None:
    health = [
        HealthSample("s1", at_s(1.5)),
        HealthSample("s2", at_s(1.5), "my disk is slow"),
        HealthSample("x", at_s(1)),
    ]
    svg = drawn(view(rebooted(health=tuple(health), stalled_ns=at_s(2)), [op(0, "kv1", "put", 0.7, 2.9)]))
    assert [title(e) for e in bars(svg, "tl-well")] == ["1.500 s: s1 reports that it is healthy"]
    assert [title(e) for e in bars(svg, "tl-ill")] == ["1.500 s: s2 reports that it is not healthy: my disk is slow"]
    assert any("the workload makes no progress" in title(e) for e in svg.iter("g"))
    words = [e.text for e in marked(svg, "tl-note")]
    assert {"reports healthy", "reports unhealthy", "no progress"} <= set(words)


def test_changes_among_many_health_answers_are_shown() -> None:
    said = [HealthSample("s1", at_s(1 + i / 1000), "ill" if i == 777 else "") for i in range(1000)]
    scene = scene_from(view(rebooted(health=tuple(said))))
    assert scene is not None
    assert len(scene.health) < 50
    assert [health.t_ns for health in scene.health if health.answer] == [at_s(1.777)]


def test_a_long_legend_has_several_rows_and_stays_on_the_page() -> None:
    statuses = ("ok", "fail", "unknown", "pending")
    history = [op(i, "c", "put", 1 + i / 5, 1.1 + i / 5, status) for i, status in enumerate(statuses)]
    health = (HealthSample("s1", at_s(1.5)), HealthSample("s1", at_s(1.6), "ill"))
    what = plan(Reboot(0.4), WHERE)
    exits = [NodeExit("s2", 1, -9, at_s(0.1), at_s(1.2), True), NodeExit("s1", 1, 1, at_s(0.1), at_s(2.2), False)]
    receipts = [Receipt(0, "s2", "reboot", at_s(1.2), held_ns=10**8), Receipt(0, "s2", END, at_s(1.9))]
    made = record(1, what, receipts, exits, health=health, stalled_ns=at_s(2), settling=Settling({"s3": "no"}))
    svg = drawn(view(made, history))
    notes = {e.text: e for e in marked(svg, "tl-note")}
    assert len({notes[text].attrib["y"] for text in ("injected fault", "no answer")}) == 2
    width, height = map(float, svg.attrib["viewBox"].split()[2:])
    assert all(float(e.attrib["x"]) + 6 * len(e.text or "") < width for e in notes.values())
    assert all(float(e.attrib["y"]) < height for e in notes.values())


def test_the_end_of_a_fault_is_marked_where_it_was_met() -> None:
    receipts = [Receipt(0, "s2", "partition", at_s(1.9), held_ns=10**9), Receipt(0, "s3", END, at_s(1.9))]
    svg = drawn(view(record(1, plan(Partition(), WHERE), receipts), [op(0, "kv1", "put", 0.7, 2.9)]))
    (end,) = bars(svg, "tl-over")
    assert "s3: end of the partition, its end condition occurred here" in title(end)
    assert [e.text for e in marked(svg, "tl-label")] == ["partition · s2", "end of the partition · s3", "healed"]


def test_an_end_that_a_client_met_gives_it_no_lane() -> None:
    receipts = [Receipt(0, "s2", "pause", at_s(1.9), held_ns=10**9), Receipt(0, "client", END, at_s(1.9))]
    svg = drawn(view(record(1, plan(Pause(), WHERE), receipts)))
    assert [e.text for e in marked(svg, "tl-lane")] == ["m1", "s1", "s2", "s3"]


def test_threads_that_died_are_marked() -> None:
    dead = [event("s2", 9, 1.3, "thread.die", "granary.disk:append#1", target="KeyError", resource="'x'")]
    (mark,) = bars(drawn(view(rebooted(), (), dead)), "tl-death")
    assert title(mark) == "1.300 s: a thread died with KeyError: 'x'"


def test_few_operations_are_shown_of_many() -> None:
    history = [op(i, f"c{i % 4}", "put", 0.6 + i / 300, 0.602 + i / 300) for i in range(600)]
    history[599] = op(599, "c3", "put", 2.6, 2.9, "fail")
    svg = drawn(view(rebooted(), history))
    assert len(bars(svg, "tl-op")) == OPS_MAX
    assert len(bars(svg, "tl-fail")) == 1
    assert any(
        "60 of 600 operations" in (e.text or "") and "540 left out" in (e.text or "") for e in marked(svg, "tl-note")
    )


def test_many_clients_share_rows() -> None:
    history = [op(i, f"c{i}", "put", 1 + i / 100, 1.05 + i / 100) for i in range(50)]
    svg = drawn(view(rebooted(), history))
    assert len(bars(svg, "tl-op")) == 50
    assert len(marked(svg, "tl-client")) <= 14


def test_a_scene_with_fewer_operations_is_that_of_the_same_run() -> None:
    history = [op(i, "kv1", "put", 0.1 + i / 100, 0.2 + i / 100) for i in range(3 * OPS_MAX)]
    run = view(rebooted(), history)
    large, small = scene_of(run, Columns.of(()), 2 * OPS_MAX), scene_from(run)
    assert large is not None
    assert small is not None
    assert (len(large.ops), len(small.ops)) == (2 * OPS_MAX, OPS_MAX)
    assert large.to_ns - large.from_ns > small.to_ns - small.from_ns
    assert with_ops(large, history, OPS_MAX) == small


def test_texts_of_a_target_are_escaped() -> None:
    what = plan(Crash((HOSTILE,)), WHERE)
    made = record(
        1,
        what,
        [Receipt(0, HOSTILE, HOSTILE, at_s(1.2), detail=HOSTILE), Receipt(99, "s2", HOSTILE, at_s(1.3))],
        [NodeExit(HOSTILE, 1, 1, at_s(0.1), at_s(1.5), False, HOSTILE)],
        settling=Settling({"s1": HOSTILE}),
    )
    history = [op(0, HOSTILE, HOSTILE, 1.0, 1.1, "fail", node=HOSTILE, args={HOSTILE: HOSTILE}, error=HOSTILE)]
    dead = [event("s2", 1, 1.1, "thread.die", "x:y#1", target=HOSTILE, resource=HOSTILE * 9999)]
    text = timeline(scene_from(view(made, history, dead)))
    ET.fromstring(text)
    assert "<script" not in text
    assert not any(c in text for c in "\x00\x1b\u202e")
    assert len(text) < 50_000


def test_a_run_without_any_time_says_so() -> None:
    assert "This run recorded nothing with a time" in timeline(scene_from(view(RunRecord(1, Plan(), "broken"))))


@pytest.mark.parametrize("absurd", [0, -5, 1, 1 << 62, T0 * 1000])
def test_absurd_times_stay_on_the_page(absurd: int) -> None:
    made = record(1, plan(Crash(), WHERE), [Receipt(0, "s2", "crash", absurd, held_ns=absurd)])
    wild = Op(0, "c", "put", start_ns=absurd, end_ns=-absurd, status="ok")
    opened = msgspec.structs.replace(event("s1", 1, 1, "file.open", "x:y#1"), t_ns=absurd)
    svg = drawn(view(made, [wild, op(1, "c", "put", 1, 2)], [opened]))
    width = float(svg.attrib["viewBox"].split()[2])
    for rect in svg.iter("rect"):
        assert 0 <= float(rect.attrib.get("x", 0)) <= width
        assert 0 <= float(rect.attrib["width"]) <= width


def test_a_broken_run_that_was_never_healed_starts_with_what_was_seen() -> None:
    made = record(1, plan(Crash(), WHERE), started_ns=0, healed_ns=0, timing=Timing())
    scene = scene_from(view(made, [op(0, "c", "put", 1.5, 1.6)]))
    assert scene is not None
    assert scene.origin_ns == at_s(1.5)


# --- the axis


def seconds(*moments: float) -> list[int]:
    return [int(moment * 1e9) for moment in moments]


BUSY = [i / 10 for i in range(10)]


@pytest.mark.parametrize("moments", [[], BUSY, [*BUSY, 9.0, 9.1, 9.2], [4.0]])
def test_later_is_never_further_left(moments: list[float]) -> None:
    axis = Axis(0, 10_000_000_000, seconds(*moments), 100, 900)
    places = [axis.x(t) for t in range(-1_000_000_000, 11_000_000_000, 50_000_000)]
    assert places == sorted(places)
    assert (places[0], places[-1]) == pytest.approx((100, 900))


def test_idle_time_is_drawn_short() -> None:
    axis = Axis(0, 10_000_000_000, seconds(*BUSY, 9.5, 9.6, 9.7), 100, 900)
    (gap,) = axis.breaks
    assert gap.right - gap.left < 60
    assert (gap.to_ns - gap.from_ns) / 1e9 == pytest.approx(8.5, abs=0.3)
    assert axis.x(900_000_000) - axis.x(0) > 300


@pytest.mark.parametrize("moments", [[5.0], [i / 2 for i in range(20)]])
def test_a_run_that_is_busy_or_empty_has_one_scale(moments: list[float]) -> None:
    assert Axis(0, 10_000_000_000, seconds(*moments), 100, 900).breaks == ()


@pytest.mark.parametrize("span_s", [0.004, 0.5, 3, 47, 4000, 900_000])
def test_ticks_are_few_and_apart(span_s: float) -> None:
    axis = Axis(T0, T0 + int(span_s * 1e9), [], 100, 900)
    places = [x for x, _ in axis.ticks(T0)]
    assert 2 <= len(places) <= 12
    assert min(b - a for a, b in itertools.pairwise(places)) > 60


def test_a_start_that_is_not_in_the_picture_is_said() -> None:
    late, early = ([op(0, "kv1", "put", begun, begun + 0.1)] for begun in (2.5, 0.1))
    notes = [e.text for e in marked(drawn(view(record(1, Plan()), late)), "tl-note")]
    assert "The first 2.3 s of the run are not shown." in notes
    assert not any("not shown" in (e.text or "") for e in marked(drawn(view(record(1, Plan()), early)), "tl-note"))
