"""What the HTTP shell asks of the rest of the service.

The verbs are look-ups: `Scheduling.locate` never allocates, never waits, and says the same thing however
often it is asked until the plan changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fluence_extender.http.state.state import (
    AllocationView,
    Counts,
    DeviceView,
    GangStory,
    GangView,
    Graph,
    Listing,
    NodeStory,
    NodeView,
)

SELF_BINDING = "/self-binding"
"""The path under which verbs are called by a kube-scheduler that binds unmarked pods itself."""


@dataclass(frozen=True, slots=True)
class AskedPod:
    """The pod of a request, as far as a look-up needs it."""

    namespace: str
    name: str
    uid: str
    scheduler: str


@dataclass(frozen=True, slots=True)
class Anywhere:
    """The pod isn't ours: every node will do."""


@dataclass(frozen=True, slots=True)
class On:
    """The pod's planned node; ``confined`` says that no other nodes are offered for it than those it is pinned to."""

    node: str
    confined: bool = False


@dataclass(frozen=True, slots=True)
class Nowhere:
    """The pod has no place; ``reason`` is stable text for people."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unseen:
    """The pod is ours, and nothing was decided of it yet: it is to be asked for again soon, whatever happens."""

    reason: str


Location = Anywhere | On | Nowhere | Unseen


class BindRefused(Exception):
    """The pod can't be bound there now; the text says why."""


class NotSimulated(Exception):
    """A what-if question can't be answered; ``status`` is the HTTP status that says so."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Scheduling(Protocol):
    """The service behind the verbs."""

    @property
    def ready(self) -> bool:
        """Whether the cluster has been listed and what runs there replayed."""
        ...

    @property
    def not_ready_reason(self) -> str:
        """What is still missing, "" when ready."""
        ...

    @property
    def leading(self) -> bool:
        """Whether this replica decides and writes; otherwise it stands by and shows what it sees of the cluster."""
        ...

    async def settled(self) -> None:
        """Wait until this replica leads, for a few seconds at most: a scheduler asks, so it has begun to lead."""
        ...

    def locate(self, pod: AskedPod) -> Location:
        """Say where the pod is to go. A look-up: no waiting, no change."""
        ...

    def refused(self, pod: AskedPod, node: str) -> None:
        """Take note that ``node``, the planned one, wasn't among those offered in a filter call."""
        ...

    def hand_over(self, pod: AskedPod, node: str) -> Location:
        """Let kube-scheduler bind the pod to ``node``, its planned one, unless our bind verb is called for it.

        Returns `On` that node, or what is to be said instead: it isn't the pod's turn, or it may never be bound so.
        """
        ...

    async def bind(self, pod: AskedPod, node: str) -> None:
        """Bind the pod to its planned node, with its gang. Idempotent.

        Raises `BindRefused` or a `ClusterError`. Runs on when the caller has gone; cancelled when we stop.
        """
        ...

    def may_evict(self, uids: Sequence[str]) -> bool:
        """Whether evicting all of these pods (ours and others') breaks no gang of ours."""
        ...


def not_ready(placements: Scheduling) -> str:
    """What everybody is told who asks before the service is ready."""
    return f"not ready: {placements.not_ready_reason or 'starting'}"


class Placements(Scheduling, Protocol):
    """The service behind the state API too."""

    async def simulate(self, manifests: bytes, namespace: str) -> dict[str, Any]:
        """Say what would become of the gangs of ``manifests``, as JSON values. Raises `NotSimulated`."""
        ...

    def gangs(self, gone: bool = False) -> Listing[GangView]:
        """All gangs by namespace and name, with those ``gone`` lately if wanted."""
        ...

    def gang(self, namespace: str, name: str, convention: str = "") -> GangStory | None:
        """One gang, or the one of that name that went last; ``convention`` tells several of one name apart."""
        ...

    def allocations(self) -> Listing[AllocationView]:
        """What pods of ours hold, planned and committed included, by namespace and pod."""
        ...

    def nodes(self) -> Listing[NodeView]:
        """All nodes by name."""
        ...

    def node(self, name: str) -> NodeStory | None:
        """One node with the pods that use it."""
        ...

    def backends(self) -> Listing[DeviceView]:
        """All virtual devices by backend and path."""
        ...

    def graph(self, expand: bool) -> Graph:
        """The resource graph as JGF; ``expand`` makes a vertex of each unit, else equal leaves share one."""
        ...

    def counts(self) -> Counts:
        """How many there are: a look at what is known, without making any of it."""
        ...
