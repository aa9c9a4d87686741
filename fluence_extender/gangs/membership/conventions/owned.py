"""Pods of one owner (a StatefulSet, a ReplicaSet, anything) that carry a size and no group's name.

The owner is the group. Its pods must all be created at once: a StatefulSet needs ``podManagementPolicy`` Parallel. The
size is our annotation, or the label ``fluence.group-size`` of flux-k8s, which may stand at their Job instead.
"""

from __future__ import annotations

from fluence_extender.gangs.membership.conventions.claim import (
    Claim,
    Workloads,
    alone,
    annotated_size,
    labels_of,
    read,
)
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.names import FLUX_SIZE
from fluence_extender.model.pod import Pod


def recognise(pod: Pod, workloads: Workloads) -> Claim | None:
    """The claim of an owned pod with our size annotation."""
    if pod.owner is None:
        return None
    said = annotated_size(pod)
    if said is None and (text := labels_of(pod, workloads).get(FLUX_SIZE)) is not None:
        said = read(pod, "label", FLUX_SIZE, text)
    if said is None:
        return None
    if said[0] == 1:
        return alone(pod)
    return Claim(GangKey(pod.namespace, pod.owner.name, Convention.OWNER, pod.owner.uid), *said)
