"""The page: complete for a good campaign, in one piece for a damaged one, and safe against what targets write."""

from __future__ import annotations

import os
import re
import stat
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest
from report_campaigns import CampaignMaker, at_s, event, op, plan, point, record
from report_samples import sample
from tables import for_each

from undermine.model.errors import UserError
from undermine.model.event import ProcessStacks, ThreadStack
from undermine.model.faults import Crash, Delay, Error, Pause, Reboot
from undermine.model.finding import Bound, Finding, Realism, ShownSymptom, Variant, Window
from undermine.model.plan import At, Compare, FirstUnseen, Lasted, Plan, Step, Then, When
from undermine.model.point import CLIENT, Point
from undermine.model.predictions.candidate import Evidence, Reason
from undermine.model.run import HealthSample, Moment, NodeExit, Receipt, Timing, Verdict
from undermine.protocols import PointSeen
from undermine.report import data, head, html
from undermine.report.card import certainty_of
from undermine.report.html import write_report
from undermine.report.stacks import process_rows
from undermine.store.database import CampaignStore

WHERE = point("s2", "file.write", "granary.disk:append#1", "log")
HOSTILE = (
    "</pre></title><script>alert('x')</script><img src=x onerror=alert(1)>\"'{{ 7*7 }}\x00\x08\x1b[31m\u202e\ud800"
)
VOID = frozenset({"meta", "br", "input", "link", "img", "hr"})


