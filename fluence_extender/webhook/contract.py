"""What the webhook's shell and its handlers say to each other. Names that pods carry stand in `model.coordination`.

The shell makes a `Request` of each review, takes the newest `Context`, and answers with the `Outcome` of
`webhook.mutate.mutate`. Some things must be asked of the API server before a patch can be made: `before.settle` does
that, and the shell awaits it first.

Invariant: values only. The same pod, request and context give the same outcome.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from msgspec import UNSET, Struct

from fluence_extender.graph.virtual import VirtualResources

Json = dict[str, Any]


class Unclaimed(Exception):
    """Who produces in a shared group can't be found out; the text says why."""


class GroupKind(StrEnum):
    """Which PodGroups the API server serves, best first; ``NONE``: labels and annotations are all there is."""

    NATIVE = "native"
    COSCHEDULING = "scheduling.x-k8s.io"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Bound:
    """What containers may ask for of one resource, as quantities: between ``least`` and ``most`` (None: any amount).

    ``limited``: each container has a limit, or is given one; ``ratio``: how many times its request that may be.
    """

    least: str = "0"
    most: str | None = None
    limited: bool = False
    ratio: str | None = None


Bounds = Mapping[str, Bound]
"""By the name of the resource."""

Group = tuple[str, str]
"""Namespace and name of a group."""


@dataclass(frozen=True, slots=True)
class Owned:
    """What an owner of pods wants: how many of them it creates at once, and the index of the first."""

    at_once: int
    first: int = 0


@dataclass(frozen=True, slots=True)
class Request:
    """One admission request for a pod.

    ``namespace`` and ``name`` are the request's (the pod may lack both; ``name`` is "" with generateName). ``leads``
    says whether this pod claimed to be its shared group's producer (``unclaimed``: why that is unknown), ``owned`` what
    its owner wants, ``bounds`` what its namespace allows containers: None where nobody was asked, or nobody knows.
    """

    namespace: str
    name: str = ""
    dry_run: bool = False
    operation: str = "CREATE"
    uid: str = ""
    leads: bool | None = None
    unclaimed: str = ""
    owned: Owned | None = None
    bounds: Bounds | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """What is known of the cluster at one moment.

    ``resources`` is None where no resources.yaml was read. ``gate_by_webhook``: nothing else adds our scheduling gate,
    or marks pods. ``accounts`` are the namespaces in which the sidecar's account is known to exist. ``priority_class``:
    the PriorityClass of consumers exists (a pod that names a missing one is refused). ``producers`` are the groups that
    producers are in, ``namesakes`` other pods' groups that could be such.
    """

    resources: VirtualResources | None = None
    groups: GroupKind = GroupKind.NONE
    gate_by_webhook: bool = False
    accounts: frozenset[str] = frozenset()
    priority_class: bool = True
    producers: frozenset[Group] = frozenset()
    namesakes: frozenset[Group] = frozenset()
    sidecar_image: str = "fluence-extender"
    sidecar_pull_policy: str = "IfNotPresent"


class Operation(Struct, frozen=True):
    """One operation of RFC 6902: ``add``, ``replace`` or ``remove``; ``path`` is a JSON Pointer (RFC 6901).

    A removal has no value. As JSON it is what that RFC says.
    """

    op: str
    path: str
    value: Any = UNSET


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer to a request: always allowed, with a patch (empty: byte-identical) and warnings for the user."""

    patch: tuple[Operation, ...] = ()
    warnings: tuple[str, ...] = ()
