"""The pod of a shared group that submits its quantum task."""

from __future__ import annotations

from fluence_extender.model.coordination import PRODUCER, ROLE_ANNOTATION, ROLE_VARIABLE, producer_group
from fluence_extender.model.names import GROUP_LABEL
from fluence_extender.webhook.contract import Context
from fluence_extender.webhook.draft import Draft
from fluence_extender.webhook.handlers.environment import add_variables
from fluence_extender.webhook.handlers.gang import link
from fluence_extender.webhook.subject import Subject


def lead(draft: Draft, subject: Subject, context: Context) -> None:
    """Make the pod a gang of its own, beside that of its consumers."""
    group = producer_group(subject.group)
    draft.put("metadata", "labels", GROUP_LABEL, value=group)
    draft.put("metadata", "annotations", ROLE_ANNOTATION, value=PRODUCER)
    link(draft, group, context.groups)
    add_variables(draft, [{"name": ROLE_VARIABLE, "value": PRODUCER}])
