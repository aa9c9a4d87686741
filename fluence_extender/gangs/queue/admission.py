"""Whether a gang may start, whatever room there is, and for which queue and user it counts.

A gang may start once its queue, its user's limits, its holds and its dependencies allow it. A gang that has places
keeps them, in the queue in which it got them.

Invariant: running and waiting gangs are counted as of the last look at each, and a gang that gets its places counts at
once. So no limit is exceeded within a step.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from sys import intern
from typing import TypedDict

from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.queue.fair_shares import FairShares
from fluence_extender.gangs.queue.obstacles import (
    Dependee,
    Dependencies,
    duration_obstacle,
    hold_obstacle,
    limit_obstacle,
    line_obstacle,
    running_obstacle,
    stop_obstacle,
    unmet,
)
from fluence_extender.gangs.queue.quotas import Place, Quotas, Usage
from fluence_extender.gangs.queue.settings import Queues, usual_seconds
from fluence_extender.gangs.queue.submissions import Ends, declared, submission_of, unlike
from fluence_extender.kinds.job import Job
from fluence_extender.kinds.resumable import Resumable
from fluence_extender.model.access import Caller
from fluence_extender.model.dependency import Ending, Target, parse_dependencies
from fluence_extender.model.gang import GangKey
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode, waits_for
from fluence_extender.model.resources import NOTHING
from fluence_extender.model.submission import Submission
from fluence_extender.objects.queues import DEFAULT_QUEUE, PastUse, Queue, QueueLimits
from fluence_extender.queueing.entry import EQUAL, NEVER, Age, Rank, rank
from fluence_extender.room.ledger import Ledger
from fluence_extender.room.records import recorded_queue, without_record

NO_LIMITS = QueueLimits()

MOST_CLASSED = 4096
"""The most combinations of namespace, queues and PriorityClasses whose priority is remembered."""

NO_QUEUE_NAME = ""
"""The queue name under which gangs without a queue are counted."""

LIMITED = (ReasonCode.QUEUED, ReasonCode.OVER_USER_LIMIT, ReasonCode.OVER_QUOTA)
"""The reasons of gangs that a limit or a quota keeps waiting. A pass judges them, because its decisions count there."""


class QueueAccount(TypedDict):
    """A queue's use and share of the cluster; see `QueueStatus`."""

    used: Mapping[str, str]
    borrowed: Mapping[str, str]
    share: float
    past: PastUse | None


