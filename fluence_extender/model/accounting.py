"""The records of the account of past work, and the port to the keeper of the account.

A `PodAccount` states what one pod holds, from when until when, and for which queue and user. It is sent again whenever
one of these facts changes, and again after a restart. So a keeper replaces its record of a pod, and counts nothing
twice. The pods of one life of a gang have the same ``run``.

Invariant: the sink never blocks and never fails. No decision depends on an account.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from fluence_extender.model.access import CallerSight


class WorkOutcome(StrEnum):
    """How a pod or a gang has ended.

    Evicted: the service evicted it. Deleted: it was deleted while it ran. Rejected: the kubelet didn't take it. Lost:
    it was gone when the service looked again, so its end wasn't observed.
    """

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    REJECTED = "Rejected"
    EVICTED = "Evicted"
    DELETED = "Deleted"
    LOST = "Lost"


@dataclass(frozen=True, slots=True)
class HeldAmount:
    """A quantity of a resource: cpu in millicores, memory in MiB, all others in pieces.

    ``backend`` serves it if it is a virtual device, and is "" for all other resources.
    """

    resource: str
    backend: str
    quantity: int


@dataclass(frozen=True, slots=True)
class MovedStart:
    """A promised start that was moved ``at`` a time, from one time to another (None: unknown)."""

    at: int
    promised: int
    start: int | None


@dataclass(frozen=True, slots=True)
class ReservedStarts:
    """The first start that was reserved for a gang, None if none was, and how the reserved start has moved."""

    first: int | None = None
    moves: tuple[MovedStart, ...] = ()

    def with_first(self, start: float) -> ReservedStarts:
        """Return a copy with a reserved start."""
        return replace(self, first=int(start)) if self.first is None else self

    def with_move(self, move: MovedStart) -> ReservedStarts:
        """Return a copy with a move of the reserved start. Of many moves the first and the last ones are kept."""
        moves = (*self.moves, move)
        if len(moves) > MOST_MOVES:
            moves = moves[: MOST_MOVES // 2] + moves[MOST_MOVES // 2 + 1 :]
        return replace(self, moves=moves)


MOST_MOVES = 16


@dataclass(frozen=True, slots=True)
class PodAccount:
    """What a pod of ours holds or held. Times are whole seconds since the epoch.

    ``gang`` is the gang's name in its namespace, ``workload`` the pod's owner as ``job/train``, "" without one.
    ``submitted`` is when the gang was created, ``started`` when the pod got its node, ``ended`` None while it runs.
    ``promised`` is the first start that the gang was promised, and ``moves`` are the moves of that promise.
    """

    uid: str
    run: str
    namespace: str
    pod: str
    gang: str
    convention: str
    workload: str
    queue: str
    user: str
    account: str
    node: str
    submitted: int
    started: int
    amounts: tuple[HeldAmount, ...]
    ended: int | None = None
    outcome: WorkOutcome | None = None
    promised: int | None = None
    moves: tuple[MovedStart, ...] = ()


class AccountSink(Protocol):
    """Takes in the accounts of pods, which only the leader sends."""

    def record(self, account: PodAccount) -> None:
        """Take in the account of a pod, which replaces an earlier one."""
        ...

    def begin(self, running: frozenset[str]) -> None:
        """Begin a term as the leader: these pods run, and all others that ran before have ended unobserved."""
        ...

    def stand_down(self) -> None:
        """End the term: write the rest, then let another replica write."""
        ...


class Grouping(StrEnum):
    """The ways to add up use."""

    QUEUE = "queue"
    USER = "user"
    NAMESPACE = "namespace"
    ACCOUNT = "account"
    DAY = "day"


@dataclass(frozen=True, slots=True)
class Reader:
    """A caller, who may see everything in ``sight`` and the work that ``user`` submitted; "" stands for no user."""

    sight: CallerSight
    user: str = ""


@dataclass(frozen=True, slots=True)
class UsedAmount:
    """The use of the queue, user, namespace, account or day ``name``, in quantity times seconds."""

    name: str
    resource: str
    backend: str
    unit_seconds: int


@dataclass(frozen=True, slots=True)
class RunQuestion:
    """The requested runs, the newest first: those that started at ``since`` or later.

    "" stands for all.
    """

    namespace: str = ""
    queue: str = ""
    user: str = ""
    account: str = ""
    gang: str = ""
    workload: str = ""
    since: int = 0
    limit: int = 100


class AccountUnavailable(Exception):
    """The account can't be read now; the text says why."""
