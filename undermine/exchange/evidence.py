"""The evidence in a bundle: the run that shows the finding best, within limits and without paths of this machine."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

from undermine import target_files
from undermine.config.schema import Config
from undermine.exchange.manifest import EVIDENCE
from undermine.model.finding import Finding, Landing, ShownSymptom
from undermine.model.run import Verdict
from undermine.store.rundir import RunDir

_LOG_BYTES_MAX = 256 << 10
_EVIDENCE_BYTES_MAX = 20 << 20
_FILE_BYTES_MAX = 1 << 30


class Seen(msgspec.Struct, frozen=True):
    """A finding and the run that shows it best."""

    finding: Finding
    run: Path
    verdicts: tuple[Verdict, ...]
    runtimes: dict[str, str] = {}
    landed: tuple[Landing, ...] = ()


def collect(config: Config, seen: Seen) -> tuple[dict[str, bytes], list[str]]:
    """Return the record, history, verdicts and logs of the run, and a note for each that is left out."""
    folder = RunDir(seen.run)
    found = {"verdicts.json": msgspec.json.format(msgspec.json.encode(seen.verdicts), indent=1)}
    for path in (folder.record, folder.history):
        with contextlib.suppress(OSError):
            found[path.name] = target_files.read(path, _FILE_BYTES_MAX)
    for path in target_files.regular_files(folder.logs):
        with contextlib.suppress(OSError):
            if log := _tail(path):
                found[f"logs/{target_files.shown_name(path)}"] = log
    kept: dict[str, bytes] = {}
    left_out = (
        []
        if "record.json" in found
        else ["the run that shows the finding was removed; the only evidence are its verdicts"]
    )
    room = _EVIDENCE_BYTES_MAX
    for name, data in found.items():
        data = _replace_paths(data, config, seen.run)
        if len(data) > room:
            left_out.append(f"{EVIDENCE}/{name} is left out: it is too large ({len(data):,} bytes)")
            continue
        room -= len(data)
        kept[f"{EVIDENCE}/{name}"] = data
    return kept, left_out


def _tail(path: Path) -> bytes:
    """The end of a log; a log that is cut begins with a whole line."""
    data, before = target_files.read_end(path, _LOG_BYTES_MAX)
    if not before:
        return data
    cut, _, rest = data.partition(b"\n")
    rest = rest or cut
    return b"... %d bytes left out ...\n" % (before + len(data) - len(rest)) + rest


def without_paths(finding: Finding, config: Config, run: Path) -> Finding:
    """The finding without paths of this machine. Its plans stay unchanged."""

    def clean(text: str) -> str:
        return _replace_paths(text.encode(errors="replace"), config, run).decode()

    def cleaned(symptoms: Iterable[ShownSymptom]) -> tuple[ShownSymptom, ...]:
        return tuple(msgspec.structs.replace(shown, text=clean(shown.text)) for shown in symptoms)

    verdicts = tuple(
        msgspec.structs.replace(v, text=clean(v.text), symptom=clean(v.symptom), evidence=tuple(map(clean, v.evidence)))
        for v in finding.verdicts
    )
    return msgspec.structs.replace(
        finding,
        title=clean(finding.title),
        symptom=clean(finding.symptom),
        symptoms=cleaned(finding.symptoms),
        shown_elsewhere=cleaned(finding.shown_elsewhere),
        verdicts=verdicts,
        suppressed="",
    )


def _replace_paths(data: bytes, config: Config, run: Path) -> bytes:
    """Replace the folders of this machine by words like {run}."""
    home = str(Path.home())
    words = {str(run): "{run}", str(config.dir): "{campaigns}", config.project: "{project}", home: "~"}
    for path, word in sorted(words.items(), key=lambda item: -len(item[0])):
        if len(path) > 1:
            pattern = re.escape(os.fsencode(path)) + rb"(?![\w.-])"
            data = re.sub(pattern, word.encode(), data)
    return data
