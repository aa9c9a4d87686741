"""What the HTTP shell asks of the rest of the service.

The verbs are look-ups: `Placements.locate` never allocates, never waits, and says the same thing however
often it is asked until the plan changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


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
    """The pod's planned node."""

    node: str


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


@dataclass(frozen=True, slots=True)
class MemberView:
    """One member of a gang in the state API; ``node`` and ``backend`` are "" while there is none."""

    pod: str
    uid: str
    node: str = ""
    backend: str = ""


@dataclass(frozen=True, slots=True)
class GangView:
    """One gang in the state API; ``state`` is waiting, planned, committed, bound or finished."""

    namespace: str
    name: str
    state: str
    reason: str
    size: int
    members: tuple[MemberView, ...] = ()


@dataclass(frozen=True, slots=True)
class AllocationView:
    """What one pod holds: cores (a fraction may be held), memory in bytes, whole gpus and other devices."""

    namespace: str
    pod: str
    uid: str
    node: str
    core: float
    memory: int
    gpu: int
    backend: str = ""
    devices: Mapping[str, int] = field(default_factory=dict)


class Placements(Protocol):
    """The service behind the verbs and the state API."""

    @property
    def ready(self) -> bool:
        """Whether the cluster has been listed and what runs there replayed."""
        ...

    @property
    def not_ready_reason(self) -> str:
        """What is still missing, "" when ready."""
        ...

    def locate(self, pod: AskedPod) -> Location:
        """Say where the pod is to go. A look-up: no waiting, no change."""
        ...

    def refused(self, pod: AskedPod, node: str) -> None:
        """Take note that ``node``, the planned one, wasn't among those offered in a filter call."""
        ...

    async def bind(self, pod: AskedPod, node: str) -> None:
        """Bind the pod to its planned node, with its gang. Idempotent.

        Raises `BindRefused` or a `ClusterError`. Runs on when the caller has gone; cancelled when we stop.
        """
        ...

    def may_evict(self, uids: Sequence[str]) -> bool:
        """Whether evicting all of these pods (ours and others') breaks no gang of ours."""
        ...

    def gangs(self) -> Sequence[GangView]:
        """All gangs that are known, ordered by namespace and name."""
        ...

    def allocations(self) -> Sequence[AllocationView]:
        """What pods of ours hold, planned and committed included, ordered by namespace and pod."""
        ...

    def graph(self, expand: bool) -> dict[str, Any]:
        """The resource graph as JGF; ``expand`` makes a vertex of each unit, else equal leaves share one.

        The document is the caller's: it doesn't change afterwards.
        """
        ...
