"""Faults at logical operations: only their message is lost, late or changed."""

from __future__ import annotations

from typing import Any

import pytest

PACKAGE = """
import asyncio
sent = []
def send(peer, data):
    sent.append(data)
    return len(data)
async def send_later(peer, data):
    await asyncio.sleep(0)
    sent.append(data)
    return len(data)
def handle(data):
    sent.append(data)
"""
SOURCES = {
    "send": "import program\nprint([program.send('s2', b'0123456789') for _ in range(3)], program.sent)",
    "send_later": """
import asyncio, program
async def main():
    ticks = 0
    async def tick():
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1
            if ticks == 50:
                with open(STATE, "r+b") as file:  # heal
                    file.seek(12)
                    file.write(b"\\1")
    ticker = asyncio.ensure_future(tick())
    print([await program.send_later('s2', b'0123456789') for _ in range(3)], program.sent)
    print(ticks >= 50)
    ticker.cancel()
asyncio.run(main())
""",
    "handle": "import program\nprint([program.handle(b'0123456789') for _ in range(3)], program.sent)",
}
GOOD, BAD = b"0123456789", b"01234\xca6789"


@pytest.fixture
def program(tool: Any) -> Any:
    """Run one of the sources with a fault at the second call of the function."""
    folder = tool.folder / "package"
    folder.mkdir()
    (folder / "program.py").write_text(PACKAGE)

    def run(function: str, fault: dict[str, Any]) -> Any:
        op = "msg.recv" if function == "handle" else "msg.send"
        described = {"function": f"program:{function}", "op": op, "kind": {"text": "entry"}}
        tool.more_config = {"operations": [described]}
        tool.step(fault, {"op": op, "nth": 2})
        source = SOURCES[function].replace("STATE", repr(str(tool.state)))
        outcome = tool.run(source, python_path=str(folder)).ok()
        assert outcome.of(op)[1].seq == outcome.receipts[0].seq
        return outcome

    return run


@pytest.mark.parametrize("function", SOURCES)
def test_a_dropped_message_never_arrives(program, function):
    outcome = program(function, {"fault": "drop"})
    assert f"{[GOOD, GOOD]}" in outcome.out
    assert [e.error for e in outcome.of("msg.send", "msg.recv")] == ["", "LOST", ""]


@pytest.mark.parametrize("function", SOURCES)
def test_a_corrupted_message_arrives_changed(program, function, any_python, tool):
    tool.python = any_python
    outcome = program(function, {"fault": "corrupt", "how": "flip", "at": 0.5})
    assert f"{[GOOD, BAD, GOOD]}" in outcome.out
    assert outcome.receipts[0].detail.endswith(": byte 5 was 35, now ca")


@pytest.mark.parametrize("function", SOURCES)
def test_a_delayed_message_arrives_late(program, function):
    """A loop continues meanwhile: the delay of its message ends only because the loop heals it."""
    delay_s = 3600 if function == "send_later" else 0.4
    outcome = program(function, {"fault": "delay", "delay_s": delay_s, "mode": "operation"})
    assert f"{[GOOD] * 3}" in outcome.out
    assert outcome.receipts[0].held_ns >= 400_000_000
    if function == "send_later":
        assert outcome.out.endswith("True\n")
