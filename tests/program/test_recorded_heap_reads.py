"""Reads of the heap that the agent records are found in the source: a program is run under the agent."""

from __future__ import annotations

import textwrap
from pathlib import Path

from fake_tool import FakeTool

from undermine.model.event import Event
from undermine.program import Program
from undermine.program.dependence import Dependence, Unknown, Why

PROGRAM = """
    import queue, threading

    class Job:
        def __init__(self, text):
            self.text, self.state = text, "new"

    class Master:
        def __init__(self):
            self.jobs, self.done, self.mode, self.turn = {}, [], None, 0

        def find(self, name):
            if name not in self.jobs:
                raise KeyError(name)
            return self.jobs[name]

        def accept(self, name):
            job = self.find(str(name))
            if job.state == "new" and self.mode is None:
                self.done.append(job.text)
            if self.jobs.get(str(name)) and len(self.done) > 5:
                return None
            self.turn += 1
            return self.turn

    def main():
        master, items = Master(), queue.Queue()
        master.jobs["j1"] = Job("a")

        def serve():
            while (name := items.get()) is not None:
                master.accept(name)

        thread = threading.Thread(target=serve)
        thread.start()
        items.put("j1")
        items.put(None)
        thread.join()
"""


def recorded(folder: Path) -> tuple[Dependence, list[Event]]:
    source = folder / "program"
    source.mkdir()
    (source / "app.py").write_text(textwrap.dedent(PROGRAM))
    tool = FakeTool(folder)
    tool.packages = ["app"]
    tool.more_config = {"heap": True}
    outcome = tool.run("import app; app.main()", python_path=str(source)).ok()
    return Dependence(Program.read([source])), outcome.of("heap.read")


def test_recorded_reads_are_found_in_the_source(tmp_path: Path) -> None:
    dependence, events = recorded(tmp_path)
    assert {event.resource.rpartition("#1")[2] for event in events} >= {
        ".jobs",
        ".jobs['j1']",
        ".jobs['j1'].state",
        ".jobs['j1'].text",
        ".mode",
        ".done[*]",
        ".turn",
    }
    answers = {event.resource: dependence.impact(event.stack, event.resource) for event in events}
    assert not {place: found for place, found in answers.items() if isinstance(found, Unknown)}

    def controls(first: str, second: str) -> bool:
        one, other = (next(each for each in events if each.resource.endswith(place)) for place in (first, second))
        return isinstance(dependence.controls(one.stack, other.stack, one.resource, other.resource), Why)

    assert controls(".jobs['j1']", ".state"), "find raises if there is no such job"
    assert controls(".state", ".text")
    assert controls(".mode", ".text")
    assert controls(".text", ".turn"), "the length of the list with the texts decides"
    assert not controls(".state", ".done[*]")
    assert controls(".done[*]", ".turn")
    assert not controls(".turn", ".state")
