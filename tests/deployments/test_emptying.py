"""Making nodes forget what they have stored, and nothing else."""

from __future__ import annotations

from pathlib import Path

from undermine.deployments.local import empty_folder


def test_all_that_is_in_a_folder_goes_and_what_links_lead_to_stays(tmp_path: Path) -> None:
    folder, outside = tmp_path / "n1", tmp_path / "outside"
    for made in (folder / "deep" / "er", outside):
        made.mkdir(parents=True)
    for file in (folder / "log", folder / ".hidden", folder / "deep" / "er" / "log", outside / "kept"):
        file.write_text("x")
    (folder / "to-folder").symlink_to(outside)
    (folder / "to-file").symlink_to(outside / "kept")
    (folder / "deep" / "to-folder").symlink_to(outside)
    (folder / "to-nothing").symlink_to(tmp_path / "nothing")
    empty_folder(folder)
    assert folder.is_dir()
    assert list(folder.iterdir()) == []
    assert (outside / "kept").read_text() == "x"
