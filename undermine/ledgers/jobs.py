"""Jobs that are handed in and done by somebody: at most once, at least once, exactly once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Literal, NamedTuple, get_args

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
from undermine.model.run import Op, RunView, Verdict

Times = Literal["at most once", "at least once", "exactly once"]


class _Done(NamedTuple):
    """How often each job was certainly done, which may have been done besides, and when that was asked.

    `unclear` says why a job that is not among them may be done all the same.
    """

    times: Counter[Hashable]
    perhaps: set[Hashable]
    asked_ns: int
    unclear: str = ""

    def without(self, wanted: Iterable[Hashable]) -> tuple[list[Hashable], list[Hashable]]:
        """Of those wanted: what was certainly not done, and what nobody knows."""
        missing = [one for one in wanted if not self.times[one]]
        return [one for one in missing if one not in self.perhaps], [one for one in missing if one in self.perhaps]


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
    what: str = "job",
    name: str = "",
) -> Ledger:
    """Each job is done so often.

    What was done is either the operations `run`, one an execution, recorded by workers; or the list that the final
    operation `outputs` answers, of the jobs whose results are in place (with `by`: the lists of all replicas together).
    What must be done is what `submit` acknowledged in the workload; or `of`, once any `submit` was acknowledged.
    `what` is the word for a job in texts.
    """
    expected = tuple(frozen(one) for one in of)
    _refuse_nonsense(times, submit, run, outputs, expected)
    find_job = argument(job)
    replica = optional(by, place)

    def done(history: History) -> _Done:
        if run:
            return _executions([op for op in history if op.f == run], history, find_job)
        answers = last_round(final_reads(history, outputs), lambda op: frozen(replica(op)))
        return _results(answers, answer, outputs)

    def wanted(history: History, asked_ns: int) -> Iterable[Hashable]:
        submits = [op for op in history if submit and op.f == submit and op.status == "ok" and op.end_ns < asked_ns]
        if expected:
            return expected if submits or not submit else ()
        return dict.fromkeys(frozen(find_job(op)) for op in submits if op.phase == "workload")

    def judge(view: RunView) -> Verdict:
        found, clock = done(view.history), Clock(view)
        submits = [op for op in view.history if submit and op.f == submit]
        if submit or run:
            need(submits or [op for op in view.history if op.f == run], submit or run)
        by_job = {} if expected else grouped(submits, find_job)
        told = {one: f" ({clock.told(ops[0])})" for one, ops in by_job.items()}

        def fail(text: str, symptom: str, jobs: list[Hashable]) -> Verdict:
            lines = [f"{word(one)}: {found.times[one]} times{told.get(one, '')}" for one in jobs]
            return Verdict.fail(f"{counted(len(jobs), what)} {text}: {words(jobs)}", symptom, bounded(lines))

        if times != "at least once" and (often := [one for one, count in found.times.items() if count > 1]):
            return fail("done more than once", f"{what} run twice", often)
        if refused := [one for one in by_job if found.times[one] and all(op.status == "fail" for op in by_job[one])]:
            return fail("done though refused", f"refused {what} run", refused)
        if times == "at most once":
            return Verdict.unknown(found.unclear) if found.unclear and outputs else Verdict.ok()
        if found.unclear:
            return Verdict.unknown(found.unclear)
        never, perhaps = found.without(wanted(view.history, found.asked_ns))
        if never:
            return fail("never done", f"{what} never done", never)
        return Verdict.unknown(f"it is unknown whether these were done: {words(perhaps)}") if perhaps else Verdict.ok()

    def settled(history: History) -> str:
        found = done(history)
        if found.unclear:
            return found.unclear
        often = [one for one, count in found.times.items() if count > 1]
        if outputs and often and times != "at least once":
            return f"present more than once: {words(often)}"  # one of two results may still be cleaned up
        never, perhaps = found.without(() if times == "at most once" else wanted(history, found.asked_ns))
        return f"not done yet: {words([*never, *perhaps])}" if never or perhaps else ""

    given = name or f"{submit or run or outputs}_{times.replace(' ', '_')}"
    at_most = bool(run) and times == "at most once"
    return Ledger(given, judge, None if at_most else settled, lasting=at_most)


def _refuse_nonsense(times: str, submit: str, run: str, outputs: str, expected: tuple[Hashable, ...]) -> None:
    if times not in get_args(Times):
        raise UserError(f"runs_of_jobs does not know {times!r}; write one of: {', '.join(get_args(Times))}")
    if bool(run) == bool(outputs):
        raise UserError("runs_of_jobs needs either run= or outputs=: the operation that shows what was done")
    if times != "at most once" and not (submit or expected):
        raise UserError("runs_of_jobs needs submit= or of= to know what must be done")


def _executions(runs: list[Op], history: History, job: Callable[[Op], Any]) -> _Done:
    """Workers recorded what they did. That a job was never done can be said only if there was time after the workload."""
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
