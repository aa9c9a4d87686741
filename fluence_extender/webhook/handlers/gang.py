"""Pods of a group: the link to its PodGroup, which `webhook.podgroups` makes once the pod exists.

Where no PodGroups are served, the label is the link.
"""

from __future__ import annotations

from fluence_extender.model.coordination import CONSUMER
from fluence_extender.model.names import COSCHEDULING_GROUP, GROUP_LABEL, OWNER_SIZE_ANNOTATION
from fluence_extender.webhook.contract import Context, GroupKind, Request
from fluence_extender.webhook.draft import Draft
from fluence_extender.webhook.subject import Subject
from fluence_extender.webhook.validity import OBJECT_NAME

SIZING_OWNERS = ("ReplicaSet", "StatefulSet")
"""Owners that say how many pods there are to be at once, and that placement doesn't watch."""


def handle(draft: Draft, subject: Subject, request: Request, context: Context) -> None:
    """Note how large its owner makes the gang, and link the pod to it; one of a shared job is linked already."""
    gang = subject.role == CONSUMER if subject.role else subject.named
    if not gang:
        return
    if subject.size is None and subject.owner[0] in SIZING_OWNERS and request.owned is not None:
        draft.put("metadata", "annotations", OWNER_SIZE_ANNOTATION, value=str(max(request.owned.at_once, 1)))
    if not subject.role:
        link(draft, subject.group, context.groups)


def link(draft: Draft, group: str, kind: GroupKind) -> None:
    """Name the PodGroup ``group`` on the pod, in the way of the kind that is served."""
    if kind is GroupKind.NONE:
        return
    # That the name is short enough follows from its being a label's value.
    if not OBJECT_NAME.fullmatch(group):
        draft.warn(
            f"label {GROUP_LABEL}={group} can't be a PodGroup's name, so the gang is known by its label alone: use "
            "lower case letters, digits, '-' and '.' to get a PodGroup"
        )
    elif kind is GroupKind.NATIVE:
        draft.put("spec", "schedulingGroup", value={"podGroupName": group})
    else:
        draft.put("metadata", "labels", COSCHEDULING_GROUP, value=group)
