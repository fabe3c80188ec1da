"""Accesses to the heap: which ones are recorded, how often, and by which names."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
from fake_tool import AGENT_DIR, FakeTool, Outcome

from undermine.agent_protocol import FAMILIES

STATE = """
    import enum, queue, threading, time

    class Mode(enum.Enum):
        ON = 1

    class Job:
        def __init__(self, text):
            self.text = text
            self.state = "new"

    class Master:
        def __init__(self):
            self.jobs = {}
            self.done = []
            self.busy = set()
            self.mode = None
            self.turn = 0
            self.helper = Helper(self)

        def touch(self):
            return self.mode

    class Helper:
        def __init__(self, master):
            self.master = master
            self.asked = 0

        def ask(self):
            self.asked += 1
            return len(self.master.jobs)

    TABLE, LAST = {}, None

    def remember(value):
        global LAST
        LAST = value
        TABLE["last"] = LAST

    def serve(handle, *messages):
        '''Another thread handles the messages, one after the other.'''
        items = queue.Queue()

        def loop():
            while True:
                message = items.get()
                if message is None:
                    return
                handle(message)

        thread = threading.Thread(target=loop, name="server")
        thread.start()
        for message in (*messages, None):
            items.put(message)
        thread.join()
"""

TOUCHES = textwrap.dedent(STATE) + "def main():\n    master = Master()\n    serve(lambda _: master.touch(), 1)\n"


@pytest.fixture
def run(tool: FakeTool) -> Any:
    """Runs a program with `app.py` as the target's package, and returns its accesses."""

    def go(program: str, **config: Any) -> Outcome:
        folder = tool.folder / "program"
        folder.mkdir()
        body = textwrap.dedent(STATE) + textwrap.dedent(program)
        (folder / "app.py").write_text(body)
        tool.packages = ["app"]
        tool.more_config = {"heap": True, **config}
        return tool.run("import app; app.main()", python_path=str(folder)).ok()

    return go


def told(outcome: Outcome, *words: str) -> list[str]:
    """The accesses in short, of the resources with one of these words."""
    signs = {0: "", 1: " added", 2: " removed"}
    return [
        f"{event.op[5:]} {event.resource}{' = ' + event.content if event.content else ''}{signs[event.result]}"
        for event in outcome.of("heap.read", "heap.write")
        if not words or any(word in event.resource for word in words)
    ]


def test_items_and_attributes_have_the_path_from_their_owner(run: Any) -> None:
    outcome = run("""
        def main():
            master = Master()
            serve(lambda message: handle(master, message), "j1", "j1")

        def handle(master, name):
            if name not in master.jobs:
                master.jobs[name] = Job(name)
            job = master.jobs[name]
            job.state = job.state + "!"
            master.mode = Mode.ON
            master.turn += 1
            master.done.append(name)
            master.busy.add(name)
            master.busy.discard(name)
            master.jobs.get("none")
            del master.jobs[name].text
    """)
    name = "app:Master@main#1"
    both = [
        f"read {name}.jobs",
        f"write {name}.mode = ON",
        f"write {name}.turn",
        f"write {name}.done[*] added",
        f"write {name}.busy['j1'] added",
        f"write {name}.busy['j1'] removed",
        f"read {name}.jobs['none']",
        f"write {name}.jobs['j1'].text removed",
    ]
    found = told(outcome)
    assert [found.count(line) for line in both] == [5, 2, 2, 2, 2, 2, 2, 2], "a way that nobody changes is recorded once"
    assert told(outcome, "['j1']")[:4] == [
        f"read {name}.jobs['j1'] = False",
        f"write {name}.jobs['j1'] added",
        f"read {name}.jobs['j1']",
        f"read {name}.jobs['j1'].state = new",
    ]
    assert f"write {name}.jobs['j1'].state = new!!" in found
    assert {event.thread for event in outcome.of("heap.read", "heap.write")} == {"server"}
    assert {event.target for event in outcome.of("heap.write") if "mode" in event.resource} == {"app:Master@main#<n>.mode"}


def test_only_handlers_are_recorded_and_only_if_asked(run: Any) -> None:
    program = """
        def main():
            master = Master()
            for _ in range(3):
                master.turn += 1
                master.helper.ask()
            serve(lambda message: None, "m")
    """
    assert told(run(program), "Master") == []


def test_nothing_is_recorded_without_the_switch(tool: FakeTool) -> None:
    (tool.folder / "app.py").write_text(TOUCHES)
    tool.packages = ["app"]
    program = "import app, builtins; app.main(); print(any('undermine' in name for name in dir(builtins)))"
    outcome = tool.run(program, python_path=str(tool.folder)).ok()
    assert outcome.of("heap.read", "heap.write") == []
    assert outcome.out == "False\n"


