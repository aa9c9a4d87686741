"""The admission of new pods, by our webhook's own rules, as on a cluster where the webhook also adds the gate."""

from __future__ import annotations

from fluence_extender.graph.virtual import VirtualResources
from fluence_extender.webhook.contract import AdmissionRequest, Context, Json
from fluence_extender.webhook.handlers import HANDLERS
from fluence_extender.webhook.mutate import mutate


def admit(pod: Json, resources: VirtualResources) -> Json:
    """Return the pod with its gate, and with what its devices and its gang need. The given pod isn't changed."""
    meta = pod["metadata"]
    request = AdmissionRequest(namespace=meta["namespace"], name=meta["name"])
    context = Context(resources=resources, gate_by_webhook=True)
    return mutate(pod, request, tuple(HANDLERS), context).pod or pod
