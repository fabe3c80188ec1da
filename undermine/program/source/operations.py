"""Decides which calls are I/O operations, and which operation of the protocol each one probably is.

Goes by the called function. If that is unknown, by characteristic names of methods and of the objects that they are
called on.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Iterable

import msgspec

from undermine.program.source.index import Ref, last_name
from undermine.program.source.names import words


class Named(msgspec.Struct, frozen=True):
    """An operation that a user has named: a function of the program (`module:Class.method`), a foreign one
    (`boto3.client().get`), or all methods of one name (`*.write_record`)."""

    function: str
    op: str = "msg.send"


def _table(*rows: tuple[str, str, str]) -> dict[str, str]:
    return {prefix + name: op for op, prefix, names in rows for name in names.split()}


FUNCTIONS = _table(
    ("file.open", "", "open io.open os.open os.fdopen codecs.open gzip.open bz2.open lzma.open mmap.mmap"),
    ("file.read", "os.", "read pread readv preadv sendfile copy_file_range"),
    ("file.write", "os.", "write pwrite writev pwritev"),
    ("file.fsync", "os.", "fsync fdatasync sync"),
    ("file.rename", "os.", "rename replace renames link symlink"),
    ("file.unlink", "os.", "unlink remove"),
    ("file.mkdir", "os.", "mkdir makedirs"),
    ("file.rmdir", "os.", "rmdir removedirs"),
    ("file.truncate", "os.", "truncate ftruncate"),
    ("file.close", "os.", "close"),
    (
        "file.stat",
        "os.",
        "stat lstat access statvfs path.exists path.isfile path.isdir path.getsize path.getmtime path.lexists",
    ),
    ("file.list", "os.", "listdir scandir walk"),
    ("file.write", "shutil.", "copy copy2 copyfile copyfileobj copytree copymode copystat"),
    ("file.unlink", "shutil.", "rmtree"),
    ("file.rename", "shutil.", "move"),
    ("file.create", "tempfile.", "mkstemp NamedTemporaryFile TemporaryFile SpooledTemporaryFile"),
    ("file.mkdir", "tempfile.", "mkdtemp TemporaryDirectory"),
    ("file.list", "glob.", "glob iglob"),
    ("file.write", "", "pickle.dump json.dump marshal.dump yaml.dump numpy.save numpy.savez"),
    ("file.read", "", "pickle.load json.load marshal.load tomllib.load numpy.load"),
    ("net.connect", "socket.", "create_connection getaddrinfo gethostbyname gethostbyaddr getfqdn"),
    ("net.connect", "asyncio.", "open_connection open_unix_connection"),
    ("process.start", "subprocess.", "Popen run call check_call check_output getoutput getstatusoutput"),
    ("process.start", "os.", "system popen fork posix_spawn spawnv execv execve execvp"),
    ("process.start", "asyncio.", "create_subprocess_exec create_subprocess_shell"),
    ("process.wait", "os.", "wait waitpid wait3 wait4 waitid"),
    ("net.send", "requests.", "get post put delete head patch options request"),
    ("net.send", "httpx.", "get post put delete head patch options request stream"),
    ("net.send", "urllib.request.", "urlopen urlretrieve"),
    ("net.send", "smtplib.", "SMTP SMTP_SSL"),
    ("db.read", "sqlite3.", "connect"),
)
"""Operations by the full name of a function."""

_FILE = _table(
    ("file.read", "", "read readline readlines readinto readinto1 read1 readall"),
    ("file.write", "", "write writelines flush"),
    ("file.truncate", "", "truncate"),
    ("file.close", "", "close"),
)
_SOCKET = _table(
    ("net.connect", "", "connect connect_ex do_handshake"),
    ("net.accept", "", "accept"),
    ("net.send", "", "send sendall sendto sendmsg sendfile"),
    ("net.recv", "", "recv recv_into recvfrom recvfrom_into recvmsg recvmsg_into read"),
    ("net.close", "", "close shutdown"),
)
_READER = _table(("net.recv", "", "read readline readexactly readuntil"))
_WRITER = _table(("net.send", "", "write writelines"), ("net.close", "", "close"))
_STREAM = _table(
    ("net.send", "", "write"),
    ("net.recv", "", "read_bytes read_into read_until read_until_regex read_until_close"),
    ("net.connect", "", "connect"),
    ("net.close", "", "close"),
)
_SQLITE = _table(("db.write", "", "execute executemany executescript"), ("db.commit", "", "commit rollback"))
_HTTP = _table(
    ("net.send", "", "get post put delete head patch options request send urlopen stream ws_connect"),
    ("net.recv", "", "getresponse"),
    ("net.connect", "", "connect"),
)
_PROCESS = _table(("process.wait", "", "wait communicate"))
_PATH_METHODS = _table(
    ("file.open", "", "open touch"),
    ("file.read", "", "read_text read_bytes"),
    ("file.write", "", "write_text write_bytes"),
    ("file.rename", "", "rename replace symlink_to hardlink_to"),
    ("file.unlink", "", "unlink"),
    ("file.mkdir", "", "mkdir"),
    ("file.rmdir", "", "rmdir"),
    ("file.stat", "", "stat lstat exists is_file is_dir is_symlink"),
    ("file.list", "", "iterdir glob rglob"),
)
_REDIS_READS = words(
    """get mget exists hget hgetall hmget hkeys hvals hexists hlen keys scan scan_iter sscan_iter smembers sismember scard zrange
    zrangebyscore zrevrange zscore zcard zcount zrank lrange llen lindex lpos type ttl pttl ping info time strlen getrange
    client_list client_info sort xrevrange xread xlen xrange zrangestore dbsize randomkey"""
)
_REDIS_NO_COMMANDS = words(
    """pipeline lock pubsub register_script connection_pool close set_response_callback client from_url get_encoder
    connection get_connection_kwargs decode_responses"""
)
_MESSAGES = _table(
    ("msg.recv", "", "get_message listen parse_response"), ("msg.send", "", "subscribe unsubscribe psubscribe")
)
_BY_CLASS: tuple[tuple[tuple[str, ...], dict[str, str]], ...] = (
    (("open", "mmap.mmap"), _FILE),
    (
        ("socket.socket", "ssl.SSLSocket", "ssl.SSLContext().wrap_socket", "ssl.create_default_context().wrap_socket"),
        _SOCKET,
    ),
    (("asyncio.StreamReader",), _READER),
    (("asyncio.StreamWriter", "asyncio.Transport", "asyncio.WriteTransport", "asyncio.transports.Transport"), _WRITER),
    (("tornado.iostream.IOStream", "tornado.iostream.SSLIOStream", "tornado.iostream.BaseIOStream"), _STREAM),
    (("tornado.tcpclient.TCPClient",), {"connect": "net.connect"}),
    (("sqlite3.connect", "sqlite3.connect().cursor"), _SQLITE),
    (("requests.Session", "requests.session", "httpx.Client", "httpx.AsyncClient", "aiohttp.ClientSession"), _HTTP),
    (("http.client.HTTPConnection", "http.client.HTTPSConnection", "urllib3.PoolManager"), _HTTP),
    (("subprocess.Popen", "asyncio.create_subprocess_exec"), _PROCESS),
    (("pathlib.Path",), _PATH_METHODS),
    (("redis.Redis().pubsub", "redis.client.PubSub"), _MESSAGES),
    (("redis.Redis().pipeline",), {"execute": "db.write", "watch": "db.read"}),
    (
        ("redis.Redis().lock",),
        {"acquire": "db.write", "release": "db.write", "extend": "db.write", "reacquire": "db.write"},
    ),
    (("redis.Redis().register_script",), {"__call__": "db.write"}),
)
METHODS = {f"{name}().{method}": op for names, table in _BY_CLASS for name in names for method, op in table.items()}
"""Operations by the creator of the object and the name of the method."""

_TELLING = _table(
    ("net.send", "", "sendall sendto sendmsg"),
    ("net.recv", "", "recv_into recvfrom readexactly readuntil recvmsg"),
    ("net.connect", "", "connect_ex"),
)
"""Methods whose name alone is enough."""
_HINTS: tuple[tuple[re.Pattern[str], dict[str, str]], ...] = (
    (re.compile(r"(^|_)(sock|socket)\d*$|^(conn|connection)$"), _SOCKET),
    (re.compile(r"(^|_)(f|fp|fh|fileobj|rfile|infile|outfile|logfile|file|file_handle)\d*$"), _FILE),
    (re.compile(r"(^|_)(writer|transport)$"), _WRITER),
    (re.compile(r"(^|_)(reader)$"), _READER),
    (re.compile(r"(^|_)(stream|iostream)$"), _STREAM),
    (re.compile(r"(^|_)(cursor|sqlite|database|db)$"), _SQLITE),
    (re.compile(r"(^|_)(redis|redis_client|redis_conn)$"), {}),
)
"""The probable kind of an object of unknown class, by its name."""


class Operations:
    """Tells which operation a call is."""

    def __init__(self, named: Iterable[Named] = (), methods: Container[str] = ()) -> None:
        """`methods`: names of all methods of the program's classes."""
        named, self._own_methods = list(named), methods
        self._own = {each.function: each.op for each in named if ":" in each.function}
        self._methods = {each.function[2:]: each.op for each in named if each.function.startswith("*.")}
        self._outside = {each.function: each.op for each in named if ":" not in each.function}

    def of(self, call: ast.Call, refs: Iterable[Ref], own: Iterable[str]) -> tuple[str, str]:
        """The operation and the called function; both empty if it isn't I/O. `own`: ids of the program's functions that
        the call may run."""
        own = list(own)
        for name in own:
            if name in self._own:
                return self._own[name], name
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if method in self._methods:
            return self._methods[method], f"*.{method}"
        found = sorted(filter(None, (self._by_ref(ref, call) for ref in refs)))
        if found:
            return found[0]
        if own or refs or not method or not isinstance(call.func, ast.Attribute):
            return "", ""
        return _by_hint(call.func.value, method, own_too=method in self._own_methods)

    def _by_ref(self, ref: Ref, call: ast.Call) -> tuple[str, str] | None:
        name = ref.name
        if ref.kind == "made":
            name += "().__call__"
        elif ref.kind != "outside":
            return None
        op = self._outside.get(name) or FUNCTIONS.get(name) or METHODS.get(name) or _redis(name)
        if not op and runs_a_loop(name):
            return "net.recv", name
        if op == "db.write" and name.startswith("sqlite3."):
            op = _sql(call)
        return (op, name) if op and not _returns_at_once(op, call) else None


