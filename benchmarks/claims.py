"""Measure the planning of gangs that claim devices, beside the same gangs on plain ``nvidia.com/gpu``.

Every node has eight devices of one model, an eighth of the nodes those of a model that nobody asks for. Each plan is
withdrawn, so that all plans start from the same cluster. The first plan with new claims evaluates their expressions on
every device; later ones only look at nodes that have changed.

    python -m benchmarks.claims [--nodes 5000] [--rounds 20]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from benchmarks.placement import GIB, RACK, ZONE
from fluence_extender.apps.extender.engines import choose_engine, matcher_setup
from fluence_extender.devices.book import DeviceBook
from fluence_extender.ledger.ledger import Ledger
from fluence_extender.model.claims import Choice, ClaimSpec, DeviceRequest
from fluence_extender.model.devices import DeviceClass, NodeDevice, ResourceClaimTemplate, ResourceSlice
from fluence_extender.model.names import GATE
from fluence_extender.model.node import Node
from fluence_extender.model.pod import ClaimRef, Pod
from fluence_extender.model.resources import Resources
from fluence_extender.placement.demand import Demand
from fluence_extender.placement.eligibility import EligibilityIndex
from fluence_extender.placement.plan import Planner

DRIVER, GPU = "gpu.example.com", "nvidia.com/gpu"
MODELS = ("a100", "h100")
DEVICES = 8
CASES = (("8 pods of 1", 8, 1), ("64 pods of 1", 64, 1), ("64 pods of 8", 64, 8), ("512 pods of 4", 512, 4))


@dataclass(frozen=True, slots=True)
class Side:
    """A cluster, and how its pods ask for devices."""

    planner: Planner
    ledger: Ledger
    pod: Callable[[str, int], Pod]


def plain(nodes: int) -> Side:
    """Make a cluster of which a device plugin counts the devices."""
    made = [node(number, {GPU: DEVICES}) for number in range(nodes)]
    return Side(*_planner(made), lambda name, count: pod(name, {GPU: count}))


def claiming(nodes: int) -> Side:
    """Make a cluster with slices of devices, and pods with claims for some of one model."""
    book = DeviceBook()
    book.put(DeviceClass("gpus", (f'device.driver == "{DRIVER}"',)))
    wanted = f'device.attributes["{DRIVER}"].model == "{MODELS[1]}"'
    for count in {count for _, _, count in CASES}:
        spec = ClaimSpec((DeviceRequest("gpu", (Choice("gpus", (wanted,), count),)),))
        book.put(ResourceClaimTemplate("default", f"of-{count}", spec))
    for number in range(nodes):
        book.put(_slice(f"n{number}", MODELS[number % 8 > 0]))
    made = [book.node(node(number, {})) for number in range(nodes)]

    def make(name: str, count: int) -> Pod:
        refs = (ClaimRef("gpu", template=f"of-{count}"),)
        return book.pod(replace(pod(name, {}), claim_refs=refs, interdependent=True))

    return Side(*_planner(made), make)


def node(number: int, devices: dict[str, int]) -> Node:
    """Make a node with cores and memory for its devices."""
    amounts = Resources({"cpu": 64_000, "memory": 256 * GIB, "pods": 110, **devices})
    labels = {ZONE: f"z{number // 400}", RACK: f"r{number // 40 % 10}"}
    return Node(f"n{number}", labels=labels, allocatable=amounts)


def pod(name: str, devices: dict[str, int]) -> Pod:
    """Make a pod with four cores."""
    requests = Resources({"cpu": 4000, "memory": 8 * GIB, "pods": 1, **devices})
    return Pod("default", name, name, requests=requests, gates=(GATE,))


def _slice(name: str, model: str) -> ResourceSlice:
    devices = tuple(
        NodeDevice(
            DRIVER,
            name,
            f"gpu-{number}",
            {f"{DRIVER}/model": model, f"{DRIVER}/numa": number // 4, f"{DRIVER}/uuid": f"{name}-{number}"},
        )
        for number in range(DEVICES)
    )
    return ResourceSlice(f"{name}-gpus", DRIVER, name, node=name, devices=devices)


def _planner(nodes: Sequence[Node]) -> tuple[Planner, Ledger]:
    ledger = Ledger(matcher_setup(choose_engine("embedded"), "lonode", {"zone": ZONE, "rack": RACK}))
    index = EligibilityIndex()
    for one in nodes:
        index.put(one)
    ledger.load(nodes)
    return Planner(ledger, index), ledger


def cost(side: Side, members: int, count: int, rounds: int) -> list[float]:
    """Return the milliseconds of CPU time of each plan, without undoing it."""
    demands = [Demand(side.pod(f"p{number}", count)) for number in range(members)]
    spent = []
    for _ in range(rounds):
        began = time.process_time()
        side.planner.plan(demands, "gang")
        spent.append((time.process_time() - began) * 1000)
        side.ledger.undo([demand.pod.uid for demand in demands])
    return spent


def main() -> None:
    """Measure and print a table in Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    sides = plain(given.nodes), claiming(given.nodes)
    print("| gang | plain: median (first) ms | claims: median (first) ms | ratio of medians |")
    print("|---|---:|---:|---:|")
    for name, members, count in CASES:
        found = [cost(side, members, count, given.rounds) for side in sides]
        medians = [statistics.median(one[1:]) for one in found]
        cells = " | ".join(f"{median:.1f} ({one[0]:.1f})" for median, one in zip(medians, found, strict=True))
        print(f"| {name} | {cells} | {medians[1] / medians[0]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
