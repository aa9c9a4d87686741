"""Kueue's groups of plain pods: ``kueue.x-k8s.io/pod-group-name`` and ``…/pod-group-total-count``.

The name is a label, or with newer Kueue an annotation. Until Kueue admits the group, its pods carry Kueue's own
scheduling gate, which isn't ours to remove. Kueue marks pods of services (of a StatefulSet or LeaderWorkerSet) as
``pod-group-serving``. It counts them as a group, but they are created one after the other and start one by one.
"""

from __future__ import annotations

from fluence_extender.gangs.membership.conventions.membership import (
    THE_POD,
    Membership,
    StatedSize,
    Workloads,
    read,
)
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode

GROUP_NAME = "kueue.x-k8s.io/pod-group-name"
TOTAL_COUNT = "kueue.x-k8s.io/pod-group-total-count"
SERVING = "kueue.x-k8s.io/pod-group-serving"


def recognize(pod: Pod, _: Workloads) -> Membership | None:
    """Return the membership of a pod in one of Kueue's groups."""
    name = pod.labels.get(GROUP_NAME) or pod.annotations.get(GROUP_NAME)
    if not name or pod.annotations.get(SERVING) == "true":
        return None
    return Membership(GangKey(pod.namespace, name, Convention.KUEUE), *_total(pod))


def _total(pod: Pod) -> StatedSize:
    text = pod.annotations.get(TOTAL_COUNT)
    if text is None:
        missing = f"pod {pod.name} of group {GROUP_NAME} has no annotation {TOTAL_COUNT}"
        return Reason(ReasonCode.INVALID_REQUEST, missing), THE_POD
    return read(THE_POD, "annotation", TOTAL_COUNT, text)
