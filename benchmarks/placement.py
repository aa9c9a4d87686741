"""Measure the planning of a gang on a large cluster: equal and mixed members, with and without topology.

The cluster is half full, in zones of ten racks of forty nodes. Each plan is withdrawn, so that all plans start from the
same cluster. The output has the median and the slowest plan, and for comparison the same plans on a fifth of the nodes.

    python -m benchmarks.placement [--nodes 5000] [--rounds 20]
"""

from __future__ import annotations

import argparse
import contextlib
import random
import statistics
import time
from collections.abc import Mapping
from dataclasses import replace

from fluence_extender.apps.extender.engines import choose_engine, matcher_setup
from fluence_extender.ledger.ledger import Ledger
from fluence_extender.model.names import TOPOLOGY_PREFERRED_ANNOTATION, TOPOLOGY_REQUIRED_ANNOTATION
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.model.resources import Resources
from fluence_extender.placement.demand import Demand
from fluence_extender.placement.eligibility import EligibilityIndex
from fluence_extender.placement.errors import GangRefused
from fluence_extender.placement.plan import Planner

GIB = 2**30
ZONE, RACK = "topology.kubernetes.io/zone", "topology.example.com/rack"
LEVELS = {"zone": ZONE, "rack": RACK}
A_RACK, A_ZONE = 40, 400
KINDS = ((4, 16, 0), (8, 8, 1), (2, 32, 0), (1, 1, 0), (16, 64, 2), (3, 5, 0), (6, 20, 1), (2, 2, 0))


def cluster(nodes: int, engine: str) -> tuple[Planner, Ledger]:
    """Make a planner on a cluster that is half full with pods of every size."""
    dice = random.Random(nodes)
    ledger = Ledger(matcher_setup(choose_engine(engine), "lonode", LEVELS))
    index = EligibilityIndex()
    amounts = Resources({"cpu": 64_000, "memory": 256 * GIB, "pods": 110, "nvidia.com/gpu": 8})
    made = [
        Node(
            f"n{number}",
            labels={ZONE: f"z{number // A_ZONE}", RACK: f"r{number // A_RACK % 10}"},
            allocatable=amounts,
        )
        for number in range(nodes)
    ]
    for one in made:
        index.put(one)
    ledger.load(made)
    for one in made:
        for number in range(dice.randint(0, 6)):
            mine = pod(f"f{number}-{one.name}", dice.choice(KINDS), {})
            other = replace(mine, node=one.name, scheduler="other")
            if ledger.accounts[one.name].takes(other.requests):
                ledger.put_foreign(other)
    return Planner(ledger, index), ledger


def pod(name: str, kind: tuple[int, int, int], notes: Mapping[str, str]) -> Pod:
    """Make a pod of ``kind``: cores, GiB, gpus."""
    cores, gib, gpus = kind
    requests = Resources({"cpu": cores * 1000, "memory": gib * GIB, "pods": 1, "nvidia.com/gpu": gpus})
    return Pod("default", name, name, annotations=notes, requests=requests)


def gang(members: int, kinds: int, notes: Mapping[str, str]) -> list[Demand]:
    """Make the demands of a gang whose members alternate between ``kinds`` kinds."""
    return [Demand(pod(f"p{number}", KINDS[number % kinds], notes)) for number in range(members)]


REQUIRED = {TOPOLOGY_REQUIRED_ANNOTATION: "rack"}
PREFERRED = {TOPOLOGY_PREFERRED_ANNOTATION: "rack"}
CASES: tuple[tuple[str, int, int, Mapping[str, str]], ...] = (
    ("one pod", 1, 1, {}),
    ("8 equal", 8, 1, {}),
    ("8 mixed (4 kinds)", 8, 4, {}),
    ("64 equal", 64, 1, {}),
    ("64 mixed (4 kinds)", 64, 4, {}),
    ("512 equal", 512, 1, {}),
    ("512 mixed (4 kinds)", 512, 4, {}),
    ("512 mixed (8 kinds)", 512, 8, {}),
    ("64 equal, rack required", 64, 1, REQUIRED),
    ("64 mixed (4 kinds), rack required", 64, 4, REQUIRED),
    ("512 equal, rack preferred", 512, 1, PREFERRED),
    ("4,096 equal, rack required: refused", 4096, 1, REQUIRED),
)


def cost(planner: Planner, ledger: Ledger, demands: list[Demand], rounds: int) -> list[float]:
    """Return the milliseconds of CPU time of each plan, without undoing it."""
    spent = []
    for _ in range(rounds):
        began = time.process_time()
        with contextlib.suppress(GangRefused):
            planner.plan(demands, "gang")
        spent.append((time.process_time() - began) * 1000)
        ledger.undo([demand.pod.uid for demand in demands])
    return spent


def main() -> None:
    """Measure and print a table in Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--engine", default="embedded")
    given = parser.parse_args()
    sizes = (given.nodes // 5, given.nodes)
    measured: dict[tuple[str, int], list[float]] = {}
    for nodes in sizes:
        planner, ledger = cluster(nodes, given.engine)
        for name, members, kinds, notes in CASES:
            demands = gang(members, kinds, notes)
            cost(planner, ledger, demands, 2)
            measured[name, nodes] = cost(planner, ledger, demands, given.rounds)
        ledger.close()
    print(f"| gang | {sizes[0]:,} nodes: median (slowest) ms | {sizes[1]:,} nodes: median (slowest) ms |")
    print("|---|---:|---:|")
    for name, *_ in CASES:
        shown = [measured[name, nodes] for nodes in sizes]
        cells = " | ".join(f"{statistics.median(one):.1f} ({max(one):.1f})" for one in shown)
        print(f"| {name} | {cells} |")


if __name__ == "__main__":
    main()