class QueueAdmission:
    """Decides which gangs may start, and counts those that run and wait in ``usage``.

    ``version`` grows whenever a limit of a queue may let more gangs start than before.
    """

    def __init__(self, registry: Registry, queues: Queues, ledger: Ledger) -> None:
        self._registry = registry
        self._queues = queues
        self._dependencies = Dependencies(registry.look_at)
        registry.on_dependee = self._dependencies.dependee_changed
        self.usage = Usage()
        self.ahead: Collection[GangKey] = ()
        """In a pass, the gangs for which others are preempted, which get what they ask for before other gangs."""
        self.version = 0
        self.quotas = Quotas(queues, self.usage, ledger)
        self.ends = Ends(registry.workloads, self.default_duration)
        self.shares = FairShares(queues, self.quotas, self.usage, registry.gone.clock)
        self._record_past_use: Callable[[Place | None, Place | None], None] = self.shares.changes
        self._classed: tuple[int, dict[object, tuple[int, float]]] = (queues.revision, {})

    def for_pass(self, registry: Registry, queues: Queues) -> QueueAdmission:
        """Return a copy for a pass, which judges and counts copies of gangs without an effect on this one."""
        copied = copy(self)
        copied._registry, copied._queues = registry, queues
        copied._dependencies = Dependencies(registry.look_at)
        copied.usage = self.usage.copy()
        copied.quotas = self.quotas.for_pass(queues, copied.usage)
        copied.ends = Ends(registry.workloads, copied.default_duration)
        copied.shares = self.shares.for_pass(queues, copied.quotas, copied.usage, registry.gone.clock)
        copied._record_past_use = lambda *_: None
        return copied

    def queue_of(self, gang: Gang, submission: Submission | None = None) -> Queue | Reason:
        """Return the queue of a gang, or why it has none."""
        made = self._queues.made
        charged = made.get(charged_queue(gang)) if made else None
        if charged is not None:
            return charged
        submission = submission_of(gang, self._registry.workloads) if submission is None else submission
        members = gang.alive() or gang.members.values()
        return self._queues.queue_of((member.pod for member in members), dict(submission.queues))

    def queue_name(self, gang: Gang) -> str:
        """Return the name of a gang's queue, that of the default queue if it has none."""
        queue = self.queue_of(gang)
        return DEFAULT_QUEUE if isinstance(queue, Reason) else queue.name

    def default_duration(self, pod: Pod) -> float | None:
        """Return the seconds that a pod of ours without a declared duration runs, None if its queue states none."""
        gang_and_member = self._registry.member(pod.uid) if self._queues.usual_durations else None
        return gang_and_member[0].usual_duration if gang_and_member is not None else None

    def admission_timeout(self, gang: Gang) -> float | None:
        """Return how many seconds the gang keeps its places without pods, None if its queue states no limit."""
        queue = self.queue_of(gang)
        return queue.scheduling.admission_timeout if isinstance(queue, Queue) else None

    def turn_of(self, job: Resumable, age: Age) -> Rank:
        """Return the rank of a workload whose pods aren't known yet, with the entitlement `EQUAL`.

        ``age`` says since when it is in line. Priorities are remembered, because thousands of workloads have only few
        queues and PriorityClasses.
        """
        if self._classed[0] != self._queues.revision:
            self._classed = self._queues.revision, {}
        priorities, alike = self._classed[1], (job.namespace, job.submission.queues, job.priority_classes)
        if alike not in priorities:
            if len(priorities) >= MOST_CLASSED:
                priorities.clear()
            queue = self._queues.queue_of(
                (Pod(job.namespace, job.name, job.uid),), dict(job.submission.queues)
            )
            priority = self._queues.priority_of(job.priority_classes, queue)
            head_start = self._queues.head_start(queue, priority) if isinstance(queue, Queue) else None
            priorities[alike] = (priority, 0.0) if head_start is None else (0, head_start)
        priority, head_start = priorities[alike]
        return rank(False, EQUAL, priority, (age[0] - head_start, age[1]), f"{job.namespace}/{job.name}")

    def user_of(self, gang: Gang) -> str:
        """Return the user of a gang. If none is recorded, all gangs of the namespace count as one user's."""
        return user_for(gang.key, submission_of(gang, self._registry.workloads))

    def creator_of(self, gang: Gang) -> str:
        """Return the user who submitted a gang. Unlike in `user_of`, each service account counts."""
        return submission_of(gang, self._registry.workloads).user or self.user_of(gang)

    def obstacle(self, gang: Gang) -> Reason | None:
        """Return why a gang may not start or get further places even if its queue uses nothing, None if it may."""
        if _runs(gang):
            due, rule = self.joining(gang, gang.placeless())
            return None if due or rule is None or rule.code in LIMITED else rule
        own = partial(_names, gang)
        submission = submission_of(gang, self._registry.workloads)
        held = hold_obstacle(submission.hold)
        if held is not None:
            return held
        queue = self.queue_of(gang, submission)
        look, follow = partial(self._look, gang.key.namespace), partial(self._follow, gang.key.namespace)
        waits = self._dependencies.obstacle(gang, submission, own, look, follow)
        if waits is not None or isinstance(queue, Reason):
            return waits or (queue if isinstance(queue, Reason) else None)
        return stop_obstacle(queue, gang.created) or duration_obstacle(queue, self._declared(gang))

    def joining(self, gang: Gang, ready: Sequence[Member]) -> tuple[list[Member], Reason | None]:
        """Return which of the ``ready`` members of a gang may get places now, and why the others may not.

        A gang gets as many places as it needed when it started, whatever its queue says later. Each further place is
        judged like a gang of its own: a stopped queue gives none, and the place counts as one more running gang.
        """
        lost_places = max(recorded_size(gang) - sum(map(_is_placed, gang.alive())) - gang.ended, 0)
        due, beyond = list(ready[:lost_places]), ready[lost_places:]
        if not beyond:
            return due, None
        submission = submission_of(gang, self._registry.workloads)
        queue = self.queue_of(gang, submission)
        if isinstance(queue, Reason):
            return due, queue
        # A gang that doesn't run yet counts as one more running gang itself.
        user, started, reason = user_for(gang.key, submission), int(not self.runs(gang.key)), None
        for member in beyond:
            durations = [declared(member.pod, self._registry.workloads)]
            why = (
                stop_obstacle(queue, member.age)
                or duration_obstacle(queue, durations)
                or running_obstacle(queue, user, self.usage, len(due) - lost_places + started)
            )
            if why is None:
                due.append(member)
            reason = reason or why
        return due, reason

    def limit(self, gang: Gang) -> Reason | None:
        """Return the limit of its queue that keeps a gang without places waiting now, None if none does."""
        place = self.usage.place(gang.key)
        queue = None if place is None or place.runs else self._queues.find(place.queue)
        if place is None or queue is None:
            return None
        return limit_obstacle(gang.key, queue, place.user, self.usage)

    def is_limited(self, gang: Gang) -> bool:
        """Return whether limits or quotas of its queue keep a gang without places waiting now."""
        place = self.usage.place(gang.key)
        if place is None or place.runs:
            return False
        return (self.line_limit(gang.key, place) or self.limit_reached(place)) is not None

    def line_limit(self, key: GangKey, place: Place) -> Reason | None:
        """Return the limit on gangs in line that keeps a waiting gang out of the line, None if none does."""
        queue = self._queues.find(place.queue)
        return None if queue is None else line_obstacle(key, queue, place.user, self.usage)

    def limit_reached(self, place: Place) -> Reason | None:
        """Return the limit on running gangs, or the quota, that keeps gangs like this from starting; None for none."""
        queue = self._queues.find(place.queue)
        if queue is None:
            return None
        return running_obstacle(queue, place.user, self.usage) or self.quotas.obstacle(
            place.queue, place.asks
        )

    def _declared(self, gang: Gang) -> Iterator[float | None]:
        workloads = self._registry.workloads
        return (declared(pod, workloads) for pod in unlike(member.pod for member in gang.alive()))

    def runs(self, key: GangKey) -> bool:
        """Return whether a gang counts as running."""
        place = self.usage.place(key)
        return place is not None and place.runs

    def has_room_to_run(self, gang: Gang) -> bool:
        """Return whether the queue of a waiting gang may run it now, whatever its place in line is."""
        self.note(gang)
        place = self.usage.place(gang.key)
        if place is None or place.runs:
            return True
        return self.limit_reached(place) is None and self.quotas.has_room(place.queue, place.asks)

    def believed(self, pod: Pod) -> Pod:
        """Return the pod, without its record if that isn't ours or its queue doesn't take work of the namespace."""
        pod = self._registry.seal.believed(pod)
        queue = self._queues.made.get(recorded_queue(pod))
        return pod if queue is None or self._queues.admits(queue, pod.namespace) else without_record(pod)

    def obstacle_of_new(
        self,
        key: GangKey,
        pods: Sequence[Pod],
        submission: Submission,
        now: float,
        created_together: Collection[Target] = (),
    ) -> Reason | None:
        """Return the rule that would keep a gang from being tried if it were created ``now``, None if none would.

        ``created_together`` are the Jobs and gangs of its namespace that would be created with it. The limits of a user
        count only if ``submission`` names the user.
        """
        held = hold_obstacle(submission.hold)
        if held is not None:
            return held
        after = parse_dependencies(submission.after or "")
        if isinstance(after, str):
            return Reason(ReasonCode.INVALID_REQUEST, after)

        def look(target: Target) -> Dependee | None:
            dependee = self._look(key.namespace, target)
            return Dependee(None) if dependee is None and target in created_together else dependee

        for _, text in unmet(after, look):
            return waits_for(text)
        queue = self._queues.queue_of(pods, dict(submission.queues))
        if isinstance(queue, Reason):
            return queue
        return (
            stop_obstacle(queue, (now, 0))
            or duration_obstacle(queue, (pod.duration for pod in pods))
            or limit_obstacle(key, queue, user_for(key, submission), self.usage)
        )

    def within_quota(self, gang: Gang, ready: Sequence[Member], fewest: int) -> tuple[int, Reason | None]:
        """Return for how many of the ``ready`` members of a gang its quota has room, and why not for more.

        ``fewest`` of them have to be placed together.
        """
        place = self.usage.place(gang.key)
        return (len(ready), None) if place is None else self.quotas.fitting(gang, ready, fewest, place)

    def account(self, queue: str) -> QueueAccount:
        """Return what a queue has of the cluster: its use and its share."""
        if not self.quotas.active:
            return QueueAccount(used={}, borrowed={}, share=0.0, past=None)
        used, borrowed = self.quotas.account(queue)
        return QueueAccount(
            used=used,
            borrowed=borrowed,
            share=round(self.shares.share(queue), 3),
            past=self.shares.past(queue),
        )

    def note(self, gang: Gang) -> None:
        """Count a gang in its present state. If it has ended, have the gangs that wait for its end looked at."""
        self._tell_waiting(gang)
        self._note_usual(gang)
        if _runs(gang):
            self._dependencies.forget(gang.key, partial(_names, gang))
        self.count(gang)

    def count(self, gang: Gang) -> None:
        """Count a gang in its present state."""
        before = self.usage.place(gang.key)
        leaving = not gang.alive() and _leaves(gang)
        if before is not None and before.runs and (leaving or _runs(gang)):
            after = replace(before, beyond=beyond_recorded(gang))
            if self.quotas.active:
                held = self.quotas.held(gang, before.queue, before)
                elsewhere = self.quotas.elsewhere(gang, before.queue)
                after = replace(after, held=held, elsewhere=elsewhere, end=self._end(gang, before))
            self._put(gang.key, after)
            return
        if not gang.alive() and not leaving:
            self._forget([gang.key])
            return
        submission = submission_of(gang, self._registry.workloads)
        if submission.after is None:
            self._dependencies.forget(gang.key, partial(_names, gang))
        self._count(gang, self.queue_of(gang, submission), submission)

    def _note_usual(self, gang: Gang) -> None:
        """Note how long undeclared work runs in a gang's queue; if that is new, have its members' ends found again."""
        queue = self.queue_of(gang) if self._queues.usual_durations else None
        usual = usual_seconds(queue) if isinstance(queue, Queue) else None
        if usual != gang.usual_duration:
            gang.usual_duration = usual
            for member in gang.members.values():
                self._registry.on_restated(member.pod)

    def follow(self) -> None:
        """Read the present settings of the queues, and stop counting the gangs that are gone."""
        self.quotas.follow()
        self.shares.follow()
        self._forget(self._registry.left)
        self._registry.left.clear()

    def _forget(self, keys: Iterable[GangKey]) -> None:
        for key in keys:
            self._put(key, None)
            self._dependencies.forget(key)

    def _count(self, gang: Gang, queue: Queue | Reason, submission: Submission) -> None:
        name = NO_QUEUE_NAME if isinstance(queue, Reason) else queue.name
        gang.queue = name if name in self._queues.made else ""
        gang.usual_priority = None if isinstance(queue, Reason) else self._queues.usual_priority(queue)
        gang.head_start = None
        if not isinstance(queue, Reason) and self._queues.ages:
            gang.head_start = self._queues.head_start(queue, gang.priority)
        before = self.usage.place(gang.key)
        leaves = _leaves(gang)
        runs = _runs(gang) or (leaves and not gang.alive())
        held = self.quotas.held(gang, name, before) if runs or leaves else NOTHING
        elsewhere = self.quotas.elsewhere(gang, name) if runs or leaves else ()
        asks = NOTHING if runs else self.quotas.asks(gang)
        beyond = beyond_recorded(gang) if runs else 0
        user = user_for(gang.key, submission)
        end = self._end(gang, before) if runs else NEVER
        self._put(gang.key, Place(name, user, runs, gang.created, held, asks, elsewhere, beyond, end))

    def _end(self, gang: Gang, before: Place | None) -> float:
        """Return when all members of a running gang have ended. Until a pod has started, its gang's end stays."""
        if not self.quotas.keeps:
            return NEVER
        placed = [
            member.pod for member in gang.members.values() if _is_placed(member) and not member.pod.finished
        ]
        if before is not None and before.end < NEVER and not any(pod.started for pod in placed):
            return before.end
        now = self._registry.gone.clock()
        return max((self.ends.end(pod, now) for pod in placed), default=NEVER)

    def _put(self, key: GangKey, place: Place | None) -> None:
        before = self.usage.place(key)
        if before != place:
            self._record_past_use(before, place)
            self.usage.put(key, place)
            self.quotas.moved(before, place)
            self.version += before is not None and self._leaves_room(before, place)

    def _leaves_room(self, before: Place, after: Place | None) -> bool:
        """Return whether limits may let other gangs start once a gang counts as ``after`` and not as ``before``."""
        queue = self._queues.find(before.queue)
        limits = NO_LIMITS if queue is None else queue.limits
        if not before.runs:
            return bool(limits.queued or limits.queued_per_user)
        return limits != NO_LIMITS and (after is None or not after.runs or after.beyond < before.beyond)

    def _look(self, namespace: str, target: Target) -> Dependee | None:
        """Return the state of a Job or a gang for which others wait, None if it doesn't exist."""
        if target.kind == "job":
            job = self._registry.workloads.find(Job, namespace, target.name)
            return None if job is None else Dependee(job.outcome)
        gangs = self._registry.named(namespace, target.name)
        if not gangs:
            return None
        return Dependee(self._dependencies.outcome(namespace, target, partial(self._outcome, gangs[0])))

    def _follow(self, namespace: str, target: Target) -> Iterable[Target]:
        """Return what a Job or a gang waits for, nothing if it has ended or doesn't exist."""
        if target.kind == "job":
            job = self._registry.workloads.find(Job, namespace, target.name)
            after = () if job is None or job.outcome else parse_dependencies(job.submission.after or "")
            return () if isinstance(after, str) else (dependency.target for dependency in after)
        gangs = self._registry.named(namespace, target.name)
        return self._dependencies.targets(gangs[0].key) if gangs else ()

    def _tell_waiting(self, gang: Gang) -> None:
        """If the gang has ended or runs again, have the gangs that wait for its end looked at."""
        namespace, target = gang.key.namespace, _name(gang)
        if (
            self._dependencies.is_awaited(namespace, target)
            and next(iter(self._registry.named(namespace, target.name)), None) is gang
        ):
            self._dependencies.tell(namespace, target, self._outcome(gang))

    def _outcome(self, gang: Gang) -> Ending | None:
        """Return how a gang has ended: as its Job has, or successfully if all of its pods have succeeded."""
        owners = {member.pod.owner for member in gang.members.values() if member.pod.owner is not None}
        for owner in owners:
            job = self._registry.workloads.find(Job, gang.key.namespace, owner.name)
            if job is not None and job.uid == owner.uid:
                return job.outcome
        if not all(member.pod.finished for member in gang.members.values()):
            return None
        succeeded = sum(1 for member in gang.members.values() if member.pod.phase == "Succeeded")
        return Ending.SUCCEEDED if succeeded >= gang.size else Ending.FAILED


