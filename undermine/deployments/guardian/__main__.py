"""Starts the guardian. This file runs as a script, without the rest of the tool: see the package's docstring."""

from __future__ import annotations

import os
import socket
import sys
import traceback


def main() -> None:
    above = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    sys.path.insert(0, above)
    from guardian.guardian import Guardian  # type: ignore[import-not-found]  # the tool itself is not on the path

    sys.path.remove(above)
    sock = socket.socket(fileno=int(sys.argv[1]))
    sock.set_inheritable(False)
    guardian = Guardian(sock, int(sys.argv[2]))
    try:
        guardian.run()
    except BaseException:
        guardian.tool.send({"event": "fault", "trace": traceback.format_exc()})
        guardian.end()
        raise


if __name__ == "__main__":
    main()
