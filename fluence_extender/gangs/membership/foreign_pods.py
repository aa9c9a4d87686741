"""Foreign pods (pods of other schedulers) that name a gang.

They aren't members, and a gang that waits for members should report them.
"""

from __future__ import annotations

from collections import Counter

from fluence_extender.gangs.membership.conventions import BY_NAME, CONVENTIONS
from fluence_extender.gangs.membership.workloads import WorkloadIndex
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.pod import Pod
from fluence_extender.model.workload import JobSet


class ForeignPods:
    """Living foreign pods by the gang that they name, directly or by the labels of the operator that created them.

    Admission links labelled pods of ours to a PodGroup of the same name, but not foreign pods. This class doesn't know
    whether a foreign pod's owner comes in stages, so the pod counts both for its stage and for a gang of all stages.
    """

    def __init__(self) -> None:
        self._gang_of: dict[str, GangKey] = {}
        self._pods: dict[GangKey, dict[str, tuple[str, str]]] = {}
        """By the key of the whole group and the uid: the part that the pod names, and its scheduler."""

    def put(self, pod: Pod) -> GangKey | None:
        """Record a foreign pod; return the gang that it names, if any."""
        key = None if pod.finished or pod.deleting else _named_gang(pod)
        if self._gang_of.get(pod.uid) != key:
            self.drop(pod.uid)
        if key is not None:
            self._gang_of[pod.uid] = key
            self._pods.setdefault(_whole(key), {})[pod.uid] = key.part, pod.scheduler
        return key

    def drop(self, uid: str) -> GangKey | None:
        """Forget a foreign pod; return the gang that it named, if any."""
        key = self._gang_of.pop(uid, None)
        if key is not None:
            whole = _whole(key)
            del self._pods[whole][uid]
            if not self._pods[whole]:
                del self._pods[whole]
        return key

    def schedulers(self, key: GangKey) -> Counter[str]:
        """Return how many foreign pods name the gang, by the scheduler that they name."""
        named = self._pods.get(_whole(key), {}).values()
        return Counter(scheduler for part, scheduler in named if key.part in ("", part))


def _whole(key: GangKey) -> GangKey:
    return key._replace(part="") if key.part else key


NO_WORKLOADS = WorkloadIndex()
"""No workload is known: neither a name on the pod nor a JobSet's stage label depends on one."""
NO_WORKLOADS.replace(JobSet, (), served=False)

BY_OPERATOR = (Convention.LEADER_WORKER_SET, Convention.RAY_CLUSTER, Convention.MPI_JOB, Convention.JOB_SET)
"""The conventions in which an operator names the group on pods that may name several schedulers."""


def _named_gang(pod: Pod) -> GangKey | None:
    for convention in (*BY_NAME, *BY_OPERATOR):
        membership = CONVENTIONS[convention](pod, NO_WORKLOADS)
        if membership is not None:
            return membership.key if membership.key.convention is convention else None
    return None
