"""Workloads as manifests: what a user would submit for each form."""

from __future__ import annotations

from typing import Any

from tests.chaos.deeds import GROUPED, Create, Form
from tests.e2e.harness import Manifest, pod
from tests.e2e.workloads import QPU, grouped, indexed_job, labelled, ours, pod_group

POOL = "chaos.fluence.flux-framework.org/pool"
"""The label of nodes that names their pool."""

WORKLOAD = "chaos.fluence.flux-framework.org/workload"
FAULTY_RESOURCES = "resources: [{type: qpu, name: a, count: -1}, {nonsense: 3}]"


def manifests(what: Create) -> list[Manifest]:
    """Return the objects of a workload; all its pods have its name in the label `WORKLOAD`."""
    shape: dict[str, Any] = {"memory": "256Mi", "labels": {WORKLOAD: what.name}}
    shape["run_for"] = f"{what.seconds}s" if what.seconds else None
    cores = [f"{what.millicores * (2 if _large(what, number) else 1)}m" for number in range(what.members)]
    if what.form is Form.JOB:
        return [indexed_job(what.name, ours(what.name, cpu=cores[0], **shape), what.members)]
    if what.form is Form.QUANTUM:
        shape["requests"] = {QPU: 1}
    if what.pool:
        shape["nodeSelector"] = {POOL: what.pool}
    make = pod if what.form is Form.FOREIGN else ours
    pods = [make(f"{what.name}-{number}", cpu=amount, **shape) for number, amount in enumerate(cores)]
    if what.form is Form.FOREIGN:
        return pods
    if what.form in GROUPED:
        return [group_of(what), *(grouped(one, what.name) for one in pods)]
    return [labelled(one, what.name, what.members) for one in pods]


def group_of(what: Create) -> Manifest:
    """Return the PodGroup of a workload that has one."""
    return pod_group(what.name, what.members, POOL if what.form is Form.PACKED else "")


def _large(what: Create, number: int) -> bool:
    return what.form is Form.MIXED and number % 2 == 1


def resources_yaml(devices: int) -> str:
    """Return a resources.yaml with so many devices of one kind."""
    lines = [f"  - {{type: qpu, name: chaos_qpu_{number}}}" for number in range(devices)]
    return "\n".join(["resources:", *lines]) if lines else ""
