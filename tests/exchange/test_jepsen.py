"""Histories in the form of Jepsen: the EDN reader and writer, export, import, and the way there and back."""

from __future__ import annotations

import io
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from undermine import api, ledgers
from undermine.exchange import edn, jepsen
from undermine.model.errors import UserError
from undermine.model.run import Op, Receipt
from undermine.testing import run_view

JEPSEN = """
; as jepsen.store writes it
{:process 0, :type :invoke, :f :write, :value 3, :time 10, :index 0}
#jepsen.history.Op{:process 1, :type :invoke, :f :read, :value nil, :time 11, :index 1}
{:process :nemesis, :type :info, :f :start-partition, :value nil, :time 12, :index 2}
{:process 0, :type :info, :f :write, :value 3, :time 13, :error [:timeout "5 s"], :index 3}
{:process 1, :type :ok, :f :read, :value 3, :time 13, :index 4}
{:process 2, :type :invoke, :f :cas, :value [3 4], :time 14, :index 5}
{:process 2, :type :fail, :f :cas, :value [3 4], :time 15, :index 6}
{:process 1, :type :invoke, :f :read, :value nil, :time 16, :index 7}
"""
REGISTER = ledgers.linearizable(ledgers.register(cas="cas", initial=None))


# --- EDN


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("nil", None),
        ("true, false", True),
        (":a/b", "a/b"),
        ("sym.bol", "sym.bol"),
        ('"a\\n\\"\\u0041"', 'a\n"A'),
        ("\\newline", "\n"),
        ("\\c", "c"),
        ("\\u0041", "A"),
        ("-12", -12),
        ("7N", 7),
        ("1.5e2", 150.0),
        ("2.5M", 2.5),
        ("1/4", 0.25),
        ("[1 (2) #{3}]", [1, [2], [3]]),
        ("{:a 1, [2 3] {:b nil}}", {"a": 1, (2, 3): {"b": None}}),
        ('#inst "2020"', "2020"),
        ("#_ #_ 1 2 3", 3),
        ("[1 #_ 2]", [1]),
        ("; all\n ;;; of it\n 5 ; more", 5),
        ("-", "-"),
        ("->x", "->x"),
    ],
)
def test_edn_is_read(text: str, value: Any) -> None:
    assert next(edn.read(text, "f")) == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{:a", "f:1: not EDN: '}' is missing"),
        ("\n\n]", "f:3: not EDN: unexpected ']'"),
        ("[1 }", "']' is missing"),
        ("{:a}", "a map has a key without a value"),
        ('"open', "unexpected"),
        ('"\\q"', "unknown escape"),
        ("#_", "nothing follows #_"),
        ("[#tag]", "unexpected ']'"),
        ("12x", "unexpected '12x'"),
        ("^{:a 1} b", "unexpected"),
        ("1/0", "is not a number"),
        ("9" * 5000, "is not a number"),
        ("[" * 1000, "nested more than"),
        ("#a " * 1000, "nested more than"),
        ("#_" * 1000, "nested more than"),
    ],
)
def test_what_is_not_edn_is_refused_with_its_line(text: str, said: str) -> None:
    with pytest.raises(UserError) as error:
        list(edn.read(text, "f"))
    assert said in str(error.value)
    assert len(str(error.value)) < 120


def test_hostile_texts_take_no_long_time() -> None:
    begun = time.process_time()
    for text in (";" * 50_000 + '\n"', '"' + "\\" * 99_999, " ," * 50_000 + "#", "1" * 4000 + "x", '"a' * 30_001):
        with pytest.raises(UserError):
            list(edn.read(text, "f"))
    assert time.process_time() - begun < 2


