"""``fluence-extender simulate``: a question to a cluster given in files, or looked at once. Nothing is written."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fluence_extender.cluster.connection import connect
from fluence_extender.cluster.port import Kind, ResourcesFile
from fluence_extender.cluster.reads import preemption_rules
from fluence_extender.cluster.watch import list_once
from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.model.workload import Job, Workload
from fluence_extender.whatif.documents import read_cluster, read_manifests
from fluence_extender.whatif.manifests import requested_gangs
from fluence_extender.whatif.offline import ClusterObjects, cluster_objects, offline_cluster
from fluence_extender.whatif.result_json import results_as_json
from fluence_extender.whatif.simulation import Simulation

KINDS = (Kind.NODE, Kind.POD, Kind.JOB, Kind.RESOURCES_FILE)


def simulated(
    manifests: bytes,
    there: ClusterObjects,
    resources: str,
    levels: Mapping[str, str],
    policy: str,
    source: str = "",
) -> dict[str, Any]:
    """The answer as ``/v1/simulate`` gives it. Raises `BadManifest` and `InvalidResourcesFile`."""
    request = requested_gangs(read_manifests(manifests), classes=there.classes, cluster=there.workloads())
    cluster = offline_cluster(there, parse_resources(resources, source), levels, policy)
    now = time.time()
    results = Simulation(cluster.taken, request, now, cluster.ends, cluster.context).run()
    return results_as_json(results, request, now)


def from_file(path: Path) -> ClusterObjects:
    """The cluster in a file. Raises `BadManifest` and `OSError`."""
    return cluster_objects(read_cluster(path.read_bytes()))


async def looked_at(kubeconfig: str | None, resources: str | Path) -> tuple[ClusterObjects, ResourcesFile]:
    """The live cluster, listed once. Raises `ClusterError` and `BadKubeconfig`."""
    seen = await list_once(kubeconfig, resources, *KINDS)
    async with connect(kubeconfig) as connection:
        rules = await preemption_rules(connection)
    there = ClusterObjects(classes=rules.classes, budgets=rules.budgets)
    there.nodes.extend(one for one in seen if isinstance(one, Node))
    there.pods.extend(one for one in seen if isinstance(one, Pod))
    there.jobs.update({(one.namespace, one.name): one for one in seen if isinstance(one, Job)})
    there.groups.extend(one for one in seen if isinstance(one, Workload) and not isinstance(one, Job))
    return there, next((one for one in seen if isinstance(one, ResourcesFile)), ResourcesFile("", None))
