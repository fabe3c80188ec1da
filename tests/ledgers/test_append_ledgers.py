"""Logs: what must be in them, how often, and in which order."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest
from hypothesis import assume, given
from ledger_simulator import RANDOM, Simulator, Story, replaced, view

from undermine.ledgers import no_acknowledged_append_lost
from undermine.model.run import Op

LEDGER = no_acknowledged_append_lost(log="log")
ONE_LOG = no_acknowledged_append_lost()
LENIENT = no_acknowledged_append_lost(log="log", twice=False)


def simulated(rng: Random, times: int = 1) -> tuple[Op, ...]:
    sim = Simulator(rng)
    logs: dict[str, list[str]] = {"x": ["foreign"], "y": []}
    for client in ("c1", "c2", "c3"):
        now_ns = rng.randrange(10)
        for number in range(rng.randrange(8)):
            log, record = rng.choice("xy"), f"{client}-{number}"

            def append(log: str = log, record: str = record) -> None:
                logs[log].append(record)

            now_ns = sim.invoke(client, "append", {"log": log, "id": record}, append, now_ns, times=times)
            now_ns += rng.randrange(3)
    now_ns = sim.end_ns + 1
    for _ in range(rng.randrange(1, 3)):
        for log in logs:
            read = partial(list, logs[log])
            now_ns = sim.invoke("final", "read_log", {"log": log}, read, now_ns, phase="final") + 1
    return sim.history()


@given(RANDOM)
def test_no_failure_on_logs_that_keep_their_promises(rng: Random) -> None:
    assert LEDGER(view(simulated(rng))).answer != "fail"


@given(RANDOM)
def test_a_retried_append_may_be_there_twice_where_that_is_allowed(rng: Random) -> None:
    assert LENIENT(view(simulated(rng, times=2))).answer != "fail"


def test_the_simulated_logs_are_interesting() -> None:
    """The ledger judges many of them, finds retried records in some, and many have records that can be made wrong."""
    retried = [LEDGER(view(simulated(Random(seed), times=2))).symptom for seed in range(200)]
    assert retried.count("append applied twice") > 4
    assert sum(LEDGER(view(simulated(Random(seed)))).answer == "pass" for seed in range(200)) > 30
    assert sum(judged(Random(seed)) is not None for seed in range(200)) > 30


def judged(rng: Random) -> tuple[tuple[Op, ...], Op, list[Op]] | None:
    """A history with a last read that counts and at least two acknowledged records that cannot be swapped."""
    history = simulated(rng)
    reads = [op for op in history if op.f == "read_log" and op.args["log"] == "x" and op.status != "pending"]
    acked = [op for op in history if op.f == "append" and op.args["log"] == "x" and op.status == "ok"]
    if not reads or reads[-1].status != "ok" or len(acked) < 2 or acked[0].end_ns >= acked[-1].start_ns:
        return None
    return history, reads[-1], acked


@given(RANDOM)
def test_what_is_taken_out_doubled_or_swapped_fails(rng: Random) -> None:
    case = judged(rng)
    assume(case is not None)
    history, read, acked = case
    first, last = acked[0].args["id"], acked[-1].args["id"]
    swapped = [{first: last, last: first}.get(item, item) for item in read.value]
    for value, symptom in (
        ([item for item in read.value if item != first], "acknowledged append lost"),
        ([*read.value, last], "append applied twice"),
        (swapped, "records out of order"),
    ):
        assert LEDGER(view(replaced(history, read, value=value))).symptom == symptom, value


def test_records_of_overlapping_appends_may_be_in_any_order() -> None:
    for held in (["a", "b"], ["b", "a"]):
        story = Story().add("append", 10, 30, id="a").add("append", 20, 40, id="b", client="c2")
        assert ONE_LOG(story.add("read_log", value=held, final=True).view).answer == "pass"


@pytest.mark.parametrize(("held", "answer"), [(["a", "b"], "pass"), (["b", "a"], "fail"), (["a"], "pass")])
def test_a_late_record_is_behind_what_was_acknowledged_before_it_began(held: list[str], answer: str) -> None:
    story = Story().add("append", id="a").add("append", id="b", status="unknown")
    assert ONE_LOG(story.add("read_log", value=held, final=True).view).answer == answer


def test_a_record_of_unknown_outcome_may_come_behind_later_ones() -> None:
    story = Story().add("append", id="a", status="unknown").add("append", id="b")
    assert ONE_LOG(story.add("read_log", value=["b", "a"], final=True).view).answer == "pass"


def test_a_record_appended_again_by_its_client_may_be_there_as_often() -> None:
    story = Story().add("append", id="a", status="unknown").add("append", id="a")
    story.add("read_log", value=["a", "a"], final=True)
    assert ONE_LOG(story.view).answer == "pass"
    assert ONE_LOG(story.add("read_log", value=["a", "a", "a"], final=True).view).symptom == "append applied twice"


@pytest.mark.parametrize(("end_ns", "answer"), [(19, "fail"), (20, "pass"), (25, "pass"), (50, "pass")])
def test_an_append_that_had_not_ended_when_the_log_was_read_need_not_be_there(end_ns: int, answer: str) -> None:
    story = Story().add("append", 10, end_ns, id="a", final=True)
    assert ONE_LOG(story.add("read_log", 20, 30, value=[], final=True, client="c2").view).answer == answer


def test_a_refused_record_is_not_there() -> None:
    story = Story().add("append", id="a", status="fail").add("read_log", value=["a"], final=True)
    assert ONE_LOG(story.view).symptom == "refused append took effect"
    again = Story().add("append", id="a", status="fail").add("append", id="a")
    assert ONE_LOG(again.add("read_log", value=["a"], final=True).view).answer == "pass"


def test_order_need_not_count() -> None:
    story = Story().add("append", id="a").add("append", id="b").add("read_log", value=["b", "a"], final=True)
    assert ONE_LOG(story.view).evidence == ("a comes after b, whose append began after a was acknowledged",)
    assert no_acknowledged_append_lost(order=False)(story.view).answer == "pass"


def test_logs_that_cannot_be_read_are_named_but_a_loss_elsewhere_is_told() -> None:
    story = Story().add("append", log="x", id="a").add("append", log="y", id="b")
    story.add("read_log", log="x", value=["a"], final=True).add("read_log", log="y", status="unknown", final=True)
    assert LEDGER(story.view).text == "could not be read at the end: y"
    assert LEDGER.settled is not None
    assert "y" in LEDGER.settled(story.history)
    story.add("read_log", log="x", value=[], final=True)
    assert LEDGER(story.view).symptom == "acknowledged append lost"
    assert "a" in LEDGER.settled(story.history)


def test_every_replica_must_have_every_record_if_wanted() -> None:
    story = Story().add("append", id="a")
    story.add("read_log", value=["a"], node="n1", final=True).add("read_log", value=[], node="n2", final=True)
    assert no_acknowledged_append_lost(by="node")(story.view).symptom == "acknowledged append lost"


def test_an_answer_that_is_no_list_is_not_judged() -> None:
    story = Story().add("append", id="a").add("read_log", value="a", final=True)
    assert ONE_LOG(story.view).text == "an answer of read_log is not a list: 'a'"
    ids = no_acknowledged_append_lost(answer=lambda op: [each["id"] for each in op.value])
    assert ids(Story().add("append", id="a").add("read_log", value=[{"id": "a"}], final=True).view).answer == "pass"


def test_long_logs_are_judged() -> None:
    """A scan of the log for each record would meet the timeout."""
    ops = [Op(n, "c1", "append", "", {"id": n}, "ok", None, "", "workload", 10 * n, 10 * n + 5) for n in range(100_000)]
    read = Op(100_000, "c1", "read_log", "", {}, "ok", list(range(100_000)), "", "final", 2_000_000, 2_000_001)
    assert ONE_LOG(view([*ops, read])).answer == "pass"
    backwards = replaced((read,), read, value=list(range(99_999, -1, -1)))
    verdict = ONE_LOG(view([*ops, *backwards]))
    assert (verdict.symptom, len(verdict.evidence)) == ("records out of order", 10)
