"""The number of runs that a worker has at a time follows from how late they were."""

from __future__ import annotations

from undermine.fleet.tempo import Tempo


def after(tempo: Tempo, *late_ms: float) -> int:
    """The number of places after full rounds of runs that were this late."""
    for late in late_ms:
        for _ in range(tempo.places):
            tempo.note(late, tempo.places)
    return tempo.places


def test_a_worker_begins_with_one_run_and_gets_more_while_it_is_on_time() -> None:
    tempo = Tempo(3, 500)
    assert tempo.places == 1
    assert after(tempo, 10, 10) == 2
    assert after(tempo, 10, 10) == 3
    assert after(tempo, *[10] * 20) == 3, "it has no more cores"


def test_a_late_run_takes_a_place_away() -> None:
    tempo = Tempo(4, 500)
    assert after(tempo, 10, 10, 10, 10) == 3
    tempo.note(501, beside=3)
    assert tempo.places == 2


def test_runs_that_began_before_the_place_was_taken_away_take_no_more() -> None:
    tempo = Tempo(4, 500)
    after(tempo, 10, 10, 10, 10)
    for _ in range(3):
        tempo.note(501, beside=3)
    assert tempo.places == 2


def test_a_late_run_without_company_says_nothing() -> None:
    tempo = Tempo(4, 500)
    tempo.note(5000, beside=1)
    assert tempo.places == 1
    after(tempo, 10, 10)
    tempo.note(5000, beside=1)
    assert tempo.places == 2


def test_a_worker_that_was_late_must_be_on_time_for_longer() -> None:
    tempo = Tempo(2, 500)
    after(tempo, 10, 10)
    tempo.note(501, beside=2)
    assert after(tempo, 10, 10, 10) == 1
    assert after(tempo, 10) == 2


def test_runs_that_are_nearly_late_or_do_not_fill_the_worker_earn_nothing() -> None:
    tempo = Tempo(4, 500)
    assert after(tempo, *[400] * 20) == 1
    after(tempo, 10, 10)
    for _ in range(20):
        tempo.note(10, beside=1)
    assert tempo.places == 2
