"""Topology that a pod's owners tell: its PodGroup, and the JobSet or Job that numbers it."""

from __future__ import annotations

import pytest

from fluence_extender.gangs.membership.workloads import WorkloadIndex, owner_topology
from fluence_extender.kinds.job import Job
from fluence_extender.kinds.jobset import JobSet, ReplicatedJob
from fluence_extender.kinds.podgroups import PodGroup
from fluence_extender.kinds.workload import Workload
from fluence_extender.model.pod import Owner, Pod
from fluence_extender.placement.topology_constraints import SLICE_REQUIRED, SLICE_SIZE
from tests.core.values import node, pod
from tests.core.world import World
from tests.unit.gangs.conftest import MakeWorld

RACK = "example.com/rack"


def worker(job: int, index: int, size: str = "4") -> Pod:
    """A pod of the JobSet js, whose two replicated jobs have four Jobs and one."""
    labels = {
        "jobset.sigs.k8s.io/jobset-name": "js",
        "jobset.sigs.k8s.io/replicatedjob-name": "w",
        "jobset.sigs.k8s.io/replicatedjob-replicas": "4",
        "jobset.sigs.k8s.io/job-index": str(job),
    }
    notes = {
        SLICE_REQUIRED: RACK,
        SLICE_SIZE: size,
        "batch.kubernetes.io/job-completion-index": str(index),
    }
    name = f"js-w-{job}"
    return pod(
        f"{name}-{index}", 3000, labels=labels, annotations=notes, owner=Owner("Job", name, f"{name}-uid")
    )


@pytest.mark.parametrize(
    ("known", "size"),
    [
        ((JobSet("default", "js", "u", (ReplicatedJob("driver", 1), ReplicatedJob("w", 8))),), 2),
        ((Job("default", "js-w-0", "u", 3, 2),), 2),
        ((), 0),
    ],
)
def test_size_of_a_job_is_that_of_its_replicated_job(known: tuple[Workload, ...], size: int) -> None:
    index = WorkloadIndex()
    for one in known:
        index.put(one)
    assert owner_topology(index, worker(0, 0)) == ((), size)


def test_pods_without_slices_depend_on_no_job() -> None:
    index = WorkloadIndex()
    index.put(Job("default", "j", "u", 3))
    index.put(PodGroup("default", "g", "u", 2, (RACK,)))
    grouped = pod("p", group="g", owner=Owner("Job", "j", "u"))
    assert owner_topology(index, grouped) == ((RACK,), 0)


def racks_of(w: World, pods: list[Pod]) -> list[str]:
    return [name[:2] for name in w.nodes_of(*pods)]


def test_slices_of_a_job_set_share_racks_over_its_jobs(world: MakeWorld) -> None:
    job_set = JobSet("default", "js", "u", (ReplicatedJob("w", 8),))
    nodes = [node(f"r{rack}-{number}", labels={RACK: f"r{rack}"}) for rack in range(3) for number in range(5)]
    w = world(*nodes, job_set)
    made = [
        w.pod(
            one.name, labels=one.labels, annotations=one.annotations, owner=one.owner, requests=one.requests
        )
        for one in (worker(job, index) for job in range(4) for index in range(2))
    ]
    w.advance(3)
    found = racks_of(w, made)
    assert "" not in found
    assert len(set(found[:4])) == len(set(found[4:])) == 1
