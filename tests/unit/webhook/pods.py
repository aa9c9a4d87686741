"""Pods as the API server sends them to a webhook, and their patched form."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import jsonpatch
import msgspec

from fluence_extender.graph.resources_file import parse_resources
from fluence_extender.model.coordination import COORDINATION_ANNOTATION, OBSERVE_LABEL
from fluence_extender.model.names import GROUP_LABEL, GROUP_SIZE_ANNOTATION
from fluence_extender.model.pod_keys import UNSIZED
from fluence_extender.webhook.contract import AdmissionRequest, Context, GroupKind, Outcome
from fluence_extender.webhook.mutate import mutate

Json = dict[str, Any]

QPU = "fluxion.flux-framework.org/qpu"
QUBIT = "fluxion.flux-framework.org/qubit"
INDEX = "batch.kubernetes.io/job-completion-index"
ALL = ("fluxion", "quantum", "gang")
RESOURCES = parse_resources(
    "resources: [{type: qdevice, name: ibm_fez, attributes: {vendor: ibm, qrmi_type: qiskit-runtime-service}, "
    "with: [{type: qpu, with: [{type: qubit, count: 156}]}]}]"
)
CONTEXT = Context(resources=RESOURCES, groups=GroupKind.NATIVE)
REQUEST = AdmissionRequest("lab", "p", uid="r1")


def container(name: str = "app", asks: Mapping[str, str] | None = None, **fields: Any) -> Json:
    """Return a container as the API server stores it; extended resources are requested and limited."""
    extended = {key: value for key, value in (asks or {}).items() if "/" in key}
    resources = {"requests": dict(asks or {}), "limits": extended} if asks else {}
    return {"name": name, "image": "registry.example/app", "resources": resources, **fields}


def pod(
    *containers: Json,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    owner: tuple[str, str] | None = None,
    scheduler: str = "fluence",
    **spec: Any,
) -> Json:
    """Return a pod; ``owner`` is kind and name of its controller."""
    metadata: Json = {"generateName": "p-", "namespace": "lab"}
    if labels:
        metadata["labels"] = dict(labels)
    if annotations:
        metadata["annotations"] = dict(annotations)
    if owner:
        reference = {
            "apiVersion": "batch/v1",
            "kind": owner[0],
            "name": owner[1],
            "uid": "o",
            "controller": True,
        }
        metadata["ownerReferences"] = [reference]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {
            "schedulerName": scheduler,
            "priority": 0,
            "preemptionPolicy": "PreemptLowerPriority",
            "serviceAccountName": "default",
            "containers": list(containers) or [container()],
            **spec,
        },
    }


def grouped(
    *containers: Json,
    group: str = "g",
    size: str | None = None,
    mode: str | None = None,
    index: str | None = None,
    observe: str | None = None,
    **fields: Any,
) -> Json:
    """Return a pod with these settings of its group, where users write them. None and "" leave a setting out."""
    labels = {GROUP_LABEL: group or None, OBSERVE_LABEL: observe}
    notes = {GROUP_SIZE_ANNOTATION: size, COORDINATION_ANNOTATION: mode, INDEX: index}
    return pod(
        *containers,
        labels={key: value for key, value in labels.items() if value is not None},
        annotations={key: value for key, value in notes.items() if value is not None},
        **fields,
    )


def applied(body: Json, outcome: Outcome) -> Json:
    """Return the pod after its patch, by another implementation of RFC 6902 than ours."""
    patched: Json = jsonpatch.apply_patch(body, msgspec.json.encode(outcome.patch).decode())
    assert (outcome.pod or body) == patched
    return patched


def admitted(
    body: Json,
    context: Context = CONTEXT,
    request: AdmissionRequest = REQUEST,
    handlers: Sequence[str] = ALL,
) -> Json:
    """Return the pod after admission, which gives no warning."""
    before = copy.deepcopy(body)
    outcome = mutate(body, request, handlers, context)
    assert body == before, "the pod itself is left alone"
    # A group without a size is usual here.
    assert set(outcome.warnings) <= {UNSIZED}
    return applied(body, outcome)


def warned(body: Json, context: Context = CONTEXT, request: AdmissionRequest = REQUEST) -> tuple[str, ...]:
    """Return the warnings for a pod that isn't patched."""
    outcome = mutate(body, request, ALL, context)
    assert outcome.patch == ()
    return tuple(one for one in outcome.warnings if one != UNSIZED)


def env(body: Json, name: str = "app") -> dict[str, str]:
    """Return the variables of a container: their values, or the places that the values come from."""
    every = [*body["spec"].get("initContainers", ()), *body["spec"]["containers"]]
    (found,) = [one for one in every if one["name"] == name]
    return {
        one["name"]: one["value"] if "value" in one else _origin(one["valueFrom"])
        for one in found.get("env") or ()
    }


def _origin(source: Json) -> str:
    field = source.get("fieldRef")
    return field["fieldPath"] if field else next(iter(source))


def annotation(key: str) -> str:
    """Return the source of a variable that is filled from an annotation."""
    return f"metadata.annotations['{key}']"


def init_names(body: Json) -> list[str]:
    """Return the names of the init containers, in order."""
    return [one["name"] for one in body["spec"].get("initContainers") or ()]


def gates(body: Json) -> list[str]:
    """Return the scheduling gates."""
    return [one["name"] for one in body["spec"].get("schedulingGates") or ()]
