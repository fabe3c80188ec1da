"""The still picture of one run as inline SVG: a lane for each node, rows for clients, the fault, and healing.

Readers without scripts, and printers, get it in place of the space-time diagram (`spacetime`). Colours are classes
(`tl-…`) of the page's style sheet, for light and dark. Every text of a target is escaped by `_text`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import accumulate

from undermine.model.faults import FAULT_KINDS
from undermine.model.run import END, Op
from undermine.report.drawing.axis import Axis
from undermine.report.drawing.scene import Death, Health, Life, Mark, Scene
from undermine.report.text import clip, clip_middle, count, duration

_WIDTH = 1000
_LEFT = 118
_RIGHT = 986
_LABEL_HEIGHT = 18
_NODE_HEIGHT = 30
_TRACK_HEIGHT = 16
_CLIENT_HEIGHT = 18
_AXIS_HEIGHT = 34
_LEGEND_HEIGHT = 22
_CHAR_WIDTH = 6.6
_CLIENT_ROWS_MAX = 14
_TOGETHER = 12
"""Failed messages between the same nodes that lie closer than this share one arrow."""
_BEFORE_S_MIN = 0.05
"""A shorter time before the picture isn't mentioned."""
OUTCOMES = {"ok": "ok", "fail": "fail", "unknown": "unknown", "pending": "no answer"}


def band_of(action: str) -> tuple[str, str]:
    """How a fault that lasts is drawn, and the word for it, by its receipt's action."""
    return FAULT_KINDS[action].band if action in FAULT_KINDS else ("held", "held")


def timeline(scene: Scene | None) -> str:
    """The diagram of one run around its fault."""
    if scene is None:
        return _empty("This run recorded nothing with a time.")
    return "".join(_Drawing(scene).parts())


def _empty(sentence: str) -> str:
    return (
        f'<svg class="tl" viewBox="0 0 {_WIDTH} 40" role="img" aria-label="{_text(sentence)}">'
        f'<text class="tl-note" x="12" y="25">{_text(sentence)}</text></svg>'
    )


def _text(text: str, chars_max: int = 200) -> str:
    return escape(clip(text, chars_max))