TEXTS = st.text() | st.sampled_from(["nil", "a b", "\\", '"', "\n", "ключ"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=10,
)


@settings(max_examples=25)
@given(VALUES)
def test_whatever_is_written_is_read_again(value: Any) -> None:
    assert list(edn.read(edn.write(value), "f")) == [value]


# --- import


def test_a_history_of_jepsen_is_read() -> None:
    ops = jepsen.parse(JEPSEN, "f")
    assert [(op.client, op.f, op.status, op.value) for op in ops] == [
        ("0", "write", "unknown", None),
        ("1", "read", "ok", 3),
        ("2", "cas", "fail", None),
        ("1", "read", "pending", None),
    ]
    assert ops[0].args == {"value": 3}
    assert ops[2].args == {"value": [3, 4], "old": 3, "new": 4}
    assert "timeout" in ops[0].error
    assert ops[0].end_ns < ops[1].end_ns, "events at one time keep their order"
    assert REGISTER(run_view(ops=ops)).answer == "pass"


def test_a_ledger_judges_a_file(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    path.write_text(JEPSEN.replace(":type :info, :f :write", ":type :fail, :f :write"))
    verdict = REGISTER(api.read_history(path))
    assert (verdict.answer, verdict.symptom) == ("fail", "write, read and cas are not linearizable")
    with pytest.raises(UserError, match="cannot be read"):
        api.read_history(tmp_path / "other.edn")
    path.write_bytes(b"\xff")
    with pytest.raises(UserError, match="not UTF-8"):
        api.read_history(path)


def test_one_vector_and_pairs_of_key_and_value_are_read() -> None:
    text = "[{:process 0 :type :invoke :f :read :value [x nil]} {:process 0 :type :ok :f :read :value [x 5]}]"
    (op,) = jepsen.parse(text, "f", keyed=True)
    assert (op.args, op.value) == ({"key": "x", "value": None}, 5)
    assert 0 < op.start_ns < op.end_ns, "without times, the order counts"


def test_transactions_of_a_file_are_judged() -> None:
    rows = (("[[:append :x 1] [:r :y []]]", 0), ("[[:append :y 1] [:r :x []]]", 1))
    kinds = (":invoke", ":ok")
    text = "".join(f"{{:process {who} :type {kind} :f :txn :value {steps}}}" for kind in kinds for steps, who in rows)
    assert ledgers.isolated(ops="value")(run_view(ops=jepsen.parse(text, "f"))).symptom == "txn shows write skew (G2)"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("5", "event 1 is not a map"),
        ("{:type :ok :f :read}", "event 1 is not a map"),
        ("{:process 0 :type :ok :f :read}", "ends an operation that process 0 has not begun"),
        ("{:process 0 :type :invoke :f :read} {:process 0 :type :invoke :f :read}", "event 2 begins a second operation"),
        ("{:process 0 :type :maybe :f :read}", "unknown type 'maybe'"),
    ],
)
def test_what_is_no_history_is_refused(text: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        jepsen.parse(text, "f")
    with pytest.raises(UserError, match="no pair of a key and a value"):
        jepsen.parse("{:process 0 :type :invoke :f :read :value 5}", "f", keyed=True)


# --- export


def exported(*ops: Op, **more: Any) -> list[str]:
    stream = io.StringIO()
    assert jepsen.write(stream, run_view(ops=ops, **more)) == len(stream.getvalue().splitlines())
    return stream.getvalue().splitlines()


def test_a_run_is_written_as_events() -> None:
    lines = exported(
        Op(0, "c1", "put", "", {"key": "k", "value": "a b"}, "ok", True, start_ns=100, end_ns=120),
        Op(1, "c2", "get", "n1", {"key": "k"}, "ok", "a b", start_ns=120, end_ns=140),
        Op(2, "c1", "cas", "", {"old": 1, "new": 2}, "unknown", None, "TimeoutError()", start_ns=150, end_ns=160),
        Op(3, "c1", "enqueue!", "", {"item": 7}, "fail", start_ns=170, end_ns=180),
        Op(4, "c2", "odd name", "", {"a": 1, "b": 2}, "pending", start_ns=190),
        receipts=(Receipt(0, "n1", "crash", 165, detail="killed"),),
    )
    assert lines == [
        '{:index 0, :time 0, :process 0, :type :invoke, :f :put, :value ["k" "a b"]}',
        '{:index 1, :time 20, :process 1, :type :invoke, :f :get, :value ["k" nil]}',
        '{:index 2, :time 20, :process 0, :type :ok, :f :put, :value ["k" "a b"], :answer true}',
        '{:index 3, :time 40, :process 1, :type :ok, :f :get, :value ["k" "a b"]}',
        "{:index 4, :time 50, :process 0, :type :invoke, :f :cas, :value [1 2]}",
        '{:index 5, :time 60, :process 0, :type :info, :f :cas, :value [1 2], :error "TimeoutError()"}',
        '{:index 6, :time 65, :process :nemesis, :type :info, :f :crash, :value {:node "n1", :detail "killed"}}',
        "{:index 7, :time 70, :process 2, :type :invoke, :f :enqueue!, :value 7}",
        "{:index 8, :time 80, :process 2, :type :fail, :f :enqueue!, :value 7}",
        '{:index 9, :time 90, :process 1, :type :invoke, :f "odd name", :value {:a 1, :b 2}}',
    ]


def test_a_transaction_ends_with_its_answer() -> None:
    asked, done = [["append", "x", 1], ["r", "y", None]], [["append", "x", 1], ["r", "y", [2]]]
    begin, end = exported(Op(0, "c", "txn", "", {"ops": asked}, "ok", done, start_ns=1, end_ns=2))
    assert ':value [["append" "x" 1] ["r" "y" nil]]' in begin
    assert ':value [["append" "x" 1] ["r" "y" [2]]]' in end


STATUSES = st.sampled_from(["ok", "fail", "unknown", "pending"])


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 3), st.booleans(), STATUSES, st.integers(1, 9), st.integers(0, 30)), max_size=12))
def test_a_history_that_is_exported_and_imported_says_the_same(rows: list[tuple[int, bool, Any, int, int]]) -> None:
    now_ns, ops = [1, 2, 3, 4], []
    for client, reads, status, value, took_ns in rows:
        start_ns = now_ns[client]
        now_ns[client] = start_ns + took_ns + 1
        args, answer = ({}, value) if reads else ({"value": value}, None)
        end_ns = 0 if status == "pending" else start_ns + took_ns
        ops.append(Op(0, f"c{client}", "read" if reads else "write", "", args, status, answer, start_ns=start_ns, end_ns=end_ns))
    ops.sort(key=lambda op: op.start_ns)
    there = run_view(ops=ops)
    back = run_view(ops=jepsen.parse("\n".join(exported(*ops)), "f"))
    assert [(op.f, op.status, op.value if op.f == "read" and op.status == "ok" else None) for op in back.history] == [
        (op.f, op.status, op.value if op.f == "read" and op.status == "ok" else None) for op in ops
    ]
    assert REGISTER(there).answer == REGISTER(back).answer
