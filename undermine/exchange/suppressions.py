"""Findings that the user knows of and does not want to hear of for a while: the file `undermine-known.toml`.

It lies beside `undermine.toml` and is meant to be committed. Each entry has a reason and a day on which it ends. Text is
only appended to the file or cut out of it, so that comments stay.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from undermine.config.lines import Source, refuse_unknown, show
from undermine.config.schema import Config
from undermine.findings.group import template
from undermine.model.errors import UserError
from undermine.model.faults import FAULT_NAMES, fault_kind
from undermine.model.finding import Finding

FILE_NAME = "undermine-known.toml"
NEVER = "never"
DAYS = 90
"""How long a suppression lasts if nothing is said."""

_KEYS = ("symptom", "reason", "until", "added", "fault")
_HEADER = """\
# Findings that we know of: `undermine hunt` lists them dimly and exits as if they were not there, until their day.
# `undermine suppress --list` shows them; commit this file.
"""
_TEXT_MAX = 2000


class Known(msgspec.Struct, frozen=True):
    """One suppression. `until` is the last day on which it holds; None: for good."""

    symptom: str
    reason: str
    until: datetime.date | None
    added: datetime.date | None = None
    fault: str = ""

    @property
    def id(self) -> str:
        """A short name that stays when others come and go."""
        text = f"{_normal(self.symptom)}\n{self.fault}"
        return hashlib.blake2b(text.encode(errors="replace"), digest_size=3).hexdigest()

    def matches(self, finding: Finding) -> bool:
        """The same symptom; where a fault is named, as long as no other one leads to it: that may be another bug."""
        if _normal(finding.symptom) != _normal(self.symptom):
            return False
        return not self.fault or _kinds(finding) == {self.fault}

    def holds(self, today: datetime.date) -> bool:
        return self.until is None or today <= self.until

    @property
    def words(self) -> str:
        """`until 2027-01-31: REASON`"""
        return f"{f'until {self.until}' if self.until else 'for good'}: {self.reason}"


Remark = Callable[[Finding], str]


def matcher(config: Config, today: datetime.date) -> Remark:
    """For a finding: why and until when the user does not want to hear of it; "" if that is not so."""
    entries = [entry for entry in read(path_of(config)) if entry.holds(today)]
    return lambda finding: next((entry.words for entry in entries if entry.matches(finding)), "")


def lapsed(config: Config, today: datetime.date) -> Remark:
    """For a finding that is reported again: how it was suppressed; "" if it never was, or still is."""
    entries = read(path_of(config))
    over = [entry for entry in entries if not entry.holds(today)]
    still = matcher(config, today)
    return lambda finding: (
        "" if still(finding) else next((f"was suppressed {e.words}" for e in over if e.matches(finding)), "")
    )


def mark(findings: Iterable[Finding], suppressed: Remark) -> tuple[Finding, ...]:
    """The same findings with what the file says of them today."""
    return tuple(msgspec.structs.replace(finding, suppressed=suppressed(finding)) for finding in findings)


def _kinds(finding: Finding) -> set[str]:
    """Of all faults that led to it."""
    return {*finding.faults, *(fault_kind(step.fault) for step in finding.plan.steps)}


def _normal(symptom: str) -> str:
    """As findings are told apart: numbers, paths and quoted text differ from run to run."""
    return template(symptom)


# --- reading


def path_of(config: Config) -> Path:
    return Path(config.project, FILE_NAME)


def read(path: Path) -> tuple[Known, ...]:
    """What the file says; no file says nothing. A mistake in it is told with its line."""
    if not path.exists():
        return ()
    return _entries(Source.load(path))


def _entries(source: Source) -> tuple[Known, ...]:
    refuse_unknown(source, (), source.data, ("known",), {})
    tables = source.data.get("known", [])
    if not isinstance(tables, list):
        raise source.error(("known",), f"must be tables that begin with [[known]], not {show(tables)}")
    return tuple(_entry(source, index, table) for index, table in enumerate(tables))


def _entry(source: Source, index: int, table: Any) -> Known:
    path = ("known", index)
    if not isinstance(table, dict):
        raise source.error(path, f"must be a table that begins with [[known]], not {show(table)}")
    refuse_unknown(source, path, table, _KEYS, {})
    for name in ("symptom", "reason"):
        if not isinstance(value := table.get(name), str) or not value.strip():
            said = f"not {show(value)}" if name in table else "and it is missing"
            raise source.error((*path, name), f"must be text in quotes that is not empty, {said}")
    fault = table.get("fault", "")
    if fault and fault not in FAULT_NAMES:
        raise source.error((*path, "fault"), f"must be one of {', '.join(FAULT_NAMES)}, not {show(fault)}")
    return Known(
        symptom=table["symptom"],
        reason=" ".join(table["reason"].split()),
        until=_until(source, (*path, "until"), table.get("until")),
        added=_day(source, (*path, "added"), table["added"]) if "added" in table else None,
        fault=fault,
    )


def _until(source: Source, path: tuple[str | int, ...], value: Any) -> datetime.date | None:
    if value is None:
        raise source.error(path, f'is missing; write a day like 2027-01-31, or "{NEVER}" if it must never end')
    return None if value == NEVER else _day(source, path, value)


def _day(source: Source, path: tuple[str | int, ...], value: Any) -> datetime.date:
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            return datetime.date.fromisoformat(value)
    if not isinstance(value, datetime.date) or isinstance(value, datetime.datetime):
        also = f' or "{NEVER}"' if path[-1] == "until" else ""
        raise source.error(path, f"must be a day like 2027-01-31{also}, not {show(value)}")
    return value


# --- writing


def add(path: Path, entry: Known) -> bool:
    """Append an entry; one for the same symptom is replaced, and then this is true."""
    before = read(path)
    text = _text(path)
    replaced = entry.id in [known.id for known in before]
    if replaced:
        text = _without(path, text, entry.id)
    text = (text.rstrip("\n") + "\n\n" if text.strip() else _HEADER + "\n") + _written(entry)
    _write(path, text, [*(known for known in before if known.id != entry.id), entry])
    return replaced


def remove(path: Path, entry_id: str) -> Known:
    """Cut the entry out of the file."""
    before = read(path)
    gone = next((known for known in before if known.id == entry_id.lower()), None)
    if gone is None:
        listed = ", ".join(f"{known.id} ({known.symptom})" for known in before) or "none"
        raise UserError(f"{path} has no entry {entry_id!r}; there are: {listed}")
    _write(path, _without(path, _text(path), gone.id), [known for known in before if known.id != gone.id])
    return gone


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8-sig") if path.exists() else ""


def _without(path: Path, text: str, entry_id: str) -> str:
    """The text without the lines of these entries; comments above the next table are its own and stay."""
    source = Source(path, text)
    lines = text.splitlines(keepends=True)
    starts = [source.lines.of(("known", index)) - 1 for index in range(len(source.data.get("known", [])))]
    for index, known in reversed(list(enumerate(_entries(source)))):
        if known.id != entry_id:
            continue
        end = starts[index + 1] if index + 1 < len(starts) else len(lines)
        while index + 1 < len(starts) and end > starts[index] + 1 and re.match(r"\s*(#|$)", lines[end - 1]):
            end -= 1
        del lines[starts[index] : end]
    return "".join(lines)


def _write(path: Path, text: str, expected: Sequence[Known]) -> None:
    """Replace the file as a whole, if the text says what it should: a file written by hand may be laid out otherwise."""
    try:
        said = _entries(Source(path, text))
    except UserError:
        said = ()
    if sorted(said, key=str) != sorted(expected, key=str):
        raise UserError(f"{path} is not laid out as [[known]] tables, so it was left alone; edit it by hand")
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UserError(f"{path} cannot be written: {error.strerror}") from None


def _written(entry: Known) -> str:
    lines = ["[[known]]", f"symptom = {_quoted(entry.symptom)}", f"reason = {_quoted(entry.reason)}"]
    lines.append(f"until = {entry.until}" if entry.until else f'until = "{NEVER}"')
    if entry.added:
        lines.append(f"added = {entry.added}")
    if entry.fault:
        lines.append(f"fault = {_quoted(entry.fault)}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A basic string of TOML."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08X}" for c in escaped) + '"'


# --- from what the user says


def new_entry(
    finding: Finding, reason: str, until: str, lasts_s: float | None, today: datetime.date, fault: str = ""
) -> Known:
    """A suppression of this finding; refuses what makes no sense."""
    reason = " ".join(reason.split())
    if not reason:
        raise UserError('a suppression needs a reason; say --reason "why it need not be reported"')
    if len(reason) > _TEXT_MAX:
        raise UserError(f"the reason is longer than {_TEXT_MAX} characters; put the rest where it can be linked to")
    if until and lasts_s is not None:
        raise UserError("--until and --for say the same thing twice; keep one of them")
    if fault and fault not in FAULT_NAMES:
        raise UserError(f"--fault {fault!r} is no fault; known are {', '.join(FAULT_NAMES)}")
    last = None if until == NEVER else _last_day(until, lasts_s, today)
    entry = Known(finding.symptom, reason, last, today, fault)
    if not entry.matches(finding):
        seen = ", ".join(sorted(_kinds(finding))) or "none"
        raise UserError(f"--fault {fault} does not cover {finding.id}, which came with: {seen}; leave --fault out")
    return entry


def _last_day(until: str, lasts_s: float | None, today: datetime.date) -> datetime.date:
    if until:
        try:
            last = datetime.date.fromisoformat(until)
        except ValueError:
            raise UserError(f"--until {until!r} is not a day like 2027-01-31, nor {NEVER}") from None
    else:
        days = DAYS if lasts_s is None else max(1, round(lasts_s / 86_400))
        try:
            last = today + datetime.timedelta(days=days)
        except OverflowError:
            raise UserError(f"--for is too long; say --until {NEVER} if it must never end") from None
    if last < today:
        raise UserError(f"--until {last} is over already; name a day to come")
    return last
