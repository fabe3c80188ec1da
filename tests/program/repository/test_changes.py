"""From a diff to the functions that changed, and to the functions of a call stack."""

from __future__ import annotations

import pytest

from undermine.program.repository.changes import Changed, changed_functions, changed_lines

TEXT = """\
import os

def plain():
    first = 1
    def inner():
        pass
    return inner

class Store:
    limit = 3

    def put(self):
        pass
"""
DIFF = """\
diff --git a/pkg/a.py b/pkg/a.py
--- a/pkg/a.py
+++ b/pkg/a.py
@@ -3 +4 @@ def plain():
-    first = 0
+    first = 1
@@ -8,2 +9,0 @@ class Store:
-++ b/forged.py
-@@ -1 +1 @@
@@ -20,0 +19,3 @@
+++ b/forged.py
+@@ -1 +77 @@
+x
\\ No newline at end of file
diff --git a/gone.py b/gone.py
--- a/gone.py
+++ /dev/null
@@ -1,2 +0,0 @@
-a
-b
diff --git a/with space.py b/with space.py
--- a/with space.py\t
+++ b/with space.py\t
@@ -0,0 +1,2 @@
+a\x0c\r
+b
"""


def test_changed_lines_are_those_of_the_new_files() -> None:
    assert changed_lines(DIFF) == {"pkg/a.py": [(4, 4), (9, 10), (19, 21)], "with space.py": [(1, 2)]}
    assert changed_lines("") == {}


@pytest.mark.parametrize(
    ("lines", "functions"),
    [
        ((4, 4), {"plain"}),
        ((5, 5), {"plain.<locals>.inner"}),
        ((4, 6), {"plain", "plain.<locals>.inner"}),
        ((13, 13), {"Store.put"}),
        ((1, 1), set()),
        ((10, 10), set()),
        ((1, 99), {"plain", "plain.<locals>.inner", "Store.put"}),
    ],
)
def test_a_function_changed_if_a_line_of_its_own_did(lines: tuple[int, int], functions: set[str]) -> None:
    assert changed_functions({"src/a.py": [lines]}, (), lambda _: TEXT) == {("src.a", name) for name in functions}


def test_files_that_are_new_or_not_parsed_changed_as_a_whole() -> None:
    texts = {"new.py": TEXT, "broken.py": "def f(:", "com/Node.java": "class Node {}"}
    files = {"broken.py": [(1, 1)], "com/Node.java": [(1, 1)], "README.md": [(1, 1)]}
    assert changed_functions(files, ["new.py"], texts.__getitem__) == {("new", ""), ("broken", ""), ("com.Node", "")}


@pytest.mark.parametrize(
    ("function", "has"),
    [
        ("store:put", True),
        ("app.store:put", True),
        ("src.app.store:put", True),
        ("store:put.<locals>.<lambda>", True),
        ("store:putter", False),
        ("store:Store.put", False),
        ("p.store:put", False),
        ("other:put", False),
        ("com.Node:serve", True),
        ("com.Node$Worker:run", True),
        ("com.NodeList:run", False),
    ],
)
def test_a_function_is_found_by_the_end_of_its_modules_path(function: str, has: bool) -> None:
    changed = Changed([("src.app.store", "put"), ("java.com.Node", "")])
    assert changed.has(function) == has
    assert len(changed) == 2
    assert not Changed().has(function)
