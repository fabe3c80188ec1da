"""Suppressions: which findings they match, when they end, and that the commands keep comments in the file."""

from __future__ import annotations

import datetime
import random
import re
from pathlib import Path

import msgspec
import pytest

from undermine.config.schema import Config
from undermine.exchange import suppressions
from undermine.exchange.suppressions import Suppression
from undermine.model.errors import UserError
from undermine.model.faults import Crash
from undermine.model.finding import Finding
from undermine.model.plan import At, Plan, Step
from undermine.testing import point

DAY = datetime.date(2026, 11, 16)


def finding(symptom: str = "write lost", faults: tuple[str, ...] = ("crash",)) -> Finding:
    plan = Plan((Step(At(point()), Crash()),))
    return Finding("F1", symptom, symptom, plan, (1,), ("random",), (), faults=faults)


def entry(
    symptom: str = "write lost", until: datetime.date | None = DAY, fault: str = "", reason: str = "why"
) -> Suppression:
    return Suppression(symptom, reason, until, DAY, fault)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / suppressions.FILE_NAME


def config(path: Path) -> Config:
    return Config(str(path.parent / "undermine.toml"), str(path.parent), {}, "", {})


# --- matching


@pytest.mark.parametrize(
    ("symptom", "same"),
    [
        ("s3 lost 5 writes", True),
        ("s3  lost 17 writes", True),
        ("s3 lost many writes", False),
        ("s3 lost 5 writes, and more", False),
    ],
)
def test_numbers_do_not_matter_but_everything_else_does(symptom: str, same: bool) -> None:
    assert entry("s3 lost 4 writes").matches(finding(symptom)) == same


def test_exit_codes_are_compared() -> None:
    assert not entry("s1 ended by itself with exit code 1").matches(finding("s1 ended by itself with exit code 65"))


@pytest.mark.parametrize(("fault", "same"), [("", True), ("crash", True), ("reboot", False), ("pause", False)])
def test_a_suppression_may_name_a_fault(fault: str, same: bool) -> None:
    assert entry(fault=fault).matches(finding()) == same


def test_a_suppression_for_one_fault_does_not_hide_a_finding_with_two() -> None:
    both = finding(faults=("crash", "partition"))
    assert not entry(fault="crash").matches(both)
    assert entry().matches(both)


def test_it_holds_until_the_end_of_its_last_day() -> None:
    assert entry().holds(DAY)
    assert not entry().holds(DAY + datetime.timedelta(1))
    assert entry(until=None).holds(datetime.date.max)


def test_a_finding_is_suppressed_and_reported_again_with_a_remark(path: Path) -> None:
    suppressions.add(path, entry(reason="issue 12"))
    later = DAY + datetime.timedelta(1)
    assert suppressions.matcher(config(path), DAY)(finding()) == "until 2026-11-16: issue 12"
    assert suppressions.lapsed(config(path), DAY)(finding()) == ""
    assert suppressions.matcher(config(path), later)(finding()) == ""
    assert suppressions.lapsed(config(path), later)(finding()) == "was suppressed until 2026-11-16: issue 12"
    assert suppressions.matcher(config(path), DAY)(finding("other")) == ""


def test_marks_are_made_anew_each_time(path: Path) -> None:
    suppressions.add(path, entry())
    (marked,) = suppressions.mark([finding()], suppressions.matcher(config(path), DAY))
    assert not marked.believed
    (again,) = suppressions.mark([marked], suppressions.matcher(config(path), DAY + datetime.timedelta(1)))
    assert again == finding()
    assert again.believed


def test_without_the_file_nothing_is_suppressed(path: Path) -> None:
    assert suppressions.matcher(config(path), DAY)(finding()) == ""


# --- the file


def test_written_entries_are_read_back(path: Path) -> None:
    hostile = 'a "quoted" \\ back\nslash \x00\x07 \u202e [x] = 世界 # no comment'
    entries = [entry(hostile.replace("\x00", ""), None), entry("b", DAY, "crash", 'say "why"'), entry("c")]
    for one in entries:
        suppressions.add(path, one)
    assert suppressions.read(path) == tuple(entries)


def test_any_symptom_is_read_back_unchanged(path: Path) -> None:
    rng = random.Random(3)
    for _ in range(200):
        symptom = "x" + "".join(chr(rng.choice([rng.randrange(1, 128), rng.randrange(160, 0xD800)])) for _ in range(8))
        path.unlink(missing_ok=True)
        suppressions.add(path, entry(symptom))
        assert suppressions.read(path)[0].symptom == symptom


def test_comments_and_other_entries_stay(path: Path) -> None:
    path.write_text('# ours\n\n[[suppression]] # first\nsymptom = "a"\nreason = "r"\nuntil = 2026-11-16\n\n# about b\n')
    suppressions.add(path, entry("b"))
    suppressions.add(path, entry("c"))
    suppressions.remove(path, entry("b").id)
    text = path.read_text()
    assert "# ours" in text
    assert "[[suppression]] # first" in text
    assert [e.symptom for e in suppressions.read(path)] == ["a", "c"]
    suppressions.remove(path, entry("a").id)
    assert path.read_text().startswith("# ours\n")
    assert "# about b" in path.read_text()
    assert [e.symptom for e in suppressions.read(path)] == ["c"]


def test_the_same_symptom_again_replaces_the_entry(path: Path) -> None:
    assert not suppressions.add(path, entry("lost 3 writes", DAY))
    assert suppressions.add(path, entry("lost 4 writes", None))
    (only,) = suppressions.read(path)
    assert only.until is None
    assert not suppressions.add(path, entry("lost 4 writes", None, "crash"))


