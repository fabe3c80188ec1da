"""Draws the few client operations that a verdict names: a row for each, with a bar from its start to its end.

Colours are classes (`tl-…`) of the page's style sheet. Every text of a target is escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from undermine.ledgers.base import show, word
from undermine.model.run import Op
from undermine.report.drawing.axis import Axis
from undermine.report.drawing.timeline import OUTCOMES, end_of_op
from undermine.report.text import clip

OPERATIONS_MAX = 16
_WIDTH, _LEFT, _RIGHT = 1000, 320, 986
_ROW_HEIGHT = 22
_TOP = 8
_CHARS_MAX = 44
_ARGS_MAX = 4
_OPEN_SHARE = 8
"""An operation without an end extends beyond the others by one part in this number."""


def operations(ops: Sequence[Op], origin_ns: int) -> str:
    """The picture of these operations in the order of their starts; empty if there are none."""
    shown = sorted(ops, key=lambda op: op.start_ns)[:OPERATIONS_MAX]
    return "".join(_parts(shown, len(ops) - len(shown), origin_ns)) if shown else ""


def _parts(ops: Sequence[Op], left_out: int, origin_ns: int) -> Iterator[str]:
    moments = [op.start_ns for op in ops] + [end_of_op(op, op.start_ns) for op in ops if op.status == "ok"]
    last_ns = max(moments) + max(1, (max(moments) - min(moments)) // _OPEN_SHARE)
    axis = Axis(min(moments), last_ns, moments, _LEFT, _RIGHT)
    bottom = _TOP + _ROW_HEIGHT * len(ops)
    summary = f"{len(ops)} client operations in the order of their starts"
    yield f'<svg class="tl" viewBox="0 0 {_WIDTH} {bottom + 26 + 16 * (left_out > 0)}" role="img" aria-label="{summary}">'
    yield f"<title>{summary}</title>"
    for x, label in axis.ticks(origin_ns):
        yield f'<line class="tl-grid" x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{bottom + 4}"/>'
        yield f'<text class="tl-tick" x="{x:.1f}" y="{bottom + 17}" text-anchor="middle">{label} s</text>'
    yield f'<line class="tl-rule" x1="{_LEFT}" y1="{bottom}" x2="{_RIGHT}" y2="{bottom}"/>'
    for row, op in enumerate(ops):
        y = _TOP + _ROW_HEIGHT * row + _ROW_HEIGHT / 2
        left, right = axis.x(op.start_ns), axis.x(op.end_ns if op.status == "ok" else last_ns)
        words = described(op)
        title = f"{(op.start_ns - origin_ns) / 1e9:.6f} s: {words}, {OUTCOMES[op.status]}"
        yield f'<text class="tl-client" x="12" y="{y + 4:.1f}">{escape(clip(words, _CHARS_MAX))}</text>'
        yield (
            f'<rect class="tl-op tl-{op.status}" x="{left:.1f}" y="{y - 5:.1f}" width="{max(3.0, right - left):.1f}" '
            f'height="10" rx="2"><title>{escape(clip(title, 300))}</title></rect>'
        )
    if left_out > 0:
        yield f'<text class="tl-note" x="12" y="{bottom + 34}">{left_out} more operations are not shown.</text>'
    yield "</svg>"


def described(op: Op) -> str:
    """`c1: put k 1`, `c2: get k → 2`."""
    args = " ".join(map(word, list(op.args.values())[:_ARGS_MAX]))
    answer = f" → {show(op.value)}" if op.status == "ok" and op.value is not None else ""
    return f"{op.client}: {op.f} {args}".rstrip() + answer
