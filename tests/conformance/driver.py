"""A target that runs commands, one per line. `Driver.java` understands the same commands.

A line is a verb and its arguments. With `@NAME` before it, the thread of that name runs it, and is started if necessary. Every
line has an answer of one line: the name of the thread (such as `main`), then `ok` and the result, or `error` and the name of
the error. The program's argument chooses between two APIs for each command: `plain` and `other`.
"""

from __future__ import annotations

import errno
import os
import queue
import socket
import ssl
import sys
import threading
import time
from typing import Any

OTHER = sys.argv[1:] == ["other"]


def text(data: bytes) -> str:
    """Bytes as text; a byte that isn't ASCII as `\\xca`."""
    return bytes(data).decode("ascii", "backslashreplace")


class Plain:
    """A file through Python's file object, without a buffer."""

    def __init__(self, path: str, mode: str) -> None:
        self.file = open(path, mode + "b", buffering=0)  # noqa: SIM115 - closed by a line of its own

    def write(self, text: str) -> Any:
        return self.file.write(text.encode())

    def read(self, size: int) -> Any:
        return text(self.file.read(size))

    def fsync(self) -> None:
        os.fsync(self.file.fileno())

    def truncate(self, size: int) -> None:
        self.file.truncate(size)

    def close(self) -> None:
        self.file.close()


class Descriptor:
    """A file through the functions of `os`."""

    def __init__(self, path: str, mode: str) -> None:
        flags = {"x": os.O_RDWR | os.O_CREAT | os.O_EXCL, "r+": os.O_RDWR, "r": os.O_RDONLY}
        self.fd = os.open(path, flags[mode])

    def write(self, text: str) -> Any:
        return os.write(self.fd, text.encode())

    def read(self, size: int) -> Any:
        return text(os.read(self.fd, size))

    def fsync(self) -> None:
        os.fsync(self.fd)

    def truncate(self, size: int) -> None:
        os.ftruncate(self.fd, size)

    def close(self) -> None:
        os.close(self.fd)


File = Descriptor if OTHER else Plain


class Gone(Exception):
    """The exception that a thread dies of."""


class Cause(Exception):
    """The exception that causes it."""


