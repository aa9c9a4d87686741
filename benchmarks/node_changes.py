"""Measure a change of a node: on the embedded engine by the size of the cluster, on libreapi_cli in stalls.

The first part measures the controller alone: how long it takes to process one change and to decide whether anything
follows from it. The changes of all sizes are made in turns in one process, so that other load on the machine affects
them alike; the times are CPU times of the process. The second part makes a storm of changes on a service with
libreapi_cli whose event loop also answers filter calls: how long the loop is blocked, and when the last node can be
used.

    python -m benchmarks.node_changes [--write]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import structlog
from rich.console import Console

from benchmarks.report import PAGES, machine
from benchmarks.stalls import Stalls
from fluence_extender.apps.extender.adapters import LivePlacements
from fluence_extender.apps.extender.engines import choose_engine, matcher_setup
from fluence_extender.cluster.port import Changed, Deleted, Kind, Listed, Observation
from fluence_extender.embeddedcluster.cluster import EmbeddedCluster
from fluence_extender.gangs.controller import Controller
from fluence_extender.gangs.execution.driver import Driver
from fluence_extender.gangs.execution.graph_rebuilder import GraphRebuilder
from fluence_extender.graph.containment import LEVELS
from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.http.scheduler.port import RequestedPod
from fluence_extender.ledger.ledger import Ledger
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.model.resources import Resources
from fluence_extender.model.taints import Taint

SIZES = (1_000, 5_000, 15_000)
PODS = 4
"""Bound pods on each node, one of them a foreign pod."""

TIED = 100
"""Nodes with a virtual device of their own."""

REPEATS = 60
ZONE = LEVELS["zone"]
STORM = 500
STORM_NODES = 300
REPORT = PAGES / "node_changes.md"
GIB = 2**30

Change = Callable[[Node], Iterator[Observation]]


def amounts(cores: int, gib: int, pods: int = 110) -> Resources:
    """Make the amounts of a node or a pod."""
    return Resources({"cpu": cores * 1000, "memory": gib * GIB, "pods": pods})


def node(number: int, cores: int = 32) -> Node:
    """Make a node in one of ten zones."""
    return Node(
        f"n{number}", labels={ZONE: f"z{number % 10}"}, allocatable=amounts(cores, 4 * cores), ready=True
    )


def pods(count: int) -> list[Pod]:
    """Make the bound pods of the nodes; pods on nodes with a device use it."""
    found = []
    for number in range(count * PODS):
        home, kind = divmod(number, PODS)
        foreign = kind == 0
        found.append(
            Pod(
                "others" if foreign else "default",
                f"p{number}",
                f"uid-{number}",
                scheduler="default-scheduler" if foreign else "fluence",
                node=f"n{home}",
                requests=amounts(2, 4, 1),
                devices={"fpga": 1} if kind == 1 and home < TIED else {},
            )
        )
    return found


def started(count: int, engine: str, per_node: list[Pod]) -> Controller:
    """Make a controller that has replayed all pods of a cluster."""
    controller = Controller(Ledger(matcher_setup(choose_engine(engine), "lonode", LEVELS)))
    tied = ", ".join(
        f"{{type: fpga, name: f{number}, count: 1, parent: n{number}}}" for number in range(TIED)
    )
    controller.replace_resources(parse_resources(f"resources: [{tied}]"))
    controller.observe(Listed(Kind.NODE, tuple(node(number) for number in range(count))))
    controller.observe(Listed(Kind.POD, tuple(per_node)))
    controller.start()
    controller.step()
    return controller


def _altered(alter: Callable[[Node], Node]) -> Change:
    def change(one: Node) -> Iterator[Observation]:
        yield Changed(Kind.NODE, alter(one))
        yield Changed(Kind.NODE, one)

    return change


def _leaves_and_joins(one: Node) -> Iterator[Observation]:
    yield Deleted(Kind.NODE, one)
    yield Changed(Kind.NODE, one)


DEDICATED = Taint("example.com/dedicated", "NoSchedule", "x")
CHANGES: dict[str, tuple[Change, bool]] = {
    "cordon, uncordon": (_altered(lambda one: replace(one, unschedulable=True)), False),
    "taint, untaint": (
        _altered(lambda one: replace(one, taints=(Taint("example.com/dedicated", "NoSchedule", "x"),))),
        False,
    ),
    "not ready, ready": (_altered(lambda one: replace(one, ready=False)), False),
    "allocatable down, up": (_altered(lambda one: replace(one, allocatable=amounts(16, 64))), False),
    "to another zone and back": (_altered(lambda one: replace(one, labels={ZONE: "elsewhere"})), False),
    "leaves, joins": (_leaves_and_joins, False),
    "with a device: leaves, joins": (_leaves_and_joins, True),
    "with a device: to another zone": (_altered(lambda one: replace(one, labels={ZONE: "elsewhere"})), True),
}


@dataclass
class Cluster:
    """A cluster of one size, and the microseconds that each change has taken so far."""

    size: int
    controller: Controller
    took: dict[str, list[float]] = field(default_factory=dict)

    def make(self, name: str, turn: int) -> None:
        """Make one change and its opposite, and record half of their time."""
        change, tied = CHANGES[name]
        number = turn % TIED if tied else TIED + (turn * 37) % (self.size - TIED)
        begun = time.process_time()
        for seen in change(node(number)):
            self.controller.observe(seen)
            self.controller.step()
        self.took.setdefault(name, []).append((time.process_time() - begun) / 2 * 1e6)

    def median(self, name: str) -> float:
        """Return the median time of a change in microseconds, without the first rounds."""
        return statistics.median(self.took[name][REPEATS // 6 :])


def costs() -> list[Cluster]:
    """Make every change on clusters of every size, alternating between the sizes."""
    clusters = [Cluster(size, started(size, "embedded", pods(size))) for size in SIZES]
    gc.collect()
    gc.freeze()
    for turn in range(REPEATS):
        for name in CHANGES:
            for cluster in clusters:
                cluster.make(name, turn)
    for cluster in clusters:
        assert not cluster.controller.ledger.graph.behind
        cluster.controller.ledger.close()
    return clusters


@dataclass(frozen=True)
class Storm:
    """The effect of a storm: answered filter calls, stalls in milliseconds, seconds until the graph had all changes."""

    calls: int
    longest_wall: float
    longest_own: float
    slowest_call: float
    rebuilds: int
    followed: float


async def storm() -> Storm:
    """Change nodes of a cluster with libreapi_cli while filter calls are answered on the same loop."""
    controller = started(STORM_NODES, "fluxion", pods(STORM_NODES))
    driver = Driver(controller, EmbeddedCluster())
    rebuilds = 0

    def done() -> None:
        nonlocal rebuilds
        rebuilds += 1
        driver.wake()

    rebuilder = GraphRebuilder(controller, lambda *_: None, done)
    placements = LivePlacements(controller, driver, lambda: "")
    tasks = [asyncio.create_task(rebuilder.run()), asyncio.create_task(driver.run())]
    gc.collect()
    gc.freeze()
    requested = RequestedPod("default", "p1", "uid-1", "fluence")
    stalls, calls, slowest = Stalls(), 0, 0.0
    watching = asyncio.create_task(stalls.run())
    begun = time.monotonic()
    made = 0
    while made < STORM or controller.ledger.graph.behind:
        if made < STORM:
            driver.sink(_of_storm(made))
            made += 1
        before = time.monotonic()
        placements.locate(requested)
        slowest = max(slowest, time.monotonic() - before)
        calls += 1
        await asyncio.sleep(0.002)
    followed = time.monotonic() - begun
    for task in (*tasks, watching):
        task.cancel()
    await asyncio.gather(*tasks, watching, return_exceptions=True)
    controller.ledger.close()
    return Storm(calls, stalls.wall * 1e3, stalls.own * 1e3, slowest * 1e3, rebuilds, followed)


def _of_storm(number: int) -> Observation:
    """Return the observation of one change; the kinds of changes alternate."""
    old = node(number % STORM_NODES)
    match number % 5:
        case 0:
            return Changed(Kind.NODE, node(STORM_NODES + number))
        case 1:
            return Deleted(Kind.NODE, old)
        case 2:
            return Changed(Kind.NODE, replace(old, allocatable=amounts(16, 64)))
        case 3:
            return Changed(Kind.NODE, replace(old, labels={ZONE: "elsewhere"}))
    return Changed(Kind.NODE, replace(old, unschedulable=True))


def page(clusters: list[Cluster], found: Storm) -> str:
    """Return the page with the results."""
    smallest, largest = clusters[0], clusters[-1]
    heads = " | ".join(f"{cluster.size:,} nodes" for cluster in clusters)
    rows = []
    for name in CHANGES:
        cells = " | ".join(f"{cluster.median(name):,.0f}" for cluster in clusters)
        rows.append(f"| {name} | {cells} | {largest.median(name) / smallest.median(name):.2f} |")
    return f"""# Changes of nodes

