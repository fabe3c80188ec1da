"""Groups log lines into entries: a stack trace of twenty lines is one entry.

It knows how Python, the JVM, .NET, Go and Rust print uncaught exceptions. Any other line is an entry of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise

import msgspec

from undermine.checkers.text import printable, words
from undermine.model.run import LogLine

_SAYS_MAX = 500
_INDENTED = (" ", "\t")
"""A line that begins with one of these belongs to the line above; the JVM and Go indent by tabs."""
_TRACEBACK = "Traceback (most recent call last):"
_HEADER = re.compile(r"error|exception|critical|fatal|severe|warn|fail|panic|unhandled|:$", re.IGNORECASE)
_DIRECT_CAUSE = re.compile(r"The above exception was the direct cause")
_CONTEXT_OF = re.compile(r"During handling of the above exception")
_CHAINED = re.compile(rf"{_CONTEXT_OF.pattern}|{_DIRECT_CAUSE.pattern}")
_RAISE = re.compile(r"\s+raise\b")
_CONTEXT = re.compile(r"(future|handle|protocol|transport|task|message|asyncgen|\w+_traceback): ?[<\w]")
_CAUSED = re.compile(r"(Caused by|Suppressed): ")
_JVM_CAUSE = re.compile(r"Caused by: (.+)")
_RAISED = re.compile(r"(?:\w+\.)*([A-Za-z_$][\w$]*)(?::|$)")
"""The last line of a Python traceback and the first of a JVM stack trace: the class, perhaps with its package."""
_PYTHON_FRAME = re.compile(r'[\s|]*File "(.+)", line \d+, in (.+)$')
_GROUP_MEMBER = re.compile(r"[\s|]*\+-[+-]*- \d+ -+$")
_GROUP_MARGIN = re.compile(r"^[\s|]*\| ?")
_BELOW_FRAME = "    "
"""How Python indents the source line of a frame."""
_JVM_FRAME = re.compile(r"\s+at ([^\s(]+)\(")
_GO_BLOCK = re.compile(r"panic: |fatal error: ")
_GO_STACK = re.compile(r"goroutine \d+ \[")
_GO_MORE = re.compile(r"goroutine \d+ \[|\[signal |created by |exit status \d")
_RUST_BLOCK = re.compile(r"thread '.*' (?:\(\d+\) )?panicked at ")
_RUST_MORE = re.compile(r"note: run with |stack backtrace:")
_RUST_PLACE = re.compile(r"panicked at (?:'.*', )?([^\s:]+):\d+")
_MARKS = re.compile(r"[\s|+^~-]*")
"""A line that only points at the line above it, or closes a group."""
_AGENT = re.compile(r"/undermine_agent/|^undermine\.agent\.")
_STANDARD = re.compile(
    r"^<frozen |/lib(64)?/python3[.\d]*/(?!(site|dist)-packages/)|/python3\d+\.zip/"  # Python's files
    r"|^(java|javax|jdk|sun|kotlin|scala|System|Microsoft)\.|^[\w.]+/(java|javax|jdk|sun)\."  # classes
    r"|^(runtime|panic)\b"  # Go's functions
    rf"|{_AGENT.pattern}"
)
_UNCAUGHT = re.compile(
    r"Exception in thread |Task exception was never retrieved|Unhandled exception|Exception in callback "
)
_UNCAUGHT_IN_LINE = re.compile(r'(Exception in thread "[^"]*"|Unhandled exception[.:]) (\S.*)')
_OF_A_CONNECTION = re.compile(r"Unhandled exception|Exception in callback ")
_CONNECTION_LOST = re.compile(
    r"\w*(Connect|Socket|Timeout|TimedOut|BrokenPipe|EOF|IncompleteRead|Closed|Unreachable|NoRoute|BusyLoading)\w*|CancelledError"
)
_ANY_IO = re.compile(r"OSError|IOError|IOException|error")
"""Classes of exceptions whose message alone says what went wrong."""
_LOST_BY_MESSAGE = re.compile(
    r"Connection (?:refused|reset|aborted|timed out)|Broken pipe|(?:Host|Network) is unreachable|No route to host|not connected",
    re.IGNORECASE,
)


class LogEntry(msgspec.Struct, frozen=True):
    """One log entry of a node: a line, or an exception with its stack trace."""

    node: str
    source: str
    incarnation: int
    lines: tuple[str, ...]
    header: str
    """Its first line; "" if that is the exception itself."""
    error: str = ""
    """The class of the exception, or `panic`; "" if there is none."""
    message: str = ""
    """The exception as it was printed."""
    frame: str = ""
    """The innermost frame that is not of a standard library."""
    cause: str = ""
    """For a chain of exceptions: the innermost one, which caused the others, as it was printed."""
    cause_frame: str = ""
    uncaught: bool = False
    """No code of the target caught the exception: it ended a thread or a task, or reached the runtime's last handler."""

    @property
    def says(self) -> str:
        """The entry in one line."""
        at = f" at {self.frame}" if self.frame else ""
        return printable(": ".join(filter(None, (self.header.rstrip(":"), self.message))) + at, _SAYS_MAX)

    @property
    def symptom(self) -> str:
        return f"uncaught {self.error}" + (f" at {self.frame}" if self.frame else "")

    @property
    def shown(self) -> list[str]:
        """Its lines with the frames of the target: without those of the agent and, if there are others, of standard libraries."""
        lines = [_GROUP_MARGIN.sub("", line) for line in self.lines if not _MARKS.fullmatch(line)]
        places = [place for line in lines if (place := _place(line))]
        foreign = _STANDARD if any(not _STANDARD.search(place) for place in places) else _AGENT
        kept, skipping = [], False
        for line in lines:
            place = _place(line)
            skipping = bool(foreign.search(place)) if place else skipping and line.startswith(_BELOW_FRAME)
            if not skipping:
                kept.append(line)
        at = f", at {self.cause_frame}" if self.cause_frame else ""
        return [*kept, f"caused by {self.cause}{at}"] if self.cause else kept

    @property
    def is_lost_connection(self) -> bool:
        """Does the exception, or the one that caused it, say that a peer is gone or doesn't answer?"""
        return any(map(_says_lost_connection, (self.message, self.cause)))

    @property
    def words(self) -> tuple[str, ...]:
        """The words by which the entry is recognised in another run. An exception counts by class and place, not by message."""
        header = words(self.header)
        return (f"{self.error}@{self.frame}".replace(" ", "_"), *header) if self.error else header


