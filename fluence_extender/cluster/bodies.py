"""The paths and bodies of writes: PodGroups, conditions of pods and Jobs, node affinity, and Jobs with their pods.

A patch carries ``metadata.uid``, so that it fails for another object that took the name. Conditions are a list keyed by
type, so a strategic merge patch leaves the conditions of other writers alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from fluence_extender.kinds.job import Job
from fluence_extender.kinds.podgroups import CoschedulingGroup, MemberStatus, PodGroup
from fluence_extender.kinds.resumable import Resumable
from fluence_extender.model.names import (
    ASKS_FOR_NODES,
    CREATED_BY_ANNOTATION,
    GROUP_LABEL,
    MET_ANNOTATION,
    NODES_ANNOTATION,
    PLACED_ANNOTATION,
    QUEUED_SINCE_ANNOTATION,
    SUSPENDED_FOR_ANNOTATION,
    SUSPENDED_FOR_PLACEMENT,
    UNSATISFIABLE_CONDITION,
    WEBHOOK_NAME,
)
from fluence_extender.model.notation import format_micro_time, format_time
from fluence_extender.model.pod import Owner
from fluence_extender.model.submission import met_record
from fluence_extender.objects.queues import NodeReservation, PastUse, Queue, QueueStatus, ReservationStatus

AnyPodGroup = PodGroup | CoschedulingGroup

LONGEST_MESSAGE = 32_000

_EARLY_VERSIONS = ("v1alpha1", "v1alpha2")


def pod_group_path(listed: str, namespace: str, name: str = "") -> str:
    """Return the path of a PodGroup, or of its namespace's PodGroups; ``listed`` is the path that lists all of them."""
    api, _, resource = listed.rpartition("/")
    collection = f"{api}/namespaces/{namespace}/{resource}"
    return f"{collection}/{name}" if name else collection


def pod_group_spec(kind: type[AnyPodGroup], size: int) -> dict[str, Any]:
    """Return the spec of a PodGroup of this size."""
    return {"schedulingPolicy": {"gang": {"minCount": size}}} if kind is PodGroup else {"minMember": size}


def pod_group_manifest(
    listed: str, kind: type[AnyPodGroup], name: tuple[str, str], size: int, owner: Owner | None
) -> dict[str, Any]:
    """Return a new PodGroup; ``name`` is its namespace and name, ``listed`` the path that lists all PodGroups."""
    metadata: dict[str, Any] = {
        "name": name[1],
        "namespace": name[0],
        "labels": {"app": "fluence", GROUP_LABEL: name[1]},
        "annotations": {CREATED_BY_ANNOTATION: WEBHOOK_NAME},
    }
    if owner is not None:
        reference = {
            "apiVersion": owner.api_version,
            "kind": owner.kind,
            "name": owner.name,
            "uid": owner.uid,
        }
        metadata["ownerReferences"] = [reference]
    version = listed.removeprefix("/apis/").rpartition("/")[0]
    spec = pod_group_spec(kind, size)
    return {"apiVersion": version, "kind": "PodGroup", "metadata": metadata, "spec": spec}


def condition_type(version: str) -> str:
    """Return ``PodGroupScheduled`` up to v1alpha2 (Kubernetes 1.36), ``PodGroupInitiallyScheduled`` afterwards."""
    return "PodGroupScheduled" if version in _EARLY_VERSIONS else "PodGroupInitiallyScheduled"


def pod_group_condition(
    listed: str, group: PodGroup, scheduled: bool, reason: str, message: str
) -> dict[str, Any]:
    """Return the patch that sets the condition of a native PodGroup.

    kube-scheduler writes this condition in its own gang cycle; the service writes it where that cycle is off.
    """
    version = listed.rpartition("/")[0].rpartition("/")[2]
    return {
        "metadata": {"uid": group.uid},
        "status": {
            "conditions": [
                {
                    "type": condition_type(version),
                    "status": "True" if scheduled else "False",
                    "reason": reason,
                    "message": message[:LONGEST_MESSAGE],
                    "lastTransitionTime": format_time(datetime.now(UTC)),
                }
            ]
        },
    }


def waiting_condition(message: str, asks_since: float = 0.0) -> dict[str, Any]:
    """Return the condition of a gated pod, which asks autoscalers for nodes since ``asks_since``, 0 if it doesn't.

    ``kubectl get`` shows the reason of this condition as the pod's status, so the reason stays the API server's own.
    Autoscalers add nodes for pods whose reason is Unschedulable, and ignore gates.
    """
    if asks_since:
        return {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": f"{ASKS_FOR_NODES}{message}"[:LONGEST_MESSAGE],
            "lastTransitionTime": format_time(datetime.fromtimestamp(asks_since, UTC)),
        }
    return {
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulingGated",
        "message": message[:LONGEST_MESSAGE],
    }


