"""LeaderWorkerSets, whose groups are gangs. A group's pods carry its size.

Workers that wait for their leader, and those that are placed by the leader's domain, are a gang of their own.

Sources: leaderworkerset.x-k8s.io/v1 and its pkg/webhooks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import msgspec

from fluence_extender.kinds import served
from fluence_extender.kinds.kind import Kind
from fluence_extender.kinds.membership import THE_POD, Membership, Workloads, derived, read
from fluence_extender.kinds.pod_sets import (
    CLAIMS,
    Json,
    PodSet,
    SetMember,
    count_of,
    template_of,
    with_claims,
)
from fluence_extender.kinds.served import Api
from fluence_extender.kinds.workload import Workload, stated_duration
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.names import LWS_GROUP_INDEX, LWS_NAME, LWS_REVISION, LWS_SIZE, LWS_WORKER_INDEX
from fluence_extender.model.pod import Pod
from fluence_extender.objects.meta import Unread, tolerant_decoder


@dataclass(frozen=True, slots=True)
class LeaderWorkerSet(Workload):
    """A leaderworkerset.x-k8s.io LeaderWorkerSet.

    If ``leader_first``, workers are created once their leader is ready.
    """

    api: ClassVar[Api] = served.LEADER_WORKER_SET

    leader_first: bool = False


class _LeaderWorkerSet(msgspec.Struct, rename="camel"):
    startup_policy: str | None = None


_leader_worker_set = tolerant_decoder("LeaderWorkerSet", _LeaderWorkerSet, Unread)


def decode_leader_worker_set(raw: bytes) -> LeaderWorkerSet:
    """Decode a LeaderWorkerSet."""
    meta, spec, _, problem = _leader_worker_set(raw)
    return LeaderWorkerSet(
        *meta.identity,
        leader_first=spec.startup_policy == "LeaderReady",
        duration=stated_duration(meta.annotations, meta.labels, None),
        submission=meta.submission,
        problem=problem,
        size=len(raw),
    )


LWS_EXCLUSIVE = "leaderworkerset.sigs.k8s.io/exclusive-topology"


def leader_worker_set(pod: Pod, workloads: Workloads) -> Membership | None:
    """Return the membership of a pod of a LeaderWorkerSet."""
    name, index = pod.labels.get(LWS_NAME), pod.labels.get(LWS_GROUP_INDEX)
    if not name or index is None:
        return None
    stated = size, source = read(THE_POD, "annotation", LWS_SIZE, pod.annotations.get(LWS_SIZE, ""))
    parts = [revision] if (revision := pod.labels.get(LWS_REVISION)) else []
    if isinstance(size, int) and size > 1 and _leader_first(pod, workloads, name):
        leads = pod.labels.get(LWS_WORKER_INDEX) == "0"
        parts.append("leader" if leads else "workers")
        stated = (1 if leads else size - 1), source
    group = f"{name}-{index}"
    key = GangKey(pod.namespace, group, Convention.LEADER_WORKER_SET, part="-".join(parts))
    return derived(pod, key, stated)


def _leader_first(pod: Pod, workloads: Workloads, name: str) -> bool:
    if LWS_EXCLUSIVE in pod.annotations:
        return True
    leader_worker_set = workloads.find(LeaderWorkerSet, pod.namespace, name)
    return leader_worker_set is not None and leader_worker_set.leader_first


def leader_worker_pods(manifest: Json) -> Iterator[PodSet]:
    """Yield the leaders, then the workers of all groups."""
    templates = manifest["spec"]["leaderWorkerTemplate"]
    size = count_of(templates.get("size"), 1)
    groups = count_of(manifest["spec"].get("replicas"), 1) if size else 0
    leader = templates.get("leaderTemplate") or templates["workerTemplate"]
    name = manifest["metadata"]["name"]
    claims = templates.get(CLAIMS)
    yield _of_groups(manifest, with_claims(template_of(leader), claims, f"{name}-0"), groups, range(1), size)
    if size > 1:
        worker = with_claims(template_of(templates["workerTemplate"]), claims, f"{name}-0-0")
        yield _of_groups(manifest, worker, groups, range(1, size), size)


def _of_groups(manifest: Json, template: Json, groups: int, workers: range, size: int) -> PodSet:
    """Return the pods with these worker indexes of each group."""
    name = manifest["metadata"]["name"]
    owner = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "name": name,
        "uid": f"lws-{name}",
        "controller": True,
        "blockOwnerDeletion": False,
    }

    def members() -> Iterator[SetMember]:
        for group in range(max(groups, 1)):
            for worker in workers:
                labels = {
                    LWS_NAME: name,
                    LWS_GROUP_INDEX: str(group),
                    LWS_WORKER_INDEX: str(worker),
                    LWS_REVISION: "1",
                }
                pod = f"{name}-{group}" if worker == 0 else f"{name}-{group}-{worker}"
                yield SetMember(pod, labels, {LWS_SIZE: str(size)}, owner)

    return PodSet(template, groups * len(workers), members)


LEADER_WORKER_SETS = Kind(
    LeaderWorkerSet,
    decode_leader_worker_set,
    pods=leader_worker_pods,
    label=LWS_NAME,
    recognize=leader_worker_set,
)
