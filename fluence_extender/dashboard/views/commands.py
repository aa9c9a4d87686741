"""The commands that say on a terminal what a page says. Each can be pasted into a shell, whatever the names are."""

from __future__ import annotations

from shlex import quote

PROGRAM = "kubectl fluence"


def why(namespace: str, name: str) -> str:
    """Return the command that explains a gang."""
    return f"{PROGRAM} why {quote(name)} -n {quote(namespace)}"


def jobs(namespace: str = "") -> str:
    """Return the command that lists gangs."""
    return f"{PROGRAM} jobs {_in(namespace)}"


def line(queue: str = "", namespace: str = "") -> str:
    """Return the command that lists the gangs in line."""
    return " ".join(filter(None, (PROGRAM, "queue show", quote(queue) if queue else "", _in(namespace))))


def queues() -> str:
    """Return the command that lists the queues."""
    return f"{PROGRAM} queue"


def nodes() -> str:
    """Return the command that lists the nodes."""
    return f"{PROGRAM} top"


def tree() -> str:
    """Return the command that draws the cluster."""
    return f"{PROGRAM} graph"


def devices() -> str:
    """Return the command that lists the devices."""
    return f"{PROGRAM} backends"


def usage(by: str, since: str = "", namespace: str = "") -> str:
    """Return the command that says who used how much."""
    parts = (PROGRAM, "usage --by", quote(by), f"--since {quote(since)}" if since else "")
    return " ".join(filter(None, (*parts, f"-n {quote(namespace)}" if namespace else "")))


def simulate(namespace: str = "") -> str:
    """Return the command that asks whether manifests would fit."""
    return f"{PROGRAM} simulate -f FILE" + (f" -n {quote(namespace)}" if namespace else "")


def node(name: str) -> str:
    """Return the command that shows a node's own object."""
    return f"kubectl describe node {quote(name)}"


def pod(namespace: str, name: str) -> str:
    """Return the command that shows a pod's own object and its Events."""
    return f"kubectl describe pod {quote(name)} -n {quote(namespace)}"


def _in(namespace: str) -> str:
    return f"-n {quote(namespace)}" if namespace else "-A"
