"""Every pod of ours and its gang, as last observed.

A new list of a kind replaces all earlier observations of that kind, so missed changes do no harm. The registry decides
nothing; it records which gangs an observation affects.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from fluence_extender.gangs.membership.awaited import Awaited
from fluence_extender.gangs.membership.changed_gangs import ChangedGangs
from fluence_extender.gangs.membership.conventions.membership import Membership
from fluence_extender.gangs.membership.foreign_pods import ForeignPods
from fluence_extender.gangs.membership.gang import JOB_SET_UID, Gang, Member
from fluence_extender.gangs.membership.workloads import WorkloadIndex
from fluence_extender.gangs.reporting.history import History, Memory
from fluence_extender.model.dependency import Target
from fluence_extender.model.gang import Convention, GangKey, HistoryKind
from fluence_extender.model.multimap import Multimap
from fluence_extender.model.names import COMPLETION_INDEX, GROUP_LABEL
from fluence_extender.model.pod import Pod
from fluence_extender.model.seal import Seal
from fluence_extender.model.submission import NOTHING_SAID
from fluence_extender.model.workload import (
    CoschedulingGroup,
    Job,
    JobSet,
    LeaderWorkerSet,
    MpiJob,
    RayCluster,
    RayJob,
    Resumable,
    TrainJob,
    Workload,
)

MANY = 500
"""If a workload with this many pods changes, the pods aren't looked at at once but at the pace of their namespace."""

LINKED = (Convention.POD_GROUP, Convention.COSCHEDULING)
"""The conventions of the PodGroups to which admission links pods with our label, under the label's name."""

MOST_HEIRS = 64
"""If a Job has more gangs than this, the history of one that was sent back waits for a gang that comes later."""

Heir = tuple[str, str, str]
"""The namespace, the Job's uid and the index of a pod that is a gang by itself."""

QUEUED: Mapping[str, type[Resumable]] = {"Job": Job, "MPIJob": MpiJob, "RayCluster": RayCluster}
"""The kinds of objects that own pods and give them their own place in line."""