def test_an_entry_that_is_not_there_cannot_be_removed(path: Path) -> None:
    suppressions.add(path, entry("a"))
    with pytest.raises(UserError, match=r"has no entry 'zz'; its entries are: \w{6} \(a\)"):
        suppressions.remove(path, "zz")


def test_a_file_with_another_layout_is_not_changed(path: Path) -> None:
    text = 'suppression = [{symptom = "a", reason = "r", until = 2026-11-16}]\n'
    path.write_text(text)
    assert suppressions.read(path)[0].symptom == "a"
    with pytest.raises(UserError, match="edit it by hand"):
        suppressions.add(path, entry("b"))
    assert path.read_text() == text


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("symptom = 'a'\nreason = 'r'", r"toml:1: suppression\.until is missing; write a day like"),
        (
            "symptom = 'a'\nreason = 'r'\nuntil = 'soon'",
            r"toml:4: suppression\.until must be a day like .*, not \"soon\"",
        ),
        ("symptom = 'a'\nreason = 'r'\nuntil = 2026-01-01T00:00:00", r"toml:4: suppression\.until must be a day"),
        (
            "symptom = 'a'\nuntil = 2026-01-01",
            r"toml:1: suppression\.reason is missing; it must be non-empty text in quotes",
        ),
        (
            "symptom = 'a'\nreason = ' '\nuntil = 2026-01-01",
            r"toml:3: suppression\.reason must be non-empty text in quotes",
        ),
        (
            "symptom = 5\nreason = 'r'\nuntil = 2026-01-01",
            r"toml:2: suppression\.symptom must be non-empty text .*, not 5",
        ),
        ("symptom = 'a'\nreasn = 'r'", r"toml:3: suppression\.reasn is not a known key; did you mean \"reason\""),
        (
            "symptom = 'a'\nreason = 'r'\nuntil = 2026-01-01\nfault = 'crsh'",
            r"toml:5: suppression\.fault must be one of crash",
        ),
        ("symptom = 'a", "toml:2: this is not valid TOML"),
    ],
)
def test_an_error_names_the_line_of_the_mistake(path: Path, body: str, said: str) -> None:
    path.write_text(f"[[suppression]]\n{body}\n")
    with pytest.raises(UserError, match=said):
        suppressions.read(path)


@pytest.mark.parametrize(
    "text", ["suppression = 5", "[suppression]\nsymptom = 'a'", "suppression = [5]", "[[supression]]\n"]
)
def test_a_file_of_another_shape_is_refused(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(UserError, match=r"toml:1: "):
        suppressions.read(path)


def test_a_file_with_the_old_name_is_refused_with_what_to_do(path: Path) -> None:
    old = path.with_name("undermine-known.toml")
    old.write_text("")
    with pytest.raises(
        UserError, match=r"undermine-known.toml is not read any more; rename the file to undermine-supp"
    ):
        suppressions.read(path)
    path.write_text("")
    assert suppressions.read(path) == ()


def test_a_table_with_the_old_name_is_refused_with_what_to_do(path: Path) -> None:
    path.write_text("[[known]]\n")
    with pytest.raises(UserError, match=r"toml:1: known is not a known key; did you mean suppression\?"):
        suppressions.read(path)


# --- from the command line


def test_by_default_it_lasts_90_days() -> None:
    made = suppressions.new_entry(finding(), " see\n issue 12 ", "", None, DAY)
    assert made == Suppression("write lost", "see issue 12", DAY + datetime.timedelta(90), DAY)


def test_until_and_for_say_when_it_ends() -> None:
    assert suppressions.new_entry(finding(), "r", "2027-01-31", None, DAY).until == datetime.date(2027, 1, 31)
    assert suppressions.new_entry(finding(), "r", "", 30 * 86_400, DAY).until == datetime.date(2026, 12, 16)
    assert suppressions.new_entry(finding(), "r", "never", None, DAY).until is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"reason": "  "}, "needs a reason"),
        ({"reason": "x" * 5000}, "longer than"),
        ({"until": "2026-11-15"}, "is in the past"),
        ({"until": "tomorrow"}, "must be a day like"),
        ({"until": "never", "lasts_s": 5.0}, "remove one of them"),
        ({"lasts_s": 1e15}, "too long"),
        ({"fault": "crsh"}, "is not a fault; it must be one of crash"),
        ({"fault": "pause"}, "--fault pause does not match F1, which these faults led to: crash; remove --fault"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, object], said: str) -> None:
    given = {"reason": "r", "until": "", "lasts_s": None, "today": DAY, **options}
    with pytest.raises(UserError, match=said):
        suppressions.new_entry(finding(), **given)  # type: ignore[arg-type]


def test_the_id_of_an_entry_does_not_change_when_it_is_written(path: Path) -> None:
    made = suppressions.new_entry(finding("lost 3 writes"), "r", "", None, DAY)
    suppressions.add(path, made)
    assert suppressions.read(path)[0].id == msgspec.structs.replace(made, symptom="lost 99 writes").id


def test_the_example_in_the_documentation_is_valid(path: Path) -> None:
    text = Path(__file__).parents[2].joinpath("docs/replay.md").read_text()
    (block,) = [b for b in re.findall(r"```toml\n(.*?)```", text, re.DOTALL) if "[[suppression]]" in b]
    path.write_text(block)
    (only,) = suppressions.read(path)
    assert (only.until, only.fault) == (datetime.date(2027, 1, 31), "crash")
