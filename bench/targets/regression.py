"""Runs one module of CPython's own regression tests and writes each test's outcome as a line of JSON.

    python regression.py MODULE OUTPUT SETTINGS

It writes a line when a test begins and another one when it ends, so the file shows which test hung or killed the
process. SETTINGS is JSON: `only` names the tests to run (empty: all), `not` those to leave out.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
import unittest
import warnings
from collections.abc import Iterator
from typing import Any

RESOURCES = ("cpu", "largefile", "subprocess", "walltime", "decimal", "curses", "tzdata")
HANGING = "VSOCK"
"""Test classes with this in their name hang on some virtual machines."""
MESSAGE_MAX = 2000


class Lines(unittest.TestResult):
    """A test result that writes each line at once, with one system call."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        # Keep the original function, because some tests replace it.
        self.write = os.write
        self.pid = os.getpid()
        self.found: tuple[str, str] | None = None

    def line(self, **fields: str) -> None:
        if os.getpid() == self.pid:
            self.write(self.fd, json.dumps(fields).encode() + b"\n")

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self.found = None
        self.line(begins=test.id())

    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        outcome, why = self.found or ("passed", "")
        self.line(test=test.id(), outcome=outcome, why=why)

    def ended(self, test: Any, outcome: str, why: str) -> None:
        """Record the first bad outcome of a test. Entries for a whole class or module have no begin and no end."""
        if not isinstance(test, unittest.TestCase):
            self.line(test=test.id(), outcome=outcome, why=why)
        elif self.found is None or self.found[0] == "skipped":
            self.found = outcome, why

    def addFailure(self, test: Any, err: Any) -> None:
        self.ended(test, "failed: " + err[0].__name__, said(err))

    def addError(self, test: Any, err: Any) -> None:
        self.ended(test, "error: " + err[0].__name__, said(err))

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None:
            self.ended(test, "failed in a part: " + err[0].__name__, subtest.id() + "\n" + said(err))

    def addSkip(self, test: Any, reason: str) -> None:
        if isinstance(test, unittest.TestCase) and self.found is not None:
            return
        self.ended(test, "skipped", reason)

    def addExpectedFailure(self, test: Any, err: Any) -> None:
        self.ended(test, "failed as expected", "")

    def addUnexpectedSuccess(self, test: Any) -> None:
        self.ended(test, "passed unexpectedly", "")


def said(err: Any) -> str:
    return "".join(traceback.format_exception(*err))[-MESSAGE_MAX:]


def all_tests(suite: Any) -> Iterator[Any]:
    """Yield the tests of a suite and of its nested suites."""
    try:
        parts = iter(suite)
    except TypeError:
        yield suite
        return
    for part in parts:
        yield from all_tests(part)


def suites(support: Any, module: Any) -> Iterator[unittest.TestSuite]:
    """Yield the module's test suites. Older modules build them in a function that also runs them."""
    if hasattr(module, "test_main") and hasattr(support, "_run_suite"):
        collected: list[unittest.TestSuite] = []
        support._run_suite = collected.append
        module.test_main()
        yield from collected
    else:
        yield unittest.defaultTestLoader.loadTestsFromModule(module)


def main() -> None:
    name, output, settings = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    # Keep only the interpreter's own path, without this script's folder.
    del sys.path[0], sys.argv[1:]
    warnings.simplefilter("default")
    result = Lines(output)
    from test import support

    support.use_resources = RESOURCES
    support.verbose = 0
    only, without = set(settings["only"]), set(settings["not"])
    try:
        suites_of_it = list(suites(support, importlib.import_module("test." + name)))
    except unittest.SkipTest as reason:
        result.line(test=name, outcome="skipped", why=str(reason))
        suites_of_it = []
    for suite in suites_of_it:
        tests = [test for test in all_tests(suite) if HANGING not in type(test).__name__ and test.id() not in without]
        unittest.TestSuite([test for test in tests if not only or test.id() in only]).run(result)
    result.line(ended=name, environment="changed" if support.environment_altered else "as it was")


if __name__ == "__main__":
    main()
