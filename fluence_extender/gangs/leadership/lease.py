"""Which replica may write: the one whose kube-scheduler holds the Lease, while no other can have taken it.

We read the Lease from time to time, and no reading is certain to be recent: a process may hang between any two of its
instructions, and answers may come late. Therefore a read counts from the moment at which it was *requested*, and all
times are on our own clock. Let D be the Lease's duration (15 s). We write at a time t only while all of these hold:

1. t < r + 2/3 D, where r is the read before the one that first showed the newest renewal. Another candidate takes the
   Lease a whole D after the last renewal that *it* saw (client-go, leaderelection), which is no older than r.
2. t < q + D/6, where q is the last read whose answer has arrived and shows that the Lease is ours. A kube-scheduler
   that ends, or fails to renew the Lease, may release it at any moment after q, and another takes it at once.
3. q >= b + D/12, where b is when we learned that our lead began, or that it continued after it had run out by rule 1.
   So a replica that took the Lease, or renewed it late, writes only if it still held the Lease D/12 later.
4. q >= h + D/6 + D/15, where h is when we learned that the Lease changed hands. By rule 2 the previous holder wrote
   until D/6 after it had lost the Lease, and its last writes have D/15 to arrive.

Rule 4 doesn't apply if the previous holder was silent: the read before h, requested at p, still showed the renewal that
was known at p - 2/3 D. Then by rule 1 its lead had run out before p. If the Lease was renewed after p, or a third
replica held it in between, then by rule 3 that replica wrote only if it still held the Lease D/12 after p, which it did
not if h was less than D/12 after p. If a read took longer, rule 4 applies.

Clocks needn't agree, but they must run equally fast to within a few percent. All replicas are assumed to have the same
D; while it changes, the longest that was seen counts. Two cases can't be detected. A process may be stopped after the
last comparison and before the operating system has the bytes, which is why each write also names the uid of its pod.
And the clock of a virtual machine stands still while its host has paused it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from fluence_extender.cluster.port import Lease

OURS_OF_DURATION = 2 / 3
"""The part of a Lease's duration in which its holder writes: kube-scheduler's renewDeadline over leaseDuration."""

ASKED_OF_DURATION = 1 / 6
"""The part of it for which the holder may write after a read. The next read has to be answered within this time."""

BEGUN_OF_DURATION = 1 / 12
"""The part of it for which we must hold the Lease before we write."""

UNDER_WAY_OF_DURATION = 1 / 15
"""The part of it within which a write under way arrives."""

LONG_AGO = float("-inf")
"""Stands for the time of an event that hasn't happened."""

Term = tuple[str, int]
"""One holder's term: its identity and the number of transitions before it."""


class Leadership(Protocol):
    """Whether this replica leads now."""

    @property
    def leads(self) -> bool:
        """Whether it may write at this moment; check it immediately before each write."""
        ...

    @property
    def holds(self) -> bool:
        """Whether its term goes on: it leads, or it would if it read the Lease now and found it unchanged."""
        ...

    @property
    def why_not(self) -> str:
        """Why it may not, in stable words; "" while it leads."""
        ...


class Alone:
    """The leadership of a single replica."""

    leads = True
    holds = True
    why_not = ""


ALONE = Alone()


def since_boot() -> float:
    """Return seconds on a clock that can't be set; if the system has such a clock, it runs while the machine sleeps."""
    return time.clock_gettime(CLOCK)


CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class ByLease:
    """Leads while the kube-scheduler on the host ``identity`` holds the Lease; ``clock`` is monotonic, in seconds."""

    def __init__(self, identity: str, clock: Callable[[], float] = since_boot) -> None:
        self.identity = identity
        self.clock = clock
        self._lease: Lease | None = None
        self._longest = 0.0
        self._last_read = LONG_AGO
        """When the last read that was answered was requested: q above."""
        self._renewed_after = LONG_AGO
        """When the read before the one that first showed the newest renewal was requested: r above."""
        self._changed = LONG_AGO
        """When we learned of the newest renewal."""
        self._began = LONG_AGO
        """When we learned that the lead began, or continued after it had run out: b above."""
        self._changed_hands = LONG_AGO
        """When we learned that the Lease changed hands, if rule 4 applies: h above."""

    def saw(self, lease: Lease | None, requested_at: float) -> None:
        """Take in the Lease (None: there is none) that was requested at ``requested_at`` on our clock."""
        if lease != self._lease:
            now = self.clock()
            if _term(self._lease) != _term(lease):
                self._change_hands(now)
            elif now >= self._runs_out:
                self._began = now
            self._lease = lease
            self._longest = max(self._longest, lease.duration if lease is not None and lease.holder else 0.0)
            self._renewed_after = self._last_read
            self._changed = now
        self._last_read = requested_at

    def _change_hands(self, now: float) -> None:
        """Record that the holder has changed. The previous one may not know it yet."""
        self._began = now
        if now - self._last_read >= BEGUN_OF_DURATION * self._longest or not self._silent:
            self._changed_hands = now

    @property
    def _silent(self) -> bool:
        """Whether the holder's lead had run out by our last read. Holders before it may still write."""
        if self._lease is None or not self._lease.holder:
            return True
        return self._last_read >= self._changed + OURS_OF_DURATION * self._lease.duration

    @property
    def _runs_out(self) -> float:
        """Until when the last renewal allows writing, `LONG_AGO` without a Lease."""
        if self._lease is None:
            return LONG_AGO
        return self._renewed_after + OURS_OF_DURATION * self._lease.duration

    @property
    def silent_at(self) -> float:
        """When the previous holder has stopped writing, on our clock."""
        return self._changed_hands + (ASKED_OF_DURATION + UNDER_WAY_OF_DURATION) * self._longest

    @property
    def begins_at(self) -> float:
        """From when on a read that shows the holder lets it write, on our clock."""
        return max(self._began + BEGUN_OF_DURATION * self._longest, self.silent_at)

    @property
    def holds(self) -> bool:
        """Whether the Lease is ours and was renewed recently enough, and all other replicas have stopped writing."""
        if self._lease is None or not self._ours(self._lease):
            return False
        return self._last_read >= self.begins_at and self.clock() < self._runs_out

    @property
    def leads(self) -> bool:
        """Whether we hold the Lease, and have read it recently enough."""
        if self._lease is None or not self.holds:
            return False
        return self.clock() < self._last_read + ASKED_OF_DURATION * self._lease.duration

    @property
    def term(self) -> Term | None:
        """Our current term, None if we don't hold the Lease. What we knew in another term may be out of date."""
        return _term(self._lease) if self.holds else None

    @property
    def duration(self) -> float | None:
        """The Lease's duration in seconds, None while it has no holder."""
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
        if self._last_read < self.begins_at:
            return "the lease was taken just now, and the one before may not know it yet"
        return "the lease hasn't been read lately"

    def _ours(self, lease: Lease) -> bool:
        # kube-scheduler calls itself HOSTNAME_UUID (Kubernetes cmd/kube-scheduler/app, Setup).
        return lease.holder.rpartition("_")[0] == self.identity


def _term(lease: Lease | None) -> Term | None:
    return (lease.holder, lease.transitions) if lease is not None else None
