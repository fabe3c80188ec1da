"""The command `undermine init`: copies a template to a new folder. The templates are files, in the folder `templates`."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated

import typer

from undermine.cli.options import (
    JsonOption,
    print_json,
)
from undermine.config.schema import FILE_NAME
from undermine.model.errors import UserError
from undermine.resources import templates_dir

BLANK = "blank"
"""The template that is used if the user names none."""


def init(
    folder: Annotated[Path, typer.Argument(help="Folder to write the files to.")] = Path("."),
    template: Annotated[
        str,
        typer.Option("--template", "-t", metavar="NAME", help="Start from a pack for a kind of system; `list` lists them."),
    ] = BLANK,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")] = False,
    json: JsonOption = False,
) -> int:
    """Write undermine.toml and hunt.py, two commented files to start from.

    With `--template`, the files describe a whole system that runs as it is. Put your own system in its place.

    Examples:

    - `undermine init my-system`
    - `undermine init my-queue --template redis-queue`
    - `undermine init --template list`
    """
    if template == "list":
        print_json(titles()) if json else typer.echo(template_list())
        return 0
    written = write(folder, template, force=force)
    if json:
        print_json({"written": [str(path) for path in written]})
    else:
        for path in written:
            typer.echo(f"wrote {path}")
        typer.echo(_next(folder, template))
    return 0


def _next(folder: Path, template: str) -> str:
    if template == BLANK:
        return f"next: set the command in {folder / FILE_NAME}, then run `undermine check -c {folder}`"
    setup = tomllib.loads((templates_dir() / template / FILE_NAME).read_text(encoding="utf-8"))["campaign"].get("setup")
    first = f"run `{setup}` in {folder}, then" if setup else "run"
    return f"next: {first} `undermine check -c {folder}` to see it work, then put your own system where the files say ADAPT"


def titles() -> dict[str, str]:
    """The templates by name, each with the first line of its undermine.toml."""
    files = sorted(templates_dir().glob(f"*/{FILE_NAME}"))
    return {file.parent.name: file.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ") for file in files}


def template_list() -> str:
    """One line for each template."""
    found = titles()
    width = max(map(len, found))
    return "\n".join(f"  {name:<{width}}  {title}" for name, title in found.items())


def write(dir: Path, template: str = BLANK, force: bool = False) -> list[Path]:
    """Copy the files of a template and return their paths. Writes nothing if one exists, unless `force` is set."""
    if template not in titles():
        raise UserError(f"there is no template {template!r}; choose one of these:\n{template_list()}")
    source = templates_dir() / template
    names = sorted((path.name for path in source.iterdir() if path.is_file()), key=lambda name: (name != FILE_NAME, name))
    paths = {dir / name: (source / name).read_text(encoding="utf-8") for name in names}
    there = [str(path) for path in paths if path.exists() or path.is_symlink()]
    if there and not force:
        verb, them = ("exists", "it") if len(there) == 1 else ("exist", "them")
        raise UserError(f"{' and '.join(there)} {verb} already; move {them} away, or use --force to overwrite {them}")
    try:
        dir.mkdir(parents=True, exist_ok=True)
        for path, text in paths.items():
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{error.filename or dir} cannot be written: {error.strerror}") from None
    return list(paths)
