"""The status of PodGroups, as patches: a native one's condition, the phase of one of scheduling.x-k8s.io; and of pods.

kube-scheduler writes the condition in its own gang cycle; where that is off, we do. Conditions are a list keyed by
type, so a strategic merge patch leaves everybody else's alone.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fluence_extender.model.notation import format_time
from fluence_extender.model.workload import CoschedulingGroup, MemberStatus, PodGroup

LONGEST_MESSAGE = 32_000
_EARLY = ("v1alpha1", "v1alpha2")


def condition_type(version: str) -> str:
    """``PodGroupScheduled`` up to v1alpha2 (Kubernetes 1.36), ``PodGroupInitiallyScheduled`` afterwards."""
    return "PodGroupScheduled" if version in _EARLY else "PodGroupInitiallyScheduled"


def status_path(listed: str, group: PodGroup) -> str:
    """The path of the group's status, from the path under which all groups are listed."""
    api, _, resource = listed.rpartition("/")
    return f"{api}/namespaces/{group.namespace}/{resource}/{group.name}/status"


def condition_patch(
    listed: str, group: PodGroup, scheduled: bool, reason: str, message: str, now: datetime | None = None
) -> dict[str, Any]:
    """The body of the patch; ``metadata.uid`` makes it fail for a namesake."""
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
                    "lastTransitionTime": format_time(now or datetime.now(UTC)),
                }
            ]
        },
    }


def waiting_condition(message: str) -> dict[str, Any]:
    """The condition of a gated pod. ``kubectl get`` shows its reason as the pod's status, so that stays what it was."""
    return {
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulingGated",
        "message": message[:LONGEST_MESSAGE],
    }


def members_patch(group: CoschedulingGroup, status: MemberStatus) -> dict[str, Any]:
    """The body of a merge patch; ``metadata.uid`` makes it fail for a namesake."""
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