def is_lost_connection(error: str, message: str = "") -> bool:
    """Does an exception say that a peer is gone or doesn't answer? `error` is the name of its class."""
    name = error.rpartition(".")[2]
    return bool(_CONNECTION_LOST.fullmatch(name) or (_ANY_IO.fullmatch(name) and _LOST_BY_MESSAGE.search(message)))


def _says_lost_connection(said: str) -> bool:
    """The same for an exception as it was printed."""
    raised = _RAISED.match(said)
    return raised is not None and is_lost_connection(raised[1], said[raised.end() :])


def entries(lines: Iterable[LogLine]) -> Iterator[LogEntry]:
    """The log entries of all nodes, file by file."""
    for (node, incarnation, source), group in groupby(
        lines, key=lambda line: (line.node, line.incarnation, line.source)
    ):
        for block in _blocks([line.text for line in group if line.text.strip()]):
            yield _entry(node, source, incarnation, block)


def _place(line: str) -> str:
    """The file or the method of a frame; "" if the line isn't one."""
    frame = _PYTHON_FRAME.match(line) or _JVM_FRAME.match(line)
    return str(frame[1]) if frame else ""


# --- lines that belong together


class _Block:
    """A line and the lines that belong to it."""

    def __init__(self, first: str) -> None:
        self.lines = [first]
        self._go = bool(_GO_BLOCK.match(first))
        self._rust = bool(_RUST_BLOCK.match(first))
        self._awaits_end = first.startswith(_TRACEBACK) or self._rust
        """The next line that is not indented ends the block and belongs to it."""

    def takes(self, line: str, following: str) -> bool:
        if self._awaits_end:
            self._awaits_end = line.startswith((*_INDENTED, _TRACEBACK))
        elif line.startswith(_TRACEBACK):
            if not (_CHAINED.match(self.lines[-1]) or _CONTEXT.match(self.lines[-1]) or self._is_header()):
                return False
            self._awaits_end = True
        elif not (line.startswith(_INDENTED) or self._continues(line) or self._is_explained_by(line, following)):
            return False
        self.lines.append(line)
        return True

    def _is_header(self) -> bool:
        return len(self.lines) == 1 and bool(_HEADER.search(self.lines[0]))

    def _continues(self, line: str) -> bool:
        if _GO_STACK.match(line) and self._is_header():
            self._go = True
        if self._go:
            return bool(_GO_MORE.match(line) or _go_function(line))
        if self._rust:
            return bool(_RUST_MORE.match(line))
        if _CONTEXT.match(line):
            return bool(_UNCAUGHT.search(self.lines[0])) and not any(_PYTHON_FRAME.match(said) for said in self.lines)
        return len(self.lines) > 1 and bool(_CHAINED.match(line) or _CAUSED.match(line))

    def _is_explained_by(self, line: str, following: str) -> bool:
        """Is the line a JVM exception with frames below it that this block's log line announces?"""
        return bool(_JVM_FRAME.match(following)) and bool(_RAISED.match(line)) and self._is_header()


