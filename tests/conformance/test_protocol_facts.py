"""The core and both agents hold the facts of protocol/*.toml, and protocol/README.md names the same ones."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest
from jdks import compile_java, jdks
from waiting import HANG_S

from undermine.agent_protocol import AGENTS, CAPABILITIES, FAMILIES, OPERATIONS, WIRE, WITH_FAULTS, AgentLacks, Record
from undermine.config.schema import LogicalOp
from undermine.inject import compile as compiled
from undermine.model import codec
from undermine.model.event import GOT, Event
from undermine.model.fault_limits import FaultLimits
from undermine.model.faults import (
    AT_WIRE,
    DISK_ERRORS,
    FAULT_KINDS,
    FAULT_NAMES,
    NETWORK_ERRORS,
    Corrupt,
    Drop,
    Error,
)
from undermine.model.plan import At, FirstUnseen, Then, When
from undermine.model.point import INJECTABLE_FAMILIES, LOGICAL, MAPPED, Point
from undermine.resources import protocol_dir, python_agent_dir
from undermine.testing import event, point

HERE = Path(__file__).resolve().parent
README = HERE.parents[1] / "protocol" / "README.md"
ACCELERATOR = python_agent_dir() / "undermine_agent" / "accelerator"


class Fact(NamedTuple):
    """A fact, and the constants of the agents that hold it."""

    words: str
    value: Any
    python: str = ""
    jvm: str = ""


def ops_that(**facts: object) -> list[str]:
    return [op for op, row in OPERATIONS.items() if all(getattr(row, name) == value for name, value in facts.items())]


def with_error(name: str) -> list[str]:
    return [op for op, row in WITH_FAULTS.items() if name in row.errors]


def read_at(place: str) -> list[str]:
    return [op for op, row in OPERATIONS.items() if place in row.variables]


CODES = {"u8": "B", "u16": "H", "u32": "I", "i64": "q"}


def layout(record: Record) -> str:
    """The type of a record and its fields, for `struct`."""
    return "<B" + "".join(CODES[field.split()[0]] for field in record.fields)


TABLE, INJECTION, WRITER = "faults.table:", "faults.injection:", "wire.writer:"
DECISIONS, LASTING, STATE, FILE = (
    "faults.DecisionTable.",
    "faults.LastingFaults.",
    "wire.SharedState.",
    "wire.EventFile.",
)
OPERATION_FACTS = (
    Fact("the operations with faults", list(WITH_FAULTS), TABLE + "OPERATIONS", DECISIONS + "OPERATIONS"),
    Fact(
        "the operations that are only observed",
        [*(OPERATIONS.keys() - WITH_FAULTS.keys())],
        TABLE + "OBSERVED",
        DECISIONS + "OBSERVED",
    ),
    Fact("the operations before which variables are read", read_at("before"), TABLE + "READ_BEFORE", DECISIONS + "READ_BEFORE"),
    Fact("the operations after which variables are read", read_at("after"), TABLE + "READ_AFTER", DECISIONS + "READ_AFTER"),
    Fact(
        "the operations that move bytes of a connection",
        [op for op, row in FAMILIES["net"].operations.items() if row.moves],
        TABLE + "TRANSFERS",
        DECISIONS + "TRANSFERS",
    ),
    Fact("the operations that can be dropped", ops_that(drop=True), TABLE + "DROPPABLE", DECISIONS + "DROPPABLE"),
    Fact(
        "the operations that can be corrupted", ops_that(corrupt=True), TABLE + "CORRUPTIBLE", DECISIONS + "CORRUPTIBLE"
    ),
    Fact("the accesses to mapped files", ops_that(mapped=True), TABLE + "MAPPED", DECISIONS + "MAPPED"),
    Fact("the operations that need space", with_error("ENOSPC"), INJECTION + "NEEDS_SPACE", LASTING + "NEEDS_SPACE"),
    Fact("the operations that lasting errors spare", ops_that(spared=True), INJECTION + "SPARED", LASTING + "SPARED"),
    Fact(
        "the families that can be observed",
        [name for name, family in FAMILIES.items() if not family.always and not family.asked],
        "hooks:FAMILIES",
    ),
)
STATES, PORTS, VARIABLES, RECORDS = WIRE.state.step_states, WIRE.state.ports, WIRE.state.variables, WIRE.events.records
SUBJECTS, SUBJECT = "names.subjects:", "operations.Subject."
WIRE_FACTS = (
    Fact("the version", WIRE.version, "agent:VERSION", "wire.Config.VERSION"),
    Fact("the seconds to wait for an answer", WIRE.answer_s, "wire.link:TIMEOUT_S"),
    Fact("the milliseconds to wait for an answer", WIRE.answer_s * 1000, "", "wire.ToolLink.TIMEOUT_MS"),
    Fact("the number of frames of a stack", WIRE.frames_max, "names.sites:DEPTH_MAX", "stacks.Sites.DEPTH_MAX"),
    Fact("the bytes of a stack's hash", WIRE.stack_digest_bytes, "names.sites:DIGEST_SIZE", "stacks.Stack.DIGEST_SIZE"),
    Fact("the mark before a content", WIRE.content_mark, SUBJECTS + "CONTENT_MARK", SUBJECT + "CONTENT_MARK"),
    Fact("the characters of a content", WIRE.content_chars_max, SUBJECTS + "CONTENT_MAX", SUBJECT + "CONTENT_MAX"),
    Fact("the heap accesses of a process", WIRE.heap_records_max, "heap.accesses:RECORDS_MAX", "heap.HeapRecorder.RECORDS_MAX"),
    Fact("the bytes of a value's text", WIRE.variables.text_bytes_max, "variables.texts:TEXT_MAX", "variables.Texts.BYTES_MAX"),
    Fact("the elements in a text", WIRE.variables.listed_max, "variables.texts:LISTED_MAX", "variables.Texts.SHOWN_MAX"),
    Fact("the elements that are searched", WIRE.variables.elements_max, "variables.texts:SIZE_MAX", "variables.Items.ITEMS_MAX"),
    Fact("the keys of a variable", WIRE.variables.keys_max, "variables.paths:KEYS_MAX", "variables.VariablePath.KEYS_MAX"),
    Fact(
        "the readings that are discarded",
        WIRE.variables.discarded_max,
        "variables.samples:DISCARDED_MAX",
        "variables.Variable.LOCKED_MAX",
    ),
    *(
        Fact(
            f"the {words} of tokens",
            getattr(WIRE.tokens, name),
            f"content.tokens:{constant}",
            f"content.Tokens.{constant}" * (constant != "NUMBER_BITS"),  # the JVM's numbers have 63 bits and a sign
        )
        for words, name, constant in (
            ("bytes at an edge", "edge_bytes", "EDGE_BYTES"),
            ("least bytes of texts", "text_bytes_min", "TEXT_MIN"),
            ("most bytes of texts", "text_bytes_max", "TEXT_MAX"),
            ("least number", "number_min", "NUMBER_MIN"),
            ("bits of numbers", "number_bits_max", "NUMBER_BITS"),
            ("decimal digits", "decimal_digits_max", "DECIMAL_MAX"),
            ("least hexadecimal digits", "hex_digits_min", "HEX_MIN"),
            ("most hexadecimal digits", "hex_digits_max", "HEX_MAX"),
            ("bytes with binary numbers", "binary_bytes_max", "BINARY_BYTES"),
            ("digests", "digests_max", "DIGESTS_MAX"),
        )
    ),
    Fact("the first bytes of a chunk", WIRE.events.magic, WRITER + "MAGIC", FILE + "MAGIC"),
    Fact("the bytes of a chunk", WIRE.events.chunk_bytes, WRITER + "CHUNK", FILE + "CHUNK"),
    *(
        Fact(f"the type of the record {name}", row.type, WRITER + name.upper(), FILE + name.upper())
        for name, row in RECORDS.items()
    ),
    *(
        Fact(f"the layout of the record {name}", layout(row), WRITER + f"_{name.upper()}")
        for name, row in RECORDS.items()
        if row.fields
    ),
    *(
        Fact(f"the bytes of the record {name}", 4 + struct.calcsize(layout(row)), "", FILE + f"{name.upper()}_SIZE")
        for name, row in RECORDS.items()
        if not row.followed_by
    ),
    Fact("the first bytes of the state file", WIRE.state.magic, TABLE + "MAGIC"),
    Fact(
        "the first bytes of the state file, as a number",
        int.from_bytes(WIRE.state.magic.encode(), "little"),
        "",
        STATE + "MAGIC",
    ),
    Fact("the word of the generation", WIRE.state.generation_at // 4, TABLE + "GENERATION"),
    Fact("the word with the place of the ports", WIRE.state.ports_at // 4, TABLE + "PORTS_AT"),
    Fact("the word with the place of the variables", WIRE.state.variables_at // 4, TABLE + "VARIABLES_AT"),
    Fact("the word with the place of the nodes' own flags", WIRE.state.firsts_at // 4, TABLE + "FIRSTS_AT"),
    Fact("the offset with the place of the nodes' own flags", WIRE.state.firsts_at, "", STATE + "FIRSTS_OFFSET"),
    Fact("the offset in a step of its place", WIRE.state.bound_at, TABLE + "BOUND", STATE + "BOUND"),
    Fact("the offset of the generation", WIRE.state.generation_at, "", STATE + "GENERATION"),
    Fact("the offset of the request for stacks", WIRE.state.stacks_at, "", STATE + "STACKS"),
    Fact("the offset with the place of the ports", WIRE.state.ports_at, "", STATE + "PORTS_OFFSET"),
    Fact("the offset with the place of the variables", WIRE.state.variables_at, "", STATE + "VARIABLES_OFFSET"),
    Fact("the offset that says that everything is healed", WIRE.state.healed_at, TABLE + "HEALED", STATE + "HEALED"),
    Fact("the offset of the steps", WIRE.state.steps_at, TABLE + "STEPS", STATE + "STEPS"),
    Fact("the bytes of a step", WIRE.state.step_bytes, TABLE + "STEP_SIZE", STATE + "STEP_SIZE"),
    Fact("the state of an armed step", STATES.armed, TABLE + "ARMED", STATE + "ARMED"),
    Fact("the state of a fired step", STATES.fired, TABLE + "FIRED", STATE + "FIRED"),
    Fact("the state of a step that is over", STATES.over, TABLE + "OVER", STATE + "OVER"),
    Fact("the number of ports", PORTS.count, TABLE + "PORTS", STATE + "PORTS"),
    Fact("the factor of a called port", PORTS.factor, TABLE + "PORT_FACTOR", STATE + "PORT_FACTOR"),
    Fact("the bytes of a variable", VARIABLES.slot_bytes, TABLE + "SLOT_SIZE", STATE + "SLOT_SIZE"),
    Fact("the offset of a variable's text", VARIABLES.text_at, TABLE + "SLOT_TEXT", STATE + "SLOT_TEXT"),
    Fact("the length of an absent variable", VARIABLES.absent, TABLE + "ABSENT", STATE + "ABSENT"),
    Fact("the bytes of a file of stacks", WIRE.stacks.bytes_max, "wire.stack_dump:BYTES_MAX", "StackDump.BYTES_MAX"),
    Fact(
        "the threads in a file of stacks",
        WIRE.stacks.threads_max,
        "wire.stack_dump:THREADS_MAX",
        "StackDump.THREADS_MAX",
    ),
    Fact(
        "the frames of a thread in a file of stacks",
        WIRE.stacks.frames_max,
        "wire.stack_dump:FRAMES_MAX",
        "StackDump.FRAMES_MAX",
    ),
    Fact("the tasks in a file of stacks", WIRE.stacks.tasks_max, "wire.stack_dump:TASKS_MAX"),
)


# --- the agents

PRINT_PYTHON = """
import importlib, json, sys
sys.path.insert(0, sys.argv[1])

