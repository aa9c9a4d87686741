"""Namespaces whose pods weren't created although they had places: the next ones get places only after a pause.

Places are held for pods that don't exist yet. Mostly the service knows beforehand what the API server will refuse: it
compares quotas, and tries a pod in a dry run. Other causes (a quota that fills up meanwhile, a missing ServiceAccount,
another webhook) show only when the pods don't appear. Then the places were held for nothing, and a user who makes such
Jobs again and again would hold them all the time.

So after each failure the expected pods of the namespace get no places for a while, which doubles each time. And its
places are held for half as long as before. Both effects fade: an hour without a failure cancels one failure. Pods that
exist aren't affected.

The failures are kept in memory alone. So after a restart or a change of leader, a namespace whose pods aren't created
holds places once more for the usual time, and then waits as it did at first. No user can bring about a restart.
"""

from __future__ import annotations

from collections.abc import Callable

from fluence_extender.gangs.lifecycle.back_off import pause
from fluence_extender.gangs.lifecycle.limits import NEVER
from fluence_extender.model.reason import Reason, queued

FIRST_PAUSE, LONGEST_PAUSE = 30.0, 1800.0
"""The shortest and the longest pause, in seconds."""

LEAST_PATIENCE = 10.0
"""The Job controller needs a moment to create many pods, so places are held at least for so many seconds."""

FORGIVEN_AFTER = 3600.0
"""Seconds without a failure that cancel one failure."""

REFUSED = (
    "pods of this namespace weren't created after they had got places (the Events of their Jobs say why: "
    "FailedCreate); the next ones get places after a pause, which is longer each time"
)


class UncreatedPods:
    """Counts the failures of each namespace; ``clock`` gives seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failed: dict[str, tuple[int, float]] = {}
        """By namespace: the failures that count, and when the last of them was."""

    def copy(self, now: float) -> UncreatedPods:
        """Return an independent copy at ``now``."""
        copied = UncreatedPods(lambda: now)
        copied._failed = dict(self._failed)
        return copied

    def failed(self, namespace: str) -> None:
        """Count a failure, unless it began before the pause of the last one."""
        if self.until(namespace) is NEVER:
            now = self._clock()
            self._failed[namespace] = self._count(namespace) + 1, now
            for name in [one for one in self._failed if not self._count(one)]:
                del self._failed[name]

    def until(self, namespace: str) -> float:
        """Return when expected pods of a namespace get places again, `NEVER` if nothing keeps them from that."""
        count, last = self._count(namespace), self._failed.get(namespace, (0, 0.0))[1]
        ends = last + pause(FIRST_PAUSE, count, LONGEST_PAUSE) if count else 0.0
        return ends if ends > self._clock() else NEVER

    def obstacle(self, namespace: str) -> Reason | None:
        """Return why expected pods of a namespace get no places now, None if they may."""
        return None if self.until(namespace) is NEVER else queued(REFUSED)

    def patience(self, namespace: str, usual: float) -> float:
        """Return for how many seconds places are held that are usually held for ``usual`` seconds."""
        return min(usual, max(usual / 2.0 ** self._count(namespace), LEAST_PATIENCE))

    def _count(self, namespace: str) -> int:
        count, last = self._failed.get(namespace, (0, 0.0))
        return max(count - int((self._clock() - last) / FORGIVEN_AFTER), 0)
