"""Stored profiles of runs: each point is stored once, profiles are packed, and readers share decoded points."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from rounds import written

from undermine.model.plan import Plan
from undermine.model.point import Point
from undermine.model.run import RunRecord, RunStatus
from undermine.protocols import PointSeen, Profile
from undermine.store.database import CampaignStore, Slot
from undermine.testing import point

A, B, C = (point(loc=f"app:{name}#1") for name in "abc")


def again(store: CampaignStore) -> CampaignStore:
    """The store as the next session would find it."""
    store.close()
    return CampaignStore(store.folder)


def finish(
    store: CampaignStore, slot: Slot, run: int, points: Sequence[PointSeen], status: RunStatus = "fired", **more: Any
) -> None:
    store.finish_run(slot, RunRecord(run, slot.plan, status), (), "", points, more.pop("fired", ()), **more)


def shows(at: Point, order: int, after: int = 0, *, first: bool = True, frames: tuple[str, ...] = ()) -> PointSeen:
    return PointSeen(at, 3, 1, order, 10 + order, after, first, frames)


def profiled(store: CampaignStore, *points: PointSeen, status: RunStatus = "fired", strategy: str = "random") -> int:
    (slot,) = written(store, strategy, [Plan()])
    run = store.begin_run(slot)
    finish(store, slot, run, points, status)
    return run


def test_a_profile_has_exactly_the_points_of_its_run(store: CampaignStore) -> None:
    one = profiled(store, shows(C, 0, 2), shows(A, 1, first=False))
    two = profiled(store, shows(B, 0, 1, first=False), shows(A, 1, 300))
    expected = {
        one: Profile(frozenset({A, C}), frozenset({C}), frozenset({C})),
        two: Profile(frozenset({A, B}), frozenset({A, B}), frozenset({A})),
    }
    assert {run: store.profile(run) for run in (one, two)} == expected
    reopened = again(store)
    assert {run: reopened.profile(run) for run in (two, one)} == expected, "not the same in the next session"
    reopened.close()


@pytest.mark.parametrize("fill", [False, True])
def test_broken_running_and_unknown_runs_have_no_profile(store: CampaignStore, fill: bool) -> None:
    (slot,) = store.write_round("random", [Plan()])
    broken = store.begin_run(slot)
    finish(store, slot, broken, [shows(A, 0, 1)], "broken", fill=fill)
    under_way = store.begin_run(slot)
    assert store.profile(broken) == store.profile(under_way) == store.profile(99) == Profile()


def test_a_run_that_showed_nothing_has_an_empty_profile(store: CampaignStore) -> None:
    assert store.profile(profiled(store)) == Profile()


def test_the_profile_of_the_fault_free_runs_is_their_union(store: CampaignStore) -> None:
    assert store.baseline_profile() == Profile()
    profiled(store, shows(A, 0, 1, first=False), shows(B, 1, 1, first=False), strategy="baseline")
    profiled(store, shows(A, 0, 1), strategy="baseline")
    profiled(store, shows(C, 0, 1), status="broken", strategy="baseline")
    profiled(store, shows(C, 0, 1))
    assert store.baseline_profile() == Profile(frozenset({A, B}), frozenset({A, B}), frozenset({A}))


def test_facts_of_fault_free_runs_about_a_point_are_merged(store: CampaignStore) -> None:
    profiled(store, shows(A, 0, 2, first=False, frames=("m:f",)), strategy="baseline")
    profiled(store, shows(A, 0, 7), strategy="baseline")
    assert store.baseline_points() == ((PointSeen(A, 3, 2, 0, 10, 7, True, ("m:f",)),), 2)


def test_points_are_decoded_once_and_shared(store: CampaignStore) -> None:
    one, two = profiled(store, shows(A, 0)), profiled(store, shows(A, 0), shows(B, 1))
    (shared,) = store.profile(one).points
    assert any(found is shared for found in store.profile(two).points)
    assert any(found is shared for found in store.profile(two).first)


def test_the_frames_of_a_point_are_those_of_the_run_that_showed_it_first(store: CampaignStore) -> None:
    profiled(store, shows(A, 0, frames=("m:f", "m:ü.<locals>.g")))
    assert store.frames(A) == ("m:f", "m:ü.<locals>.g")
    assert store.frames(B) == ()
    profiled(store, shows(B, 0, frames=("m:b",)))
    assert store.frames(B) == ("m:b",), "a point that was stored later is not known"
    reopened = again(store)
    assert (reopened.frames(A), reopened.frames(C)) == (("m:f", "m:ü.<locals>.g"), ())
    reopened.close()


def test_numbers_of_points_of_a_failed_transaction_are_reused(store: CampaignStore) -> None:
    """Points of a failed transaction are in no profile, even if other points get their numbers."""
    kept = profiled(store, shows(A, 0))
    (slot,) = store.write_round("random", [Plan()])
    run = store.begin_run(slot)
    wrong: Any = [(0, B.id, "crash")]
    with pytest.raises(sqlite3.ProgrammingError):
        finish(store, slot, run, (shows(B, 0), shows(A, 1)), fired=wrong)
    assert store.profile(run) == Profile()
    assert store.frames(B) == ()
    finish(store, slot, run, (shows(C, 0), shows(A, 1)))
    later = profiled(store, shows(B, 0))
    assert [store.profile(n).points for n in (kept, run, later)] == [{A}, {A, C}, {B}]


def test_two_concurrent_sessions_see_each_others_points(store: CampaignStore) -> None:
    """For example, a report is created during a hunt."""
    beside = CampaignStore(store.folder)
    one = profiled(store, shows(A, 0), shows(B, 1))
    assert beside.profile(one).points == {A, B}
    two = profiled(beside, shows(C, 0))
    three = profiled(store, shows(C, 0), shows(A, 1))
    assert (store.profile(two).points, beside.profile(three).points) == ({C}, {A, C})
    beside.close()


def test_points_before_another_one_are_known_by_their_ranks(store: CampaignStore) -> None:
    ranks = {A: 2, B: 1, C: 3}
    run = profiled(store, *(msgspec.structs.replace(shows(at, 0), rank=rank) for at, rank in ranks.items()))
    unranked = profiled(store, shows(A, 0), shows(B, 1))
    assert store.shown_before(run, C.id) == {A, B}
    assert store.shown_before(run, A.id) == {B}
    assert store.shown_before(run, B.id) == store.shown_before(run, "unknown") == frozenset()
    assert store.shown_before(unranked, B.id) == store.shown_before(99, B.id) == frozenset()


def test_a_profile_of_an_earlier_version_has_no_ranks(store: CampaignStore) -> None:
    run = profiled(store, *(msgspec.structs.replace(shows(at, 0), rank=rank) for rank, at in enumerate((A, B), 1)))
    ((packed,),) = store._all("SELECT packed FROM profiles WHERE run = ?", run)
    older = zlib.compress(msgspec.msgpack.encode(msgspec.msgpack.decode(zlib.decompress(packed))[:4]))
    with store._change() as db:
        db.execute("UPDATE profiles SET packed = ? WHERE run = ?", (older, run))
    assert store.profile(run).points == {A, B}
    assert store.shown_before(run, B.id) == frozenset()


def test_profiles_of_many_runs_take_little_space(store: CampaignStore) -> None:
    """A point of a run takes a byte or two, since its keys are stored only once."""
    points = [point(loc=f"app:function_{n}#1", target=f"some/file/{n}") for n in range(1500)]
    for number in range(20):
        profiled(store, *(shows(at, n, n % 7, first=n % 5 > 0) for n, at in enumerate(points) if n % 50 != number))
    ((size,),) = store._all("SELECT SUM(LENGTH(packed)) FROM profiles")
    assert size < 20 * 1500
    assert store._all("SELECT COUNT(*) FROM points") == [(1500,)]
    assert store.profile(3).points == set(points) - {at for n, at in enumerate(points) if n % 50 == 2}