class Driver:
    """Runs lines, and keeps the files and sockets that they have opened, by name."""

    def __init__(self) -> None:
        self.open_ones: dict[str, Any] = {}
        self.threads: dict[str, queue.Queue[list[str]]] = {}
        self.mood = "calm"
        self.values: dict[str, bytes] = {}

    # --- files

    def create(self, name: str, path: str) -> None:
        self.open_ones[name] = File(path, "x")

    def open(self, name: str, path: str) -> None:
        self.open_ones[name] = File(path, "r+")

    def input(self, name: str, path: str) -> None:
        self.open_ones[name] = File(path, "r")

    def write(self, name: str, text: str) -> Any:
        return self.open_ones[name].write(text)

    def twice(self, name: str, text: str) -> None:
        file, data = self.open_ones[name], text.encode()
        if OTHER:
            os.write(file.fd, data)
            os.write(file.fd, data)
        else:
            file.file.write(data)
            file.file.write(data)

    def read(self, name: str, size: str) -> Any:
        return self.open_ones[name].read(int(size))

    def fsync(self, name: str) -> None:
        self.open_ones[name].fsync()

    def truncate(self, name: str, size: str) -> None:
        self.open_ones[name].truncate(int(size))

    def close(self, name: str) -> None:
        self.open_ones.pop(name).close()

    def rename(self, one: str, other: str) -> None:
        os.rename(one, other)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def mkdir(self, path: str) -> None:
        os.mkdir(path)

    def rmdir(self, path: str) -> None:
        os.rmdir(path)

    def stat(self, path: str) -> Any:
        return os.stat(path).st_size

    def list(self, path: str) -> Any:
        return ",".join(sorted(os.listdir(path)))

    # --- connections

    def listen(self, name: str, port: str) -> None:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", int(port)))
        listener.listen(8)
        self.open_ones[name] = listener

    def connect(self, name: str, port: str) -> None:
        self.open_ones[name] = socket.create_connection(("127.0.0.1", int(port)))

    def connect_within(self, name: str, port: str, seconds: str) -> None:
        self.open_ones[name] = socket.create_connection(("127.0.0.1", int(port)), timeout=float(seconds))

    def accept(self, name: str, listener: str) -> None:
        self.open_ones[name] = self.open_ones[listener].accept()[0]

    def send(self, name: str, text: str) -> None:
        if OTHER:
            self.open_ones[name].sendmsg([text.encode()])
        else:
            self.open_ones[name].send(text.encode())

    def recv(self, name: str, size: str) -> Any:
        """Receive at most `size` bytes; `end` at the end of the stream."""
        if not OTHER:
            return text(self.open_ones[name].recv(int(size))) or "end"
        room = bytearray(int(size))
        return text(room[: self.open_ones[name].recv_into(room)]) or "end"

    def limit(self, name: str, seconds: str) -> None:
        """Let receives on a connection wait for at most this time."""
        self.open_ones[name].settimeout(float(seconds))

    def nonblocking(self, name: str) -> None:
        self.open_ones[name].setblocking(False)

    def tls(self, name: str, port: str) -> None:
        """Connect with TLS; accept any certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self.open_ones[name] = context.wrap_socket(socket.create_connection(("127.0.0.1", int(port))))

    def say(self, name: str, text: str) -> None:
        """Send on a TLS connection, which has no `sendmsg`."""
        self.open_ones[name].send(text.encode())

    def hear(self, name: str, size: str) -> Any:
        return text(self.open_ones[name].recv(int(size))) or "end"

    def datagram(self, name: str) -> None:
        self.open_ones[name] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.open_ones[name].bind(("127.0.0.1", 0))

    def sendto(self, name: str, port: str, text: str) -> None:
        self.open_ones[name].sendto(text.encode(), ("127.0.0.1", int(port)))

    def recvfrom(self, name: str, size: str) -> Any:
        if not OTHER:
            return text(self.open_ones[name].recvfrom(int(size))[0])
        room = bytearray(int(size))
        return text(room[: self.open_ones[name].recvfrom_into(room)[0]])

    # --- methods and variables that triggers and configurations name

    def feel(self, mood: str) -> None:
        self.mood = mood

    def report(self, connection: str, kind: str, peer: str) -> None:
        self.message(kind, peer, connection)

    def message(self, kind: str, peer: str, connection: str) -> None:
        self.open_ones[connection].send(kind.encode())

    def parcel(self, connection: str, content: str, peer: str) -> Any:
        data = content.encode()
        self.packed(data, peer, connection)
        return text(data)  # as the program still has it

    def packed(self, data: bytes, peer: str, connection: str) -> None:
        self.open_ones[connection].send(data)

    def deliver(self, kind: str) -> Any:
        self.handle(kind)
        return self.mood

    def handle(self, kind: str) -> None:
        self.mood = kind

    def keep(self, key: str, value: str) -> None:
        self.stored(key, value.encode())

    def stored(self, key: str, value: bytes) -> None:
        self.values[key] = value

    def forget(self, key: str) -> None:
        del self.values[key]

    def look(self, key: str) -> Any:
        found = self.fetched(key)
        return text(found) if found else "nothing"

    def fetched(self, key: str) -> bytes | None:
        return self.values.get(key)

    def take(self, connection: str, size: str) -> Any:
        return text(self.taken(connection, int(size)))

    def taken(self, connection: str, size: int) -> bytes:
        data: bytes = self.open_ones[connection].recv(size)
        return data

    # --- threads

    def end(self, name: str) -> None:
        thread = next(thread for thread in threading.enumerate() if thread.name == name)
        self.threads.pop(name).put(["leave"])
        thread.join()

    def die(self, name: str, text: str) -> None:
        thread = next(thread for thread in threading.enumerate() if thread.name == name)
        self.threads.pop(name).put(["raise", text])
        thread.join()

    def clocks(self) -> str:
        """The monotonic clock and the wall clock, in nanoseconds."""
        return f"{time.monotonic_ns()} {time.time_ns()}"

    def rest(self, seconds: str) -> None:
        """Sleep, or wait in vain for another thread."""
        if OTHER:
            threading.Event().wait(float(seconds))
        else:
            time.sleep(float(seconds))

    def another(self, name: str) -> None:
        """Start a thread that ends at once. Another thread may have the same name."""
        thread = threading.Thread(target=self.stat, args=(".",), name=name)
        thread.start()
        thread.join()

    def work(self, lines: queue.Queue[list[str]]) -> None:
        while (words := lines.get()) != ["leave"]:
            if words[0] == "raise":
                raise Gone(words[1]) from Cause("first")
            self.answer(words)

    # --- lines

    def deep(self, *words: str) -> Any:
        return self.outer(list(words))

    def outer(self, words: list[str]) -> Any:
        return self.inner(words)

    def inner(self, words: list[str]) -> Any:
        return getattr(self, words[0])(*words[1:])

    def perform(self, words: list[str]) -> str:
        try:
            said = getattr(self, words[0])(*words[1:])
        except BlockingIOError:
            return "again"
        except TimeoutError:
            return "error ETIMEDOUT"
        except OSError as error:
            return "error " + (errno.errorcode.get(error.errno or 0) or type(error).__name__)
        return "ok" if said is None else f"ok {said}"

    def answer(self, words: list[str]) -> None:
        thread = threading.current_thread()
        name = "main" if thread is threading.main_thread() else thread.name
        sys.stdout.write(f"{name} {self.perform(words)}\n")
        sys.stdout.flush()

    def line(self, words: list[str]) -> None:
        if not words[0].startswith("@"):
            self.answer(words)
            return
        name = words[0][1:]
        if name not in self.threads:
            self.threads[name] = queue.Queue()
            threading.Thread(target=self.work, args=(self.threads[name],), name=name, daemon=True).start()
        self.threads[name].put(words[1:])


if __name__ == "__main__":
    driver = Driver()
    for each in iter(sys.stdin.readline, ""):
        driver.line(each.split())
