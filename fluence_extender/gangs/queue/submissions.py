"""What a gang declares when it is submitted, when it therefore ends, and where it stands in the queue.

A workload's annotations count first, then those of its pods. So one annotation on a Job holds all its pods, or releases
them even if their template says otherwise. The user who submitted a gang is read only from objects on which admission
guards that record: the outermost workload of its pods, and pods without a controller.

**Ends.** A pod and each workload that it belongs to may declare how long the pod runs, and a workload has an end once
its deadline runs. The earliest of these counts. Work that declares nothing has the default of its queue. If the queue
states none either, no end is known.

**Turn.** `queueing.entry.rank` is the only order. Waiting gangs are tried in this order. It also decides for which
preemptor nodes and devices are held, which gang loses its place on an overcommitted node, and in which order starts are
estimated.

A gang that a rule keeps from starting isn't in the line that is tried. Such a gang is held, waits for members or for
the end of others, has no queue, or is in a stopped queue. Limits and quotas are judged by the pass that tries it.

A gang that has to be completed ranks as begun, except for its members beyond the size with which it began. Preemptors
are ranked as if none had begun: nodes that are held for one of them are closed to every gang that couldn't preempt it,
even to a gang that has to be completed.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from operator import attrgetter
from typing import NamedTuple

from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.membership.workloads import (
    OBJECT_LABELS,
    WorkloadIndex,
    makers_of,
    owning,
    parents_of,
)
from fluence_extender.kinds.jobset import JobSet
from fluence_extender.kinds.leaderworkerset import LeaderWorkerSet
from fluence_extender.kinds.membership import Workloads
from fluence_extender.kinds.podgroups import CoschedulingGroup, PodGroup
from fluence_extender.kinds.registry import BY_OPERATOR
from fluence_extender.kinds.workload import Workload
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.names import (
    AFTER_ANNOTATION,
    HOLD_ANNOTATION,
    LWS_NAME,
    MET_ANNOTATION,
    REPLICATED_JOB,
    TRAINING_OPERATOR,
    USER_ANNOTATION,
)
from fluence_extender.model.pod import Owner, Pod
from fluence_extender.model.submission import NO_RECORD, NOTHING_SAID, Submission, recorded_met
from fluence_extender.queueing.entry import EQUAL, NEVER, Age, Entitlement, Rank, rank

# What is declared.

NAMED_BY: Mapping[Convention, type[Workload]] = {
    Convention.POD_GROUP: PodGroup,
    Convention.COSCHEDULING: CoschedulingGroup,
    **{convention: kind.values for convention, kind in BY_OPERATOR.items()},
}
"""The kinds of objects after which gangs are named."""

UNGUARDED = (PodGroup, CoschedulingGroup)
"""The kinds on which admission records no user."""

MOST_OWNERS = 64
"""The most owners of one gang's pods that are looked at."""


def submission_of(gang: Gang, workloads: WorkloadIndex) -> Submission:
    """Return the gang's submission."""
    alive = gang.alive()
    stated = NOTHING_SAID
    for workload in objects_of(gang, alive, workloads):
        submission = workload.submission
        stated = stated.over(
            replace(submission, user=None) if isinstance(workload, UNGUARDED) else submission
        )
    return stated.over(_of_pods(alive))


def objects_of(gang: Gang, alive: Iterable[Member], workloads: WorkloadIndex) -> Iterator[Workload]:
    """Yield each known workload of a gang with these living members once, the outermost first."""
    namespace = gang.key.namespace
    kind = NAMED_BY.get(gang.key.convention)
    owners: dict[Owner, None] = {}
    named = gang.key.name
    for member in alive:
        if kind is LeaderWorkerSet:
            named = member.pod.labels.get(LWS_NAME, "")
        if member.pod.owner is not None:
            owners[member.pod.owner] = None
    top = workloads.find(kind, namespace, named) if kind is not None else None
    nearest = sorted(owners, key=lambda one: (one.kind, one.name))[:MOST_OWNERS]
    yielded: set[int] = set()
    for inner in (top, *(owning(owner, namespace, workloads) for owner in nearest)):
        if inner is not None:
            for workload in (*makers_of(inner, workloads), inner):
                if id(workload) not in yielded:
                    yielded.add(id(workload))
                    yield workload


def _of_pods(alive: Iterable[Member]) -> Submission:
    """Return the submission that pods state. One held pod holds the gang; otherwise the oldest pod counts."""
    hold = after = user = None
    met = NO_RECORD
    first: dict[str, tuple[float, str]] = {}
    for member in alive:
        pod = member.pod
        annotations = pod.annotations
        age = (pod.created, pod.name)
        if (text := annotations.get(HOLD_ANNOTATION)) is not None and (hold is None or text != "false"):
            hold = text
        if (text := annotations.get(AFTER_ANNOTATION)) is not None and age < first.get(
            "after", (age[0] + 1, "")
        ):
            after, first["after"] = text, age
        if MET_ANNOTATION in annotations:
            met |= recorded_met(annotations, pod.uid)
        text = annotations.get(USER_ANNOTATION) if pod.owner is None else None
        if text is not None and age < first.get("user", (age[0] + 1, "")):
            user, first["user"] = text, age
    if not met and hold is after is user is None:
        return NOTHING_SAID
    return Submission(hold, after, user, met=met)


# Ends.

LATEST = datetime.max.replace(second=0, microsecond=0, tzinfo=UTC).timestamp()
"""The last minute that can be written as a date, in seconds since the epoch. A pod that ends later never ends."""

