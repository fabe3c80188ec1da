"""Faults at mapped files: memory returns no error, but accesses can be delayed or changed, and a node can die there."""

from __future__ import annotations

import signal

import pytest

EIO = {"fault": "error", "error": "EIO"}
FLIP = {"fault": "corrupt", "how": "flip", "at": 0.5}
ZERO = {"fault": "corrupt", "how": "zero", "at": 0.0}
ACCESSES = """
    import mmap, os
    def attempt(function, *args):
        try:
            function(*args)
            return "ok"
        except OSError as error:
            return os.strerror(error.errno)
    file = open("journal", "r+b")
    m = mmap.mmap(file.fileno(), 0)
    def store():
        m[0:2] = b"ab"
        m.seek(0)
        m.write(b"cd")
    def load():
        m.seek(0)
        return m[0:2], m[0], m.read(2), m.readline()
    for _ in range(2):
        print(attempt(os.write, file.fileno(), b"x"), attempt(store), attempt(load), attempt(m.flush), flush=True)
"""
REFUSED, FULL = "Input/output error", "No space left on device"


@pytest.fixture
def mapped(tool):
    (tool.data / "journal").write_bytes(b"0123456789" + bytes(4086))
    return tool


def test_an_error_skips_mapped_accesses_and_hits_a_call_that_can_fail(mapped, any_python):
    """Mapped accesses don't count either: the fourth operation that counts is the second `write`."""
    mapped.python = any_python
    mapped.step(EIO, {"target": "journal", "nth": 4})
    mapped.step(EIO, {"op": "file.map_write"})
    mapped.step(EIO, {"op": "file.map_read", "place": "after"})
    mapped.step({"fault": "hold", "of": "error"}, {"op": "file.map_write"})
    mapped.step(EIO, {"op": "file.fsync"})
    outcome = mapped.run(ACCESSES).ok()
    assert outcome.out.splitlines() == [f"ok ok ok {REFUSED}", f"{REFUSED} ok ok ok"]
    assert [(r.step, r.detail) for r in outcome.receipts] == [
        (4, "before file.fsync journal: EIO once"),
        (0, "before file.write journal: EIO once"),
    ]
    assert [request["step"] for request in mapped.requests if request["type"] == "claim"] == [4, 0]
    assert not [e for e in outcome.of("file.map_read", "file.map_write") if e.error]


@pytest.mark.parametrize(
    ("error", "scope", "flushed"), [("EIO", "file", REFUSED), ("EIO", "disk", REFUSED), ("ENOSPC", "disk", "ok")]
)
def test_lasting_errors_spare_mapped_memory(mapped, error, scope, flushed):
    mapped.step({"fault": "error", "error": error, "scope": scope}, {"op": "file.write"})
    outcome = mapped.run(ACCESSES).ok()
    refused = {"EIO": REFUSED, "ENOSPC": FULL}[error]
    assert outcome.out.splitlines() == [f"{refused} ok ok {flushed}"] * 2


@pytest.mark.parametrize(("place", "stored"), [("before", b"01"), ("after", b"ab")])
@pytest.mark.parametrize("kind", ["crash", "reboot"])
def test_a_node_dies_before_or_after_a_mapped_write(mapped, kind, place, stored):
    mapped.step({"fault": kind}, {"op": "file.map_write", "place": place})
    outcome = mapped.run(ACCESSES.replace("attempt(os.write, file.fileno(), b\"x\"), ", ""))
    assert outcome.code == -signal.SIGKILL
    (receipt,) = outcome.receipts
    assert receipt.detail == f"{place} file.map_write journal"
    assert (mapped.data / "journal").read_bytes()[:2] == stored


@pytest.mark.parametrize("mode", ["thread", "operation"])
@pytest.mark.parametrize("op", ["file.map_read", "file.map_write"])
def test_a_mapped_access_can_be_delayed(mapped, op, mode):
    """A page from a slow disk blocks the thread, in every delay mode."""
    mapped.step({"fault": "delay", "delay_s": 0.05, "mode": mode}, {"op": op})
    outcome = mapped.run(ACCESSES).ok()
    (receipt,) = outcome.receipts
    held = next(event for event in outcome.trace if event.seq == receipt.seq)
    assert held.op == op
    assert held.end_ns - held.t_ns >= receipt.held_ns >= 50_000_000


