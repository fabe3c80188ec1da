"""JUnit XML: which test cases there are, and that no text of a target breaks the file."""

from __future__ import annotations

import io
import re
from xml.etree import ElementTree as ET

from ci_samples import HOSTILE, TOLD, every_kind, finding, hostile, results
from hypothesis import given
from hypothesis import strategies as st

from undermine.report.ci import junit
from undermine.report.ci.results import Results

FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 does not allow."""


def written(made: Results) -> str:
    stream = io.StringIO()
    junit.write(stream, made)
    return stream.getvalue()


def cases(text: str) -> dict[str, ET.Element]:
    return {case.attrib["name"]: case for case in ET.fromstring(text).iter("testcase")}


def test_a_reported_finding_fails_with_its_evidence() -> None:
    case = cases(written(results(finding())))["acknowledged put lost"]
    (failure,) = case.findall("failure")
    assert failure.attrib == {"message": "k1 was acknowledged and is gone", "type": "ledger"}
    for part in ("F1 ", "injected  crash before file.write", "reproduced 3/3", "evidence  k1 = none", "undermine replay F1"):
        assert part in (failure.text or "")
    assert (case.attrib["file"], case.attrib["line"]) == ("src/app.py", "42")
    assert case.attrib["classname"] == "undermine.granary.findings"


def test_a_failure_says_what_happened() -> None:
    failure = cases(written(results(finding(), explanations=TOLD)))["acknowledged put lost"].find("failure")
    assert failure is not None
    assert failure.get("message") == "Acknowledged put lost if a node is killed"
    assert "happened  n1 was killed; then: k1 is gone" in (failure.text or "")


def test_a_test_case_keeps_its_name_if_the_finding_gets_another_number() -> None:
    assert set(cases(written(results(finding(1))))) == set(cases(written(results(finding(7)))))


def test_other_findings_and_notes_are_skipped_with_the_reason() -> None:
    found = cases(written(results(*every_kind())))
    failed = {name for name, case in found.items() if case.find("failure") is not None}
    assert failed == {"acknowledged put lost", "worker hangs"}
    reasons = {name: skipped.attrib["message"] for name, case in found.items() if (skipped := case.find("skipped")) is not None}
    assert reasons == {
        "suppressed one": "suppressed until 2027-01-31: issue 12",
        "flaky one": "flaky: it also fails without the fault",
        "lucky one": "not reproduced",
        "unreal one": "dropped, since no slow device causes the delay: the write took 0.1 s",
        "worker ends and is started again": "noted in 2 runs; not a bug",
    }


def test_a_strategy_without_a_bug_passes() -> None:
    assert "random" in cases(written(results(finding())))
    assert "sieve" not in cases(written(results(finding())))
    clean = cases(written(results(notes=[])))
    assert set(clean) == {"sieve", "random"}
    assert all(list(case) == [case.find("system-out")] for case in clean.values())


def test_the_counts_are_those_of_the_cases() -> None:
    suite = ET.fromstring(written(results(*every_kind(), duration_s=12.5))).find("testsuite")
    assert suite is not None
    assert [suite.attrib[name] for name in ("tests", "failures", "errors", "skipped", "time")] == ["8", "2", "0", "5", "12.500"]


def test_hostile_text_stays_text_and_is_bounded() -> None:
    text = written(results(hostile(), name=HOSTILE, notes=[(HOSTILE, [1])], strategies={HOSTILE + "2": 1}))
    assert not FORBIDDEN.search(text)
    assert "\x1b" not in text
    assert len(text) < 20_000
    (case,) = (case for case in cases(text).values() if case.find("failure") is not None)
    assert len(case.attrib["name"]) <= 300


@given(st.text(st.characters()))
def test_any_text_gives_a_file_that_can_be_read(text: str) -> None:
    made = written(results(finding(symptom=text, title=text), notes=[(text, [1])], name=text))
    assert not FORBIDDEN.search(made)
    ET.fromstring(made)
