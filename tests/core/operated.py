"""MPIJobs and RayClusters as admission lets them through, and their pods as their operators create them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fluence_extender.kinds.mpijob import MpiJob
from fluence_extender.kinds.ray import RayCluster
from fluence_extender.model.names import (
    GATE,
    MPI_OPERATOR,
    RAY_CLUSTER,
    RAY_GROUP,
    RAY_NODE,
    TRAINING_JOB_NAME,
    TRAINING_OPERATOR,
    TRAINING_ROLE,
)
from fluence_extender.model.pod import Owner, Pod
from fluence_extender.model.submission import NOTHING_SAID, Submission
from tests.core.values import asks, classed
from tests.core.world import World

Operated = MpiJob | RayCluster
numbers = itertools.count(1)


@dataclass(frozen=True)
class Said:
    """What may be said of a workload and its pods; ``created`` is None for a second of its own."""

    submission: Submission = NOTHING_SAID
    priority: int = 0
    duration: float | None = None
    created: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


USUAL = Said()


def _first(
    w: World, name: str, owner: Owner, cpu: int, labels: dict[str, str], created: float, said: Said
) -> Pod:
    pod = Pod(
        "default",
        f"{name}-trial",
        "trial",
        labels={**labels, **said.labels},
        owner=owner,
        gates=(GATE,),
        requests=asks(cpu, 1),
        created=created,
        priority=said.priority,
        duration=said.duration,
    )
    return classed(pod) if w.direct else pod


def _waiting(created: float, said: Said) -> dict[str, Any]:
    """Return the fields of a workload of a queue that admission has suspended."""
    return {
        "ours": True,
        "suspended": True,
        "held_for_placement": True,
        "queued": True,
        "created": created,
        "generation": 1,
        "submission": said.submission,
    }


def ray(
    w: World,
    name: str,
    head: int,
    workers: int,
    count: int,
    gang: bool = True,
    said: Said = USUAL,
    made_of: str = "",
) -> RayCluster:
    """Create a RayCluster, of the RayJob ``made_of`` if that names one.

    ``head`` and ``workers`` are what its pods request.
    """
    number = next(numbers)
    created = float(number) if said.created is None else said.created
    uid = f"ray-{name}-{number}"
    owner = Owner("RayCluster", name, uid, "ray.io/v1")
    labels = {RAY_CLUSTER: name, RAY_NODE: "yes"}
    w.cluster.first_pods[uid] = tuple(
        _first(w, name, owner, cpu, {**labels, RAY_GROUP: group}, created, said)
        for group, cpu in (("headgroup", head), ("workers", workers))
    )
    cluster = RayCluster(
        "default",
        name,
        uid,
        pods=1 + count,
        groups=(1, count),
        gang=gang,
        made_of=made_of,
        **_waiting(created, said),
    )
    w.cluster.put(cluster)
    return w.cluster.job(cluster)


def mpi(w: World, name: str, launcher: int, workers: int, count: int, said: Said = USUAL) -> MpiJob:
    """Create an MPIJob."""
    number = next(numbers)
    created = float(number) if said.created is None else said.created
    uid = f"mpi-{name}-{number}"
    labels = {TRAINING_OPERATOR: MPI_OPERATOR, TRAINING_JOB_NAME: name}
    owner = Owner("MPIJob", name, uid, "kubeflow.org/v2beta1")
    w.cluster.first_pods[uid] = tuple(
        _first(w, name, owner, cpu, {**labels, TRAINING_ROLE: role}, created, said)
        for role, cpu in (("worker", workers), ("launcher", launcher))
    )
    job = MpiJob(
        "default",
        name,
        uid,
        workers=count,
        groups=(count, 1),
        **_waiting(created, said),
    )
    w.cluster.put(job)
    return w.cluster.job(job)


def make_pods(w: World, thing: Operated, backwards: bool = False) -> list[Pod]:
    """Create the pods of a workload; the launcher of an MPIJob belongs to a Job."""
    made = []
    for count, first in zip(thing.groups, w.cluster.first_pods[thing.uid], strict=True):
        owner = first.owner
        if first.labels.get(TRAINING_ROLE) == "launcher":
            owner = Owner("Job", f"{thing.name}-launcher", f"launcher-{thing.uid}", "batch/v1")
        for _ in range(count):
            number = next(numbers)
            made.append(
                replace(first, name=f"{thing.name}-{number}", uid=f"{thing.uid}-{number}", owner=owner)
            )
    for pod in reversed(made) if backwards else made:
        w.cluster.put(pod)
    return made


def pods_of(w: World, thing: Operated) -> list[Pod]:
    """Return the workload's pods that exist."""
    uids = (thing.uid, f"launcher-{thing.uid}")
    return [pod for pod in w.cluster.pods() if pod.owner is not None and pod.owner.uid in uids]


def operate(w: World, thing: Operated) -> None:
    """Do what an operator does next: create the pods of a workload that runs, delete those of a suspended one."""
    now, pods = w.cluster.job(thing), pods_of(w, thing)
    if now.suspended:
        for pod in pods:
            if not pod.deleting:
                w.cluster.delete(pod)
    elif not now.finished and not pods:
        make_pods(w, now)


Submit = Callable[..., Operated]
"""`ray` or `mpi`."""
