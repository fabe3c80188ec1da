"""Which operations of a run with a fault belong to its recovery."""

from __future__ import annotations

from story import Story

from undermine.analysis.conflicts.origins import Origins
from undermine.analysis.conflicts.recovery import Usual, recovery


def recovered(good: Story, bad: Story, *pairs: tuple[str, str], at: float, named: tuple[str, ...] = ()) -> set[str]:
    usual = Usual([good.analysed(*(pair for pair in pairs if pair[0] in good.events))] * 2)
    found = recovery(Origins(bad.analysed(*pairs)), int(at * 1000), usual, named)
    return {bad.name(row) for row in range(len(found)) if found[row]}


def test_a_restarted_node_recovers_until_messages_ask_for_more() -> None:
    good, bad = Story(), Story()
    good.did("serve", "file.write")
    good.did("ask", "net.send", pid=2, at="app:serve#1")
    good.did("asked", "net.recv", at="app:serve#1")
    bad.did("serve", "file.write")
    bad.did("boot", "file.open", pid=11, node="n1", incarnation=2, at="app:serve#1")
    bad.did("ask", "net.send", pid=2, at="app:serve#1")
    bad.did("asked", "net.recv", pid=11, node="n1", incarnation=2, at="app:serve#1")
    bad.did("work", "file.write", pid=11, node="n1", incarnation=2, at="app:serve#1")
    assert recovered(good, bad, ("ask", "asked"), at=1.9) == {"boot", "asked"}


def test_functions_that_only_the_faulty_run_calls_are_recovery_with_their_effects() -> None:
    good, bad = Story(), Story()
    for story in (good, bad):
        story.did("serve", "file.write")
        story.did("usual", "file.write")
    bad.did("convict", "net.send")
    bad.did("told", "net.recv", pid=2, at="app:serve#1")
    bad.did("effect", "file.write", pid=2, at="app:serve#1")
    assert recovered(good, bad, ("convict", "told"), at=1.5) == {"convict", "told", "effect"}


def test_the_user_may_name_functions() -> None:
    good, bad = Story(), Story()
    for story in (good, bad):
        story.did("serve", "file.write")
        story.did("take_over", "file.write")
    assert recovered(good, bad, at=1.5) == set()
    assert recovered(good, bad, at=1.5, named=("app:take_over",)) == {"take_over"}


def test_a_message_that_comes_once_more_than_usual_is_recovery() -> None:
    good, bad = Story(), Story()
    for story in (good, bad):
        story.did("start", "net.send", pid=2)
        story.did("started", "net.recv")
    bad.did("again", "net.send", pid=2, at="app:start#1")
    bad.did("restarted", "net.recv", at="app:started#1")
    bad.did("work", "file.write", at="app:started#1")
    pairs = (("start", "started"), ("again", "restarted"))
    assert recovered(good, bad, *pairs, at=2.9) == {"restarted", "work"}
