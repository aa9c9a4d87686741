"""A cluster with running pods, to simulate on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from fluence_extender.apps.kubectl.sources import ManifestSource, manifests_as_json
from fluence_extender.embeddedcluster.cluster import EmbeddedCluster
from fluence_extender.embeddedcluster.session import EmbeddedSession
from fluence_extender.gangs.membership.conventions.membership import Membership, Workloads
from fluence_extender.gangs.membership.workloads import WorkloadIndex
from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.kinds.defaults import AdmissionObjects
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.placement.demand import Demand
from fluence_extender.placement.eligibility import EligibilityIndex
from fluence_extender.room.ledger import Ledger
from fluence_extender.whatif.manifests import SimulationRequest, read_question, requested_gangs
from fluence_extender.whatif.preemption_preview import PreemptionContext
from fluence_extender.whatif.simulation import Simulation, SimulationResult
from fluence_extender.whatif.snapshot import CopiedGangs, snapshot
from fluence_extender.whatif.trials import try_templates
from tests.core.engine import EMBEDDED
from tests.core.planning import LedgerPlanner

NOW = 1_000_000.0
RACK = "example.com/rack"


class Cluster:
    """A real ledger with running pods; ``ends`` holds by uid when some of them end."""

    def __init__(self, nodes: Sequence[Node], resources: str = "") -> None:
        self.nodes = list(nodes)
        self.ledger: Ledger = EMBEDDED.ledger(levels={"rack": RACK})
        self.index = EligibilityIndex()
        self.ends: dict[str, float] = {}
        self.context = PreemptionContext()
        self.request = SimulationRequest([])
        for one in self.nodes:
            self.index.put(one)
        self.ledger.load(self.nodes, parse_resources(resources))

    def run(self, pods: Iterable[Pod], until: float | None = None) -> None:
        """Let pods of ours run; they end at ``until`` seconds from now."""
        running = list(pods)
        LedgerPlanner(self.ledger, self.index).plan([Demand(one) for one in running], running[0].name)
        if until is not None:
            self.ends.update({one.uid: NOW + until for one in running})

    def run_gang(self, pods: Iterable[Pod], size: int = 0) -> None:
        """Let a gang run that may become a victim; it is whole with ``size`` of its pods, 0 for all."""
        running = list(pods)
        key = WorkloadIndex().membership(running[0]).key
        places = LedgerPlanner(self.ledger, self.index).plan([Demand(one) for one in running], key)
        whole = size or len(running)
        membership = Membership(key, whole, "the test")
        bound = [replace(one, node=at.node, phase="Running") for one, at in zip(running, places, strict=True)]
        self.context.gangs.add(
            key, whole, [(one, membership, at) for one, at in zip(bound, places, strict=True)]
        )

    def ask(
        self,
        *manifests: Mapping[str, Any],
        patience: float = 10.0,
        classes: Sequence[Mapping[str, Any]] = (),
    ) -> list[SimulationResult]:
        """Simulate, and check that the real ledger has not changed."""
        before = self.state()
        taken = snapshot(self.ledger, self.nodes, self.ends)
        self.request = request_of(manifests, there=classes)
        context = replace(
            self.context,
            gangs=CopiedGangs(dict(self.context.gangs.gangs)),
            preemptors=dict(self.context.preemptors),
        )
        results = Simulation(taken, self.request, NOW, self.ends, context, patience=patience).run()
        assert self.state() == before
        return results

    def state(self) -> object:
        """Return everything that a simulation must leave as it is."""
        accounts = {name: (one.free, one.ports) for name, one in self.ledger.accounts.items()}
        return dict(self.ledger.holdings), accounts, self.ledger.version


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
def cluster() -> type[Cluster]:
    return Cluster
