"""Reports labels and annotations that have no effect.

Admission warns the client that creates a pod. For most pods that is a controller, which drops the warning. So the state
API and one Event on the owner of the pods have the same sentences. The webhook writes on the pod what only the webhook
knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from fluence_extender.cluster.port import Regarding
from fluence_extender.gangs.execution.actions import RecordEvent
from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.kinds.job import job_of
from fluence_extender.kinds.membership import Workloads, annotated_size
from fluence_extender.kinds.podgroups import PodGroup
from fluence_extender.model.coordination import QPU
from fluence_extender.model.gang import Convention
from fluence_extender.model.hints import Hints
from fluence_extender.model.names import GROUP_LABEL, LONGEST_WARNING, WARNING_ANNOTATION
from fluence_extender.model.pod import Pod
from fluence_extender.model.pod_keys import (
    NO_SUCH_KEY,
    UNGROUPED,
    UNSIZED,
    coordination_remarks,
    lacks_size,
    meant,
    remarks,
)
from fluence_extender.model.reason import Reason

NO_EFFECT = "NoEffect"

MOST_LOOKED_AT = 8
"""The most members of a gang whose labels and annotations are read: pods of one owner have the same ones."""

MOST_SHOWN = 64
"""The most sentences about one gang."""

MOST_TOLD = 5
"""The most sentences of one Event."""

MOST_KEPT = 1000
"""The most owners that are remembered. A forgotten owner gets its Event again when it creates more gangs."""


def remarks_on(
    gang: Gang, workloads: Workloads, most: int = MOST_SHOWN, instead: Callable[[str], str] | None = None
) -> tuple[str, ...]:
    """Return one sentence for each label or annotation of the gang's members that has no effect, or that is missing.

    Warnings of admission and remarks on the durations of their Jobs are among them. There are at most ``most``
    sentences. ``instead`` is as in `remarks`.
    """
    sentences: dict[str, None] = {}
    living = sorted(gang.alive(), key=lambda member: member.pod.name)
    before: Pod | None = None
    for pod in (member.pod for member in living[:MOST_LOOKED_AT]):
        same = before is not None and before.labels == pod.labels and before.annotations == pod.annotations
        if same and before is not None and before.owner == pod.owner and before.group == pod.group:
            continue
        before = pod
        if warning := pod.annotations.get(WARNING_ANNOTATION):
            sentences[warning[:LONGEST_WARNING]] = None
        sentences.update(dict.fromkeys(missing_on(pod, gang.key.convention, gang.size)))
        sentences.update(dict.fromkeys(islice(remarks(pod.labels, pod.annotations, instead), most)))
        grouped = bool(pod.labels.get(GROUP_LABEL)) or pod.owner is not None
        coordinated = coordination_remarks(pod.labels, pod.annotations, QPU in pod.devices, grouped)
        sentences.update(dict.fromkeys(coordinated))
        sentences.update(dict.fromkeys(other_priority(pod, workloads)))
        job = job_of(pod, workloads)
        if job is not None and job.remark:
            sentences[job.remark] = None
    return tuple(islice(sentences, most))


def other_priority(pod: Pod, workloads: Workloads) -> Iterator[str]:
    """Yield a sentence if the pod doesn't have the PriorityClass of its native PodGroup.

    The class of the group doesn't count, because a ResourceQuota may keep its user from giving pods that class.
    """
    group = workloads.find(PodGroup, pod.namespace, pod.group) if pod.group else None
    if group is not None and group.priority_class not in ("", pod.priority_class):
        yield (
            f"PodGroup {group.name} names the PriorityClass {group.priority_class}, which has no effect: a gang has "
            "the priority of its pods; name the class in them, too"
        )


def missing_on(pod: Pod, convention: Convention, size: int | Reason) -> Iterator[str]:
    """Yield what a pod without a controller lacks to form the gang that its labels and annotations seem to mean.

    ``convention`` and ``size`` are those of its present gang.
    """
    if pod.owner:
        return
    stated = annotated_size(pod)
    if convention is Convention.ALONE and stated is not None and stated[0] != 1:
        yield UNGROUPED
    # Admission links the pod to a PodGroup of the group's name.
    linked = pod.group in ("", pod.labels.get(GROUP_LABEL))
    if size == 1 and linked and lacks_size(pod.labels, pod.annotations):
        yield UNSIZED


class RemarkReports:
    """Decides which objects get the Event: each owner once, and each pod without an owner."""

    def __init__(self, workloads: Workloads) -> None:
        self._workloads = workloads
        self._hints = Hints(lambda _, key: meant(key))
        self._told: dict[str, str] = {}
        """The last Event's text by the uid of the owner."""

    def due(self, gang: Gang) -> list[RecordEvent]:
        """Return the Events about a gang that is looked at for the first time."""
        if gang.memory.remarked:
            return []
        living = gang.alive()
        if not living:
            return []
        gang.remember(remarked=True)
        namespace, hints = gang.key.namespace, self._hints
        sentences = remarks_on(
            gang, self._workloads, MOST_TOLD, lambda key: hints.of(namespace, key, NO_SUCH_KEY)
        )
        if not sentences:
            return []
        about, text = owner_or_pod(living[0].pod), "; ".join(sentences)
        if self._told.get(about.uid) == text:
            return []
        if len(self._told) >= MOST_KEPT:
            del self._told[next(iter(self._told))]
        self._told[about.uid] = text
        return [RecordEvent(about, NO_EFFECT, text)]


def owner_or_pod(pod: Pod) -> Regarding:
    """Return the object for an Event about all pods of a pod's owner; the pod itself if it has no owner."""
    owner = pod.owner
    if owner is not None and owner.api_version:
        return Regarding(owner.api_version, owner.kind, pod.namespace, owner.name, owner.uid)
    return Regarding("v1", "Pod", pod.namespace, pod.name, pod.uid)
