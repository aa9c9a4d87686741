"""The admission of new pods, by our webhook's own rules, as on a cluster where the webhook also adds the gate.

A pod whose Job names its node gets that node instead of the gate, as by ``deploy/base/gate.yaml``.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from fluence_extender.cluster.decode.pod import decode_pod
from fluence_extender.gangs.lifecycle.pins import pinning
from fluence_extender.graph.virtual import VirtualResources
from fluence_extender.model.names import (
    COMPLETION_INDEX,
    GATE,
    NODES_ANNOTATION,
)
from fluence_extender.model.pod import Pod
from fluence_extender.webhook.contract import AdmissionRequest, Context, Json
from fluence_extender.webhook.handlers import HANDLERS
from fluence_extender.webhook.mutate import mutate
from fluence_extender.whatif.documents import as_json


def admit(pod: Json, resources: VirtualResources, gated_jobs: Collection[str] = ()) -> Pod:
    """Return the new pod with its gate or its node, and with what its devices and its gang need.

    ``gated_jobs`` are the uids of Jobs whose pods are gated whatever nodes they name.
    """
    meta = _without_note(pod["metadata"], NODES_ANNOTATION)
    request = AdmissionRequest(namespace=meta["namespace"], name=meta["name"])
    context = Context(resources=resources, gate_by_webhook=True)
    asked = {**pod, "metadata": meta}
    admitted = decode_pod(as_json(mutate(asked, request, tuple(HANDLERS), context).pod or asked))
    node = _birth_node(admitted, pod["metadata"], gated_jobs)
    if not node:
        return admitted
    gates = tuple(gate for gate in admitted.gates if gate != GATE)
    return replace(admitted, gates=gates, affinity=pinning(admitted, node, ()))


def _birth_node(pod: Pod, created: Json, gated_jobs: Collection[str]) -> str:
    """Return the node that the pod's Job names for its index, "" where it keeps the gate.

    ``created`` is the metadata with which the pod was to be created.
    """
    index = pod.annotations.get(COMPLETION_INDEX, "")
    owned = pod.owner is not None and pod.owner.is_a("Job", "batch") and pod.owner.uid not in gated_jobs
    if not pod.ours or pod.node or not owned or not index.isdecimal():
        return ""
    nodes = (created.get("annotations") or {}).get(NODES_ANNOTATION, "").split(",")
    return nodes[int(index)] if int(index) < len(nodes) else ""


def _without_note(meta: Json, key: str) -> Json:
    """Return metadata without the annotation."""
    notes: dict[str, Any] = meta.get("annotations") or {}
    if key not in notes:
        return meta
    return {**meta, "annotations": {name: text for name, text in notes.items() if name != key}}
