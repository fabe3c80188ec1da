"""The tokens of each operation: of its bytes, its path, its keys and values."""

from __future__ import annotations

from story import Story
from token_digests import tokens_of

from undermine.analysis.common_data.moved_data import moved_data
from undermine.analysis.common_data.storage import storage_operations


def test_the_bytes_below_a_logical_operation_belong_to_it() -> None:
    story = Story()
    story.did("put", "db.write", '{"store":"r:1/0","kind":"redis","do":[["SET",["k"],["v"]]]}', end=9)
    story.did("raw", "raw.send", "c1")
    story.did("tokens", "content.tokens", "n12345", size=2, target="")
    story.did("later", "raw.send", "c1", t=10)
    story.did("more", "content.tokens", "n54321", size=4, target="")
    found = moved_data(story.analysed()).tokens
    assert {story.name(row): tokens for row, tokens in found.items()} == {"put": {"n12345"}, "later": {"n54321"}}


def test_a_path_counts_below_the_folder_of_its_node() -> None:
    story = Story()
    story.did("write", "file.write", "/undermine-run/node-folder/jobs/wordcount", target="jobs/wordcount")
    found = moved_data(story.analysed()).tokens
    assert found[story.row("write")] == tokens_of(b"wordcount")


def test_it_shows_texts_that_it_knows_before_others() -> None:
    story = Story()
    story.did("take", "db.write", '{"store":"r:1/0","kind":"redis","do":[["LPOP",["queue"],[]]]}')
    story.did("got", "db.got", '{"store":"r:1/0","got":[["queue",["job-17"]]]}', size=1)
    found = moved_data(story.analysed())
    (job,) = tokens_of(b"job-17")
    assert found.tokens[story.row("take")] == {job}
    assert found.words([job, "n10000", "0000000024"]) == "job-17, 65536, a text of 36 bytes"


def test_the_parameters_of_a_statement_belong_to_its_commit() -> None:
    story = Story()
    for verb, end in (("DELETE", "ROLLBACK"), ("SELECT", ""), ("INSERT", "COMMIT"), ("UPDATE", "")):
        op = "db.read" if verb == "SELECT" else "db.write"
        story.did(verb, op, f"{verb} jobs", target=f"{verb} jobs state.db")
        story.did(f"{verb}'s", "content.tokens", "n12345", size=story.events[verb].seq, target="")
        if end:
            story.did(end, "db.commit", end, target=f"{end} state.db")
    analysis = story.analysed()
    found = moved_data(analysis).tokens
    assert {story.name(row) for row in found} == {"DELETE", "SELECT", "COMMIT", "UPDATE"}
    assert set(found.values()) == {frozenset({"n12345"})}
    assert [story.name(one.row) for one in storage_operations(analysis)] == ["COMMIT", "UPDATE"]
