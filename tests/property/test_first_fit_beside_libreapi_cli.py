"""Under the policies that it has, first fit takes the nodes that libreapi_cli takes, gang after gang."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fluence_extender.engine.jobspec import compute_jobspec
from fluence_extender.graph.cluster_graph import build_containment
from fluence_extender.graph.jgf import unit_jgf
from fluence_extender.graph.units import request_counts
from fluence_extender.model.node import Node
from fluence_extender.model.notation import natural_order
from fluence_extender.model.resources import Resources
from fluence_extender.placement.chooser import FirstFit
from fluence_extender.room.capacity import CapacityTable, NodeCapacity
from tests.oracle import Busy, MatcherOptions, MatchOp, Unsatisfiable
from tests.oracle.walker import Walker

GIB = 2**30
GPU = "nvidia.com/gpu"
ZONE = "topology.kubernetes.io/zone"
DESCENDING = {"lonode": False, "hinode": True}


@dataclass(frozen=True)
class Gang:
    """A gang that runs: what each pod takes, and how many are on each node."""

    requests: Resources
    placed: dict[str, int]


@dataclass
class Clusters:
    """The same cluster as exact room and in the oracle; every gang goes to both."""

    random: Random
    policy: str
    gangs: dict[int, Gang] = field(default_factory=dict)

    def __post_init__(self) -> None:
        numbers = self.random.sample(range(30), self.random.randint(2, 9))
        zones = self.random.choice([("",), ("",), ("z1", "z2")])
        self.nodes = {f"n{number}": self._node(f"n{number}", zones) for number in numbers}
        self.order = sorted(self.nodes, key=natural_order, reverse=DESCENDING[self.policy])
        containment = build_containment(self.nodes.values())
        self.paths = containment.nodes
        self.ranks = {name: containment.vertex(path).rank for name, path in self.paths.items()}
        options = MatcherOptions(self.policy, "ALL:core,ALL:memory,ALL:gpu")
        self.oracle = Walker(unit_jgf(containment), options)

    def _node(self, name: str, zones: tuple[str, ...]) -> Node:
        random = self.random
        amounts = {"cpu": random.choice([4, 8, 16]) * 1000, "memory": random.choice([4, 8, 16]) * GIB}
        amounts |= random.choice([{}, {GPU: 2}])
        zone = random.choice(zones)
        return Node(name, labels={ZONE: zone} if zone else {}, allocatable=Resources(amounts))

    def table(self) -> CapacityTable:
        """What is free on each node."""
        free = {name: node.allocatable for name, node in self.nodes.items()}
        for gang in self.gangs.values():
            for name, count in gang.placed.items():
                for _ in range(count):
                    free[name] -= gang.requests
        return CapacityTable.of({name: NodeCapacity(amounts) for name, amounts in free.items()})

    def place(self, jobid: int) -> None:
        """Place a random gang on some of the nodes in both, and compare where it goes."""
        random = self.random
        amounts = {"cpu": random.randint(1, 4) * 1000, "memory": random.randint(1, 4) * GIB}
        requests = Resources(amounts | random.choice([{}, {}, {GPU: 1}]))
        names = [name for name in self.order if random.random() < 0.7] or self.order
        count = random.randint(1, 2 * len(self.nodes))
        chosen = FirstFit().choose(requests, count, names, self.table())
        assert chosen == self._granted(requests, count, names, jobid)
        if chosen is not None:
            self.gangs[jobid] = Gang(requests, chosen)

    def _granted(
        self, requests: Resources, count: int, names: list[str], jobid: int
    ) -> dict[str, int] | None:
        ranks = [self.ranks[name] for name in names]
        jobspec = compute_jobspec(request_counts(requests), count, ranks)
        try:
            placement = self.oracle.match(MatchOp.ALLOCATE, jobspec, jobid).placement
        except (Busy, Unsatisfiable):
            return None
        cores = requests["cpu"] // 1000
        return {
            name: placement[path]["core"] // cores for name, path in self.paths.items() if path in placement
        }

    def end(self) -> None:
        """End a random gang in both."""
        if self.gangs:
            jobid = self.random.choice(list(self.gangs))
            del self.gangs[jobid]
            self.oracle.cancel(jobid)


@pytest.mark.parametrize("policy", DESCENDING)
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(random=st.randoms(use_true_random=False))
def test_first_fit_takes_the_nodes_that_the_library_takes(policy: str, random: Random) -> None:
    clusters = Clusters(random, policy)
    for jobid in range(12):
        clusters.place(jobid)
        if random.random() < 0.4:
            clusters.end()
