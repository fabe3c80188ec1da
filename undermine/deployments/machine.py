"""Finds out which abilities this machine offers to the tool, by trying them. Leaves nothing behind."""

from __future__ import annotations

import os
import sys

import msgspec

from undermine.deployments import cgroups
from undermine.deployments.isolation import choose
from undermine.deployments.slow import disk as slow_disk
from undermine.deployments.slow import network as slow_network
from undermine.resources import c_compiler


class Ability(msgspec.Struct, frozen=True):
    """Something that the tool can use, whether this machine has it, and its purpose or why it is missing."""

    name: str
    there: bool
    detail: str


def abilities() -> list[Ability]:
    root = os.geteuid() == 0
    possible = choose("auto")
    apart = possible.mode == "namespaces"
    no_cgroups = cgroups.missing()
    no_slow_disk = slow_disk.missing()
    no_slow_network = slow_network.missing("a namespace" if apart else "")
    compiler = c_compiler()
    return [
        Ability(
            "root",
            root,
            "namespaces and cgroups are possible" if root else "nodes share the loopback; ports keep them apart",
        ),
        Ability("namespaces", apart, "each node has its own network" if apart else possible.why),
        Ability("nftables", bool(possible.nft), possible.nft or _without_nft(apart, possible.why)),
        Ability("cgroups", not no_cgroups, no_cgroups or "a node is killed and frozen as a whole"),
        Ability("slow disks", not no_slow_disk, no_slow_disk or "a node's disk can be made slow"),
        Ability("slow networks", not no_slow_network, no_slow_network or "a node's network can be made slow"),
        Ability("compiler", bool(compiler), compiler or "not installed; the agents' accelerators and `run.speed` need one"),
        Ability("cores", True, str(os.cpu_count() or 1)),
        Ability("python", True, sys.version.split()[0]),
    ]


def _without_nft(apart: bool, why: str) -> str:
    return why if apart else "partitions at the network need namespaces"
