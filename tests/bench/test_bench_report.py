"""The benchmark's campaign: the report shows all its runs, its source and its findings."""

from __future__ import annotations

from pathlib import Path

from bench import report as bench
from undermine.report.html import write_report


def test_the_campaign_is_whole(tmp_path: Path) -> None:
    bench.build(tmp_path, 150)
    page = write_report(tmp_path / ".undermine" / "campaigns" / "large").read_text()
    assert "Runs 1 to 150" in page
    assert "shop/module_0.py" in page
    assert 'class="mark"><span aria-hidden="true">✕</span>' in page, "a bug is at a line"
    assert "dropped: " in page
    assert 'class="card ' in page
    assert "<script>alert" not in page
