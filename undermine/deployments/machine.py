"""What this machine allows: asked, not assumed. Changes nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import msgspec


class Ability(msgspec.Struct, frozen=True):
    """Something the tool could use, whether it is there, and what it would be good for."""

    name: str
    there: bool
    detail: str


def abilities() -> list[Ability]:
    root = os.geteuid() == 0
    nft = shutil.which("nft") or shutil.which("nft", path="/usr/sbin:/sbin")
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    return [
        Ability(
            "root",
            root,
            "nodes can get namespaces of their own" if root else "nodes share the loopback; ports keep them apart",
        ),
        Ability("namespaces", _works("unshare", "--net", "true"), "network namespaces for nodes"),
        Ability("user namespaces", _works("unshare", "--user", "--pid", "--fork", "true"), "isolation without root"),
        Ability("nftables", bool(nft), nft or "not installed; partitions at the network need it"),
        Ability("compiler", bool(compiler), compiler or "not installed; the agent's accelerator needs one"),
        Ability("cores", True, str(os.cpu_count() or 1)),
        Ability("python", True, sys.version.split()[0]),
    ]


def _works(*argv: str) -> bool:
    try:
        return subprocess.run(argv, capture_output=True, timeout=10, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