def plain(value):
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, (frozenset, set, tuple, list)):
        return sorted(map(plain, value))
    return getattr(value, "format", value) if not isinstance(value, (str, int)) else value

def constant(place):
    module, _, name = place.partition(":")
    return plain(getattr(importlib.import_module("undermine_agent." + module), name))

print(json.dumps({place: constant(place) for place in sys.argv[2:]}))
"""


def printed(command: list[str]) -> Mapping[str, Any]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stderr
    found: Mapping[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def of_python() -> Mapping[str, Any]:
    """The values of the Python agent's constants."""
    places = [fact.python for fact in (*OPERATION_FACTS, *WIRE_FACTS) if fact.python]
    places += ["agent:CAPABILITIES", "logical.operations:PARTS"]
    return printed([sys.executable, "-c", PRINT_PYTHON, str(python_agent_dir()), *places])


@pytest.fixture(scope="module")
def of_jvm(tmp_path_factory: pytest.TempPathFactory, jar: Path) -> Mapping[str, Any]:
    """The values of the JVM agent's constants, and what it looks up."""
    folder = tmp_path_factory.mktemp("facts")
    compile_java(folder, HERE / "ProtocolFacts.java", class_path=jar)
    places = [fact.jvm for fact in (*OPERATION_FACTS, *WIRE_FACTS) if fact.jvm]
    places += ["faults.Faults.CAPABILITIES", DECISIONS + "DOABLE", "observed"]
    places += [f"parts {' '.join((op, *WITH_FAULTS))}" for op in LOGICAL]
    places += [f"observed {family}" for family in FAMILIES]
    java = jdks()[min(jdks())] / "bin" / "java"
    return printed([str(java), "-cp", f"{folder}:{jar}", "ProtocolFacts", *places])


