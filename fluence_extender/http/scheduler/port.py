"""What the four verbs need from the rest of the service.

`Placements.locate` is a look-up: it never allocates and never waits. It returns the same location until the plan
changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from fluence_extender.http.readiness import Readiness


@dataclass(frozen=True, slots=True)
class RequestedPod:
    """The fields of a request's pod that a look-up needs."""

    namespace: str
    name: str
    uid: str
    scheduler: str


@dataclass(frozen=True, slots=True)
class Anywhere:
    """The pod is a foreign pod, so every node passes."""


@dataclass(frozen=True, slots=True)
class On:
    """The pod's planned node."""

    node: str


@dataclass(frozen=True, slots=True)
class Nowhere:
    """The pod has no place; ``reason`` is stable text for people."""

    reason: str


@dataclass(frozen=True, slots=True)
class Undecided:
    """The pod is ours, and its place isn't decided yet, so kube-scheduler should ask again soon."""

    reason: str


Location = Anywhere | On | Nowhere | Undecided


class BindRefused(Exception):
    """The pod can't be bound to that node now; the text says why."""


class Placements(Readiness, Protocol):
    """The planned places of pods, for the verbs."""

    async def wait_for_lead(self) -> None:
        """Wait at most a few seconds until this replica leads. A scheduler calls it, so it is about to lead."""
        ...

    async def wait_for_pod(self, pod: RequestedPod) -> None:
        """Wait at most a moment until the watch has shown the pod.

        kube-scheduler requests a pod without a gate as soon as its own watch shows the pod.
        """
        ...

    def locate(self, pod: RequestedPod) -> Location:
        """Return where the pod is to run. This neither waits nor changes anything."""
        ...

    def refused(self, pod: RequestedPod, node: str) -> None:
        """Note that ``node``, the planned one, wasn't among the nodes offered in a filter call."""
        ...

    async def bind(self, pod: RequestedPod, node: str) -> None:
        """Bind the pod to its planned node, together with its gang. Idempotent.

        Raises `BindRefused` or a `ClusterError`. Continues when the caller disconnects; is cancelled when the
        service stops.
        """
        ...

    def may_evict(self, uids: Sequence[str]) -> bool:
        """Whether evicting all of these pods (ours and foreign ones) breaks no gang of ours."""
        ...
