"""Random small clusters, each with a mixed gang, and a solver that decides exactly whether the gang can be placed.

Half of the clusters are built around a placement, so that they are nearly or completely full with the gang in them.
These are the hard ones.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from ortools.sat.python import cp_model

from fluence_extender.graph.catalogue import DeviceCatalogue, eligible
from fluence_extender.model.assignment import Assignment
from fluence_extender.model.names import REQUIRE_PREFIX
from fluence_extender.model.node import Node
from fluence_extender.model.pod import HostPort, NodeTerm, Pod, Requirement
from fluence_extender.model.resources import Resources
from fluence_extender.model.taints import Taint, Toleration
from fluence_extender.placement.eligibility import refusal
from fluence_extender.room.holdings import ports_clash

GIB = 2**30
NAMES = ("cpu", "memory", "pods", "nvidia.com/gpu", "example.com/fpga")
SIZES = {"cpu": 1000, "memory": GIB}
PORTS: tuple[tuple[HostPort, ...], ...] = (
    (HostPort(80),),
    (HostPort(80, host_ip="10.0.0.1"),),
    (HostPort(81), HostPort(82)),
    (HostPort(82),),
)
DEVICES: tuple[Mapping[str, int], ...] = (
    {"lane": 1},
    {"lane": 2},
    {"chip": 1},
    {"qpu": 1},
    {"qpu": 1, "lane": 1},
)


@dataclass(frozen=True, slots=True)
class Scene:
    """One cluster and one gang."""

    nodes: tuple[Node, ...]
    resources: str
    pods: tuple[Pod, ...]


def scene(seed: int) -> Scene:
    """Make the scene with this number."""
    dice = random.Random(seed)
    nodes = [_node(dice, number) for number in range(dice.randint(2, 7))]
    kinds = [_kind(dice, nodes) for _ in range(dice.randint(2, 6))]
    with_devices = dice.random() < 0.4
    if with_devices:
        kinds = [replace(one, **_devices(dice)) if dice.random() < 0.6 else one for one in kinds]
    members = [dice.choice(kinds) for _ in range(dice.randint(2, 14))]
    if dice.random() < 0.7:
        nodes, members = _planted(dice, nodes, members)
        if dice.random() < 0.35:
            members.append(dice.choice(kinds))
    else:
        nodes = [replace(one, allocatable=_amounts(dice, 4 * len(members))) for one in nodes]
    pods = [replace(one, name=f"p{number}", uid=f"u{number}") for number, one in enumerate(members)]
    return Scene(tuple(nodes), _resources(dice, nodes) if with_devices else "", tuple(pods))


def _node(dice: random.Random, number: int) -> Node:
    labels = {"size": str(dice.randint(1, 3)), "disk": dice.choice(("ssd", "hdd"))}
    taints = (Taint("batch", "NoSchedule", "x"),) if dice.random() < 0.2 else ()
    return Node(f"n{number}", labels=labels, taints=taints)


def _kind(dice: random.Random, nodes: Sequence[Node]) -> Pod:
    amounts = {
        "cpu": dice.randint(0, 6) * 1000,
        "memory": dice.randint(0, 6) * GIB,
        "pods": 1,
        "nvidia.com/gpu": dice.choice((0, 0, 0, 1, 2)),
        "example.com/fpga": dice.choice((0, 0, 0, 0, 1)),
    }
    return Pod(
        "default",
        "kind",
        "kind",
        requests=Resources(amounts),
        tolerations=(Toleration("batch", "Exists"),) if dice.random() < 0.6 else (),
        node_selector={"disk": "ssd"} if dice.random() < 0.2 else {},
        affinity=_affinity(dice, nodes) if dice.random() < 0.35 else None,
        host_ports=dice.choice(PORTS) if dice.random() < 0.2 else (),
    )


def _affinity(dice: random.Random, nodes: Sequence[Node]) -> tuple[NodeTerm, ...]:
    requirement = dice.choice(
        (
            Requirement("size", "In", ("1", "2")),
            Requirement("size", "NotIn", ("3",)),
            Requirement("size", "Gt", ("1",)),
            Requirement("size", "Lt", ("3",)),
            Requirement("disk", "Exists"),
            Requirement("gone", "DoesNotExist"),
        )
    )
    named = Requirement("metadata.name", dice.choice(("In", "NotIn")), (dice.choice(nodes).name,))
    terms = (NodeTerm((requirement,)), NodeTerm((), (named,)), NodeTerm((requirement,), (named,)))
    return tuple(dice.sample(terms, dice.randint(1, 2)))


def _devices(dice: random.Random) -> dict[str, Any]:
    wanted = dict(dice.choice(DEVICES))
    vendor = {f"{REQUIRE_PREFIX}vendor": dice.choice(("a", "b"))} if dice.random() < 0.4 else {}
    return {"devices": wanted, "annotations": vendor}


def _amounts(dice: random.Random, most: int) -> Resources:
    amounts = {name: dice.randint(0, most) * SIZES.get(name, 1) for name in ("cpu", "memory")}
    return Resources(
        {
            **amounts,
            "pods": dice.randint(1, 6),
            "nvidia.com/gpu": dice.choice((0, 2, 4)),
            "example.com/fpga": dice.choice((0, 1)),
        }
    )


def _planted(dice: random.Random, nodes: list[Node], members: list[Pod]) -> tuple[list[Node], list[Pod]]:
    """Make nodes that are as large as some placement needs, or a little larger; leave out members without a node."""
    used: dict[str, Resources] = {one.name: Resources() for one in nodes}
    ports: dict[str, tuple[HostPort, ...]] = {one.name: () for one in nodes}
    kept = []
    for pod in members:
        fitting = [
            one
            for one in nodes
            if refusal(pod, one) is None and not ports_clash(pod.host_ports, ports[one.name])
        ]
        if fitting:
            name = dice.choice(fitting).name
            used[name] += pod.requests
            ports[name] += pod.host_ports
            kept.append(pod)
    slack = dice.choice((0, 0, 1, 2))
    grown = {
        one.name: Resources(
            {name: used[one.name][name] + dice.randint(0, slack) * SIZES.get(name, 1) for name in NAMES}
        )
        for one in nodes
    }
    return [replace(one, allocatable=grown[one.name]) for one in nodes], kept or members


def _resources(dice: random.Random, nodes: Sequence[Node]) -> str:
    lines = ["resources:"]
    for number, node in enumerate(nodes):
        for copy in range(dice.choice((0, 1, 1, 2))):
            vendor = dice.choice(("a", "b"))
            lines.append(
                f"  - {{type: chip, name: chip{number}x{copy}, parent: {node.name}, attributes: {{vendor: {vendor}}},"
                f" with: [{{type: lane, count: {dice.randint(1, 3)}}}]}}"
            )
    for number in range(dice.randint(1, 3)):
        vendor = dice.choice(("a", "b"))
        lines.append(
            f"  - {{type: box, name: box{number}, attributes: {{vendor: {vendor}}}, with: [{{type: qpu, "
            f"attributes: {{vendor: {vendor}}}, count: {dice.randint(1, 2)}, with: [{{type: lane, count: 2}}]}}]}}"
        )
    return "\n".join(lines)


# The solver.


def can_be_placed(one: Scene, catalogue: DeviceCatalogue) -> bool:
    """Return whether CP-SAT finds any placement of the gang."""
    model = cp_model.CpModel()
    there = {
        (pod.uid, node.name): model.new_bool_var("")
        for pod in one.pods
        for node in one.nodes
        if refusal(pod, node) is None
    }
    for pod in one.pods:
        model.add_exactly_one(
            there[pod.uid, node.name] for node in one.nodes if (pod.uid, node.name) in there
        )
    for node in one.nodes:
        here = [pod for pod in one.pods if (pod.uid, node.name) in there]
        for name in NAMES:
            used = sum(pod.requests[name] * there[pod.uid, node.name] for pod in here)
            model.add(used <= node.allocatable[name])
        for pod, other in combinations(here, 2):
            if ports_clash(pod.host_ports, other.host_ports):
                model.add_at_most_one(there[pod.uid, node.name], there[other.uid, node.name])
    _limit_devices(model, one, catalogue, there)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    answer = solver.solve(model)
    assert answer in (cp_model.OPTIMAL, cp_model.FEASIBLE, cp_model.INFEASIBLE), solver.status_name(answer)
    return bool(answer != cp_model.INFEASIBLE)


def _limit_devices(
    model: cp_model.CpModel,
    one: Scene,
    catalogue: DeviceCatalogue,
    there: Mapping[tuple[str, str], cp_model.IntVar],
) -> None:
    taken: dict[str, list[tuple[cp_model.IntVar, cp_model.IntVar]]] = {}
    for pod in one.pods:
        for kind, amount in pod.devices.items():
            shares = []
            for device in eligible(catalogue, kind, pod.requires):
                units, some = model.new_int_var(0, min(amount, device.count), ""), model.new_bool_var("")
                model.add(units == 0).only_enforce_if(some.negated())
                model.add(units > 0).only_enforce_if(some)
                shares.append(units)
                taken.setdefault(device.path, []).append((units, some))
                if device.node:
                    place = there.get((pod.uid, device.node))
                    model.add_implication(some, place) if place is not None else model.add(some == 0)
            model.add(sum(shares) == amount)
    for device in catalogue.devices:
        here = taken.get(device.path, [])
        model.add(sum(units for units, _ in here) <= device.count)
        parts = [
            some for path, uses in taken.items() if path.startswith(f"{device.path}/") for _, some in uses
        ]
        for part in parts:
            for _, some in here:
                model.add_at_most_one(part, some)


# The judge.


def faults(one: Scene, catalogue: DeviceCatalogue, placed: Sequence[Assignment]) -> list[str]:
    """Return what is wrong with a placement."""
    nodes = {node.name: node for node in one.nodes}
    by_node: dict[str, list[Pod]] = {}
    found = []
    for pod, assignment in zip(one.pods, placed, strict=True):
        by_node.setdefault(assignment.node, []).append(pod)
        if refusal(pod, nodes[assignment.node]) is not None:
            found.append(f"{pod.name} may not run on {assignment.node}")
        got: Counter[str] = Counter()
        for share in assignment.devices:
            got[share.type] += share.amount
        if got != Counter(pod.devices):
            found.append(f"{pod.name} has {dict(got)}")
    for name, pods in by_node.items():
        if not Resources.total(pod.requests for pod in pods).fits(nodes[name].allocatable):
            found.append(f"{name} is overfull")
        if any(ports_clash(pod.host_ports, other.host_ports) for pod, other in combinations(pods, 2)):
            found.append(f"{name} has a port twice")
    return found + _device_faults(catalogue, placed)


def _device_faults(catalogue: DeviceCatalogue, placed: Sequence[Assignment]) -> list[str]:
    found = []
    used: Counter[str] = Counter()
    for assignment in placed:
        for share in assignment.devices:
            used[share.path] += share.amount
            device = catalogue.at(share.path)
            if device is None or device.node not in ("", assignment.node):
                found.append(f"{assignment.uid} on {assignment.node} has {share.path}")
    for device in catalogue.devices:
        inside = any(path.startswith(f"{device.path}/") for path in used)
        if used[device.path] > device.count or (used[device.path] and inside):
            found.append(f"{device.path} is given twice")
    return found