class _Drawing:
    """Draws one picture, from top to bottom: labels, nodes, clients, axis, legend."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.axis = Axis(scene.from_ns, scene.to_ns, _moments(scene), _LEFT, _RIGHT)
        self.labels = _place_labels(scene, self.axis)
        self.top = 6 + _LABEL_HEIGHT * (1 + max((row for row, *_ in self.labels), default=-1)) + 4
        self.tracks = {node: scene.labels(node) for node in scene.nodes}
        heights = [_NODE_HEIGHT + _TRACK_HEIGHT * len(self.tracks[node]) for node in scene.nodes]
        tops = list(accumulate(heights, initial=self.top))
        self.node_y = {node: top + _NODE_HEIGHT / 2 for node, top in zip(scene.nodes, tops[:-1], strict=True)}
        self.clients_top = tops[-1] + (8 if scene.ops else 0)
        self.rows = _rows(scene.ops, scene.to_ns)
        self.bottom = self.clients_top + len(self.rows) * _CLIENT_HEIGHT + (6 if self.rows else 0)
        self.legend = _place_legend(scene)
        self.notes_top = (
            self.bottom + _AXIS_HEIGHT + _LEGEND_HEIGHT * (1 + max((row for row, *_ in self.legend), default=0))
        )

    def parts(self) -> Iterator[str]:
        notes = list(_notes(self.scene, bool(self.axis.breaks)))
        height = self.notes_top + 16 * len(notes)
        summary = _summary(self.scene)
        yield (
            f'<svg class="tl" viewBox="0 0 {_WIDTH} {height:.0f}" role="img" aria-label="{_text(summary)}">'
            f"<title>{_text(summary)}</title>"
        )
        yield from self._ground()
        yield from self._cuts()
        for life in self.scene.lives:
            yield from self._life(life)
        for name, ops in self.rows:
            yield from self._client(name, ops)
        yield from self._values()
        yield from self._failures()
        yield from self._healing()
        yield from self._stall()
        for death in self.scene.deaths:
            yield self._death(death)
        for health in self.scene.health:
            yield self._health(health)
        for mark in self.scene.marks:
            yield from self._mark(mark)
        for row, x, anchor, kind, text in self.labels:
            y = 6 + _LABEL_HEIGHT * row + 12
            yield f'<text class="tl-label tl-{kind}-text" x="{x:.1f}" y="{y}" text-anchor="{anchor}">{text}</text>'
        yield from self._legend()
        for number, note in enumerate(notes):
            y = self.notes_top + 16 * number + 6
            yield f'<text class="tl-note" x="{_LEFT}" y="{y:.0f}">{_text(note)}</text>'
        yield "</svg>"

    # --- what lies beneath

    def _ground(self) -> Iterator[str]:
        for number, (node, y) in enumerate(self.node_y.items()):
            if number % 2 == 0:
                top = y - _NODE_HEIGHT / 2
                height = _NODE_HEIGHT + _TRACK_HEIGHT * len(self.tracks[node])
                yield f'<rect class="tl-stripe" x="0" y="{top:.0f}" width="{_WIDTH}" height="{height}"/>'
            name = escape(clip_middle(node, 15))
            yield f'<text class="tl-lane" x="12" y="{y + 4:.1f}">{name}<title>{_text(node)}</title></text>'
            for number, label in enumerate(self.tracks[node]):
                at, short = self._track(node, number) + 10, escape(clip_middle(label, 15))
                yield f'<text class="tl-tick tl-client" x="20" y="{at:.1f}">{short}<title>{_text(label)}</title></text>'
        if self.rows:
            y = self.clients_top - 4
            yield f'<line class="tl-rule" x1="0" y1="{y}" x2="{_WIDTH}" y2="{y}"/>'
        yield from self._scale()

    def _scale(self) -> Iterator[str]:
        y = self.bottom
        yield f'<line class="tl-rule" x1="{_LEFT}" y1="{y:.0f}" x2="{_RIGHT}" y2="{y:.0f}"/>'
        breaks = [(gap.left, gap.right) for gap in self.axis.breaks]
        last_x = 0.0
        for x, label in self.axis.ticks(self.scene.origin_ns):
            if x - last_x < 34 or any(left - 22 < x < right + 22 for left, right in breaks):
                continue
            last_x = x
            yield f'<line class="tl-grid" x1="{x:.1f}" y1="{self.top:.0f}" x2="{x:.1f}" y2="{y + 4:.0f}"/>'
            yield f'<text class="tl-tick" x="{x:.1f}" y="{y + 17:.0f}" text-anchor="middle">{label} s</text>'
        for gap in self.axis.breaks:
            middle, width = (gap.left + gap.right) / 2, gap.right - gap.left
            spent = duration((gap.to_ns - gap.from_ns) / 1e9)
            yield (
                f'<g><rect class="tl-gap" x="{gap.left:.1f}" y="{self.top:.0f}" width="{width:.1f}" '
                f'height="{y - self.top:.0f}"/><path class="tl-gap-sign" d="M{middle - 5:.1f} {y + 5:.0f}l4 -10'
                f'm2 10l4 -10"/><text class="tl-tick" x="{middle:.1f}" y="{y + 17:.0f}" text-anchor="middle">'
                f"{spent}</text><title>{spent} without activity, drawn short</title></g>"
            )
        yield f'<text class="tl-note" x="12" y="{y + 17:.0f}">since start</text>'

    # --- nodes

    def _life(self, life: Life) -> Iterator[str]:
        if life.end_ns < self.scene.from_ns:
            return
        y = self.node_y[life.node]
        left, right = self.axis.x(life.start_ns), self.axis.x(life.end_ns if life.end else self.scene.to_ns)
        since, until = self._at(life.start_ns), self._at(life.end_ns)
        guessed = "from the start" if life.incarnation == 1 else f"from about {since}"
        began = f"from {since}" if life.start_known else guessed
        stayed = f"did not recover: {life.unready}" if life.unready else "until the end of the run"
        ended = f"ended at {until} with {life.end}" if life.end else stayed
        by = " (killed by the tool)" if life.end and life.expected else " (on its own)" if life.end else ""
        title = _text(f"{life.node}, start {life.incarnation}: {began}, {ended}{by}")
        width = max(2.0, right - left)
        kind = "tl-unready" if life.unready else "tl-node" if life.incarnation == 1 else "tl-node tl-again"
        yield (
            f'<rect class="{kind}" x="{left:.1f}" y="{y - 6:.1f}" width="{width:.1f}" height="12" rx="3">'
            f"<title>{title}</title></rect>"
        )
        if life.incarnation > 1 and width > 60 and life.start_ns > self.scene.from_ns:
            kind = "tl-in-bar tl-on-paper" if life.unready else "tl-in-bar"
            yield f'<text class="{kind}" x="{left + 6:.1f}" y="{y + 3.5:.1f}">start {life.incarnation}</text>'
        if life.end:
            kind = "tl-end" if life.expected else "tl-end tl-bad"
            yield (
                f'<path class="{kind}" d="M{right - 5:.1f} {y - 5:.1f}l10 10m0 -10l-10 10">'
                f"<title>{title}</title></path>"
            )

    def _death(self, death: Death) -> str:
        x, y = self.axis.x(death.t_ns), self.node_y[death.node]
        return (
            f'<path class="tl-death" d="M{x - 5:.1f} {y - 13:.1f}h10l-5 7z">'
            f"<title>{_text(f'{self._at(death.t_ns)}: {death.text}')}</title></path>"
        )

    def _health(self, health: Health) -> str:
        x, y = self.axis.x(health.t_ns), self.node_y[health.node]
        kind, said = (
            ("ill", f"reports that it is not healthy: {health.answer}")
            if health.answer
            else ("well", "reports that it is healthy")
        )
        return (
            f'<circle class="tl-{kind}" cx="{x:.1f}" cy="{y + 11:.1f}" r="3.2">'
            f"<title>{_text(f'{self._at(health.t_ns)}: {health.node} {said}', 300)}</title></circle>"
        )

    # --- partitions

    def _cuts(self) -> Iterator[str]:
        for cut in self.scene.cuts:
            left, right = self.axis.x(cut.begun_ns), self.axis.x(cut.ended_ns)
            yield (
                f'<rect class="tl-cut-time" x="{left:.1f}" y="{self.top:.0f}" width="{max(1.0, right - left):.1f}" '
                f'height="{self.bottom - self.top:.0f}"/>'
            )

    def _track(self, node: str, number: int) -> float:
        """The upper edge of the values of a node's variable."""
        return self.node_y[node] + _NODE_HEIGHT / 2 - 3 + _TRACK_HEIGHT * number

    def _values(self) -> Iterator[str]:
        colours = self.scene.colours
        for value in self.scene.values:
            if value.until_ns < self.scene.from_ns or value.t_ns > self.scene.to_ns:
                continue
            y = self._track(value.node, self.tracks[value.node].index(value.label))
            left = self.axis.x(max(value.t_ns, self.scene.from_ns))
            width = max(2.0, self.axis.x(min(value.until_ns, self.scene.to_ns)) - left - 1)
            kind = "tl-absent" if value.text is None else f"tl-v{colours[value.text]}"
            title = f"{self._at(value.t_ns)} {value.node}: {value.label} = {value.words}"
            yield (
                f'<g><rect class="tl-value {kind}" x="{left:.1f}" y="{y:.1f}" width="{width:.1f}" '
                f'height="{_TRACK_HEIGHT - 2}" rx="2"/>'
            )
            room = int((width - 8) / _CHAR_WIDTH)
            if room >= min(len(value.words), 4):
                yield f'<text class="tl-value-text" x="{left + 4:.1f}" y="{y + 10:.1f}">{_text(value.words, room)}</text>'
            yield f"<title>{_text(title)}</title></g>"

    def _failures(self) -> Iterator[str]:
        """Broken arrows. Those that lie close together share one."""
        last: dict[tuple[str, str], float] = {}
        for failure in self.scene.failures:
            x, between = self.axis.x(failure.t_ns), (failure.sender, failure.receiver)
            if between in last and x - last[between] < _TOGETHER:
                continue
            last[between] = x
            start, end = self.node_y[failure.sender], self.node_y[failure.receiver]
            way = 1 if end > start else -1
            title = f"{self._at(failure.t_ns)} {failure.sender} → {failure.receiver}: {failure.function}, {failure.error}"
            yield (
                f'<path class="tl-failed" d="M{x:.1f} {start + 7 * way:.1f}V{end - 16 * way:.1f}m-3 -3l6 6m0 -6l-6 6">'
                f"<title>{_text(title)}</title></path>"
            )

    # --- clients

    def _client(self, name: str, ops: Sequence[Op]) -> Iterator[str]:
        row = next(i for i, (_, some) in enumerate(self.rows) if some is ops)
        y = self.clients_top + row * _CLIENT_HEIGHT + _CLIENT_HEIGHT / 2
        shown = escape(clip_middle(name, 15))
        yield f'<text class="tl-client" x="12" y="{y + 4:.1f}">{shown}<title>{_text(name)}</title></text>'
        for op in ops:
            yield self._op(op, y)

    def _op(self, op: Op, y: float) -> str:
        left = self.axis.x(op.start_ns)
        right = self.axis.x(end_of_op(op, self.scene.to_ns))
        width = max(3.0, right - left - 0.6)
        took = f", took {(op.end_ns - op.start_ns) / 1e9:.3f} s" if op.end_ns else ", no answer by the end"
        where = f" at {op.node}" if op.node else ""
        said = f": {op.error}" if op.error else ""
        args = f" {op.args}" if op.args else ""
        title = f"{self._at(op.start_ns)} {op.client}: {op.f}{where}{args} – {OUTCOMES[op.status]}{took}{said}"
        return (
            f'<rect class="tl-op tl-{op.status}" x="{left:.1f}" y="{y - 5:.1f}" width="{width:.1f}" height="10" rx="2">'
            f"<title>{_text(title, 260)}</title></rect>"
        )

    # --- what the tool did

    def _healing(self) -> Iterator[str]:
        if self.scene.healed_ns:
            x = self.axis.x(self.scene.healed_ns)
            yield (
                f'<g><line class="tl-healed" x1="{x:.1f}" y1="{self.top - 4:.0f}" x2="{x:.1f}" y2="{self.bottom:.0f}"/>'
                f"<title>{self._at(self.scene.healed_ns)}: the tool ends all faults and starts dead nodes</title></g>"
            )

    def _stall(self) -> Iterator[str]:
        if self.scene.stalled_ns:
            x = self.axis.x(self.scene.stalled_ns)
            yield (
                f'<g><line class="tl-stalled" x1="{x:.1f}" y1="{self.top - 4:.0f}" x2="{x:.1f}" y2="{self.bottom:.0f}"/>'
                f"<title>{self._at(self.scene.stalled_ns)}: the workload makes no progress</title></g>"
            )

    def _mark(self, mark: Mark) -> Iterator[str]:
        if mark.node not in self.node_y:
            return
        x, y = self.axis.x(mark.t_ns), self.node_y[mark.node]
        if mark.action == END:
            yield self._end_of_fault(mark, x, y)
            return
        held_s = (mark.until_ns - mark.t_ns) / 1e9
        band, words = band_of(mark.action)
        spent = f", {words} for {held_s:.3f} s" if held_s > 0 else ""
        title = _text(f"{self._at(mark.t_ns)} {mark.node}: {mark.label}{spent}. {mark.detail}", 300)
        yield f'<g><title>{title}</title><line class="tl-fault-line" x1="{x:.1f}" y1="{self.top - 4:.0f}" x2="{x:.1f}" '
        yield f'y2="{self.bottom:.0f}"/>'
        if mark.until_ns > mark.t_ns:
            width = max(2.0, self.axis.x(mark.until_ns) - x)
            yield f'<rect class="tl-{band}" x="{x:.1f}" y="{y - 6:.1f}" width="{width:.1f}" height="12"/>'
        yield f'<path class="tl-fault" d="M{x:.1f} {y - 10:.1f}l9 10l-9 10l-9 -10z"/></g>'

    def _end_of_fault(self, mark: Mark, x: float, y: float) -> str:
        title = _text(f"{self._at(mark.t_ns)} {mark.node}: {mark.label}, its end condition occurred here", 300)
        return f'<path class="tl-over" d="M{x:.1f} {y - 10:.1f}v20l8 -10z"><title>{title}</title></path>'

    # --- words

    def _at(self, t_ns: int) -> str:
        return f"{(t_ns - self.scene.origin_ns) / 1e9:.3f} s"

    def _legend(self) -> Iterator[str]:
        for row, x, kind, text in self.legend:
            y = self.bottom + _AXIS_HEIGHT + 4 + _LEGEND_HEIGHT * row
            yield _sign(kind, x, y)
            yield f'<text class="tl-note" x="{x + 20:.0f}" y="{y + 4:.0f}">{text}</text>'


