"""The admission of new pods and Jobs: what the API server does, our admission policies (``deploy/base``), our webhook.

This cluster has no namespaces, whose labels the policies also read. Tests compare what it does with what the policies
do on a real API server.
"""

from __future__ import annotations

from fluence_extender.apiserver.defaults import AdmissionObjects, with_defaults
from fluence_extender.cluster.decode.pod import decode_pod
from fluence_extender.embeddedcluster.classes import classify, take_off_copies
from fluence_extender.embeddedcluster.planned_nodes import planned_node
from fluence_extender.embeddedcluster.suspension import suspend_if_it_waits
from fluence_extender.graph.virtual import VirtualResources
from fluence_extender.model.pod import Pod
from fluence_extender.webhook.contract import AdmissionRequest, Context, Json, Outcome
from fluence_extender.webhook.draft import Draft
from fluence_extender.webhook.handlers import HANDLERS
from fluence_extender.webhook.mutate import is_ours, mutate
from fluence_extender.webhook.notes import with_note
from fluence_extender.whatif.documents import as_json

NO_OBJECTS = AdmissionObjects()


def admit(
    pod: Json,
    resources: VirtualResources,
    bound: bool = False,
    objects: AdmissionObjects = NO_OBJECTS,
) -> Pod:
    """Return the new pod as a direct or a filtered one, and with what its devices and its gang need.

    With ``bound`` a pod whose Job names its node is bound to it, unless the service has to write its Binding.
    ``objects`` are the cluster's. Raise `PodRefused`.
    """
    return decode_pod(as_json(admitted(pod, resources, bound, objects).pod or pod))


def admitted(
    pod: Json,
    resources: VirtualResources,
    bound: bool = False,
    objects: AdmissionObjects = NO_OBJECTS,
) -> Outcome:
    """Return the new pod as JSON, and what the webhook warns of; see `admit`."""
    pod = objects.within_ranges(with_defaults(pod))
    pod = {**pod, "spec": objects.with_classes(pod["spec"])}
    waits = is_ours(pod) and not pod["spec"].get("nodeName")
    draft = Draft(pod)
    node = ""
    if waits:
        classify(draft)
        node = planned_node(draft.object) if bound else ""
        take_off_copies(draft)
    request = AdmissionRequest(namespace=pod["metadata"]["namespace"], name=pod["metadata"]["name"])
    changed = draft.object
    outcome = with_note(changed, mutate(changed, request, tuple(HANDLERS), Context(resources=resources)))
    draft = Draft(outcome.pod or changed)
    if waits:
        classify(draft)
    if node:
        draft.put("spec", "nodeName", value=node)
    return Outcome(warnings=outcome.warnings, pod=draft.object)


def admit_job(job: Json) -> Json:
    """Return the Job as it is stored: suspended if it is placed before its pods exist, or has its turn in a queue.

    What the service writes on Jobs isn't taken over from another Job's copy. The given Job isn't changed.
    """
    draft = Draft(job)
    suspend_if_it_waits(draft)
    return draft.object
