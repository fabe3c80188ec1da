"""With `labels`, each operation that stores or sends data is followed by the bytes that the data was made from."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from fake_tool import FakeTool, Outcome

LABELS = "content.labels"
TWO_LINES = b"key=value;rest\nsecond=line\n"


@pytest.fixture
def labelling(tool: FakeTool) -> FakeTool:
    tool.more_config["labels"] = True
    (tool.data / "in").write_bytes(TWO_LINES)
    return tool


def run(tool: FakeTool, source: str) -> Outcome:
    """Run the function `main` of a module."""
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


def test_lines_and_parts_of_files(labelling: FakeTool) -> None:
    outcome = run(labelling, """
        import io, json, pickle

        def main():
            with open("in", "rb") as file:
                file.readline()
                second = file.readline()
            with open("second", "wb") as file:
                file.write(second.strip())
            with open("in") as file:
                file.seek(4)
                value = file.read(5)
            with open("json", "w") as file:
                json.dump({"value": value}, file)
            with open("pickle", "wb") as file:
                pickle.dump([value], file)
            raw = io.FileIO("in")
            buffer = bytearray(9)
            raw.readinto(buffer)
            with io.FileIO("raw", "w") as file:
                file.write(buffer[4:])
            with open("json") as file:
                again = json.load(file)
            with open("again", "w", encoding="utf-16") as file:
                file.write(again["value"])
    """)
    assert flows(outcome) == {
        "file.write second": ["in 15-26"],
        "file.write json": ["in 0-5"],  # of the read after the seek
        "file.write pickle": ["in 0-5"],
        "file.write raw": ["in 4-9"],
        "file.write again": ["json 11-16"],
    }


def test_messages(labelling: FakeTool) -> None:
    outcome = run(labelling, """
        import socket, struct

        def receive(sock, size):
            parts = bytearray()
            while len(parts) < size:
                parts += sock.recv(size - len(parts))
            return bytes(parts)

        def main():
            listener = socket.create_server(("127.0.0.1", 0))
            client = socket.create_connection(listener.getsockname())
            server = listener.accept()[0]
            client.sendall(struct.pack(">I", 9) + b"key=value")
            (size,) = struct.unpack(">I", receive(server, 4))
            key, value = receive(server, size).split(b"=")
            server.sendall(b"got " + value)
            buffer = bytearray(20)
            size = client.recv_into(buffer)
            with open("out", "wb") as file:
                file.write(buffer[:size])
            client.sendall(b"rest")
            with open("size", "w") as file:
                file.write(str(len(server.recv(10))))
    """)
    received = [event.seq for event in outcome.of("net.recv")]
    assert flows(outcome) == {"net.send accepted": ["accepted 4-9"], "file.write out": ["other 0-9"]}
    (sent, _) = outcome.of(LABELS)
    assert sent.resource == f"{received[1]}:4-9", "of the body, not of the length before it"


def test_streams_of_asyncio(labelling: FakeTool) -> None:
    outcome = run(labelling, """
        import asyncio

        async def main_():
            done = asyncio.Event()

            async def serve(reader, writer):
                size = int((await reader.readline()).decode())
                body = await reader.readexactly(size)
                with open("out", "wb") as file:
                    file.write(body[4:])
                writer.write(body[:3])
                await writer.drain()
                writer.close()

            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"9\\nkey=value")
            await reader.read()
            server.close()

        def main():
            asyncio.run(main_())
    """)
    assert flows(outcome) == {"file.write out": ["accepted 6-11"], "net.send accepted": ["accepted 2-5"]}


def test_files_made_from_sockets(labelling: FakeTool) -> None:
    outcome = run(labelling, """
        import socket

        def main():
            listener = socket.create_server(("127.0.0.1", 0))
            client = socket.create_connection(listener.getsockname())
            server = listener.accept()[0]
            client.sendall(b"PUT\\nkey=value\\nrest")
            with server.makefile("rb") as reading, server.makefile("wb") as writing:
                method = reading.readline()
                key, value = reading.readline().strip().split(b"=")
                writing.write(b"got ")
                writing.write(value)
                writing.flush()
                writing.write(b"plain")
                writing.flush()
            with open("out", "wb") as file:
                file.write(key)
    """)
    assert flows(outcome) == {"net.send accepted": ["accepted 8-13"], "file.write out": ["accepted 4-7"]}


def test_databases(labelling: FakeTool) -> None:
    outcome = run(labelling, """
        import sqlite3

        def main():
            with open("in", "rb") as file:
                key, value = file.read(9).decode().split("=")
            database = sqlite3.connect("db")
            database.execute("create table t (k, v)")
            database.execute("insert into t values (?, ?)", (value, 5))
            row = database.execute("select v, k from t").fetchone()
            database.commit()
            with open("out", "w") as file:
                file.write(row[1])
    """)
    found = flows(outcome)
    assert found["db.write INSERT t db"] == ["in 4-9"]
    assert found["file.write out"] == ["FETCH t db 1-6"]


def test_small_numbers(labelling: FakeTool, agent_kind: str) -> None:
    """An epoch of 5 is not confused with another 5. Without the accelerator, it has no label."""
    (labelling.data / "epoch").write_text("5")
    outcome = run(labelling, """
        def main():
            with open("epoch") as file:
                epoch = int(file.read())
            for name, number in (("next", epoch + 1), ("other", 6), ("same", epoch), ("constant", 5)):
                with open(name, "w") as file:
                    file.write("%d\\n" % number)
    """)
    labelled = {"file.write next": ["epoch 0-1"], "file.write same": ["epoch 0-1"]}
    assert flows(outcome) == (labelled if agent_kind == "fast" else {})


def test_a_child_has_the_labels_of_its_parent(labelling: FakeTool) -> None:
    outcome = run(labelling, """
        import os

        def main():
            with open("in", "rb") as file:
                data = file.read()
            child = os.fork()
            if not child:
                fd = os.open("out", os.O_WRONLY | os.O_CREAT)
                os.write(fd, data[4:9])
                os._exit(0)
            os.waitpid(child, 0)
    """)
    (read,) = (event for event in outcome.of("file.read") if event.result)
    (label,) = outcome.of(LABELS)
    assert (label.pid == read.pid, label.resource) == (False, f"{read.pid}_{read.seq}:4-9")


def test_a_buffer_can_grow_after_a_view_of_it_is_gone(labelling: FakeTool) -> None:
    outcome = run(labelling, """
        def main():
            with open("in", "rb") as file:
                buffer = bytearray(file.read())
            part = bytes(memoryview(buffer)[4:9])
            del buffer[:4]
            buffer += b"more"
            with open("out", "wb") as file:
                file.write(part + buffer[:5])
    """)
    assert flows(outcome) == {"file.write out": ["in 4-9"]}


PROGRAM = """
    import json, os

    def put(name, value):
        with open(name + ".tmp", "w") as file:
            file.write(json.dumps({"value": value, "n": len(value)}))
        os.rename(name + ".tmp", name)

    def main():
        with open("in") as file:
            for line in file:
                key, _, value = line.strip().partition("=")
                put(key, value)
        print(open("key").read(), open("second").read())
