"""Suppressions: findings that the user does not want reported until a date, in the file `undermine-suppressions.toml`.

The file is beside `undermine.toml` and is meant to be committed. Each suppression has a reason and a last day. Commands append
text to the file or cut text out of it, so that comments stay. A baseline is another file with such entries, for known findings.
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
from undermine.findings.grouping.groups import key_of
from undermine.model.errors import UserError
from undermine.model.faults import FAULT_NAMES, fault_kind
from undermine.model.finding import Finding

FILE_NAME = "undermine-suppressions.toml"
TABLE = "suppression"
NEVER = "never"
DAYS = 90
"""How long a suppression lasts by default."""
_OLD_FILE_NAME, _OLD_TABLE = "undermine-known.toml", "known"

_KEYS = ("symptom", "reason", "until", "added", "fault")
_HEADER = """\
# Suppressed findings are shown dimmed and ignored by the exit code until they expire.
# `undermine suppress --list` shows these entries. Commit this file.
"""
_BASELINE_HEADER = """\
# A baseline: with `undermine hunt --baseline`, these findings are shown dimmed and ignored by the exit code.
# `undermine report --write-baseline` adds findings to this file. Remove an entry when its bug is fixed.
"""
_TEXT_MAX = 2000


class Suppression(msgspec.Struct, frozen=True):
    """One entry of the file. `until` is the last day on which it holds; None means that it never ends."""

    symptom: str
    reason: str
    until: datetime.date | None
    added: datetime.date | None = None
    fault: str = ""

    @property
    def id(self) -> str:
        """A short name that does not depend on the other entries."""
        text = f"{key_of(self.symptom)}\n{self.fault}"
        return hashlib.blake2b(text.encode(errors="replace"), digest_size=3).hexdigest()

    def matches(self, finding: Finding) -> bool:
        """True for the same symptom in the same circumstances, or in any if the entry names none. With a `fault`, only if no
        other fault led to it, since that may be another bug."""
        if key_of(self.symptom) not in (key_of(finding.name), key_of(finding.symptom)):
            return False
        return not self.fault or _kinds(finding) == {self.fault}

    def holds(self, today: datetime.date) -> bool:
        """True until the end of the last day."""
        return self.until is None or today <= self.until

    @property
    def words(self) -> str:
        """`until 2027-01-31: REASON`"""
        return f"{f'until {self.until}' if self.until else 'forever'}: {self.reason}"


Remark = Callable[[Finding], str]


def matcher(config: Config, today: datetime.date, baseline: Path | None = None) -> Remark:
    """Return a function from a finding to the reason and the last day of its suppression; "" if it is not suppressed. The entries
    of a baseline count too."""
    known = read_baseline(baseline) if baseline else ()
    entries = [entry for entry in (*read(path_of(config)), *known) if entry.holds(today)]
    return lambda finding: next((entry.words for entry in entries if entry.matches(finding)), "")


def lapsed(config: Config, today: datetime.date) -> Remark:
    """Return a function from a finding to the suppression that ended; "" if there was none or another one still holds."""
    entries = read(path_of(config))
    ended = [entry for entry in entries if not entry.holds(today)]
    still = matcher(config, today)
    return lambda finding: (
        "" if still(finding) else next((f"was suppressed {e.words}" for e in ended if e.matches(finding)), "")
    )


def mark(findings: Iterable[Finding], suppressed: Remark) -> tuple[Finding, ...]:
    """Return the findings, each with the suppression that holds today."""
    return tuple(msgspec.structs.replace(finding, suppressed=suppressed(finding)) for finding in findings)


def _kinds(finding: Finding) -> set[str]:
    """The kinds of all faults that led to the finding."""
    return {*finding.faults, *(fault_kind(step.fault) for step in finding.plan.steps)}


# --- reading


def path_of(config: Config) -> Path:
    return Path(config.project, FILE_NAME)


def read(path: Path) -> tuple[Suppression, ...]:
    """The entries of the file; none if there is no file. Raises a `UserError` with the line of a mistake."""
    if not path.exists():
        _refuse_old_file(path.with_name(_OLD_FILE_NAME))
        return ()
    return _entries(Source.load(path))


def read_baseline(path: Path) -> tuple[Suppression, ...]:
    """The entries of a baseline, which must exist: without it, every known finding would be new."""
    if not path.is_file():
        raise UserError(f"there is no baseline {path}; write one with `undermine report --write-baseline {path}`")
    return _entries(Source.load(path))


def _refuse_old_file(old: Path) -> None:
    if old.exists():
        tables = f"each [[{_OLD_TABLE}]] in it to [[{TABLE}]]"
        raise UserError(f"{old} is not read any more; rename the file to {FILE_NAME} and {tables}")


def _entries(source: Source) -> tuple[Suppression, ...]:
    refuse_unknown(source, (), source.data, (TABLE,), {_OLD_TABLE: TABLE})
    tables = source.data.get(TABLE, [])
    if not isinstance(tables, list):
        raise source.error((TABLE,), f"must be tables that begin with [[{TABLE}]], not {show(tables)}")
    return tuple(_entry(source, index, table) for index, table in enumerate(tables))


def _entry(source: Source, index: int, table: Any) -> Suppression:
    path = (TABLE, index)
    if not isinstance(table, dict):
        raise source.error(path, f"must be a table that begins with [[{TABLE}]], not {show(table)}")
    refuse_unknown(source, path, table, _KEYS, {})
    for name in ("symptom", "reason"):
        if not isinstance(value := table.get(name), str) or not value.strip():
            said = "must be" if name in table else "is missing; it must be"
            given = f", not {show(value)}" if name in table else ""
            raise source.error((*path, name), f"{said} non-empty text in quotes{given}")
    fault = table.get("fault", "")
    if fault and fault not in FAULT_NAMES:
        raise source.error((*path, "fault"), f"must be one of {', '.join(FAULT_NAMES)}, not {show(fault)}")
    return Suppression(
        symptom=table["symptom"],
        reason=" ".join(table["reason"].split()),
        until=_until(source, (*path, "until"), table.get("until")),
        added=_day(source, (*path, "added"), table["added"]) if "added" in table else None,
        fault=fault,
    )


def _until(source: Source, path: tuple[str | int, ...], value: Any) -> datetime.date | None:
    if value is None:
        raise source.error(path, f'is missing; write a day like 2027-01-31, or "{NEVER}" if it never ends')
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


def add(path: Path, entry: Suppression) -> bool:
    """Append an entry. Return True if it replaced one for the same symptom."""
    before = read(path)
    text = _text(path)
    replaced = entry.id in [one.id for one in before]
    if replaced:
        text = _without(path, text, entry.id)
    header = _HEADER if path.name == FILE_NAME else _BASELINE_HEADER
    text = (text.rstrip("\n") + "\n\n" if text.strip() else header + "\n") + _written(entry)
    _write(path, text, [*(one for one in before if one.id != entry.id), entry])
    return replaced


def create(path: Path) -> None:
    """Write a baseline without entries, if there is no file."""
    if not path.exists():
        _write(path, _BASELINE_HEADER, [])


def remove(path: Path, entry_id: str) -> Suppression:
    """Cut the entry out of the file and return it."""
    before = read(path)
    gone = next((one for one in before if one.id == entry_id.lower()), None)
    if gone is None:
        listed = ", ".join(f"{one.id} ({one.symptom})" for one in before) or "none"
        raise UserError(f"{path} has no entry {entry_id!r}; its entries are: {listed}")
    _write(path, _without(path, _text(path), gone.id), [one for one in before if one.id != gone.id])
    return gone


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8-sig") if path.exists() else ""


def _without(path: Path, text: str, entry_id: str) -> str:
    """The text without the lines of this entry. Comments above the next table belong to that table and stay."""
    source = Source(path, text)
    lines = text.splitlines(keepends=True)
    starts = [source.lines.of((TABLE, index)) - 1 for index in range(len(source.data.get(TABLE, [])))]
    for index, one in reversed(list(enumerate(_entries(source)))):
        if one.id != entry_id:
            continue
        end = starts[index + 1] if index + 1 < len(starts) else len(lines)
        while index + 1 < len(starts) and end > starts[index] + 1 and re.match(r"\s*(#|$)", lines[end - 1]):
            end -= 1
        del lines[starts[index] : end]
    return "".join(lines)


def _write(path: Path, text: str, expected: Sequence[Suppression]) -> None:
    """Replace the whole file, unless the new text does not hold the expected entries: people may lay a file out differently."""
    try:
        said = _entries(Source(path, text))
    except UserError:
        said = ()
    if sorted(said, key=str) != sorted(expected, key=str):
        raise UserError(f"{path} does not use [[{TABLE}]] tables, so it was not changed; edit it by hand")
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UserError(f"{path} cannot be written: {error.strerror}") from None


def _written(entry: Suppression) -> str:
    lines = [f"[[{TABLE}]]", f"symptom = {_quoted(entry.symptom)}", f"reason = {_quoted(entry.reason)}"]
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


# --- from the command line


def new_known(finding: Finding, campaign: str, today: datetime.date) -> Suppression:
    """Return an entry of a baseline: the finding is known, and is never reported again."""
    return Suppression(finding.name, f"known since campaign {campaign}", None, today)


def new_entry(
    finding: Finding, reason: str, until: str, lasts_s: float | None, today: datetime.date, fault: str = ""
) -> Suppression:
    """Return a suppression of this finding, or raise a `UserError` if the options make no sense."""
    reason = " ".join(reason.split())
    if not reason:
        raise UserError('a suppression needs a reason; write --reason "see issue 12"')
    if len(reason) > _TEXT_MAX:
        raise UserError(f"--reason is longer than {_TEXT_MAX} characters; shorten it and link to the rest")
    if until and lasts_s is not None:
        raise UserError("--until and --for cannot be used together; remove one of them")
    if fault and fault not in FAULT_NAMES:
        raise UserError(f"--fault {fault!r} is not a fault; it must be one of {', '.join(FAULT_NAMES)}")
    last = None if until == NEVER else _last_day(until, lasts_s, today)
    entry = Suppression(finding.name, reason, last, today, fault)
    if not entry.matches(finding):
        seen = ", ".join(sorted(_kinds(finding))) or "none"
        raise UserError(
            f"--fault {fault} does not match {finding.id}, which these faults led to: {seen}; remove --fault"
        )
    return entry


def _last_day(until: str, lasts_s: float | None, today: datetime.date) -> datetime.date:
    if until:
        try:
            last = datetime.date.fromisoformat(until)
        except ValueError:
            raise UserError(f"--until {until!r} must be a day like 2027-01-31, or {NEVER}") from None
    else:
        days = DAYS if lasts_s is None else max(1, round(lasts_s / 86_400))
        try:
            last = today + datetime.timedelta(days=days)
        except OverflowError:
            raise UserError(f"--for is too long; use --until {NEVER} if it must never end") from None
    if last < today:
        raise UserError(f"--until {last} is in the past; give a later day")
    return last
