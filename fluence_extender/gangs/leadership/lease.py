"""Who may write: the replica whose kube-scheduler holds the Lease, and only while nobody else can have taken it.

We see the Lease by asking for it, now and then and never for certain in time: a process may hang between any two of its
instructions, and answers may come late. So all that follows counts from the moment at which a question was *asked*, by
no clock but our own. With D the Lease's duration (15 s), we write at a time t only while

1. t < r + 2/3 D, r being the question before the one that first showed the newest renewal. Another candidate takes the
   Lease a whole D after the last renewal that *it* saw (client-go, leaderelection), which is no older than r.
2. t < q + D/6, q being the last question whose answer is there and says that the Lease is ours. It may be let go of at
   any moment, by a kube-scheduler that ends or fails to renew it, and is taken at once; but not before q.
3. q >= b + D/12, b being when we learned that our lead began, or went on after it had run out by 1. So nobody who took
   the Lease, or renewed it late, writes unless it still had it D/12 afterwards.
4. q >= h + D/6 + D/15, h being when we learned that it changed hands: by 2 the one before wrote until D/6 after it had
   lost the Lease, and what it sent then has D/15 to arrive.

The fourth isn't waited for where the one before fell silent: the question before h, asked at p, still showed the
renewal that was known at p - 2/3 D. Then by 1 it had run out before p. Had it been renewed after p, or had a third one
had the Lease between, then by 3 that one wrote only if it still held it D/12 after p; and so it did not where h was
less than D/12 after p. If a question took longer, the fourth holds.

Clocks needn't agree, but run equally fast to within some percent. Replicas are taken to have one D; while it changes,
the longest that was seen counts. What can't be told: a process may be stopped after the last comparison and before the
operating system has the bytes, which is why each write also names the uid of its pod; and the clock of a virtual
machine stands while its host has paused it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from fluence_extender.cluster.port import Lease

OURS_OF_DURATION = 2 / 3
"""The part of a Lease's duration in which its holder writes: kube-scheduler's renewDeadline over leaseDuration."""

ASKED_OF_DURATION = 1 / 6
"""The part of it in which the holder writes after a question, and in which the answer to the next one has to come."""

BEGUN_OF_DURATION = 1 / 12
"""The part of it for which the Lease must be ours before we write."""

UNDER_WAY_OF_DURATION = 1 / 15
"""The part of it that a write under way has to arrive."""

NEVER = float("-inf")

Term = tuple[str, int]
"""One holder's time in office: its identity and the number of transitions before it."""


class Leadership(Protocol):
    """Whether this replica leads now."""

    @property
    def leads(self) -> bool:
        """Whether it may write at this moment; to be asked immediately before each write."""
        ...

    @property
    def holds(self) -> bool:
        """Whether its term goes on: it leads, or would if it asked now and heard what it heard last."""
        ...

    @property
    def why_not(self) -> str:
        """Why it may not, in stable words; "" while it leads."""
        ...


class Alone:
    """The leadership of a replica without others."""

    leads = True
    holds = True
    why_not = ""


ALONE = Alone()


def since_boot() -> float:
    """Seconds on a clock that nobody sets; it goes on while the machine sleeps, where the system has such a one."""
    return time.clock_gettime(CLOCK)


CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class ByLease:
    """Leads while the kube-scheduler on the host ``identity`` holds the Lease; ``clock`` is monotonic, in seconds."""

    def __init__(self, identity: str, clock: Callable[[], float] = since_boot) -> None:
        self.identity = identity
        self.clock = clock
        self._lease: Lease | None = None
        self._longest = 0.0
        self._looked = NEVER
        self._renewed_after = NEVER
        self._changed = NEVER
        self._began = NEVER
        self._left = NEVER

    def saw(self, lease: Lease | None, asked: float) -> None:
        """Take in the Lease (None: there is none), for which was asked at ``asked`` on our clock."""
        if lease != self._lease:
            now = self.clock()
            if _term(self._lease) != _term(lease):
                self._change_hands(now)
            elif now >= self._runs_out:
                self._began = now
            self._lease = lease
            self._longest = max(self._longest, lease.duration if lease is not None and lease.holder else 0.0)
            self._renewed_after = self._looked
            self._changed = now
        self._looked = asked

    def _change_hands(self, now: float) -> None:
        """Another one holds the Lease, or nobody: the one before may think for a while that it still does."""
        self._began = now
        if now - self._looked >= BEGUN_OF_DURATION * self._longest or not self._silent:
            self._left = now

    @property
    def _silent(self) -> bool:
        """Whether nobody wrote any more when we last asked, but for those who lost the Lease before."""
        if self._lease is None or not self._lease.holder:
            return True
        return self._looked >= self._changed + OURS_OF_DURATION * self._lease.duration

    @property
    def _runs_out(self) -> float:
        """When the last renewal stops being enough to write; -inf where there is no Lease."""
        if self._lease is None:
            return NEVER
        return self._renewed_after + OURS_OF_DURATION * self._lease.duration

    @property
    def silent_at(self) -> float:
        """From when on nobody before us writes, on our clock."""
        return self._left + (ASKED_OF_DURATION + UNDER_WAY_OF_DURATION) * self._longest

    @property
    def begins_at(self) -> float:
        """From when on a question that shows the Lease to be its holder's lets that one write, on our clock."""
        return max(self._began + BEGUN_OF_DURATION * self._longest, self.silent_at)

    @property
    def holds(self) -> bool:
        """Whether the Lease is ours, was renewed lately enough, and nobody else writes any more."""
        if self._lease is None or not self._ours(self._lease):
            return False
        return self._looked >= self.begins_at and self.clock() < self._runs_out

    @property
    def leads(self) -> bool:
        """Whether it also was asked for lately enough."""
        if self._lease is None or not self.holds:
            return False
        return self.clock() < self._looked + ASKED_OF_DURATION * self._lease.duration

    @property
    def term(self) -> Term | None:
        """The term that goes on, None where none does. What was known in another term may be out of date."""
        return _term(self._lease) if self.holds else None

    @property
    def duration(self) -> float | None:
        """The Lease's duration in seconds, None while nobody holds it."""
        return self._lease.duration if self._lease is not None and self._lease.holder else None

    @property
    def why_not(self) -> str:
        """Why we don't lead, "" while we do."""
        if self._lease is None:
            return "there is no lease yet"
        if not self._lease.holder:
            return "nobody holds the lease"
        if not self._ours(self._lease):
            return f"the lease is held by {self._lease.holder}"
        if self.leads:
            return ""
        if self.clock() >= self._runs_out:
            return "the lease hasn't been seen renewed lately"
        if self._looked < self.begins_at:
            return "the lease was taken just now, and the one before may not know it yet"
        return "the lease hasn't been read lately"

    def _ours(self, lease: Lease) -> bool:
        # kube-scheduler calls itself HOSTNAME_UUID (Kubernetes cmd/kube-scheduler/app, Setup).
        return lease.holder.rpartition("_")[0] == self.identity


def _term(lease: Lease | None) -> Term | None:
    return (lease.holder, lease.transitions) if lease is not None else None
