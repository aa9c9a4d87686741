"""Link the pods of a group to their PodGroup, which `webhook.podgroups` creates once the pod exists.

If the API server serves no PodGroups, the group label alone makes the gang.
"""

from __future__ import annotations

from fluence_extender.model.coordination import CONSUMER
from fluence_extender.model.names import COSCHEDULING_GROUP, GROUP_LABEL, OWNER_SIZE_ANNOTATION
from fluence_extender.webhook.contract import AdmissionRequest, Context, GroupKind
from fluence_extender.webhook.declaration import PodDeclaration
from fluence_extender.webhook.draft import Draft
from fluence_extender.webhook.validity import OBJECT_NAME

SIZING_OWNERS = ("ReplicaSet", "StatefulSet")
"""Owners that say how many pods exist at once, and that the extender doesn't watch."""


def handle(draft: Draft, declared: PodDeclaration, request: AdmissionRequest, context: Context) -> None:
    """Record the gang's size by its owner and link the pod to its group. `quantum` links pods of a shared job."""
    gang = declared.role == CONSUMER if declared.role else declared.named
    if not gang:
        return
    if declared.size is None and declared.owner[0] in SIZING_OWNERS and request.owned is not None:
        draft.put("metadata", "annotations", OWNER_SIZE_ANNOTATION, value=str(max(request.owned.at_once, 1)))
    if not declared.role:
        link(draft, declared.group, context.groups)


def link(draft: Draft, group: str, kind: GroupKind) -> None:
    """Name the PodGroup ``group`` on the pod, in the way of the kind that is served."""
    if kind is GroupKind.NONE:
        return
    # The name is short enough, because it is the value of a label.
    if not OBJECT_NAME.fullmatch(group):
        draft.warn(
            f"label {GROUP_LABEL}={group} isn't a valid name for a PodGroup, so the gang has its label only: use lower "
            "case letters, digits, '-' and '.' to get a PodGroup"
        )
    elif kind is GroupKind.NATIVE:
        draft.put("spec", "schedulingGroup", value={"podGroupName": group})
    else:
        draft.put("metadata", "labels", COSCHEDULING_GROUP, value=group)
