"""Analyses a finished campaign of `bench.fcatch` that learns: predictions, the rules that drop some, and the time it takes."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import cycle
from typing import TypeVar

import msgspec
import numpy as np

from bench.fcatch_reports import counted, reports_of, spots_by_kind
from bench.fcatch_tables import CrashTime, Heap, Kind, Report, Rules
from undermine.model.columns import NARROW, WIDE, Columns
from undermine.model.predictions.candidate import Candidate
from undermine.protocols import History, PastRun
from undermine.strategies.fcatch import Fcatch

ROUNDS = 3
"""The number of runs and of analyses whose median is shown."""
Result = TypeVar("Result")


class Learnt:
    """A finished campaign that learns. Every question is answered from its runs alone."""

    def __init__(self, options: Fcatch.Options, history: History, plans: Mapping[str, Collection[str]]) -> None:
        self._options = options
        self._history = history
        self._strategy = Fcatch(options)
        """It keeps what it has analysed, so it serves only questions whose time is not measured."""
        self._by_time = {each: [run for run in history.runs if run.plan.id in ids] for each, ids in plans.items()}
        self.crashed = {run.id: run.plan for run in well(self._by_time[options.crash])}
        """The runs that went well with a crash at the time that the options say, and their plans."""

    def crash_times(self) -> dict[str, CrashTime]:
        found = {}
        for each, runs in self._by_time.items():
            reports = reports_of(self._strategy.predict(self.history(each), None))
            found[each] = CrashTime(len(runs), len(well(runs)), spots_by_kind(reports))
        return found

    def reports(self) -> tuple[Report, ...]:
        return reports_of(self._strategy.predict(self.history(self._options.crash), None))

    def rules(self) -> dict[Kind, Rules]:
        waits, left = self._strategy.conflicts(self.history(self._options.crash))
        doubtful = [one.pair.doubt for one in left if one.pair.doubt]
        sure = [one.pair.rule for one in left if not one.pair.doubt]
        return {
            "awaited": rules_of([one.pair.rule for one in waits]), "left": rules_of(sure), "doubtful": rules_of(doubtful),
        }  # fmt: skip

    def analyses(self) -> tuple[tuple[float, ...], ...]:
        """Seconds to read the source, and to find awaited messages in one fault-free run, and left-behind writes in one run with
        a crash. Nothing is shared between analyses."""
        crashed = cycle(self.crashed or (0,))
        found = [self._analysis(run, next(crashed)) for run in self._history.fault_free[:ROUNDS]]
        return tuple(zip(*found, strict=True))

    def _analysis(self, fault_free: int, crashed: int) -> tuple[float, ...]:
        strategy = Fcatch(self._options)
        source_s, program = timed(lambda: self._history.program(self._options.sources))
        given = msgspec.structs.replace(
            self._history, fault_free=(fault_free,), faulty=(), runs=(), program=always(program)
        )
        awaited_s, _ = timed(lambda: list(strategy.predict(given, None)))
        both = msgspec.structs.replace(given, faulty=(crashed,) if crashed else ())
        left_s, _ = timed(lambda: list(strategy.predict(both, None)))
        return source_s, awaited_s, left_s

    def heap(self, run_s: Mapping[str, Sequence[float]]) -> dict[str, Heap]:
        """The same runs, analysed with and without their accesses to the heap. Reading traces and source does not count. `run_s`
        has the seconds of fault-free runs with and without them."""
        given = self.history(self._options.crash)
        whole = {run: given.columns(run) for run in (*given.fault_free, *given.faulty)}
        traces = {"with": whole, "without": {run: without_heap(columns) for run, columns in whole.items()}}
        took: dict[str, list[float]] = {name: [] for name in traces}
        reports: dict[str, tuple[Report, ...]] = {}
        for _ in range(ROUNDS):
            for name, columns in traces.items():
                program = always(given.program(self._options.sources))
                only = msgspec.structs.replace(given, columns=columns.__getitem__, program=program)
                seconds, found = timed(partial(self._predicted_anew, only))
                took[name].append(seconds)
                reports[name] = reports_of(found)
        return {name: Heap(counted(reports[name]), tuple(run_s[name]), tuple(took[name])) for name in traces}

    def history(self, at: str) -> History:
        """The history of a campaign that has learnt from crashes at this time only."""
        return msgspec.structs.replace(self._history, faulty=tuple(run.id for run in well(self._by_time[at])), runs=())

    def _predicted_anew(self, history: History) -> list[Candidate]:
        return list(Fcatch(self._options).predict(history, None))


def well(runs: Iterable[PastRun]) -> list[PastRun]:
    """The runs whose crash happened and that passed."""
    return [run for run in runs if run.status == "fired" and not run.failed]


def rules_of(rules: Sequence[str]) -> Rules:
    dropped = Counter(filter(None, rules))
    return Rules(len(rules) - sum(dropped.values()), dict(dropped))


def without_heap(columns: Columns) -> Columns:
    keep = np.ones(len(columns), bool)
    keep[columns.find("heap.read", "heap.write")] = False
    return dataclasses.replace(columns, **{name: getattr(columns, name)[keep] for name in (*WIDE, *NARROW)})


def always(value: Result) -> Callable[[object], Result]:
    return lambda _: value


def timed(work: Callable[[], Result]) -> tuple[float, Result]:
    begun = time.perf_counter()
    result = work()
    return round(time.perf_counter() - begun, 3), result
