"""The declared ends of pods, and the declared durations of waiting gangs.

A pod may declare a duration, and its Job a deadline; the earlier end counts. Work that declares neither has the default
of its queue. If that states none either, no end is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from fluence_extender.gangs.membership.conventions.membership import Workloads, job_of
from fluence_extender.model.pod import Pod
from fluence_extender.queueing.entry import NEVER

LATEST = datetime.max.replace(second=0, microsecond=0, tzinfo=UTC).timestamp()
"""The last minute that can be written as a date, in seconds since the epoch. A pod that ends later never ends."""

DefaultDuration = Callable[[Pod], float | None]
"""Returns the seconds that a pod without a declared duration runs, None where its queue states none."""


class Ends:
    """Computes the ends of pods from what they, their Jobs and their queues state."""

    def __init__(self, workloads: Workloads, default: DefaultDuration = lambda _: None) -> None:
        self._workloads = workloads
        self._default = default

    def has_end(self, pod: Pod) -> bool:
        """Return whether anything tells when the pod ends."""
        return pod.duration is not None or self._job_ends(pod) < NEVER or self._default(pod) is not None

    def end(self, pod: Pod, placed: float) -> float:
        """Return when a pod ends that has had its place since ``placed``, `NEVER` where no end is known."""
        end = min((pod.started or placed) + self._declared(pod), self._job_ends(pod))
        return self._or_default(pod, end, pod.started or placed)

    def duration(self, pods: Iterable[Pod], now: float) -> float:
        """Return how many seconds a gang of these pods would run from ``now`` on, `NEVER` where no end is known."""
        ends = (
            self._or_default(pod, min(now + self._declared(pod), self._job_ends(pod)), now) for pod in pods
        )
        return max(max(ends, default=NEVER) - now, 1.0)

    @staticmethod
    def _declared(pod: Pod) -> float:
        return NEVER if pod.duration is None else pod.duration

    def _job_ends(self, pod: Pod) -> float:
        job = job_of(pod, self._workloads)
        return NEVER if job is None or job.ends is None else job.ends

    def _or_default(self, pod: Pod, end: float, since: float) -> float:
        if end == NEVER:
            default = self._default(pod)
            end = NEVER if default is None else since + default
        return end if end <= LATEST else NEVER