def difference(words: str, place: str, found: Any, expected: Any, lacks: AgentLacks) -> str:
    """Why a constant of an agent is wrong, in a sentence ("" if it is right)."""
    if isinstance(expected, list):
        expected = set(expected) - set(lacks.operations_missing) - set(lacks.capabilities_missing)
        extra, missing = sorted(set(found) - expected), sorted(expected - set(found))
        told = [f"has {', '.join(extra)} too"] * bool(extra) + [f"lacks {', '.join(missing)}"] * bool(missing)
        if len(found) != len(set(found)):
            told.append("names one twice")
    else:
        told = [f"is {found!r} and not {expected!r}"] * (found != expected)
    return f"{place} holds {words}; compared with protocol/*.toml it {' and '.join(told)}" if told else ""


def differences(agent: str, of_agent: Mapping[str, Any], facts: Iterable[Fact]) -> str:
    """A line for each constant of an agent that is wrong."""
    places = [(fact, getattr(fact, agent)) for fact in facts if getattr(fact, agent)]
    told = [difference(fact.words, place, of_agent[place], fact.value, AGENTS[agent]) for fact, place in places]
    return "\n".join(text for text in told if text)


HINT = """
Correct the constants. If an agent cannot do something yet, list that for it under [agents] in protocol/operations.toml."""


