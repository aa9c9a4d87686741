"""A cluster with running pods, to simulate on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from fluence_extender.apiserver.defaults import AdmissionObjects
from fluence_extender.apps.kubectl.sources import ManifestSource, manifests_as_json
from fluence_extender.cluster.budgets import Budget
from fluence_extender.cluster.port import ResourcesFile
from fluence_extender.embeddedcluster.cluster import EmbeddedCluster
from fluence_extender.embeddedcluster.session import EmbeddedSession
from fluence_extender.gangs.preemption.preemptions import Preemption
from fluence_extender.kinds.membership import Workloads
from fluence_extender.model.gang import GangKey
from fluence_extender.model.names import GROUP_SIZE_ANNOTATION
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.placement.demand import Demand
from fluence_extender.placement.plan import Planner
from fluence_extender.room.holds import HoldKind
from fluence_extender.room.ledger import Ledger
from fluence_extender.whatif.manifests import SimulationRequest, read_question, requested_gangs
from fluence_extender.whatif.simulation import Simulation, SimulationResult
from fluence_extender.whatif.trials import try_templates
from tests.core.engine import CoreEngine
from tests.core.planning import planner_for
from tests.core.values import PodFields, classed
from tests.core.world import World
from tests.unit.gangs.conftest import world

__all__ = ["NOW", "RACK", "Cluster", "job", "request_of", "sent", "world"]

NOW = 1_000_000.0
RACK = "example.com/rack"


class EngineOfRacks(CoreEngine):
    """The embedded engine in a cluster with racks."""

    def ledger(
        self, policy: str = "lonode", levels: Mapping[str, str] = MappingProxyType({"rack": RACK})
    ) -> Ledger:
        """Return an empty ledger."""
        return super().ledger(policy, levels)


class Cluster:
    """A cluster with running pods, and the service.

    Disruption ``budgets`` forbid evictions, None if they aren't known. By key, ``preemptors`` have the preemptions
    under way, with the nodes that are held for each.
    """

    def __init__(self, nodes: Sequence[Node], resources: str = "") -> None:
        devices = [ResourcesFile("test", resources)] if resources else []
        self.world = World(*nodes, *devices, engine=EngineOfRacks("embedded"))
        self.budgets: Sequence[Budget] | None = ()
        self.preemptors: dict[GangKey, tuple[Preemption, set[str]]] = {}
        self.request = SimulationRequest([])

    def run(self, pods: Iterable[Pod], until: float | None = None) -> None:
        """Let pods run that nobody can preempt; they end at ``until`` seconds from now."""
        ends: PodFields = {} if until is None else {"started": 1.0, "duration": NOW + until - 1.0}
        for one in pods:
            if one.devices:
                self.world.cluster.put(classed(replace(one, **ends)))
                self.world.advance(3)
                self.world.change(one, phase="Running", **ends)
                assert self.world.now(one).node
            else:
                (place,) = self._planner.plan(self.world.ledger.snapshot(), [Demand(one)])
                fields: PodFields = {"requests": one.requests, "host_ports": one.host_ports, **ends}
                self.world.foreign(place.node, one.name, **fields)
            self.world.advance(1)

    def run_gang(self, pods: Iterable[Pod], size: int = 0) -> list[Pod]:
        """Let a gang run that may become a victim; it is whole with ``size`` of its pods, 0 for all."""
        running = list(pods)
        whole = {GROUP_SIZE_ANNOTATION: str(size or len(running))}
        running = [classed(replace(one, annotations=whole, deleting=False)) for one in running]
        for one in running:
            self.world.cluster.put(one)
        self.world.advance(3)
        for one in running:
            assert self.world.now(one).node
            self.world.change(one, phase="Running")
        self.world.advance(1)
        return running

    @property
    def _planner(self) -> Planner:
        return planner_for(self.world.ledger, self.world.controller.eligibility)

    def ask(
        self,
        *manifests: Mapping[str, Any],
        patience: float = 10.0,
        classes: Sequence[Mapping[str, Any]] = (),
    ) -> list[SimulationResult]:
        """Simulate, and check that the cluster has not changed for the service."""
        before = self.state()
        self.request = request_of(manifests, there=classes)
        controller = self.world.controller
        view = replace(controller.simulation_view(), calendar=NOW)
        for key, (preemption, nodes) in self.preemptors.items():
            view.preemption.preemptions[key] = preemption
            view.room.held_nodes.hold(HoldKind.PREEMPTION, key, nodes)
        simulation = Simulation(view, controller.new_memory(), self.request, {}, self.budgets, patience)
        results = simulation.run()
        assert self.state() == before
        return results

    def state(self) -> object:
        """Return everything that a simulation must leave as it is."""
        ledger, registry = self.world.ledger, self.world.controller.registry
        accounts = {name: (one.free, one.ports) for name, one in ledger.accounts.items()}
        usage = self.world.controller.queue.admission.usage
        places = {key: usage.place(key) for key in registry.gangs}
        return dict(ledger.holdings), accounts, ledger.version, registry.revision, places


def request_of(
    manifests: Iterable[Mapping[str, Any]],
    namespace: str = "default",
    there: Sequence[Mapping[str, Any]] = (),
    cluster: Workloads | None = None,
) -> SimulationRequest:
    """Return what ``manifests`` ask, each pod tried on an embedded cluster with the objects ``there``."""
    embedded = EmbeddedCluster()
    embedded.objects = AdmissionObjects(there)
    question = read_question([dict(one) for one in manifests], namespace)
    trials = try_templates(question.templates, question.objects, EmbeddedSession(embedded).try_pod)
    return requested_gangs(question, asyncio.run(trials), cluster)


def job(name: str, count: int, cpu: str, memory: str = "1Gi", **fields: Any) -> dict[str, Any]:
    """Return a Job of ``count`` pods that is a gang."""
    notes = fields.pop("annotations", {})
    requests = {"cpu": cpu, "memory": memory, **fields.pop("requests", {})}
    container = {
        "name": "main",
        "image": "none",
        "resources": {"requests": requests, "limits": fields.pop("limits", {})},
        **fields,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "parallelism": count,
            "completions": count,
            "completionMode": "Indexed",
            "template": {
                "metadata": {"labels": {"fluence.flux-framework.org/group": name}, "annotations": notes},
                "spec": {"schedulerName": "fluence", "restartPolicy": "Never", "containers": [container]},
            },
        },
    }


def sent(text: str) -> bytes:
    """Return YAML as the JSON that clients send."""
    return manifests_as_json([ManifestSource("manifest", text.encode())])


@pytest.fixture
def cluster() -> Iterator[type[Cluster]]:
    """Make clusters, which are closed at the end."""
    made: list[Cluster] = []

    class Closed(Cluster):
        def __init__(self, nodes: Sequence[Node], resources: str = "") -> None:
            super().__init__(nodes, resources)
            made.append(self)

    yield Closed
    for one in made:
        one.world.close()
