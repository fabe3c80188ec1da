"""The shape of the project as tests: who may import whom, what may be named where, and links that lead somewhere."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from tables import for_each

from undermine.checkers.registry import BUILTIN

ROOT = Path(__file__).resolve().parents[1]
CORE = ROOT / "undermine"
AGENT = ROOT / "agents" / "python"
JVM_AGENT = ROOT / "agents" / "jvm" / "src"

ROOMS = (
    "packs",
    "resources",
    "agent_protocol",
    "target_files",
    "model",
    "program",
    "protocols",
    "runtimes",
    "ledgers",
    "analysis",
    "strategies",
    "testing",
    "checkers",
    "findings",
    "policies",
    "inject",
    "config",
    "store",
    "report",
    "web",
    "exchange",
    "deployments",
    "userland",
    "run",
    "fleet",
    "campaign",
    "plugins",
    "api",
    "cli",
    "pytest_plugin",
    "__main__",
)
"""A room imports only rooms that stand before it."""
FILES_MAX = 15
"""A room, a package of an agent or a folder of tests with more files needs rooms of its own."""

PAPERS = re.compile(r"\b(sieve|prefail|fcatch|deminer|cofi)\b", re.IGNORECASE)
EXAMPLE = re.compile("granary", re.IGNORECASE)
EXAMPLE_IS_LOCATED_BY = {"api/demo.py", "resources.py"}

LINES_MAX = 600
LONG_FILES = {
    "undermine/model/faults.py": "the struct and the row of a kind of fault stay together: a new kind is added in one file",
}

DANGEROUS_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve"}
DANGEROUS_CALLS = {"eval", "exec"}
DANGER_ALLOWED = {
    "agents/python/undermine_agent/heap/imports.py": "keeps the target's own modules in compiled form, as `.pyc` files do",
    "agents/python/undermine_agent/launch.py": "runs the target's own program in its own process, as Python would",
}
"""Files that may, and why."""


def sources(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def statements(node: ast.AST, *, types_too: bool) -> Iterator[ast.AST]:
    """All nodes below, without what only a type checker sees unless that is wanted."""
    for child in ast.iter_child_nodes(node):
        if types_too or not is_type_checking(child):
            yield child
            yield from statements(child, types_too=types_too)


@cache
def imported(path: Path, *, types_too: bool = True) -> frozenset[str]:
    """Full names of everything that a file imports; `from a import b` counts as `a.b`."""
    found: set[str] = set()
    for node in statements(tree_of(path), types_too=types_too):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = path.relative_to(ROOT).parts[: -node.level]
                base = ".".join([*package, *filter(None, [base])])
            found |= {f"{base}.{alias.name}" for alias in node.names}
    return frozenset(found)


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in sources(CORE)}


def modules_imported(path: Path, *, types_too: bool = True) -> set[str]:
    """The modules of the core that a file imports."""
    found = set()
    for name in imported(path, types_too=types_too):
        if name in MODULES:
            found.add(name)
        elif name.rpartition(".")[0] in MODULES:
            found.add(name.rpartition(".")[0])
    return found


def room_of(module: str) -> str:
    """`model`, `config`, …: the first name below the package, "" for the package itself."""
    return [*module.split("."), ""][1]


def test_these_tests_see_the_whole_core() -> None:
    assert len(MODULES) > 40
    assert modules_imported(CORE / "model" / "plan.py") == {f"undermine.model.{name}" for name in ("faults", "point", "text")}
    assert "undermine.userland.registry" in modules_imported(CORE / "userland" / "process.py")
    registry = CORE / "userland" / "registry.py"
    assert "undermine.model.plan" not in modules_imported(registry, types_too=False)


# --- the direction of imports


def test_rooms_import_only_rooms_that_stand_before_them() -> None:
    assert set(ROOMS) == {room_of(module) for module in MODULES} - {""}
    wrong = [
        f"{module} imports {other}"
        for module, path in MODULES.items()
        for other in modules_imported(path)
        if room_of(module) and room_of(other) and ROOMS.index(room_of(other)) > ROOMS.index(room_of(module))
    ]
    assert not wrong


def test_the_architecture_page_lists_the_rooms_in_their_order() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    table = page[page.index("## The rooms") :].partition("\n## ")[0]
    assert tuple(re.findall(r"^\| `(\w+)` \|", table, flags=re.MULTILINE)) == ROOMS


def test_every_room_says_what_it_is_for_and_what_it_never_does() -> None:
    rooms = [path for path in sources(CORE) if path.name == "__init__.py" and path.parent != CORE]
    silent = [name_of(path) for path in rooms if "never" not in (ast.get_docstring(tree_of(path)) or "").lower()]
    assert not silent


def packages_of_classes() -> Iterator[str]:
    """The package of each class of the JVM agent and of its tests. A package may have classes for several versions of Java."""
    for path in JVM_AGENT.rglob("*.java"):
        if path.name != "package-info.java":
            part, _, *package, _ = path.relative_to(JVM_AGENT).parts
            yield f"{part} {'.'.join(package)}"


def test_no_room_is_crowded() -> None:
    modules = [*sources(CORE), *sources(AGENT), *sources(ROOT / "tests")]
    counts = Counter([*(name_of(path.parent) for path in modules), *packages_of_classes()])
    assert {"undermine/model", "agents/python/undermine_agent/net", "tests", "main undermine.agent.weave"} <= set(counts)
    assert not {folder: count for folder, count in counts.items() if count > FILES_MAX}


def test_only_the_table_of_plug_ins_names_concrete_ones() -> None:
    checkers = {"undermine.checkers.registry", *(checker.__module__ for checker in BUILTIN)}
    concrete = {module for module in MODULES if module.startswith("undermine.strategies.")} | checkers
    assert "undermine.strategies.random" in concrete
    for module, path in MODULES.items():
        if module != "undermine.plugins" and room_of(module) not in ("strategies", "checkers"):
            assert not modules_imported(path) & concrete, f"{name_of(path)} names a concrete plug-in"


def test_only_the_api_knows_the_table_of_plug_ins() -> None:
    users = {room_of(module) for module, path in MODULES.items() if "undermine.plugins" in modules_imported(path)}
    assert users <= {"api"}


def runtimes_named(path: Path) -> list[str]:
    """The names of runtimes that code compares something with."""
    found: list[ast.expr] = []
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Compare):
            found += [part for side in (node.left, *node.comparators) for part in getattr(side, "elts", [side])]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "startswith":
            found += node.args
    return [node.value for node in found if isinstance(node, ast.Constant) and node.value in ("python", "jvm")]


def test_only_the_room_of_runtimes_asks_which_one_it_is() -> None:
    named = {module: found for module, path in MODULES.items() if (found := runtimes_named(path))}
    assert not {module for module in named if room_of(module) != "runtimes"}, "ask for one of its traits instead"


def test_a_comparison_with_a_runtimes_name_would_be_seen(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text('a == "jvm" or "python" != b\nc.startswith("jvm")\nd = "jvm"\n"python" in e\nf not in ("jvm", "x")\n')
    assert sorted(runtimes_named(bad)) == ["jvm", "jvm", "jvm", "python", "python"]


def test_there_are_no_import_cycles() -> None:
    graph = {module: modules_imported(path, types_too=False) - {"undermine"} for module, path in MODULES.items()}
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join((*path[path.index(module) :], module))
        if module not in done:
            for other in sorted(graph[module]):
                visit(other, (*path, module))
            done.add(module)

    for module in sorted(graph):
        visit(module, ())


def test_the_agent_needs_only_the_standard_library() -> None:
    allowed = {"undermine_agent", "sitecustomize", *sys.stdlib_module_names}
    outside = {name_of(path): {name.split(".")[0] for name in imported(path)} - allowed for path in sources(AGENT)}
    assert not {path: names for path, names in outside.items() if names}


PURE_ROOMS = ("analysis", "campaign", "checkers", "findings", "policies", "strategies")
"""Rooms that start no process and read no file; the store reads and writes a campaign's files for them."""
PROCESSES = {"subprocess", "multiprocessing", "pty"}
FILE_CALLS = {"open", "read_text", "read_bytes", "write_text", "write_bytes", "iterdir", "rglob", "glob"}
STARTING_CALLS = {"system", "popen", "fork", "posix_spawn", "execv", "execve"}


