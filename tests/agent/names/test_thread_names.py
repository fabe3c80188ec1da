"""The names of threads in events: no two living threads have the same one."""

from __future__ import annotations

import importlib
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

AGENT_DIR = Path(__file__).resolve().parents[3] / "agents" / "python"


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(AGENT_DIR))
    return importlib.import_module("undermine_agent.names.thread_names").ThreadNames()


def test_a_name_that_a_living_thread_has_gets_a_number(names: Any) -> None:
    assert [names.take(ident, "serve") for ident in (1, 2, 3)] == ["serve", "serve#2", "serve#3"]
    assert names.take(4, "other") == "other"
    assert [names.get(ident) for ident in (2, 4, 5)] == ["serve#2", "other", None]


def test_the_name_of_an_ended_thread_is_free_again(names: Any) -> None:
    for ident in (1, 2, 3, 4):
        names.take(ident, "serve")
    for ident in (3, 2, 1, 9):
        names.give_back(ident)
    assert names.get(1) is None
    assert [names.take(ident, "serve") for ident in (5, 6, 7, 8)] == ["serve", "serve#2", "serve#3", "serve#5"]


def test_a_reused_ident_gets_a_new_name(names: Any) -> None:
    """The end of the first thread was not seen."""
    assert names.take(1, "serve") == names.take(1, "serve") == "serve"
    assert names.take(1, "other") == "other"
    assert names.take(2, "serve") == "serve"


def test_a_name_that_looks_numbered_stays_unique(names: Any) -> None:
    assert [names.take(1, "a#2"), names.take(2, "a"), names.take(3, "a"), names.take(4, "a#2")] == ["a#2", "a", "a#3", "a#2#2"]


def test_nothing_is_kept_of_threads_that_have_ended(names: Any) -> None:
    for number in range(50):
        for ident in (1, 2, 3):
            names.take(ident, f"worker-{number}")
        for ident in (1, 2, 3) if number % 2 else (3, 2, 1):
            names.give_back(ident)
    assert (names.by_ident, names.holders, names.free) == ({}, {}, {})


def test_a_child_knows_only_the_thread_that_forked(names: Any) -> None:
    for ident in (1, 2, 3):
        names.take(ident, "serve")
    names.after_fork(2)
    assert [names.get(ident) for ident in (1, 2, 3)] == [None, "serve#2", None]
    assert [names.take(ident, "serve") for ident in (4, 5)] == ["serve", "serve#3"]


def test_threads_that_start_together_have_different_names(names: Any) -> None:
    called: list[str] = []
    start = threading.Barrier(8)

    def take(first: int) -> None:
        start.wait()
        called.extend([names.take(ident, "serve") for ident in range(first, first + 200)])

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=take, args=(1000 * number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert len(called) == len(set(called)) == 1600


def test_events_have_the_names_of_their_threads(tool: Any, any_python: str) -> None:
    """Threads one after the other, at the same time, renamed, and in a child. Points don't depend on the numbers."""
    tool.python = any_python
    outcome = tool.run(
        """
        import os, threading
        def work(number, end=None):
            threading.current_thread().name = "renamed"
            open("file-%d" % number, "w").close()
            if end is not None:
                end.wait()
        def run(*args):
            thread = threading.Thread(target=work, args=args, name="worker")
            thread.start()
            return thread
        run(1).join()
        run(2).join()
        end = threading.Barrier(3)
        both = [run(3, end), run(4, end)]
        end.wait()
        for thread in both:
            thread.join()
        def fork():
            child = os.fork()
            if child:
                os.waitpid(child, 0)
                return
            open("file-5", "w").close()
            run(6).join()
            os._exit(0)
        thread = threading.Thread(target=fork, name="forker")
        thread.start()
        thread.join()
        """
    ).ok()
    called = {int(e.resource.rpartition("-")[2]): e.thread for e in outcome.of("file.create")}
    assert (called[1], called[2], called[5], called[6]) == ("worker", "worker", "forker", "worker")
    assert {called[3], called[4]} == {"worker", "worker#2"}
    creates = [e for e in outcome.of("file.create") if e.target == "file-<n>" and "work" in e.loc]
    assert len({(e.op, e.loc, e.target, e.stack) for e in creates}) == 1
