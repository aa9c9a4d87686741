"""The identity of a gang, the states of its life, and the kinds of entries in its history."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Convention(StrEnum):
    """The convention by which a pod names its gang."""

    __hash__ = str.__hash__

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


class GangKey(NamedTuple):
    """The identity of a gang; a tuple, because a step hashes and compares thousands of them.

    ``name`` is the name of the group. ``uid`` is set where a name alone isn't unique over time: for a pod on its own,
    and for the owner of pods. ``part`` is set where the members of one group can't all exist at once, because some are
    created only when others run; each part is then a gang of its own.
    """

    namespace: str
    name: str
    convention: Convention
    uid: str = ""
    part: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}/{self.part}" if self.part else f"{self.namespace}/{self.name}"


class GangState(StrEnum):
    """The state of a gang.

    waiting: it has no place; planned: it has a place, and nothing of that is visible outside yet; committed: from its
    first ungate or Binding until it is whole, its share is reserved for it; bound: every member has its node; finished:
    no member is left.
    """

    WAITING = "waiting"
    PLANNED = "planned"
    COMMITTED = "committed"
    BOUND = "bound"
    FINISHED = "finished"


class HistoryKind(StrEnum):
    """The kinds of entries in a gang's history.

    seen: a member was created; taken-over: a member was bound before the service started; whole: enough members exist;
    waiting: the gang has no place, for the reason in the entry's detail; announced: an Event was recorded, with the
    text in the detail; delayed: it will start later than was expected; planned, withdrawn:
    the gang got a place, or lost it; committed: its places are reserved for it; steered: a member was sent to
    kube-scheduler for its node; filtered: kube-scheduler called filter and got the node; refused: kube-scheduler didn't
    take the node; bound: a member has its node; complete: all members have their nodes; failed: a write failed;
    evicted: a bound member was evicted; requeued: its Jobs were suspended, so that it waits in line again; released: a
    member holds nothing any more; finished: no member is left running; gone: no pod is left.
    """

    SEEN = "seen"
    TAKEN_OVER = "taken-over"
    WHOLE = "whole"
    WAITING = "waiting"
    ANNOUNCED = "announced"
    DELAYED = "delayed"
    PLANNED = "planned"
    WITHDRAWN = "withdrawn"
    COMMITTED = "committed"
    STEERED = "steered"
    FILTERED = "filtered"
    REFUSED = "refused"
    BOUND = "bound"
    COMPLETE = "complete"
    FAILED = "failed"
    EVICTED = "evicted"
    REQUEUED = "requeued"
    RELEASED = "released"
    FINISHED = "finished"
    GONE = "gone"
