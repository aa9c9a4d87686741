"""Decode ReplicaSets and StatefulSets (apps/v1): how many pods each of them wants at the same time.

A cluster has thousands of ReplicaSets, because a Deployment keeps its old ones. So nothing else of them is kept.
"""

from __future__ import annotations

import msgspec

from fluence_extender.cluster.decode.objects import Unread, tolerant_decoder
from fluence_extender.model.workload import ReplicaSet, StatefulSet

DEPLOYMENT_REPLICAS = "deployment.kubernetes.io/desired-replicas"
"""The annotation by which the Deployment controller notes the Deployment's replicas on each of its ReplicaSets."""

PARALLEL = "Parallel"


class _Spec(msgspec.Struct, rename="camel"):
    replicas: int | None = None
    pod_management_policy: str = ""

    @property
    def width(self) -> int:
        """``replicas``, which is 1 by default, but at least 1."""
        return 1 if self.replicas is None else max(self.replicas, 1)


_replicated = tolerant_decoder(_Spec, Unread)


def decode_replica_set(raw: bytes) -> ReplicaSet:
    """Decode a ReplicaSet."""
    meta, spec, _ = _replicated(raw)
    noted = (meta.annotations or {}).get(DEPLOYMENT_REPLICAS, "")
    return ReplicaSet(*meta.identity, max(int(noted), 1) if noted.isdecimal() else spec.width)


def decode_stateful_set(raw: bytes) -> StatefulSet:
    """Decode a StatefulSet. One that isn't Parallel creates each pod once the pod before it is ready."""
    meta, spec, _ = _replicated(raw)
    return StatefulSet(*meta.identity, spec.width if spec.pod_management_policy == PARALLEL else 1)
