"""When a pod declares to end, and how long a gang that waits declares to run.

A pod declares a duration, or its Job a deadline; the earliest counts. Work that declares none has its queue's default.
What declares nothing at all never ends, as far as anyone knows.
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
"""Returns how long a pod runs that declares no duration, None where its queue doesn't say it."""


class Ends:
    """The ends of pods, with what their Jobs and queues say."""

    def __init__(self, workloads: Workloads, default: DefaultDuration = lambda _: None) -> None:
        self._workloads = workloads
        self._default = default

    def known(self, pod: Pod) -> bool:
        """Return whether anything tells when the pod ends."""
        return pod.duration is not None or self._job_ends(pod) < NEVER or self._default(pod) is not None

    def end(self, pod: Pod, placed: float) -> float:
        """Return when a pod ends that holds its place since ``placed``, `NEVER` where nothing tells it."""
        end = min((pod.started or placed) + self._declared(pod), self._job_ends(pod))
        return self._or_default(pod, end, pod.started or placed)

    def duration(self, pods: Iterable[Pod], now: float) -> float:
        """Return how long a gang of these pods would run if it started ``now``, `NEVER` where a pod doesn't tell it."""
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
