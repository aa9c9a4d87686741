"""``kubectl fluence top``: which nodes are full, which gangs hold the most."""

from __future__ import annotations

from collections.abc import Sequence

from fluence_extender.apps.kubectl.errors import UsageError
from fluence_extender.apps.kubectl.figures import amount, bar
from fluence_extender.apps.kubectl.question import read_question
from fluence_extender.apps.kubectl.service import Item, Service, namespace_of
from fluence_extender.apps.kubectl.tables import Column, answer

OF = ("nodes", "jobs")


def top(words: Sequence[str]) -> int:
    """``kubectl fluence top [nodes|jobs]``."""
    question = read_question("top", words, most=1)
    if question is None:
        return 0
    of = question.words[0] if question.words else "nodes"
    if of not in OF:
        raise UsageError(f'top shows {" or ".join(OF)}, not "{of}"')
    service = Service(question)
    if of == "nodes":
        nodes = service.items("/v1/nodes")
        nodes.sort(key=lambda node: (-_share(node), node["name"]))
        answer(question, "node", nodes, NODES, "the cluster has no nodes")
        return 0
    namespace = namespace_of(question)
    held = gangs(service.items("/v1/allocations", namespace=namespace))
    none = f"nothing is held in namespace {namespace}" if namespace else "nothing is held"
    answer(question, "gang", held, JOBS[1:] if namespace else JOBS, none)
    return 0


def gangs(allocations: Sequence[Item]) -> list[Item]:
    """What each gang holds in all, the largest first."""
    rows: dict[tuple[str, str], Item] = {}
    for one in allocations:
        row = rows.setdefault(
            (one["namespace"], one["gang"]),
            {"namespace": one["namespace"], "name": one["gang"], "pods": 0, "core": 0, "memory": 0, "gpu": 0}
            | {"devices": {}, "nodes": []},
        )
        row["pods"] += 1
        for name in ("core", "memory", "gpu"):
            row[name] += one[name]
        for kind, count in one["devices"].items():
            row["devices"][kind] = row["devices"].get(kind, 0) + count
        if one["node"] not in row["nodes"]:
            row["nodes"].append(one["node"])
    return sorted(
        rows.values(),
        key=lambda row: (-row["gpu"], -row["core"], -row["memory"], row["namespace"], row["name"]),
    )


def _share(node: Item) -> float:
    """How much of a node is used, by whom soever, between 0 and 1."""
    have = node["allocatable"].get("cpu", 0)
    return 1 - node["free"].get("cpu", 0) / have if have else 0.0


def _used(name: str) -> Column:
    def cell(node: Item) -> str:
        have = node["allocatable"].get(name, 0)
        held, others = node["held"].get(name, 0), node["others"].get(name, 0)
        return f"{amount(name, held + others)}/{amount(name, have)}" if have else ""

    return Column(name.rpartition("/")[2].upper(), cell)


NODES = (
    Column("NODE", lambda node: str(node["name"])),
    Column(
        "CPU: # OURS + OTHERS",
        lambda node: bar(
            node["allocatable"].get("cpu", 0), node["held"].get("cpu", 0), node["others"].get("cpu", 0)
        ),
    ),
    _used("cpu"),
    _used("memory"),
    _used("nvidia.com/gpu"),
    _used("pods"),
    Column("LEVELS", lambda node: ",".join(f"{k}={v}" for k, v in node["levels"].items()), wide=True),
    Column("PROBLEM", lambda node: "; ".join(node["problems"])),
)
JOBS = (
    Column("NAMESPACE", lambda row: str(row["namespace"])),
    Column("NAME", lambda row: str(row["name"])),
    Column("PODS", lambda row: str(row["pods"])),
    Column("CPU", lambda row: amount("cpu", row["core"])),
    Column("MEMORY", lambda row: amount("memory", row["memory"])),
    Column("GPU", lambda row: str(row["gpu"] or "")),
    Column("DEVICES", lambda row: ", ".join(f"{count} {kind}" for kind, count in row["devices"].items())),
    Column("NODES", lambda row: str(len(row["nodes"]))),
)
