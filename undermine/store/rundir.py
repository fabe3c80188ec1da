"""The folder of one run: the names of its files, and functions that read a stored run.

Only `save_record`, `save_baseline`, `write_altered` and `tidy` write. Logs may be hostile, so lines are cut and made printable.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache
from pathlib import Path

import msgspec

from undermine import target_files
from undermine.model import codec
from undermine.model.baseline import Baseline
from undermine.model.columns import Columns
from undermine.model.errors import UserError
from undermine.model.event import Trace
from undermine.model.run import LogLine, Op, Receipt, RunRecord, RunView
from undermine.model.text import printable

_BASELINE = "baseline.json"
_FILE_BYTES_MAX = 1 << 30
_LOG_BYTES_MAX = 2 << 20
_LOGS_BYTES_MAX = 16 << 20
_LOG_LINE_MAX = 2000
_USERLAND_LOGS = ("workload.log", "final.log", "ready.log", "health.log")
"""The output of the user's own functions, in the same folder as the nodes' logs."""
_STREAM = re.compile(r"(\d{1,9})\.(out|err)", re.ASCII)


class RunDir:
    """The paths of all files and folders below a run's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.record = path / "record.json"
        self.history = path / "history.jsonl"
        self.trace = path / "trace"
        self.logs = path / "logs"
        self.nodes = path / "nodes"
        self.session = path / "session.json"
        self.state = path / "state.bin"
        self.agents = path / "agents"
        self.synced = path / "synced"

    def create(self) -> None:
        """Create an empty folder. An old one may exist, left by a run whose row in the store was lost."""
        target_files.remove(self.path)
        self.path.mkdir(mode=0o700, parents=True)
        self.restore()

    @property
    def lost(self) -> list[Path]:
        """The parts of the folder that a node has removed, or put something else in place of. The files need not exist."""
        needed = (self.path, self.trace, self.logs, self.nodes, self.agents)
        lost = [folder for folder in needed if folder.is_symlink() or not folder.is_dir()]
        files = [path for path in (self.history, self.state) if os.path.lexists(path)]
        return lost + [path for path in files if path.is_symlink() or not path.is_file()]

    def restore(self) -> None:
        """Create the folders that are missing, so that the run can be stored."""
        for path in self.lost:
            target_files.remove(path)
            if path not in (self.history, self.state):
                path.mkdir(mode=0o700, parents=True)

    def node(self, node: str) -> Path:
        return self.nodes / node

    def log(self, node: str, incarnation: int, stream: str) -> Path:
        return self.logs / f"{node}.{incarnation}.{stream}"

    def agent_config(self, node: str, incarnation: int) -> Path:
        return self.agents / f"{node}.{incarnation}.json"


def save_record(run: RunDir, record: RunRecord) -> None:
    _replace(run.record, msgspec.json.encode(record))


def _replace(path: Path, content: bytes) -> None:
    """Replace a file atomically: a reader sees the old content or the new one."""
    temporary = path.with_suffix(".tmp")
    target_files.write_new(temporary, content, synced=True)
    if path.is_dir():
        target_files.remove(path)
    os.replace(temporary, path)


def load_record(run: RunDir) -> RunRecord:
    try:
        return msgspec.json.decode(target_files.read(run.record, _FILE_BYTES_MAX), type=RunRecord)
    except FileNotFoundError:
        raise UserError(
            f"the run in {run.path} has no record; it was interrupted: run `undermine hunt --resume`"
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError, OSError) as error:
        raise UserError(
            f"the record {run.record} cannot be read ({error}); remove that folder or restore it"
        ) from error


def read_history(path: Path) -> tuple[Op, ...]:
    """The client operations of a run by number; one without a completion is `pending`. Damaged lines are skipped."""
    ops: dict[int, Op] = {}
    with contextlib.suppress(OSError):
        for line in target_files.read_start(path, _FILE_BYTES_MAX).splitlines():
            with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                op = msgspec.json.decode(line, type=Op)
                ops[op.index] = op
    return tuple(ops[index] for index in sorted(ops))


def load_trace(run: RunDir) -> tuple[Trace, tuple[Receipt, ...]]:
    """The nodes' events and receipts, for checkers and strategies.

    The events of clients are left out: no fault can be injected there, and the history has their operations. To relate both,
    read the whole trace with `codec.read_columns`.
    """
    columns, receipts = codec.read_with_receipts(run.trace)
    return columns.trace_of_nodes(), receipts