class Page(HTMLParser):
    """The page as a browser would see it; unbalanced tags are an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.raw = text
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("style", "script"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())

    def ids(self) -> list[str]:
        return [attrs["id"] or "" for _, attrs in self.tags if "id" in attrs]


def page(folder: Path) -> Page:
    return Page(write_report(folder).read_text())


def failing(
    text: str = "data is lost", evidence: tuple[str, ...] = ("k1 is gone",), checker: str = "ledger"
) -> Verdict:
    return Verdict("fail", text, text, evidence, checker)


def one_finding(tmp_path: Path, **more: Any) -> tuple[CampaignMaker, Finding]:
    """A campaign with one failing run, and its finding."""
    made = CampaignMaker(tmp_path / "c")
    what = plan(Crash(), WHERE, why="it may hurt")
    receipts = [Receipt(0, "s2", "crash", at_s(1.2), 100, 7, 0, "before file.write log")]
    fields: dict[str, Any] = {"made": record(0, what, receipts), "history": [op(0, "c", "put", 1.1, 1.3)], **more}
    run = made.run("random", what, **{"verdicts": [failing()], **fields})
    finding = Finding("F1", "data is lost", "data is lost", what, (run,), ("random",), (failing(),), 3, 3)
    made.findings(finding)
    return made, finding


def test_a_card_says_in_words_and_source_lines_what_happened(tmp_path: Path) -> None:
    (tmp_path / "granary").mkdir()
    (tmp_path / "granary" / "disk.py").write_text("def append(log):\n    print('<b>')\n    open(log)\n")
    struck = event("s2", 7, 1.2, "file.write", "granary.disk:append#1", target="log", line=3)
    moments = (Moment(0, "s2", at_s(1.2), WHERE, "log", 7, 100),)
    what = plan(Crash(), WHERE)
    receipts = [Receipt(0, "s2", "crash", at_s(1.2), 100, 7)]
    made, finding = one_finding(tmp_path, made=record(0, what, receipts, moments=moments), events=[struck])
    window = Window(WHERE, None, Bound(WHERE, 3, ("granary.disk:append#1",)), 4)
    made.findings(msgspec.structs.replace(finding, window=window))
    made.store.set_meta("identity", {"config": str(tmp_path / "undermine.toml"), "significant": {}})
    found = page(made.close())
    assert "Data is lost if a store is killed before writing to log" in found.text
    assert "s2 was killed before it wrote to log; then: data is lost" in found.text
    assert "any crash of s2 before it wrote to log (granary.disk:append, line 3) fails; after that it passes" in found.text
    assert "granary/disk.py append" in found.text
    assert "def append(log): print('<b>') open(log) ↑ the window closes here" in found.text
    assert "<b>')" not in found.raw


# --- a good campaign


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Page:
    return page(sample(tmp_path_factory.mktemp("good") / "c"))


def test_the_head_says_it_in_one_sentence(good: Page) -> None:
    assert "granary" in good.text
    assert "seed 7" in good.text
    assert "undermine 0.1.0" in good.text
    assert (
        "3 bugs, 1 confirmed with controls, 1 reproduced sometimes, 1 not re-run; 1 suspicion could not be reproduced."
        in good.text
    )


def test_the_most_certain_finding_comes_first(good: Page) -> None:
    assert [i for i in good.ids() if re.fullmatch(r"F\d", i)] == ["F2", "F1", "F3", "F4"]


@for_each(
    "words",
    [
        "2 acknowledged writes are gone after the reboot of s2",
        "reboot before file.write shard-<n>/log on s2",
        "at granary.shard_disk:ShardDisk.append#2 line 118",
        "at occurrence 3, once after net.send peer:s1",
        "random in 2 runs, exhaustive in 1 run, 5 confirmation runs",
        "undermine replay F2 --campaign c",
        "the final read at 3.512 s says v10",
        "+1.412 s",
        "the workload failed: 2 of 61 keys differ",
        "granary.process:main#3",
        "appended record 79 to shard-1",
        "cutting it",
        "not reproduced, 0 of 5",
        "reproduced 3 of 5",
        "8.000 s",
        "15 of 21 points",
        "8 of 9 source locations",
        "4 of 4 fault kinds",
        "step 1 of 1 never reached its trigger",
        "reproduced 5 of 5, 0 of 5 without the fault",
        "5/5 with the fault, 0/5 without the fault",
        "3/5 with the fault, no control",
        "None of 5 re-runs with the long wait showed it again.",
        "Timeline run 7",
        "granary.durable:replace_file#4",
        "crash before file.rename state.tmp -> state",
        "s2: shard-<*>/log ends in a torn record, cutting it",
        "worker-1 thread; waits for lock@7f31, held by worker-2 since granary.assignment:Assignments.save:43",
        "worker-2 thread; holds lock@7f31",
        "1 process, 1 stuck thread or task",
        "3 threads and tasks, 1 stuck",
        "held, no fault",
        "fault-free",
    ],
)
def test_the_page_says(good: Page, words: str) -> None:
    assert words in good.text


def test_the_growth_of_coverage_is_drawn(good: Page) -> None:
    labels = [attrs.get("aria-label") or "" for tag, attrs in good.tags if tag == "svg" and attrs.get("class") == "gr"]
    assert len(labels) == 2
    assert re.fullmatch(r"8 source locations after \d+ experiments", labels[0])
    assert re.fullmatch(r"\d+ recovery class(es)? after \d+ experiments", labels[1])
    assert "8 source locations hit dashed line: all 9" in good.text


def test_the_parts_come_in_order(good: Page) -> None:
    wanted = ["findings", "coverage", "runs", "help"]
    assert [i for i in good.ids() if i in wanted] == wanted
    assert len(good.ids()) == len(set(good.ids()))


def test_the_page_needs_no_network(good: Page) -> None:
    assert not re.search(r"(src|href)=\"(?!#)", good.raw)
    assert "url(" not in good.raw
    assert "@import" not in good.raw


def test_only_the_own_script_may_run(good: Page) -> None:
    (policy,) = [a["content"] or "" for t, a in good.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert re.search(r"script-src 'sha256-[A-Za-z0-9+/=]{44}'", policy)
    assert [t for t, _ in good.tags].count("script") == 1


# --- coverage


def recovering(tmp_path: Path) -> CampaignMaker:
    """Two strategies; recovery goes through one more place, then through two."""
    made = CampaignMaker(tmp_path / "c")
    more = [point("s1", "file.read", f"granary.repair:{name}#1") for name in ("scan", "fetch")]
    made.run("baseline", Plan(), points=[PointSeen(WHERE, 1, 1, 0, 9)], verdicts=[Verdict.ok()])
    for number, (strategy, shown) in enumerate((("random", 1), ("exhaustive", 1), ("exhaustive", 2), ("random", 2))):
        what = plan(Crash(), WHERE, nth=1 + number, strategy=strategy)
        receipts = [Receipt(0, "s2", "crash", at_s(1))]
        points = [
            PointSeen(at, 1, 1, order, frames=(at["loc"].partition("#")[0],))
            for order, at in enumerate((WHERE, *more[:shown]))
        ]
        made.run(strategy, what, made=record(0, what, receipts), points=points, verdicts=[Verdict.ok()])
    return made


def test_recovery_is_counted_and_drawn(tmp_path: Path) -> None:
    shown = page(recovering(tmp_path).close())
    assert "0 of 2 recovery points" in shown.text
    assert "2 recovery classes last new one 1 run ago; 2 by source location" in shown.text
    labels = [attrs.get("aria-label") for tag, attrs in shown.tags if tag == "svg" and attrs.get("class") == "gr"]
    assert labels == ["1 source location after 4 experiments", "2 recovery classes after 4 experiments"]


def test_coverage_by_strategy_is_a_table(tmp_path: Path) -> None:
    shown = page(recovering(tmp_path).close())
    assert (
        "Strategy Findings Experiments Already tried Still to run Pruned Points Locations Recovery classes First to show "
        "random 0 2 0 0 0 1 1 2 1 exhaustive 0 2 0 0 0 1 1 2 1"
        in spaced(shown.raw)
    )


def test_confirmed_predictions_come_first(tmp_path: Path) -> None:
    made = CampaignMaker(tmp_path / "c")
    plans = [plan(Crash(), WHERE, nth=1 + n, strategy="fcatch", why=f"reason {n}") for n in range(3)]
    made.store.write_round("fcatch", plans[:2], (), {each.id: (Reason("a wait"),) for each in plans[:2]})
    runs = []
    for number, what in enumerate(plans):
        verdict = Verdict.fail("it hangs") if number == 1 else Verdict.ok()
        received = record(0, what, [Receipt(0, "s2", "crash", at_s(1))])
        runs.append(made.run("fcatch", what, made=received, verdicts=[verdict]))
    made.findings(Finding("F1", "it hangs", "it hangs", plans[1], (runs[1],), ("fcatch",), (), tries=2, hits=2))
    shown = spaced(page(made.close()).raw)
    assert "what became of them: 1 confirmed, 1 not reproduced." in shown
    table = shown[shown.index("Outcome Strategy Plan Why Run") : shown.index("All runs")]
    assert table.index("confirmed F1 fcatch") < table.index("not reproduced fcatch")
    assert "reason 2" not in table, "a plan without a reason is no prediction"


def spaced(raw: str) -> str:
    """The words of a page, with a space wherever a tag is."""
    return " ".join(re.sub(r"<[^>]*>", " ", raw).split())


# --- damage


def test_no_campaign_is_a_clear_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no campaign"):
        write_report(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


def test_no_runs_at_all(tmp_path: Path) -> None:
    CampaignStore(tmp_path / "c").close()
    shown = page(tmp_path / "c")
    assert "No run has finished yet." in shown.text
    assert "seed unknown" in shown.text


def test_nothing_found(tmp_path: Path) -> None:
    made = CampaignMaker(tmp_path / "c")
    made.run("baseline", Plan(), points=[PointSeen(WHERE, 1, 1, 0, 9)], verdicts=[Verdict.ok()])
    what = plan(Crash(), WHERE)
    made.run("random", what, made=record(0, what, [Receipt(0, "s2", "crash", at_s(1))]), verdicts=[Verdict.ok()])
    shown = page(made.close())
    assert "Nothing found in 2 runs, 1 of them with a fault that fired." in shown.text
    assert "1 of 1 points" in shown.text


def test_runs_without_a_fault_say_nothing(tmp_path: Path) -> None:
    made = CampaignMaker(tmp_path / "c")
    made.run("baseline", Plan())
    assert "No fault has fired in 1 run" in page(made.close()).text


def test_a_missing_run_folder_is_said_in_place(tmp_path: Path) -> None:
    made, finding = one_finding(tmp_path)
    made.dir(finding.runs[0]).path.rename(tmp_path / "away")
    shown = page(made.close())
    assert "Run 1 cannot be shown: its folder is gone" in shown.text
    assert "no run of this finding can be read" in shown.text
    assert "k1 is gone" in shown.text


def test_the_next_run_is_shown_where_the_first_is_damaged(tmp_path: Path) -> None:
    made, finding = one_finding(tmp_path)
    receipts = [Receipt(0, "s2", "crash", at_s(1.7))]
    again = made.run("confirm", finding.plan, made=record(0, finding.plan, receipts), verdicts=[failing()])
    made.findings(msgspec.structs.replace(finding, runs=(finding.runs[0], again)))
    made.dir(finding.runs[0]).record.write_bytes(b'{"id": 1, "plan"')
    shown = page(made.close())
    assert "its record is damaged or missing" in shown.text
    assert "Timeline run 2" in shown.text
    assert "+1.700 s" in shown.text


def test_damaged_history_and_trace_are_done_without(tmp_path: Path) -> None:
    made, finding = one_finding(tmp_path)
    run = made.dir(finding.runs[0])
    run.history.write_bytes(b'\xff\xfe{"index"\n[]\n')
    (run.trace / "s2.1.100.events").write_bytes(b"\x00garbage" * 99)
    shown = page(made.close())
    assert "s2.1.100.events at 0" in shown.text
    assert "+1.200 s" in shown.text


def test_a_trace_reader_that_fails_does_not_stop_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Path) -> None:
        raise ValueError("cannot happen")

    made, _ = one_finding(tmp_path)
    monkeypatch.setattr("undermine.report.card.read_columns", broken)
    assert "the trace cannot be read: cannot happen" in page(made.close()).text


def test_a_finding_without_receipts_is_doubted(tmp_path: Path) -> None:
    made, _ = one_finding(tmp_path, made=record(0, plan(Crash(), WHERE)))
    assert "nothing proves that the fault took effect" in page(made.close()).text


def test_a_finding_without_verdicts_runs_or_steps(tmp_path: Path) -> None:
    made = CampaignMaker(tmp_path / "c")
    made.findings(Finding("F1", "it is odd", "it is odd", Plan(), (), (), ()))
    shown = page(made.close())
    assert "it is odd" in shown.text
    assert "No fault was injected." in shown.text


def test_every_kind_of_trigger_can_be_told(tmp_path: Path) -> None:
    made = CampaignMaker(tmp_path / "c")
    triggers = (
        At(WHERE, nth=4),
        Then(At(WHERE), At(WHERE)),
        When((Compare("x", "!=", other="y"),)),
        FirstUnseen(("loc", "stack")),
    )
    steps = tuple(Step(trigger, Reboot(0.5), until=At(WHERE, "after")) for trigger in triggers)
    made.findings(Finding("F1", "s", "t", Plan(steps), (), ("random",), ()))
    shown = page(made.close())
    for words in (
        "step 4",
        "at occurrence 4",
        "when x is not y",
        "before the first unseen loc+stack",
        "started again 0.5 s later",
    ):
        assert words in shown.text


# --- hostile targets


def test_hostile_text_everywhere(tmp_path: Path) -> None:
    loud = HOSTILE.replace("\ud800", "")  # stored text has no surrogates, logs may
    made = CampaignMaker(
        tmp_path / "c", {"version": loud, "config": f"/x/{loud}.toml", "significant": {"hunt": {"seed": loud}}}
    )
    where = point(loud, loud, loud, loud)
    what = Plan((Step(At(where), Error(loud)),), 1, loud, loud)
    big = loud + "A" * 3_000_000
    long = loud + "A" * 5_000
    doing = ThreadStack(long, (long, *[loud] * 100), (loud,), (loud, *[long] * 20), loud, loud)
    made_record = record(
        0,
        what,
        [Receipt(0, loud, loud, at_s(1.2), 100, 7, 5, big)],
        [NodeExit(loud, 1, 1, at_s(0), at_s(2), False, big)],
        health=tuple(HealthSample(node, at_s(1.5), long) for node in (loud, "s2") for _ in range(500)),
        stacks=tuple(ProcessStacks(loud, 1, 100, at_s(2), (doing,) * 50, big) for _ in range(3)),
    )
    news = Verdict("pass", loud, "", (loud, big, *[long] * 100), "logs")
    verdicts = [failing(loud, (big, *[loud] * 500), loud), failing(big, (), "second"), news]
    logs = {"s2.1.err": b"\xff\xfe" + loud.encode() * 40_000, "s2.1.out": b"B" * 5_000_000}
    run = made.run(
        loud,
        what,
        made=made_record,
        history=[op(0, loud, loud, 1, 2, "fail", node=loud, args={loud: big}, error=big)],
        verdicts=verdicts,
        points=[PointSeen(where, 1, 1, 0, 3)],
        events=[event(loud, 7, 1.2, loud, loud, target=loud, thread=loud)],
        logs=logs,
    )
    second = made.run(
        "random",
        what,
        made=record(0, what, [Receipt(0, "s2", "crash", at_s(1.2))]),
        verdicts=verdicts,
        logs=logs,
    )
    findings = [
        Finding(
            "F1",
            loud,
            big,
            what,
            (run,),
            (loud,),
            tuple(verdicts[:2]),
            2,
            1,
            variants=tuple(Variant(long, what, 1) for _ in range(100)),
            suppressed=big,
        ),
        Finding("F2", "s", loud, what, (second,), ("random",), tuple(verdicts), 2, 2),
    ]
    made.findings(*findings)
    shown = page(made.close())
    tags = [tag for tag, _ in shown.tags]
    assert tags.count("script") == 1
    assert "img" not in tags
    assert not any(name.startswith("on") for _, attrs in shown.tags for name in attrs)
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e]", shown.raw)
    assert "49" not in shown.text.split("<script>alert")[1][:80]  # templates in text are not run
    assert "more characters" in shown.text
    assert "bytes come before it" in shown.text
    assert len(shown.raw.encode()) < 2_000_000


def test_a_card_and_the_table_of_runs_say_how_long_a_delay_really_lasted(tmp_path: Path) -> None:
    made = CampaignMaker(tmp_path / "c")
    what, real = plan(Delay(300.0), WHERE), (Lasted(0, 4.2, "clients finished"),)
    receipts = [Receipt(0, "s2", "delay", at_s(2.9), held_ns=4_200_000_000)]
    run = made.run("sieve", what, made=record(0, what, receipts, timing=Timing(faults=real)), verdicts=[failing()])
    made.run("sieve", plan(Delay(200.0), WHERE), made=record(0, plan(Delay(200.0), WHERE), status="not_fired"))
    made.findings(Finding("F1", "data is lost", "lost", what, (run,), ("sieve",), (failing(),), shown_by=run, lasted=real))
    text = page(made.close()).text
    assert text.count("held 4.2 s, until clients had finished") == 2
    assert "delay (held 4.2 s, until clients had finished) before" in text
    assert "up to 300 s" not in text
    assert "delay of up to 200 s before" in text, "it did not fire"


def test_nodes_that_a_fault_names_are_told_from_the_node_where_it_fires() -> None:
    rack = ("s1", "s2")
    when = When((Compare("s2.term", ">", "3"),))
    steps = (Step(At(point("m1", "net.send", "app:send#1", "peer:s3")), Crash(rack)), Step(when, Reboot(0.5, ("s2",))))
    first, second = data.injections(Plan(steps), {})
    assert (first.fault, first.node) == ("crash on s1, s2", "m1")
    assert (second.fault, second.node) == ("reboot on s2", "")


def test_the_place_to_which_a_step_is_bound_is_told() -> None:
    at = At(point("m1", "net.send", "app:send#1", "peer:s3"))
    steps = (Step(Then(at, at, same="node"), Delay()), Step(at, Delay(), same="process"))
    first, second = data.injections(Plan(steps), {})
    assert "was seen on the same node" in first.note
    assert second.note.startswith("in the process of the step before")


def test_a_node_name_cannot_lead_out_of_the_run_folder(tmp_path: Path) -> None:
    (tmp_path / "secret.1.err").write_text("do not show")
    receipts = [Receipt(0, "../../../../secret", "crash", at_s(1.2))]
    made, _ = one_finding(tmp_path, made=record(0, plan(Crash(), WHERE), receipts))
    link = made.dir(1).logs / "s2.1.err"
    link.symlink_to(tmp_path / "secret.1.err")
    assert "do not show" not in page(made.close()).text


def test_many_large_findings_and_runs_make_no_large_page(tmp_path: Path) -> None:
    made = CampaignMaker(tmp_path / "c")
    points = [point(f"s{i}", "file.write", f"granary.module{i}:function_with_a_long_name#1", "log") for i in range(700)]
    made.run("baseline", Plan(), points=[PointSeen(p, 1, 1, i, i) for i, p in enumerate(points)])
    evidence = tuple("<&\"'" * 200 for _ in range(100))
    findings = []
    history = [op(i, f"c{i % 5}", "put", 1 + i / 100, 1.1 + i / 100, "fail", error="<>" * 99) for i in range(200)]
    for number in range(60):
        what = plan(Crash(), points[number])
        receipts = [Receipt(0, "s2", "crash", at_s(1.2))]
        verdict = failing(f"symptom {number}", evidence)
        run = made.run(
            "random",
            what,
            made=record(0, what, receipts),
            history=history,
            verdicts=[verdict],
            logs={"s2.1.err": b"<&>\n" * 99},
        )
        findings.append(Finding(f"F{number + 1}", verdict.symptom, verdict.text, what, (run,), ("random",), (verdict,)))
    for number in range(520):
        made.run("exhaustive", plan(Crash(), points[number]), made=record(0, plan(Crash(), WHERE), status="not_fired"))
    made.findings(*findings)
    shown = page(made.close())
    assert len(shown.raw.encode()) < 2_000_000
    assert "This card is short" in shown.text
    assert "Runs 1 to 500 60 failing" in shown.text
    assert "Runs 501 to 581" in shown.text
    assert "400 more locations are not shown" in shown.text
    assert sum(attrs.get("class") == "failing" for _, attrs in shown.tags) == 60


def test_failing_runs_are_kept_if_not_all_runs_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "BYTES_MAX", 1_000)
    made, _ = one_finding(tmp_path)
    for _ in range(9):
        made.run("random", plan(Crash(), WHERE), made=record(0, plan(Crash(), WHERE), status="not_fired"))
    shown = page(made.close())
    numbers = re.findall(r"<tr class=\"(?:failing|not_fired)\"><td>(\d+)<", shown.raw)
    assert numbers[0] == "1"
    assert numbers[1:] == [str(n) for n in range(12 - len(numbers), 11)], "the newest of the others"
    assert f"{len(numbers)} of 10 runs are shown" in shown.text


def test_findings_that_do_not_fit_are_counted_and_not_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "_CARDS_BYTES_MAX", 20_000)
    made, first = one_finding(tmp_path)
    copies = (msgspec.structs.replace(first, id=f"F{n}", symptom=f"s{n}") for n in range(1, 31))
    made.findings(*copies)
    shown = page(made.close())
    cards = [attrs["id"] for tag, attrs in shown.tags if tag == "article"]
    assert 2 < len(cards) < 30
    assert f"{30 - len(cards)} more findings are not on this page" in shown.text
    links = {(attrs["href"] or "")[1:] for tag, attrs in shown.tags if tag == "a"}
    assert links <= set(shown.ids())


# --- the file


def test_the_page_lies_beside_the_database_and_is_private(tmp_path: Path) -> None:
    folder = CampaignMaker(tmp_path / "c").close()
    written = write_report(folder)
    assert written == folder / "report.html"
    assert stat.S_IMODE(written.stat().st_mode) & 0o077 == 0
    assert [p.name for p in folder.iterdir() if p.name.endswith(".tmp")] == []


def test_another_place_can_be_chosen_and_is_replaced(tmp_path: Path) -> None:
    folder = CampaignMaker(tmp_path / "c").close()
    other = tmp_path / "bugs.html"
    other.write_text("old")
    assert write_report(folder, other) == other
    assert other.read_text().startswith("<!doctype html>")
    assert not (folder / "report.html").exists()


def test_a_failed_write_keeps_the_old_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = CampaignMaker(tmp_path / "c").close()
    (folder / "report.html").write_text("old")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(UserError, match="No space left on device"):
        write_report(folder)
    assert (folder / "report.html").read_text() == "old"
    assert [p.name for p in folder.iterdir() if p.name.endswith(".tmp")] == []


def test_a_place_that_is_not_there_is_a_clear_sentence(tmp_path: Path) -> None:
    folder = CampaignMaker(tmp_path / "c").close()
    with pytest.raises(UserError, match="cannot be written"):
        write_report(folder, tmp_path / "no" / "page.html")


def test_control_characters_never_leave_the_templates() -> None:
    env = html.environment()
    assert env.from_string("{{ x }}").render(x=HOSTILE).count("\ufffd") == 4
    assert "<script" not in env.from_string("{{ x }}").render(x=HOSTILE)


# --- words


@pytest.mark.parametrize(
    ("config", "folder", "name"),
    [
        ("/home/me/granary/undermine.toml", "/x/c", "granary"),
        ("/home/me/granary/kafka.toml", "/x/c", "kafka"),
        ("undermine.toml", "/home/me/store/.undermine/campaigns/2026", "store"),
        ("", "/x/c", "c"),
    ],
)
def test_the_name_of_the_system(config: str, folder: str, name: str) -> None:
    assert head._system_name(config, Path(folder)) == name


def finding(**more: Any) -> Finding:
    fields: dict[str, Any] = {"verdicts": (failing(),), **more}
    return Finding("F", "data is lost", "data is lost", Plan(), (1,), ("random",), **fields)


RAN = [{"plan": plan(Crash(), WHERE), "status": "fired"}]


@pytest.mark.parametrize(
    ("findings", "words"),
    [
        ([finding(tries=5, hits=5)], "1 bug, reproduced every time."),
        (
            [finding(tries=5, hits=5), finding(tries=5, hits=5), finding()],
            "3 bugs, 2 reproduced every time, 1 not re-run.",
        ),
        ([finding(tries=5)], "No confirmed bug; 1 suspicion could not be reproduced."),
        (
            [finding(tries=5), finding(undecided=True), finding(tries=1, hits=1, undecided=True)],
            "No confirmed bug; 2 suspected, to be confirmed; 1 suspicion could not be reproduced.",
        ),
        ([finding(tries=3, hits=3, control_tries=3)], "1 bug, confirmed with a control."),
        (
            [
                finding(tries=3, hits=2, control_tries=3),
                finding(tries=3, hits=3, control_tries=3),
                finding(suppressed="x"),
            ],
            "2 bugs, confirmed with controls; 1 suppressed.",
        ),
        (
            [finding(tries=3, hits=3, control_tries=3, control_hits=1), finding(elsewhere=2)],
            "No confirmed bug; 1 suspicion could not be reproduced; 1 suspicion also appeared without the fault.",
        ),
        ([], "Nothing found in 1 run, 1 of them with a fault that fired."),
    ],
)
def test_the_sentence(findings: list[Finding], words: str) -> None:
    assert head.sentence(findings, RAN) == words


def test_having_found_nothing_is_not_good_news_while_the_hunt_runs(tmp_path: Path) -> None:
    made = CampaignMaker(tmp_path / "c")
    what = plan(Crash(), WHERE)
    made.run("random", what, made=record(0, what, [Receipt(0, "s2", "crash", at_s(1))]), verdicts=[Verdict.ok()])
    rows = made.store.run_rows()
    ended, running = (head.head_of(made.store, rows, [], running=running) for running in (False, True))
    made.close()
    assert (ended.mood, ended.sentence.split(" in ")[0]) == ("good", "Nothing found")
    assert (running.mood, running.sentence.split(" in ")[0]) == ("none", "Nothing found yet")


def test_certain_before_worst_before_frequent() -> None:
    hang, exits = (finding(verdicts=(failing(checker=c),), tries=5, hits=5) for c in ("hang", "exits"))
    lost, flaky = finding(tries=5, hits=5), finding(tries=5, hits=1)
    untried, doubtful = finding(), finding(tries=5)
    assert data.ranked([doubtful, untried, hang, flaky, exits, lost]) == [lost, flaky, hang, exits, untried, doubtful]


def test_findings_are_ranked_by_what_their_checker_says_of_itself() -> None:
    """The order is that of `Rank`: gray failures and log output, which end with the fault, come after everything else."""
    worst_first = ["my_ledger", "liveness", "hang", "deaths", "exits", "workload", "gray", "logs"]
    found = [finding(verdicts=(failing(checker=name),), tries=5, hits=5) for name in worst_first]
    assert [f.verdicts[0].checker for f in data.ranked(reversed(found))] == worst_first


def test_findings_that_are_not_believed_come_last_however_bad_they_are() -> None:
    hang = finding(verdicts=(failing(checker="hang"),), tries=5, hits=1)
    known = finding(tries=5, hits=5, suppressed="ticket 7")
    without = finding(tries=5, hits=5, control_tries=5, control_hits=2)
    assert data.ranked([known, without, hang]) == [hang, without, known]


def test_why_a_finding_is_doubted_is_said(tmp_path: Path) -> None:
    made, first = one_finding(tmp_path)
    changes: list[dict[str, Any]] = [
        {"suppressed": "known since ticket 7, until 2030-01-01"},
        {"control_tries": 3, "control_hits": 1},
        {"tries": 0, "hits": 0, "elsewhere": 3},
    ]
    made.findings(
        *(msgspec.structs.replace(first, id=f"F{i}", symptom=f"s{i}", **more) for i, more in enumerate(changes, 1))
    )
    shown = page(made.close())
    assert "Suppressed: known since ticket 7, until 2030-01-01" in shown.text
    assert "It also appeared without the fault, in 1 of 3 controls" in shown.text
    assert "flaky, 1 of 3 without the fault" in shown.text
    assert "in 3 re-runs the fault did not fire at that point" in shown.text
    assert "No confirmed bug" in shown.text


def test_a_card_shows_every_symptom_with_its_rate(tmp_path: Path) -> None:
    made, first = one_finding(tmp_path)
    shown_twice = (ShownSymptom("<b>two holders</b>", 3), ShownSymptom("worker exits", 2))
    made.findings(msgspec.structs.replace(first, tries=3, hits=3, symptoms=shown_twice))
    shown = page(made.close())
    assert "Symptoms<b>two holders</b>: 3/3" in shown.text
    assert "worker exits: 2/3" in shown.text


def test_a_card_shows_the_rate_of_its_title_if_some_re_runs_showed_other_symptoms(tmp_path: Path) -> None:
    made, first = one_finding(tmp_path)
    symptoms = (ShownSymptom("two holders", 1), ShownSymptom("worker exits", 3))
    others = {"verdicts": (), "tries": 3, "hits": 3, "symptoms": symptoms}
    milder = msgspec.structs.replace(first, symptom="two holders", title="worker exits", **others)
    assert certainty_of(milder) == ("reproduced 3 of 3 (as in the title: 1 of 3)", "sometimes")
    made.findings(milder)
    assert "3/3 with the fault, no control; the symptom in the title came back in 1 of 3" in page(made.close()).text
    worst = msgspec.structs.replace(milder, symptom="worker exits", title="two holders")
    assert certainty_of(worst) == ("reproduced 3 of 3", "always")


def test_a_suspicion_that_waits_for_re_runs_is_shown_as_such(tmp_path: Path) -> None:
    made, first = one_finding(tmp_path)
    made.findings(msgspec.structs.replace(first, realism=Realism("dropped", "it took 0.4 ms"), undecided=True))
    shown = page(made.close())
    assert "suspected, to be confirmed" in shown.text
    assert "Dropped" not in shown.text, "another plan may still reproduce it"


def test_dropped_findings_have_their_own_section(tmp_path: Path) -> None:
    made, first = one_finding(tmp_path)
    real = msgspec.structs.replace(first, id="F2", symptom="s2", realism=Realism("realistic", "it took <10> s"))
    unreal = msgspec.structs.replace(first, realism=Realism("dropped", "it took 0.4 ms"))
    made.findings(unreal, real)
    shown = page(made.close())
    assert "Slow deviceit took <10> s" in shown.text
    assert shown.text.index("Dropped These need a delay") > shown.text.index("Slow deviceit took")
    assert "Dropped: it took 0.4 ms." in shown.text
    assert "1 dropped: no slow device causes the delay" in shown.text


def test_stuck_threads_come_before_idle_ones() -> None:
    idle, waits = ThreadStack("idle"), ThreadStack("waits", waits="Future")
    holder, stuck = ThreadStack("holder", holds=("lock@1",)), ThreadStack("stuck", waits="lock@1", kind="task")
    rows = process_rows(
        [ProcessStacks("n1", 1, 5, 0, (idle,)), ProcessStacks("n2", 2, 6, 0, (idle, waits, holder, stuck))]
    )
    assert [(row.title, row.stuck) for row in rows] == [("n2, start 2, process 6", 1), ("n1, start 1, process 5", 0)]
    assert [thread.name for thread in rows[0].threads] == ["stuck", "holder", "waits", "idle"]
    assert rows[0].threads[0].says == "waits for lock@1, held by holder"


def test_the_moment_names_the_operation_where_no_receipt_does(tmp_path: Path) -> None:
    what = plan(Pause(), WHERE)
    moments = (Moment(0, "s2", at_s(1.2), WHERE, seq=8, pid=100),)
    made_record = record(0, what, [Receipt(0, "s2", "pause", at_s(1.9), held_ns=10**8)], moments=moments)
    events = [
        event("s2", seq, 1 + seq / 40, "file.write", f"x:y#{seq}", target="log", thread=f"t{seq}") for seq in (7, 8, 9)
    ]
    made, _ = one_finding(tmp_path, made=made_record, events=events)
    shown = page(made.close())
    assert "Call stack at the injection point thread t8 of s2" in shown.text
    assert "since no receipt names one" not in shown.text


def test_else_it_is_the_last_one_of_a_node_before_the_fault(tmp_path: Path) -> None:
    anywhere = Point.of({"op": "file.write"})
    moments = (Moment(0, CLIENT, at_s(1.15), anywhere, seq=3, pid=100),)
    made_record = record(0, plan(Crash(), anywhere), [Receipt(0, "s2", "crash", at_s(1.2))], moments=moments)
    seen = [("s2", 1.0, "early"), ("s2", 1.1, "struck"), (CLIENT, 1.15, "asked"), ("s2", 1.4, "late")]
    events = [event(node, n, at, "file.write", "x:y#1", thread=name) for n, (node, at, name) in enumerate(seen, 1)]
    made, _ = one_finding(tmp_path, made=made_record, events=events)
    assert "thread struck of s2; the last matching operation, since no receipt names one" in page(made.close()).text


def test_a_flaky_workload_is_said_first(tmp_path: Path) -> None:
    made, _ = one_finding(tmp_path)
    made.store.set_meta("baseline", {"runs": 3, "failed": 2, "failed_as": ["workload fails: <b>odd</b>"]})
    shown = page(made.close())
    assert "The workload is flaky: 2 of 5 fault-free runs failed (workload fails: <b>odd</b>)." in shown.text
    assert "b" not in [tag for tag, attrs in shown.tags if "odd" in str(attrs)]


def test_a_damaged_baseline_is_done_without(tmp_path: Path) -> None:
    made, _ = one_finding(tmp_path)
    made.store.set_meta("baseline", ["what"])
    assert "flaky:" not in page(made.close()).text


def test_a_control_is_no_run_with_a_fault(tmp_path: Path) -> None:
    made = CampaignMaker(tmp_path / "c")
    what = plan(Crash(), WHERE).control
    made.run("control", what, made=record(0, what, [Receipt(0, "s2", "hold", at_s(1))]), verdicts=[Verdict.ok()])
    shown = page(made.close())
    assert "No fault has fired in 1 run" in shown.text
    assert "0 fault fired" in shown.text
    assert "1 without a fault" in shown.text
    assert "held, no fault" in shown.text


def test_the_run_that_shows_it_best_is_shown(tmp_path: Path) -> None:
    made, first = one_finding(tmp_path)
    best = made.run("confirm", first.plan, made=record(0, first.plan, [Receipt(0, "s2", "crash", at_s(1.7))]))
    made.findings(msgspec.structs.replace(first, runs=(first.runs[0], best), shown_by=best))
    shown = page(made.close())
    assert f"Timeline run {best}" in shown.text
    assert "+1.700 s" in shown.text


def test_a_card_shows_the_reasons_of_all_strategies_with_their_evidence(tmp_path: Path) -> None:
    reasons = (
        Reason("under a lock", (Evidence("lock", "runs held a lock", "app:put#2"),), "sieve"),
        Reason("read by recovery", strategy="fcatch"),
        Reason("read by recovery", (Evidence("trace", "other evidence"),), "fcatch"),
    )
    folder = sample(tmp_path / "c")
    store = CampaignStore(folder)
    store.write_findings([msgspec.structs.replace(finding, reasons=reasons) for finding in store.findings()])
    store.close()
    shown = spaced(page(folder).raw)
    assert "under a lock (sieve) runs held a lock (app:put#2) read by recovery (fcatch)" in shown
    assert "other evidence" not in shown, "the same reason is shown once"


def test_the_operations_that_a_verdict_names_are_drawn(tmp_path: Path) -> None:
    history = [op(n, f"c{n}", "put", 1.0 + n, 1.5 + n, args={"key": HOSTILE.replace("\ud800", ""), "value": n}) for n in range(3)]
    verdict = msgspec.structs.replace(failing(), operations=(0, 2, 99))
    made, _ = one_finding(tmp_path, history=history, verdicts=[verdict])
    shown = page(made.close())
    figure = shown.raw.partition('class="operations"')[2].partition("</figure>")[0]
    assert "The operations that show it run 1" in shown.text
    assert figure.count('class="tl-op tl-ok"') == 2, "those that the history has"
    assert not [tag for tag, _ in shown.tags if tag == "img"]


def test_without_named_operations_there_is_no_such_picture(tmp_path: Path) -> None:
    made, _ = one_finding(tmp_path)
    assert "The operations that show it" not in page(made.close()).text
