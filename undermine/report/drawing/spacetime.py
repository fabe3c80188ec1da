"""The space-time diagram of a run: nodes are lanes, operations are marks, messages are arrows. For `undermine trace`
and for findings.

This module packs the data into an attribute of one element; `spacetime.js` draws the visible window of time. Readers
without scripts see the still picture of `timeline`, which is made from the same scene. A target's texts are only ever
data: packed here, text nodes in the browser.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from undermine.analysis.trace_analysis import Arrows, TraceAnalysis
from undermine.model.columns import Names, Numbers
from undermine.model.run import END, Op, RunView
from undermine.report.drawing.event_groups import GROUPS, choose, family, group, is_late
from undermine.report.drawing.scene import OPS_MAX as OPS_MAX_OF_STILL
from undermine.report.drawing.scene import Life, Scene, scene_of, with_ops
from undermine.report.drawing.timeline import OUTCOMES, band_of, end_of_op, kinds, timeline
from undermine.report.text import clip, count

EVENTS_MAX = 100_000
EVENTS_MAX_IN_REPORT = 2_500
OPS_MAX = 4_000
OPS_MAX_IN_REPORT = 400
CLIENTS_MAX = 40
SUBS_MAX = 40
_TEXT_MAX = 600
_STACK_MAX = 40
_COMMAND_MAX = 120
_STEPS_UP_MAX = 12
_PROBLEMS_MAX = 3
_PAD_NS = 20_000_000

_HIDDEN_FIRST = ("time", "handover", "variable")
"""Groups that are hidden until the reader turns them on."""
_TIMED = ("lock", "sem", "cond", "event", "future", "queue", "barrier", "join", "poll", "sleep", "timeout", "clock")
"""Families of operations whose size is a time limit."""
_NUMBERS = re.compile(r"[0-9a-f]{8,}|\d+")


def diagram(view: RunView, analysis: TraceAnalysis, *, page: bool = False) -> str:
    """The diagram as one HTML element; `page` for a diagram that has a page for itself."""
    scene = scene_of(view, analysis.columns, OPS_MAX if page else OPS_MAX_IN_REPORT)
    if scene is None:
        return timeline(None)
    still = with_ops(scene, view.history, OPS_MAX_OF_STILL)
    if page:
        made = picture(scene, analysis, EVENTS_MAX)
    else:
        made = picture(scene, analysis, EVENTS_MAX_IN_REPORT, still)
        made["notes"] += [f"undermine trace --run {view.record.id} draws more of this run."] if made["notes"] else []
    return f'<div class="st{" st-page" if page else ""}" data-picture="{packed(made)}">{timeline(still)}</div>'


def packed(made: dict[str, Any]) -> str:
    """The data as base64, so that nothing in it can end the HTML attribute."""
    text = json.dumps(made, separators=(",", ":"), ensure_ascii=True)
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def unpacked(text: str) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(text)))
    return made


def picture(
    scene: Scene, analysis: TraceAnalysis, events_max: int = EVENTS_MAX_IN_REPORT, at_first: Scene | None = None
) -> dict[str, Any]:
    """The diagram as plain data. Times are in nanoseconds since the start of the run. The first view is the time of the
    scene, or of `at_first`, another scene of the same run."""
    made = _Picture(scene, analysis, events_max).made()
    made["view"] = [t_ns - scene.origin_ns for t_ns in _first_view(at_first or scene)]
    return made


def _first_view(scene: Scene) -> tuple[int, int]:
    """The time that is visible at first: if there are partitions, these and healing, with some room around."""
    if not scene.cuts:
        return scene.from_ns, scene.to_ns
    begun_ns = min(cut.begun_ns for cut in scene.cuts)
    last_ns = max([cut.ended_ns for cut in scene.cuts] + [scene.healed_ns])
    pad_ns = max((last_ns - begun_ns) // 3, _PAD_NS)
    return max(scene.origin_ns, begun_ns - pad_ns), last_ns + pad_ns


def _first_steps(arrows: Arrows) -> Arrows:
    """The arrows, without repetitions of the same start: each step of a task has one."""
    _, first = np.unique(np.stack([arrows.source, arrows.kind.astype(np.int64)]), axis=1, return_index=True)
    first = np.sort(first)
    return Arrows(arrows.source[first], arrows.target[first], arrows.kind[first], arrows.kinds)


class _Picture:
    """Collects the data of one diagram."""

    def __init__(self, scene: Scene, analysis: TraceAnalysis, events_max: int) -> None:
        self.scene = scene
        self.analysis = analysis
        self.columns = analysis.columns
        self.origin_ns = scene.origin_ns
        self.texts = Names("")
        struck = [mark.t_ns for mark in scene.marks if mark.action != END]
        begun = scene.ops[0].start_ns if scene.ops else scene.from_ns
        around = (min(struck), "the fault") if struck else (begun, "the first operation of a client")
        self.drawn = choose(self.columns, events_max, *around)
        self.rows = self.drawn.rows
        self.place = np.full(len(self.columns) + 1, -1, np.int64)  # the last one stands for "none"
        self.place[self.rows] = np.arange(len(self.rows))
        self.lanes = self._lanes()
        self.lane_of = {lane["name"]: number for number, lane in enumerate(self.lanes)}
        self.subs: list[tuple[int, str]] = []
        self.sub_of = self._subs()

    def made(self) -> dict[str, Any]:
        scene = self.scene
        events, stacks, held = self._events()
        edges, edge_kinds = self._edges()
        messages = self._messages()
        names = self.columns.strings
        op_texts = sorted({int(op) for op in np.unique(self.columns.op[self.rows])}) if len(self.rows) else []
        ops = {self._text(names[op]): names[op] for op in op_texts}
        numbers = (len(scene.nodes), "node"), (len(self.rows), "event"), (len(messages["a"]), "message")
        return {
            "title": f"Space-time diagram of {', '.join(count(number, noun) for number, noun in numbers)}",
            "span": self._span(),
            "lanes": self.lanes,
            "subs": self.subs,
            "lives": [self._life(life) for life in scene.lives],
            "ops": list(self._client_ops()),
            "marks": list(self._marks()),
            "deaths": [[self.lane_of[d.node], self._at(d.t_ns), clip(d.text, 300)] for d in scene.deaths],
            "health": [[self.lane_of[h.node], self._at(h.t_ns), clip(h.answer, 200)] for h in scene.health],
            "healed": self._at(scene.healed_ns) if scene.healed_ns and (scene.marks or scene.deaths) else None,
            "stalled": self._at(scene.stalled_ns) if scene.stalled_ns else None,
            "cuts": [[self._at(cut.begun_ns), self._at(cut.ended_ns)] for cut in scene.cuts],
            "tracks": [list(scene.labels(lane["name"])) for lane in self.lanes],
            "values": list(self._values()),
            "failures": list(self._failures()),
            "signs": [list(sign) for sign in kinds(scene)],
            "events": events,
            "messages": messages,
            "stores": self._stores(),
            "edges": edges,
            "edgeKinds": edge_kinds,
            "causes": list(self.analysis.cause_kinds),
            "groups": [{"key": key, "words": words, "hidden": key in _HIDDEN_FIRST} for key, words, _ in GROUPS],
            "groupOf": {text: group(name) for text, name in ops.items()},
            "late": [text for text, name in ops.items() if is_late(name)],
            "taken": self._taken(),
            "timed": [text for text, name in ops.items() if family(name) in _TIMED or name == "process.wait"],
            "stacks": stacks,
            "held": held,
            "texts": self.texts.all,
            "notes": list(self._notes()),
        }

    def _at(self, t_ns: int) -> int:
        return int(t_ns) - self.origin_ns

    def _text(self, text: str) -> int:
        return self.texts.number(clip(text, _TEXT_MAX) if text else "")

    def _span(self) -> list[int]:
        """The times of the first and the last thing that is drawn."""
        first, last = self.scene.from_ns, self.scene.to_ns
        if len(self.rows):
            first = min(first, int(self.columns.t[self.rows[0]]))
            last = max(last, int(self.columns.t[self.rows].max()))
            ends = self.columns.end[self.rows]
            last = max(last, int(ends.max()) if int(ends.max()) < last + 60_000_000_000 else last)
        return [self._at(first), max(self._at(last), self._at(first) + 1)]

    # --- lanes

    def _lanes(self) -> list[dict[str, Any]]:
        roles = {process.node: process.role for process in self.columns.processes}
        nodes = list(self.scene.nodes)
        clients = sorted(
            node for node, role in roles.items() if role == "client"
        )  # next to the nodes, since they exchange messages
        clients += [op.client for op in sorted(self.scene.ops, key=lambda op: (op.phase == "final", op.client))]
        clients = list(dict.fromkeys(client for client in clients if client not in nodes))[:CLIENTS_MAX]
        others = sorted(set(roles) - set(nodes) - set(clients)) if len(nodes) < 100 else []
        named = [(name, "node", roles.get(name, "")) for name in nodes]
        named += [(name, "client", "client") for name in clients]
        named += [(name, "node", roles[name]) for name in others]
        return [{"name": name, "kind": kind, "note": clip(note, 80), "subs": []} for name, kind, note in named]

    def _subs(self) -> Numbers:
        """The sub-lane of each drawn event: its thread or task. Names that differ only in numbers share one."""
        analysis = self.analysis
        contexts, nodes = analysis.context[self.rows], self.columns.process[self.rows]
        pairs, inverse = np.unique(
            np.stack([nodes.astype(np.int64), contexts.astype(np.int64)]), axis=1, return_inverse=True
        )
        firsts = self._first_processes()
        numbers: dict[tuple[int, str], int] = {}
        room = [SUBS_MAX] * len(self.lanes)
        sub_of = []
        for process, context in pairs.T.tolist():
            lane = self.lane_of.get(analysis.nodes[process], -1)
            if lane < 0:
                sub_of.append(-1)
                continue
            name = _NUMBERS.sub("#", clip(analysis.contexts[context], 80)) or "main"
            if process not in firsts:
                name = f"{self.columns.processes[process].pid}: {name}"
            if (lane, name) not in numbers and not room[lane]:
                name = "others"
            if (lane, name) not in numbers:
                room[lane] = max(0, room[lane] - 1)
                numbers[lane, name] = len(self.subs)
                self.lanes[lane]["subs"].append(len(self.subs))
                self.subs.append((lane, name))
            sub_of.append(numbers[lane, name])
        if not sub_of:
            return np.empty(0, np.int64)
        found = np.array(sub_of, np.int64)[np.asarray(inverse).reshape(-1)]
        if (found < 0).any():  # events of nodes without a lane
            self.rows = self.rows[found >= 0]
            self.place[:] = -1
            self.place[self.rows] = np.arange(len(self.rows))
        return np.asarray(found[found >= 0])

    def _first_processes(self) -> set[int]:
        """The first active process of each incarnation of a node; other processes are named by their pids."""
        processes, rows = np.unique(self.columns.process, return_index=True)
        found: dict[tuple[str, int], int] = {}
        for number in processes[np.argsort(rows)].tolist():
            info = self.columns.processes[number]
            found.setdefault((info.node, info.incarnation), number)
        return set(found.values())

    # --- operations

    def _events(self) -> tuple[dict[str, list[int]], list[list[int]], list[list[int]]]:
        columns, rows = self.columns, self.rows
        t = columns.t[rows] - self.origin_ns
        end = columns.end[rows]
        took = np.where(end > 0, np.maximum(0, end - columns.t[rows]), -1)
        held, held_texts = self._held()
        deadline, limit = self._deadlines()
        stack, stacks = self._stacks()
        result = columns.result[rows]
        moved = np.where((result > 0) & (result != columns.size[rows]), result, 0)
        moved[~self._moves_bytes()] = 0
        texts = {name: self._texts_of(getattr(columns, name)[rows]) for name in ("op", "target", "resource", "error")}
        by = self._causes()
        return (
            {
                "t": np.diff(t, prepend=0).tolist(),
                "d": took.tolist(),
                "s": self.sub_of.tolist(),
                **texts,
                "size": columns.size[rows].tolist(),
                "bytes": moved.tolist(),
                "stack": stack,
                "held": held,
                "deadline": deadline,
                "limit": limit,
                "by": by.tolist(),
                "why": self.analysis.cause_kind[rows].tolist(),
            },
            stacks,
            held_texts,
        )

    def _moves_bytes(self) -> Any:
        moving = re.compile(r"(net|raw|msg|pipe|stream|file)\.(send|recv|read|write|map_read|map_write)")
        return np.array([bool(moving.fullmatch(name)) for name in self.columns.strings])[self.columns.op[self.rows]]

    def _texts_of(self, ids: Any) -> list[int]:
        found, inverse = np.unique(ids, return_inverse=True)
        numbers = np.array([self._text(self.columns.strings[int(number)]) for number in found], np.int64)
        return numbers[inverse].tolist() if len(found) else []

    def _stacks(self) -> tuple[list[int], list[list[int]]]:
        found, inverse = np.unique(self.columns.stack[self.rows], return_inverse=True)
        stacks = []
        for number in found.tolist():
            locs = self.columns.stacks[number][:_STACK_MAX]
            line = self.columns.lines[number]
            first = f"{locs[0]}, line {line}" if line else locs[0]
            stacks.append([self._text(first), *(self._text(loc) for loc in locs[1:])])
        return inverse.tolist(), stacks

    def _held(self) -> tuple[list[int], list[list[int]]]:
        """For each event the number of its set of locks; and the sets in words."""
        if not len(self.analysis.held):
            return [0] * len(self.rows), [[]]
        found, inverse = np.unique(self.analysis.held[self.rows], return_inverse=True)
        sets = [[self._text(self._lock(row)) for row in self.analysis.held_sets[number]] for number in found.tolist()]
        return inverse.tolist(), sets

    def _lock(self, row: int) -> str:
        columns = self.columns
        name = columns.text(int(columns.target[row])) or columns.text(int(columns.resource[row]))
        return f"{name}, taken at {columns.stacks[int(columns.stack[row])][0]}"

    def _deadlines(self) -> tuple[list[int], list[int]]:
        if not len(self.analysis.deadline):
            return [0] * len(self.rows), [0] * len(self.rows)
        deadline = self.analysis.deadline[self.rows]
        shown = np.where(deadline > 0, deadline - self.origin_ns, 0)
        setters, inverse = np.unique(self.analysis.deadline_of[self.rows], return_inverse=True)
        words = [self._text(self._setter(row)) if row >= 0 else 0 for row in setters.tolist()]
        return shown.tolist(), (np.array(words, np.int64)[inverse].tolist() if words else [])

    def _setter(self, row: int) -> str:
        return f"{self.columns.name(row)} at {self.columns.stacks[int(self.columns.stack[row])][0]}"

    def _causes(self) -> Numbers:
        """The cause of each event; if that isn't drawn, the cause of the cause, and so on."""
        cause = self.analysis.cause
        up = cause[self.rows]
        for _ in range(_STEPS_UP_MAX):
            lost = (up >= 0) & (self.place[up] < 0)
            if not lost.any():
                break
            up = np.where(lost, cause[np.maximum(up, 0)], up)
        return np.asarray(np.where(up >= 0, self.place[up], -1))

    # --- what is between them

    def _messages(self) -> dict[str, list[int]]:
        messages = self.analysis.messages
        a, b = self.place[messages.send], self.place[messages.receive]
        wanted = np.flatnonzero((a >= 0) & (b >= 0))
        wanted = wanted[np.argsort(a[wanted], kind="stable")]
        texts = [self._text(text) for text in messages.texts] if len(wanted) else [0]
        numbers = np.array(texts, np.int64)
        return {
            "a": np.diff(a[wanted], prepend=0).tolist(),
            "b": b[wanted].tolist(),
            "bytes": messages.bytes[wanted].tolist(),
            "kind": numbers[messages.kind[wanted]].tolist(),
            "handler": numbers[messages.handler[wanted]].tolist(),
        }

    def _edges(self) -> tuple[dict[str, list[int]], list[list[str]]]:
        made: dict[str, list[int]] = {"a": [], "b": [], "kind": []}
        names: list[list[str]] = []
        for arrows, sort in ((_first_steps(self.analysis.causal()), "causal"), (self.analysis.blocking, "blocking")):
            a, b = self.place[arrows.source], self.place[arrows.target]
            wanted = np.flatnonzero((a >= 0) & (b >= 0))
            made["a"] += a[wanted].tolist()
            made["b"] += b[wanted].tolist()
            made["kind"] += (arrows.kind[wanted] + len(names)).tolist()
            names += [[name, sort] for name in arrows.kinds]
        return made, names

    def _stores(self) -> dict[str, list[int]]:
        """Links between operations on stores, with words for both ends. An end that isn't drawn is -1."""
        links = self.analysis.stores
        a, b = self.place[links.source], self.place[links.target]
        wanted = np.flatnonzero(b >= 0)
        details = [links.details[at] for at in wanted.tolist()]
        sources, targets = links.source[wanted].tolist(), links.target[wanted].tolist()
        return {
            "a": a[wanted].tolist(),
            "b": b[wanted].tolist(),
            "kind": links.kind[wanted].tolist(),
            "did": [self._did(row, one.source, one.key) for row, one in zip(sources, details, strict=True)],
            "found": [self._did(row, one.target, one.key) for row, one in zip(targets, details, strict=True)],
        }

    def _did(self, row: int, command: str, key: str) -> int:
        """An operation in words: `SET user:17 of n1`."""
        return self._text(f"{clip(f'{command} {key}'.rstrip(), _COMMAND_MAX)} of {self.analysis.node(row)}")

    def _taken(self) -> list[int]:
        """Operations on stores that may have waited for an item; they are drawn at their end."""
        links = self.analysis.stores
        places: list[int] = self.place[np.unique(links.target[links.causes])].tolist()
        return [place for place in places if place >= 0]

    # --- clients and faults

    def _life(self, life: Life) -> list[Any]:
        when = self.lane_of[life.node], life.incarnation, self._at(life.start_ns), self._at(life.end_ns)
        return [*when, life.end, int(life.expected), clip(life.unready, 200)]

    def _client_ops(self) -> Iterator[list[Any]]:
        for op in self.scene.ops:
            if op.client in self.lane_of:
                end_ns = end_of_op(op, 0)
                yield [
                    self.lane_of[op.client],
                    self._at(op.start_ns),
                    self._at(end_ns) if end_ns else -1,
                    op.status,
                    clip(f"{op.f}{' at ' + op.node if op.node else ''}: {OUTCOMES[op.status]}", 120),
                    self._op_words(op),
                ]

    def _op_words(self, op: Op) -> str:
        took = f"took {(op.end_ns - op.start_ns) / 1e9:.3f} s" if op.end_ns else "no answer by the end"
        said = f"; {op.error}" if op.error else ""
        args = f" {op.args}" if op.args else ""
        return clip(f"{op.client} at {self._at(op.start_ns) / 1e9:.3f} s:{args} {took}{said}", 300)

    def _marks(self) -> Iterable[list[Any]]:
        for mark in self.scene.marks:
            if mark.node not in self.lane_of:
                continue
            band = "" if mark.action == END else band_of(mark.action)[0]
            spent = f", {(mark.until_ns - mark.t_ns) / 1e9:.3f} s" if mark.until_ns > mark.t_ns else ""
            words = f"{mark.node} at {self._at(mark.t_ns) / 1e9:.6f} s{spent}. {mark.detail}"
            at = [self.lane_of[mark.node], self._at(mark.t_ns), self._at(mark.until_ns)]
            yield [*at, clip(mark.label, 60), clip(words, 400), mark.action, band]

    def _values(self) -> Iterator[list[Any]]:
        """[lane, track, start, end, text, colour]; the colour of an absent value is -1."""
        colours = self.scene.colours
        for value in self.scene.values:
            track = self.scene.labels(value.node).index(value.label)
            colour = colours[value.text] if value.text is not None else -1
            yield [
                self.lane_of[value.node], track, self._at(value.t_ns), self._at(value.until_ns), clip(value.words, 160), colour
            ]

    def _failures(self) -> Iterator[list[int]]:
        """[lane of the sender, lane of the receiver, time, text]"""
        for failure in self.scene.failures:
            words = self._text(f"{failure.op} at {failure.function}: {failure.error}")
            yield [self.lane_of[failure.sender], self.lane_of[failure.receiver], self._at(failure.t_ns), words]

    def _notes(self) -> Iterator[str]:
        if self.drawn.note:
            yield self.drawn.note
        yield from self.analysis.problems[:_PROBLEMS_MAX]
        if left_out := self.scene.ops_total - len(self.scene.ops):
            yield f"{left_out:,} of {self.scene.ops_total:,} client operations are left out."
        if self.scene.nodes_left_out:
            yield f"{count(self.scene.nodes_left_out, 'more node is', 'more nodes are')} not shown."
