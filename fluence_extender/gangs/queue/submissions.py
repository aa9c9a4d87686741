"""The submission of a gang: its workload's annotations first, then those of its pods.

So one annotation on a Job holds all its pods, or releases them even if their template says otherwise. Who submitted a
gang is read only from objects on which admission guards the record: the outermost workload of its pods, and pods
without a controller.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.workloads import WorkloadIndex, made_of, owning
from fluence_extender.model.gang import Convention
from fluence_extender.model.names import (
    AFTER_ANNOTATION,
    HOLD_ANNOTATION,
    LWS_NAME,
    MET_ANNOTATION,
    USER_ANNOTATION,
)
from fluence_extender.model.pod import Owner
from fluence_extender.model.submission import NO_RECORD, NOTHING_SAID, Submission, recorded_met
from fluence_extender.model.workload import (
    CoschedulingGroup,
    JobSet,
    LeaderWorkerSet,
    MpiJob,
    PodGroup,
    RayCluster,
    Workload,
)

NAMED_BY: dict[Convention, type[Workload]] = {
    Convention.POD_GROUP: PodGroup,
    Convention.COSCHEDULING: CoschedulingGroup,
    Convention.LEADER_WORKER_SET: LeaderWorkerSet,
    Convention.RAY_CLUSTER: RayCluster,
    Convention.MPI_JOB: MpiJob,
    Convention.JOB_SET: JobSet,
}
"""The kinds of objects after which gangs are named."""

UNGUARDED = (PodGroup, CoschedulingGroup)
"""The kinds on which admission records no user."""

MOST_OWNERS = 64
"""The most owners of one gang's pods that are looked at."""


def submission_of(gang: Gang, workloads: WorkloadIndex) -> Submission:
    """Return the gang's submission."""
    alive = gang.alive()
    found = NOTHING_SAID
    for workload in objects_of(gang, alive, workloads):
        submission = workload.submission
        found = found.over(replace(submission, user=None) if isinstance(workload, UNGUARDED) else submission)
    return found.over(_of_pods(alive))


def objects_of(gang: Gang, alive: Iterable[Member], workloads: WorkloadIndex) -> Iterator[Workload]:
    """Yield the known workloads of a gang with these living members, each once, the outermost first."""
    namespace = gang.key.namespace
    kind = NAMED_BY.get(gang.key.convention)
    owners: dict[Owner, None] = {}
    named = gang.key.name
    for member in alive:
        if kind is LeaderWorkerSet:
            named = member.pod.labels.get(LWS_NAME, "")
        if member.pod.owner is not None:
            owners[member.pod.owner] = None
    top = workloads.find(kind, namespace, named) if kind is not None else None
    nearest = sorted(owners, key=lambda one: (one.kind, one.name))[:MOST_OWNERS]
    known: set[int] = set()
    for thing in (top, *(owning(owner, namespace, workloads) for owner in nearest)):
        if thing is not None:
            for one in (*made_of(thing, workloads), thing):
                if id(one) not in known:
                    known.add(id(one))
                    yield one


def _of_pods(alive: Iterable[Member]) -> Submission:
    """Return the submission that pods state. One held pod holds the gang; otherwise the oldest pod counts."""
    hold = after = user = None
    met = NO_RECORD
    first: dict[str, tuple[float, str]] = {}
    for member in alive:
        pod = member.pod
        annotations = pod.annotations
        age = (pod.created, pod.name)
        if (text := annotations.get(HOLD_ANNOTATION)) is not None and (hold is None or text != "false"):
            hold = text
        if (text := annotations.get(AFTER_ANNOTATION)) is not None and age < first.get(
            "after", (age[0] + 1, "")
        ):
            after, first["after"] = text, age
        if MET_ANNOTATION in annotations:
            met |= recorded_met(annotations, pod.uid)
        text = annotations.get(USER_ANNOTATION) if pod.owner is None else None
        if text is not None and age < first.get("user", (age[0] + 1, "")):
            user, first["user"] = text, age
    if not met and hold is after is user is None:
        return NOTHING_SAID
    return Submission(hold, after, user, met=met)