def test_the_python_agent_holds_the_same_facts(of_python: Mapping[str, Any]) -> None:
    capabilities = Fact("the capabilities", list(CAPABILITIES), "agent:CAPABILITIES")
    wrong = differences("python", of_python, (*OPERATION_FACTS, capabilities, *WIRE_FACTS))
    assert not wrong, wrong + HINT


def test_the_jvm_agent_holds_the_same_facts(of_jvm: Mapping[str, Any]) -> None:
    capabilities = Fact("the capabilities", list(CAPABILITIES), jvm="faults.Faults.CAPABILITIES")
    kinds = Fact("the faults that it knows", [*FAULT_NAMES, "hold"], jvm=DECISIONS + "DOABLE")
    wrong = differences("jvm", of_jvm, (*OPERATION_FACTS, capabilities, kinds, *WIRE_FACTS))
    assert not wrong, wrong + HINT


def test_agents_agree_on_the_parts_of_logical_operations(
    of_python: Mapping[str, Any], of_jvm: Mapping[str, Any]
) -> None:
    expected = {op: sorted(WITH_FAULTS[op].parts) for op in LOGICAL}
    assert of_python["logical.operations:PARTS"] == expected
    found = {op: sorted(of_jvm[f"parts {' '.join((op, *WITH_FAULTS))}"]) for op in LOGICAL}
    assert found == expected


