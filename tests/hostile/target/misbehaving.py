"""The small server of the integration tests, as a node that misbehaves when its first client asks it for something."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import kv


def has_faults() -> bool:
    """Is this node in a run with faults? Without one it behaves, so that a campaign can begin."""
    return bool(json.loads(Path(os.environ["UNDERMINE_AGENT"]).read_text())["steps"])


def misbehave_first(misdeed: str) -> None:
    serve, lock, program = kv.serve, threading.Lock(), Path(__file__).with_name("misdeeds.py")
    command = [sys.executable, "-I", "-S", str(program), misdeed]

    def misbehaving(connection: socket.socket, store: kv.CampaignStore) -> None:
        if connection.recv(1, socket.MSG_PEEK):
            with lock:
                if kv.serve is misbehaving:
                    subprocess.run(command, check=True)
                    kv.serve = serve
        serve(connection, store)

    kv.serve = misbehaving


if __name__ == "__main__":
    misdeed, _, when = sys.argv.pop().partition(",")
    if when == "always" or has_faults():
        misbehave_first(misdeed)
    kv.main()