def test_one_access_is_recorded_once_for_each_handler(run: Any) -> None:
    found = run("""
        def main():
            master = Master()
            serve(lambda message: [master.touch() for _ in range(100)], *range(5))
    """)
    assert told(found, ".mode") == ["read app:Master@main#1.mode = None"] * 5


def test_the_way_to_an_object_is_recorded_once_until_a_handler_changes_it(run: Any) -> None:
    found = run("""
        def main():
            master = Master()
            serve(lambda message: handle(master, message), 1, 2, "change", 3)

        def handle(master, message):
            master.jobs.get(message)
            if message == "change":
                master.jobs = {}
    """)
    assert told(found, ".jobs") == [
        "read app:Master@main#1.jobs",
        "read app:Master@main#1.jobs[1]",
        "read app:Master@main#1.jobs[2]",
        "read app:Master@main#1.jobs['change']",
        "write app:Master@main#1.jobs",
        "read app:Master@main#1.jobs",
        "read app:Master@main#1.jobs[3]",
    ]


def test_values_of_a_class_are_recorded_if_functions_store_them(run: Any) -> None:
    found = run("""
        class Config:
            limit, turns = 5, 0

            @property
            def computed(self):
                return self.limit

        config = Config()

        def main():
            serve(handle, 1)

        def handle(message):
            config.limit, Config.limit, config.computed, Config.turns
            Config.turns = 1
            Config.turns
            config.limit = 6
            config.limit
    """)
    assert told(found) == [
        "write app:Config.turns = 1",
        "read app:Config.turns = 1",
        "write app:config.limit = 6",
        "read app:config.limit = 6",
    ]


def test_an_object_takes_the_path_of_its_first_owner(run: Any) -> None:
    """`Helper` is created before it is stored, and stores its owner: names have no circle."""
    found = told(run("""
        def main():
            master = Master()
            helper = master.helper
            serve(lambda message: helper.ask(), "m")
    """))
    assert found == [
        "read app:Master@main#1.helper.asked = 0",
        "write app:Master@main#1.helper.asked",
        "read app:Master@main#1.helper.master",
        "read app:Master@main#1.jobs",
        "read app:Master@main#1.jobs[*] = 0",
    ]


def test_an_object_in_a_container_of_its_own_keeps_its_name(run: Any) -> None:
    found = told(run("""
        def main():
            master = Master()
            master.jobs["self"] = master
            serve(lambda message: master.touch(), 1)
    """))
    assert found == ["read app:Master@main#1.mode = None"]


def test_objects_of_one_handler_have_no_name_until_another_one_touches_them(run: Any) -> None:
    found = told(run("""
        def main():
            kept = []
            serve(lambda message: handle(kept), 1, 2)

        def handle(kept):
            if not kept:
                kept.append(Job("x"))
            Job("lost").state
            kept[0].state
    """))
    assert found == ["read app:Job@handle#1.state = new"]


def test_an_element_without_a_key_keeps_its_own_name_until_it_is_stored_under_a_key(run: Any) -> None:
    found = told(run("""
        def main():
            master = Master()
            serve(lambda message: handle(master, message), "a", "b", "store", "a")

        def handle(master, message):
            if message == "store":
                master.jobs["a"] = master.done[0]
            elif len(master.done) < 2:
                master.done.append(Job(message))
            for job in master.done:
                job.state
    """), "state")
    new = "app:Job@handle"
    assert found == [f"read {new}#1.state = new"] * 2 + [f"read {new}#2.state = new"] + [
        "read app:Master@main#1.jobs['a'].state = new",
        f"read {new}#2.state = new",
    ] * 2


def test_globals_that_functions_assign(run: Any) -> None:
    found = told(run("""
        def main():
            serve(lambda message: (remember(message), LAST), 7)
    """))
    read, write = "read app:LAST = 7", "write app:LAST = 7"
    assert found == [write, read, "write app:TABLE['last'] = 7 added", read]


