"""Corruption: bytes that are changed in transit, or in the file that is about to be read.

An occurrence counts only if there are bytes to change, so the change claims its step when it sees them.
"""

from __future__ import annotations

import os
import stat

_open, _close, _pread, _pwrite, _lseek, _fstat = os.open, os.close, os.pread, os.pwrite, os.lseek, os.fstat


def altered(data: bytes, how: str, at: float):
    """The changed bytes, and a text that says what was done to them; None if there is nothing to change."""
    if how == "zero":
        changed = bytes(len(data))
        return None if changed == data else (changed, "bytes 0 to %d now 00" % (len(data) - 1))
    if not data:
        return None
    place = place_of(len(data), at)
    old = data[place]
    changed = data[:place] + bytes((old ^ 0xFF,)) + data[place + 1 :]
    return changed, "byte %d was %02x, now %02x" % (place, old, old ^ 0xFF)


def place_of(size: int, at: float) -> int:
    return min(size - 1, max(0, int(at * size)))


class Corruption:
    """Changes the bytes of one operation. `claim(detail)` counts the occurrence, asks the tool and writes the receipt."""

    lost = False

    def __init__(self, agent, operation: str, fault: dict, claim):
        self.agent = agent
        self.operation = operation
        self.how, self.at = fault.get("how", "flip"), float(fault.get("at", 0.5))
        self.claim = claim
        self.done = False

    def instead(self, original, args, options):
        if self.operation == "file.read":
            self._guarded(self._in_file, args)
        elif self.operation == "file.map_read":
            self._guarded(self._in_mapping, original.__name__, *args)
        elif self.operation == "file.map_write" and type(args[-1]) is int:
            args = self._guarded(self._one_byte, original.__name__, args) or args
        elif self.operation != "net.recv":
            args, options = self._guarded(self._in_arguments, args, options) or (args, options)
        result = original(*args, **options)
        if self.done or self.operation not in ("net.recv", "msg.recv"):
            return result
        changed = self._guarded(self._in_result, result, args)
        return result if changed is None else changed

    def _guarded(self, function, *args):
        """Run the agent's own code: hooks do nothing meanwhile, and errors are noted. None: nothing was changed."""
        state = self.agent.thread_state()
        busy, state.busy = state.busy, True
        try:
            return function(*args)
        except Exception as error:
            self.agent._note(error)
            return None
        finally:
            state.busy = busy

    def _agreed(self, data: bytes):
        """The changed bytes, if there are any to change and the tool agrees."""
        change = altered(data, self.how, self.at)
        if change is None or not self.claim(change[1]):
            return None
        self.done = True
        return change[0]

    def _in_arguments(self, args, options):
        """Change the last argument that is bytes or a list of bytes; skip the object itself, which may look like bytes."""
        for index in range(len(args) - 1, -1, -1):
            changed = self._changed(args[index])
            if changed is not None:
                return (*args[:index], changed, *args[index + 1 :]), options
        for name, value in options.items():
            changed = self._changed(value)
            if changed is not None:
                return args, {**options, name: changed}
        return None

    def _changed(self, value):
        if isinstance(value, (list, tuple)) and value and all(map(is_bytes, value)):
            changed = self._agreed(b"".join(map(bytes, value)))
            return None if changed is None else [changed]
        if not is_bytes(value):
            return None
        return self._agreed(bytes(value))

    def _in_result(self, result, args):
        """Change a received result: bytes, a number of bytes in a given buffer, or a tuple that starts with one of these."""
        first = result[0] if isinstance(result, tuple) and result else result
        if isinstance(first, int):
            buffer = next((memoryview(each).cast("B") for each in args if is_bytes(each)), None)
            if buffer is None or not first:
                return None
            changed = self._agreed(bytes(buffer[:first]))
            if changed is not None:
                buffer[:first] = changed
            return None
        changed = self._agreed(bytes(first)) if is_bytes(first) else None
        if changed is None:
            return None
        return (changed, *result[1:]) if isinstance(result, tuple) else changed

    def _in_file(self, args):
        """Change the bytes that this read is about to return, in the file itself."""
        fd = args[0] if isinstance(args[0], int) else args[0].fileno()
        status = _fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            return
        start = args[2] if len(args) > 2 and isinstance(args[2], int) else _lseek(fd, 0, os.SEEK_CUR)
        size = min(asked(args[1:2]), status.st_size - start)
        if size <= 0:
            return
        try:
            own = _open("/proc/self/fd/%d" % fd, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return  # not a file that the agent may change
        try:
            self._in_range(own, start, size)
        finally:
            _close(own)

    def _in_range(self, fd: int, start: int, size: int) -> None:
        if self.how == "flip":
            start += place_of(size, self.at)
            size = 1
        data = _pread(fd, size, start)
        change = altered(data, self.how, 0)
        if change is not None:
            detail = "at %d of the file %s" % (start, change[1])
            if self.claim(detail):
                _pwrite(fd, change[0], start)

    def _one_byte(self, method: str, args):
        """Change a byte that is put into a mapped file as a number; the bytes that `move` copies are already there."""
        if method == "move" or not 0 <= args[-1] < 256:
            return None
        changed = self._agreed(bytes(args[-1:]))
        return None if changed is None else (*args[:-1], changed[0])

    def _in_mapping(self, method: str, mapping, *asked_for):
        try:
            index = asked_for[0] if method == "__getitem__" else range_read(method, mapping, asked_for)
            part = mapping[index]
            mapping[index] = part
        except (TypeError, ValueError, IndexError):
            return  # mapped read-only, or the access fails anyway
        data = bytes((part,)) if isinstance(part, int) else part
        changed = self._agreed(data) if data else None
        if changed is not None:
            mapping[index] = changed[0] if isinstance(part, int) else changed


def is_bytes(value) -> bool:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return True
    return type(value).__name__ == "array" and hasattr(value, "typecode")


def range_read(method: str, mapping, asked_for) -> slice:
    """Change the bytes that a method is about to read at a mapped file's position."""
    start = mapping.tell()
    if method == "read_byte":
        return slice(start, start + 1)
    if method == "readline":
        return slice(start, mapping.find(b"\n", start) + 1 or len(mapping))
    return slice(start, min(start + asked(asked_for), len(mapping)))


def asked(args) -> int:
    """The number of bytes that a read asks for: a number, a buffer, buffers, or everything."""
    if not args or args[0] is None:
        return 1 << 62
    if isinstance(args[0], int):
        return args[0] if args[0] >= 0 else 1 << 62
    if isinstance(args[0], (list, tuple)):
        return sum(memoryview(each).nbytes for each in args[0])
    return memoryview(args[0]).nbytes
