"""Workload and check for the tiny server; `mode` of [params] makes it misbehave."""

from __future__ import annotations

import socket
import time

import undermine


def call(node, text: str) -> str:
    with socket.create_connection((node.host, node.port), timeout=2) as sock:
        stream = sock.makefile("rw")
        stream.write(text + "\n")
        stream.flush()
        answer = stream.readline().strip()
        if not answer:
            raise ConnectionError("closed without an answer")
        return answer


@undermine.workload
def workload(s: undermine.Session) -> None:
    node = s.nodes[0]
    for number in range(6):
        args = {"key": f"k{number}", "value": f"v{number}"}
        s.attempt("put", lambda: call(node, f"put {args['key']} {args['value']}"), client="c1", node=node.id, args=args)  # noqa: B023
        if s.params["mode"] == "slow":
            time.sleep(0.5)
    if s.params["mode"] == "kills":
        for command in ("raise", "exit"):
            s.attempt(command, lambda: call(node, command), client="c1")  # noqa: B023
            time.sleep(0.5)  # a thread that dies says why when its connection is closed already
    if s.params["mode"] == "raises":
        raise RuntimeError("the workload is broken")
    if s.params["mode"] == "hangs":
        s.attempt("wait", lambda: time.sleep(600), client="c1")


@undermine.final
def final(s: undermine.Session) -> None:
    node = s.nodes[0]
    for number in range(6):
        key = f"k{number}"
        out = s.attempt("get", lambda: call(node, f"get {key}"), client="c1", node=node.id, args={"key": key})  # noqa: B023
        if not out.ok:
            raise RuntimeError(out.error)


@undermine.checker
def no_acked_put_lost(run: undermine.RunView) -> undermine.Verdict:
    acked = {op.args["key"] for op in run.history if op.f == "put" and op.status == "ok"}
    read = {op.args["key"]: op.value for op in run.history if op.f == "get" and op.status == "ok"}
    lost = sorted(key for key in acked if read.get(key) == "none")
    if lost:
        return undermine.Verdict.fail(f"{lost[0]} was acknowledged and is gone", symptom="acknowledged put is lost")
    return undermine.Verdict.ok()
