"""redis-py, with and without asyncio: one command, pipeline or published message is one operation."""

from __future__ import annotations

import errno
import sys

READS = frozenset(
    "BITCOUNT BITFIELD_RO BITPOS BLMPOP BLPOP BRPOP BZMPOP BZPOPMAX BZPOPMIN DBSIZE DUMP ECHO EVALSHA_RO EVAL_RO EXISTS "
    "EXPIRETIME FCALL_RO GEODIST GEOHASH GEOPOS GEORADIUS_RO GEOSEARCH GET GETBIT GETRANGE HEXISTS HGET HGETALL HKEYS "
    "HLEN HMGET HRANDFIELD HSCAN HSTRLEN HVALS INFO KEYS LASTSAVE LCS LINDEX LLEN LPOS LRANGE MEMORY MGET OBJECT "
    "PEXPIRETIME PFCOUNT PING PTTL PUBSUB RANDOMKEY ROLE SCAN SCARD SDIFF SINTER SINTERCARD SISMEMBER SMEMBERS "
    "SMISMEMBER SORT_RO SRANDMEMBER SSCAN STRLEN SUBSTR SUNION TIME TTL TYPE WAIT WATCH XINFO XLEN XPENDING XRANGE XREAD "
    "XREVRANGE ZCARD ZCOUNT ZDIFF ZINTER ZINTERCARD ZLEXCOUNT ZMSCORE ZRANDMEMBER ZRANGE ZRANGEBYLEX ZRANGEBYSCORE "
    "ZRANK ZREVRANGE ZREVRANGEBYLEX ZREVRANGEBYSCORE ZREVRANK ZSCAN ZSCORE ZUNION".split()
)
MESSAGES = frozenset({"PUBLISH", "SPUBLISH", "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"})
MESSAGES_IN = ("message", "pmessage", "smessage")
KEYLESS = frozenset("AUTH CLIENT CONFIG DBSIZE ECHO INFO PING ROLE SCAN SCRIPT SELECT TIME UNWATCH WAIT".split())
KEY_AT = {"BITOP": 2, "OBJECT": 2, "MEMORY": 2, "XINFO": 2, "XGROUP": 2}
KEYS_AT_NUMBER = frozenset("EVAL EVALSHA EVAL_RO EVALSHA_RO FCALL FCALL_RO".split())
SAYS_OK = frozenset("SET SETEX PSETEX MSET HMSET RENAME LSET LTRIM FLUSHDB FLUSHALL".split())
COMMANDS_MAX = 8


def install(hooks) -> None:
    hooks.when_imported("redis.client", lambda module: hook(hooks, module))
    hooks.when_imported("redis.asyncio.client", lambda module: hook(hooks, module))


def hook(hooks, module) -> None:
    """The classes have the same names in both modules."""
    common = {"peer": address, "error": as_library_error}
    hooks.function(module.Redis, "execute_command", op_of, kind_of, dropped=dropped, **common)
    pipeline = module.Pipeline
    hooks.function(pipeline, "immediate_execute_command", op_of, kind_of, dropped=dropped, **common)
    hooks.function(pipeline, "execute", "db.write", kind_of_pipeline, dropped=dropped_pipeline, **common)
    hooks.function(module.PubSub, "execute_command", "msg.send", kind_of_subscribing, **common)
    hooks.function(module.PubSub, "handle_message", "msg.recv", kind_of_message, **common)


def address(client, *args, **options):
    """Host and port from the settings of the client's connections."""
    settings = client.connection_pool.connection_kwargs
    return settings.get("host", "localhost"), settings.get("port", 6379)


def text(value) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, (bytes, bytearray)) else str(value)


def command_of(args) -> str:
    """The first word: `CLIENT SETNAME` may come as one."""
    return text(args[0]).split()[0].upper()


def op_of(client, *args, **options) -> str:
    command = command_of(args)
    if command in MESSAGES:
        return "msg.send"
    return "db.read" if command in READS else "db.write"


def kind_of(client, *args, **options) -> str:
    command = command_of(args)
    key = key_of(command, args)
    return command if key is None else "%s %s" % (command, text(key))


def key_of(command: str, args):
    """The first key that the command is about, or its channel."""
    if command in KEYLESS:
        return None
    if command in KEYS_AT_NUMBER:
        return args[3] if len(args) > 3 and int(args[2]) > 0 else None
    at = KEY_AT.get(command, 1)
    if command in ("XREAD", "XREADGROUP"):
        words = [text(word).upper() for word in args]
        at = words.index("STREAMS") + 1
    elif command in KEY_AT and " " in text(args[0]):
        at -= 1
    if len(args) <= at:
        return None
    return args[at][0] if isinstance(args[at], (list, tuple)) and args[at] else args[at]


def kind_of_pipeline(pipeline, *args, **options):
    commands = list(dict.fromkeys(command_of(entry[0]) for entry in pipeline.command_stack))
    if not commands:
        return None
    more = ",…" if len(commands) > COMMANDS_MAX else ""
    return "PIPELINE(%s%s)" % (",".join(commands[:COMMANDS_MAX]), more)


def kind_of_subscribing(pubsub, *args, **options):
    return kind_of(pubsub, *args) if command_of(args) in MESSAGES else None


def kind_of_message(pubsub, response, *args, **options):
    if not isinstance(response, (list, tuple)) or text(response[0]) not in MESSAGES_IN:
        return None
    return "MESSAGE %s" % text(response[1])


def dropped(client, *args, **options):
    """What the caller of a command is told that never reached the server."""
    command = command_of(args)
    if command in READS:
        return None
    return True if command in SAYS_OK else 1


def dropped_pipeline(pipeline, *args, **options):
    answers = [dropped(pipeline, *entry[0]) for entry in pipeline.command_stack]
    del pipeline.command_stack[:]
    return answers


def as_library_error(error):
    """What redis-py raises for this answer of the operating system."""
    exceptions = sys.modules["redis.exceptions"]
    if error.errno == errno.ETIMEDOUT:
        return exceptions.TimeoutError("Timeout reading from socket")
    doing = "connecting to server" if error.errno == errno.ECONNREFUSED else "while writing to socket"
    return exceptions.ConnectionError("Error %s %s. %s." % (error.errno, doing, error.strerror))
