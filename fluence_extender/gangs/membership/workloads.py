"""The objects that state how large gangs are and where they may be placed, and which pods depend on which of them.

A pod's membership may depend on the objects that the pod names: its owner, its groups, and the objects that operators
name in labels. When such an object changes, the registry computes the memberships of the pods that name it again.

Invariant: if one of the objects that were looked up for a membership can't be read, the size isn't known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import replace
from typing import TypeVar

from fluence_extender.gangs.membership.gang import JOB_SET_UID
from fluence_extender.kinds.job import Job
from fluence_extender.kinds.jobset import JobSet
from fluence_extender.kinds.membership import Membership, Workloads, number
from fluence_extender.kinds.mpijob import MpiJob, mpi_job_name
from fluence_extender.kinds.podgroups import CoschedulingGroup, PodGroup
from fluence_extender.kinds.ray import RayCluster, RayJob
from fluence_extender.kinds.registry import KINDS, recognize
from fluence_extender.kinds.resumable import Resumable
from fluence_extender.kinds.trainjob import TrainJob
from fluence_extender.kinds.workload import Workload
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.multimap import Multimap
from fluence_extender.model.names import (
    COSCHEDULING_NAMES,
    GROUP_LABEL,
    JOB_SET_NAME,
    REPLICATED_JOB,
    REPLICATED_JOB_REPLICAS,
)
from fluence_extender.model.pod import Owner, Pod, revision
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.placement.topology_constraints import sliced

Found = TypeVar("Found", bound=Workload)
Name = tuple[str, str]

OBJECT_LABELS: Mapping[str, type[Workload]] = {kind.label: kind.values for kind in KINDS if kind.label}
"""The labels by which pods name an operator's object. Their membership depends on whether that kind is served."""

OWNERS: Mapping[str, type[Workload]] = {kind.api.kind: kind.values for kind in KINDS if kind.pods is not None}
"""The kinds of which a controller makes pods. Of some, another object owns the pods."""

NAMING_LABELS = frozenset((GROUP_LABEL, *COSCHEDULING_NAMES, JOB_SET_UID, *OBJECT_LABELS))
"""The labels that name an object by its name or its uid."""


def _dependencies_of(pod: Pod, gang: GangKey | None) -> list[Name | type]:
    """Return what a pod's membership may depend on.

    These are names and uids of objects in its namespace, and kinds of objects, of which it only matters whether they
    are served. The labels of a pod's Job may name a group, too. Then ``gang`` has the name of that group.
    """
    labels = pod.labels.keys() & NAMING_LABELS
    names = {pod.group, *(pod.labels[label] for label in labels)}
    if pod.owner is not None:
        names |= {pod.owner.name, pod.owner.uid}
    if gang is not None and gang.convention is Convention.COSCHEDULING:
        names.add(gang.name)
    names.discard("")
    return [
        *((pod.namespace, name) for name in names),
        *(OBJECT_LABELS[label] for label in labels & OBJECT_LABELS.keys()),
    ]


class WorkloadIndex:
    """Workloads by kind and name, and the uids of the pods that name them.

    The methods that change it return the uids of the pods whose memberships have to be computed again. ``rule``
    computes a membership.
    """

    def __init__(self, rule: Callable[[Pod, Workloads], Membership] = recognize) -> None:
        self._rule = rule
        self._objects: dict[type, dict[Name, Workload]] = {}
        self._unserved: set[type[Workload]] = set()
        self._pods: Multimap[Name | type, str] = Multimap()
        self._first_seen: dict[str, int] = {}
        self.revision = 0
        """Grows when an object comes, goes or changes."""

    def copy(self) -> WorkloadIndex:
        """Return a copy with the same objects and without pods, for look-ups alone."""
        copied = WorkloadIndex(self._rule)
        copied._objects = {kind: dict(objects) for kind, objects in self._objects.items()}
        copied._unserved, copied._first_seen = set(self._unserved), dict(self._first_seen)
        copied.revision = self.revision
        return copied

    def find(self, kind: type[Found], namespace: str, name: str) -> Found | None:
        """Return the object of that name, or None while it isn't known."""
        workload = self._objects.get(kind, {}).get((namespace, name))
        return workload if isinstance(workload, kind) else None

    def all(self, kind: type[Workload]) -> dict[Name, Workload]:
        """Return all known objects of a kind."""
        return dict(self._objects.get(kind, {}))

    def served(self, kind: type[Workload]) -> bool:
        """Return whether the cluster serves such objects: true until the opposite is known."""
        return kind not in self._unserved

    def membership(self, pod: Pod) -> Membership:
        """Return the pod's membership now."""
        reader = _Reader(self)
        membership = self._rule(pod, reader)
        if reader.problem:
            membership = replace(membership, size=Reason(ReasonCode.INVALID_REQUEST, reader.problem))
        return membership

    def add_pod(self, pod: Pod, gang: GangKey | None = None) -> None:
        """Record on which objects and kinds the membership of a pod, which is in ``gang``, may depend."""
        for dependency in _dependencies_of(pod, gang):
            self._pods.add(dependency, pod.uid)

    def drop_pod(self, pod: Pod, gang: GangKey | None = None) -> None:
        """Forget a pod, given as it was added."""
        for dependency in _dependencies_of(pod, gang):
            self._pods.discard(dependency, pod.uid)

    def naming(self, namespace: str, name: str) -> Set[str]:
        """Return the uids of the pods that name an object by its name or uid.

        The set is read-only, and valid until the next change.
        """
        return self._pods.of((namespace, name))

    def pods_of(self, workload: Workload) -> list[str]:
        """Return the uids of the pods that belong to an object or may belong to it."""
        names = [workload.name, workload.uid, workload.cluster if isinstance(workload, RayJob) else ""]
        return sorted({uid for name in names if name for uid in self.naming(workload.namespace, name)})

    def put(self, workload: Workload) -> list[str]:
        """Record an object; return the uids of the pods to look at again, none if it hasn't changed."""
        name = workload.namespace, workload.name
        objects = self._objects.setdefault(type(workload), {})
        before = objects.get(name)
        changed = before != workload
        if before is not None and before.uid != workload.uid:
            self._first_seen.pop(before.uid, None)
        objects[name] = workload
        self.revision += changed
        if isinstance(workload, Resumable):
            self._first_seen.setdefault(workload.uid, revision(workload.version))
        return self.pods_of(workload) if changed else []

    def first_seen(self, workload: Resumable) -> int:
        """Return the resourceVersion at which a workload was first seen, 0 if it was there when the service started."""
        return self._first_seen.get(workload.uid, revision(workload.version))

    def treat_all_as_old(self) -> None:
        """Treat all workloads that are known now as older than later ones (see `Registry.treat_all_as_old`)."""
        self._first_seen = dict.fromkeys(self._first_seen, 0)

    def drop(self, workload: Workload) -> list[str]:
        """Forget an object; return the pods to look at again."""
        name = workload.namespace, workload.name
        gone = self._objects.get(type(workload), {}).pop(name, None)
        self._first_seen.pop(workload.uid, None)
        self.revision += 1
        return self.pods_of(gone) if gone is not None else []

    def set_served(self, kind: type[Workload], served: bool) -> list[str]:
        """Record whether the cluster serves such objects; return the pods to look at again if that has changed."""
        if served is not (kind in self._unserved):
            return []
        (self._unserved.discard if served else self._unserved.add)(kind)
        return sorted(self._pods.of(kind))


