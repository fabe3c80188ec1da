"""The digests of tokens belong to the operation that moved the data."""

from __future__ import annotations

from token_digests import tokens_of

from undermine.analysis.common_data.tokens import TOKENS, tokens_by_row
from undermine.model.columns import Columns
from undermine.testing import event


def test_digests_belong_to_the_operation_with_their_number_in_their_process() -> None:
    columns = Columns.of(
        [
            event("net.recv", pid=100, seq=1, t_ns=1),
            event("file.write", pid=100, seq=2, t_ns=2),
            event("net.recv", pid=200, seq=2, t_ns=3),
            event(TOKENS, pid=200, seq=3, t_ns=4, size=2, resource="aaaaaaaa06 n10000"),
            event(TOKENS, pid=100, seq=3, t_ns=5, size=2, resource="bbbbbbbb06"),
            event(TOKENS, pid=100, seq=4, t_ns=6, size=99, resource="cccccccc06"),
        ]
    )
    assert tokens_by_row(columns) == {1: {"bbbbbbbb06"}, 2: {"aaaaaaaa06", "n10000"}}


def test_words_that_are_not_digests_are_ignored() -> None:
    hostile = event(TOKENS, pid=100, seq=2, t_ns=2, size=1, resource="n10000 nope x n 0123456789ab \u0661\u0662")
    assert tokens_by_row(Columns.of([event(pid=100, seq=1, t_ns=1), hostile])) == {0: {"n10000"}}


def test_a_run_without_recorded_tokens_has_none() -> None:
    assert tokens_by_row(Columns.of([event()])) == {}
    assert tokens_by_row(Columns.of([])) == {}


def test_the_name_of_a_file_and_its_content_have_common_tokens() -> None:
    named, stored = tokens_of(b"tasks/out/wordcount.log.100000002"), tokens_of(b'{"job": "wordcount"}\0\0\0\1\0\0\0\2')
    assert named & stored == tokens_of(b"wordcount") | {"n100000002"}
