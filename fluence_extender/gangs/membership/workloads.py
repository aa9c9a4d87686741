"""The objects that state how large gangs are and where they may be placed, and which memberships depend on which.

Invariants: a membership depends on each name and each kind of object that was looked up when it was computed, and all
of these are recorded. If one of the objects can't be read, the size isn't known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from fluence_extender.gangs.membership.conventions import recognize
from fluence_extender.gangs.membership.conventions.membership import Membership, Workloads, number
from fluence_extender.model.multimap import Multimap
from fluence_extender.model.names import JOB_SET_NAME, REPLICATED_JOB, REPLICATED_JOB_REPLICAS
from fluence_extender.model.pod import Pod, revision
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.model.workload import (
    CoschedulingGroup,
    Job,
    JobSet,
    PodGroup,
    RayJob,
    ResumableObject,
    Workload,
)
from fluence_extender.placement.topology_constraints import sliced

Found = TypeVar("Found", bound=Workload)
Name = tuple[str, str]
Ref = Name | type
"""A name, for all objects that have it, or a kind, for whether the cluster serves it."""


class WorkloadIndex:
    """Workloads by kind and name.

    Each change returns the uids of the pods whose memberships have to be computed anew. ``rule`` computes a membership.
    """

    def __init__(self, rule: Callable[[Pod, Workloads], Membership] = recognize) -> None:
        self._rule = rule
        self._objects: dict[type, dict[Name, Workload]] = {}
        self._unserved: set[type[Workload]] = set()
        self._dependents: Multimap[Ref, str] = Multimap()
        self._dependencies: dict[str, tuple[Ref, ...]] = {}
        self._first_seen: dict[str, int] = {}
        self.revision = 0
        """Grows when an object comes, goes or changes."""

    def copy(self) -> WorkloadIndex:
        """Return a copy with the same objects, for look-ups alone."""
        copied = WorkloadIndex(self._rule)
        copied._objects = {kind: dict(objects) for kind, objects in self._objects.items()}
        copied._unserved, copied._first_seen = set(self._unserved), dict(self._first_seen)
        copied.revision = self.revision
        return copied

    def find(self, kind: type[Found], namespace: str, name: str) -> Found | None:
        """Return the object of that name, or None while it isn't known."""
        found = self._objects.get(kind, {}).get((namespace, name))
        return found if isinstance(found, kind) else None

    def owning_job(self, pod: Pod) -> Job | None:
        """Return the Job that controls the pod, None where none does or it isn't known."""
        owner = pod.owner
        found = self.find(Job, pod.namespace, owner.name) if owner and owner.is_a("Job", "batch") else None
        return found if found is not None and owner is not None and found.uid == owner.uid else None

    def all(self, kind: type[Workload]) -> dict[Name, Workload]:
        """Return all known objects of a kind."""
        return dict(self._objects.get(kind, {}))

    def served(self, kind: type[Workload]) -> bool:
        """Return whether the cluster serves such objects; True until the opposite is known."""
        return kind not in self._unserved

    def membership(self, pod: Pod) -> Membership:
        """Return the pod's membership now, and record which objects it depends on."""
        recorder = _Recorder(self)
        membership = self._rule(pod, recorder)
        if recorder.problem:
            membership = replace(membership, size=Reason(ReasonCode.INVALID_REQUEST, recorder.problem))
        dependencies = tuple(dict.fromkeys(recorder.lookups))
        if dependencies != self._dependencies.get(pod.uid, ()):
            self.forget(pod.uid)
            if dependencies:
                self._dependencies[pod.uid] = self._shared(dependencies)
            for ref in self._dependencies.get(pod.uid, ()):
                self._dependents.add(ref, pod.uid)
        return membership

    def _shared(self, dependencies: tuple[Ref, ...]) -> tuple[Ref, ...]:
        """Return the equal tuple of another pod if a look-up finds one, so that the pods of a gang share one tuple."""
        other = next(iter(self._dependents.of(dependencies[0])), "")
        known = self._dependencies.get(other, ())
        return known if known == dependencies else dependencies

    def forget(self, uid: str) -> None:
        """Forget what the pod depended on."""
        for ref in self._dependencies.pop(uid, ()):
            self._dependents.discard(ref, uid)

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
        if isinstance(workload, ResumableObject):
            self._first_seen.setdefault(workload.uid, revision(workload.version))
        return self._touched(workload) if changed else []

    def first_seen(self, workload: ResumableObject) -> int:
        """Return the resourceVersion at which a workload was first seen, 0 if it was there when the service started."""
        return self._first_seen.get(workload.uid, revision(workload.version))

    def begin(self) -> None:
        """Take all workloads that are known as older than those to come: their names order those of the same second."""
        self._first_seen = dict.fromkeys(self._first_seen, 0)

    def drop(self, workload: Workload) -> list[str]:
        """Forget an object; return the pods to look at again."""
        name = workload.namespace, workload.name
        gone = self._objects.get(type(workload), {}).pop(name, None)
        self._first_seen.pop(workload.uid, None)
        self.revision += 1
        return self._touched(gone) if gone is not None else []

    def replace(self, kind: type[Workload], objects: Iterable[Workload], served: bool) -> list[str]:
        """Take in a whole list of one kind; return the pods to look at again because of a difference."""
        listed = {(one.namespace, one.name): one for one in objects}
        gone = [one for name, one in self._objects.get(kind, {}).items() if name not in listed]
        touched = [uid for one in gone for uid in self.drop(one)]
        touched += [uid for one in listed.values() for uid in self.put(one)]
        if served is (kind in self._unserved):
            (self._unserved.discard if served else self._unserved.add)(kind)
            touched += self._on(kind)
        return touched

    def _touched(self, workload: Workload) -> list[str]:
        names = [workload.name, workload.cluster] if isinstance(workload, RayJob) else [workload.name]
        return [uid for name in names for uid in self._on((workload.namespace, name))]

    def _on(self, ref: Ref) -> list[str]:
        return sorted(self._dependents.of(ref))


