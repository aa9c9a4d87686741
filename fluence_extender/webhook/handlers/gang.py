"""Link the pods of a group to their PodGroup, which `webhook.podgroups` creates once the pod exists.

If the API server serves no PodGroups, the group label alone makes the gang.
"""

from __future__ import annotations

from fluence_extender.model.names import COSCHEDULING_GROUP, GROUP_LABEL
from fluence_extender.model.syntax import is_object_name
from fluence_extender.webhook.contract import AdmissionRequest, Context, GroupKind
from fluence_extender.webhook.declaration import PodDeclaration
from fluence_extender.webhook.draft import Draft


def handle(draft: Draft, declared: PodDeclaration, request: AdmissionRequest, context: Context) -> None:
    """Link the pod to its group. `quantum` links pods of a shared job."""
    if declared.named and not declared.role:
        link(draft, declared.group, context.groups)


def link(draft: Draft, group: str, kind: GroupKind) -> None:
    """Name the PodGroup ``group`` on the pod, in the way of the kind that is served."""
    if kind is GroupKind.NONE:
        return
    if not is_object_name(group):
        draft.warn(
            f"label {GROUP_LABEL}={group} isn't a valid name for a PodGroup, so the gang has its label only: use lower "
            "case letters, digits, '-' and '.' to get a PodGroup"
        )
    elif kind is GroupKind.NATIVE:
        draft.put("spec", "schedulingGroup", value={"podGroupName": group})
    else:
        draft.put("metadata", "labels", COSCHEDULING_GROUP, value=group)