def effects(path: Path) -> set[str]:
    """Modules that a file imports to start processes, and calls that start one or touch a file."""
    found = {name for name in imported(path) if name.split(".")[0] in PROCESSES}
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Name) and called.id == "open":
                found.add("open")
            elif isinstance(called, ast.Attribute):
                of_os = isinstance(called.value, ast.Name) and called.value.id == "os"
                if called.attr in FILE_CALLS - {"open"} or (of_os and called.attr in STARTING_CALLS | {"open"}):
                    found.add(called.attr)
    return found


def test_pure_rooms_start_no_process_and_read_no_file() -> None:
    found = {name_of(path): effects(path) for room in PURE_ROOMS for path in sources(CORE / room)}
    assert len(found) > 40
    assert not {name: calls for name, calls in found.items() if calls}


def test_an_effect_would_be_seen(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("import subprocess\nos.fork()\nopen('x')\npath.read_text()\ntally.open()\nopen_slots()\n")
    assert effects(bad) == {"subprocess", "fork", "open", "read_text"}


# --- texts


def test_every_module_says_what_it_is_for() -> None:
    modules = [*sources(CORE), *sources(AGENT), *sources(ROOT / "tests")]
    assert not [name_of(path) for path in modules if not (ast.get_docstring(tree_of(path)) or "").strip()]


def core_texts() -> Iterator[tuple[Path, str]]:
    for path in sorted(CORE.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts and not path.name.endswith((".so", ".pyc")):
            yield path, path.read_text()


def test_no_papers_name_is_in_a_shared_part() -> None:
    allowed = CORE / "strategies"
    named = {name_of(path) for path, text in core_texts() if not path.is_relative_to(allowed) and PAPERS.search(text)}
    assert named <= {"undermine/plugins.py"}, "the table of plug-ins names its strategies"


def test_the_tool_does_not_know_its_example() -> None:
    named = {name_of(path) for path, text in core_texts() if EXAMPLE.search(text)}
    assert not {name for name in named if name.removeprefix("undermine/") not in EXAMPLE_IS_LOCATED_BY}


@cache
def project_files() -> tuple[Path, ...]:
    """The files that are or will be in the repository."""
    try:
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout.decode().split("\0")
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not in a git repository")
    return tuple(path for name in names if name and (path := ROOT / name).is_file())


def project_texts() -> Iterator[tuple[Path, str]]:
    for path in project_files():
        data = path.read_bytes()
        if b"\0" not in data:
            yield path, data.decode(errors="replace")


def links(text: str) -> list[str]:
    """Targets of the links of a Markdown text, without those in code."""
    text = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"`[^`\n]*`", "", text)
    inline = re.findall(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)", text)
    return inline + re.findall(r"^\s*\[[^\]]+\]:\s*(\S+)", text, flags=re.MULTILINE)


def test_links_are_found_in_text_but_not_in_code() -> None:
    text = 'a [b](c.md#d "title") ![i](<e.png>)\n```\n[x](no.md)\n```\n`[y](no.md)`\n[r]: f.md\n'
    assert links(text) == ["c.md#d", "e.png", "f.md"]


def test_links_in_documents_lead_to_files_that_are_there() -> None:
    dead = []
    for path in project_files():
        if path.suffix != ".md":
            continue
        for link in links(path.read_text()):
            target = link.partition("#")[0]
            outside = re.match(r"[a-z][a-z0-9+.-]*:", link)
            if target and not outside and not (path.parent / target).exists():
                dead.append(f"{name_of(path)}: {link}")
    assert not dead


OWN_PATH = re.compile(r"(?<![\w.$}>)-])/(" + "|".join(("work", "root")) + ")/")


@for_each(
    ("line", "own"),
    [("see /{}/x", True), ('"/{}/x"', True), ("a/{}/x", False), ("{{dir}}/{}/x", False), ("/{}x", False)],
)
@for_each("name", ["work", "root"])
def test_paths_of_a_machine_are_told_from_others(line: str, own: bool, name: str) -> None:
    assert bool(OWN_PATH.search(line.format(name))) == own


def test_no_file_holds_a_path_of_the_machine_it_was_written_on() -> None:
    found = [
        f"{name_of(path)}:{number}"
        for path, text in project_texts()
        for number, line in enumerate(text.splitlines(), 1)
        if OWN_PATH.search(line)
    ]
    assert not found


# --- habits


def dangers(path: Path) -> set[str]:
    found = {name for name in imported(path) if name.split(".")[0] in DANGEROUS_MODULES}
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in DANGEROUS_CALLS:
            found.add(node.func.id)
    return found


def test_nothing_runs_what_it_has_read() -> None:
    found = {name_of(path): dangers(path) for path in (*sources(CORE), *sources(ROOT / "agents"))}
    assert not {name: what for name, what in found.items() if what and name not in DANGER_ALLOWED}


def test_a_danger_would_be_seen(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("import pickle\nfrom marshal import loads\nexec('1')\nx.exec_module(eval(y))\n")
    assert dangers(bad) == {"pickle", "marshal.loads", "exec", "eval"}


def test_long_files_are_named_with_their_reason_and_only_those() -> None:
    long = {name_of(p) for p in (*sources(CORE), *sources(AGENT)) if len(p.read_text().splitlines()) > LINES_MAX}
    assert long == set(LONG_FILES)
    assert all(LONG_FILES.values())
