"""redis-py, with and without asyncio: one command, pipeline or published message is one operation."""

from __future__ import annotations

import errno
import sys

# A command that removes something isn't a read, even if it waits: after a crash, only its caller has the item.
READS = frozenset(
    "BITCOUNT BITFIELD_RO BITPOS DBSIZE DUMP ECHO EVALSHA_RO EVAL_RO EXISTS EXPIRETIME FCALL_RO GEODIST GEOHASH "
    "GEOPOS GEORADIUS_RO GEOSEARCH GET GETBIT GETRANGE HEXISTS HGET HGETALL HKEYS HLEN HMGET HRANDFIELD HSCAN HSTRLEN "
    "HVALS INFO KEYS LASTSAVE LCS LINDEX LLEN LPOS LRANGE MEMORY MGET OBJECT PEXPIRETIME PFCOUNT PING PTTL PUBSUB "
    "RANDOMKEY ROLE SCAN SCARD SDIFF SINTER SINTERCARD SISMEMBER SMEMBERS SMISMEMBER SORT_RO SRANDMEMBER SSCAN STRLEN "
    "SUBSTR SUNION TIME TTL TYPE WAIT WATCH XINFO XLEN XPENDING XRANGE XREAD XREVRANGE ZCARD ZCOUNT ZDIFF ZINTER "
    "ZINTERCARD ZLEXCOUNT ZMSCORE ZRANDMEMBER ZRANGE ZRANGEBYLEX ZRANGEBYSCORE ZRANK ZREVRANGE ZREVRANGEBYLEX "
    "ZREVRANGEBYSCORE ZREVRANK ZSCAN ZSCORE ZUNION".split()
)
MESSAGES = frozenset({"PUBLISH", "SPUBLISH", "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"})
MESSAGES_IN = ("message", "pmessage", "smessage")
KEYLESS = frozenset("AUTH CLIENT CONFIG DBSIZE ECHO INFO PING ROLE SCAN SCRIPT SELECT TIME UNWATCH WAIT".split())
# Where the keys are among a command's words. Default: the first word.
SECOND = frozenset("OBJECT MEMORY XINFO XGROUP".split())
FIRST_TWO = frozenset("RPOPLPUSH BRPOPLPUSH LMOVE BLMOVE SMOVE RENAME RENAMENX COPY GEOSEARCHSTORE ZRANGESTORE".split())
ALL = frozenset(
    "DEL UNLINK EXISTS TOUCH MGET WATCH PFCOUNT PFMERGE SDIFF SINTER SUNION SDIFFSTORE SINTERSTORE SUNIONSTORE "
    "SUBSCRIBE PSUBSCRIBE SSUBSCRIBE".split()
)
ALL_BUT_LAST = frozenset("BLPOP BRPOP BZPOPMIN BZPOPMAX".split())
EVERY_OTHER = frozenset({"MSET", "MSETNX"})
# Commands that say how many keys follow, and the position of that number.
COUNTED = {
    "EVAL": 1, "EVALSHA": 1, "EVAL_RO": 1, "EVALSHA_RO": 1, "FCALL": 1, "FCALL_RO": 1, "LMPOP": 0, "ZMPOP": 0,
    "BLMPOP": 1, "BZMPOP": 1, "ZDIFF": 0, "ZINTER": 0, "ZINTERCARD": 0, "ZUNION": 0, "SINTERCARD": 0,
    "ZDIFFSTORE": 1, "ZINTERSTORE": 1, "ZUNIONSTORE": 1,
}  # fmt: skip
SCRIPTS = frozenset("EVAL EVALSHA EVAL_RO EVALSHA_RO FCALL FCALL_RO".split())
# Commands whose answers hold values, which are recorded. In `NAMES_KEY`, the answer names the key first.
ANSWERS = SCRIPTS | frozenset(
    "GET GETDEL GETEX GETRANGE GETSET SUBSTR MGET HGET HGETALL HMGET HVALS HKEYS HRANDFIELD HSCAN INCR INCRBY INCRBYFLOAT "
    "DECR DECRBY HINCRBY HINCRBYFLOAT LINDEX LRANGE LPOP RPOP LMOVE BLMOVE RPOPLPUSH BRPOPLPUSH SMEMBERS SPOP SRANDMEMBER "
    "SDIFF SINTER SUNION SSCAN SORT SORT_RO XADD XRANGE XREVRANGE XCLAIM XAUTOCLAIM ZPOPMIN ZPOPMAX ZRANGE ZRANGEBYLEX "
    "ZRANGEBYSCORE ZRANDMEMBER ZREVRANGE ZREVRANGEBYLEX ZREVRANGEBYSCORE ZDIFF ZINTER ZUNION ZSCAN ZINCRBY".split()
)
NAMES_KEY = frozenset("BLPOP BRPOP BZPOPMIN BZPOPMAX LMPOP BLMPOP ZMPOP BZMPOP".split())
STREAMS = frozenset({"XREAD", "XREADGROUP"})
# The answers of these commands if there is nothing to remove.
SAYS_NONE = frozenset(
    "BLMOVE BLMPOP BLPOP BRPOP BRPOPLPUSH BZMPOP BZPOPMAX BZPOPMIN GETDEL LMOVE LMPOP LPOP RPOP RPOPLPUSH SPOP ZMPOP".split()
)
SAYS_EMPTY = frozenset("XREADGROUP ZPOPMAX ZPOPMIN".split())
SAYS_OK = frozenset("SET SETEX PSETEX MSET HMSET RENAME LSET LTRIM FLUSHDB FLUSHALL".split())
COMMANDS_MAX = 8