def charged_queue(gang: Gang) -> str:
    """Return the queue to which the places of a gang are charged, "" if none is recorded.

    Members that got their places with another gang may name another queue. They count only if no other member names
    one.
    """
    placed = [member for member in gang.members.values() if member.charged and not member.pod.finished]
    own = [member for member in placed if member.record is not None and member.record.gang == gang.key]
    return min(((member.age, member.charged) for member in own or placed), default=((), ""))[1]


def recorded_size(gang: Gang) -> int:
    """Return how many places the gang needed when it got its places; its size if it has none."""
    return max(_recorded_sizes(gang), default=0 if _runs(gang) else gang.size)


def beyond_recorded(gang: Gang) -> int:
    """Return how many places the gang has beyond those with which it began."""
    sizes = _recorded_sizes(gang)
    return max(len(sizes) - min(sizes), 0) if sizes else 0


def _recorded_sizes(gang: Gang) -> list[int]:
    """Return the sizes of the gang that are recorded with the places of its own members."""
    records = (member.record for member in gang.members.values() if _is_placed(member) and member.alive)
    return [record.size for record in records if record is not None and record.gang == gang.key]


def _is_placed(member: Member) -> bool:
    return member.assignment is not None or member.runs


def _runs(gang: Gang) -> bool:
    return any(
        member.assignment is not None or member.runs
        for member in gang.members.values()
        if not member.pod.finished and not member.pod.deleting
    )


def _leaves(gang: Gang) -> bool:
    """Return whether pods of the gang are being deleted, whose containers may still run for their grace periods."""
    return any(
        member.pod.deleting and member.pod.node and not member.pod.finished
        for member in gang.members.values()
    )


def user_for(key: GangKey, submission: Submission) -> str:
    """Return the user of a gang with this submission. If none is recorded, the namespace counts as one user."""
    return intern(Caller(submission.user).share if submission.user else f"namespace {key.namespace}")


def _names(gang: Gang) -> set[Target]:
    """Return the names under which others wait for a gang."""
    own = {_name(gang)}
    for member in gang.members.values():
        if member.pod.owner is not None and member.pod.owner.kind == "Job":
            own.add(Target("job", member.pod.owner.name))
    return own


def _name(gang: Gang) -> Target:
    return Target("gang", str(gang.key).removeprefix(f"{gang.key.namespace}/"))
