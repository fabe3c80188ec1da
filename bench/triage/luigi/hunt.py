"""The workload for Luigi's scheduler and two workers: clients ask for reports whose parts both workers need.

Luigi's documentation says what the central scheduler is for: "Make sure two instances of the same task are not running
simultaneously". Outputs are written atomically ("LocalTarget … atomic"). A build that reports success has written its output.
"""

from __future__ import annotations

import itertools
import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import undermine

GROUPS = 3
PARTS = 3
BUILD_S = 15.0


class NotBuilt(Exception):
    """Luigi says that it did not build the report."""


def build(node: undermine.NodeInfo, report: str) -> str:
    url = f"http://{node.host}:{node.port}/build?report={report}"
    try:
        with urllib.request.urlopen(url, timeout=BUILD_S) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        raise NotBuilt(error.read().decode()) from None


@undermine.workload
def workload(s: undermine.Session) -> None:
    """Ask both workers for a report of each group, at the same time."""
    s.clients({f"client-{node.id}": lambda node=node: builds(s, node) for node in s.role("worker")})


def builds(s: undermine.Session, node: undermine.NodeInfo) -> None:
    for group in range(GROUPS):
        ask(s, node, f"g{group}-{node.id}", f"client-{node.id}")


def ask(s: undermine.Session, node: undermine.NodeInfo, report: str, client: str) -> Any:
    return s.attempt("build", lambda: build(node, report), client=client, node=node.id, args={"report": report})


@undermine.final
def final(s: undermine.Session) -> None:
    """Let each worker build all reports. Luigi builds no existing one again. Then read all results and runs of tasks."""
    reports = [f"g{group}-{node.id}" for group in range(GROUPS) for node in s.role("worker")]
    for node in s.role("worker"):
        for report in (*reports, f"last{s.nth_try}-{node.id}"):
            need(ask(s, node, report, f"final-{node.id}"))
    need(s.attempt("results", lambda: results(s), client="final"))
    need(s.attempt("runs", lambda: runs(s), client="final"))


def need(out: Any) -> None:
    if not out.ok:
        raise NotBuilt(f"{out.status}: {out.error}")


def results(s: undermine.Session) -> dict[str, list[str]]:
    """The lines of each finished output."""
    folder = Path(f"{s.node('scheduler').dir}.results")
    return {path.stem: path.read_text().splitlines() for path in sorted(folder.glob("*.txt"))}


def runs(s: undermine.Session) -> list[dict[str, Any]]:
    """All recorded runs of tasks. `end_ns` is 0 if a run did not finish."""
    found: list[dict[str, Any]] = []
    for node in s.role("worker"):
        begun: dict[tuple[str, int], dict[str, Any]] = {}
        path = Path(f"{node.dir}.ran")
        for line in path.read_text().splitlines() if path.exists() else ():
            entry = json.loads(line)
            key = (entry["task"], entry["pid"])
            if entry["what"] == "begin":
                begun[key] = {"task": entry["task"], "worker": node.id, "begin_ns": entry["t_ns"], "end_ns": 0}
                found.append(begun[key])
            elif run := begun.pop(key, None):
                run["end_ns"] = entry["t_ns"]
    return found


# -- checks ----------------------------------------------------------------------------------------------


def answer_in_the_end(run: undermine.RunView, f: str) -> Any:
    """The newest final answer; None if there is none."""
    found = [op.value for op in run.history if op.f == f and op.phase == "final" and op.status == "ok"]
    return found[-1] if found else None


@undermine.checker
def what_is_built_is_complete(run: undermine.RunView) -> undermine.Verdict:
    """A report whose build succeeded exists and has all lines of its parts."""
    found = answer_in_the_end(run, "results")
    if found is None:
        return undermine.Verdict.unknown("the results were not read at the end")
    wrong = []
    for report in sorted({op.args["report"] for op in run.history if op.f == "build" and op.status == "ok"}):
        group = report.partition("-")[0]
        lines = [f"{group}-part{part} line {line}" for part in range(PARTS) for line in range(PARTS)]
        if found.get(report) != lines:
            wrong.append(f"{report}: {found.get(report)}")
    if wrong:
        text = "a successful build has no complete output"
        return undermine.Verdict.fail(text, "built report is incomplete", wrong, lasting=True)
    return undermine.Verdict.ok()


@undermine.checker
def never_by_two_at_a_time(run: undermine.RunView) -> undermine.Verdict:
    """No worker begins a task while another one runs it."""
    ended = [one for one in answer_in_the_end(run, "runs") or () if one["end_ns"]]
    for pair in itertools.combinations(ended, 2):
        at_once = max(each["begin_ns"] for each in pair) < min(each["end_ns"] for each in pair)
        if at_once and pair[0]["task"] == pair[1]["task"] and pair[0]["worker"] != pair[1]["worker"]:
            said = [f"{each['task']}: {each['worker']} from {each['begin_ns']} to {each['end_ns']}" for each in pair]
            return undermine.Verdict.fail("two workers ran one task at the same time", "task run by two workers at a time", said)
    return undermine.Verdict.ok()


@undermine.checker
def done_once(run: undermine.RunView) -> undermine.Verdict:
    """A task whose output exists does not run again, unless a worker died: perhaps before it reported the task."""
    found = answer_in_the_end(run, "runs")
    if found is None:
        return undermine.Verdict.unknown("the runs were not read at the end")
    done = [one["task"] for one in found if one["end_ns"]]
    often = sorted({task for task in done if done.count(task) > 1})
    if often and not any(receipt.action in ("crash", "reboot") for receipt in run.receipts):
        said = [f"{task}: done {done.count(task)} times" for task in often]
        return undermine.Verdict.fail("a task ran again although its output existed", "task run twice", said)
    return undermine.Verdict.ok()
