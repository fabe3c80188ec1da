"""The figures of the benchmark of labels."""

from __future__ import annotations

from story import Story

from bench.labels import Flow, Quality, Tiers, against_labels, quality
from undermine.model.columns import Columns


def test_each_flow_counts_the_same() -> None:
    flows = {"exact": Flow(100, 100, 100), "lost": Flow(4, 0, 0), "wide": Flow(1, 4, 1), "none": Flow(0, 0, 0)}
    assert quality(flows) == Quality(4, 0.8125, 0.75, ("lost",), ("wide",))


def test_evidence_is_right_if_both_operations_have_common_bytes() -> None:
    story = Story()
    story.did("read", "file.read", "/r/n1/in", target="in")
    for name, labels in (("a", "0-4"), ("b", ""), ("c", "2-6")):
        story.did(name, "file.write", f"/r/n1/{name}", target=name, stack=(name,))
        if labels:
            number = story.events["read"].seq
            story.did(f"{name}'s", "content.labels", f"{number}:{labels}", size=story.events[name].seq, target="")
    found = against_labels(Columns.of(story.events.values()))
    assert found["label"] == Tiers(1, 1.0, 1.0, 1.0)
    assert found["activity"] == Tiers(2, 0.0, 0.0, 1.0), "a with b, b with c: c is a second call site for both"
