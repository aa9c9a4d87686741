"""What makes pods a gang."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Convention(StrEnum):
    """How a pod says which gang it belongs to."""

    POD_GROUP = "podgroup"
    COSCHEDULING = "coscheduling"
    LABEL = "group"
    KUEUE = "kueue"
    LEADER_WORKER_SET = "leaderworkerset"
    RAY_CLUSTER = "raycluster"
    MPI_JOB = "mpijob"
    JOB_SET = "jobset"
    OWNER = "owner"
    JOB = "job"
    ALONE = "pod"


@dataclass(frozen=True, slots=True, order=True)
class GangKey:
    """The identity of a gang.

    ``name`` is the group's; ``uid`` tells namesakes apart where a name isn't enough (a pod on its own, the owner of
    pods). ``part`` is set where members of one group can't all exist at once, because some are only created when
    others run: each part is then a gang of its own.
    """

    namespace: str
    name: str
    convention: Convention
    uid: str = ""
    part: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}/{self.part}" if self.part else f"{self.namespace}/{self.name}"


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
