"""The admission of new pods and Jobs, by our webhook's own rules and those of our admission policies.

Pods pass the webhook's code, as on a cluster where the webhook also adds the gate. A Job that is a gang is created
suspended, and a pod whose Job names its node is bound or pinned to it instead of getting the gate
(``deploy/base/suspend.yaml``). This cluster has no namespaces, whose labels these policies also read.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from fluence_extender.cluster.decode.job import JOB_CONTROLLER
from fluence_extender.cluster.decode.pod import decode_pod
from fluence_extender.gangs.lifecycle.pins import pinning
from fluence_extender.graph.virtual import VirtualResources
from fluence_extender.model.names import (
    AT_BIRTH,
    COMPLETION_INDEX,
    KUEUE_QUEUE_LABEL,
    NEVER_SUSPEND,
    NODES_ANNOTATION,
    PINNED_ANNOTATION,
    PLACED_ANNOTATION,
    PLACED_LABEL,
    QUEUE_LABEL,
    QUEUED_SINCE_ANNOTATION,
    SCHEDULER_NAME,
    SUSPEND_LABEL,
    SUSPENDED_FOR_ANNOTATION,
    SUSPENDED_FOR_PLACEMENT,
)
from fluence_extender.model.pod import Pod
from fluence_extender.webhook.contract import AdmissionRequest, Context, Json
from fluence_extender.webhook.handlers import HANDLERS
from fluence_extender.webhook.mutate import mutate
from fluence_extender.whatif.documents import as_json


def admit(
    pod: Json, resources: VirtualResources, gated_jobs: Collection[str] = (), bound: bool = False
) -> Pod:
    """Return the new pod with its gate or its node, and with what its devices and its gang need.

    ``gated_jobs`` are the uids of Jobs whose pods are gated whatever nodes they name. With ``bound`` a pod whose Job
    names its node is bound to it, unless the service has to write its Binding.
    """
    meta = _without(pod["metadata"], NODES_ANNOTATION)
    request = AdmissionRequest(namespace=meta["namespace"], name=meta["name"])
    context = Context(resources=resources, gate_by_webhook=True)
    asked = {**pod, "metadata": meta}
    admitted = decode_pod(as_json(mutate(asked, request, tuple(HANDLERS), context).pod or asked))
    node = _birth_node(admitted, pod, gated_jobs)
    if not node:
        return admitted
    record = (pod["metadata"].get("annotations") or {}).get(PLACED_ANNOTATION)
    written = {} if record is None else {PLACED_ANNOTATION: record}
    if bound and record is not None and not admitted.marked:
        return replace(admitted, gates=(), annotations={**admitted.annotations, **written}, node=node)
    pinned = {**admitted.annotations, **written, PINNED_ANNOTATION: node}
    return replace(admitted, gates=(), annotations=pinned, affinity=pinning(admitted, node, ()))


def _birth_node(pod: Pod, created: Json, gated_jobs: Collection[str]) -> str:
    """Return the node that the pod's Job names for its index, "" where it keeps the gate.

    ``created`` is the manifest with which the pod was to be created.
    """
    index = pod.annotations.get(COMPLETION_INDEX, "")
    owned = pod.owner is not None and pod.owner.is_a("Job", "batch") and pod.owner.uid not in gated_jobs
    placed = pod.ours and not pod.node and PLACED_LABEL in pod.labels
    if not owned or not placed or not index.isdecimal() or created["spec"].get("schedulingGates"):
        return ""
    if pod.affinity is not None and not any(term.expressions or term.fields for term in pod.affinity):
        return ""
    nodes = (created["metadata"].get("annotations") or {}).get(NODES_ANNOTATION, "").split(",")
    return nodes[int(index)] if int(index) < len(nodes) else ""


def admit_job(job: Json) -> Json:
    """Return the Job as it is stored: suspended if it is placed before its pods exist, or has its turn in a queue.

    What the service writes on Jobs isn't taken over from another Job's copy. The given Job isn't changed.
    """
    template = job["spec"]["template"]
    if template["spec"].get("schedulerName") != SCHEDULER_NAME:
        return job
    meta = _without(job["metadata"], SUSPENDED_FOR_ANNOTATION, QUEUED_SINCE_ANNOTATION)
    template_meta = _without(template.get("metadata") or {}, NODES_ANNOTATION, PLACED_ANNOTATION)
    suspended = {}
    if _is_held(job):
        suspended = {"suspend": True}
        meta = _with(meta, "annotations", SUSPENDED_FOR_ANNOTATION, SUSPENDED_FOR_PLACEMENT)
        if _is_gang(job):
            template_meta = _with(template_meta, "labels", PLACED_LABEL, AT_BIRTH)
    spec = {**job["spec"], **suspended, "template": {**template, "metadata": template_meta}}
    return {**job, "metadata": meta, "spec": spec}


def _is_held(job: Json) -> bool:
    meta, spec = job["metadata"], job["spec"]
    template, labels = spec["template"], meta.get("labels") or {}
    said = {**((template.get("metadata") or {}).get("labels") or {}), **labels}
    owners = _controllers(job)
    kueues = labels.get(KUEUE_QUEUE_LABEL)
    named = said.get(QUEUE_LABEL) or kueues
    in_turn = spec.get("parallelism", 1) > 0 and named and not any(map(_is_job_set, owners))
    return (
        bool(in_turn or _is_gang(job))
        and (kueues or not spec.get("suspend"))
        and spec.get("managedBy", JOB_CONTROLLER) == JOB_CONTROLLER
        and not any(map(_resumes_it, owners))
        and (kueues or KUEUE_QUEUE_LABEL not in said)
        and labels.get(SUSPEND_LABEL) != NEVER_SUSPEND
        and not template["spec"].get("schedulingGates")
        and not template["spec"].get("nodeName")
    )


def _is_gang(job: Json) -> bool:
    """Return whether the Job has one pod for each index, all at once, so that they can get their nodes at birth."""
    spec, pods = job["spec"], job["spec"].get("completions")
    least = 1 if any(map(_is_job_set, _controllers(job))) else 2
    indexed = spec.get("completionMode") == "Indexed" and isinstance(pods, int)
    return bool(indexed and spec.get("parallelism") == pods >= least)


def _controllers(job: Json) -> list[Json]:
    return [one for one in job["metadata"].get("ownerReferences") or () if one.get("controller")]


def _resumes_it(owner: Json) -> bool:
    """Return whether the controller may resume the Job itself; a JobSet's attempts are in vain."""
    return owner["kind"] != "CronJob" and not _is_job_set(owner)


def _is_job_set(owner: Json) -> bool:
    return bool(owner["kind"] == "JobSet" and owner["apiVersion"].startswith("jobset.x-k8s.io/"))


def _with(meta: Json, kind: str, key: str, text: str) -> Json:
    """Return metadata with the label or annotation."""
    return {**meta, kind: {**(meta.get(kind) or {}), key: text}}


def _without(meta: Json, *keys: str) -> Json:
    """Return metadata without these annotations."""
    notes: dict[str, Any] = meta.get("annotations") or {}
    if not any(key in notes for key in keys):
        return meta
    return {**meta, "annotations": {key: text for key, text in notes.items() if key not in keys}}
