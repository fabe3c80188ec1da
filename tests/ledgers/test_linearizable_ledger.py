"""The ledger of linearizability: published examples, what its verdicts say, and its deadline."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from typing import Any

import pytest
from ledger_simulator import Story, view
from sequential_objects import Register, simulated

from undermine import ledgers
from undermine.ledgers.linearizability import decide as deciding
from undermine.model.errors import UserError
from undermine.model.run import Op, Verdict

REGISTER = ledgers.linearizable(ledgers.register(cas="cas", initial=None))
ZERO = ledgers.linearizable(ledgers.register(initial=0))
KEYED = ledgers.linearizable(ledgers.register(write="put", read="get", key="key"))
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "ledgers.md").read_text()


def judged(ledger: ledgers.Ledger, *rows: tuple[Any, ...]) -> Verdict:
    """The verdict on operations given as (client, name, start, end, argument, answer). No end: the outcome is unknown."""
    ops = []
    for number, (client, f, start_ns, end_ns, value, answer) in enumerate(rows):
        args = {"old": value[0], "new": value[1]} if f == "cas" else {"value": value, "item": value} if value else {}
        status = "ok" if end_ns else "unknown"
        ops.append(Op(number, client, f, "", args, status, answer, start_ns=start_ns, end_ns=end_ns or start_ns))  # type: ignore[arg-type]
    return ledger(view(ops))


# --- the examples that Knossos and Porcupine publish in their documentation, written as rows


def test_knossos_a_crashed_write_may_have_taken_effect() -> None:
    assert judged(REGISTER, ("p0", "read", 1, 4, None, 3), ("p1", "write", 2, None, 3, None)).answer == "pass"


def test_knossos_a_read_of_a_refused_write() -> None:
    rows: list[tuple[Any, ...]] = [
        ("p0", "write", 1, 2, 9, None),
        ("p1", "read", 3, 5, None, 3),
        ("p2", "write", 4, 6, 4, None),
        ("p3", "read", 7, 8, None, 4),
    ]
    verdict = judged(REGISTER, *rows)
    assert (verdict.answer, verdict.symptom) == ("fail", "write, read and cas are not linearizable")
    assert verdict.evidence[1].startswith("p1  read → 3")
    assert judged(REGISTER, *rows, ("p4", "write", 2, None, 3, None)).answer == "pass"


def test_porcupine_concurrent_reads_of_the_old_and_the_new_value() -> None:
    rows = [("c0", "write", 1, 9, 100, None), ("c1", "read", 2, 8, None, 100), ("c2", "read", 3, 5, None, 0)]
    assert judged(ZERO, *rows).answer == "pass"


def test_porcupine_the_old_value_after_the_new_one() -> None:
    rows = [("c0", "write", 1, 9, 200, None), ("c1", "read", 2, 4, None, 200), ("c2", "read", 6, 8, None, 0)]
    verdict = judged(ZERO, *rows)
    assert verdict.answer == "fail"
    assert len(verdict.evidence) == 5, "the three operations, and a line before and after them"


def test_knossos_two_clients_that_hold_a_mutex() -> None:
    lock = ledgers.linearizable(ledgers.lock(acquire="acquire", release="release"))
    both = [("p1", "acquire", 1, 2, None, None), ("p2", "acquire", 3, 4, None, None)]
    assert judged(lock, *both).answer == "fail"
    assert judged(lock, both[0], ("p1", "release", 2, None, None, None), both[1]).answer == "pass"


def test_a_compare_and_set_that_cannot_have_succeeded() -> None:
    first, second = ("a", "write", 1, 2, 1, None), ("b", "cas", 3, 4, (2, 3), True)
    assert judged(REGISTER, first, second).answer == "fail"
    assert judged(REGISTER, first, (*second[:5], False)).answer == "pass"
    assert judged(REGISTER, first, second, ("c", "write", 2, None, 2, None)).answer == "pass"


# --- rules


def test_an_unfinished_write_that_a_read_has_seen_stays() -> None:
    """A stale-read ledger permits this, linearizability doesn't."""
    story = Story().put("k", 1).put("k", 2, 20, 100).get("k", 2, 30, 40).get("k", 1, 50, 60)
    assert ledgers.no_stale_read()(story.view).answer == "pass"
    assert KEYED(story.view).answer == "fail"