class Registry:
    """Gangs by key, members by pod uid.

    ``dirty`` are the gangs to look at again. ``workloads`` are the objects that state how large gangs are.
    ``foreign_pods`` are the pods of other schedulers that name a gang. ``touched_groups`` are the PodGroups of
    scheduling.x-k8s.io with a change since the last report. ``gone`` keeps the gangs without any member left, so that
    users can look up what happened to them. ``left`` are the keys of gangs that have gone since the last step took them
    up. ``awaited`` says which gangs wait for the end of others. ``revision`` grows with every change of any gang.
    ``on_restated`` is called for each pod of which a workload has changed. ``late`` are, by namespace, the uids of pods
    that weren't looked at since their workload with many pods changed. ``clock`` returns seconds since the epoch.
    ``seal`` tells which records on pods and Jobs are the service's own; it is set before anything is observed.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.seal = Seal.of_this_process()
        self.gangs: dict[GangKey, Gang] = {}
        self.gone: Memory[Gang] = Memory(clock)
        self.left: set[GangKey] = set()
        self.awaited = Awaited()
        self.revision = 0
        self._by_name: Multimap[tuple[str, str], GangKey] = Multimap()
        self._by_owner: Multimap[tuple[str, str], GangKey] = Multimap()
        self._owned: Counter[tuple[tuple[str, str], GangKey]] = Counter()
        """How many pods each owner has in each gang."""
        self.dirty = ChangedGangs()
        self._gang_of: dict[str, GangKey] = {}
        self._priorities: Counter[int] = Counter()
        self.workloads = WorkloadIndex()
        self.foreign_pods = ForeignPods()
        self.touched_groups: set[tuple[str, str]] = set()
        self.on_restated: Callable[[Pod], None] = lambda _: None
        self.late: dict[str, set[str]] = {}

    def frozen(self, gangs: dict[GangKey, Gang], gang_of: dict[str, GangKey], now: float) -> Registry:
        """Return a registry for a pass at ``now``, in seconds since the epoch, with copies of all ``gangs``.

        ``gang_of`` names the gang of each member's uid. The registry answers which gangs, members and workloads there
        are. Nothing else is asked of it.
        """
        frozen = Registry(lambda: now)
        frozen.gangs, frozen._gang_of = gangs, gang_of
        frozen._priorities, frozen.workloads = self._priorities.copy(), self.workloads.copy()
        return frozen

    def member(self, uid: str) -> tuple[Gang, Member] | None:
        """Return the gang and the member of a pod of ours, or None if the pod isn't known."""
        key = self._gang_of.get(uid)
        if key is None:
            return None
        gang = self.gangs[key]
        return gang, gang.members[uid]

    def members(self) -> Iterator[tuple[Gang, Member]]:
        """Iterate over every member of every gang."""
        for gang in self.gangs.values():
            for member in gang.members.values():
                yield gang, member

    def named(self, namespace: str, name: str) -> list[Gang]:
        """Return the gangs of that name (with the part, if they have one), in the order of their keys."""
        return [gang for gang in self._alike(namespace, name) if str(gang.key) == f"{namespace}/{name}"]

    def in_group(self, namespace: str, name: str) -> list[Gang]:
        """Return the gangs of a PodGroup of scheduling.x-k8s.io in the order of their keys; each part is a gang."""
        found = (gang for gang in self._alike(namespace, name) if gang.key.name == name)
        return [gang for gang in found if gang.key.convention is Convention.COSCHEDULING]

    def gangs_of(self, namespace: str, owner: str) -> Collection[GangKey]:
        """Return the gangs with pods of the owner with that uid, in one namespace: pods may name any owner."""
        return self._by_owner.of((namespace, owner))

    def _alike(self, namespace: str, name: str) -> list[Gang]:
        """Return the gangs whose names begin as ``name`` does; what follows a slash may be a part."""
        return [self.gangs[key] for key in sorted(self._by_name.of(_begins(namespace, name)))]

    @property
    def lowest_priority(self) -> int:
        """Return the lowest priority of any pod of ours; 0 if there are no pods."""
        return min((priority for priority, count in self._priorities.items() if count), default=0)

    def put_pod(self, pod: Pod) -> Member:
        """Record a pod of ours, new or changed; return its member."""
        known = self.member(pod.uid)
        membership = (
            known[1].membership if known is not None and _names_same_gang(known[1].pod, pod) else None
        )
        return self._put(pod, membership or self.workloads.membership(pod))

    def take_over(self, uid: str, pod: Pod) -> bool:
        """Let ``pod`` become the member that was foreseen as ``uid``; return False if it belongs to another gang.

        If each of them is a gang by itself, the foreseen pod's gang becomes that of ``pod``.
        """
        found = self.member(uid)
        membership = self.workloads.membership(pod)
        if found is None:
            return False
        gang, member = found
        if membership.key != gang.key:
            if not membership.key.convention is gang.key.convention is Convention.ALONE:
                return False
            self._rename(gang, member, membership)
        gang.members[pod.uid] = gang.members.pop(uid)
        self._gang_of[pod.uid] = self._gang_of.pop(uid)
        self.workloads.forget(uid)
        member.pod = replace(member.pod, uid=pod.uid)
        if member.assignment is not None:
            member.assignment = replace(member.assignment, uid=pod.uid)
        return True

    def _rename(self, gang: Gang, member: Member, membership: Membership) -> None:
        """Give a gang of one member another key."""
        before, key = gang.key, membership.key
        self._remove(gang)
        self.left.add(before)
        gang.key, member.membership = key, membership
        self._add(gang)
        self.dirty.add(key)
        self._gang_of[member.pod.uid] = key
        if member.promise is not None:
            member.promise = replace(member.promise, gang=key)
        self._disown(member.pod, before)
        self._own(member.pod, key)

    def _put(self, pod: Pod, membership: Membership) -> Member:
        key = membership.key
        old = self._gang_of.get(pod.uid)
        if old is not None and old != key:
            member = self.gangs[old].members.pop(pod.uid)
            self._touch(old)
        elif old is not None:
            member = self.gangs[old].members[pod.uid]
        else:
            member = Member(pod, membership)
        gang = self._gang(key)
        if old is not None:
            self._priorities[member.pod.priority] -= 1
        self._priorities[pod.priority] += 1
        before, member.pod, member.membership = member.pod, pod, _shared(gang, membership)
        key = gang.key
        if old is None or old != key or _owners(before) != _owners(pod):
            if old is not None:
                self._disown(before, old)
            self._own(pod, key)
        member.submitted = self._submitted(member)
        if pod.uid not in gang.members:
            if not gang.members:
                self._inherit(gang, _heir(key, pod))
            gang.members[pod.uid] = member
            gang.note(HistoryKind.SEEN, pod.name)
        self._gang_of[pod.uid] = key
        self._touch_group(key)
        self.revision += 1
        self.dirty.add(key)
        return member

    def _submitted(self, member: Member) -> tuple[float, int] | None:
        """Return the place in line that its owner keeps or has in a queue, None if the pod has its own.

        An owner that was resumed before its pods existed was in line before them.
        """
        owner = member.pod.owner
        kind = QUEUED.get(owner.kind) if owner is not None else None
        if owner is None or kind is None:
            return None
        job = self.workloads.find(kind, member.pod.namespace, owner.name)
        if job is None or job.uid != owner.uid:
            return None
        return job.queued_since or ((job.created, self.workloads.first_seen(job)) if job.queued else None)

    def begin(self) -> None:
        """Take all that is known as older than what is to come: of the same second, names order it.

        What was written since has changed resourceVersions, so after a restart they don't tell what was created first.
        """
        self.catch_up()
        self.workloads.begin()
        for _, member in self.members():
            member.first_seen = 0
            member.submitted = self._submitted(member)

    def _gang(self, key: GangKey) -> Gang:
        """Return the gang of that key, new if need be; a gang that comes back continues its history."""
        found = self.gangs.get(key)
        if found is None:
            before = self.gone.take(key)
            found = Gang(key, history=before.history if before is not None else History(self.gone.clock))
            self._add(found)
        return found

    def _add(self, gang: Gang) -> None:
        key = gang.key
        self.gangs[key] = gang
        self._by_name.add(_begins(key.namespace, key.name), key)
        self._touch_waiting_for(key)

    def _remove(self, gang: Gang) -> None:
        key = gang.key
        del self.gangs[key]
        self.dirty.discard(key)
        self.dirty.since_view.add(key)
        self._by_name.discard(_begins(key.namespace, key.name), key)
        self._touch_waiting_for(key)

    def drop_pod(self, uid: str) -> None:
        """Forget a pod of ours that is gone."""
        key = self._gang_of.pop(uid, None)
        if key is None:
            return
        self.workloads.forget(uid)
        gang = self.gangs[key]
        member = gang.members.pop(uid)
        self._priorities[member.pod.priority] -= 1
        self._disown(member.pod, key)
        why = "its pod wasn't created" if member.pod.foreseen else "the pod was deleted"
        gang.note(HistoryKind.RELEASED, member.pod.name, why)
        self._touch(key, _heir(key, member.pod) if _is_replaced(member.pod, gang.history) else None)

    def _inherit(self, gang: Gang, heir: Heir | None) -> None:
        """Let a new gang go on with the history of the gang that it replaces.

        Pods without an index replace one each. One that comes back has its own history.
        """
        if heir is None or (gang.history.entries and not heir[2]):
            return
        for key in self.gone.left_to(heir)[: None if heir[2] else 1]:
            gang.history.follow(self.gone.replace(key).history)

    def _replacement(self, history: History, heir: Heir) -> Gang | None:
        """Return the gang that is there already and replaces that of a history, None if there is none."""
        there = self.gangs_of(*heir[:2])
        for gang in [self.gangs[key] for key in sorted(there)] if len(there) <= MOST_HEIRS else ():
            is_heir = heir in (_heir(gang.key, member.pod) for member in gang.members.values())
            if is_heir and gang.history.replaces(history):
                return gang
        return None

    def _own(self, pod: Pod, key: GangKey) -> None:
        """Record that the pod's owners have one more pod in that gang."""
        for owner in _owners(pod):
            self._owned[owner, key] += 1
            self._by_owner.add(owner, key)

    def _disown(self, pod: Pod, key: GangKey) -> None:
        """Record that the pod's owners have one pod less in that gang."""
        for owner in _owners(pod):
            self._owned[owner, key] -= 1
            if not self._owned[owner, key]:
                del self._owned[owner, key]
                self._by_owner.discard(owner, key)

    def _touch(self, key: GangKey, heir: Heir | None = None) -> None:
        self.revision += 1
        self._touch_group(key)
        if self.gangs[key].members:
            self.dirty.add(key)
            return
        gang = self.gangs[key]
        self._remove(gang)
        gang.fail_waits("the gang is gone")
        gang.note(HistoryKind.GONE)
        self.gone.keep(key, gang, heir)
        self.left.add(key)
        replacement = self._replacement(gang.history, heir) if heir is not None else None
        if replacement is not None:
            replacement.history.follow(self.gone.replace(key).history)

    def _touch_group(self, key: GangKey) -> None:
        if key.convention is Convention.COSCHEDULING:
            self.touched_groups.add((key.namespace, key.name))

    def look_at(self, keys: Iterable[GangKey]) -> None:
        """Mark those of ``keys`` that exist to be looked at again."""
        self.dirty.update(key for key in keys if key in self.gangs)

    def _touch_waiting_for(self, key: GangKey) -> None:
        """Mark the gangs that wait for the end of this one, which has come or gone."""
        target = Target("gang", str(key).removeprefix(f"{key.namespace}/"))
        waiting = self.awaited.by(key.namespace, target)
        self.awaited.outcomes.pop((key.namespace, target), None)
        self.awaited.to_follow |= waiting
        self.look_at(waiting)

    def put_foreign_pod(self, pod: Pod) -> None:
        """Record a foreign pod, which may name a gang of ours."""
        self._mark_dirty(self.foreign_pods.put(pod))

    def drop_foreign_pod(self, uid: str) -> None:
        """Forget a foreign pod."""
        self._mark_dirty(self.foreign_pods.drop(uid))

    def foreign_members(self, gang: Gang) -> Counter[str]:
        """Return how many foreign pods name the gang, or the label that its own pods have, by scheduler."""
        found = self.foreign_pods.schedulers(gang.key)
        if gang.key.convention in LINKED and any(
            one.pod.labels.get(GROUP_LABEL) == gang.key.name for one in gang.members.values()
        ):
            found += self.foreign_pods.schedulers(gang.key._replace(convention=Convention.LABEL))
        return found

    def _mark_dirty(self, key: GangKey | None) -> None:
        if key is None:
            return
        also = LINKED if key.convention is Convention.LABEL else ()
        same = (key, *(key._replace(convention=one) for one in also))
        same += tuple(one._replace(part="") for one in same if one.part)
        self.look_at(same)

    def put_workload(self, workload: Workload) -> None:
        """Record an object that may state how large gangs are."""
        if isinstance(workload, CoschedulingGroup):
            self.touched_groups.add((workload.namespace, workload.name))
        before = self.workloads.find(type(workload), workload.namespace, workload.name)
        self._recompute_soon(workload.namespace, self.workloads.put(workload))
        self._resubmit(workload, before)

    def drop_workload(self, workload: Workload) -> None:
        """Forget an object that may state how large gangs are."""
        self._recompute_soon(workload.namespace, self.workloads.drop(workload))
        self._resubmit(workload, None)

    def replace_workloads(
        self, kind: type[Workload], workloads: Iterable[Workload], served: bool = True
    ) -> None:
        """Take in a whole list of one kind of workload; ``served`` tells whether the cluster serves that kind."""
        listed = tuple(workloads)
        self.touched_groups.update(
            (one.namespace, one.name) for one in listed if isinstance(one, CoschedulingGroup)
        )
        before = self.workloads.all(kind)
        self._recompute(self.workloads.replace(kind, listed, served))
        for workload in listed:
            self._resubmit(workload, before.pop((workload.namespace, workload.name), None))
        for workload in before.values():
            self._resubmit(workload, None)

    def _resubmit(self, workload: Workload, before: Workload | None) -> None:
        """Mark the gangs to look at again because an object's submission has changed, or because a Job has ended.

        ``before`` is the object as last observed, None if it is new or gone.
        """
        if isinstance(workload, Job) and _ending(workload) != (before and _ending(before)):
            waiting = self.awaited.by(workload.namespace, Target("job", workload.name))
            self.awaited.to_follow |= waiting
            self.look_at(waiting)
            # A gang has ended as its Job has.
            self.look_at(self._by_owner.of((workload.namespace, workload.uid)))
        if isinstance(workload, Resumable) and _place(workload) != _place(before):
            self._queue_anew(workload)
        if workload.submission != (NOTHING_SAID if before is None else before.submission):
            self.dirty.update(self._of(workload))

    def _queue_anew(self, job: Resumable) -> None:
        """Update the place in line of a workload's pods."""
        for key in self._by_owner.of((job.namespace, job.uid)):
            self.dirty.add(key)
            for member in self.gangs[key].members.values():
                member.submitted = self._submitted(member)

    def _of(self, workload: Workload) -> set[GangKey]:
        """Return the gangs whose pods a workload owns, and those that are named after it."""
        found = {
            *self._by_owner.of((workload.namespace, workload.uid)),
            *self._by_name.of(_begins(workload.namespace, workload.name)),
        }
        made: Workload | None = None
        if isinstance(workload, RayJob):
            made = self.workloads.find(RayCluster, workload.namespace, workload.cluster)
        elif isinstance(workload, TrainJob):
            made = self.workloads.find(JobSet, workload.namespace, workload.name)
        found.update(self._of(made) if made is not None else ())
        if isinstance(workload, LeaderWorkerSet):
            # Its gangs have its name and a number, and nobody has many of them.
            found |= {key for key in self.gangs if key.convention is Convention.LEADER_WORKER_SET}
        return found

    def _recompute_soon(self, namespace: str, uids: Collection[str]) -> None:
        """Find out again to which gangs pods belong: now if there are few, else when `recompute_late` is called."""
        if len(uids) < MANY:
            self._recompute(uids)
        else:
            self.late.setdefault(namespace, set()).update(uids)

    def catch_up(self) -> None:
        """Find out again to which gangs all pods in ``late`` belong."""
        for namespace in [*self.late]:
            self.recompute_late(namespace)

    def recompute_late(self, namespace: str) -> int:
        """Find out again to which gangs the pods in ``late`` of a namespace belong; return how many they are."""
        uids = self.late.pop(namespace, set())
        self._recompute(sorted(uids))
        return len(uids)

    def _recompute(self, uids: Iterable[str]) -> None:
        for uid in uids:
            found = self.member(uid)
            if found is None:
                continue
            pod = found[1].pod
            self.on_restated(pod)
            membership = self.workloads.membership(pod)
            found[1].submitted = self._submitted(found[1])
            if membership != found[1].membership:
                self._put(pod, membership)
                self.gangs[membership.key].reports.group_scheduled = False
            self.dirty.add(membership.key)


