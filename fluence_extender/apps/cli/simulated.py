"""``fluence-extender simulate``: a question to a cluster given in files, or looked at once. Nothing is written."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fluence_extender.cluster.connection import connect
from fluence_extender.cluster.port import Kind, ResourcesFile
from fluence_extender.cluster.preemption_rules import preemption_rules
from fluence_extender.cluster.snapshot import listed_once
from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod
from fluence_extender.model.workload import Job, Workload
from fluence_extender.whatif.documents import read_cluster, read_manifests
from fluence_extender.whatif.manifests import asked
from fluence_extender.whatif.offline import Objects, cluster, objects
from fluence_extender.whatif.shown import shown
from fluence_extender.whatif.simulation import Simulation

KINDS = (Kind.NODE, Kind.POD, Kind.JOB, Kind.RESOURCES_FILE)


def simulated(
    manifests: bytes, there: Objects, resources: str, levels: Mapping[str, str], policy: str, source: str = ""
) -> dict[str, Any]:
    """The answer as ``/v1/simulate`` gives it. Raises `BadManifest` and `InvalidResourcesFile`."""
    wanted = asked(read_manifests(manifests), classes=there.classes, there=there.workloads())
    seen = cluster(there, parse_resources(resources, source), levels, policy)
    now = time.time()
    return shown(Simulation(seen.taken, wanted, now, seen.ends, seen.around).run(), wanted, now)


def from_file(path: Path) -> Objects:
    """The cluster in a file. Raises `BadManifest` and `OSError`."""
    return objects(read_cluster(path.read_bytes()))


async def looked_at(kubeconfig: str | None, resources: str | Path) -> tuple[Objects, ResourcesFile]:
    """The live cluster, listed once. Raises `ClusterError` and `BadKubeconfig`."""
    seen = await listed_once(kubeconfig, resources, *KINDS)
    async with connect(kubeconfig) as connection:
        rules = await preemption_rules(connection)
    there = Objects(classes=rules.classes, budgets=rules.budgets)
    there.nodes.extend(one for one in seen if isinstance(one, Node))
    there.pods.extend(one for one in seen if isinstance(one, Pod))
    there.jobs.update({(one.namespace, one.name): one for one in seen if isinstance(one, Job)})
    there.groups.extend(one for one in seen if isinstance(one, Workload) and not isinstance(one, Job))
    return there, next((one for one in seen if isinstance(one, ResourcesFile)), ResourcesFile("", None))
