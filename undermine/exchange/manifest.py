"""The manifest of a bundle: its finding, the circumstances in which it was found, and the differences to this machine."""

from __future__ import annotations

import platform
from collections.abc import Mapping

import msgspec

import undermine
from undermine.config.schema import Param
from undermine.model.finding import Finding, Landing
from undermine.model.run import RunView

FORMAT = 1
SUFFIX = ".undermine"
MANIFEST = "manifest.json"
PROJECT = "project"
EVIDENCE = "evidence"


class Manifest(msgspec.Struct, frozen=True):
    """The finding of a bundle, and the circumstances in which it was found."""

    format: int
    undermine: str
    finding: Finding
    config: str
    """The name of the configuration below `project/`."""
    params: dict[str, Param] = {}
    isolation: str = ""
    platform: str = ""
    python: str = ""
    """The Python version of the tool, and of nodes whose command begins with {python}."""
    agents: dict[str, str] = {}
    """The runtime of each node that loaded an agent."""
    fingerprint: str = ""
    commit: str = ""
    """The git commit of the project, with a + if some changes were not committed."""
    commands: dict[str, tuple[str, ...]] = {}
    run: int = 0
    landed: tuple[Landing, ...] = ()
    """Where the steps of its plan fired in that run."""
    left_out: tuple[str, ...] = ()


def here() -> str:
    """`Linux x86_64`"""
    return f"{platform.system()} {platform.machine()}"


def differences(manifest: Manifest, isolation: str) -> list[str]:
    """The differences between this machine and the one of the finding, a phrase each."""
    pairs = (
        ("undermine", manifest.undermine, undermine.__version__),
        ("Python", manifest.python, platform.python_version()),
        ("the platform", manifest.platform, here()),
    )
    found = [f"{what} was {old} there and is {new} here" for what, old, new in pairs if old and old != new]
    if manifest.isolation and manifest.isolation != isolation:
        found.append(f"nodes were isolated by {manifest.isolation} there and are isolated by {isolation} here")
    return found


def runtimes(run: RunView) -> dict[str, str]:
    """The runtime of each node's agent."""
    return {agent.node: agent.runtime for agent in run.agents}


def other_runtimes(manifest: Manifest, now: Mapping[str, str]) -> list[str]:
    """The nodes whose agents have another runtime here, a phrase each."""
    found = []
    for node, old in manifest.agents.items():
        new = now.get(node, "")
        if not new:
            found.append(f"the agent of {node} ran in {old} there and did not load here")
        elif new != old:
            found.append(f"the agent of {node} ran in {old} there and runs in {new} here")
    return found


def param_texts(params: Mapping[str, Param]) -> dict[str, str]:
    """Parameters as texts, as `--set` takes them."""
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in params.items()}
