"""The admission of new pods, by our webhook's own rules, as on a cluster where the webhook also adds the gate.

Invariant: what an API server would store after it has applied the webhook's patch (RFC 6902) is what is admitted.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from fluence_extender.graph.virtual import VirtualResources
from fluence_extender.webhook.contract import AdmissionRequest, Context, Json, Operation
from fluence_extender.webhook.handlers import HANDLERS
from fluence_extender.webhook.mutate import mutate


def admit(pod: Json, resources: VirtualResources) -> Json:
    """Return the pod with its gate, and with what its devices and its gang need."""
    meta = pod["metadata"]
    request = AdmissionRequest(namespace=meta["namespace"], name=meta["name"])
    context = Context(resources=resources, gate_by_webhook=True)
    return patched(pod, mutate(pod, request, tuple(HANDLERS), context).patch)


def patched(document: Json, patch: Iterable[Operation]) -> Json:
    """Return a copy of ``document`` with the operations of ``patch`` applied in order. Raise `KeyError`."""
    result = copy.deepcopy(document)
    for operation in patch:
        *path, last = [step.replace("~1", "/").replace("~0", "~") for step in operation.path.split("/")[1:]]
        holder: Any = result
        for step in path:
            holder = holder[int(step)] if isinstance(holder, list) else holder[step]
        _apply(holder, last, operation)
    return result


def _apply(holder: Any, last: str, operation: Operation) -> None:
    at: Any = last
    if isinstance(holder, list):
        at = len(holder) if last == "-" else int(last)
    if operation.op == "remove":
        del holder[at]
    elif operation.op == "add" and isinstance(holder, list):
        holder.insert(at, copy.deepcopy(operation.value))
    else:
        holder[at] = copy.deepcopy(operation.value)
