"""The bug report in Markdown: its parts, and that nothing in it can be more than text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from report_campaigns import CampaignMaker, at_s, event, plan, point, record

from undermine.model.faults import Crash
from undermine.model.finding import Bound, Finding, Window
from undermine.model.plan import Plan, Work
from undermine.model.run import Moment, Receipt, Verdict
from undermine.report.explain.issue import issue, prose

WHERE = point("s2", "file.write", "app.disk:Disk.append#0", "log")
PLAN = plan(Crash(), WHERE)
HOSTILE = "```\n# heading <script>x</script> [link](http://evil) @maintainer www.evil.org `code \x1b[31m"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "disk.py").write_text("class Disk:\n    def append(self):\n        print(1)\n")
    return tmp_path


def report(project: Path, text: str = "2 puts are lost", **more: Any) -> str:
    identity = {
        "version": "0.1.0",
        "config": str(project / "undermine.toml"),
        "significant": {"params": {"version": "1.2", "fixes": ""}, "roles": {}},
    }
    maker = CampaignMaker(project / "campaign", identity)
    verdict = Verdict("fail", text, "put lost", (f"evidence: {text}",), "ledger")
    receipts = (Receipt(0, "s2", "crash", at_s(2), 100, 3, detail=text),)
    moments = (Moment(0, "s2", at_s(2), WHERE, "log", 3, 100),)
    struck = event("s2", 3, 2.0, "file.write", "app.disk:Disk.append#0", target="log", line=3)
    maker.run("random", PLAN, made=record(1, PLAN, receipts, moments=moments), verdicts=(verdict,), events=(struck,))
    fields = {"tries": 5, "hits": 4, "control_tries": 5, "shown_by": 1, **more}
    fields = {"title": text, "verdicts": (verdict,), **fields}
    found = Finding(id="F1", symptom="put lost", plan=PLAN, runs=(1,), strategies=("random",), **fields)
    return issue(maker.store, found, " -c app")


def test_a_report_has_everything_that_a_maintainer_asks_for(project: Path) -> None:
    text = report(project)
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert headings == [
        "# Put lost if a store is killed before writing to `log`",
        "## Versions",
        "## Steps to reproduce",
        "## Expected",
        "## Actual",
        "## Evidence",
    ]
    assert "s2 was killed before it wrote to `log`; then: 2 puts are lost." in text
    assert "- `version`: `1.2`\n" in text
    assert "`fixes`" not in text
    assert "1. Start a cluster (1 × master, 3 × store) and run the workload.\n2. Inject `crash before file.write log at " in text
    assert "```\nundermine replay F1 -c app\n```" in text
    assert "`undermine bundle F1 -c app`" in text
    assert "The check `ledger` passes in spite of the fault.\n" in text
    assert "Evidence of the check `ledger`:" in text
    assert "It failed in 4 of 5 runs with the fault, and 0 of 5 without the fault." in text
    assert "+2.000 s  crash of s2" in text
    assert "`app/disk.py`, in `Disk.append`:" in text
    assert "3          print(1)    <- the fault was injected before this operation" in text
    assert "granary.store:Store.handle#1" in text
    assert plan_in(text) == PLAN


def plan_in(text: str) -> Plan:
    return msgspec.json.decode(text.partition("```json\n")[2].partition("\n")[0], type=Plan)


def test_the_plan_survives_unusual_names(project: Path) -> None:
    odd = plan(Crash(), point("s2", "file.write", "app.disk:f#0", "lo\u202eg\x1b`` ```"))
    assert plan_in(report(project, smallest=odd)) == odd


def test_the_evidence_is_that_of_the_symptom(project: Path) -> None:
    worse = Verdict("fail", "s2 does not serve", "no service", ("s2: no answer",), "liveness")
    own = Verdict("fail", "2 puts are lost", "put lost", ("put 7 is lost",), "ledger")
    text = report(project, verdicts=(worse, own), title="s2 does not serve")
    assert "Evidence of the check `ledger`:\n\n```\nput 7 is lost\n```" in text


def test_a_finding_that_is_not_confirmed_says_so(project: Path) -> None:
    text = report(project, tries=3, hits=0)
    assert "It failed in 0 of 3 runs with the fault" in text
    assert "None of 3 re-runs with the long wait showed it again." in text


def test_the_smallest_plan_is_reported_with_its_window(project: Path) -> None:
    smallest = Plan(PLAN.steps, 7, work=Work(("reads",)))
    window = Window(WHERE, Bound(WHERE, 3), None, 5)
    text = report(project, smallest=smallest, smallest_rate="5/5", window=window)
    assert "and run only reads of the workload." in text
    assert "undermine replay F1 --smallest -c app" in text
    assert "the smallest plan that fails as often (5/5)" in text
    assert "The window: any crash of s2 after it wrote to `log` (`app.disk:Disk.append`, line 3) fails" in text


def test_texts_of_the_target_stay_texts(project: Path) -> None:
    text = report(project, HOSTILE)
    outside: list[str] = []
    fence = ""
    for line in text.splitlines():
        if not fence and (found := re.match("`{3,}", line)):
            fence = found[0]
        elif fence and line == fence:
            fence = ""
        elif not fence:
            outside.append(line)
    assert fence == "", "every block has an end"
    plain = re.sub(r"`[^`]*`", "", "\n".join(outside)).replace("<details><summary>", "").replace("</summary>", "")
    assert "<script" not in plain.replace(r"\<", "")
    assert "@maintainer" not in plain
    assert "://" not in plain
    assert "www." not in plain
    assert "\x1b" not in text
    assert [line for line in outside if line.startswith("# ")] == [text.splitlines()[0]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a `b*c` d*e", r"a `b*c` d\*e"),
        ("a ` b", "a ' b"),
        ("`a` and ` b", "`a` and ' b"),
        ("[x](y) #7 <b> @me a@b", r"\[x\](y) \#&#8203;7 \<b\> @&#8203;me a@&#8203;b"),
        ("http://a www.b", "http:&#8203;//a www&#8203;.b"),
        ("``a `b` c``", "`a `b` c`"),
        ("``` a", "' a"),
        ("a\n# b", r"a \#&#8203; b"),
    ],
)
def test_only_pairs_of_backticks_mean_something(text: str, expected: str) -> None:
    assert prose(text, 200) == expected


@given(st.lists(st.sampled_from(["`", "``", "<b>", "![x](y)", "*", "\\", " ", "a", "\n", "&lt;"]), max_size=12))
def test_no_text_is_more_than_text_and_code(parts: list[str]) -> None:
    tokens = MarkdownIt("commonmark").parse(f"A {prose(''.join(parts), 200)}")
    inline = [child.type for token in tokens for child in token.children or ()]
    assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"]
    assert set(inline) <= {"text", "code_inline", "text_special"}