def test_a_refused_write_never_took_effect() -> None:
    story = Story().put("k", 1).put("k", 2, status="fail").get("k", 2)
    assert KEYED(story.view).answer == "fail"


def test_an_unknown_initial_value_is_one_value() -> None:
    assert KEYED(Story().get("k", 7).get("k", 7).put("k", 1).view).answer == "pass"
    assert KEYED(Story().get("k", 7).get("k", 8).put("k", 1).view).answer == "fail"
    assert KEYED(Story().put("k", 1).get("k", 7).view).answer == "fail"


def test_keys_are_judged_alone() -> None:
    story = Story().put("a", 1).put("b", 1).get("a", 1)
    assert KEYED(story.view).answer == "pass"
    verdict = KEYED(story.get("b", 2).view)
    assert verdict.text == "no order explains the answers of put and get: b"
    assert verdict.evidence[0].startswith("b: no order explains these 2 operations")


def test_a_queue_that_swaps_loses_or_repeats_items() -> None:
    ledger = ledgers.linearizable(ledgers.queue())
    story = Story().add("enqueue", item=1).add("enqueue", item=2)
    assert ledger(Story(story.ops).add("dequeue", value=1).add("dequeue", value=2).add("dequeue").view).answer == "pass"
    assert ledger(Story(story.ops).add("dequeue", value=2).add("dequeue", value=1).view).answer == "fail"
    assert ledger(Story(story.ops).add("dequeue", value=1).add("dequeue").view).answer == "fail"
    assert ledger(Story(story.ops).add("dequeue", value=1).add("dequeue", value=1).view).answer == "fail"
    assert ledger(Story(story.ops).add("dequeue", status="unknown").add("dequeue", value=2).view).answer == "pass"


def test_reads_of_a_growing_set_must_form_a_chain() -> None:
    ledger = ledgers.linearizable(ledgers.set_of(read="read"))
    story = Story().add("add", 1, 50, element=1).add("add", 1, 50, element=2)
    assert ledger(Story(story.ops).add("read", 2, 10, value=[1]).add("read", 2, 10, value=[1, 2]).view).answer == "pass"
    verdict = ledger(Story(story.ops).add("read", 2, 10, value=[1]).add("read", 2, 10, value=[2]).view)
    assert verdict.answer == "fail"
    assert "read → [1]" in "\n".join(verdict.evidence)


# --- what a verdict says


def test_the_smallest_part_is_drawn_as_a_time_line() -> None:
    story = Story().put("k", 1, 1_000_000, 2_000_000).put("k", 2, 3_000_000, 5_000_000)
    story.get("k", 2, 5_500_000, 5_600_000).get("k", 1, 6_000_000, 9_000_000, client="c2")
    story.put("k", 3, 7_000_000, status="unknown")
    assert KEYED(story.view).evidence == (
        "k: no order explains these 3 operations:",
        "c1  put 1    |---|                      0.000 s to 0.001 s",
        "c1  put 2            |---|              0.002 s to 0.004 s",
        "c2  get → 1                  |---|      0.005 s to 0.008 s",
        "get → 1 by c2 does not fit: before it, the state is 2",
    )
    assert KEYED(story.view).operations == (0, 1, 3)


def test_an_item_that_is_not_there_is_named() -> None:
    story = Story().add("enqueue", item=1).add("dequeue", value=1).add("dequeue", value=1)
    (*_, why) = ledgers.linearizable(ledgers.queue())(story.view).evidence
    assert re.fullmatch(r"dequeue → 1 by .* does not fit: before it, the state is empty", why)


