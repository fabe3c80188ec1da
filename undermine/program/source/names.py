"""Names of foreign functions that create the same kind of object, and a helper for lists of names."""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(text.split())


ADDS = words("update extend append add appendleft insert setdefault put put_nowait push")
"""Methods that store their argument in their object."""
SAME = {
    "io.open": "open",
    "os.fdopen": "open",
    "codecs.open": "open",
    "gzip.open": "open",
    "bz2.open": "open",
    "lzma.open": "open",
    "tempfile.NamedTemporaryFile": "open",
    "tempfile.TemporaryFile": "open",
    "pathlib.Path().open": "open",
    "socket.socket().makefile": "open",
    "socket.create_connection": "socket.socket",
    "socket.create_server": "socket.socket",
    "socket.fromfd": "socket.socket",
    "socket.socket().dup": "socket.socket",
    "redis.StrictRedis": "redis.Redis",
    "redis.from_url": "redis.Redis",
    "redis.Redis.from_url": "redis.Redis",
    "redis.client.Redis": "redis.Redis",
    "redis.asyncio.Redis": "redis.Redis",
    "redis.client.Pipeline": "redis.Redis().pipeline",
    "queue.SimpleQueue": "queue.Queue",
    "sqlite3.Connection": "sqlite3.connect",
    "sqlite3.Cursor": "sqlite3.connect().cursor",
    "asyncio.get_running_loop().create_future": "asyncio.Future",
    "asyncio.get_event_loop().create_future": "asyncio.Future",
    "pathlib.Path.cwd": "pathlib.Path",
    "pathlib.Path.home": "pathlib.Path",
    "pathlib.Path().resolve": "pathlib.Path",
    "pathlib.Path().absolute": "pathlib.Path",
    "pathlib.Path().joinpath": "pathlib.Path",
    "pathlib.Path().with_suffix": "pathlib.Path",
    "pathlib.Path().with_name": "pathlib.Path",
    "pathlib.Path().expanduser": "pathlib.Path",
    "typing.TextIO": "open",
    "typing.BinaryIO": "open",
    "typing.IO": "open",
    "io.TextIOWrapper": "open",
    "io.BufferedWriter": "open",
    "io.BufferedReader": "open",
    "io.FileIO": "open",
}
"""Calls whose results are treated like the result of another call."""
PAIRS: dict[str, tuple[str, str]] = {
    "asyncio.open_connection": ("asyncio.StreamReader", "asyncio.StreamWriter"),
    "asyncio.open_unix_connection": ("asyncio.StreamReader", "asyncio.StreamWriter"),
    "socket.socket().accept": ("socket.socket", ""),
    "socket.socketpair": ("socket.socket", "socket.socket"),
    "os.pipe": ("os.pipe", "os.pipe"),
}
