"""The work of Kueue's own performance test of its scheduler (test/performance/scheduler/configs/baseline), as Jobs.

Five cohorts have six ClusterQueues each, with 20 cores, which may borrow 100 more. Each queue gets small, medium and
large workloads at fixed intervals; larger ones have a higher priority and run longer. Kueue's generator makes Workload
objects, which only Kueue knows, and only pretends to run them. Here each is a Job of one pod, which both can admit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from benchmarks.peers.kueue import VERSION
from fluence_extender.model.names import STATE_GROUP

Manifest = dict[str, Any]

COHORTS, QUEUES = 5, 6
NOMINAL, BORROWING = "20", "100"
FLAVOR = "default"


@dataclass(frozen=True, slots=True)
class Class:
    """One class of workloads: ``count`` for each queue, one every ``interval`` s; each runs for ``runs`` s."""

    name: str
    count: int
    interval: float
    runs: float
    priority: int
    cores: int


CLASSES = (
    Class("small", 350, 0.1, 0.2, 50, 1),
    Class("medium", 100, 0.5, 0.5, 100, 5),
    Class("large", 50, 1.2, 1.0, 200, 20),
)


@dataclass(frozen=True, slots=True)
class Submitted:
    """A Job to be: created ``due`` seconds after the first one."""

    name: str
    queue: str
    due: float
    kind: Class


def of_queue(kind: Class, part: float) -> int:
    """Return how many Jobs of a class each queue gets in this part of all Jobs."""
    return max(1, round(kind.count * part))


def queues() -> list[str]:
    """Return the names of all queues."""
    return [f"cohort-{cohort}-queue-{queue}" for cohort in range(COHORTS) for queue in range(QUEUES)]


def submitted(part: float) -> list[Submitted]:
    """Return this part of all Jobs, in the order in which they are created."""
    found = [
        Submitted(f"{queue}-{kind.name}-{number}", queue, number * kind.interval, kind)
        for queue in queues()
        for kind in CLASSES
        for number in range(of_queue(kind, part))
    ]
    return sorted(found, key=lambda one: one.due)


def job(one: Submitted) -> Manifest:
    """Return the Job, as yet for nobody's queue."""
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": str(one.kind.cores)}}}
    template = {
        "spec": {
            "priorityClassName": one.kind.name,
            "restartPolicy": "Never",
            "containers": [container],
        },
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": one.name, "labels": {}},
        "spec": {"parallelism": 1, "completions": 1, "template": template},
    }


def priority_classes() -> Iterator[Manifest]:
    """Yield the PriorityClasses of the Jobs."""
    for kind in CLASSES:
        yield {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": kind.name},
            "value": kind.priority,
        }


def of_kueue() -> list[Manifest]:
    """Return Kueue's objects for the whole cluster."""
    flavor = {"apiVersion": VERSION, "kind": "ResourceFlavor", "metadata": {"name": FLAVOR}}
    return [flavor, *(_cluster_queue(name) for name in queues())]


def _cluster_queue(name: str) -> Manifest:
    quota = {"name": "cpu", "nominalQuota": NOMINAL, "borrowingLimit": BORROWING}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": FLAVOR, "resources": [quota]}]}
    return {
        "apiVersion": VERSION,
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": {
            "cohortName": name.partition("-queue-")[0],
            "namespaceSelector": {},
            "resourceGroups": [group],
            "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
        },
    }


def local_queues() -> Iterator[Manifest]:
    """Yield the queues of a namespace, each of the name of its ClusterQueue."""
    for name in queues():
        yield {
            "apiVersion": VERSION,
            "kind": "LocalQueue",
            "metadata": {"name": name},
            "spec": {"clusterQueue": name},
        }


def of_ours() -> str:
    """Return the Queues that do what Kueue's objects do, as YAML."""
    specs: dict[str, Manifest] = {
        f"cohort-{number}": {"limit": {"cpu": str(int(NOMINAL) * QUEUES)}} for number in range(COHORTS)
    }
    for name in queues():
        specs[name] = {
            "parent": name.partition("-queue-")[0],
            "guaranteed": {"cpu": NOMINAL},
            "limit": {"cpu": str(int(NOMINAL) + int(BORROWING))},
            "preemption": {"within": "LowerPriority", "reclaim": "Borrowed"},
        }
    return yaml.safe_dump_all(
        {"apiVersion": f"{STATE_GROUP}/v1alpha1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}
        for name, spec in specs.items()
    )
