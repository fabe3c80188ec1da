"""The conversation with the tool: a hello, a request, an answer; never longer than ten seconds each.

Requests are rare, so no connection is kept: programs count, pass on and close descriptors, and must never find one
that isn't theirs. On any failure the answer is None, and the node continues.
"""

from __future__ import annotations

import sys

from undermine_agent.wire import clock, tinyjson

TIMEOUT_S = 10
_ANSWER_MAX = 1 << 20


class Link:
    def __init__(self, path: str, hello: dict):
        self.path = path
        self.hello = hello

    def connect(self):
        """Say hello; return the welcome, or None."""
        return self._talk(())

    def ask(self, request: dict):
        """Send a request and return its answer; None if none comes."""
        return self._talk((request,))

    def _talk(self, requests):
        import _socket

        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        seconds = clock.true_s(TIMEOUT_S)
        try:
            # A socket with a time limit of Python's own would not wait while the queue of the tool's socket is full.
            connection.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDTIMEO, seconds.to_bytes(8, sys.byteorder) + bytes(8))
            connection.connect(self.path)
            connection.settimeout(seconds)
            answer = _exchange(connection, self.hello)
            if answer.get("type") != "welcome":
                return None
            for request in requests:
                answer = _exchange(connection, request)
            return answer
        except (OSError, ValueError):
            return None
        finally:
            connection.close()


def _exchange(connection, request: dict) -> dict:
    connection.sendall(tinyjson.dumps(request).encode() + b"\n")
    answer = b""
    while not answer.endswith(b"\n"):
        part = connection.recv(65536)
        if not part or len(answer) > _ANSWER_MAX:
            raise OSError("no answer")
        answer += part
    found = tinyjson.loads(answer.decode())
    if not isinstance(found, dict):
        raise ValueError("not an answer")
    return found