class _Recorder:
    """Looks up objects in an index and records each look-up; ``problem`` says which one can't be read, and why."""

    def __init__(self, index: WorkloadIndex) -> None:
        self._index = index
        self.lookups: list[Ref] = []
        self.problem = ""

    def find(self, kind: type[Found], namespace: str, name: str) -> Found | None:
        self.lookups.append((namespace, name))
        found = self._index.find(kind, namespace, name)
        if found is not None and found.problem:
            named = "PodGroup" if kind is CoschedulingGroup else kind.__name__
            self.problem = f"{named} {namespace}/{name} can't be read: {found.problem}"
        return found

    def served(self, kind: type[Workload]) -> bool:
        self.lookups.append(kind)
        return self._index.served(kind)


def owner_topology(workloads: WorkloadIndex, pod: Pod) -> tuple[tuple[str, ...], int]:
    """Return what the pod's owners require of the gang's placement, in addition to what the pod itself requires.

    These are the node labels for which its PodGroup requires a single domain, and the size of its Job if that counts.
    """
    group = workloads.find(PodGroup, pod.namespace, pod.group) if pod.group else None
    return group.levels if group is not None else (), _job_size(workloads, pod) if sliced(pod) else 0


def _job_size(workloads: WorkloadIndex, pod: Pod) -> int:
    """Return the pods of one Job of the replicated job, by its JobSet (which the gang waits for) or by the Job."""
    job_set = workloads.find(JobSet, pod.namespace, pod.labels.get(JOB_SET_NAME, ""))
    replicas = number(pod.labels.get(REPLICATED_JOB_REPLICAS, "")) or 0
    if job_set is not None and replicas:
        pods = job_set.sizes.get(pod.labels.get(REPLICATED_JOB, ""))
        if pods is not None:
            return pods // replicas
    job = workloads.find(Job, pod.namespace, pod.owner.name) if pod.owner is not None else None
    return job.pods if job is not None else 0