def load_view(run: RunDir, columns: Callable[[], Columns] | None = None) -> RunView:
    """A stored run as checkers see it. `columns` returns all its events, if the caller keeps them."""
    load = columns or lru_cache(lambda: codec.read_columns(run.trace))
    return _view(run, load_record(run), lambda: load().trace_of_nodes(), load)


def view_of(run: RunDir, record: RunRecord, trace: Trace) -> RunView:
    """A run that has just ended, with its trace in memory, as checkers see it."""
    return _view(run, record, lambda: trace)


def _view(
    run: RunDir, record: RunRecord, trace: Callable[[], Trace], columns: Callable[[], Columns] | None = None
) -> RunView:
    nodes = tuple(info.id for info in record.nodes)
    return RunView(
        record,
        read_history(run.history),
        trace,
        lambda: read_logs(run.logs, nodes),
        lambda: load_baseline(run.path.parent.parent),
        columns,
    )


def write_altered(
    run: RunDir, original: RunDir, record: RunRecord, history: Iterable[Op], more_logs: Iterable[LogLine]
) -> None:
    """Write a copy of a stored run with another record, another history and more lines in its logs.

    The user's checkers read it like any other run. Both runs share the trace.
    """
    shutil.rmtree(run.path, ignore_errors=True)
    run.path.mkdir(mode=0o700, parents=True)
    save_record(run, record)
    run.history.write_bytes(b"".join(msgspec.json.encode(op) + b"\n" for op in history))
    if original.trace.is_dir():
        run.trace.symlink_to(original.trace.resolve())
    run.logs.mkdir(mode=0o700)
    for path in target_files.regular_files(original.logs):
        shutil.copyfile(path, run.logs / path.name)
    for line in more_logs:
        with open(run.log(line.node, line.incarnation, line.source), "a") as out:
            out.write(line.text + "\n")


# --- logs


def read_logs(folder: Path, nodes: Collection[str]) -> tuple[LogLine, ...]:
    """The last lines of each of the nodes' log files, file by file."""
    files = sorted((key, path) for path in target_files.regular_files(folder) if (key := _log_key(path.name, nodes)))
    bytes_max = min(_LOG_BYTES_MAX, _LOGS_BYTES_MAX // max(1, len(files)))
    return tuple(
        LogLine(node, source, text, incarnation)
        for (node, incarnation, source), path in files
        for text in _last_lines(path, bytes_max)
    )


def _log_key(name: str, nodes: Collection[str]) -> tuple[str, int, str] | None:
    """(node, incarnation, source) of a log file; None if no node wrote it. Names of nodes contain no dot."""
    node, _, rest = name.partition(".")
    if node not in nodes or name in _USERLAND_LOGS:
        return None
    if stream := _STREAM.fullmatch(rest):
        return node, int(stream[1]), stream[2]
    return node, 0, printable(rest)


def _last_lines(path: Path, bytes_max: int) -> Iterator[str]:
    """The last lines of a file, shortened and made printable. Empty lines and a line whose beginning is cut off are left out."""
    try:
        content, before = target_files.read_end(path, bytes_max)
    except OSError:
        return
    if before:
        content = content.partition(b"\n")[2]
    for line in content.split(b"\n"):
        text = line[: 4 * _LOG_LINE_MAX].decode(errors="replace").rstrip().expandtabs(4)
        if text:
            yield printable(text, _LOG_LINE_MAX)


# --- the baseline


def save_baseline(campaign: Path, baseline: Baseline) -> None:
    _replace(campaign / _BASELINE, msgspec.json.encode(baseline))


def load_baseline(campaign: Path) -> Baseline:
    """The campaign's baseline; an empty one if none was saved or it cannot be read."""
    try:
        return msgspec.json.decode((campaign / _BASELINE).read_bytes(), type=Baseline)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return Baseline()


def tidy(folder: Path, *, keep_data: bool) -> None:
    """Compress the trace, and remove files that are not needed after the run: agent configurations, shared memory, stack dumps
    (which are in the record) and, unless `keep_data`, the nodes' data."""
    run = RunDir(folder)
    codec.pack(run.trace)
    unneeded = [*run.trace.glob("*.stacks*"), run.agents, run.state]
    for path in unneeded if keep_data else [*unneeded, run.nodes]:
        target_files.remove(path)
