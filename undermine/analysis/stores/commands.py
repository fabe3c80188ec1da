"""Tables of the effects that the commands of external stores have on their keys and values.

Another kind of store is another entry of `TABLES`. A command that no table has gets the effect of its operation
(`BY_OPERATION`), which is enough for most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

Texts = Sequence[str]
Pick = Callable[[Texts], Texts]
"""Picks some of a command's values."""


def nothing(values: Texts) -> Texts:
    return ()


def everything(values: Texts) -> Texts:
    return values


def first(values: Texts) -> Texts:
    return values[:1]


def last(values: Texts) -> Texts:
    return values[-1:]


def odd(values: Texts) -> Texts:
    """The first, third, … value."""
    return values[::2]


def even(values: Texts) -> Texts:
    """The second, fourth, … value."""
    return values[1::2]


def _for_ever(values: Texts) -> float:
    return 0.0


class CommandEffect(msgspec.Struct, frozen=True):
    """The effect of one command."""

    puts: Pick = nothing
    """Items that it adds to its last key; they can be taken or read later."""
    writes: Pick = nothing
    """Values that it writes to its keys."""
    drops: Pick = nothing
    """Items that it removes from its key without returning them."""
    parts: Pick = nothing
    """Names of the parts of the key (fields of a hash) that are written or read."""
    takes: bool = False
    """It removes the values that it returns from the key."""
    moves: bool = False
    """It adds the item that it took to its last key."""
    reads: bool = False
    """The values that it returns stay in the key."""
    as_items: bool = False
    """Such a read is a notification, such as a consumer group's."""
    asks: bool = False
    """It returns facts about its keys, but no value."""
    makes: bool = False
    """It returns what it has added or written: a counter's new value, an entry's id."""
    trims: bool = False
    """It keeps only a range of a list's items."""
    ends: bool = False
    """It deletes its keys."""
    clears: bool = False
    """It deletes all keys of the database."""
    touches: bool = False
    """It changes its keys without a value that could be read."""
    publishes: bool = False
    listens: bool = False
    """It subscribes to its channels."""
    arrives: bool = False
    """It is the arrival of a published message, with the channel as its key."""
    anything: bool = False
    """A script, which may do anything with its keys and values."""
    waits: bool = False
    """A consumer blocks in it until there is work."""
    lives_s: Callable[[Texts], float] = _for_ever
    """The seconds after which its keys expire; 0 if they don't."""
    side: str = ""
    """The end of a list at which it adds or takes."""

    @property
    def changes(self) -> bool:
        """May a later reader of its keys notice it?"""
        picks = (self.puts, self.writes, self.drops)
        flags = (self.takes, self.moves, self.makes, self.trims, self.ends, self.clears, self.touches, self.anything)
        return any(flags) or any(pick is not nothing for pick in picks)

    @property
    def changes_items(self) -> bool:
        """May it change the items of its keys?"""
        flags = (self.takes, self.moves, self.makes, self.trims, self.ends, self.clears, self.anything)
        return any(flags) or self.puts is not nothing or self.drops is not nothing

    @property
    def in_order(self) -> bool:
        """Is it known at which positions of a list it changes items?"""
        return bool(self.side) or self.trims or self.ends

    @property
    def answers(self) -> bool:
        """Are the values that it returns recorded?"""
        return self.takes or self.reads or self.makes or self.anything


class Commands:
    """The commands of one kind of store. `shared_channels`: all databases of a store share their channels."""

    def __init__(self, table: Mapping[str, CommandEffect], *, shared_channels: bool = False) -> None:
        self.table = table
        self.shared_channels = shared_channels

    def effect_of(self, name: str) -> CommandEffect | None:
        return self.table.get(name)


BY_OPERATION = {
    "db.read": CommandEffect(reads=True),
    "db.write": CommandEffect(writes=everything),
    "db.commit": CommandEffect(writes=everything),
    "msg.send": CommandEffect(publishes=True),
    "msg.recv": CommandEffect(arrives=True),
}
"""The effect of a command that no table has."""


# --- Redis

_ZADD_WORDS = frozenset({"NX", "XX", "GT", "LT", "CH", "INCR"})


def _members(values: Texts) -> Texts:
    """The members among ZADD's values: options, then score and member in turn."""
    start = next((at for at, value in enumerate(values) if value.upper() not in _ZADD_WORDS), len(values))
    return values[start + 1 :: 2]


def _all_of(names: str, effect: CommandEffect) -> dict[str, CommandEffect]:
    return dict.fromkeys(names.split(), effect)


def _waiting_too(names: str, effect: CommandEffect) -> dict[str, CommandEffect]:
    """These commands, and their blocking variants, whose names begin with B."""
    waiting = msgspec.structs.replace(effect, waits=True)
    return {**_all_of(names, effect), **{f"B{name}": waiting for name in names.split()}}


def _seconds(values: Texts) -> float:
    """The first of these values as a number; 0 if it isn't one. It comes from a target, so it may be anything."""
    return float(values[0]) if values and values[0].isascii() and values[0].isdigit() and len(values[0]) < 16 else 0.0


def _milliseconds(values: Texts) -> float:
    return _seconds(values) / 1000


def _by_option(values: Texts) -> float:
    """The lifetime after the option `EX` or `PX`. The first value may be data."""
    for at, value in enumerate(values[1:-1], 1):
        if value.upper() in ("EX", "PX"):
            after = values[at + 1 :]
            return _seconds(after) if value.upper() == "EX" else _milliseconds(after)
    return 0.0