def _place_legend(scene: Scene) -> list[tuple[int, float, str, str]]:
    """The legend as (row, x, class, words), with as many entries in a row as fit."""
    placed = []
    row, x = 0, float(_LEFT)
    for kind, text in kinds(scene):
        width = 20 + _CHAR_WIDTH * len(text)
        if x + width > _RIGHT:
            row, x = row + 1, float(_LEFT)
        placed.append((row, x, kind, text))
        x += width + 18
    return placed


def _sign(kind: str, x: float, y: float) -> str:
    middle = x + 7
    match kind:
        case "fault":
            return f'<path class="tl-fault" d="M{middle:.0f} {y - 7:.0f}l6 7l-6 7l-6 -7z"/>'
        case "healed":
            return f'<line class="tl-healed" x1="{middle:.0f}" y1="{y - 7:.0f}" x2="{middle:.0f}" y2="{y + 7:.0f}"/>'
        case "death":
            return f'<path class="tl-death" d="M{middle - 5:.0f} {y - 4:.0f}h10l-5 7z"/>'
        case "well" | "ill":
            return f'<circle class="tl-{kind}" cx="{middle:.0f}" cy="{y:.0f}" r="3.4"/>'
        case "stalled":
            return f'<line class="tl-stalled" x1="{middle:.0f}" y1="{y - 7:.0f}" x2="{middle:.0f}" y2="{y + 7:.0f}"/>'
        case "failed":
            return f'<path class="tl-failed" d="M{middle - 7:.0f} {y:.0f}h7m1 -4l6 8m0 -8l-6 8"/>'
        case "over":
            return f'<path class="tl-over" d="M{middle - 3:.0f} {y - 7:.0f}v14l7 -7z"/>'
        case "end" | "end tl-bad":
            return f'<path class="tl-{kind}" d="M{middle - 4:.0f} {y - 4:.0f}l8 8m0 -8l-8 8"/>'
        case _:
            return f'<rect class="tl-{kind}" x="{x:.0f}" y="{y - 5:.0f}" width="14" height="10" rx="2"/>'


