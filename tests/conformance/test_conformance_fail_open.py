"""Whatever is wrong with the agent or the tool, the program continues as if neither existed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from conformance_bench import Bench, at, run_together, step

from undermine.inject.controller import Controller
from undermine.model.faults import Crash, Error

LINES = ("mkdir d", "create f d/x", "write f hello", "close f", "stat d/x")
ANSWERS = ["ok", "ok", "ok 5", "ok", "ok 5"]


def test_a_refused_handshake_does_not_affect_the_program(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = {"type": "refused", "why": "not today"}
    monkeypatch.setattr(Controller, "hello", lambda self, hello: refusal)
    bench.plan(step(Crash(), at("file.write")))
    answers, outcome = bench.run(*LINES)
    assert answers == ANSWERS
    assert outcome.code == 0
    assert outcome.receipts == ()
    assert [event.error for event in outcome.of("file.write")] in ([], [""])  # the agent may stop observing or continue


def test_a_missing_tool_does_not_affect_the_program(bench: Bench) -> None:
    bench.plan(step(Crash(), at("file.write")))
    bench.hang_up()
    answers, outcome = bench.run(*LINES)
    assert answers == ANSWERS
    assert outcome.code == 0
    assert outcome.receipts == ()


def test_a_tool_that_dies_does_not_affect_the_program(bench: Bench) -> None:
    bench.plan(step(Crash(), at("file.write")))
    with bench.start() as target:
        assert target.do("mkdir d") == "ok"
        bench.hang_up()
        assert target.all(*LINES[1:]) == ANSWERS[1:]
    outcome = bench.outcome()
    assert outcome.code == 0
    assert outcome.receipts == ()
    assert [event.error for event in outcome.of("file.write")] == [""]


def test_a_tool_that_answers_nonsense_does_not_affect_the_program(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Controller, "claim", lambda self, claim: ([1, 2], []))
    bench.plan(step(Error("EIO"), at("file.write")))
    answers, outcome = bench.run(*LINES)
    assert answers == ANSWERS
    assert outcome.code == 0


def _no_file(bench: Bench) -> None:
    bench.environment["UNDERMINE_AGENT"] = str(bench.folder / "nowhere")


def _no_json(bench: Bench) -> None:
    path = bench.folder / "bad.json"
    path.write_text("{")
    bench.environment["UNDERMINE_AGENT"] = str(path)


def _nothing(bench: Bench) -> None:
    bench.environment["UNDERMINE_AGENT"] = ""


def _other_version(bench: Bench) -> None:
    bench.version = 99


def _no_folder(bench: Bench) -> None:
    bench.more["trace_dir"] = str(bench.folder / "missing" / "trace")


def _no_state(bench: Bench) -> None:
    bench.more["state"] = str(bench.folder / "missing")


def _wrong_types(bench: Bench) -> None:
    bench.more |= {"steps": {"step": "x"}, "paths": 7, "addresses": []}


SPOILED = (_no_file, _no_json, _nothing, _other_version, _no_folder, _no_state, _wrong_types)


def test_an_unusable_configuration_does_not_affect_the_program(make_bench: Callable[[], Bench]) -> None:
    benches = {spoil.__name__: make_bench() for spoil in SPOILED}
    for spoil in SPOILED:
        benches[spoil.__name__].plan(step(Crash(), at("file.write")))
        spoil(benches[spoil.__name__])
    answers = run_together(list(benches.values()), *LINES)
    assert dict(zip(benches, answers, strict=True)) == dict.fromkeys(benches, ANSWERS)
    assert {name: bench.code for name, bench in benches.items()} == dict.fromkeys(benches, 0)
    assert [receipt for bench in benches.values() for receipt in bench.outcome().receipts] == []


def test_an_unwritable_trace_does_not_affect_the_program(bench: Bench) -> None:
    with bench.start() as target:
        assert target.do("mkdir d") == "ok"
        for path in bench.trace_dir.iterdir():
            path.unlink()
        bench.trace_dir.rmdir()
        assert target.all(*LINES[1:]) == ANSWERS[1:]
        assert target.do("@another stat d/x") == "ok 5"
    assert bench.code == 0