def install(hooks) -> None:
    hooks.when_imported("redis.client", lambda module: hook(hooks, module))
    hooks.when_imported("redis.asyncio.client", lambda module: hook(hooks, module))


def hook(hooks, module) -> None:
    """Hook a module of redis-py. The classes have the same names in both modules."""

    def asking(commands):
        """Return a function that describes a call as a request to its store; `commands` finds the commands in its
        arguments.
        """

        def does(client, *args, **options):
            place, database = where(client)
            return hooks.store_call(place, database, commands(client, args), "redis")

        return does

    common = {"peer": address, "error": as_library_error}
    one = {**common, "dropped": dropped, "does": asking(command_in), "got": got_by_one}
    hooks.function(module.Redis, "execute_command", op_of, kind_of, **one)
    hooks.function(module.Pipeline, "immediate_execute_command", op_of, kind_of, **one)
    hooks.function(
        module.Pipeline,
        "execute",
        "db.write",
        kind_of_pipeline,
        dropped=dropped_pipeline,
        does=asking(commands_in_pipeline),
        got=got_by_pipeline,
        **common,
    )
    if not module.__name__.startswith("redis.asyncio"):
        hook_answers(hooks, module.Redis, asking, common)
    pubsub = module.PubSub
    hooks.function(pubsub, "execute_command", "msg.send", kind_of_subscribing, does=asking(command_in), **common)
    hooks.function(pubsub, "handle_message", "msg.recv", kind_of_message, does=asking(message_in), **common)


def hook_answers(hooks, cls, asking, common) -> None:
    """Hook commands that a connection sends itself and whose answer is fetched later, as Celery does: the fetch counts."""
    connection = sys.modules["redis.connection"]
    asked = hooks.arguments_of(getattr(connection, "AbstractConnection", connection.Connection), "send_command")

    def of_asked(function):
        def find(client, connection, *args, **options):
            command = asked(connection)
            return function(client, *command) if command else None

        return find

    def commands(client, args):
        return command_in(client, asked(args[0]))

    def answer_lost(client, connection, *args, **options):
        """The command was sent: read its answer, or the next command would get it."""
        connection.read_response()
        return dropped(client, *asked(connection))

    hooks.function(
        cls, "parse_response", of_asked(op_of), of_asked(kind_of),
        dropped=answer_lost, does=asking(commands), got=got_by_one, **common,
    )  # fmt: skip


