"""``kubectl fluence top``: list the nodes, the fullest first, or the gangs, the largest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from fluence_extender.apps.kubectl.figures import amount, bar
from fluence_extender.apps.kubectl.options import (
    StateApiCommand,
    all_namespaces_option,
    namespace_option,
    no_headers_option,
    output_option,
)
from fluence_extender.apps.kubectl.tables import FORMS, TableColumn, print_items

if TYPE_CHECKING:
    from fluence_extender.apps.kubectl.state_api import Item, StateApiClient


@click.command(cls=StateApiCommand)
@click.argument("what", type=click.Choice(["nodes", "jobs"]), default="nodes")
@output_option(*FORMS)
@namespace_option
@all_namespaces_option
@no_headers_option
@click.pass_obj
def top(
    client: StateApiClient,
    what: str,
    output: str | None,
    namespace: str,
    all_namespaces: bool,
    no_headers: bool,
) -> None:
    """List the nodes, the fullest first, or the gangs, those that hold the most first."""
    if what == "nodes":
        nodes = client.items("/v1/nodes")
        nodes.sort(key=lambda node: (-_used_share(node), node["name"]))
        print_items("node", nodes, NODES, output, not no_headers, none="the cluster has no nodes")
        return
    namespace = client.namespace(namespace, all_namespaces)
    held = gangs(client.items("/v1/allocations", namespace=namespace))
    none = f"nothing is held in namespace {namespace}" if namespace else "nothing is held"
    print_items("gang", held, JOBS[1:] if namespace else JOBS, output, not no_headers, none)


def gangs(allocations: Sequence[Item]) -> list[Item]:
    """Return what each gang holds in total, the largest gang first."""
    rows: dict[tuple[str, str], Item] = {}
    for one in allocations:
        row = rows.setdefault(
            (one["namespace"], one["gang"]),
            {"namespace": one["namespace"], "name": one["gang"], "pods": 0, "core": 0, "memory": 0, "gpu": 0}
            | {"devices": {}, "claimed": [], "nodes": []},
        )
        row["pods"] += 1
        for name in ("core", "memory", "gpu"):
            row[name] += one[name]
        for kind, count in one["devices"].items():
            row["devices"][kind] = row["devices"].get(kind, 0) + count
        row["claimed"] += one.get("claimed", [])
        if one["node"] not in row["nodes"]:
            row["nodes"].append(one["node"])
    return sorted(
        rows.values(),
        key=lambda row: (-row["gpu"], -row["core"], -row["memory"], row["namespace"], row["name"]),
    )


def _used_share(node: Item) -> float:
    """Return the share of a node's cpu that pods use, gangs and others, between 0 and 1."""
    have = node["allocatable"].get("cpu", 0)
    return 1 - node["free"].get("cpu", 0) / have if have else 0.0


def _used(name: str) -> TableColumn:
    def cell(node: Item) -> str:
        have = node["allocatable"].get(name, 0)
        held, others = node["held"].get(name, 0), node["others"].get(name, 0)
        return f"{amount(name, held + others)}/{amount(name, have)}" if have else ""

    return TableColumn(name.rpartition("/")[2].upper(), cell)


NODES = (
    TableColumn("NODE", lambda node: str(node["name"])),
    TableColumn(
        "CPU: # OURS + OTHERS",
        lambda node: bar(
            node["allocatable"].get("cpu", 0), node["held"].get("cpu", 0), node["others"].get("cpu", 0)
        ),
    ),
    _used("cpu"),
    _used("memory"),
    _used("nvidia.com/gpu"),
    _used("pods"),
    TableColumn("LEVELS", lambda node: ",".join(f"{k}={v}" for k, v in node["levels"].items()), wide=True),
    TableColumn("PROBLEM", lambda node: "; ".join(node["problems"])),
)
JOBS = (
    TableColumn("NAMESPACE", lambda row: str(row["namespace"])),
    TableColumn("NAME", lambda row: str(row["name"])),
    TableColumn("PODS", lambda row: str(row["pods"])),
    TableColumn("CPU", lambda row: amount("cpu", row["core"])),
    TableColumn("MEMORY", lambda row: amount("memory", row["memory"])),
    TableColumn("GPU", lambda row: str(row["gpu"] or "")),
    TableColumn(
        "DEVICES", lambda row: ", ".join(f"{count} {kind}" for kind, count in row["devices"].items())
    ),
    TableColumn("NODES", lambda row: str(len(row["nodes"]))),
    TableColumn("CLAIMED", lambda row: ",".join(row["claimed"]), wide=True),
)
