"""tornado's IOStream, which reads ahead and sends from its own buffer: reads of the program are `stream.read`.

Its writes are recorded when the socket sends them.
"""

from __future__ import annotations

READING = ("read_bytes", "read_into", "read_until", "read_until_regex", "read_until_close")


def install(hooks) -> None:
    hooks.when_imported("tornado.iostream", lambda module: hook(hooks, module))


def hook(hooks, module) -> None:
    for name in READING:
        hooks.reading(module.BaseIOStream, name, socket_of)


def socket_of(stream):
    """None for streams over pipes, and once the stream is closed."""
    return getattr(stream, "socket", None)
