"""Pods of one owner (a StatefulSet, a ReplicaSet, anything) that carry a size and no group's name.

The owner is the group. Its pods must all be created at once: a StatefulSet needs ``podManagementPolicy`` Parallel. The
size is our annotation, or the label ``fluence.group-size`` of flux-k8s.
"""

from __future__ import annotations

from fluence_extender.gangs.conventions.claim import Claim, Workloads, alone, annotated_size, read
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.pod import Pod

FLUX_SIZE = "fluence.group-size"


def recognise(pod: Pod, _: Workloads) -> Claim | None:
    """The claim of an owned pod with our size annotation."""
    said = annotated_size(pod)
    if said is None and FLUX_SIZE in pod.labels:
        said = read(pod, "label", FLUX_SIZE, pod.labels[FLUX_SIZE])
    if said is None or pod.owner is None:
        return None
    if said[0] == 1:
        return alone(pod)
    return Claim(GangKey(pod.namespace, pod.owner.name, Convention.OWNER, pod.owner.uid), *said)