def test_a_long_history_is_reduced_to_what_is_wrong() -> None:
    story = Story()
    for value in range(1, 400):
        story.put("k", value % 7, client=f"c{value % 3}").get("k", value % 7)
    story.put("k", 8).get("k", 3)
    lines = KEYED(story.view).evidence
    assert len(lines) <= 5
    assert "put 8" in lines[-3]


def test_what_happened_before_may_be_left_out() -> None:
    ledger = ledgers.linearizable(ledgers.counter())
    story = Story()
    for number in range(1, 60):
        story.add("add").add("read", value=number)
    lines = ledger(story.add("read", value=7).view).evidence
    assert lines[0] == "no order explains these 2 operations, whatever happened before:"


def test_the_verdict_is_unknown_after_the_deadline() -> None:
    ops = [Op(n, f"c{n}", "enqueue", "", {"item": 1 + n % 9}, "ok", start_ns=1, end_ns=50) for n in range(18)]
    ops += [Op(18 + n, "d", "dequeue", "", {}, "ok", 9, start_ns=60 + n, end_ns=60 + n) for n in range(3)]
    verdict = ledgers.linearizable(ledgers.queue(), deadline_s=0.2)(view(ops))
    assert verdict.answer == "unknown"
    assert re.search(r"longer than 0.2 s: it explains \d+ of 21 acknowledged operations up to 0.000 s; set", verdict.text)


def test_a_history_that_shows_nothing_does_not_pass() -> None:
    assert KEYED(Story().put("k", 1).view).text == "no answer of put and get shows a state"
    assert KEYED(Story().view).answer == "unknown"
    assert "without times" in KEYED(view([Op(0, "c", "put", "", {"key": "k", "value": 1}, "ok")])).text
    assert "ends before it starts" in KEYED(view([Op(0, "c", "get", "", {"key": "k"}, "ok", start_ns=5, end_ns=1)])).text


def test_mistakes_in_a_declaration_are_told() -> None:
    with pytest.raises(UserError, match="greater than zero"):
        ledgers.linearizable(ledgers.register(), deadline_s=0)
    with pytest.raises(UserError, match="'new' or the 'old'"):
        ledgers.counter(returns="both")  # type: ignore[arg-type]
    odd = Story().add("add", amount="much").add("read", value=1)
    assert "where a number is needed" in ledgers.linearizable(ledgers.counter(amount="amount"))(odd.view).text


def test_the_search_grows_and_looks_at_the_end_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a tiny limit, most failures are proved by the last operations alone, and the verdicts stay the same."""
    histories = [view(simulated(Register, Random(seed), operations=8, clients=4)) for seed in range(10)]
    wrong = [Story(run.history) for run in histories]
    for story in wrong:
        for number in range(20):
            story.add("read", value=1 + number % 2)
    monkeypatch.setattr(deciding, "_FIRST_VISITS", 5)
    monkeypatch.setattr(deciding, "_VISITS_PER_SPAN", 0)
    monkeypatch.setattr(deciding, "_WINDOWS", (5, 20))
    ledger = ledgers.linearizable(ledgers.register(cas="cas", delete="delete", initial=None))
    assert [ledger(run).answer for run in histories] == ["pass"] * len(histories)
    assert [ledger(story.view).answer for story in wrong] == ["fail"] * len(wrong)


def test_the_model_of_the_page_works() -> None:
    code = PAGE[PAGE.index("class Maximum") : PAGE.index("undermine.check(ledgers.linearizable(Maximum")]
    names: dict[str, Any] = {"ledgers": ledgers}
    exec(code, names)
    ledger = ledgers.linearizable(names["Maximum"]())
    story = Story().add("raise", to=3).add("raise", to=2)
    assert ledger(Story(story.ops).add("read", value=3).view).answer == "pass"
    assert ledger(story.add("read", value=2).view).answer == "fail"
