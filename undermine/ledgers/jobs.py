"""Jobs that clients submit and workers run: at most once, at least once, exactly once, or with a few permitted losses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from undermine.ledgers.base import (
    Clock,
    Field,
    History,
    Ledger,
    Unclear,
    answer_of,
    argument,
    bounded,
    counted,
    final_reads,
    frozen,
    grouped,
    items_of,
    last_round,
    need,
    optional,
    place,
    word,
    words,
)
from undermine.model.errors import UserError
from undermine.model.faults import FAILURES
from undermine.model.injected import InjectedFault
from undermine.model.run import Op, RunView, Verdict

Times = Literal["at most once", "at least once", "exactly once"]


class Loss(msgspec.Struct, frozen=True):
    """The losses that a promise permits; see `at_most_lost`."""

    jobs: int
    after: tuple[str, ...]
    role: str
    within_s: float | None

    def permitted(self, run: RunView, jobs: Iterable[Hashable], submits: dict[Hashable, list[Op]]) -> list[Hashable]:
        """The jobs among these that such a fault may have lost: all their acknowledged submissions are old enough for that."""
        faults = [(fault.t_ns, _hit_ns(run, fault)) for fault in run.faults if self._counts(run, fault)]
        window_ns = float("inf") if self.within_s is None else run.record.true_ns(self.within_s)

        def may_be_lost(op: Op) -> bool:
            return any(op.start_ns <= hit_ns and op.end_ns >= fired_ns - window_ns for fired_ns, hit_ns in faults)

        return [one for one in jobs if all(may_be_lost(op) for op in submits.get(one, ()) if op.status == "ok")]

    def _counts(self, run: RunView, fault: InjectedFault) -> bool:
        return fault.failure in self.after and (not self.role or any(run.role(node) == self.role for node in fault.nodes))


def at_most_lost(
    jobs: int,
    *,
    after: Iterable[str] = ("crash", "reboot", "power"),
    role: str = "",
    within_s: float | None = None,
) -> Loss:
    """Permit the loss of at most this number of jobs after faults of these failure classes, for `runs_of_jobs(losses=…)`.

    `role`: only faults that hit a node of this role, such as the broker. `within_s`: only jobs that were acknowledged within this
    time before the fault, such as the second that Redis may lose with `appendfsync everysec`.
    """
    classes = (after,) if isinstance(after, str) else tuple(after)
    if unknown := [name for name in classes if name not in FAILURES]:
        raise UserError(f"at_most_lost does not know the failure {unknown[0]!r}; write some of: {', '.join(FAILURES)}")
    if jobs < 1:
        raise UserError("at_most_lost needs a number of jobs of at least 1; leave out losses= if none may be lost")
    return Loss(jobs, classes, role, within_s)


def _hit_ns(run: RunView, fault: InjectedFault) -> int:
    """When the fault was in force on all of its nodes: a kill comes a moment after the operation that asked for it."""
    receipts = [receipt for receipt in run.receipts if receipt.step == fault.index and receipt.proves]
    return max((receipt.begun_ns for receipt in receipts), default=fault.t_ns)


class _Done(NamedTuple):
    """How often each job was certainly done, which may also have been done, and when the results were read.

    `unclear` is the reason why other jobs may be done too; "" if there is none.
    """

    times: Counter[Hashable]
    perhaps: set[Hashable]
    read_ns: int
    unclear: str = ""

    def often(self) -> list[Hashable]:
        """The jobs that were done more than once."""
        return [one for one, count in self.times.items() if count > 1]

    def without(self, wanted: Iterable[Hashable]) -> tuple[list[Hashable], list[Hashable]]:
        """The wanted jobs that were certainly not done, and those of which it is unknown."""
        missing = [one for one in wanted if not self.times[one]]
        return [one for one in missing if one not in self.perhaps], [one for one in missing if one in self.perhaps]


class _Record(NamedTuple):
    """The operations of a history that show which jobs were submitted and done."""

    submit: str
    run: str
    outputs: str
    expected: tuple[Hashable, ...]
    job: Callable[[Op], Any]
    replica: Callable[[Op], Any]
    answer: Callable[[Op], Any]

    def done(self, history: History) -> _Done:
        if self.run:
            return _executions([op for op in history if op.f == self.run], history, self.job)
        answers = last_round(final_reads(history, self.outputs), lambda op: frozen(self.replica(op)))
        return _results(answers, self.answer, self.outputs)

    def submits(self, history: History) -> list[Op]:
        return [op for op in history if self.submit and op.f == self.submit]

    def wanted(self, history: History, read_ns: int) -> Iterable[Hashable]:
        """The jobs that must be done when the results are read."""
        submits = [op for op in self.submits(history) if op.status == "ok" and op.end_ns < read_ns]
        if self.expected:
            return self.expected if submits or not self.submit else ()
        return dict.fromkeys(frozen(self.job(op)) for op in submits if op.phase == "workload")

    def submits_by_job(self, history: History) -> dict[Hashable, list[Op]]:
        """Empty if the jobs are given and not submitted. Raises if the history has neither submissions nor executions."""
        submits = self.submits(history)
        if self.submit or self.run:
            need(submits or [op for op in history if op.f == self.run], self.submit or self.run)
        return {} if self.expected else grouped(submits, self.job)


class _Promise(NamedTuple):
    """How often jobs are done, and which of them may be lost."""

    times: Times
    losses: Loss | None
    what: str
    record: _Record

    def judge(self, view: RunView) -> Verdict:
        found, by_job = self.record.done(view.history), self.record.submits_by_job(view.history)
        clock = Clock(view)
        submitted = {one: f" ({clock.described(ops[0])})" for one, ops in by_job.items()}

        def fail(text: str, symptom: str, jobs: list[Hashable]) -> Verdict:
            lines = [f"{word(one)}: {found.times[one]} times{submitted.get(one, '')}" for one in jobs]
            return Verdict.fail(f"{counted(len(jobs), self.what)} {text}: {words(jobs)}", symptom, bounded(lines))

        if self.times != "at least once" and (often := found.often()):
            return fail("done more than once", f"{self.what} run twice", often)
        if refused := [one for one in by_job if found.times[one] and all(op.status == "fail" for op in by_job[one])]:
            return fail("done though refused", f"refused {self.what} run", refused)
        if self.times == "at most once":
            return Verdict.unknown(found.unclear) if found.unclear and self.record.outputs else Verdict.ok()
        return Verdict.unknown(found.unclear) if found.unclear else self._judge_missing(view, found, by_job, fail)

    def _judge_missing(
        self,
        view: RunView,
        found: _Done,
        by_job: dict[Hashable, list[Op]],
        fail: Callable[[str, str, list[Hashable]], Verdict],
    ) -> Verdict:
        never, perhaps = found.without(self.record.wanted(view.history, found.read_ns))
        permitted = self.losses.permitted(view, never, by_job) if self.losses else []
        if wrong := [one for one in never if one not in permitted]:
            return fail("never done", f"{self.what} never done", wrong)
        if self.losses and len(permitted) > self.losses.jobs:
            return fail(f"lost, and {self.losses.jobs} may be", f"too many {self.what}s lost", permitted)
        if perhaps:
            return Verdict.unknown(f"it is unknown whether these were done: {words(perhaps)}")
        return Verdict.ok(notes=[f"a {self.what} was lost after a fault, as the ledger permits"] if permitted else ())

    def settled(self, history: History) -> str:
        """Why the jobs of this history are not all done yet; "" if they are."""
        found = self.record.done(history)
        if found.unclear:
            return found.unclear
        if self.record.outputs and self.times != "at least once" and (often := found.often()):
            return f"present more than once: {words(often)}"  # one of two results may still be cleaned up
        wanted = () if self.times == "at most once" else self.record.wanted(history, found.read_ns)
        never, perhaps = found.without(wanted)
        return f"not done yet: {words([*never, *perhaps])}" if never or perhaps else ""


def runs_of_jobs(
    times: Times,
    *,
    submit: str = "",
    job: Field = "job",
    run: str = "",
    outputs: str = "",
    by: Field = "",
    of: Iterable[Any] = (),
    answer: Callable[[Op], Any] = answer_of,
    losses: Loss | None = None,
    what: str = "job",
    name: str = "",
) -> Ledger:
    """Each job is done as often as `times` says.

    Jobs that were done are either the operations `run`, one for each execution, recorded by workers; or the list of jobs with
    results that the final operation `outputs` answers (with `by`: the lists of all replicas together). Jobs that must be done
    are those that `submit` acknowledged in the workload; or `of`, once any `submit` was acknowledged. `losses` permits that a few
    of them are lost after some faults (`at_most_lost`). `what` is the word for a job in texts.
    """
    expected = tuple(frozen(one) for one in of)
    _check_arguments(times, submit, run, outputs, expected)
    if losses and (times == "at most once" or expected or not submit):
        raise UserError('runs_of_jobs can permit losses= only for jobs of submit=, "at least once" or "exactly once"')
    record = _Record(submit, run, outputs, expected, argument(job), optional(by, place), answer)
    promise = _Promise(times, losses, what, record)
    given = name or f"{submit or run or outputs}_{times.replace(' ', '_')}"
    at_most = bool(run) and times == "at most once"
    return Ledger(given, promise.judge, None if at_most else promise.settled, lasting=at_most)


def _check_arguments(times: str, submit: str, run: str, outputs: str, expected: tuple[Hashable, ...]) -> None:
    if times not in get_args(Times):
        raise UserError(f"runs_of_jobs does not know {times!r}; write one of: {', '.join(get_args(Times))}")
    if bool(run) == bool(outputs):
        raise UserError("runs_of_jobs needs either run= or outputs=: the operation that shows what was done")
    if times != "at most once" and not (submit or expected):
        raise UserError("runs_of_jobs needs submit= or of= to know what must be done")


def _executions(runs: list[Op], history: History, job: Callable[[Op], Any]) -> _Done:
    """The jobs that workers recorded. A job counts as never done only if the run reached the final reads."""
    times = Counter(frozen(job(op)) for op in runs if op.status == "ok")
    perhaps = {frozen(job(op)) for op in runs if op.status in ("unknown", "pending")}
    final_ns = min((op.start_ns for op in history if op.phase == "final"), default=-1)
    return _Done(times, perhaps, final_ns, "" if final_ns >= 0 else "the run ended before the final reads")


def _results(answers: dict[Hashable, Op | None], answer: Callable[[Op], Any], outputs: str) -> _Done:
    if not answers:
        raise Unclear(f"{outputs} was not read at the end")
    read = [op for op in answers.values() if op is not None]
    times = Counter(frozen(one) for op in read for one in items_of(answer(op), op))
    silent = [who for who, op in answers.items() if op is None]
    where = f" of {words(silent)}" if any(silent) else ""
    unclear = f"could not be read at the end: {outputs}{where}" if silent else ""
    return _Done(times, set(), min((op.start_ns for op in read), default=0), unclear)