def kinds(scene: Scene) -> Iterator[tuple[str, str]]:
    """The entries of the legend: (class, words)."""
    if any(mark.action != END for mark in scene.marks):
        yield "fault", "injected fault"
    bands = {band_of(mark.action) for mark in scene.marks if mark.until_ns > mark.t_ns}
    yield from sorted(bands)
    if any(mark.action == END for mark in scene.marks):
        yield "over", "end of a fault"
    if scene.failures:
        yield "failed", "message failed"
    if any(value.text is None for value in scene.values):
        yield "absent", "∅: absent"
    if any(life.end and life.expected for life in scene.lives):
        yield "end", "killed by the tool"
    if any(life.end and not life.expected for life in scene.lives):
        yield "end tl-bad", "exited on its own"
    if any(life.unready for life in scene.lives):
        yield "unready", "did not recover"
    if scene.deaths:
        yield "death", "thread or task died"
    if any(not health.answer for health in scene.health):
        yield "well", "reports healthy"
    if any(health.answer for health in scene.health):
        yield "ill", "reports unhealthy"
    if scene.stalled_ns:
        yield "stalled", "no progress"
    statuses = {op.status for op in scene.ops}
    for status, text in OUTCOMES.items():
        if status in statuses:
            yield f"op tl-{status}", f"{text}" if status == "pending" else f"operation {text}"