def where(client):
    """The address and the database, from the settings of the client's connections."""
    settings = client.connection_pool.connection_kwargs
    return settings.get("path") or address(client), settings.get("db") or 0


def address(client, *args, **options):
    """Host and port, from the same settings."""
    settings = client.connection_pool.connection_kwargs
    return settings.get("host", "localhost"), settings.get("port", 6379)


def text(value) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, (bytes, bytearray)) else str(value)


def command_of(args) -> str:
    """The first word: `CLIENT SETNAME` may come as one argument."""
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
    """The command's first key, or its channel."""
    keys = split(command, words_of(args))[0]
    return keys[0] if keys else None


def words_of(args) -> list:
    """The words after the command's name, one by one."""
    found: list = text(args[0]).split()[1:]
    for arg in args[1:]:
        found.extend(arg) if isinstance(arg, (list, tuple)) else found.append(arg)
    return found


def split(command: str, words: list):
    """The keys among the words of a command, and all other words."""
    if command in COUNTED:
        return split_counted(command, words)
    if command in STREAMS:
        return split_streams(words)
    if command in ALL:
        return words, []
    if command in EVERY_OTHER:
        return words[::2], words[1::2]
    if command in ALL_BUT_LAST:
        return words[:-1], words[-1:]
    if command == "BITOP":
        return words[1:], words[:1]
    if command in SECOND:
        return words[1:2], words[:1] + words[2:]
    first = 0 if command in KEYLESS else 2 if command in FIRST_TWO else 1
    return words[:first], words[first:]


def split_counted(command: str, words: list):
    """A script's own text isn't a value. The key that stores the result comes before the number."""
    at = COUNTED[command]
    end = at + 1 + int(words[at]) if len(words) > at else 0
    keys, values = words[at + 1 : end], words[end:]
    return (words[:1] + keys if command.endswith("STORE") else keys), values


def split_streams(words: list):
    at = [text(word).upper() for word in words].index("STREAMS") + 1
    half = at + (len(words) - at) // 2
    return words[at:half], words[: at - 1] + words[half:]


def command_in(client, args):
    command = command_of(args)
    return [(command, *split(command, words_of(args)))]


def commands_in_pipeline(pipeline, args):
    return [found for entry in pipeline.command_stack for found in command_in(pipeline, entry[0])]


def message_in(pubsub, args):
    """The channel and the data of an incoming message."""
    response = args[0]
    return [("MESSAGE", [response[-2]], [response[-1]])]


def got_by_one(result, commands):
    return got_by_pipeline([result], commands)


def got_by_pipeline(results, commands):
    """Keys and the values found there; a command that failed within a pipeline has none."""
    found: list = []
    for (command, keys, _), result in zip(commands, results or ()):
        if not isinstance(result, Exception):
            found.extend(values_in(command, keys, result))
    return found


def values_in(command: str, keys, result):
    if command in NAMES_KEY:
        return [(result[0], result[1:])] if result else []
    if command in STREAMS:
        return list(result.items() if isinstance(result, dict) else result or ())
    if command == "MGET":
        return list(zip(keys, result or ()))
    return [(keys[0] if keys else "", result)] if command in ANSWERS else []


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
    """The answer that the caller gets for a command that never reached the server."""
    command = command_of(args)
    if command in READS or command in SAYS_NONE:
        return None
    if command in SAYS_EMPTY:
        return []
    return True if command in SAYS_OK else 1


def dropped_pipeline(pipeline, *args, **options):
    answers = [dropped(pipeline, *entry[0]) for entry in pipeline.command_stack]
    del pipeline.command_stack[:]
    return answers


def as_library_error(error):
    """The exception that redis-py raises for this error of the operating system."""
    exceptions = sys.modules["redis.exceptions"]
    if error.errno == errno.ETIMEDOUT:
        return exceptions.TimeoutError("Timeout reading from socket")
    doing = "connecting to server" if error.errno == errno.ECONNREFUSED else "while writing to socket"
    return exceptions.ConnectionError("Error %s %s. %s." % (error.errno, doing, error.strerror))