@pytest.mark.parametrize("kind", ["pause", "partition"])
def test_a_fault_of_the_tool_can_start_at_a_mapped_access(mapped, kind):
    mapped.step({"fault": kind}, {"op": "file.map_write", "nth": 2})
    mapped.run(ACCESSES).ok()
    (claim,) = [request for request in mapped.requests if request["type"] == "claim"]
    assert (claim["point"]["op"], claim["point"]["target"]) == ("file.map_write", "journal")


MAP = """
    import mmap
    class Own(mmap.mmap):
        pass
    with open("journal", "r+b") as file:
        m, own = mmap.mmap(file.fileno(), 0), Own(file.fileno(), 0)
    m.seek(2)
"""
WRITTEN = {
    "m[0:10] = b'abcdefghij'": b"abcde\x99ghij",
    "m.write(b'abcd')": b"01ab\x9cd6789",
    "own[0:4] = bytearray(b'abcd')": b"ab\x9cd456789",
    "m[3] = 0x0f": b"012\xf0456789",
    "m[-4094] = 0x0f": b"01\xf03456789",
    "m.write_byte(0x0f)": b"01\xf03456789",
}


@pytest.mark.parametrize("access", WRITTEN)
def test_corrupt_changes_bytes_written_to_mapped_memory(mapped, access):
    mapped.step(FLIP, {"op": "file.map_write"})
    outcome = mapped.run(MAP + f"    {access}\n    assert m.tell() in (2, 3, 6)").ok()
    assert (mapped.data / "journal").read_bytes()[:10] == WRITTEN[access]
    assert len(outcome.receipts) == 1
    assert (mapped.data / "journal").stat().st_size == 4096


READ = {
    "m[0:10]": b"01234\xca6789",
    "own[0:10]": b"01234\xca6789",
    "bytes((m[4],))": b"\xcb",
    "m.read(4)": b"23\xcb5",
    "bytes((m.read_byte(),))": b"\xcd",
    "m.readline()": b"23\xcb5\n",
    "m.read()[:2046]": b"2345\n6789" + bytes(2037),
}


@pytest.mark.parametrize("access", READ)
def test_corrupt_changes_the_mapped_file_before_it_is_read(mapped, access):
    if "line" in access or "()[" in access:
        (mapped.data / "journal").write_bytes(b"012345\n6789" + bytes(4085))
    mapped.step(FLIP, {"op": "file.map_read"})
    outcome = mapped.run(MAP + f"    print({access})").ok()
    assert outcome.out == f"{READ[access]!r}\n"
    assert len(outcome.receipts) == 1
    changed = (mapped.data / "journal").read_bytes()
    assert changed.count(0xFF) == 1 if "()[" in access else READ[access] in changed


def test_corruption_of_mapped_memory_works_on_every_interpreter(mapped, any_python):
    mapped.python = any_python
    mapped.step(ZERO, {"op": "file.map_read", "nth": 2})
    mapped.step(FLIP, {"op": "file.map_write"})
    outcome = mapped.run(MAP + "    print(m[0:2], m.read(3), m.read_byte())\n    m[8:10] = b'ab'\n").ok()
    assert outcome.out == r"b'01' b'\x00\x00\x00' 53" + "\n"
    assert (mapped.data / "journal").read_bytes()[:10] == b"01\0\0\x00567a\x9d"


def test_a_mapped_access_that_cannot_be_changed_is_not_counted(mapped):
    """Copies within the memory, read-only memory, accesses that fail anyway, and reads at the end of the file."""
    mapped.step(FLIP, {"op": "file.map_write", "nth": 2})
    mapped.step(FLIP, {"op": "file.map_read", "nth": 2})
    outcome = mapped.run(
        """
        import mmap
        file = open("journal", "r+b")
        m, fixed = mmap.mmap(file.fileno(), 0), mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        def wrong(function, *args):
            try:
                function(*args)
            except (IndexError, TypeError, ValueError, OverflowError) as error:
                return type(error).__name__
        m.move(0, 1, 2)
        print(wrong(m.__setitem__, 0, 300), wrong(m.__setitem__, 5000, 1), fixed[0:4], wrong(m.__getitem__, 5000))
        m.seek(0, 2)
        print(m.read(), wrong(m.read_byte), m[0:2], m[2:4])
        """
    ).ok()
    first, second = outcome.out.splitlines()
    assert first.endswith("b'1223' IndexError")
    assert second == r"b'' ValueError b'12' b'2\xcc'"
    assert [(r.step, r.detail) for r in outcome.receipts] == [(1, "before file.map_read journal: byte 1 was 33, now cc")]