def _notes(scene: Scene, has_breaks: bool) -> Iterator[str]:
    left_out = scene.ops_total - len(scene.ops)
    if left_out:
        yield (
            f"{len(scene.ops)} of {scene.ops_total} operations are shown: those nearest to the fault, and those that "
            f"did not succeed; {left_out} left out."
        )
    if scene.nodes_left_out:
        yield f"{count(scene.nodes_left_out, 'more node is', 'more nodes are')} not shown."
    before_s = (scene.from_ns - scene.origin_ns) / 1e9
    if before_s >= _BEFORE_S_MIN:
        yield f"The first {duration(before_s)} of the run are not shown."
    if has_breaks:
        yield "Idle times are drawn short (//)."


def _summary(scene: Scene) -> str:
    faults = ", ".join(
        f"{mark.label} on {mark.node} at {(mark.t_ns - scene.origin_ns) / 1e9:.2f} s" for mark in scene.marks[:3]
    )
    return f"Timeline of {len(scene.nodes)} nodes and {len(scene.ops)} client operations; {faults or 'no fault'}"


def _moments(scene: Scene) -> Iterator[int]:
    for op in scene.ops:
        yield from (op.start_ns, op.end_ns) if op.end_ns else (op.start_ns,)
    for life in scene.lives:
        yield from (life.start_ns, life.end_ns) if life.end else (life.start_ns,)
    for mark in scene.marks:
        yield from (mark.t_ns, mark.until_ns)
    yield from (death.t_ns for death in scene.deaths)
    yield from (failure.t_ns for failure in scene.failures)
    yield from (value.t_ns for value in scene.values if scene.from_ns <= value.t_ns <= scene.to_ns)
    yield from filter(None, (scene.healed_ns, scene.stalled_ns))


