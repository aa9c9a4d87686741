"""Decode ReplicaSets and StatefulSets (apps/v1): how many pods each of them wants at the same time.

A cluster has thousands of ReplicaSets, because a Deployment keeps its old ones. So no other fields are kept.
"""

from __future__ import annotations

import msgspec

from fluence_extender.cluster.decode.durations import stated_duration
from fluence_extender.cluster.decode.objects import Int64, Unread, tolerant_decoder
from fluence_extender.model.submission import QUEUE_LABELS, submission
from fluence_extender.model.workload import ReplicaSet, StatefulSet

DEPLOYMENT_REPLICAS = "deployment.kubernetes.io/desired-replicas"
"""The annotation by which the Deployment controller notes the Deployment's replicas on each of its ReplicaSets."""

PARALLEL = "Parallel"
MOST_DIGITS = 10


class _Spec(msgspec.Struct, rename="camel"):
    replicas: Int64 | None = None
    pod_management_policy: str = ""

    @property
    def width(self) -> int:
        """``replicas``, which is 1 by default, but at least 1."""
        return 1 if self.replicas is None else max(self.replicas, 1)


_replica_set = tolerant_decoder("ReplicaSet", _Spec, Unread)
_stateful_set = tolerant_decoder("StatefulSet", _Spec, Unread)


def decode_replica_set(raw: bytes) -> ReplicaSet:
    """Decode a ReplicaSet."""
    meta, spec, _, problem = _replica_set(raw)
    noted = (meta.annotations or {}).get(DEPLOYMENT_REPLICAS, "")
    pods = max(int(noted), 1) if noted.isdecimal() and len(noted) <= MOST_DIGITS else spec.width
    # Admission has written the queue's label of the Deployment into its annotations, which are copied to this.
    passed_on = {key: text for key, text in (meta.annotations or {}).items() if key in QUEUE_LABELS and text}
    said = submission({**(meta.labels or {}), **passed_on}, meta.annotations, meta.uid)
    duration = stated_duration(meta.annotations, meta.labels, None)
    return ReplicaSet(*meta.identity, pods, submission=said, duration=duration, problem=problem)


def decode_stateful_set(raw: bytes) -> StatefulSet:
    """Decode a StatefulSet. One that isn't Parallel creates each pod once the pod before it is ready."""
    meta, spec, _, problem = _stateful_set(raw)
    pods, width = spec.width if spec.pod_management_policy == PARALLEL else 1, spec.width
    said, duration = meta.submission, stated_duration(meta.annotations, meta.labels, None)
    return StatefulSet(*meta.identity, pods, width, submission=said, duration=duration, problem=problem)
