"""The admission of new pods and Jobs, by the code of our webhook, as on a cluster without our admission policies.

This cluster has no namespaces, whose labels the policies also read.
"""

from __future__ import annotations

from collections.abc import Collection

from fluence_extender.cluster.decode.pod import decode_pod
from fluence_extender.graph.virtual import VirtualResources
from fluence_extender.model.names import NODES_ANNOTATION
from fluence_extender.model.pod import Pod
from fluence_extender.webhook.births import JOB_CONTROLLERS
from fluence_extender.webhook.contract import AdmissionRequest, Context, Json
from fluence_extender.webhook.draft import Draft
from fluence_extender.webhook.handlers import HANDLERS
from fluence_extender.webhook.mutate import mutate
from fluence_extender.webhook.suspension import admit_workload
from fluence_extender.whatif.documents import as_json

ALWAYS = "9999-12-31T23:59:59Z"


def admit(
    pod: Json, resources: VirtualResources, gated_jobs: Collection[str] = (), bound: bool = False
) -> Pod:
    """Return the new pod with its gate or its node, and with what its devices and its gang need.

    ``gated_jobs`` are the uids of Jobs whose pods are gated whatever nodes they name. With ``bound`` a pod whose Job
    names its node is bound to it, unless the service has to write its Binding.
    """
    meta = pod["metadata"]
    notes = meta.get("annotations") or {}
    request = AdmissionRequest(
        namespace=meta["namespace"],
        name=meta["name"],
        gated_jobs=" ".join(gated_jobs),
        user=JOB_CONTROLLERS[0],
    )
    if bound and notes.get(NODES_ANNOTATION):
        notes = {**notes, NODES_ANNOTATION: f"{notes[NODES_ANNOTATION]};{ALWAYS}"}
        pod = {**pod, "metadata": {**meta, "annotations": notes}}
    context = Context(resources=resources, gate_by_webhook=True)
    return decode_pod(as_json(mutate(pod, request, tuple(HANDLERS), context).pod or pod))


def admit_job(job: Json) -> Json:
    """Return the Job as it is stored: suspended if it is placed before its pods exist, or has its turn in a queue.

    What the service writes on Jobs isn't taken over from another Job's copy. The given Job isn't changed.
    """
    draft = Draft(job)
    admit_workload(draft, "Job", None)
    return draft.object
