"""Which gang a pod belongs to, and how many members make it whole.

A pod names its gang in one of three ways, the first that is there counting: the native ``spec.schedulingGroup``,
the label ``fluence.flux-framework.org/group``, or none of them, and then it is a gang of one. The size is the
PodGroup's ``minCount``; with the label it is the annotation ``group-size``, else the owning Job's parallelism (no
more than its completions), else 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.names import GATE, GROUP_LABEL, GROUP_SIZE_ANNOTATION
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, Why
from fluence_extender.model.workload import Job, PodGroup

LARGEST_SIZE = 1_000_000

FindPodGroup = Callable[[str, str], PodGroup | None]
FindJob = Callable[[str, str], Job | None]


def gang_key(pod: Pod) -> GangKey:
    """The gang of a pod."""
    if pod.group:
        return GangKey(pod.namespace, pod.group, Convention.POD_GROUP)
    label = pod.labels.get(GROUP_LABEL, "")
    if label:
        return GangKey(pod.namespace, label, Convention.LABEL)
    return GangKey(pod.namespace, pod.name, Convention.ALONE, pod.uid)


def gang_size(key: GangKey, members: Iterable[Pod], pod_group: FindPodGroup, job: FindJob) -> int | Reason:
    """How many members make the gang whole, or why that can't be said."""
    if key.convention is Convention.ALONE:
        return 1
    if key.convention is Convention.POD_GROUP:
        group = pod_group(key.namespace, key.name)
        if group is None:
            return Reason(Why.WAITING, f"waiting for PodGroup {key} to exist")
        return group.min_count
    sizes: set[int] = set()
    for pod in members:
        size = _labelled_size(pod, job)
        if isinstance(size, Reason):
            return size
        sizes.add(size)
    if len(sizes) > 1:
        listed = " and ".join(str(size) for size in sorted(sizes))
        return Reason(
            Why.INVALID,
            f"members of group {key} disagree on its size ({listed}): give all the same {GROUP_SIZE_ANNOTATION}",
        )
    return sizes.pop() if sizes else 1


def _labelled_size(pod: Pod, job: FindJob) -> int | Reason:
    text = pod.annotations.get(GROUP_SIZE_ANNOTATION)
    if text is not None:
        digits = text.strip()
        if re.fullmatch(r"[0-9]{1,9}", digits) and 1 <= int(digits) <= LARGEST_SIZE:
            return int(digits)
        return Reason(
            Why.INVALID,
            f"annotation {GROUP_SIZE_ANNOTATION} is {text[:40]!r}: it must be a whole number from 1 to {LARGEST_SIZE}",
        )
    if pod.owner is None or pod.owner.kind != "Job":
        return 1
    owner = job(pod.namespace, pod.owner.name)
    if owner is None:
        return Reason(Why.WAITING, f"waiting for Job {pod.namespace}/{pod.owner.name} to be seen")
    if owner.completions is None:
        return max(owner.parallelism, 1)
    return max(min(owner.parallelism, owner.completions), 1)


def foreign_gates(pod: Pod) -> tuple[str, ...]:
    """The pod's scheduling gates that aren't ours to remove."""
    return tuple(gate for gate in pod.gates if gate != GATE)