def test_a_thread_that_polls_counts_as_a_handler(run: Any) -> None:
    outcome = run("""
        def main():
            master, ready = Master(), threading.Event()
            waiter = threading.Thread(target=wait, args=(master, ready), name="waiter")
            waiter.start()
            ready.wait()
            master.mode = Mode.ON
            waiter.join()

        def wait(master, ready):
            for _ in range(5):
                time.sleep(0.001)
                master.touch()
            ready.set()
            while master.mode is None:
                time.sleep(0.001)
    """)
    polled = [e for e in outcome.of("heap.read") if e.thread == "waiter" and e.resource == "app:Master@main#1.mode"]
    shown = [(event.loc.partition("#")[0], event.content) for event in polled]
    assert list(dict.fromkeys(shown)) == [("app:Master.touch", "None"), ("app:wait", "None"), ("app:wait", "ON")]
    # A write is noted just before it happens. A read in between has the old value, and counts as one after the write.
    assert shown.count(("app:wait", "None")) <= 2


def test_each_wait_of_a_polling_thread_shows_the_write_that_ends_it(run: Any) -> None:
    outcome = run("""
        def main():
            master, turns = Master(), [threading.Event() for _ in range(3)]
            waiter = threading.Thread(target=wait, args=(master, turns), name="waiter")
            waiter.start()
            for turn in turns:
                turn.wait()
                turn.clear()
                master.mode = True
            waiter.join()

        def wait(master, turns):
            for turn in turns:
                master.mode = None
                turn.set()
                while not master.mode:
                    time.sleep(0.001)
    """)
    seen = [event.content for event in outcome.of("heap.read") if event.thread == "waiter" and event.content == "True"]
    assert seen == ["True"] * 3


def test_values_that_are_iterated_over_have_names(run: Any) -> None:
    found = told(run("""
        def main():
            master = Master()
            master.jobs = {"a": {"state": 1}, "b": {"state": 2}}
            serve(lambda message: [task["state"] for task in master.jobs.values()], 1)
    """), "state")
    assert found == ["read app:Master@main#1.jobs['a']['state'] = 1", "read app:Master@main#1.jobs['b']['state'] = 2"]


def test_a_container_has_its_name_after_an_await_if_it_is_still_there(run: Any) -> None:
    found = told(run("""
        import asyncio

        def main():
            master = Master()
            master.jobs = {"a": {"state": 1}, "b": {"state": 2}}
            asyncio.run(handle(master))

        async def handle(master):
            kept, removed = master.jobs["a"], master.jobs["b"]
            await asyncio.sleep(0)
            del master.jobs["b"]
            await asyncio.sleep(0)
            kept["state"] = removed["state"]
    """), "state")
    assert found == ["write app:Master@main#1.jobs['a']['state'] = 2"]


def test_keys_that_could_run_code_of_the_target_are_not_looked_up(run: Any) -> None:
    outcome = run("""
        class Key:
            def __hash__(self):
                calls.append("hash")
                return 1

        calls = []

        def main():
            master, key = Master(), Key()
            def handle(message):
                master.jobs[key] = 1
                master.jobs[key]
                key in master.jobs
            serve(handle, 1)
            print(len(calls))
    """)
    assert outcome.out == "3\n"
    assert told(outcome, "<Key>") == [
        "write app:Master@main#1.jobs[<Key>] = 1",
        "read app:Master@main#1.jobs[<Key>]",
        "read app:Master@main#1.jobs[<Key>]",
    ]


def test_at_the_limit_the_trace_says_that_accesses_are_missing(run: Any) -> None:
    outcome = run("""
        def main():
            import undermine_agent
            undermine_agent._loaded[0].heap.left = 3
            master = Master()
            serve(lambda message: master.touch(), *range(20))
    """)
    assert len(told(outcome)) == 3
    (agent,) = outcome.trace.agents
    assert agent.gaps[-1] == "accesses to the heap after the first 200,000 of the process"


def test_a_child_counts_for_itself(run: Any) -> None:
    outcome = run("""
        import os

        def main():
            import undermine_agent
            undermine_agent._loaded[0].heap.left = 1
            master = Master()
            serve(lambda message: master.touch(), 1)
            child = os.fork()
            if child:
                os.waitpid(child, 0)
                return
            serve(lambda message: master.touch(), 1, 2)
            os._exit(0)
    """)
    assert told(outcome, ".mode") == ["read app:Master@main#1.mode = None"] * 3
    assert sorted(len([gap for gap in agent.gaps if "heap" in gap]) for agent in outcome.trace.agents) == [0, 1]


