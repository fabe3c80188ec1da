"""The strategy that finds most in a second has the next turn."""

from __future__ import annotations

from undermine.campaign.turns import FINDING, Gain, next_turn


def gains(**of: str) -> list[Gain]:
    """One gain for each digit."""
    return [Gain(name, float(digit)) for name, digits in of.items() for digit in digits]


def test_a_strategy_that_has_had_no_turn_comes_first() -> None:
    assert next_turn(["a", "b", "c"], {"a": 5.0}, gains(a="999")) == "b"
    assert next_turn([], {"a": 5.0}, ()) is None


def test_the_strategy_that_gains_most_in_a_second_has_the_turn() -> None:
    used = {"a": 10.0, "b": 10.0}
    assert next_turn(["a", "b"], used, gains(a="1111", b="0000")) == "a"
    assert next_turn(["a", "b"], used, gains(a="0000", b="1111")) == "b"
    assert next_turn(["a", "b"], {"a": 80.0, "b": 20.0}, gains(a="2222", b="1111")) == "b", "seconds count"


def test_the_latest_runs_count_most() -> None:
    quiet = "5555" + "0" * 40
    assert next_turn(["a", "b"], {"a": 44.0, "b": 44.0}, gains(a=quiet, b="1" * 44)) == "b"


def test_a_bug_outweighs_new_locations() -> None:
    found = [*gains(a="111", b="000"), Gain("b", FINDING)]
    assert next_turn(["a", "b"], {"a": 4.0, "b": 4.0}, [*found, Gain("a", 1.0)]) == "b"


def test_a_strategy_without_gains_keeps_a_share_of_the_time() -> None:
    assert next_turn(["a", "b"], {"a": 1000.0, "b": 20.0}, gains(a="9" * 100, b="0")) == "b"


def test_small_differences_of_time_do_not_change_the_turn() -> None:
    for seconds in (9.0, 10.0, 11.0):
        assert next_turn(["a", "b"], {"a": seconds, "b": 10.0}, gains(a="1111", b="1110")) == "a"