class _Reader:
    """Looks up objects in an index; ``problem`` says which of them can't be read, and why."""

    def __init__(self, index: WorkloadIndex) -> None:
        self._index = index
        self.served = index.served
        self.problem = ""

    def find(self, kind: type[Found], namespace: str, name: str) -> Found | None:
        workload = self._index.find(kind, namespace, name)
        if workload is not None and workload.problem:
            kind_name = "PodGroup" if kind is CoschedulingGroup else kind.__name__
            self.problem = f"{kind_name} {namespace}/{name} can't be read: {workload.problem}"
        return workload


def parents_of(pod: Pod, workloads: Workloads) -> Iterator[Workload]:
    """Yield the known workloads that a pod belongs to, each once: its owner, those that labels name, and their makers.

    An operator's pods needn't be owned by the object that their user wrote: the Trainer makes a JobSet of a TrainJob,
    that makes Jobs, and these make pods.
    """
    owner = owning(pod.owner, pod.namespace, workloads) if pod.owner is not None else None
    named = [
        (kind, pod.labels[label])
        for label, kind in OBJECT_LABELS.items()
        if label in pod.labels and kind is not MpiJob
    ]
    named.append((MpiJob, mpi_job_name(pod)))
    parents: dict[int, Workload] = {}
    for parent in (owner, *(workloads.find(kind, pod.namespace, name) for kind, name in named if name)):
        if parent is not None:
            lineage = (parent, *makers_of(parent, workloads))
            parents.update((id(workload), workload) for workload in lineage)
    yield from parents.values()


def owning(owner: Owner, namespace: str, workloads: Workloads) -> Workload | None:
    """Return the object that owns a pod, None where it isn't known."""
    kind = OWNERS.get(owner.kind)
    workload = workloads.find(kind, namespace, owner.name) if kind is not None else None
    return workload if workload is not None and workload.uid == owner.uid else None


def makers_of(workload: Workload, workloads: Workloads) -> Iterator[Workload]:
    """Yield the known objects from which operators have made this one, the outermost first."""
    maker: Workload | None = None
    if isinstance(workload, Job) and workload.job_set:
        maker = workloads.find(JobSet, workload.namespace, workload.job_set)
    elif isinstance(workload, JobSet) and workload.made_of:
        maker = workloads.find(TrainJob, workload.namespace, workload.made_of)
    elif isinstance(workload, RayCluster) and workload.made_of:
        maker = workloads.find(RayJob, workload.namespace, workload.made_of)
    if maker is not None:
        yield from makers_of(maker, workloads)
        yield maker


def owner_topology(workloads: WorkloadIndex, pod: Pod) -> tuple[tuple[str, ...], int]:
    """Return what the pod's owners require of the gang's placement, in addition to what the pod itself requires.

    These are the node labels for which its PodGroup requires a single domain, and the size of its Job if that counts.
    """
    group = workloads.find(PodGroup, pod.namespace, pod.group) if pod.group else None
    return group.levels if group is not None else (), _job_size(workloads, pod) if sliced(pod) else 0


def _job_size(workloads: WorkloadIndex, pod: Pod) -> int:
    """Return the size of one Job of the replicated job, by its JobSet (for which the gang waits) or by the Job."""
    job_set = workloads.find(JobSet, pod.namespace, pod.labels.get(JOB_SET_NAME, ""))
    replicas = number(pod.labels.get(REPLICATED_JOB_REPLICAS, "")) or 0
    if job_set is not None and replicas:
        pods = job_set.sizes.get(pod.labels.get(REPLICATED_JOB, ""))
        if pods is not None:
            return pods // replicas
    job = workloads.find(Job, pod.namespace, pod.owner.name) if pod.owner is not None else None
    return job.pods if job is not None else 0