def _returns_at_once(op: str, call: ast.Call) -> bool:
    """Do the arguments tell it not to wait (`WNOHANG`), or not to look up a name (`NUMERIC`)?"""
    word = {"process.wait": "WNOHANG", "net.connect": "NUMERIC"}.get(op)
    values = (*call.args, *(keyword.value for keyword in call.keywords))
    return word is not None and any(word in ast.dump(value) for value in values)


def _redis(name: str) -> str:
    """The operation of a method of a Redis client; empty if it isn't a command."""
    base, _, method = name.rpartition("().")
    if base != "redis.Redis" or "." in method or method.startswith("_") or method in _REDIS_NO_COMMANDS:
        return ""
    return "msg.send" if method == "publish" else "db.read" if method in _REDIS_READS else "db.write"


def _sql(call: ast.Call) -> str:
    text = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else ""
    word = text.split(None, 1)[0].upper() if isinstance(text, str) and text.strip() else ""
    return "db.read" if word in ("SELECT", "PRAGMA", "EXPLAIN") else "db.commit" if word == "COMMIT" else "db.write"


def _by_hint(receiver: ast.expr, method: str, own_too: bool) -> tuple[str, str]:
    """The operation by names alone; empty if the object may be one of the program's own classes."""
    name = last_name(receiver).lower()
    if isinstance(receiver, ast.Call) or (own_too and name in ("conn", "connection", "transport", "stream", "db")):
        return "", ""
    if runs_a_loop(f"?.{method}"):
        return "net.recv", f"?.{method}"
    if method in _TELLING:
        return _TELLING[method], f"?.{method}"
    for pattern, table in _HINTS:
        if pattern.search(name):
            if not table and method not in _REDIS_NO_COMMANDS:
                return ("db.read" if method in _REDIS_READS else "db.write"), f"{name}.{method}"
            if method in table:
                return table[method], f"{name}.{method}"
    return "", ""


def runs_a_loop(call: str) -> bool:
    """Does the call run an event loop? Then all receives and accepts of the loop occur at this call."""
    return call in ("asyncio.run", "asyncio.Runner().run") or call.endswith((".run_forever", ".run_until_complete"))


def closes(refs: Iterable[Ref]) -> str:
    """The operation of leaving a `with` on such a value; empty if there is none."""
    names = {ref.name for ref in refs if ref.kind == "made"}
    if names & {"open", "mmap.mmap"}:
        return "file.close"
    if "sqlite3.connect" in names:
        return "db.commit"
    return "net.close" if names & {"socket.socket", "ssl.SSLContext().wrap_socket"} else ""


def fetches(refs: Iterable[Ref]) -> str:
    """The operation of iterating over such a value; empty if there is none."""
    return "file.read" if Ref("made", "open") in set(refs) else ""


_STREAMS = ("asyncio.", "tornado.", "redis.asyncio", "aiohttp.", "httpx.AsyncClient")


def blocks_the_loop(call: str, awaited: bool) -> bool:
    """Does such an operation in a coroutine block the whole event loop?"""
    return not awaited and not call.startswith(_STREAMS) and not call.startswith(("writer.", "transport.", "stream."))