def test_call_sites_and_lines_are_those_of_the_plain_program(tool: FakeTool, make_tool: Any) -> None:
    program = textwrap.dedent(STATE) + textwrap.dedent("""
        import traceback

        def main():
            master = Master()
            serve(lambda message: handle(master, message), "a", "b")

        def handle(master, name):
            with open(master.jobs.setdefault(name,
                                             name), "w") as master.file:
                master.file.write(master.jobs[
                    name])
            try:
                master.helper.master.jobs["x"]["y"]
            except KeyError:
                traceback.print_exc()
            threading.Thread(target=lambda: master.file.closed, name=master.jobs[name]).start()
    """)
    seen = []
    for each, heap in ((tool, False), (make_tool(), True)):
        (each.folder / "app.py").write_text(program)
        each.packages = ["app"]
        each.more_config = {"heap": True} if heap else {}
        outcome = each.run("import app; app.main()", python_path=str(each.folder)).ok()
        events = [(e.op, e.stack, e.line, e.thread) for e in outcome.trace if e.kind != "heap" and e.op != "lock.acquire"]
        seen.append((sorted(events), outcome.err.replace(str(each.folder), "")))
        assert bool(outcome.of("heap.read")) == heap
    plain, hooked = seen
    assert plain[1].count("Traceback") == 2
    assert hooked[1] == plain[1]
    assert hooked[0] == plain[0]


def test_a_module_that_cannot_be_compiled_fails_as_usual(tool: FakeTool) -> None:
    (tool.folder / "app.py").write_text("def f(:\n")
    tool.packages, tool.more_config = ["app"], {"heap": True}
    program = "import traceback\ntry:\n    import app\nexcept SyntaxError:\n    print(traceback.format_exc())"
    outcome = tool.run(program, python_path=str(tool.folder)).ok()
    assert "undermine_agent" not in outcome.out
    assert "def f(:" in outcome.out


def test_rewritten_code_is_kept_for_later_processes(tool: FakeTool, tmp_path: Path, agent_kind: str) -> None:
    if agent_kind == "pure":
        pytest.skip("without the folder of accelerators there is none for code")
    kept = tmp_path / "kept"
    kept.mkdir()
    for file in Path(tool.accelerators).iterdir():
        if file.suffix == ".so":
            (kept / file.name).symlink_to(file)
    (tool.folder / "app.py").write_text(TOUCHES)
    tool.packages, tool.more_config = ["app"], {"heap": True, "accelerator": str(kept)}
    for count in (1, 2):
        outcome = tool.run("import app; app.main()", python_path=str(tool.folder)).ok()
        assert len(told(outcome, ".mode")) == count
        (code,) = kept.glob("heap-*")
    code.write_bytes(b"damaged")
    assert len(told(tool.run("import app; app.main()", python_path=str(tool.folder)).ok(), ".mode")) == 3


def test_functions_with_hooks_run_in_a_process_that_records_nothing(tool: FakeTool) -> None:
    """A pickled function brings its code."""
    (tool.folder / "app.py").write_text(textwrap.dedent(STATE))
    tool.packages, tool.more_config = ["app"], {"heap": False}
    program = """
        from undermine_agent.heap.rewriting import rewritten
        names = {}
        exec(rewritten(b"def f(x):\\n    x.a = x.b[0]\\n    return x.a", "sent")[0], names)
        class X:
            b = [5]
        print(names["f"](X()))
    """
    outcome = tool.run(program).ok()
    assert outcome.out == "5\n"
    assert outcome.of("heap.read", "heap.write") == []


def test_the_accelerator_has_the_same_numbers() -> None:
    heap = AGENT_DIR / "undermine_agent" / "heap" / "rewriting.py"
    names: dict[str, Any] = {}
    lines = heap.read_text()
    start = lines.index("(\n    READ,")
    exec(lines[start : lines.index('"""Flags')], names)
    header = (AGENT_DIR / "undermine_agent" / "accelerator" / "heap.h").read_text()
    for name in ("FIRST", "STORES", "KINDS"):
        assert re.search(rf"#define {name} +{names[name]}\b", header), name
    pairs = ("PUSH", "KEY", "STORE_ITEM", "STORE_KEY", "VALUE", "DELETE_KEY", "CHANGE_KEY", "METHOD_KEY", "IN_PUSHED")
    assert [int(number) for number in re.findall(r"case (\d+):", header)] == [names[name] for name in pairs]


def test_the_family_is_only_observed_if_asked_for() -> None:
    assert FAMILIES["heap"].asked
    assert not FAMILIES["heap"].always


def test_objects_that_python_destroys_last_can_still_be_used(run: Any) -> None:
    """Python removes what others added to its builtins before it destroys what `sys` refers to."""
    outcome = run("""
        import os, sys

        class Last:
            def __init__(self, say=os.write):
                self.name = "last"
                self.say = say

            def __del__(self):
                self.say(1, b"gone " + self.name.encode())

        def main():
            sys.kept = Last()
    """)
    assert "gone last" in outcome.out, outcome.err
