"""The pods of a shared group that work on what its producer's quantum task gives.

They wait behind a gate until the task is about to run, and then come before pods of less weight. The device is the
producer's: a consumer's own request for it is dropped, so that it doesn't wait for a second one.
"""

from __future__ import annotations

from fluence_extender.model.coordination import (
    CONSUMER,
    CONSUMER_PRIORITY_CLASS,
    DEPENDS_ON_GATE,
    DEPENDS_ON_KIND,
    DEPENDS_ON_PRODUCER,
    QPU,
    QUANTUM_JOB_ID_ANNOTATION,
    QUANTUM_JOB_ID_VARIABLE,
    QUANTUM_SUBMIT,
    READY_GATE,
    ROLE_ANNOTATION,
    ROLE_VARIABLE,
    producer_group,
)
from fluence_extender.model.names import GROUP_LABEL, RESOURCE_PREFIX
from fluence_extender.webhook.contract import Context
from fluence_extender.webhook.draft import Draft
from fluence_extender.webhook.handlers.environment import add_variables, from_annotation, users_containers
from fluence_extender.webhook.handlers.gang import link
from fluence_extender.webhook.subject import Subject

ASKED = RESOURCE_PREFIX + QPU


def await_producer(draft: Draft, subject: Subject, context: Context) -> None:
    """Let the pod wait for its producer's task, and know of it when it starts."""
    draft.put("metadata", "labels", GROUP_LABEL, value=subject.group)
    for annotation, value in (
        (ROLE_ANNOTATION, CONSUMER),
        (DEPENDS_ON_KIND, QUANTUM_SUBMIT),
        (DEPENDS_ON_PRODUCER, producer_group(subject.group)),
        (DEPENDS_ON_GATE, READY_GATE),
    ):
        draft.put("metadata", "annotations", annotation, value=value)
    link(draft, subject.group, context.groups)
    gates = {gate.get("name") for gate in draft.spec.get("schedulingGates") or ()}
    if READY_GATE not in gates:
        draft.insert("spec", "schedulingGates", values=[{"name": READY_GATE}])
    _prioritise(draft, context)
    _drop_device(draft)
    add_variables(
        draft,
        [
            {"name": ROLE_VARIABLE, "value": CONSUMER},
            from_annotation(QUANTUM_JOB_ID_VARIABLE, QUANTUM_JOB_ID_ANNOTATION),
        ],
    )


def _prioritise(draft: Draft, context: Context) -> None:
    """Name the class of consumers where the user names none; the number of the class before it would contradict it."""
    if draft.spec.get("priorityClassName"):
        return
    if not context.priority_class:
        draft.warn(
            f"there is no PriorityClass {CONSUMER_PRIORITY_CLASS}, so this consumer won't come before others once it "
            "is released: install it (deploy/), or name a class of your own"
        )
        return
    draft.put("spec", "priorityClassName", value=CONSUMER_PRIORITY_CLASS)
    for field in ("priority", "preemptionPolicy"):
        if field in draft.spec:
            draft.remove("spec", field)


def _drop_device(draft: Draft) -> None:
    for path, container in users_containers(draft):
        for field in ("requests", "limits"):
            if ASKED in ((container.get("resources") or {}).get(field) or {}):
                draft.remove(*path, "resources", field, ASKED)
