"""Gangs named in each of the ways there are: the objects that say the size, and what the pods carry."""

from __future__ import annotations

from fluence_extender.kinds.job import Job
from fluence_extender.kinds.jobset import JobSet, ReplicatedJob
from fluence_extender.kinds.mpijob import MpiJob
from fluence_extender.kinds.podgroups import CoschedulingGroup, PodGroup
from fluence_extender.kinds.ray import RayCluster
from fluence_extender.kinds.workload import Workload
from fluence_extender.model.names import GROUP_LABEL, GROUP_SIZE_ANNOTATION
from fluence_extender.model.pod import Owner
from tests.core.values import PodFields

INDEX = "batch.kubernetes.io/job-completion-index"
NAMED_BY = (
    "native",
    "coscheduling",
    "flux-k8s",
    "label",
    "kueue",
    "leaderworkerset",
    "raycluster",
    "mpijob",
    "jobset",
    "owner",
    "job",
)


def objects(named_by: str, name: str, size: int) -> list[Workload]:
    """What says the size of the gang, where its pods don't."""
    said: dict[str, list[Workload]] = {
        "native": [PodGroup("default", name, name, size)],
        "coscheduling": [CoschedulingGroup("default", name, name, size)],
        "job": [Job("default", name, name, size, size, indexed=True)],
        "jobset": [JobSet("default", name, name, (ReplicatedJob("w", size),))],
        "mpijob": [MpiJob("default", name, name, size - 1)],
        "raycluster": [RayCluster("default", name, name, size, gang=True)],
    }
    return said.get(named_by, [])


def fields(named_by: str, name: str, size: int, number: int) -> PodFields:
    """What a pod of the gang carries."""
    said: dict[str, PodFields] = {
        "native": {"group": name},
        "coscheduling": {"labels": {"scheduling.x-k8s.io/pod-group": name}},
        "flux-k8s": {"labels": {"scheduling.x-k8s.io/pod-group": name, "fluence.group-size": str(size)}},
        "label": {"labels": {GROUP_LABEL: name}, "annotations": {GROUP_SIZE_ANNOTATION: str(size)}},
        "kueue": {
            "labels": {"kueue.x-k8s.io/pod-group-name": name},
            "annotations": {"kueue.x-k8s.io/pod-group-total-count": str(size)},
        },
        "job": {"annotations": {INDEX: str(number)}, "owner": Owner("Job", name, name)},
        "owner": {
            "annotations": {GROUP_SIZE_ANNOTATION: str(size)},
            "owner": Owner("StatefulSet", name, name),
        },
        "mpijob": {
            "labels": {
                "training.kubeflow.org/operator-name": "mpi-operator",
                "training.kubeflow.org/job-name": name,
            }
        },
        "raycluster": {"labels": {"ray.io/cluster": name, "ray.io/is-ray-node": "yes"}},
        "leaderworkerset": {
            "labels": {
                "leaderworkerset.sigs.k8s.io/name": name,
                "leaderworkerset.sigs.k8s.io/group-index": "0",
                "leaderworkerset.sigs.k8s.io/worker-index": str(number),
            },
            "annotations": {"leaderworkerset.sigs.k8s.io/size": str(size)},
        },
        "jobset": {
            "labels": {
                "jobset.sigs.k8s.io/jobset-name": name,
                "jobset.sigs.k8s.io/replicatedjob-name": "w",
            }
        },
    }
    return said[named_by]
