"""With `labels`, each operation that stores or sends data is followed by the bytes that the data was made from."""

from __future__ import annotations

import pytest
from fake_tool import FakeTool, Outcome

LABELS = "content.labels"


@pytest.fixture
def labelling(tool: FakeTool, agent_kind: str) -> FakeTool:
    tool.more_config["labels"] = True
    return tool


def run(tool: FakeTool, source: str) -> Outcome:
    """Run the function `main` of a module."""
    from textwrap import dedent

    (tool.data / "program.py").write_text(dedent(source))
    return tool.run("import sys; sys.path.insert(0, '.'); import program; program.main()").ok()


def flows(outcome: Outcome) -> dict[str, list[str]]:
    """By target of the operation that stored data: the targets of the operations that it comes from, with the bytes."""
    by_seq = {(event.pid, event.seq): event for event in outcome.trace}
    found: dict[str, list[str]] = {}
    for event in outcome.of(LABELS):
        stored = by_seq[event.pid, event.size]
        labels = [label.partition(":") for label in event.resource.split()]
        texts = [f"{by_seq[event.pid, int(seq)].target} {part}" for seq, _, part in labels]
        found.setdefault(f"{stored.op} {stored.target}", []).extend(texts)
    return found


def test_files(labelling: FakeTool) -> None:
    outcome = run(labelling, """
        import os

        def main():
            with open("in", "wb") as file:
                file.write(b"key=value;rest")
            with open("in", "rb") as file:
                key, _, value = file.read().partition(b";")[0].partition(b"=")
            with open("out", "wb") as file:
                file.write(b"<")
                file.write(value)
            fd = os.open("raw", os.O_WRONLY | os.O_CREAT)
            os.write(fd, key)
            os.rename("raw", "new-" + key.decode())
            with open("text", "w") as file:
                file.write("first\\n")
                file.write(value.decode())
            with open("text") as file:
                lines = [line for line in file]
            with open("again", "w") as file:
                file.write(lines[1])
    """)
    assert flows(outcome) == {
        "file.write out": ["in 4-9"],
        "file.write raw": ["in 0-3"],
        "file.rename raw -> new-key": ["in 0-3"],
        "file.write text": ["in 4-9"],
        "file.write again": ["text 6-11"],
    }