def end_of_op(op: Op, open_end_ns: int) -> int:
    """The end of a client operation; `open_end_ns` if it had no answer."""
    return op.end_ns if op.end_ns >= op.start_ns > 0 and op.status != "pending" else open_end_ns


def _rows(ops: Sequence[Op], open_end_ns: int) -> list[tuple[str, list[Op]]]:
    """A row for each client. If there are too many, clients share rows, without overlaps where possible."""
    by_client: dict[str, list[Op]] = {}
    for op in ops:
        by_client.setdefault(op.client, []).append(op)
    if len(by_client) <= _CLIENT_ROWS_MAX:
        return sorted(by_client.items(), key=lambda item: (item[1][0].phase == "final", item[0]))
    rows: list[tuple[int, list[Op]]] = []
    for op in ops:
        free = next((i for i, (end_ns, _) in enumerate(rows) if end_ns <= op.start_ns), None)
        if free is None and len(rows) < _CLIENT_ROWS_MAX:
            rows.append((0, []))
            free = len(rows) - 1
        place = free if free is not None else op.index % len(rows)
        rows[place][1].append(op)
        rows[place] = max(rows[place][0], end_of_op(op, open_end_ns)), rows[place][1]
    return [("clients" if i == 0 else "", row) for i, (_, row) in enumerate(rows)]


_Label = tuple[int, float, str, str, str]
"""(row, x, anchor, kind, escaped text)"""


def _place_labels(scene: Scene, axis: Axis) -> list[_Label]:
    """The labels above the lanes, each in the first row where it covers no other."""
    wanted = [
        (
            axis.x(mark.t_ns),
            "healed" if mark.action == END else "fault",
            f"{clip(mark.label, 40)} · {clip(mark.node, 16)}",
        )
        for mark in scene.marks[:8]
    ]
    if scene.healed_ns:
        wanted.append((axis.x(scene.healed_ns), "healed", "healed"))
    taken: list[tuple[int, float, float]] = []
    placed: list[_Label] = []
    for x, kind, text in wanted:
        width = _CHAR_WIDTH * len(text) + 10
        anchor = "start" if x + width < _RIGHT else "end"
        left, right = (x, x + width) if anchor == "start" else (x - width, x)
        row = 0
        while any(r == row and left < b and a < right for r, a, b in taken):
            row += 1
        taken.append((row, left, right))
        placed.append((row, x, anchor, kind, escape(text)))
    return placed
