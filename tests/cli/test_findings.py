"""The list of findings as a person sees it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from undermine.cli.findings import judged, show_findings, show_notes
from undermine.findings.explaining import Explanation
from undermine.model.faults import Crash, Delay
from undermine.model.finding import Finding, Realism, ShownSymptom, Variant
from undermine.model.plan import At, Lasted, Plan, Step
from undermine.model.run import Verdict
from undermine.testing import point

HOSTILE = "\x1b[2J\x1b]0;owned\x07 [bold red]x[/bold red] \u202e\x00"

PLAN = Plan((Step(At(point()), Crash()),))


def finding(number: int = 1, **more: Any) -> Finding:
    fields: dict[str, Any] = {
        "id": f"F{number}",
        "symptom": "lost 3 writes",
        "title": f"title {number}",
        "plan": PLAN,
        "runs": (1, 2),
        "strategies": ("random",),
        "verdicts": (),
        "tries": 3,
        "hits": 3,
        "control_tries": 3,
    }
    return Finding(**{**fields, **more})


def said(capsys: pytest.CaptureFixture[str], *findings: Finding, **more: Any) -> str:
    show_findings(findings, **more)
    return capsys.readouterr().out


def test_a_delay_is_shown_with_the_time_that_it_really_lasted(capsys: pytest.CaptureFixture[str]) -> None:
    plan = Plan((Step(At(point()), Delay(300.0)),))
    real = (Lasted(0, 4.2, "clients finished"),)
    found = finding(plan=plan, lasted=real, variants=(Variant("elsewhere", plan, 9, 2, (Lasted(0, 7.1, "no progress"),)),))
    text = said(capsys, found, finding(2, plan=plan, lasted=real, realism=Realism("dropped", "no disk")))
    assert text.count("injected  delay (held 4.2 s, until clients had finished) before ") == 2
    assert "also by   delay (held 7.1 s, until clients made no progress) before " in text
    assert "300" not in text
    assert list(judged([found])[0]["lasted"]) == [
        {"step": 0, "seconds": 4.2, "why": "clients finished", "speed": 1, "at_wire": False}
    ]


def test_long_evidence_keeps_its_heading_and_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    lines = ("no order explains these operations:", *(f"line {n}" for n in range(8)))
    shown = said(capsys, finding(verdicts=(Verdict("fail", "title 1", "lost 3 writes", lines, "ledger"),)))
    evidence = [line.split("evidence  ")[1] for line in shown.splitlines() if "evidence  " in line]
    assert evidence == [lines[0], "… (3 more lines)", *lines[4:]]


def test_findings_are_shown_with_plan_rate_evidence_and_next_commands(capsys: pytest.CaptureFixture[str]) -> None:
    verdict = Verdict("fail", "title 1", "lost 4 writes", ("evidence one", "evidence two"), "ledger")
    other = Verdict("fail", "y", "another", ("evidence of another",), "hang")
    found = finding(verdicts=(other, verdict), strategies=("random", "exhaustive"), faults=("crash", "delay"))
    text = said(capsys, found, new_logs={"F1": tuple(f"new {n}" for n in range(5))})
    for part in (
        "F1 title 1\n",
        "seen      in 2 runs, by random, exhaustive, with crash, delay",
        "re-runs   reproduced 3/3, 0/3 without the fault",
        "evidence  evidence one",
        "evidence  evidence two",
        "new log   new 2",
        "replay    undermine replay F1\n",
        "bundle    undermine bundle F1\n",
        "issue     undermine issue F1\n",
    ):
        assert part in text
    assert "of another" not in text
    assert "new 3" not in text


def test_a_finding_in_words_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    sentence, window = "n1 was killed; then: 3 writes are lost", "any crash of n1 after A fails"
    words = Explanation("Writes are lost if a node stops", sentence, window)
    text = said(capsys, finding(), explanations={"F1": words})
    assert "F1 Writes are lost if a node stops\n   n1 was killed; then: 3 writes are lost\n   injected " in text
    assert "   window    any crash of n1 after A fails\n" in text
    assert "title 1" not in text


def test_a_partition_is_shown_with_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, finding(), finding(2), partition_ends={"F1": "lasted 0.518 s, until clients had finished"})
    assert text.count("partition") == 1
    assert "   partition lasted 0.518 s, until clients had finished\n   seen " in text


def test_every_symptom_is_shown_with_its_rate(capsys: pytest.CaptureFixture[str]) -> None:
    shown = (ShownSymptom("acknowledged put lost", 3), ShownSymptom("worker ends by itself with exit code 0", 2))
    text = said(capsys, finding(symptoms=shown))
    assert "   symptom   acknowledged put lost: 3/3\n   symptom   worker ends by itself with exit code 0: 2/3\n" in text
    text = said(capsys, finding(symptoms=shown, tries=0, hits=0))
    assert "   symptom   acknowledged put lost\n" in text, "nothing was re-run, so there is no rate"
    assert "symptom" not in said(capsys, finding(symptoms=shown[:1])), "the title says it"


def test_the_rate_of_the_title_is_shown_if_some_re_runs_showed_other_symptoms(capsys: pytest.CaptureFixture[str]) -> None:
    lost, ended = ShownSymptom("put 17 lost", 1), ShownSymptom("worker ends by itself with exit code 0", 3)
    found = finding(symptom="put 4 lost", title="a worse one", symptoms=(lost, ended))
    words = "reproduced 3/3, 0/3 without the fault; the symptom in the title came back in 1 of 3\n"
    assert words in said(capsys, found)
    same = finding(symptom="put 4 lost", symptoms=(ShownSymptom("put 17 lost", 3), ended))
    assert "in the title" not in said(capsys, same)


def test_markup_of_a_target_is_text_in_a_finding(capsys: pytest.CaptureFixture[str]) -> None:
    verdict = Verdict("fail", HOSTILE, "s", (HOSTILE,), "ledger")
    plan = Plan((Step(At(point(target=HOSTILE)), Crash()),))
    hostile = finding(title=HOSTILE, symptom="s", plan=plan, verdicts=(verdict,), variants=(Variant("", plan, 2),))
    text = said(capsys, hostile, remarks={"F1": HOSTILE}, new_logs={"F1": [HOSTILE]}, partition_ends={"F1": HOSTILE})
    text += said(capsys, hostile, explanations={"F1": Explanation(HOSTILE, HOSTILE, HOSTILE)})
    text += said(capsys, finding(title=HOSTILE, suppressed=HOSTILE))
    assert text.replace("\n", "").isprintable()
    assert text.count("[bold red]x") == 15


@pytest.mark.parametrize(
    ("more", "part"),
    [
        ({"hits": 0}, "title 1 (not reproduced)"),
        ({"control_hits": 1}, "title 1 (flaky: it also fails without the fault)"),
        ({"control_hits": 1}, "reproduced 3/3, 1/3 without the fault"),
        ({"undecided": True, "tries": 1, "hits": 1}, "title 1 (suspected, to be confirmed)"),
        ({"undecided": True, "tries": 0, "hits": 0}, "re-runs   to be made by `undermine hunt --resume`"),
        ({"tries": 0, "hits": 0, "control_tries": 0}, "re-runs   not re-run yet"),
        ({"tries": 0, "hits": 0, "elsewhere": 2}, "no result: in 2 re-runs the fault fired elsewhere or not at all"),
        ({"runs": (1,)}, "in 1 run, by random"),
    ],
)
def test_a_finding_is_shown_with_its_doubts(
    capsys: pytest.CaptureFixture[str], more: dict[str, Any], part: str
) -> None:
    text = said(capsys, finding(**more))
    assert part in text
    assert "reproduced not" not in text


def test_variants_are_shown_but_not_all(capsys: pytest.CaptureFixture[str]) -> None:
    variants = tuple(Variant(f"s{n}", Plan((Step(At(point(loc=f"a:f#{n}")), Crash()),)), n, n) for n in range(1, 6))
    text = said(capsys, finding(variants=variants))
    assert "also by   crash before file.write data at a:f#1 on n1 (1 run)" in text
    assert "a:f#3 on n1 (3 runs)" in text
    assert "a:f#4" not in text
    assert "also by   faults at 2 other places" in text


def test_dropped_findings_have_their_own_section(capsys: pytest.CaptureFixture[str]) -> None:
    unreal = finding(realism=Realism("dropped", f"the disk was slow and {HOSTILE}"))
    text = said(capsys, unreal)
    assert text.startswith(
        "no findings\n\ndropped: no slow device can cause these delays; another fault may still do the same harm\n\n"
        "F1 title 1\n"
    )
    assert "reason    the disk was slow and" in text
    assert "re-runs   reproduced 3/3, 0/3 without the fault" in text
    one_run_settled_it = finding(realism=Realism("dropped", "the disk was slow"), tries=0, hits=0, control_tries=0)
    assert "re-runs" not in said(capsys, one_run_settled_it)
    assert text.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    ("realism", "part"),
    [
        (Realism("realistic", "it took 10.0 s"), "device    it took 10.0 s\n"),
        (Realism("unchecked", "not root"), "device    not checked: not root\n"),
    ],
)
def test_a_finding_shows_the_result_of_its_realism_check(
    capsys: pytest.CaptureFixture[str], realism: Realism, part: str
) -> None:
    assert part in said(capsys, finding(realism=realism))
    assert "device" not in said(capsys, finding(realism=realism, hits=0))


def test_a_suppressed_finding_is_two_lines(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, finding(suppressed="until 2027-01-31: issue 12"))
    assert text == "\nF1 title 1\n   suppressed until 2027-01-31: issue 12\n"


def test_a_finding_shows_its_ended_suppression(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, finding(), remarks={"F1": "was suppressed until 2026-01-31: issue 12"})
    assert "note      was suppressed until 2026-01-31: issue 12" in text


def test_the_most_certain_come_first(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(
        capsys,
        finding(1, suppressed="x"),
        finding(2, control_hits=1),
        finding(3, hits=0),
        finding(4, tries=0, hits=0, control_tries=0),
        finding(5),
        finding(6),
    )
    assert re.findall(r"^F(\d)", text, re.MULTILINE) == ["5", "6", "4", "3", "2", "1"]


def test_options_that_find_the_campaign_are_in_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, finding(), options=" -c [x] --campaign y")
    assert "undermine replay F1 -c [x] --campaign y\n" in text
    assert "undermine bundle F1 -c [x] --campaign y\n" in text


def test_an_empty_list_says_no_findings(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no findings" in said(capsys)


def test_a_note_is_shown_with_its_runs(capsys: pytest.CaptureFixture[str]) -> None:
    show_notes([(f"worker ends {HOSTILE}", [4, 9])])
    lines = capsys.readouterr().out.splitlines()
    assert "not bugs" in lines[1]
    assert lines[2].startswith("   worker ends")
    assert lines[2].endswith("(2 runs, first in run 4)")
    assert "\x1b" not in lines[2]
    show_notes([])
    assert capsys.readouterr().out == ""