Made by `python -m benchmarks.node_changes --write`.

{machine()}

## Embedded engine: microseconds a change

One change observed by the controller, with all that follows from it, in microseconds of CPU time: the median of
{REPEATS - REPEATS // 6} pairs of a change and its opposite, alternating between the sizes in one run. Every node has
{PODS} bound pods, one of them a foreign pod; {TIED} nodes have a virtual device of their own, which a pod there
holds. No change rebuilds anything: the graph is edited in place.

| change | {heads} | {largest.size:,} over {smallest.size:,} |
|---|{"---:|" * len(clusters)}---:|
{chr(10).join(rows)}

## libreapi_cli: a storm of {STORM} changes

{STORM_NODES:,} nodes of 32 cores and 128 GiB, {STORM_NODES * PODS:,} bound pods. Every 2 ms a node joins, leaves,
shrinks, moves or is cordoned, and a filter call is answered on the same event loop; another task of the loop
wakes every millisecond. Graphs are rebuilt outside the loop, each in a process of its own.

| | |
|---|---:|
| filter look-ups answered | {found.calls:,} |
| slowest look-up, ms | {found.slowest_call:.2f} |
| longest CPU time for which the loop was blocked, ms | {found.longest_own:.1f} |
| longest wall time for which the loop was blocked, ms | {found.longest_wall:.1f} |
| rebuilds | {found.rebuilds} |
| all changes in the graph after, s | {found.followed:.1f} |

Wall time includes other load on the machine.
"""


def main() -> None:
    """Run the benchmark and print the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--write", action="store_true", help=f"write {REPORT.name}")
    arguments = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    clusters = costs()
    found = asyncio.run(storm())
    text = page(clusters, found)
    if arguments.write:
        REPORT.write_text(text, encoding="utf-8")
    Console().print(text, markup=False)


if __name__ == "__main__":
    main()
