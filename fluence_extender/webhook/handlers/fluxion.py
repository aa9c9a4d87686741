"""Pods that ask for virtual resources: the environment that names their backend and its attributes."""

from __future__ import annotations

from fluence_extender.model.coordination import CONSUMER, QPU
from fluence_extender.webhook.contract import Context, Request
from fluence_extender.webhook.draft import Draft
from fluence_extender.webhook.handlers.environment import add_variables, backend_variables
from fluence_extender.webhook.subject import Subject


def handle(draft: Draft, subject: Subject, request: Request, context: Context) -> None:
    """Give each container the environment of the pod's backend, or of its producer's."""
    own = subject.devices.keys() - ({QPU} if subject.role == CONSUMER else set())
    if own:
        add_variables(draft, backend_variables(context.resources, own))
    elif subject.role == CONSUMER:
        add_variables(draft, backend_variables(context.resources, (QPU,), consumer=True))
