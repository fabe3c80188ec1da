"""Writes the golden event file and its decoding anew: `python protocol/golden/generate.py`.

The file is made by the Python agent's writer, the decoding by the core's reader. Every other agent's writer must
produce the same bytes for the same calls, and every other reader the same decoding.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
NAME = "s1.1.4242.events"
PROCESS = {
    "version": 2,
    "node": "s1",
    "role": "store",
    "incarnation": 1,
    "pid": 4242,
    "ppid": 4241,
    "agent": "golden/1",
    "runtime": "none",
    "capabilities": ["crash", "error"],
    "gaps": ["mmap"],
}


def write(path: Path) -> None:
    """Two threads, one chunk each; the second uses definitions of the first. The last operation never ends."""
    from undermine_agent.wire.writer import Cursor, Writer

    writer = Writer(str(path))
    main, other = Cursor(writer), Cursor(writer)
    writer.process(main, json.dumps(PROCESS, separators=(",", ":")))
    inner, outer = writer.frame(main, "granary.store:Store.put#3", 41), writer.frame(main, "granary.node:main#0", 7)
    stack, short = writer.stack(main, (inner, outer)), writer.stack(main, (outer,))
    op, target = writer.string(main, "file.write"), writer.string(main, "log-<n>.txt")
    resource, thread = writer.string(main, "/d/s1/log-17.txt"), writer.string(main, "MainThread")
    writer.begin(main, 1, 1_000_000_001, op, stack, target, resource, thread, 512)
    writer.end(main, 1, 1_000_000_900, 512, 0)
    send, peer = writer.string(other, "net.send"), writer.string(other, "peer:s2")
    named = writer.string(other, "sender é")
    writer.begin(other, 2, 1_000_000_500, send, short, peer, 0, named, 10)
    writer.end(other, 2, 1_000_000_700, 0, writer.string(other, "ECONNRESET"))
    action, detail = writer.string(other, "error"), writer.string(other, "before net.send peer:s2: ECONNRESET once")
    writer.receipt(other, 2, 1_000_000_600, 0, 0, action, detail)
    mapped = writer.string(main, "file.map_write")
    writer.begin(main, 3, 1_000_002_000, mapped, stack, target, resource, thread, -1)
    crash = writer.string(main, "crash")
    writer.receipt(main, 3, 1_000_002_500, 1, 12_345, crash, 0)


def decode(path: Path) -> str:
    from undermine.model.codec import read_events

    events, agent, receipts, problems = read_events(path)
    found = {"agent": agent, "events": events, "receipts": receipts, "problems": problems}
    return json.dumps(msgspec.to_builtins(found), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "agents" / "python")]
    (HERE / NAME).unlink(missing_ok=True)
    write(HERE / NAME)
    (HERE / NAME).with_suffix(".json").write_text(decode(HERE / NAME))
