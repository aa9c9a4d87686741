"""The order of a gang's members, so that ranks i and i+1 can be placed near each other.

The controllers number the pods that they create: Jobs and JobSets by completion index, LeaderWorkerSets by worker
index, StatefulSets by ordinal, plain Kueue pod groups by pod index, the Kubeflow operators by replica index. Pods
without a number are in the natural order of their names.
"""

from __future__ import annotations

from fluence_extender.model.names import (
    COMPLETION_INDEX,
    JOB_INDEX,
    LWS_GROUP_INDEX,
    LWS_WORKER_INDEX,
    POD_INDEX,
    REPLICATED_JOB,
    TRAINING_REPLICA_INDEX,
)
from fluence_extender.model.notation import natural_order
from fluence_extender.model.pod import Pod

INDEXES = (
    COMPLETION_INDEX,
    LWS_WORKER_INDEX,
    POD_INDEX,
    "kueue.x-k8s.io/pod-group-pod-index",
    TRAINING_REPLICA_INDEX,
)
"""The labels or annotations that number the pods of one owner; the first one present counts."""

OUTER_INDEXES = (JOB_INDEX, LWS_GROUP_INDEX)
"""The labels that number the owners among equal owners."""

ROLES = (REPLICATED_JOB, "training.kubeflow.org/replica-type")
"""The labels that name a pod's role in its gang; each role is numbered by itself."""

NO_ROLE = natural_order("")
UNNUMBERED = -1
RankKey = tuple[object, int, int, object]


def rank_key(pod: Pod) -> RankKey:
    """Return the key by which members are sorted: role, owner's index, own index, name."""
    labels = pod.labels
    role = next((labels[label] for label in ROLES if label in labels), "") if labels else ""
    return (
        natural_order(role) if role else NO_ROLE,
        _number(pod, OUTER_INDEXES),
        index(pod),
        natural_order(pod.name),
    )


def index(pod: Pod) -> int:
    """Return the pod's number among the pods of its owner, -1 for none."""
    return _number(pod, INDEXES)


def owner_index(pod: Pod) -> int:
    """Return the number of the pod's owner among equal owners, -1 for none."""
    return _number(pod, OUTER_INDEXES)


def _number(pod: Pod, keys: tuple[str, ...]) -> int:
    # This runs for each member in a sort, and most members have none of these keys.
    for key in keys:
        for where in (pod.labels, pod.annotations):
            if key in where:
                number = _read(where[key])
                if number is not None:
                    return number
    return UNNUMBERED


def _read(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