def _blocks(lines: Sequence[str]) -> Iterator[list[str]]:
    block: _Block | None = None
    for line, following in pairwise([*lines, ""]):
        if block and block.takes(line, following):
            continue
        if block:
            yield block.lines
        block = _Block(line)
    if block:
        yield block.lines


# --- reading a block


def _entry(node: str, source: str, incarnation: int, block: Sequence[str]) -> LogEntry:
    plain = LogEntry(node, source, incarnation, tuple(block), block[0].strip())
    if len(block) == 1:
        return plain
    found = _python(block) or _python_group(block) or _native(block) or _jvm(block)
    return msgspec.structs.replace(plain, **found) if found else plain


def _python(block: Sequence[str]) -> dict[str, object]:
    starts = [index for index, line in enumerate(block) if line.startswith(_TRACEBACK)]
    if not starts:
        return {}
    parts = [block[start:end] for start, end in pairwise([*starts, len(block)])]
    end, place = _traceback(parts[-1])
    raised = _RAISED.match(end)
    if raised is None:
        return {}
    header = block[0].strip() if starts[0] else ""
    found = _exception(header, raised[1], end, place, uncaught=_is_uncaught(header, end))
    first = len(parts) - 1
    while first and _is_cause(parts[first - 1], parts[first]):
        first -= 1
    return found | _caused_by(*_traceback(parts[first])) if first < len(parts) - 1 else found


def _is_cause(before: Sequence[str], after: Sequence[str]) -> bool:
    """Did the first exception cause the second one? If the function that caught the first one raised on purpose, it did. An error
    in a handler, or in a function that a handler calls, is another one."""
    link = next((line for line in reversed(before) if _CHAINED.match(line)), "")
    if not _CONTEXT_OF.match(link):
        return bool(link)
    caught = next((frame.groups() for line in before if (frame := _PYTHON_FRAME.match(line))), None)
    frames = [(index, frame.groups()) for index, line in enumerate(after) if (frame := _PYTHON_FRAME.match(line))]
    if not frames or frames[-1][1] != caught:
        return False
    return any(_RAISE.match(line) for line in after[frames[-1][0] + 1 : frames[-1][0] + 2])


def _caused_by(cause: str, place: str) -> dict[str, object]:
    return {"cause": printable(cause, _SAYS_MAX), "cause_frame": printable(place)}


