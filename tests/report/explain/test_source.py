"""Source lines around the call sites of a finding: which files count, what is marked, and what is left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from undermine.model.columns import Columns
from undermine.model.faults import Crash
from undermine.model.finding import Bound, Finding, Window
from undermine.model.plan import At, Plan, Step
from undermine.program.repository.sources import Sources
from undermine.report.explain.source import Excerpt, Place, excerpts
from undermine.report.explain.story import excerpts_of
from undermine.testing import point

CODE = """\
import os


class Disk:
    def save(self, path):
        self.write(path)
        os.replace(path, path)

    def write(self, path):
        print(path)
"""
SAVE, REPLACE, PRINT = "app.disk:Disk.save#0", "app.disk:Disk.save#1", "app.disk:Disk.write#0"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "disk.py").write_text(CODE)
    return tmp_path


def marked(excerpt: Excerpt) -> dict[int, str]:
    return {line.number: line.mark for line in excerpt.lines if line.mark}


def test_near_places_of_one_file_are_shown_together(project: Path) -> None:
    (excerpt,) = excerpts(Sources(project), [Place(SAVE, 0, "opens"), Place(REPLACE, 7, "closes"), Place(PRINT, 10, "here")])
    assert (excerpt.file, excerpt.function) == ("app/disk.py", "Disk.save, Disk.write")
    assert marked(excerpt) == {6: "opens", 7: "closes", 10: "here"}
    assert [line.text for line in excerpt.lines] == CODE.splitlines()[2:]


def test_one_line_may_have_several_marks(project: Path) -> None:
    (excerpt,) = excerpts(Sources(project), [Place(SAVE, 0, mark) for mark in ("opens", "closes", "opens")])
    assert marked(excerpt) == {6: "opens; closes"}


def test_a_file_without_the_call_site_at_that_line_is_another_release(project: Path) -> None:
    assert excerpts(Sources(project), [Place(SAVE, 7, "here")]) == ()
    assert excerpts(Sources(project), [Place("app.disk:Disk.gone#0", 0, "here")]) == ()
    newer = project / "versions" / "2" / "app"
    newer.mkdir(parents=True)
    (newer / "disk.py").write_text("# a comment\n" + CODE)
    (excerpt,) = excerpts(Sources(project), [Place(SAVE, 7, "here")])
    assert excerpt.file == "versions/2/app/disk.py"


def test_a_file_in_java_is_shown_at_the_line_that_the_run_showed(project: Path) -> None:
    (project / "org" / "app").mkdir(parents=True)
    (project / "org" / "app" / "Disk.java").write_text("class Disk {\n  void save() {\n    sync();\n  }\n}\n")
    (excerpt,) = excerpts(Sources(project), [Place("org.app.Disk:save#1", 3, "here")])
    assert excerpt.lines[2].text == "    sync();"
    assert excerpts(Sources(project), [Place("org.app.Disk:save#1", 0, "here")]) == ()
    assert excerpts(Sources(project), [Place("org.app.Disk:save#1", 99, "here")]) == ()


def test_the_bounds_of_a_window_in_java_are_shown_at_their_own_operations(project: Path) -> None:
    (project / "org" / "app").mkdir(parents=True)
    (project / "org" / "app" / "Disk.java").write_text("class Disk {\n  void save() {\n    sync();\n    move();\n  }\n}\n")
    opens, closes = (
        Bound(point(loc=f"org.app.Disk:save#{n}"), 2 + n, (f"org.app.Disk:save#{n}", f"org.app.Store:put#{n}")) for n in (1, 2)
    )
    plan = Plan((Step(At(closes.point), Crash()),))
    found = Finding("F1", "lost", "lost", plan, (1,), (), (), window=Window(closes.point, opens, closes))
    (excerpt,) = excerpts_of(Sources(project), found, None, Columns.of(()))
    assert marked(excerpt) == {3: "the window opens here", 4: "the window closes here"}


def test_the_script_of_a_node_is_found_by_its_command(project: Path) -> None:
    script = project / "node.py"
    script.write_text("def main():\n    print(1)\n")
    place = Place("__main__:main#0", 2, "here")
    assert excerpts(Sources(project), [place]) == ()
    (excerpt,) = excerpts(Sources(project, {"server": ["python3", "node.py"]}), [place])
    assert (excerpt.file, marked(excerpt)) == ("node.py", {2: "here"})


def test_each_role_has_its_own_script(project: Path) -> None:
    (project / "first.py").write_text("def main():\n    print(1)\n")
    (project / "second.py").write_text("def main():\n    print(2)\n")
    sources = Sources(project, {"first": ["first.py"], "second": ["second.py"]})
    (excerpt,) = excerpts(sources, [Place("__main__:main#0", 0, "here", "second")])
    assert (excerpt.file, excerpt.lines[1].text) == ("second.py", "    print(2)")
    assert excerpts(sources, [Place("__main__:main#0", 0, "here", "third")]) == ()


def test_a_form_feed_ends_no_line(project: Path) -> None:
    (project / "app" / "disk.py").write_text("\f\n" + CODE)
    (excerpt,) = excerpts(Sources(project), [Place(REPLACE, 0, "here")])
    assert [line.text.strip() for line in excerpt.lines if line.mark] == ["os.replace(path, path)"]


def test_files_that_cannot_be_read_or_parsed_are_left_out(project: Path) -> None:
    (project / "app" / "disk.py").write_text("def save(:\n")
    assert excerpts(Sources(project), [Place(SAVE, 6, "here")]) == ()
    (project / "app" / "disk.py").unlink()
    (project / "app" / "disk.py").symlink_to("/dev/zero")
    assert excerpts(Sources(project), [Place(SAVE, 6, "here")]) == ()
    assert excerpts(Sources(project / "nowhere"), [Place(SAVE, 6, "here")]) == ()
    assert excerpts(Sources(None), [Place(SAVE, 6, "here"), Place("", 0, "here")]) == ()


def test_lines_are_cut_and_cleaned(project: Path) -> None:
    (project / "app" / "disk.py").write_text(CODE.replace("print(path)", f"print(path)  # \x1b[31m{'x' * 5000}"))
    (excerpt,) = excerpts(Sources(project), [Place(PRINT, 10, "here")])
    assert len(excerpt.lines[-1].text) < 300
    assert "\x1b" not in excerpt.lines[-1].text