def test_the_jvm_agent_looks_up_the_operations_of_a_family(of_jvm: Mapping[str, Any]) -> None:
    missing = {*AGENTS["jvm"].operations_missing, *MAPPED, *LOGICAL}  # logical ones are looked up by name
    always = {op for family in FAMILIES.values() if family.always for op in family.operations} - missing
    assert set(of_jvm["observed"]) == always
    for name, family in FAMILIES.items():
        expected = always | (family.operations.keys() - missing)
        assert set(of_jvm[f"observed {name}"]) == expected, f"let Ops.java look up the operations of the family {name}"


def test_the_accelerator_has_the_same_numbers() -> None:
    writer, frames = (ACCELERATOR / "writer.h").read_text(), (ACCELERATOR / "frames.h").read_text()
    assert f"#define CHUNK {WIRE.events.chunk_bytes}\n" in writer
    assert f'#define MAGIC "{WIRE.events.magic}"\n' in writer
    assert f"#define DEPTH_MAX {WIRE.frames_max}\n" in frames
    in_order = sorted(RECORDS, key=lambda name: RECORDS[name].type)
    assert [RECORDS[name].type for name in in_order] == list(range(1, len(RECORDS) + 1))
    assert f"enum {{ {in_order[0].upper()} = 1, {', '.join(map(str.upper, in_order[1:]))} }};" in writer


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (["a", "b"], ""),
        (["a"], "x holds y; compared with protocol/*.toml it lacks b"),
        (["a", "b", "c"], "x holds y; compared with protocol/*.toml it has c too"),
        (["c", "a", "a"], "x holds y; compared with protocol/*.toml it has c too and lacks b and names one twice"),
    ],
)
def test_a_different_fact_is_reported_in_a_sentence(found: list[str], text: str) -> None:
    lacks = AgentLacks(operations_missing=("d",))
    assert difference("y", "x", found, ["a", "b", "d"], lacks) == text
    assert "is 1 and not 2" in difference("y", "x", 1, 2, lacks)


# --- the core


def test_agents_lack_only_known_capabilities_and_operations() -> None:
    for lacks in AGENTS.values():
        assert set(lacks.capabilities_missing) <= set(CAPABILITIES)
        assert set(lacks.operations_missing) <= OPERATIONS.keys() - WITH_FAULTS.keys()


def test_an_operation_is_in_one_family() -> None:
    assert len(OPERATIONS) == sum(len(family.operations) for family in FAMILIES.values())


def test_the_family_of_an_operation_with_faults_is_the_beginning_of_its_name() -> None:
    assert {name for name, family in FAMILIES.items() if family.faults} == INJECTABLE_FAMILIES
    for op in WITH_FAULTS:
        assert op in FAMILIES[point(op).kind].operations
    wrong = [op for op in OPERATIONS.keys() - WITH_FAULTS.keys() if kind_of(op) in INJECTABLE_FAMILIES]
    assert not wrong, "events of this kind would count as points"
    assert GOT in FAMILIES["raw"].operations


def kind_of(op: str) -> str:
    seen: Event = event(op)
    return seen.kind


def test_only_operations_with_faults_have_facts_about_faults() -> None:
    of_faults = ("traces", "receives", "drop", "corrupt", "mapped", "errors", "spared")
    observed = OPERATIONS.keys() - WITH_FAULTS.keys()
    assert not [(op, name) for op in observed for name in of_faults if getattr(OPERATIONS[op], name)]


def test_parts_are_operations() -> None:
    for op, row in OPERATIONS.items():
        assert set(row.parts) <= WITH_FAULTS.keys()
        assert bool(row.parts) == (op in LOGICAL)


def test_errors_are_those_that_can_be_configured() -> None:
    assert {error for row in OPERATIONS.values() for error in row.errors} == {*DISK_ERRORS, *NETWORK_ERRORS}
    assert not [op for op in MAPPED if WITH_FAULTS[op].errors]


def test_the_configuration_names_the_logical_operations() -> None:
    assert get_args(LogicalOp) == LOGICAL


def test_every_capability_is_needed_by_a_fault_or_a_trigger() -> None:
    of_faults = [*(word for row in FAULT_KINDS.values() for word in row.capabilities or (row.name,)), AT_WIRE]
    together = Then(At(Point(())), At(Point(())), same="node")
    triggers = (When(()), FirstUnseen((), ()), together)
    of_triggers = [*(word for trigger in triggers for word in compiled._words_for(trigger)), "until"]
    differing = set(CAPABILITIES) ^ {*of_faults, *of_triggers}
    assert not differing, f"[capabilities] in protocol/operations.toml and the core disagree about {differing}"
    assert len(CAPABILITIES) == len(of_faults) + len(of_triggers), "two faults or triggers need the same capability"


