"""Who may write: the replica whose kube-scheduler holds the Lease, and only while nobody else can have taken it.

Another candidate takes the Lease a whole duration after the last renewal *it* saw (client-go, leaderelection). We see
renewals by asking, so the newest one is no older than the question before the one that showed it; from there two thirds
of the duration are ours (kube-scheduler's own renew deadline: 10 of 15 s), and the last third is for writes under way.
Invariants: no clock but our own monotonic one counts; a process that was stopped, or whose answers came late, never
takes what is old for new; a Lease seen for the first time proves nothing until it is renewed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from fluence_extender.model.lease import Lease

OURS_OF_DURATION = 2 / 3
"""The part of a Lease's duration in which its holder writes: kube-scheduler's renewDeadline over leaseDuration."""

Term = tuple[str, int]
"""One holder's time in office: its identity and the number of transitions before it."""


class Leadership(Protocol):
    """Whether this replica leads now; to be asked immediately before each write."""

    @property
    def leads(self) -> bool:
        """Whether it may write at this moment."""
        ...

    @property
    def why_not(self) -> str:
        """Why it may not, in stable words; "" while it leads."""
        ...


class Alone:
    """The leadership of a replica without others."""

    leads = True
    why_not = ""


ALONE = Alone()


class ByLease:
    """Leads while the kube-scheduler on the host ``identity`` holds the Lease; ``clock`` is monotonic, in seconds."""

    def __init__(self, identity: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.identity = identity
        self._clock = clock
        self._lease: Lease | None = None
        self._looked = float("-inf")
        self._renewed_after = float("-inf")
        self._changed = float("-inf")
        self._others_until = float("-inf")
        self._left = float("-inf")

    def saw(self, lease: Lease | None, asked: float) -> None:
        """Take in the Lease (None: there is none), for which was asked at ``asked`` on our clock."""
        if lease != self._lease:
            now = self._clock()
            if self._holder != (lease.holder if lease is not None else ""):
                self._hand_over(now)
            self._lease = lease
            self._renewed_after = self._looked
            self._changed = now
        self._looked = asked

    def _hand_over(self, now: float) -> None:
        """Another one holds the Lease, or nobody: the one before may think for a while that it still does."""
        if self._lease is None or not self._lease.holder:
            return
        self._left = now
        # A renewal that we missed counts from now on; then only its own question tells it.
        missed = now - self._looked > self._lease.duration * (1 - OURS_OF_DURATION)
        self._others_until = now if missed else self._changed
        self._others_until += OURS_OF_DURATION * self._lease.duration

    @property
    def until(self) -> float:
        """When what was seen stops being enough to write, on our clock; -inf where the Lease isn't ours."""
        if self._lease is None or not self._ours(self._lease):
            return float("-inf")
        return self._renewed_after + OURS_OF_DURATION * self._lease.duration

    @property
    def leads(self) -> bool:
        """Whether the Lease is ours and was renewed lately enough."""
        return self._clock() < self.until

    @property
    def term(self) -> Term | None:
        """The term in which we lead now, None while we don't. What was known in another term may be out of date."""
        return (
            (self._lease.holder, self._lease.transitions) if self._lease is not None and self.leads else None
        )

    @property
    def duration(self) -> float | None:
        """The Lease's duration in seconds, None while nobody holds it."""
        return self._lease.duration if self._lease is not None and self._lease.holder else None

    def silent_at(self, notice: float) -> float:
        """From when on nobody before us writes, on our clock: it asks for the Lease every ``notice`` seconds."""
        return min(self._others_until, self._left + notice)

    @property
    def _holder(self) -> str:
        return self._lease.holder if self._lease is not None else ""

    @property
    def why_not(self) -> str:
        """Why we don't lead, "" while we do."""
        if self._lease is None:
            return "there is no lease yet"
        if not self._lease.holder:
            return "nobody holds the lease"
        if not self._ours(self._lease):
            return f"the lease is held by {self._lease.holder}"
        return "" if self.leads else "the lease hasn't been seen renewed lately"

    def _ours(self, lease: Lease) -> bool:
        # kube-scheduler calls itself HOSTNAME_UUID (Kubernetes cmd/kube-scheduler/app, Setup).
        return lease.holder.rpartition("_")[0] == self.identity
