"""The folder of one run: what lies where, and how a stored run is read back. Writes only through `save_record` and `tidy`."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

import msgspec

from undermine.model import codec
from undermine.model.errors import UserError
from undermine.model.event import Trace
from undermine.model.run import Op, Receipt, RunRecord, RunView


class RunDir:
    """Names of everything below a run's folder."""

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

    def create(self) -> None:
        """An empty folder; what a lost row of the store left there says nothing."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.path.mkdir(mode=0o700, parents=True)
        for folder in (self.trace, self.logs, self.nodes, self.agents):
            folder.mkdir(mode=0o700)

    def node(self, node: str) -> Path:
        return self.nodes / node

    def log(self, node: str, incarnation: int, stream: str) -> Path:
        return self.logs / f"{node}.{incarnation}.{stream}"

    def agent_config(self, node: str, incarnation: int) -> Path:
        return self.agents / f"{node}.{incarnation}.json"


def save_record(run: RunDir, record: RunRecord) -> None:
    """Replace the record as a whole: a reader sees the old one or the new one."""
    temporary = run.record.with_suffix(".tmp")
    with open(temporary, "wb") as stream:
        stream.write(msgspec.json.encode(record))
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(temporary, run.record)


def load_record(run: RunDir) -> RunRecord:
    try:
        return msgspec.json.decode(run.record.read_bytes(), type=RunRecord)
    except FileNotFoundError:
        raise UserError(
            f"the run in {run.path} has no record; it was interrupted: run `undermine hunt --resume`"
        ) from None
    except (msgspec.DecodeError, OSError) as error:
        raise UserError(
            f"the record {run.record} cannot be read ({error}); remove that folder or restore it"
        ) from error


def read_history(path: Path) -> tuple[Op, ...]:
    """All operations of a run, by number; an invocation without a completion is `pending`. A torn last line is skipped."""
    ops: dict[int, Op] = {}
    with contextlib.suppress(FileNotFoundError):
        for line in path.read_bytes().splitlines():
            with contextlib.suppress(msgspec.DecodeError):
                op = msgspec.json.decode(line, type=Op)
                ops[op.index] = op
    return tuple(ops[index] for index in sorted(ops))


def load_trace(run: RunDir) -> tuple[Trace, tuple[Receipt, ...]]:
    return codec.read_trace(run.trace)


def load_view(run: RunDir) -> RunView:
    """A stored run as a checker sees it."""
    return RunView(load_record(run), read_history(run.history), lambda: load_trace(run)[0])


def tidy(folder: Path, *, keep_data: bool) -> None:
    """Remove what nobody reads again: tables and shared memory, and the data of runs that passed; pack the trace."""
    run = RunDir(folder)
    codec.pack(run.trace)
    shutil.rmtree(run.agents, ignore_errors=True)
    run.state.unlink(missing_ok=True)
    if not keep_data:
        shutil.rmtree(run.nodes, ignore_errors=True)