def offered_at(at: Point) -> list[Any]:
    limits = FaultLimits(kinds=FAULT_NAMES, node_roles={"n1": "server", "n2": "server"})
    return [fault for row in FAULT_KINDS.values() for fault in row.offers(limits, at, ())]


@pytest.mark.parametrize("op", WITH_FAULTS)
@pytest.mark.parametrize("target", ["data", "peer:n2", "SET key peer:n2"])
def test_the_tool_offers_only_faults_that_agents_can_inject(op: str, target: str) -> None:
    row, offered = WITH_FAULTS[op], offered_at(point(op, target=target))
    assert offered
    assert row.drop or not [fault for fault in offered if isinstance(fault, Drop)]
    assert row.corrupt or not [fault for fault in offered if isinstance(fault, Corrupt)]
    assert {fault.error for fault in offered if isinstance(fault, Error)} <= set(row.errors)


def test_the_core_reads_the_same_layouts() -> None:
    bodies = {
        "string": codec._STRING_ID.format,
        "frame": codec._FRAME_BODY.format,
        "stack": codec._STACK_BODY.format,
        "receipt": codec._RECEIPT_BODY.format,
        "begin": dtype_layout(codec._BEGIN_ROW),
        "end": dtype_layout(codec._END_ROW),
    }
    assert {name: body.replace("<", "<B") for name, body in bodies.items()} == {
        name: layout(row) for name, row in RECORDS.items() if row.fields
    }
    assert codec._HEAD.format == "<" + "".join(CODES[field.split()[0]] for field in WIRE.events.head)


def dtype_layout(dtype: Any) -> str:
    """The layout of a row of NumPy, for `struct`."""
    return "<" + "".join({"<u4": "I", "<i8": "q"}[kind] for _, kind in dtype.descr)


# --- documentation


def section(heading: str) -> str:
    """A section of README.md, without the sections below it."""
    parts = re.split(r"^#+ (.*)$", README.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))[heading]


def rows(text: str, head: str) -> list[list[str]]:
    """The cells of the table whose first cell is `head`."""
    _, _, rest = text.partition(f"\n| {head} |")
    lines = rest.splitlines()[2:]
    end = next((n for n, line in enumerate(lines) if not line.startswith("|")), len(lines))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[:end]]


def test_the_table_of_operations_names_all_of_them() -> None:
    words = {word for cells in rows(section("Operations"), "op") for word in re.findall(r"`([a-z_.]+)`", cells[0])}
    assert {word for word in words if "." in word or word in OPERATIONS} == set(OPERATIONS)


def test_the_table_of_families_is_that_of_the_data() -> None:
    table = {cells[0].strip("`"): cells[1] for cells in rows(section("Operations"), "family")}
    assert list(table) == [name for name, family in FAMILIES.items() if not family.always]
    for name, cell in table.items():
        patterns = [re.escape(word).replace(r"\*", ".*") for word in re.findall(r"`([a-z_.*]+)`", cell)]
        for pattern in patterns:
            found = {op for op in OPERATIONS if re.fullmatch(pattern, op)}
            assert found, f"there is no operation {pattern}"
            assert found <= FAMILIES[name].operations.keys(), f"README.md says that {pattern} is of the family {name}"


def test_the_table_of_capabilities_is_that_of_the_data() -> None:
    expected = [[f"`{word}`", meaning] for word, meaning in CAPABILITIES.items()]
    found = rows(section("Facts as data"), "capability")
    assert found == expected, "copy the words and meanings of [capabilities] in operations.toml to protocol/README.md, in order"


def test_an_installed_tool_finds_the_facts() -> None:
    packaged = (HERE.parents[1] / "pyproject.toml").read_text()
    for path in sorted(protocol_dir().glob("*.toml")):
        assert f'"protocol/{path.name}" = "undermine/_protocol/{path.name}"' in packaged
