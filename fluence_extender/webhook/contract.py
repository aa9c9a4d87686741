"""The values that the webhook's server and its handlers exchange. `model.coordination` has the names that pods carry.

The server makes an `AdmissionRequest` of each review and takes the newest `Context`. `admission.look_up` then asks the
API server what this pod needs in addition, and `mutate.mutate` makes the `Outcome`.

Invariant: values only. The same pod, request and context give the same outcome.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from msgspec import UNSET, Struct

from fluence_extender.graph.virtual import VirtualResources
from fluence_extender.webhook.limit_ranges import Bounds

Json = dict[str, Any]

GroupName = tuple[str, str]
"""Namespace and name of a group."""


class ProducerUnknown(Exception):
    """The producer of a shared group can't be found out; the text says why."""


class GroupKind(StrEnum):
    """The PodGroups that the API server serves, best first. ``NONE``: gangs have labels and annotations only."""

    NATIVE = "native"
    COSCHEDULING = "scheduling.x-k8s.io"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class OwnedPods:
    """The pods of an owner: how many a Job has at once (1 for other owners), and the index of the first."""

    at_once: int
    first: int = 0


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """One admission request for a pod.

    ``namespace`` and ``name`` come from the request, because the pod may lack both; with generateName ``name`` is "".
    The fields below are looked up when the pod needs them, and None while they are unknown: ``produces`` says whether
    this pod is the producer of its shared group (``producer_unknown``: why that can't be found out), ``owned`` which
    pods its owner wants, and ``bounds`` what the LimitRanges of its namespace allow containers.
    """

    namespace: str
    name: str = ""
    dry_run: bool = False
    operation: str = "CREATE"
    uid: str = ""
    produces: bool | None = None
    producer_unknown: str = ""
    owned: OwnedPods | None = None
    bounds: Bounds | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """The state of the cluster at one moment.

    ``resources`` is None if no resources.yaml was read.
    ``priority_class`` says whether the PriorityClass of consumers exists; a pod that names a missing one is refused.
    ``producer_groups`` are the groups of producers, ``producer_like_groups`` the groups of other pods with such names.
    """

    resources: VirtualResources | None = None
    groups: GroupKind = GroupKind.NONE
    priority_class: bool = True
    producer_groups: frozenset[GroupName] = frozenset()
    producer_like_groups: frozenset[GroupName] = frozenset()
    sidecar_image: str = "fluence-extender"


class Operation(Struct, frozen=True):
    """One operation of RFC 6902: ``add``, ``replace`` or ``remove``; ``path`` is a JSON Pointer (RFC 6901).

    A removal has no value. Encoded as JSON it is what that RFC says.
    """

    op: str
    path: str
    value: Any = UNSET


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer to a request, which always allows the object: a patch (empty: leave it as it is) and warnings.

    ``pod`` is the patched pod, None if there is no patch of a pod.
    """

    patch: tuple[Operation, ...] = ()
    warnings: tuple[str, ...] = ()
    pod: Json | None = None
