"""Annotations and the summary of a job: what they say, and that a target cannot write a command or markup."""

from __future__ import annotations

import re

from ci_samples import HOSTILE, TOLD, every_kind, finding, hostile, results
from hypothesis import given
from hypothesis import strategies as st

from undermine.report.ci import github


def test_a_failing_finding_is_an_error_at_its_line() -> None:
    (line,) = github.commands(results(finding()))
    assert line == (
        "::error file=src/app.py,line=42,title=F1%3A acknowledged put lost::k1 was acknowledged and is gone — "
        "crash before file.write data at app:write#1 on n1 (reproduced 3/3, 0/3 without the fault)"
    )


def test_titles_and_what_happened_are_those_of_explanations() -> None:
    explained = results(finding(), explanations=TOLD)
    (line,) = github.commands(explained)
    assert "::Acknowledged put lost if a node is killed — crash before" in line
    assert "title=F1%3A acknowledged put lost::" in line, "its name stays the same in each hunt"
    assert "    happened  n1 was killed; then: k1 is gone\n" in github.summary(explained)


def test_a_suspicion_is_a_warning_and_others_are_not_annotated() -> None:
    lines = list(github.commands(results(*every_kind())))
    assert [line.split()[0] for line in lines] == ["::error", "::warning"]


def test_more_findings_than_github_shows_are_counted() -> None:
    lines = list(github.commands(results(*(finding(n) for n in range(1, 14)))))
    assert len(lines) == 11
    assert lines[-1].endswith("::3 more findings; the summary of the job lists them")


def check_command(line: str) -> None:
    """One line that is one command, with exactly its three properties."""
    assert line.isprintable()
    found = re.fullmatch(r"::error file=([^,:]*),line=\d+,title=([^,:]*)::(.*)", line)
    assert found, line


def test_a_hostile_text_cannot_begin_a_command_or_a_property() -> None:
    for line in github.commands(results(hostile())):
        check_command(line)
        assert "%250A%2C%3A" in line, "what looks escaped in the text is not"


@given(st.text())
def test_no_text_can_begin_a_command(text: str) -> None:
    for line in github.commands(results(finding(symptom=text, title=text))):
        check_command(line)


def test_the_word_that_ends_the_silence_differs_each_time() -> None:
    (stop, resume), other = github.silenced(), github.silenced()
    assert stop == f"::stop-commands::{resume.strip(':')}"
    assert (stop, resume) != other


def test_the_summary_lists_findings_the_others_and_the_coverage() -> None:
    text = github.summary(results(*every_kind()))
    assert "**2 findings** in campaign" in text
    assert r"| F1 | acknowledged put lost | crash before file\.write data at app\:write\#1 on n1 |" in text
    assert "| F4 | flaky one | flaky\\: it also fails without the fault |" in text
    assert "    evidence  k1 = none\n" in text
    assert "faults fired at 0 of 0 source locations" in text
    assert "**No findings**" in github.summary(results())


def test_hostile_text_is_no_markup_in_the_summary() -> None:
    text = github.summary(results(hostile(), name=HOSTILE, notes=[(HOSTILE, [1])]))
    assert text.replace("\n", "").isprintable()
    markup = [line for line in text.splitlines() if not line.startswith("    ")]  # the rest is code
    (html,) = (line for line in markup if line.startswith("<summary>"))
    assert re.findall("<[^>]*>", html) == ["<summary>", "</summary>"]
    for line in markup:
        assert line == html or not re.search(r"(?<!\\)[`\[@]|<x>|::|^##\[", line), line
    assert sum(line.startswith("| F9 ") for line in markup) == 1
