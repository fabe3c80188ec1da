"""Locks and leases: what is certain about who holds them."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import assume, given
from ledger_simulator import RANDOM, Simulator, Story, view

from undermine.ledgers import mutual_exclusion
from undermine.model.run import Op

LEDGER = mutual_exclusion()
SECOND_NS = 1_000_000_000


class LockServer:
    """One lock: reentrant, released by its holder only, with a lease if wanted; every grant has a higher token."""

    def __init__(self, lease_ns: int, broken: bool) -> None:
        self._lease_ns, self._broken, self._expires_ns = lease_ns, broken, 0
        self.holder, self.token = "", 0

    def acquire(self, client: str, t_ns: int) -> Any:
        if self._lease_ns and self.holder and t_ns > self._expires_ns:
            self.holder = ""
        if self.holder not in ("", client) and not (self._broken and t_ns % 3):
            return False
        if not self.holder:
            self.holder, self.token = client, self.token + 1
        self._expires_ns = t_ns + self._lease_ns
        return {"token": self.token}

    def release(self, client: str) -> None:
        if self.holder == client:
            self.holder = ""


class Timed(Simulator):
    """Tells effects when they happen."""

    now_ns = 0

    def _at(self, t_ns: int, effect: Any, index: int) -> None:
        def at() -> Any:
            self.now_ns = t_ns
            return effect()

        super()._at(t_ns, at, index)


def simulated(rng: Random, lease_ns: int = 0, broken: bool = False) -> tuple[Op, ...]:
    sim, server = Timed(rng), LockServer(lease_ns, broken)
    for client in ("c1", "c2", "c3"):
        now_ns = rng.randrange(1, 10)  # 0 means "unknown"
        for _ in range(rng.randrange(6)):
            take = lambda client=client: server.acquire(client, sim.now_ns)  # noqa: E731
            now_ns = sim.invoke(client, "lock", {}, take, now_ns) + rng.randrange(6)
            if rng.random() < 0.8:
                give = lambda client=client: server.release(client)  # noqa: E731
                now_ns = sim.invoke(client, "unlock", {}, give, now_ns) + rng.randrange(6)
    return sim.history()


@pytest.mark.parametrize("lease_ns", [0, 5, 20])
@given(rng=RANDOM)
def test_no_failure_on_a_lock_server_that_keeps_its_promises(lease_ns: int, rng: Random) -> None:
    lease_s = lease_ns / 1e9 if lease_ns else None
    ledger = mutual_exclusion(lease_s=lease_s, token=lambda op: op.value["token"])
    assert ledger(view(simulated(rng, lease_ns))).answer != "fail"


@given(RANDOM)
def test_a_lock_server_that_grants_too_much_fails_exactly_if_two_certainly_hold_it(rng: Random) -> None:
    history = simulated(rng, broken=True)
    assume(granted(history))
    assert LEDGER(view(history)).answer == ("fail" if two_hold_it(history) else "pass")


@pytest.mark.parametrize("lease_ns", [0, 5, 20])
def test_the_simulated_lock_servers_are_interesting(lease_ns: int) -> None:
    """A lock often changes hands, and a broken server often but not always gives it to two clients at once."""
    handed_over = [len({op.client for op in granted(simulated(Random(seed), lease_ns))}) > 1 for seed in range(200)]
    assert sum(handed_over) > 33
    broken = [two_hold_it(simulated(Random(seed), broken=True)) for seed in range(200)]
    assert 20 < sum(broken) < 180


def granted(history: tuple[Op, ...]) -> list[Op]:
    return [op for op in history if op.f == "lock" and op.status == "ok" and op.value is not False]


def two_hold_it(history: tuple[Op, ...]) -> bool:
    """The rule, written down once more as it is read: slowly."""
    spans = []
    for op in history:
        if op.f != "lock" or op.status != "ok" or op.value is False:
            continue
        releases = [other for other in history if other.f == "unlock" and other.client == op.client]
        if any(other.status in ("unknown", "pending") and other.start_ns < op.start_ns for other in releases):
            continue
        until_ns = min((other.start_ns for other in releases if other.start_ns >= op.start_ns), default=1 << 60)
        spans.append((op.client, op.end_ns, until_ns))
    return any(one[0] != other[0] and max(one[1], other[1]) < min(one[2], other[2]) for one in spans for other in spans)


def test_two_certain_holders_at_once_are_a_violation() -> None:
    story = Story().add("lock", 10, 20).add("lock", 30, 40, client="c2").add("unlock", 50, 60)
    verdict = LEDGER(story.view)
    assert (verdict.answer, verdict.symptom) == ("fail", "two clients hold one lock")
    assert verdict.evidence == ("c1 holds it from 0.000 s until 0.000 s, c2 from 0.000 s",)


def test_a_release_ends_a_holding_when_it_begins() -> None:
    story = Story().add("lock", 10, 20).add("unlock", 30, 90).add("lock", 25, 40, client="c2")
    assert LEDGER(story.view).answer == "pass"
    assert (
        LEDGER(Story().add("lock", 10, 20).add("unlock", 30, 90).add("lock", 22, 29, client="c2").view).answer == "fail"
    )


@pytest.mark.parametrize("status", ["unknown", "pending", "fail"])
def test_any_try_to_release_ends_what_is_certain(status: str) -> None:
    story = Story().add("lock").add("unlock", status=status).add("lock", client="c2")
    assert LEDGER(story.view).answer == "pass"


@pytest.mark.parametrize("status", ["unknown", "pending", "fail"])
def test_who_was_not_told_holds_nothing(status: str) -> None:
    assert LEDGER(Story().add("lock").add("lock", client="c2", status=status).view).answer == "pass"
    assert LEDGER(Story().add("lock").add("lock", client="c2", value=False).view).answer == "pass"
    none = mutual_exclusion(got=lambda op: op.value == "OK")
    assert none(Story().add("lock", value="OK").add("lock", client="c2", value="no").view).answer == "pass"


def test_a_release_of_unknown_outcome_may_come_when_its_holder_has_the_lock_again() -> None:
    story = Story().add("lock").add("unlock", status="unknown").add("lock").add("lock", client="c2")
    assert LEDGER(story.view).answer == "pass"
    told_apart = mutual_exclusion(holder="owner")
    story = Story().add("lock", owner=1).add("unlock", owner=1, status="unknown").add("lock", owner=2)
    assert told_apart(story.add("lock", owner=3).view).answer == "fail"


def test_the_same_client_may_take_it_again() -> None:
    assert LEDGER(Story().add("lock").add("lock").view).answer == "pass"


def test_different_locks_are_apart() -> None:
    ledger = mutual_exclusion(lock="name")
    story = Story().add("lock", name="a").add("lock", name="b", client="c2")
    assert ledger(story.view).answer == "pass"
    verdict = ledger(story.add("lock", name="a", client="c3").view)
    assert verdict.answer == "fail"
    assert verdict.evidence[0].startswith("a: c1 holds it from 0.000 s forever, c3 from")


@pytest.mark.parametrize("lease_s", [10, "ttl"])
def test_a_lease_may_be_over_as_early_as_it_may_have_begun(lease_s: float | str) -> None:
    ledger = mutual_exclusion(lease_s=lease_s)
    for second_s, answer in ((10, "fail"), (11, "pass"), (12, "pass")):
        story = Story().add("lock", 1 * SECOND_NS, 3 * SECOND_NS, ttl=10)
        story.add("lock", (second_s - 1) * SECOND_NS, second_s * SECOND_NS, client="c2", ttl=10)
        assert ledger(story.view).answer == answer, second_s


def test_a_renewal_begins_another_lease() -> None:
    ledger = mutual_exclusion(lease_s=10, renew="renew")
    story = (
        Story()
        .add("lock", 0, 1)
        .add("renew", 9 * SECOND_NS, 9 * SECOND_NS + 1)
        .add("lock", 15 * SECOND_NS, client="c2")
    )
    assert ledger(story.view).answer == "fail"
    lost = (
        Story().add("lock", 0, 1).add("renew", 9 * SECOND_NS, status="unknown").add("lock", 15 * SECOND_NS, client="c2")
    )
    assert ledger(lost.view).answer == "pass"


def test_a_short_holding_within_a_long_one_does_not_hide_it() -> None:
    story = Story().add("lock", 0, 1).add("lock", 10, 11, client="c2").add("unlock", 12, 13, client="c2")
    story.add("lock", 20, 21, client="c3").add("unlock", 22, 23, client="c3")
    assert len(LEDGER(story.view).evidence) == 2


def test_tokens_must_grow() -> None:
    ledger = mutual_exclusion(token="token")
    story = Story().add("lock", value={"token": 5}).add("unlock").add("lock", value={"token": 6}, client="c2")
    assert ledger(story.view).answer == "pass"
    verdict = ledger(story.add("unlock", client="c2").add("lock", value={"token": 6}).view)
    assert verdict.symptom == "fencing token does not grow"
    overlapping = Story().add("lock", 0, 50, value={"token": 2}).add("unlock", 60)
    overlapping.add("lock", 10, 20, value={"token": 1}, client="c2").add("unlock", 21, 22, client="c2")
    assert ledger(overlapping.view).answer == "pass"
    again = Story().add("lock", value={"token": 5}).add("lock", value={"token": 5})
    assert ledger(again.view).answer == "pass"
    assert ledger(again.add("unlock").add("lock", value={"token": 4}).view).answer == "fail"


def test_tokens_that_cannot_be_compared_are_unclear_and_hide_no_two_holders() -> None:
    ledger = mutual_exclusion(token="token")
    story = Story().add("lock", value={"token": 5}).add("unlock").add("lock", value={"token": "6"}, client="c2")
    verdict = ledger(story.view)
    assert (verdict.answer, verdict.text[:31]) == ("unknown", "tokens that cannot be compared:")
    assert ledger(story.add("lock", value={"token": 7}).view).symptom == "two clients hold one lock"


def test_a_lease_may_be_endless_and_must_be_a_number() -> None:
    story = Story().add("lock", ttl="soon").add("lock", client="c2", ttl=5)
    assert mutual_exclusion(lease_s=float("inf"))(story.view).answer == "fail"
    assert mutual_exclusion(lease_s="ttl")(story.view).text == "the lease of a lock is not a number of seconds: 'soon'"


def test_without_a_grant_nothing_is_said() -> None:
    assert LEDGER(Story().view).text == "the history has no operation 'lock'"
    assert LEDGER(Story().add("lock", status="fail").view).text == "no lock was granted"
    assert "no argument 'name'" in mutual_exclusion(lock="name")(Story().add("lock").view).text


def test_many_holdings_are_judged() -> None:
    """A comparison of each with each would meet the timeout."""
    ops = []
    for number in range(50_000):
        at_ns = 10 * number
        ops.append(Op(2 * number, f"c{number % 7}", "lock", "", {}, "ok", None, "", "workload", at_ns, at_ns + 2))
        ops.append(
            Op(2 * number + 1, f"c{number % 7}", "unlock", "", {}, "ok", None, "", "workload", at_ns + 5, at_ns + 6)
        )
    assert LEDGER(view(ops)).answer == "pass"