def _shared(gang: Gang, membership: Membership) -> Membership:
    """Return the equal membership of the gang's first member, if it has one: the pods of a gang share it."""
    first = next(iter(gang.members.values()), None)
    return first.membership if first is not None and first.membership == membership else membership


def _owners(pod: Pod) -> list[tuple[str, str]]:
    """Return the pod's owner and the JobSet to which that one belongs, if it has them, by namespace and uid."""
    uids = (pod.owner.uid if pod.owner is not None else "", pod.labels.get(JOB_SET_UID, ""))
    return [(pod.namespace, uid) for uid in uids if uid]


def _begins(namespace: str, name: str) -> tuple[str, str]:
    return namespace, name.partition("/")[0]


def _ending(workload: Workload) -> tuple[object, ...]:
    """Return the part of an object on which gangs depend that wait for its end."""
    return (workload.uid, workload.outcome if isinstance(workload, Job) else None, workload.submission.after)


def _place(workload: Workload | None) -> tuple[object, ...]:
    """Return whether a workload is suspended, and what place in line it keeps."""
    return (workload.suspended, workload.queued_since) if isinstance(workload, Resumable) else (False, None)


def _is_replaced(pod: Pod, history: History) -> bool:
    """Return whether a pod that is gone leaves its gang's history to a pod that may replace it."""
    return pod.phase != "Succeeded" and bool(pod.foreseen or history.sent_back or history.preemptions)


def _heir(key: GangKey, pod: Pod) -> Heir | None:
    """Return what a pod of a Job that is a gang by itself has in common with the pod that replaces it.

    That is its namespace, its Job and its index. Return None for any other pod.
    """
    owner = pod.owner
    if key.convention is not Convention.ALONE or owner is None or not owner.is_a("Job", "batch"):
        return None
    return pod.namespace, owner.uid, pod.annotations.get(COMPLETION_INDEX, "")


def _names_same_gang(old: Pod, new: Pod) -> bool:
    """Return whether nothing has changed by which a pod names its gang."""
    return (
        old.labels == new.labels
        and old.annotations == new.annotations
        and old.group == new.group
        and old.owner == new.owner
    )
