"""Running work that its queue ends: work that overruns or exceeds ``maxDuration``, and all work if the queue evicts.

If the queue's ``overrun`` is ``Requeue``, or the queue is stopped, a gang goes back in line where that is possible.
Several gangs of one workload go back together, once none of them may run on. The pods of other gangs are evicted
together, through the Eviction API. Either way disruption budgets hold. The workload of evicted pods decides whether it
goes on: a Job creates new pods while its ``backoffLimit`` allows it, and those wait in line.

Invariant: while no queue ends work, no gang is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain

from fluence_extender.gangs.execution.actions import Evict, Requeue
from fluence_extender.gangs.lifecycle.places import Requeues
from fluence_extender.gangs.membership.gang import Gang
from fluence_extender.gangs.queue.quotas import Usage
from fluence_extender.gangs.queue.submissions import Ends
from fluence_extender.model.gang import GangKey
from fluence_extender.model.notation import format_duration
from fluence_extender.model.pod import Pod
from fluence_extender.objects.queues import OverrunAction, Queue, Stop

BETWEEN = 2.0
"""Seconds between two looks at running gangs."""

TOGETHER = 30.0
"""Seconds for which overrun pods wait for others of their workload, to go back in line with them."""

AGAIN = 30.0
"""Seconds until another attempt to end a pod that is still there."""


class Endings:
    """Decides which running gangs their queues end. ``calendar`` returns seconds since the epoch."""

    def __init__(
        self,
        gangs: Mapping[GangKey, Gang],
        ends: Ends,
        usage: Usage,
        requeues: Requeues,
        calendar: Callable[[], float],
    ) -> None:
        self._gangs = gangs
        self._ends = ends
        self._usage = usage
        self._requeues = requeues
        self._calendar = calendar
        self._next = float("-inf")
        self._ended: dict[str, float] = {}

    def due(self, queues: Mapping[str, Queue], now: float) -> list[Evict | Requeue]:
        """Return the actions that end gangs now."""
        strict = {name: queue for name, queue in queues.items() if _ends_work(queue)}
        if not strict or now < self._next:
            return []
        self._next = now + BETWEEN
        self._ended = {uid: at for uid, at in self._ended.items() if now < at + AGAIN}
        actions: list[Evict | Requeue] = []
        for key, gang in self._gangs.items():
            place = self._usage.place(key)
            queue = strict.get(place.queue) if place is not None and place.runs else None
            if queue is not None:
                actions.extend(self._end(gang, queue, now))
        return actions

    def _end(self, gang: Gang, queue: Queue, now: float) -> Sequence[Evict | Requeue]:
        pods = _bound(gang)
        why = self._why(queue, pods)
        not_ended = [pod for pod in pods if pod.uid not in self._ended]
        if not why or not not_ended:
            return []
        reason = f"gang {gang.key}: {why}"
        if _goes_back(queue):
            others = self._requeues.of_same_workloads(gang)
            running = [bound for bound in map(_bound, others) if bound]
            together = [*pods, *chain.from_iterable(running)]
            requeue = self._requeues.requeue(gang, together, reason, others=others)
            if requeue is not None and all(self._why(queue, bound) for bound in running):
                self._ended.update((pod.uid, now) for pod in together)
                return [requeue] if requeue.jobs else []
            soon = all(self._why(queue, bound, TOGETHER) for bound in running)
            if requeue is not None and soon and not self._why(queue, pods, -TOGETHER):
                return []
        self._ended.update((pod.uid, now) for pod in not_ended)
        return [Evict(pod, reason) for pod in not_ended]

    def _why(self, queue: Queue, pods: list[Pod], later: float = 0.0) -> str:
        """Return why these pods of a gang may not run on, ``later`` seconds from now."""
        return why_ended(queue, pods, self._ends.declared, self._calendar() + later)


def _bound(gang: Gang) -> list[Pod]:
    return [member.pod for member in gang.alive() if member.bound]


def why_ended(queue: Queue, pods: list[Pod], declared: Callable[[Pod], float | None], now: float) -> str:
    """Return why a gang with these bound pods may not run on, "" if it may. ``declared`` returns a pod's duration."""
    if queue.stop is Stop.EVICT:
        return f"queue {queue.name} is stopped, which ends its work"
    for pod in pods:
        allowed = _allowed(queue, declared(pod))
        if allowed is not None and pod.started and now >= pod.started + allowed:
            ran = format_duration(allowed)
            return f"pod {pod.name} has run for {ran}, and queue {queue.name} ends work that runs longer"
    return ""


def _goes_back(queue: Queue) -> bool:
    """Return whether gangs that the queue ends go back in line where that is possible."""
    return queue.stop is Stop.EVICT or queue.overrun is OverrunAction.REQUEUE


def _allowed(queue: Queue, declared: float | None) -> float | None:
    """Return how many seconds a pod with that declared duration may run, None if the queue doesn't end it."""
    times = [queue.max_duration]
    if queue.overrun is not OverrunAction.EXTEND:
        times.append(queue.default_duration if declared is None else declared)
    return min((seconds for seconds in times if seconds is not None), default=None)


def _ends_work(queue: Queue) -> bool:
    extends = queue.overrun is OverrunAction.EXTEND
    return queue.stop is Stop.EVICT or queue.max_duration is not None or not extends
