"""`undermine hunt --changed-since`: asks git which functions of the project changed. Never starts a run."""

from __future__ import annotations

from pathlib import Path

from undermine.config.schema import Config
from undermine.exchange.git import ask
from undermine.model.errors import UserError
from undermine.program.repository.changes import Changed, changed_functions, changed_lines
from undermine.program.repository.files import SUFFIXES, Repository, dotted_name, script_in, source_text

_PLAIN = ("--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "--src-prefix=a/", "--dst-prefix=b/")


def changed_since(config: Config, ref: str) -> Changed:
    """The functions that changed since the project's branch left `ref`, with those that are not committed yet."""
    top = ask(config.project, "rev-parse", "--show-toplevel")
    if not top.ok:
        raise UserError(f"--changed-since needs a git checkout, and {config.project} is none: {top.complaint}")
    root = top.out.removesuffix("\n")
    commit = ask(root, "rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}")
    if not commit.ok:
        hint = "name a branch or a commit, and fetch it first if this clone is shallow"
        raise UserError(f"--changed-since {ref!r}: git does not know this commit; {hint}")
    base = ask(root, "merge-base", commit.out.strip(), "HEAD")
    begin = base.out.strip() if base.ok else commit.out.strip()  # a shallow clone may not have the merge base
    sources = [f"*{suffix}" for suffix in SUFFIXES]
    diff = ask(root, "-c", "core.quotePath=false", "diff", "--unified=0", *_PLAIN, begin, "--", *sources)
    new = ask(root, "ls-files", "-z", "--others", "--exclude-standard", "--", *sources)
    if not (diff.ok and new.ok):
        raise UserError(f"--changed-since {ref!r}: git cannot compare the files: {diff.complaint or new.complaint}")
    names = [name for name in new.out.split("\0") if name]
    functions = changed_functions(changed_lines(diff.out), names, lambda name: source_text(Path(root, name)))
    return Changed(functions, _scripts(config), ref)


def script_of(config: Config, role: str) -> Path | None:
    """The file that the nodes of a role run as a Python script."""
    return script_in(config.roles[role].command, Path(config.project)) if role in config.roles else None


def _scripts(config: Config) -> dict[str, str]:
    """By role: the dotted path of its script in the repository."""
    repository = Repository(Path(config.project))
    found = {role: script_of(config, role) for role in config.roles}
    names = {role: repository.name_of(path) for role, path in found.items() if path}
    return {role: dotted_name(Path(name)) for role, name in names.items() if name}
