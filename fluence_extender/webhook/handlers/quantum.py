"""Pods that ask for a qpu, and those that wait for what such pods submit.

    role        what it gets
    (none)      the interceptor; with observe=true the sidecar, which only watches
    producer    group <g>-producer, the interceptor, the sidecar, which releases the consumers of <g>
    consumer    group <g>, the gate quantum.braket/ready, priority, what it depends on; its qpu is the producer's

A grouped pod without a role is a member of its gang like any other.
"""

from __future__ import annotations

from fluence_extender.model.coordination import CONSUMER, PRODUCER
from fluence_extender.webhook.contract import Context, Request
from fluence_extender.webhook.draft import Draft
from fluence_extender.webhook.handlers.consumer import await_producer
from fluence_extender.webhook.handlers.interceptor import intercept
from fluence_extender.webhook.handlers.producer import lead
from fluence_extender.webhook.handlers.sidecar import add_sidecar
from fluence_extender.webhook.subject import Subject


def handle(draft: Draft, subject: Subject, request: Request, context: Context) -> None:
    """Give the pod what its role needs."""
    if subject.role == CONSUMER:
        await_producer(draft, subject, context)
        return
    if not subject.quantum:
        return
    if subject.role == PRODUCER:
        lead(draft, subject, context)
    if subject.role == PRODUCER or subject.observed:
        add_sidecar(draft, subject, request, context)
    intercept(draft, request, context)
