"""The native PodGroup of scheduling.k8s.io, which a pod names in ``spec.schedulingGroup`` (KEP-4671).

Its ``minCount`` is the size and nothing on the pods overrides it: kube-scheduler's own gang cycle goes by it too. Where
admission has linked the pod to the PodGroup that its label names, the label is enough until there is one.
"""

from __future__ import annotations

from fluence_extender.gangs.membership.conventions import labelled
from fluence_extender.gangs.membership.conventions.claim import Claim, Workloads, awaited
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.pod import Pod
from fluence_extender.model.workload import PodGroup


def recognise(pod: Pod, workloads: Workloads) -> Claim | None:
    """The claim of a pod that names a native PodGroup."""
    if not pod.group:
        return None
    key = GangKey(pod.namespace, pod.group, Convention.POD_GROUP)
    group = workloads.find(PodGroup, pod.namespace, pod.group)
    if group is None:
        said = awaited("PodGroup", pod.namespace, pod.group, "to exist")
        return labelled.linked(pod, workloads, key) or Claim(key, *said)
    return Claim(key, group.min_count, f"PodGroup {key}")