LEFT, RIGHT = "left", "right"
_TABLE = {
    # lists and sets
    **_all_of("LPUSH LPUSHX", CommandEffect(puts=everything, side=LEFT)),
    **_all_of("RPUSH RPUSHX", CommandEffect(puts=everything, side=RIGHT)),
    **_all_of("SADD", CommandEffect(puts=everything)),
    **_all_of("LINSERT", CommandEffect(puts=last)),
    **_all_of("ZADD", CommandEffect(puts=_members)),
    **_all_of("ZINCRBY", CommandEffect(puts=last)),
    **_waiting_too("LPOP", CommandEffect(takes=True, side=LEFT)),
    **_waiting_too("RPOP", CommandEffect(takes=True, side=RIGHT)),
    **_waiting_too("LMPOP ZPOPMIN ZPOPMAX ZMPOP", CommandEffect(takes=True)),
    **_waiting_too("RPOPLPUSH LMOVE", CommandEffect(takes=True, moves=True)),
    "SPOP": CommandEffect(takes=True),
    **_all_of("SMOVE", CommandEffect(puts=everything)),
    **_all_of("LREM", CommandEffect(drops=last)),
    **_all_of("SREM ZREM", CommandEffect(drops=everything)),
    "LTRIM": CommandEffect(trims=True),
    # streams
    "XADD": CommandEffect(makes=True),
    **_all_of("XREADGROUP XREAD", CommandEffect(reads=True, as_items=True, waits=True)),
    **_all_of("XCLAIM XAUTOCLAIM", CommandEffect(reads=True, as_items=True)),
    **_all_of("XRANGE XREVRANGE", CommandEffect(reads=True)),
    # values
    "SET": CommandEffect(writes=first, lives_s=_by_option),
    **_all_of("SETNX APPEND", CommandEffect(writes=first)),
    **_all_of("GETSET", CommandEffect(writes=first, reads=True)),
    **_all_of("MSET MSETNX", CommandEffect(writes=everything)),
    "SETEX": CommandEffect(writes=last, lives_s=_seconds),
    "PSETEX": CommandEffect(writes=last, lives_s=_milliseconds),
    **_all_of("SETRANGE LSET", CommandEffect(writes=last)),
    **_all_of("HSET HMSET HSETNX", CommandEffect(writes=even, parts=odd)),
    "HGET": CommandEffect(reads=True, parts=first),
    "GETDEL": CommandEffect(takes=True, ends=True),
    **_all_of("INCR INCRBY INCRBYFLOAT DECR DECRBY", CommandEffect(makes=True)),
    **_all_of("HINCRBY HINCRBYFLOAT", CommandEffect(makes=True, parts=first)),
    **_all_of(
        "GET GETEX GETRANGE SUBSTR MGET HGETALL HMGET HVALS HKEYS HRANDFIELD HSCAN LINDEX LRANGE SMEMBERS SRANDMEMBER SDIFF "
        "SINTER SUNION SSCAN SORT SORT_RO ZRANGE ZRANGEBYLEX ZRANGEBYSCORE ZRANDMEMBER ZREVRANGE ZREVRANGEBYLEX "
        "ZREVRANGEBYSCORE ZDIFF ZINTER ZUNION ZSCAN",
        CommandEffect(reads=True),
    ),
    # about keys
    **_all_of(
        "EXISTS TYPE TTL PTTL EXPIRETIME PEXPIRETIME DUMP STRLEN HLEN HEXISTS HSTRLEN LLEN LPOS SISMEMBER SMISMEMBER SCARD "
        "SINTERCARD XLEN XPENDING XINFO ZRANK ZREVRANK ZSCORE ZMSCORE ZCARD ZCOUNT ZLEXCOUNT ZINTERCARD WATCH OBJECT "
        "BITCOUNT BITPOS GETBIT PFCOUNT",
        CommandEffect(asks=True),
    ),
    **_all_of("DEL UNLINK", CommandEffect(ends=True)),
    **_all_of("FLUSHDB FLUSHALL", CommandEffect(clears=True)),
    "EXPIRE": CommandEffect(touches=True, lives_s=_seconds),
    "PEXPIRE": CommandEffect(touches=True, lives_s=_milliseconds),
    **_all_of(
        "EXPIREAT PEXPIREAT PERSIST RENAME RENAMENX COPY RESTORE HDEL SETBIT BITOP BITFIELD PFADD "
        "PFMERGE XACK XDEL XTRIM XGROUP SDIFFSTORE SINTERSTORE SUNIONSTORE ZDIFFSTORE ZINTERSTORE ZUNIONSTORE ZRANGESTORE "
        "ZREMRANGEBYRANK ZREMRANGEBYSCORE ZREMRANGEBYLEX GEOADD GEOSEARCHSTORE",
        CommandEffect(touches=True),
    ),
    # channels and scripts
    **_all_of("PUBLISH SPUBLISH", CommandEffect(publishes=True)),
    **_all_of("SUBSCRIBE PSUBSCRIBE SSUBSCRIBE", CommandEffect(listens=True)),
    "MESSAGE": CommandEffect(arrives=True),
    **_all_of("EVAL EVALSHA EVAL_RO EVALSHA_RO FCALL FCALL_RO", CommandEffect(anything=True)),
    # neither
    **_all_of(
        "PING ECHO INFO AUTH CLIENT CONFIG SELECT SCRIPT TIME ROLE WAIT UNWATCH SCAN KEYS DBSIZE TOUCH", CommandEffect()
    ),
    **_all_of("UNSUBSCRIBE PUNSUBSCRIBE SUNSUBSCRIBE", CommandEffect()),
}
REDIS = Commands(_TABLE, shared_channels=True)

TABLES = {"redis": REDIS}
"""By the kind of store that an adapter names."""
