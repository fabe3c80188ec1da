"""Steps fire at the nth occurrence, one after the other, and at unseen points, and at no other time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from conformance_bench import Bench, Target, at, run_together, step

from undermine.model.faults import Error, Hold
from undermine.model.plan import FirstUnseen, Step, Then
from undermine.model.point import KEYS, Point, point_of

FAIL = Error("EIO")
MAKE = tuple(f"mkdir d{number}" for number in range(6))


def failures(answers: list[str]) -> list[int]:
    return [index for index, answer in enumerate(answers) if answer == "error EIO"]


def test_a_later_step_counts_from_where_the_earlier_one_fired(bench: Bench) -> None:
    bench.plan(step(FAIL, at("file.mkdir", "d<n>", nth=2)), step(FAIL, at("file.mkdir", nth=3)))
    answers, outcome = bench.run(*MAKE)
    assert failures(answers) == [1, 4]
    assert [receipt.step for receipt in outcome.ok().receipts] == [0, 1]


def test_a_second_half_counts_after_the_first(bench: Bench) -> None:
    bench.plan(step(FAIL, Then(at("file.stat", place="after"), at("file.mkdir", nth=2))))
    answers, _ = bench.run("mkdir a", "mkdir b", "stat a", "mkdir c", "mkdir d", "mkdir e")
    assert failures(answers) == [4]
    assert bench.state_byte(65) == 1


def test_one_occurrence_is_never_both_halves(bench: Bench) -> None:
    bench.plan(step(FAIL, Then(at("file.mkdir"), at("file.mkdir"))))
    assert failures(bench.run("mkdir a", "mkdir b", "mkdir c")[0]) == [1]


def test_an_until_counts_after_its_step_has_fired(bench: Bench) -> None:
    end = Then(at("file.stat"), at("file.mkdir", nth=2))
    bench.plan(step(Error("EIO", "disk"), at("file.unlink"), until=end))
    (bench.data / "x").touch()
    answers, _ = bench.run(
        "stat x", "mkdir a", "mkdir b", "unlink x", "mkdir c", "stat x", "mkdir c", "mkdir d", "mkdir e"
    )
    # The operation that ends the fault claims the end before it runs, so it succeeds itself.
    assert failures(answers) == [3, 4, 6]
    assert bench.state_byte(64) == 3
    assert bench.actions.asked == ["end"]


def test_every_key_of_a_point_is_compared(make_bench: Callable[[], Bench]) -> None:
    lines = ("create f x", "deep write f a")
    _, outcome = make_bench().run(*lines)
    exact = point_of(outcome.of("file.write")[0]).as_dict()
    wrong = {key: {**exact, key: "different"} for key in KEYS}
    benches = {key: make_bench() for key in ("", *KEYS)}
    for key, bench in benches.items():
        bench.plan(step(FAIL, at(**wrong.get(key, exact))))
    answers = run_together(list(benches.values()), *lines)
    failed = {key: failures(said) for key, said in zip(benches, answers, strict=True)}
    assert failed == {"": [1]} | {key: [] for key in KEYS}


def test_a_step_fires_at_the_first_unseen_point(make_bench: Callable[[], Bench]) -> None:
    lines = ("mkdir a", "mkdir b", "deep mkdir a", "mkdir c")
    _, outcome = make_bench().run(*lines, way="other")
    points = [point_of(event) for event in outcome.of("file.mkdir")]
    assert len(points) == 4
    benches = {keys: make_bench() for keys in (("target",), ("loc", "stack"), KEYS)}
    for keys, bench in benches.items():
        bench.plan(step(FAIL, FirstUnseen(keys, tuple(points[:2]), Point.of({"op": "file.mkdir"}))))
    answers = run_together(list(benches.values()), *lines, way="other")
    first = {keys: failures(said)[:1] for keys, said in zip(benches, answers, strict=True)}
    assert first == {("target",): [3], ("loc", "stack"): [2], KEYS: [2]}


def test_steps_do_nothing_before_they_are_armed_or_after_healing(bench: Bench) -> None:
    bench.plan(step(FAIL, at("file.unlink")), step(FAIL, at("file.mkdir")))
    with bench.start() as target:
        assert target.do("mkdir a") == "ok"
        bench.heal()
        (bench.data / "x").touch()
        assert target.all("unlink x", "mkdir b") == ["ok", "ok"]
    assert bench.outcome().ok().receipts == ()


def test_a_hold_is_claimed_where_the_fault_would_be(bench: Bench) -> None:
    bench.plan(step(Hold("error"), at("file.mkdir", nth=2, place="after"), until=at("file.mkdir", nth=2)))
    answers, outcome = bench.run(*MAKE)
    assert set(answers) == {"ok"}
    second = outcome.ok().of("file.mkdir")[1]
    (moment,) = bench.controller.moments()
    assert (moment.seq, moment.point) == (second.seq, point_of(second))
    assert moment.t_ns >= second.end_ns > 0
    assert bench.state_byte(64) == 3
    assert bench.actions.asked == ["note", "end"]


# --- bound to a process or a node


@contextlib.contextmanager
def three_drivers(bench: Bench) -> Iterator[tuple[Target, Target, Target]]:
    """Two processes of s1 and one of s2. Each has loaded its agent before the next one starts."""
    with contextlib.ExitStack() as stack:
        targets = []
        for node in ("s1", "s1", "s2"):
            bench.more["node"] = node
            targets.append(stack.enter_context(bench.start()))
            assert targets[-1].do("list .").startswith("ok")
        one, two, three = targets
        yield one, two, three


def test_a_step_bound_to_a_process_fires_only_there(bench: Bench) -> None:
    make = at("file.mkdir", nth=2)
    bench.plan(step(FAIL, make), Step(make, FAIL, same="process"))
    with three_drivers(bench) as (one, two, three):
        assert failures(one.all("mkdir a", "mkdir b")) == [1]
        for number, other in enumerate((two, three)):
            assert failures(other.all(*(f"mkdir {number}{name}" for name in "abc"))) == []
        assert failures(one.all("mkdir c", "mkdir d", "mkdir e")) == [1]
    assert [moment.node for moment in bench.controller.moments()] == ["s1", "s1"]


def test_a_step_bound_to_a_node_fires_in_any_of_its_processes(bench: Bench) -> None:
    make = at("file.mkdir", nth=2)
    bench.plan(step(FAIL, make), Step(make, FAIL, same="node"))
    with three_drivers(bench) as (one, two, three):
        assert failures(one.all("mkdir a", "mkdir b")) == [1]
        assert failures(three.all("mkdir c", "mkdir d", "mkdir e")) == []
        assert failures(two.all("mkdir f", "mkdir g", "mkdir h")) == [1]


def test_both_halves_may_be_bound_to_one_process(bench: Bench) -> None:
    bench.plan(step(FAIL, Then(at("file.stat"), at("file.mkdir"), same="process")))
    (bench.data / "x").touch()
    with three_drivers(bench) as (one, two, three):
        assert one.do("stat x").startswith("ok")
        assert failures([two.do("mkdir a"), three.do("mkdir b")]) == []
        assert three.do("stat x").startswith("ok")  # another process that has seen the first half counts too
        assert failures([two.do("mkdir c"), three.do("mkdir d"), one.do("mkdir e")]) == [1]


def test_both_halves_may_be_bound_to_one_node(bench: Bench) -> None:
    until = Then(at("file.stat"), at("file.mkdir"), same="node")
    bench.plan(step(Error("EIO", "disk"), Then(at("file.stat"), at("file.mkdir"), same="node"), until))
    (bench.data / "x").touch()
    with three_drivers(bench) as (one, two, three):
        assert one.do("stat x").startswith("ok")
        assert failures([three.do("mkdir a"), two.do("mkdir b")]) == [1]
        assert three.do("stat x").startswith("ok")
        assert failures([one.do("mkdir c"), three.do("mkdir d"), one.do("mkdir e")]) == [0]
    assert bench.state_byte(64) == 3
