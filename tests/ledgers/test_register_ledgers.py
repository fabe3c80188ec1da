"""Keys that hold one value: what may be read after which writes."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from ledger_simulator import Simulator, Story, replaced, view
from tables import for_each

from undermine.ledgers import no_acknowledged_write_lost, no_stale_read
from undermine.model.run import Op

LOST = no_acknowledged_write_lost(delete="delete")
STALE = no_stale_read(delete="delete")
SESSION = no_stale_read(delete="delete", session=True)
STRICT_LOST = no_acknowledged_write_lost(delete="delete", initial=None)
STRICT_STALE = no_stale_read(delete="delete", initial=None)
KEYS = ("a", "b")
CLIENTS = ("c1", "c2", "c3")


def simulated(seed: int) -> tuple[Op, ...]:
    """Clients that write, delete and read two keys of a linearizable store; then final reads, some of them repeated."""
    sim = Simulator(random.Random(seed))
    rng, state = sim.rng, dict.fromkeys(KEYS)
    values = itertools.count() if rng.random() < 0.5 else itertools.cycle((1, 2, 3))

    def set_to(key: str, value: Any) -> Any:
        return lambda: state.update({key: value})

    def get(key: str) -> Any:
        return lambda: state[key]

    for client in CLIENTS:
        now_ns = rng.randrange(10)
        for _ in range(rng.randrange(12)):
            key, kind = rng.choice(KEYS), rng.choice(("put", "put", "get", "get", "delete"))
            if kind == "get":
                now_ns = sim.invoke(client, "get", {"key": key}, get(key), now_ns)
            elif kind == "put":
                value = next(values)
                now_ns = sim.invoke(client, "put", {"key": key, "value": value}, set_to(key, value), now_ns)
            else:
                now_ns = sim.invoke(client, "delete", {"key": key}, set_to(key, None), now_ns)
            now_ns += rng.randrange(4)
    now_ns = sim.end_ns + 1
    for _ in range(rng.randrange(1, 4)):
        for key in KEYS:
            now_ns = sim.invoke("final", "get", {"key": key}, get(key), now_ns, phase="final") + 1
    return sim.history()


def possible(history: tuple[Op, ...], read: Op, value: Any, session: bool = False) -> bool:
    """The rule of the ledgers, written down once more as it is read: slowly."""
    writes = [
        op for op in history if op.f in ("put", "delete") and op.args["key"] == read.args["key"] and op.status != "fail"
    ]
    before = [op for op in writes if op.status == "ok" and op.end_ns < read.start_ns]
    before = [op for op in before if not session or op.client == read.client]
    if not before:
        return True
    for write in writes:
        if write.args.get("value") != value or write.start_ns > read.end_ns:
            continue
        if write.status != "ok" or (session and write.client != read.client):
            return True
        if not any(other.start_ns > write.end_ns for other in before):
            return True
    return False


@for_each("block", range(10))
def test_no_register_ledger_fails_on_a_store_that_keeps_its_promises(block: int) -> None:
    for seed in range(block * 400, (block + 1) * 400):
        run = view(simulated(seed))
        for ledger in (LOST, STALE, SESSION, STRICT_LOST, STRICT_STALE):
            verdict = ledger(run)
            assert verdict.answer != "fail", (seed, ledger, verdict)


def test_the_simulated_stores_are_interesting() -> None:
    """Passing means something: most histories are judged, and have acknowledged writes, lost answers and overwrites."""
    histories = [simulated(seed) for seed in range(200)]
    assert sum(LOST(view(history)).answer == "pass" for history in histories) > 50
    assert sum(STALE(view(history)).answer == "pass" for history in histories) > 100
    assert sum(any(op.f == "put" and op.status == "unknown" for op in history) for history in histories) > 100


@pytest.mark.parametrize("block", range(6))
def test_a_changed_answer_fails_exactly_if_the_rule_forbids_it(block: int) -> None:
    told = {"pass": 0, "fail": 0}
    for seed in range(block * 300, (block + 1) * 300):
        rng = random.Random(seed)
        history = simulated(seed)
        reads = [op for op in history if op.f == "get" and op.status == "ok"]
        written = {op.args["key"] for op in history if op.f in ("put", "delete")}
        if not reads or not written:
            continue
        read = rng.choice(reads)
        value = rng.choice([None, 0, 1, 2, 3, 4, 5, 6, 99])
        changed = replaced(history, read, value=value)
        for ledger, session in ((STALE, False), (SESSION, True)):
            fine = read.args["key"] not in written or possible(history, read, value, session)
            verdict = ledger(view(changed))
            assert verdict.answer == ("pass" if fine else "fail"), (seed, ledger, read, value, verdict)
            told[verdict.answer] += 1
        if read.phase == "final" and read == [op for op in history if op.f == "get" and _same(op, read)][-1]:
            fine = read.args["key"] not in written or possible(history, read, value)
            assert (LOST(view(changed)).answer == "fail") == (not fine), (seed, read, value)
    assert min(told.values()) > 100


def _same(op: Op, read: Op) -> bool:
    return op.phase == "final" and op.args == read.args and op.status != "pending"


# --- lost


def test_the_last_acknowledged_write_must_be_there_in_the_end() -> None:
    story = Story().put("k", "v1").put("k", "v2")
    assert LOST(Story().put("k", "v1").put("k", "v2").get("k", "v2", final=True).view).answer == "pass"
    verdict = LOST(story.get("k", "v1", final=True).view)
    assert (verdict.answer, verdict.symptom) == ("fail", "acknowledged put lost")
    assert "k: get by c1 at 0.000 s returned 'v1', not 'v2': put by c1 acknowledged at 0.000 s" in verdict.evidence


@pytest.mark.parametrize("gone", [None, "garbage"])
def test_a_write_is_lost_whatever_is_there_instead(gone: str | None) -> None:
    assert LOST(Story().put("k", "v1").get("k", gone, final=True).view).symptom == "acknowledged put lost"


@pytest.mark.parametrize("status", ["unknown", "pending"])
def test_a_write_of_unknown_outcome_may_be_there_or_not_or_come_late(status: str) -> None:
    for value in ("maybe", "v2"):
        story = Story().put("k", "maybe", status=status).put("k", "v2").get("k", value, final=True)
        assert LOST(story.view).answer == "pass"
        assert STALE(story.view).answer == "pass"


def test_a_refused_write_is_not_there() -> None:
    story = Story().put("k", "v1").put("k", "no", status="fail").get("k", "no", final=True)
    for ledger in (LOST, STALE):
        assert ledger(story.view).symptom == "refused put took effect"
    again = Story().put("k", "v1").put("k", "no", status="fail").put("k", "no").get("k", "no", final=True)
    assert LOST(again.view).answer == "pass"


def test_of_overlapping_writes_any_may_be_the_last() -> None:
    for value in ("x", "y"):
        story = Story().put("k", "x", 10, 30).put("k", "y", 20, 40, client="c2").get("k", value, 50, final=True)
        assert LOST(story.view).answer == "pass"
    late = Story().put("k", "x", 10, 20).put("k", "y", 20, 40, client="c2").get("k", "x", 50, final=True)
    assert LOST(late.view).answer == "pass"  # the second may have begun when the first was not over
    after = Story().put("k", "x", 10, 20).put("k", "y", 21, 40, client="c2").get("k", "x", 50, final=True)
    assert LOST(after.view).answer == "fail"


def test_equal_values_of_different_writes_are_fine() -> None:
    assert LOST(Story().put("k", 1).put("k", 2).put("k", 1).get("k", 1, final=True).view).answer == "pass"
    assert LOST(Story().put("k", {"a": [1]}).get("k", {"a": [1]}, final=True).view).answer == "pass"


def test_what_never_was_acknowledged_may_be_anything_unless_the_beginning_is_known() -> None:
    story = Story().put("k", "v", status="unknown").get("k", "before", final=True)
    assert LOST(story.view).answer == "pass"
    assert STRICT_LOST(story.view).symptom == "get returns a value that nobody wrote"
    assert STRICT_LOST(Story().put("k", "v", status="unknown").get("k", final=True).view).answer == "pass"


def test_a_deleted_key_stays_deleted() -> None:
    story = Story().put("k", "v").add("delete", key="k")
    assert LOST(Story().put("k", "v").add("delete", key="k").get("k", None, final=True).view).answer == "pass"
    verdict = LOST(story.get("k", "v", final=True).view)
    assert verdict.symptom == "acknowledged delete lost"
    assert "despite delete by c1 acknowledged" in verdict.evidence[0]


def test_a_store_may_say_that_something_is_absent_in_its_own_words() -> None:
    ledger = no_acknowledged_write_lost(delete="delete", absent="none", answer=lambda op: op.value["got"])
    assert (
        ledger(Story().put("k", "v").add("delete", key="k").get("k", {"got": "none"}, final=True).view).answer == "pass"
    )
    assert ledger(Story().put("k", "v").get("k", {"got": "none"}, final=True).view).symptom == "acknowledged put lost"


def test_a_key_that_was_not_read_in_the_end_is_named() -> None:
    story = Story().put("a", 1).put("b", 1).get("a", 1, final=True)
    assert LOST(story.view).text == "could not be read at the end: b"
    assert LOST(story.get("b", status="fail", final=True).view).text == "could not be read at the end: b"


def test_only_the_last_of_repeated_reads_counts() -> None:
    story = Story().put("k", "v").get("k", None, final=True).get("k", "v", final=True)
    assert LOST(story.view).answer == "pass"
    failing = Story().put("k", "v").get("k", None, final=True).get("k", status="unknown", final=True)
    assert LOST(failing.view).answer == "unknown"  # it may be there by now
    cut = Story().put("k", "v").get("k", None, final=True).get("k", status="pending", final=True)
    assert LOST(cut.view).answer == "fail"


def test_every_replica_is_looked_at_if_wanted() -> None:
    story = Story().put("k", "v").get("k", None, node="n1", final=True).get("k", "v", node="n2", final=True)
    assert LOST(story.view).answer == "pass"
    verdict = no_acknowledged_write_lost(by="node")(story.view)
    assert verdict.answer == "fail"
    assert "at n1" in verdict.evidence[0]


def test_a_replica_that_is_not_in_the_last_look_is_not_judged_by_an_earlier_one() -> None:
    story = Story().put("k", "v").get("k", None, node="n1", final=True).get("k", status="fail", node="n2", final=True)
    assert no_acknowledged_write_lost(by="node")(story.view).answer == "fail"
    story.get("k", "v", node="n1", final=True)
    assert no_acknowledged_write_lost(by="node")(story.view).text == "could not be read at the end: k at n2"


def test_reads_are_repeated_until_nothing_is_missing() -> None:
    assert LOST.settled is not None
    story = Story().put("k", "v").put("unread", "v")
    assert LOST.settled(story.history) == ""  # nobody tries to read it: trying again would not help
    assert "k without an acknowledged put" in LOST.settled(story.get("k", None, final=True).history)
    assert "cannot be read yet: k" in LOST.settled(story.get("k", status="fail", final=True).history)
    assert LOST.settled(story.get("k", "v", final=True).history) == ""
    assert STALE.settled is None


def test_final_writes_count_for_the_reads_after_them() -> None:
    story = Story().put("k", "v", final=True).get("k", "v", final=True).put("k", "w", final=True)
    assert LOST(story.view).answer == "pass"
    assert LOST(story.get("k", "v", final=True).view).answer == "fail"


# --- stale


def test_a_read_must_not_miss_what_was_acknowledged_before_it_began() -> None:
    story = Story().put("k", "v1").put("k", "v2", client="c2").get("k", "v1", client="c3")
    verdict = STALE(story.view)
    assert (verdict.answer, verdict.symptom) == ("fail", "stale get")
    assert SESSION(story.view).answer == "pass"
    assert SESSION(Story().put("k", "v1").put("k", "v2").get("k", "v1").view).symptom == "stale get"


def test_a_read_that_overlaps_a_write_may_see_it_or_not() -> None:
    for value in ("v1", "v2"):
        story = Story().put("k", "v1", 10, 20).put("k", "v2", 30, 50, client="c2").get("k", value, 40, 60)
        assert STALE(story.view).answer == "pass"
    touching = Story().put("k", "v1", 10, 20).put("k", "v2", 30, 40, client="c2").get("k", "v1", 40, 60)
    assert STALE(touching.view).answer == "pass"


def test_nothing_is_read_before_its_write_has_begun() -> None:
    story = Story().put("k", "v1", 10, 20).get("k", "v2", 30, 40).put("k", "v2", 50, 60, client="c2")
    assert STALE(story.view).symptom == "get returns a value that nobody wrote"


def test_in_a_session_others_may_write_at_any_time() -> None:
    story = Story().put("k", "theirs", client="c2").put("k", "mine").get("k", "theirs")
    assert SESSION(story.view).answer == "pass"
    assert STALE(story.view).answer == "fail"
    assert SESSION(Story().put("k", "mine").get("k", "nobody's").view).answer == "fail"


def test_keys_that_nobody_writes_are_not_judged() -> None:
    assert STALE(Story().put("k", "v").get("other", "x").view).answer == "pass"


def test_a_ledger_that_sees_nothing_does_not_say_that_all_is_well() -> None:
    assert LOST(Story().get("k", 1, final=True).view).text == "the history has no operation 'put'"
    assert STALE(Story().put("k", 1).view).text == "the history has no operation 'get'"
    wrong = Story().add("put", name="k", value=1).get("k", 1, final=True)
    assert "has no argument 'key'" in LOST(wrong.view).text


def test_evidence_is_bounded_and_printable() -> None:
    story = Story()
    for number in range(50):
        story.put(f"k\x1b{number}", "v" * 1000)
    for number in range(50):
        story.get(f"k\x1b{number}", ["\x00" * 5000] * 100, final=True)
    verdict = LOST(story.view)
    assert len(verdict.evidence) == 10
    assert all(len(line) < 500 and line.isprintable() for line in (*verdict.evidence, verdict.text))
    assert verdict.evidence[-1] == "and 41 more"


def test_times_are_of_the_run() -> None:
    story = Story().put("k", "v1", 5_000_000_000, 5_500_000_000).get("k", None, 7_250_000_000, final=True)
    verdict = LOST(view(story.ops, started_ns=4_000_000_000))
    assert verdict.evidence[0] == "k: get by c1 at 3.250 s returned None, not 'v1': put by c1 acknowledged at 1.500 s"


def test_names_can_be_chosen() -> None:
    assert [LOST.name, STALE.name] == ["no_acknowledged_put_lost", "no_stale_get"]
    assert no_stale_read(name="mine").name == "mine"
    assert no_acknowledged_write_lost(write="set").name == "no_acknowledged_set_lost"


def test_work_does_not_grow_with_the_square_of_the_history() -> None:
    """100,000 operations are judged; a scan of the key's history for each would meet the timeout."""
    ops = []
    for number in range(50_000):
        at_ns = 10 * number
        ops.append(
            Op(2 * number, "c1", "put", "", {"key": "k", "value": 1}, "ok", None, "", "workload", at_ns, at_ns + 3)
        )
        ops.append(Op(2 * number + 1, "c1", "get", "", {"key": "k"}, "ok", 1, "", "final", at_ns + 5, at_ns + 8))
    assert LOST(view(ops)).answer == "pass"
    assert STALE(view(ops)).answer == "pass"
