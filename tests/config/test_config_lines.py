"""The scanner finds the line of every key that tomllib finds, however it is written."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from tables import for_each

from undermine.config.lines import KeyPath, Source, dotted, scan
from undermine.model.errors import UserError

TEXT = (
    r'''# a comment with [a.table] and key = 1
top = 1
"quoted key" = 2

[a]
b.c = 3   # dotted
'lit.eral'.d = 4
[ a . "x y" ]
text = """
not = "a key"
[nor.a.table]
quotes "" and \""" inside""""
after = 1
raw = '''
    + """'''
fake = 1
'''
more = [
  1,   # ] not the end
  [2,
   3],
  {p = 1, q = {r = "}"}},
  "]",
]
inline = {s = 1, t.u = [
  5,
  6]}
one = "a # not a comment \\" = 'x'"
last = 1979-05-27T07:32:00Z
[[list]]
n = 1
[[list]]
n = 2
[list.sub]
m = 3
[[list.deep]]
o = 4
[z.implied.y]
k = 1
[z]
w = 1
"""
)


def line_of(fragment: str) -> int:
    return TEXT[: TEXT.index(fragment)].count("\n") + 1


@for_each(
    ("path", "fragment"),
    [
        (("top",), "top = 1"),
        (("quoted key",), '"quoted key"'),
        (("a",), "[a]\n"),
        (("a", "b"), "b.c"),
        (("a", "b", "c"), "b.c"),
        (("a", "lit.eral", "d"), "'lit.eral'"),
        (("a", "x y"), "[ a ."),
        (("a", "x y", "text"), "text ="),
        (("a", "x y", "after"), "after ="),
        (("a", "x y", "raw"), "raw ="),
        (("a", "x y", "more"), "more ="),
        (("a", "x y", "more", 0), "  1,   #"),
        (("a", "x y", "more", 1, 1), "   3],"),
        (("a", "x y", "more", 2, "q", "r"), "  {p = 1"),
        (("a", "x y", "more", 3), '  "]",'),
        (("a", "x y", "inline", "t", "u", 1), "  6]}"),
        (("a", "x y", "one"), "one ="),
        (("a", "x y", "last"), "last ="),
        (("list", 0, "n"), "n = 1"),
        (("list", 1, "n"), "n = 2"),
        (("list", 1, "sub", "m"), "m = 3"),
        (("list", 1, "deep", 0, "o"), "o = 4"),
        (("z", "implied"), "[z.implied.y]"),
        (("z",), "[z]\n"),
        (("a", "x y", "missing", "key"), "[ a ."),
        (("missing",), "# a comment"),
    ],
)
def test_line(path: KeyPath, fragment: str) -> None:
    assert scan(TEXT).of(path) == line_of(fragment)


def paths_of(data: Any, prefix: KeyPath = ()) -> list[KeyPath]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    found: list[KeyPath] = [(*prefix, key) for key, _ in items]
    for path in list(found):
        found += paths_of(data[path[-1]], path)
    return found


def test_every_path_of_tomllib_is_known_and_none_else() -> None:
    lines = scan(TEXT)
    known = set(lines._written) | set(lines._implied)
    assert known == set(paths_of(tomllib.loads(TEXT)))


def test_by_key_has_no_elements() -> None:
    assert scan("[a]\nb = [1,\n2]\n").by_key() == {"a": 1, "a.b": 2}


def test_crlf_and_no_final_newline() -> None:
    assert scan("[a]\r\nb = 'x'\r\nc = 1").of(("a", "c")) == 3


@for_each("text", ["[", "a", "a = [", "= 1", "a = {", "\x00", 'a = "', "]]", "a = }"])
def test_keys_before_a_mistake_keep_their_lines(text: str) -> None:
    lines = scan("[b]\nc = 1\n" + text)
    assert (lines.of(("b",)), lines.of(("b", "c"))) == (1, 2)


def test_dotted_quotes_what_needs_it() -> None:
    assert dotted(("roles", "my store", "nodes", 1)) == 'roles."my store".nodes'


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a = 1\nb = soon\n", 2, "text goes in quotes"),
        ('[a]\nlog = "ready \\d+"\n', 2, "single quotes"),
        ('a = "x\nb = 1\n', 1, "closing quote"),
        ("a\n", 1, "KEY = VALUE"),
        ("[a]\nb = 1\nb = 2\n", 3, "overwrite"),
        ("[a]\n\n[a]\n", 3, "twice"),
        ("x = 1\na = [1,\n2\n", 3, "closing ]"),
        ("[a\n", 1, "]"),
    ],
)
def test_syntax_errors_name_the_line(tmp_path: Path, text: str, line: int, words: str) -> None:
    path = tmp_path / "undermine.toml"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        Source.load(path)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert words in str(caught.value)


def test_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "undermine.toml"
    path.write_bytes(b"a = 1\nb = '\xff'\n")
    with pytest.raises(UserError, match=r"undermine\.toml:2: .*UTF-8"):
        Source.load(path)


def test_a_byte_order_mark_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "undermine.toml"
    path.write_bytes(b"\xef\xbb\xbfa = 1\n")
    assert Source.load(path).data == {"a": 1}
