"""Starts one node: python -m granary.node --role store --id s1 --host 127.0.0.1 --port 7001 ..."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading

from .fixes import Fixes
from .process import EXIT_BUG, fail_stop, set_up_logging
from .rpc import parse_address, parse_peers

USAGE = """usage: python -m granary.node --role master|store --id NAME --host HOST --port PORT --dir DIR
         --peers s1=HOST:PORT,s2=...      the stores
         [--master HOST:PORT --gossip-port PORT --gossip-peers s1=HOST:PORT,...]   (stores only)
         [--fixes all|NAME,NAME] [--log-level info]"""

COMMON = {"role", "id", "host", "port", "dir", "peers"}
STORE_ONLY = {"master", "gossip-port", "gossip-peers"}
OPTIONAL = {"fixes": "", "log-level": "info"}

log = logging.getLogger("granary.node")


def parse(arguments: list[str]) -> dict[str, str]:
    """`--name value` and `--name=value` (argparse alone would take longer to load than the rest)."""
    options = dict(OPTIONAL)
    words = iter(arguments)
    for word in words:
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or name not in COMMON | STORE_ONLY | set(OPTIONAL):
            raise ValueError(f"unknown option {word}")
        options[name] = value if equals else next(words, "")
    needed = COMMON | (STORE_ONLY if options.get("role") == "store" else set())
    if missing := needed - set(options):
        raise ValueError("missing: " + " ".join(f"--{name}" for name in sorted(missing)))
    return options


def start(options: dict[str, str]) -> None:
    address = (options["host"], int(options["port"]))
    peers, fixes = parse_peers(options["peers"]), Fixes(options["fixes"])
    if options["role"] == "master":
        from .master import Master

        Master(options["id"], address, options["dir"], peers, fixes).start()
    elif options["role"] == "store":
        from .store import Store

        Store(options["id"], address, options["dir"], parse_address(options["master"]), peers,
              (options["host"], int(options["gossip-port"])), parse_peers(options["gossip-peers"]),
              fixes).start()
    else:
        raise ValueError(f"unknown role {options['role']}")


def main() -> None:
    try:
        options = parse(sys.argv[1:])
    except ValueError as error:
        sys.exit(f"granary: {error}\n{USAGE}")
    set_up_logging(options["id"], options["log-level"])
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    try:
        start(options)
    except Exception:
        log.exception("cannot start")
        fail_stop(EXIT_BUG, "stopping: cannot start")
    log.info("serving on %s:%s, fixes: %s", options["host"], options["port"], Fixes(options["fixes"]))
    threading.Event().wait()


if __name__ == "__main__":
    main()
