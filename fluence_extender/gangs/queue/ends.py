"""The declared ends of pods, and the declared durations of waiting gangs.

A pod and each workload that it belongs to may declare how long the pod runs, and a workload has an end once its
deadline runs; the earliest counts. Work that declares nothing has the default of its queue. If that states none either,
no end is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

from fluence_extender.gangs.membership.conventions.membership import Workloads
from fluence_extender.gangs.membership.workloads import KINDS, parents_of
from fluence_extender.model.names import REPLICATED_JOB, TRAINING_OPERATOR
from fluence_extender.model.pod import Pod
from fluence_extender.model.workload import JobSet, Workload
from fluence_extender.queueing.entry import NEVER

LATEST = datetime.max.replace(second=0, microsecond=0, tzinfo=UTC).timestamp()
"""The last minute that can be written as a date, in seconds since the epoch. A pod that ends later never ends."""

NAMING = (*KINDS, TRAINING_OPERATOR, REPLICATED_JOB)
"""The labels on which it depends how long a pod may run."""

DefaultDuration = Callable[[Pod], float | None]
"""Returns the seconds that a pod without a declared duration runs, None if its queue states none."""


class Ends:
    """Computes the ends of pods from what they, their workloads and their queues state."""

    def __init__(self, workloads: Workloads, default: DefaultDuration = lambda _: None) -> None:
        self._workloads = workloads
        self._default = default

    def has_end(self, pod: Pod) -> bool:
        """Return whether the end of the pod is known."""
        return (
            pod.duration is not None
            or self._declared_end(pod, 0.0, self._parents(pod)) < NEVER
            or self._default(pod) is not None
        )

    def end(self, pod: Pod, placed: float) -> float:
        """Return when a pod ends that got its place at ``placed``, `NEVER` if no end is known."""
        return self._end(pod, pod.started or placed, self._parents(pod))

    def duration(self, pods: Iterable[Pod], now: float) -> float:
        """Return how many seconds a gang of these pods would run if it started ``now``, `NEVER` if no end is known."""
        return self.run_time(pods, now)[0]

    def run_time(self, pods: Iterable[Pod], now: float) -> tuple[float, bool]:
        """Return `duration`, and whether it is the same whenever the gang starts, as no workload has an end yet."""
        last, fixed = -NEVER, True
        for pod in unlike(pods):
            parents = self._parents(pod)
            last = max(last, self._end(pod, now, parents))
            fixed = fixed and all(one.ends is None for one in parents)
        return max((last if last > -NEVER else NEVER) - now, 1.0), fixed

    def declared(self, pod: Pod) -> float | None:
        """Return how many seconds a pod runs by what it and its workloads declare, None where they declare nothing."""
        return declared(pod, self._workloads)

    def _parents(self, pod: Pod) -> Sequence[Workload]:
        return tuple(parents_of(pod, self._workloads))

    @staticmethod
    def _declared_end(pod: Pod, since: float, parents: Sequence[Workload]) -> float:
        seconds = _shortest(pod, parents)
        end = NEVER if seconds is None else since + seconds
        return min([end, *(one.ends for one in parents if one.ends is not None)])

    def _end(self, pod: Pod, since: float, parents: Sequence[Workload]) -> float:
        end = self._declared_end(pod, since, parents)
        if end == NEVER:
            default = self._default(pod)
            end = NEVER if default is None else since + default
        return end if end <= LATEST else NEVER


def unlike(pods: Iterable[Pod]) -> Iterable[Pod]:
    """Return one pod of a gang for each set of facts that decide how long a pod may run.

    Thousands of pods of a gang usually have one owner and one template.
    """
    return {
        (pod.namespace, pod.owner, pod.duration, *map(pod.labels.get, NAMING)): pod for pod in pods
    }.values()


def declared(pod: Pod, workloads: Workloads) -> float | None:
    """Return the shortest duration that a pod and its workloads declare, None where none declares one."""
    return _shortest(pod, parents_of(pod, workloads))


def _shortest(pod: Pod, parents: Iterable[Workload]) -> float | None:
    """Return `declared`, given the workloads that the pod belongs to."""
    durations = [pod.duration]
    for one in parents:
        durations.append(one.duration)
        if isinstance(one, JobSet):
            durations.append(one.durations.get(pod.labels.get(REPLICATED_JOB, "")))
    return min((seconds for seconds in durations if seconds is not None), default=None)
