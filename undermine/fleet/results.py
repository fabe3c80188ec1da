"""The folder of a finished run as one zip file: its record, history, trace and logs. Never the data of nodes."""

from __future__ import annotations

import io
import re
from pathlib import Path

from undermine import target_files
from undermine.exchange import safe_zip
from undermine.exchange.safe_zip import Damaged, ZipLimits
from undermine.store.rundir import RunDir

LOG_BYTES_MAX = 2 << 20
"""The bytes of each log file that are kept: its end."""
TOTAL_BYTES_MAX = 128 << 20
_LIMITS = ZipLimits(members=5_000, member_bytes=TOTAL_BYTES_MAX, total_bytes=TOTAL_BYTES_MAX)
_NAMES = re.compile(r"record\.json|history\.jsonl|(trace|logs)/[^/]+", re.DOTALL)


class TooLarge(Exception):
    """The files of a run exceed the limit."""


def pack(run: RunDir) -> bytes:
    """The files of a finished run. Call `tidy` before: it compresses the trace."""
    members: dict[str, bytes] = {}
    left = TOTAL_BYTES_MAX
    for name, path, is_log in _files(run):
        try:
            data = target_files.read_end(path, LOG_BYTES_MAX).data if is_log else target_files.read(path, left)
        except OSError as error:
            if is_log or not path.exists():  # a node has made something else of it
                continue
            raise TooLarge(f"the file {name} of the run cannot be sent: {error}") from None
        left -= len(data)
        if left < 0 or len(members) >= _LIMITS.members:
            raise TooLarge(f"the files of the run are larger than {TOTAL_BYTES_MAX >> 20} MiB, at {name}")
        members[name] = data
    stream = io.BytesIO()
    safe_zip.write(stream, members, level=1)
    return stream.getvalue()


def _files(run: RunDir) -> list[tuple[str, Path, bool]]:
    """The name and path of each file that the client gets; is it a log?"""
    found = [("record.json", run.record, False), ("history.jsonl", run.history, False)]
    for folder, is_log in ((run.trace, False), (run.logs, True)):
        named = [(f"{folder.name}/{path.name}", path) for path in target_files.regular_files(folder)]
        found += [(name, path, is_log) for name, path in named if name.isprintable() and "\\" not in name]
    return found


def unpack(files: bytes, run: RunDir) -> None:
    """Write the files of a run to its empty folder. Raise `Damaged` if they could be written elsewhere, or are too large."""
    with safe_zip.opened(io.BytesIO(files), _LIMITS) as archive:
        members = safe_zip.checked(archive, _LIMITS, _refused)
        if "record.json" not in safe_zip.names_of(members):
            raise Damaged("it has no record")
        safe_zip.extract(archive, members, run.path)


def _refused(name: str) -> str:
    return "" if _NAMES.fullmatch(name) else "is not a file of a run"
