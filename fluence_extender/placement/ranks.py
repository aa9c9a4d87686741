"""The order of a gang's members: who is rank i, so that rank i and i+1 can be put near each other.

Whoever creates the pods numbers them: Jobs and JobSets by completion index, LeaderWorkerSets by worker index,
StatefulSets by ordinal, plain Kueue pod groups by pod index, the Kubeflow operators by replica index. Pods that nobody
numbered are in the natural order of their names.
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
"""Labels or annotations that number the pods of one owner, the first that is there counting."""

OUTER_INDEXES = (JOB_INDEX, LWS_GROUP_INDEX)
"""Labels that number the owners among their likes."""

ROLES = (REPLICATED_JOB, "training.kubeflow.org/replica-type")
"""Labels that tell the roles of a gang apart, each numbered by itself."""

UNNUMBERED = -1
RankKey = tuple[object, int, int, object]


def rank_key(pod: Pod) -> RankKey:
    """What members are sorted by: role, owner's index, own index, name."""
    role = next((pod.labels[label] for label in ROLES if label in pod.labels), "")
    return (natural_order(role), _number(pod, OUTER_INDEXES), index(pod), natural_order(pod.name))


def index(pod: Pod) -> int:
    """The pod's number among the pods of its owner, -1 when nobody numbered it."""
    return _number(pod, INDEXES)


def owner_index(pod: Pod) -> int:
    """The number of the pod's owner among its likes, -1 when nobody numbered it."""
    return _number(pod, OUTER_INDEXES)


def _number(pod: Pod, keys: tuple[str, ...]) -> int:
    # A sort asks this of each member, of which most have none of them.
    for key in keys:
        for where in (pod.labels, pod.annotations):
            if key in where:
                number = _read(where[key])
                if number is not None:
                    return number
    return UNNUMBERED


def _read(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