def _traceback(lines: Sequence[str]) -> tuple[str, str]:
    """The exception of a Python traceback, and the innermost frame that is not of the standard library."""
    end = next((line for line in lines[1:] if not line.startswith(_INDENTED)), "")
    frames = [frame for line in lines if (frame := _PYTHON_FRAME.match(line))]
    own = [frame for frame in frames if not _STANDARD.search(frame[1])] or frames
    return end, f"{own[-1][1].rpartition('/')[2]}:{own[-1][2]}" if own else ""


def _python_group(block: Sequence[str]) -> dict[str, object]:
    """Read an exception group: its first member counts that isn't just cancelled or without a connection because of another."""
    starts = [index for index, line in enumerate(block) if _GROUP_MEMBER.match(line)]
    members = [block[start + 1 : end] for start, end in pairwise([*starts, len(block)])]
    found = [_python([block[0], *(_GROUP_MARGIN.sub("", line) for line in member)]) for member in members]
    raised = [one for one in found if one]
    return next((one for one in raised if not _says_lost_connection(str(one["message"]))), next(iter(raised), {}))


def _is_uncaught(header: str, said: str) -> bool:
    """Is it uncaught? A server that reports a lost connection in this way has only ended that connection's handler."""
    if not _UNCAUGHT.search(header):
        return False
    return not (_OF_A_CONNECTION.search(header) and _says_lost_connection(said))


def _native(block: Sequence[str]) -> dict[str, object]:
    """Read a panic of Go or Rust."""
    first = block[0].strip()
    if _RUST_BLOCK.match(first):
        place = _RUST_PLACE.search(first)
        return _exception(first, "panic", block[1].strip(), place[1].rpartition("/")[2] if place else "", uncaught=True)
    if not _GO_BLOCK.match(first) or not any(line.startswith("goroutine ") for line in block):
        return {}
    frames = [frame for line in block[1:] if (frame := _go_function(line))]
    own = [frame for frame in frames if not _STANDARD.search(frame)] or frames
    return _exception("", "panic", first, own[0].rpartition("/")[2] if own else "", uncaught=True)


def _go_function(line: str) -> str:
    """`main.serve` of a frame like `main.serve(0xc000, 0x1)`."""
    name = line.rpartition("(")[0] if line.endswith(")") else ""
    return "" if " " in name else name


def _jvm(block: Sequence[str]) -> dict[str, object]:
    """Read an exception of the JVM, or of .NET, which prints frames in a similar way."""
    start = next((index for index, line in enumerate(block) if _JVM_FRAME.match(line)), 0) - 1
    if start < 0:
        return {}
    said = block[start].strip()
    announced = _UNCAUGHT_IN_LINE.fullmatch(said)
    header, thrown = announced.groups() if announced else ("", said)
    raised = _RAISED.match(thrown)
    if raised is None:
        return {}
    before = block[0].strip() if start else ""
    found = _exception(header or before, raised[1], thrown, _jvm_place(block[start + 1 :]), uncaught=bool(header))
    causes = [(index, cause[1]) for index, line in enumerate(block) if (cause := _JVM_CAUSE.match(line))]
    return found | _caused_by(causes[-1][1], _jvm_place(block[causes[-1][0] :])) if causes else found


def _jvm_place(lines: Sequence[str]) -> str:
    """The class and method of the first frame that is not of a standard library; "" without frames."""
    frames = [frame[1] for line in lines if (frame := _JVM_FRAME.match(line))]
    own = [frame for frame in frames if not _STANDARD.search(frame)] or frames
    return ".".join(own[0].rpartition("/")[2].split(".")[-2:]) if own else ""


def _exception(header: str, error: str, message: str, place: str, *, uncaught: bool) -> dict[str, object]:
    return {
        "header": header,
        "error": printable(error),
        "message": printable(message, _SAYS_MAX),
        "frame": printable(place),
        "uncaught": uncaught,
    }