def job_condition(job: Job, why: str) -> dict[str, Any]:
    """Return the patch that sets the condition of a Job: ``why`` its pods can't be placed, "" if they can."""
    condition = {
        "type": UNSATISFIABLE_CONDITION,
        "status": "True" if why else "False",
        "reason": "Unsatisfiable" if why else "Satisfiable",
        "message": why[:LONGEST_MESSAGE],
    }
    if bool(why) != bool(job.unsatisfiable):
        condition["lastTransitionTime"] = format_time(datetime.now(UTC))
    return {"metadata": {"uid": job.uid}, "status": {"conditions": [condition]}}


def members_patch(group: CoschedulingGroup, status: MemberStatus) -> dict[str, Any]:
    """Return the merge patch that sets the status of a PodGroup of scheduling.x-k8s.io."""
    fields: dict[str, Any] = {
        "phase": status.phase,
        "running": status.running,
        "succeeded": status.succeeded,
        "failed": status.failed,
    }
    if status.occupied_by:
        fields["occupiedBy"] = status.occupied_by
    if status.schedule_start:
        fields["scheduleStartTime"] = status.schedule_start
    return {"metadata": {"uid": group.uid}, "status": fields}


def queue_patch(queue: Queue, status: QueueStatus) -> dict[str, Any]:
    """Return the merge patch that sets the status of a Queue."""
    counts = {"waiting": status.waiting, "admitted": status.admitted}
    stopped = status.stopped_since
    since = None if stopped is None else format_time(datetime.fromtimestamp(stopped, UTC))
    conditions = [_accepted(status.problem, status.since)]
    fields: dict[str, Any] = {**counts, "stoppedSince": since, "conditions": conditions}
    before = queue.status
    fields["used"] = _replaced(before.used, status.used)
    fields["borrowed"] = _replaced(before.borrowed, status.borrowed)
    fields["share"] = status.share
    if status.past is not None:
        fields["usage"] = _usage(status.past, before.past)
    return {"metadata": {"uid": queue.uid}, "status": fields}


def _usage(past: PastUse, before: PastUse | None) -> dict[str, Any]:
    users = {} if before is None else before.users
    return {
        "at": format_micro_time(datetime.fromtimestamp(past.at, UTC)),
        "amounts": _replaced({} if before is None else before.amounts, past.amounts),
        "users": {
            **dict.fromkeys(name for name in users if name not in past.users),
            **{name: _replaced(users.get(name, {}), amounts) for name, amounts in past.users.items()},
        },
    }


def _replaced(before: Mapping[str, object], now: Mapping[str, object]) -> dict[str, object]:
    """Return the entries of a merge patch that changes a map from ``before`` to ``now``."""
    return {**dict.fromkeys(before), **now}


def reservation_patch(reservation: NodeReservation, status: ReservationStatus) -> dict[str, Any]:
    """Return the merge patch that sets the status of a Reservation."""
    fields = {"nodes": status.nodes, "conditions": [_accepted(status.problem, status.since)]}
    return {"metadata": {"uid": reservation.uid}, "status": fields}


def _accepted(problem: str, since: str) -> dict[str, Any]:
    """Return the condition that says whether all of a Queue or Reservation is in force."""
    return {
        "type": "Accepted",
        "status": "False" if problem else "True",
        "reason": "PartlyIgnored" if problem else "InForce",
        "message": problem[:LONGEST_MESSAGE] or "all of it is in force",
        "lastTransitionTime": since,
    }


def resume_patch(workload: Resumable, spec: dict[str, Any]) -> dict[str, Any]:
    """Return the merge patch that resumes a workload in the observed version; ``spec`` are its changes to the spec."""
    return {
        "metadata": {**_observed(workload), "annotations": {SUSPENDED_FOR_ANNOTATION: None}},
        "spec": spec,
    }


def plan_patch(nodes: Sequence[str], placed_with: str, bound_until: float | None) -> dict[str, Any]:
    """Return the part of a Job's spec that names the nodes of its pods by index.

    ``bound_until`` is until when the API server binds the pods that it creates, in seconds since the epoch; with None
    it binds none.
    """
    named = ",".join(nodes)
    if named and bound_until is not None:
        named += f";{format_time(datetime.fromtimestamp(bound_until, UTC))}"
    note = {NODES_ANNOTATION: named or None, PLACED_ANNOTATION: placed_with or None}
    return {"template": {"metadata": {"annotations": note}}}


def hold_patch(workload: Resumable, spec: dict[str, Any], queued_since: tuple[float, int]) -> dict[str, Any]:
    """Return the merge patch that suspends a workload in the observed version, held for placement.

    ``spec`` are its changes to the spec.
    """
    since = format_time(datetime.fromtimestamp(queued_since[0], UTC))
    held = {SUSPENDED_FOR_ANNOTATION: SUSPENDED_FOR_PLACEMENT, QUEUED_SINCE_ANNOTATION: since}
    return {"metadata": {**_observed(workload), "annotations": held}, "spec": spec}


def note_patch(job: Resumable, met: Collection[str]) -> dict[str, Any]:
    """Return the merge patch that records the dependencies of a workload that were ``met``."""
    return {"metadata": {"uid": job.uid, "annotations": {MET_ANNOTATION: met_record(job.uid, met)}}}


def _observed(workload: Resumable) -> dict[str, Any]:
    return {"uid": workload.uid, "resourceVersion": workload.version}