NAMING = (*OBJECT_LABELS, TRAINING_OPERATOR, REPLICATED_JOB)
"""The labels that decide how long a pod may run."""

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
            fixed = fixed and all(workload.ends is None for workload in parents)
        return max((last if last > -NEVER else NEVER) - now, 1.0), fixed

    def declared(self, pod: Pod) -> float | None:
        """Return how many seconds a pod runs by what it and its workloads declare, None if they declare nothing."""
        return declared(pod, self._workloads)

    def _parents(self, pod: Pod) -> Sequence[Workload]:
        return tuple(parents_of(pod, self._workloads))

    @staticmethod
    def _declared_end(pod: Pod, since: float, parents: Sequence[Workload]) -> float:
        seconds = _shortest(pod, parents)
        end = NEVER if seconds is None else since + seconds
        return min([end, *(workload.ends for workload in parents if workload.ends is not None)])

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
    """Return the shortest duration that a pod and its workloads declare, None if none declares one."""
    return _shortest(pod, parents_of(pod, workloads))


def _shortest(pod: Pod, parents: Iterable[Workload]) -> float | None:
    """Return `declared`, given the workloads that the pod belongs to."""
    durations = [pod.duration]
    for workload in parents:
        durations.append(workload.duration)
        if isinstance(workload, JobSet):
            durations.append(workload.durations.get(pod.labels.get(REPLICATED_JOB, "")))
    return min((seconds for seconds in durations if seconds is not None), default=None)


# Turn.

NEWEST: Age = (NEVER, 0)
"""The age of a gang that doesn't exist yet."""

RANK = attrgetter("rank")


def turn(gang: Gang) -> Rank:
    """Return a key that sorts gangs in the order in which they are served."""
    begun = gang.must_be_completed and not _waits_beyond_size(gang)
    own = gang.own_members()
    priority, created = gang.priority_among(own), gang.created_among(own)
    if gang.head_start is not None:
        priority, created = 0, (created[0] - gang.head_start, created[1])
    return rank(begun, gang.entitlement, priority, created, entry_key(gang.key))


def precedence(gang: Gang) -> Rank:
    """Return a key that sorts preemptors: their ranks as if none had begun."""
    return newcomer(gang.key, gang.priority, gang.created)


def newcomer(key: GangKey, priority: int, created: Age = NEWEST, entitlement: Entitlement = EQUAL) -> Rank:
    """Return the rank of a gang that has no places yet."""
    return rank(False, entitlement, priority, created, entry_key(key))


class InLine(NamedTuple):
    """A gang that waits, its rank, and whether no rule keeps it from being tried (``ready``)."""

    rank: Rank
    gang: Gang
    ready: bool


class ToTry(NamedTuple):
    """A gang that a pass may try, and its rank."""

    rank: Rank
    key: GangKey


class Turns:
    """The waiting gangs of ``registry``, kept in order so that no step has to sort thousands.

    ``line`` has all of them, and ``ready`` those that no rule keeps from being tried.

    The caller has to `put` each gang that has changed. The rank of a gang that has changed since the last step isn't
    taken from the line but computed. Invariant: a gang stands at most once in each line.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._places: dict[GangKey, InLine] = {}
        self.line: list[InLine] = []
        self.ready: list[ToTry] = []

    def clear(self) -> None:
        """Take all gangs out of the line."""
        for entries in (self._places, self.line, self.ready):
            entries.clear()

    def of(self, gang: Gang) -> Rank:
        """Return a gang's present rank."""
        place = self._places.get(gang.key)
        if place is None or place.gang is not gang or gang.key in self._registry.dirty:
            return turn(gang)
        return place.rank

    def find(self, key: GangKey) -> InLine | None:
        """Return where a gang stands in the line that is tried, None if it doesn't wait or a rule keeps it waiting."""
        place = self._places.get(key)
        return place if place is not None and place.ready else None

    def put(self, gang: Gang) -> None:
        """Put a gang in line at its present rank, or take it out if it doesn't wait."""
        before = self._places.get(gang.key)
        after = InLine(turn(gang), gang, gang.obstacle is None) if waits(gang) else None
        if before is not None:
            same = after is not None and before.gang is gang and before.rank == after.rank
            if same and before.ready == (gang.obstacle is None):
                return
            self.drop(gang.key)
        if after is not None:
            self._places[gang.key] = after
            insort(self.line, after, key=RANK)
            if after.ready:
                insort(self.ready, ToTry(after.rank, gang.key), key=RANK)

    def drop(self, key: GangKey) -> None:
        """Take a gang out of the line."""
        place = self._places.pop(key, None)
        if place is None:
            return
        del self.line[bisect_left(self.line, place.rank, key=RANK)]
        if place.ready:
            del self.ready[bisect_left(self.ready, place.rank, key=RANK)]


def waits(gang: Gang) -> bool:
    """Return whether a member needs a place."""
    return any(member.assignment is None for member in gang.pending())


def entry_key(key: GangKey) -> str:
    """Return the key of a gang's entry in the queue."""
    return f"{key.namespace}/{key.name}/{key.part}/{key.convention}/{key.uid}"


def _waits_beyond_size(gang: Gang) -> bool:
    """Return whether members wait although the gang has as many places as it needs."""
    places = sum(1 for member in gang.alive() if member.assignment is not None)
    return places + gang.ended >= gang.size and waits(gang)
