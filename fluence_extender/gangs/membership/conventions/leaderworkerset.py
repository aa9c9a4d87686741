"""LeaderWorkerSets: each leader with its workers is a gang, of the size its pods carry as an annotation.

Workers are created when their leader exists; with ``startupPolicy`` LeaderReady when it is ready, and with exclusive
topology when it has a node. In the last two cases the leader is a gang of its own and the workers are another. Pods of
different revisions are different gangs: an update replaces a group as a whole.
"""

from __future__ import annotations

from fluence_extender.gangs.membership.conventions.claim import Claim, Workloads, derived, read
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.names import LWS_GROUP_INDEX, LWS_NAME, LWS_REVISION, LWS_SIZE, LWS_WORKER_INDEX
from fluence_extender.model.pod import Pod
from fluence_extender.model.workload import LeaderWorkerSet

EXCLUSIVE = "leaderworkerset.sigs.k8s.io/exclusive-topology"


def recognise(pod: Pod, workloads: Workloads) -> Claim | None:
    """The claim of a pod of a LeaderWorkerSet."""
    name, index = pod.labels.get(LWS_NAME), pod.labels.get(LWS_GROUP_INDEX)
    if not name or index is None:
        return None
    said = size, said_by = read(pod, "annotation", LWS_SIZE, pod.annotations.get(LWS_SIZE, ""))
    parts = [revision] if (revision := pod.labels.get(LWS_REVISION)) else []
    if isinstance(size, int) and size > 1 and _leader_first(pod, workloads, name):
        leads = pod.labels.get(LWS_WORKER_INDEX) == "0"
        parts.append("leader" if leads else "workers")
        said = (1 if leads else size - 1), said_by
    group = f"{name}-{index}"
    return derived(
        pod, GangKey(pod.namespace, group, Convention.LEADER_WORKER_SET, part="-".join(parts)), said
    )


def _leader_first(pod: Pod, workloads: Workloads, name: str) -> bool:
    if EXCLUSIVE in pod.annotations:
        return True
    found = workloads.find(LeaderWorkerSet, pod.namespace, name)
    return found is not None and found.leader_first