"""


def test_other_events_are_the_same_with_labels(make_tool: object) -> None:
    seen = []
    for labels in (False, True):
        tool: FakeTool = make_tool()  # type: ignore[operator]
        (tool.data / "in").write_bytes(TWO_LINES)
        tool.more_config.update({"labels": True} if labels else {})
        outcome = run(tool, PROGRAM)
        events = [(e.op, e.target, e.loc, e.line, e.stack, e.size, e.result) for e in outcome.trace if e.op != LABELS]
        seen.append((outcome.out, events))
        assert bool(outcome.of(LABELS)) == labels
    assert seen[0] == seen[1]


def test_without_the_key_no_code_of_labels_is_loaded(tool: FakeTool) -> None:
    outcome = tool.run("import sys; print([name for name in sys.modules if 'agent.labels' in name])").ok()
    assert outcome.out.strip() == "[]"


def test_functions_with_hooks_run_in_a_process_that_records_no_labels(tool: FakeTool) -> None:
    tool.more_config["labels"] = False
    outcome = tool.run("print(__undermine_labels__['+', 1, 2], __undermine_labels__['.', 'join', ','].join('ab'))").ok()
    assert outcome.out.split() == ["3", "a,b"]


def test_accesses_to_the_heap_come_first(labelling: FakeTool) -> None:
    labelling.more_config["heap"] = True
    outcome = run(labelling, PROGRAM)
    assert outcome.of(LABELS) == []
    assert any(gap.startswith("labels:") for agent in outcome.trace.agents for gap in agent.gaps)


def test_the_agent_has_no_trouble(labelling: FakeTool) -> None:
    run(labelling, PROGRAM)
    assert not list(Path(labelling.trace_dir).glob("*.agent-error"))


def test_keys_and_values_of_a_store(labelling: FakeTool, redis_port: int) -> None:
    labelling.more_config["adapters"] = [{"adapter": "redis"}]
    outcome = run(labelling, f"""
        import redis

        class Jobs:
            def __init__(self, client):
                self.client = client
                with open("in", "rb") as file:
                    self.client.unused = file.read()
                    self.key, self.value = self.client.unused[:9].split(b"=")

        def main():
            jobs = Jobs(redis.Redis(port={redis_port}))
            jobs.client.set(b"k:" + jobs.key, jobs.value)
            value = jobs.client.get("k:key")
            jobs.client.rpush("list", value[:2])
            jobs.client.delete("plain")
    """)
    found = {target: texts for target, texts in flows(outcome).items() if target.startswith("db.")}
    assert [texts for target, texts in found.items() if "SET" in target] == [["in 0-3", "in 4-9"]]
    (pushed,) = (texts for target, texts in found.items() if "RPUSH" in target)
    assert any(text.startswith("GET") and text.endswith(" 0-2") for text in pushed), pushed
    assert not [target for target in found if "DEL" in target]
