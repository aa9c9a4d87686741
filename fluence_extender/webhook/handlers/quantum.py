"""Coordinate quantum jobs: pods that request a qpu, and pods that wait for the task of such a pod.

    role        what the pod gets
    (none)      the interceptor; with observe=true also the sidecar, which only watches
    producer    group <g>-producer, the interceptor, and the sidecar, which releases the consumers of <g>
    consumer    group <g>, the gate quantum.braket/ready, a priority class, what it depends on

A grouped pod without a role is an ordinary member of its gang. Consumers wait behind their gate until the task is about
to run, and then come before pods of lower priority. The device belongs to the producer: a consumer's own request for it
is dropped, so that the consumer doesn't wait for a second device.
"""

from __future__ import annotations

from fluence_extender.model.coordination import (
    CONSUMER,
    CONSUMER_PRIORITY_CLASS,
    DEPENDS_ON_GATE,
    DEPENDS_ON_KIND,
    DEPENDS_ON_PRODUCER,
    PRODUCER,
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
from fluence_extender.webhook.containers import add_variables, from_annotation, users_containers
from fluence_extender.webhook.contract import AdmissionRequest, Context
from fluence_extender.webhook.declaration import PodDeclaration
from fluence_extender.webhook.draft import Draft
from fluence_extender.webhook.handlers.gang import link
from fluence_extender.webhook.handlers.interceptor import add_interceptor
from fluence_extender.webhook.handlers.sidecar import add_sidecar

DEVICE = RESOURCE_PREFIX + QPU


def handle(draft: Draft, declared: PodDeclaration, request: AdmissionRequest, context: Context) -> None:
    """Give the pod what its role needs."""
    if declared.role == CONSUMER:
        _make_consumer(draft, declared, context)
        return
    if not declared.quantum:
        return
    if declared.role == PRODUCER:
        _make_producer(draft, declared, context)
    if declared.role == PRODUCER or declared.observed:
        add_sidecar(draft, declared, request, context)
    add_interceptor(draft, request, context)


def _make_producer(draft: Draft, declared: PodDeclaration, context: Context) -> None:
    """Make the pod a gang of its own, apart from the gang of its consumers."""
    group = producer_group(declared.group)
    draft.put("metadata", "labels", GROUP_LABEL, value=group)
    draft.put("metadata", "annotations", ROLE_ANNOTATION, value=PRODUCER)
    link(draft, group, context.groups)
    add_variables(draft, [{"name": ROLE_VARIABLE, "value": PRODUCER}])


def _make_consumer(draft: Draft, declared: PodDeclaration, context: Context) -> None:
    """Let the pod wait for its producer's task, and know the task when it starts."""
    draft.put("metadata", "labels", GROUP_LABEL, value=declared.group)
    for annotation, value in (
        (ROLE_ANNOTATION, CONSUMER),
        (DEPENDS_ON_KIND, QUANTUM_SUBMIT),
        (DEPENDS_ON_PRODUCER, producer_group(declared.group)),
        (DEPENDS_ON_GATE, READY_GATE),
    ):
        draft.put("metadata", "annotations", annotation, value=value)
    link(draft, declared.group, context.groups)
    draft.add_gate(READY_GATE)
    _prioritize(draft, context)
    _drop_device(draft)
    add_variables(
        draft,
        [
            {"name": ROLE_VARIABLE, "value": CONSUMER},
            from_annotation(QUANTUM_JOB_ID_VARIABLE, QUANTUM_JOB_ID_ANNOTATION),
        ],
    )


def _prioritize(draft: Draft, context: Context) -> None:
    """Name the priority class of consumers if the user names none.

    The priority that the API server has filled in is removed, because it would refuse a pod whose priority contradicts
    its class.
    """
    if draft.spec.get("priorityClassName"):
        return
    if not context.priority_class:
        draft.warn(
            f"there is no PriorityClass {CONSUMER_PRIORITY_CLASS}, so this consumer has no precedence over other pods "
            "once it is released: install the class (deploy/), or name one of your own"
        )
        return
    draft.put("spec", "priorityClassName", value=CONSUMER_PRIORITY_CLASS)
    for field in ("priority", "preemptionPolicy"):
        if field in draft.spec:
            draft.remove("spec", field)


def _drop_device(draft: Draft) -> None:
    for path, container in users_containers(draft):
        for field in ("requests", "limits"):
            if DEVICE in ((container.get("resources") or {}).get(field) or {}):
                draft.remove(*path, "resources", field, DEVICE)
