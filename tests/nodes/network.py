"""The rig's network: a bridge for the nodes, in a network namespace that is joined to nothing else.

The control plane is in the rig's namespace, at `CONTROL`. Each node has a namespace of its own with one link to the
bridge. Pods get addresses of their node's range and are reached through their node, as with any router; nothing is
masqueraded except by kube-proxy.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.nodes.programs import search_path

BRIDGE = "nodes"
CONTROL = "10.77.0.1"
DNS_SERVICE = "10.0.0.10"
"""Of the local control plane's range for Services."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a node, by its number from 1 on, is reached, and where its pods are."""

    number: int

    @property
    def host(self) -> str:
        """The node's address."""
        return f"10.77.0.{10 + self.number}"

    @property
    def pods(self) -> str:
        """The range of its pods."""
        return f"10.78.{self.number}.0/24"

    @property
    def link(self) -> str:
        """The bridge's end of its link."""
        return f"node{self.number}"


def run(*command: str) -> str:
    """Run a program of the system, and return what it prints. Raise `RuntimeError`, with what it said."""
    environ = {**os.environ, "PATH": search_path()}
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {ended.stderr.strip() or ended.returncode}")
    return ended.stdout


def set_up_bridge(addresses: Sequence[Address]) -> None:
    """Make the bridge in the namespace of this process, with routes to the pods of all nodes."""
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", BRIDGE, "type", "bridge")
    run("ip", "address", "add", f"{CONTROL}/24", "dev", BRIDGE)
    run("ip", "link", "set", BRIDGE, "up")
    for one in addresses:
        run("ip", "route", "add", one.pods, "via", one.host)


def join_node(name: str, own: Address, all_nodes: Sequence[Address]) -> None:
    """Make the network namespace ``name`` of a node and join it to the bridge; one of an earlier life goes first."""
    leave_node(name)
    run("ip", "netns", "add", name)
    run("ip", "link", "add", own.link, "type", "veth", "peer", "name", "eth0", "netns", name)
    run("ip", "link", "set", own.link, "master", BRIDGE, "up")
    inside = ("ip", "-netns", name)
    run(*inside, "link", "set", "lo", "up")
    run(*inside, "address", "add", f"{own.host}/24", "dev", "eth0")
    run(*inside, "link", "set", "eth0", "up")
    run(*inside, "route", "add", "default", "via", CONTROL)
    for other in all_nodes:
        if other != own:
            run(*inside, "route", "add", other.pods, "via", other.host)


def leave_node(name: str) -> None:
    """Remove a node's namespace with its link, if there is one."""
    if Path("/run/netns", name).exists():
        with suppress(RuntimeError):
            run("ip", "-netns", name, "link", "delete", "eth0")
        run("ip", "netns", "delete", name)
