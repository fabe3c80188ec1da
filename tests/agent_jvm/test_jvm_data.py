"""Lost and changed data at methods that only the JVM has. The program's own buffers stay right."""

from __future__ import annotations

from typing import Any

import pytest

FLIP = {"fault": "corrupt", "how": "flip", "at": 0.5}


def run(data_program: Any, scenario: str) -> tuple[Any, dict[str, str]]:
    """The outcome of a scenario, and what it printed, by the first word of each line."""
    outcome = data_program.run(scenario).ok()
    assert data_program.troubles() == ""
    return outcome, dict(line.split(" ", 1) for line in outcome.out.splitlines())


WRITTEN = {
    "one": b"\xca",
    "part": b"01234\xca6789",
    "short": b"\x01\xfd",
    "int": b"\x01\x02\xfc\x04",
    "long": b"\x01\x02\x03\x04\xfa\x06\x07\x08",
    "bytes": b"01234\xca6789",
    "chars": b"\x000\x001\x00\xcd\x003\x004",
    "gather": b"01234\xca6789",
    "at": b"\0\0\x0001234\xca6789",
}


@pytest.mark.parametrize("content", [False, True])
def test_every_way_to_write_a_file_writes_changed_bytes(data_program: Any, content: bool) -> None:
    data_program.tool.more_config["content"] = content
    for name in WRITTEN:
        data_program.tool.step(FLIP, {"op": "file.write", "target": name})
    outcome, said = run(data_program, "writes")
    assert {name: (data_program.tool.data / name).read_bytes() for name in WRITTEN} == WRITTEN
    assert said == {"gather": "[10, 0, 5, 5, 10, 56789]", "at": "[10, 12, 12, 0]"}
    assert sorted(receipt.step for receipt in outcome.receipts) == list(range(len(WRITTEN)))


@pytest.mark.parametrize("content", [False, True])
def test_every_way_to_read_a_file_reads_what_was_changed_in_it(data_program: Any, content: bool) -> None:
    data_program.tool.more_config["content"] = content
    names = ("one", "int", "at", "scatter", "transfer")
    for name in names:
        data_program.tool.step(FLIP, {"op": "file.read", "target": name})
    outcome, said = run(data_program, "reads")
    assert said == {
        "one": "[5, 202, 54]",
        "int": "[3435c937, 8]",
        "at": "[5, 6, \x0034~67\0\0, 0]",
        "scatter": "[10, 012, 34~6789]",
        "transfer": "[10, 01234~6789]",
    }
    changed = {name: (data_program.tool.data / name).read_bytes() for name in names}
    assert changed == {name: b"012345\xc9789" if name == "int" else b"01234\xca6789" for name in names}
    assert len(outcome.receipts) == len(names)


@pytest.mark.parametrize("content", [False, True])
def test_every_way_to_send_tells_that_all_was_sent(data_program: Any, content: bool) -> None:
    data_program.tool.more_config["content"] = content
    data_program.tool.step({"fault": "drop"}, {"op": "net.send", "nth": 2})
    outcome, said = run(data_program, "sends")
    assert said == {
        "before": "[6]",
        "lost": "[8, 10]",
        "gather": "[13, 0, 10, 3]",
        "file": "[6, 0]",
        "non-blocking": "[10, 10]",
        "peer": "[6, before]",
    }
    assert [(event.result, event.error) for event in outcome.of("net.send")] == [(6, ""), *[(0, "LOST")] * 6]
    assert len(outcome.receipts) == 1


@pytest.mark.parametrize("content", [False, True])
def test_several_buffers_send_and_receive_changed_bytes(data_program: Any, content: bool) -> None:
    data_program.tool.more_config["content"] = content
    data_program.tool.step(FLIP, {"op": "net.recv"})
    data_program.tool.step(FLIP, {"op": "net.send", "nth": 2})
    outcome, said = run(data_program, "scatters")
    assert said == {"scatter": "[10, 012, 7, 34~6789]", "gather": "[10, 5, 5, 56789]", "peer": "[10, 01234~6789]"}
    assert len(outcome.receipts) == 2


def test_lost_calls_of_named_methods_return_as_if_they_were_done(data_program: Any) -> None:
    names = {"truth": "msg.send", "number": "msg.send", "object": "db.write", "future": "msg.send", "next": "msg.recv"}
    described = [
        {"function": f":DataTarget.{name}", "op": op, **({"size": {"argument": "return"}} if name == "next" else {})}
        for name, op in names.items()
    ]
    described.append({"function": ":DataTarget.parcel", "op": "msg.send"})
    data_program.tool.more_config["operations"] = described
    for name, op in names.items():
        data_program.tool.step({"fault": "drop"}, {"op": op, "target": f"{name} other"})
    data_program.tool.step(FLIP, {"op": "msg.send", "target": "parcel other"})
    outcome, said = run(data_program, "methods")
    assert said == {"methods": "[true, 0, null, true, two, three]", "parcel": "[01234~, 6, 0123456789]"}
    lost = [event.target.split()[0] for event in outcome.trace if event.error == "LOST"]
    assert lost == list(names)
    assert len(outcome.receipts) == 6
