"""What a namespace may have of pods that don't exist: how many may be expected, and when they get places.

A Job of a few lines may announce thousands of pods. No quota counts them before they exist, but each takes memory and
time of the service. So their number is bounded, and so is the rate at which they are made.

Places are held for them. Mostly the service knows beforehand what the API server will refuse: it compares quotas, and
tries a pod in a dry run. Other causes (a quota that fills up meanwhile, a missing ServiceAccount, another webhook) show
only when the pods don't appear. So after each such failure the expected pods of the namespace get no places for a
while, and then for half as long as before. A failure is cancelled once there was none for an hour. Failures are kept in
memory alone: after a restart, a namespace begins anew. No user can bring about a restart.

Invariant: whatever the other namespaces have announced, a namespace without expected pods may have some.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from fluence_extender.gangs.lifecycle.back_off import BackOff
from fluence_extender.gangs.lifecycle.limits import NEVER
from fluence_extender.model.pace import Pace
from fluence_extender.model.reason import Reason, queued

MOST_OF_NAMESPACE = 20_000
"""The most expected pods of a namespace. Further Jobs are resumed at once, because quotas count pods that exist."""

MOST_EXPECTED = 100_000
"""The most expected pods of all namespaces. A namespace may have at most half of what the others leave of them."""

MOST_AT_ONCE = 500
"""The most pods of one namespace that a step adds for waiting Jobs, and that it forgets for Jobs that are gone."""

AT_FIRST, A_SECOND = 4000, 500
"""For a namespace's waiting Jobs: the pods expected in one go after a quiet time, and more of them each second."""

FIRST_PAUSE, LONGEST_PAUSE = 30.0, 1800.0
"""The shortest and the longest time without places after a failure, in seconds."""

LEAST_PATIENCE = 10.0
"""The Job controller needs a moment to create many pods, so places are held at least for so many seconds."""

FORGIVEN_AFTER = 3600.0
"""Seconds without a failure, from the end of the last pause on, that cancel one failure."""

REFUSED = (
    "pods of this namespace weren't created after they had got places (the Events of their Jobs say why: "
    "FailedCreate); the next ones get places after a pause, which is longer each time"
)


class Allowance:
    """Counts the expected pods of each namespace; ``clock`` gives seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._counts: Counter[str] = Counter()
        self._pace = Pace(AT_FIRST, A_SECOND, clock)

    def count(self, namespace: str, more: int) -> None:
        """Count expected pods that are new, or that are gone if ``more`` is negative."""
        self._counts[namespace] += more
        if not self._counts[namespace]:
            del self._counts[namespace]

    def room(self, namespace: str) -> int:
        """Return how many more pods of a namespace may be expected."""
        own = self._counts[namespace]
        others = self._counts.total() - own
        return max(min(MOST_OF_NAMESPACE, (MOST_EXPECTED - others) // 2) - own, 0)

    def now(self, namespace: str) -> int:
        """Return how many pods of waiting Jobs may be expected now: none, or at least `MOST_AT_ONCE`.

        Each time that pods join a gang, all of the gang is looked at.
        """
        left = int(self._pace.left(namespace))
        return left if left >= MOST_AT_ONCE else 0

    def spend(self, namespace: str, pods: int) -> None:
        """Count pods of waiting Jobs that are expected now."""
        self._pace.spend(namespace, pods)


class UncreatedPods:
    """The back-off of each namespace whose pods weren't created although they had places; ``clock`` gives seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._back_offs: dict[str, BackOff] = {}

    def copy(self, now: float) -> UncreatedPods:
        """Return an independent copy at ``now``."""
        copied = UncreatedPods(lambda: now)
        copied._back_offs = dict(self._back_offs)
        return copied

    def failed(self, namespace: str) -> None:
        """Count a failure, unless it began before the pause of the last one."""
        if self.until(namespace) is NEVER:
            failed = self._now(namespace).failed(self._clock(), FIRST_PAUSE, LONGEST_PAUSE)
            self._back_offs = {one: old for one, old in self._back_offs.items() if self._now(one).failures}
            self._back_offs[namespace] = failed

    def until(self, namespace: str) -> float:
        """Return when expected pods of a namespace get places again, `NEVER` if nothing keeps them from that."""
        ends = self._now(namespace).until
        return ends if ends > self._clock() else NEVER

    def obstacle(self, namespace: str) -> Reason | None:
        """Return why expected pods of a namespace get no places now, None if they may."""
        return None if self.until(namespace) is NEVER else queued(REFUSED)

    def patience(self, namespace: str, usual: float) -> float:
        """Return for how many seconds places are held that are usually held for ``usual`` seconds."""
        return min(usual, max(usual / 2.0 ** self._now(namespace).failures, LEAST_PATIENCE))

    def _now(self, namespace: str) -> BackOff:
        """Return the back-off of a namespace with the failures that still count."""
        back_off = self._back_offs.get(namespace, BackOff())
        cancelled = int(max(self._clock() - back_off.until, 0.0) / FORGIVEN_AFTER)
        return replace(back_off, failures=max(back_off.failures - cancelled, 0))
