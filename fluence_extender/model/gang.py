"""What makes pods a gang."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Convention(StrEnum):
    """How a pod says which gang it belongs to."""

    POD_GROUP = "podgroup"
    LABEL = "group"
    ALONE = "pod"


@dataclass(frozen=True, slots=True, order=True)
class GangKey:
    """The identity of a gang. ``name`` is the group's, or for a pod on its own the pod's name and uid."""

    namespace: str
    name: str
    convention: Convention
    uid: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class GangState(StrEnum):
    """Where a gang is in its life.

    planned: it has a place, nothing of it is visible outside yet; committed: from the first ungate or Binding on its
    share is its own until it is whole; bound: every member has its node; finished: no member is left.
    """

    WAITING = "waiting"
    PLANNED = "planned"
    COMMITTED = "committed"
    BOUND = "bound"
    FINISHED = "finished"
