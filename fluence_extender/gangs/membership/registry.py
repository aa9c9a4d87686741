"""Every pod of ours and its gang, as last observed, and which gangs have changed since they were looked at.

A new list of a kind replaces all earlier observations of that kind, so missed changes do no harm. The registry decides
nothing; it records which gangs an observation affects.

Changed gangs are taken one by one, and the namespaces take turns. So a namespace with thousands of changed gangs delays
those of another namespace by one gang at a time. Within a namespace, the gang that changed first is taken first. A gang
that is put off isn't taken until `admit` is called for its namespace.
"""

from __future__ import annotations

import dataclasses
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain

from immutables import Map
from msgspec.structs import replace

from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.workloads import WorkloadIndex, owning
from fluence_extender.gangs.reporting.past_gangs import Lineage, PastGangs, lineage_left, lineage_of
from fluence_extender.kinds.job import Job
from fluence_extender.kinds.jobset import JobSet
from fluence_extender.kinds.membership import Membership
from fluence_extender.kinds.podgroups import CoschedulingGroup
from fluence_extender.kinds.registry import named_gang
from fluence_extender.kinds.resumable import Resumable
from fluence_extender.kinds.workload import Workload
from fluence_extender.model.dependency import Target
from fluence_extender.model.gang import Convention, GangKey, HistoryKind
from fluence_extender.model.multimap import Multimap
from fluence_extender.model.names import GROUP_LABEL
from fluence_extender.model.pod import Pod
from fluence_extender.room.records import Seal

# Which gangs have changed.


class ChangedGangs:
    """The gangs that have changed, each once. It is true while one of them may be taken.

    ``put_off`` has the gangs that are put off, by namespace.
    """

    def __init__(self) -> None:
        # Unlike a dict, an OrderedDict is emptied from the front in constant time.
        self._namespaces: OrderedDict[str, OrderedDict[GangKey, None]] = OrderedDict()
        self.put_off: dict[str, set[GangKey]] = {}

    def __bool__(self) -> bool:
        """Return whether any gang may be taken."""
        return bool(self._namespaces)

    def __contains__(self, key: GangKey) -> bool:
        """Return whether a gang has changed."""
        return self.may_be_taken(key) or self._is_put_off(key)

    def may_be_taken(self, key: GangKey) -> bool:
        """Return whether a gang has changed and isn't put off."""
        return key in self._namespaces.get(key.namespace, ())

    def _is_put_off(self, key: GangKey) -> bool:
        return key in self.put_off.get(key.namespace, ())

    def __iter__(self) -> Iterator[GangKey]:
        """Return the gangs that may be taken, namespace by namespace."""
        return chain(*self._namespaces.values())

    def keys(self) -> frozenset[GangKey]:
        """Return all that have changed, also those that are put off."""
        return frozenset(chain(self, *self.put_off.values()))

    def add(self, key: GangKey) -> None:
        """Record that a gang has changed."""
        if not self._is_put_off(key):
            self._namespaces.setdefault(key.namespace, OrderedDict()).setdefault(key)

    def update(self, keys: Iterable[GangKey]) -> None:
        """Record that gangs have changed."""
        for key in keys:
            self.add(key)

    def discard(self, key: GangKey) -> None:
        """Forget that a gang has changed."""
        self.put_off.get(key.namespace, set()).discard(key)
        if self.may_be_taken(key):
            keys = self._namespaces[key.namespace]
            del keys[key]
            if not keys:
                del self._namespaces[key.namespace]

    def take(self) -> GangKey:
        """Take the next gang: the one that changed first in the namespace whose turn it is."""
        namespace, keys = next(iter(self._namespaces.items()))
        key, _ = keys.popitem(last=False)
        if keys:
            self._namespaces.move_to_end(namespace)
        else:
            del self._namespaces[namespace]
        return key

    def postpone(self, key: GangKey) -> None:
        """Put off a gang that was taken."""
        self.put_off.setdefault(key.namespace, set()).add(key)

    def admit(self, namespace: str) -> None:
        """Let the gangs of a namespace that are put off be taken."""
        self.update(sorted(self.put_off.pop(namespace, ())))


# Gangs, members and workloads.

MANY = 500
"""If a workload with this many pods changes, the pods aren't looked at at once, but at the pace of their namespace."""

LINKED = (Convention.POD_GROUP, Convention.COSCHEDULING)
"""The conventions of the PodGroups to which admission links pods with our label, under the label's name."""

MOST_HEIRS = 64
"""The most pods of a Job among which a successor is searched for a pod that is gone.

In a larger Job only a pod that is created afterwards takes over the history of the gone one.
"""


class Registry:
    """Gangs by key, members by pod uid.

    ``workloads`` are the objects that state how large gangs are. ``gone`` keeps the gangs without any member left, so
    that users can look up what happened to them. ``seal`` tells which records on pods and Jobs are the service's own;
    it is set before anything is observed.

    What has changed: ``dirty`` has the gangs that have changed since they were looked at. ``uncopied`` has the keys of
    gangs that have changed or gone since the last view, and ``left`` those of gangs that have gone since the queue last
    took note of such gangs. ``touched_groups`` are the PodGroups of scheduling.x-k8s.io with a change since the last
    report, and ``touched_job_sets`` the JobSets that came, went, or were suspended or resumed since the last step.
    ``revision`` grows with every change of any gang. ``late`` has, by namespace, the uids of pods whose workload with
    many pods has changed, and whose memberships weren't computed since.

    ``on_restated`` is called for each pod that belongs to a workload that has changed. ``on_dependee`` is called with
    the namespace and the name of each Job or gang that has come, has ended or is gone. ``clock`` returns seconds since
    the epoch.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.seal = Seal.of_this_process()
        self.gangs: dict[GangKey, Gang] = {}
        self.gone = PastGangs(clock)
        self.left: set[GangKey] = set()
        self.uncopied: set[GangKey] = set()
        self.revision = 0
        self.dirty = ChangedGangs()
        self.workloads = WorkloadIndex()
        self.touched_groups: set[tuple[str, str]] = set()
        self.touched_job_sets: set[tuple[str, str]] = set()
        self.on_restated: Callable[[Pod], None] = lambda _: None
        self.on_dependee: Callable[[str, Target], None] = lambda *_: None
        self.late: dict[str, set[str]] = {}
        self._gang_of: Map[str, GangKey] = Map()
        self._by_name: Multimap[tuple[str, str], GangKey] = Multimap()
        self._priorities: Counter[int] = Counter()
        self._foreign: dict[str, tuple[GangKey, str]] = {}
        """The gang that each living foreign pod names, and the pod's scheduler, by the pod's uid."""
        self._foreign_by_name: Multimap[tuple[str, str], str] = Multimap()

    def frozen(self, gangs: dict[GangKey, Gang], now: float) -> Registry:
        """Return a registry for a pass at ``now``, in seconds since the epoch, with copies of all ``gangs``.

        It answers which gangs, members and workloads there are. Nothing else is asked of it.
        """
        frozen = Registry(lambda: now)
        frozen.gangs, frozen._gang_of = gangs, self._gang_of
        frozen._priorities, frozen.workloads = self._priorities.copy(), self.workloads.copy()
        return frozen

    def imagine(self, gang: Gang) -> None:
        """Add a gang that doesn't exist to a frozen registry, for a simulation."""
        self.gangs[gang.key] = gang
        self._gang_of = self._gang_of.update(dict.fromkeys(gang.members, gang.key))
        self._priorities.update(member.pod.priority for member in gang.members.values())

    # Questions.

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
        """Return the gangs of that name in the order of their keys; the name includes the part, if there is one."""
        keys = sorted(self._by_name.of((namespace, name.partition("/")[0])))
        return [self.gangs[key] for key in keys if str(key) == f"{namespace}/{name}"]

    def in_group(self, namespace: str, name: str) -> list[Gang]:
        """Return the gangs of a PodGroup of scheduling.x-k8s.io in the order of their keys; each part is a gang."""
        keys = sorted(self._by_name.of((namespace, name)))
        return [self.gangs[key] for key in keys if key.convention is Convention.COSCHEDULING]

    def gangs_of(self, namespace: str, owner: str) -> set[GangKey]:
        """Return the gangs of one namespace with pods of the owner with that uid.

        The namespace matters because a pod may name an owner of another one.
        """
        return {self._gang_of[uid] for uid in self.workloads.naming(namespace, owner)}

    @property
    def lowest_priority(self) -> int:
        """The lowest priority of any pod of ours, 0 if there are no pods."""
        return min((priority for priority, count in self._priorities.items() if count), default=0)

    def foreign_members(self, gang: Gang) -> Counter[str]:
        """Return how many foreign pods name the gang, or the group in the label of its own pods, by scheduler.

        Admission links labelled pods of ours to a PodGroup of the same name, but not foreign pods. It isn't known
        whether a foreign pod's owner has stages, so the pod counts both for its stage and for a gang of all stages.
        """
        key = gang.key
        conventions = {key.convention}
        if key.convention in LINKED and any(
            member.pod.labels.get(GROUP_LABEL) == key.name for member in gang.members.values()
        ):
            conventions.add(Convention.LABEL)
        uids = self._foreign_by_name.of((key.namespace, key.name))
        return Counter(
            scheduler
            for named_key, scheduler in (self._foreign[uid] for uid in uids)
            if named_key.convention in conventions
            and named_key.uid == key.uid
            and key.part in ("", named_key.part)
        )

    # Pods.

    def put_pod(self, pod: Pod) -> Member:
        """Record a pod of ours, new or changed; return its member."""
        found = self.member(pod.uid)
        if found is not None:
            _, member = found
            before = member.pod
            if before.annotations == pod.annotations and _names_in(before) == _names_in(pod):
                return self._put(pod, member.membership)
        return self._put(pod, self.workloads.membership(pod))

    def _put(self, pod: Pod, membership: Membership) -> Member:
        """Record a pod as a member of the gang that its membership names, and no longer of another one."""
        old = self._gang_of.get(pod.uid)
        if old is None:
            member = Member(pod, membership)
        else:
            member = self.gangs[old].members[pod.uid]
            self._priorities[member.pod.priority] -= 1
            if old != membership.key:
                self.gangs[old].remove(pod.uid)
                self._touch(old)
        gang = self.gangs.get(membership.key)
        if gang is None:
            gang = Gang(membership.key, history=self.gone.history_of(membership.key, pod))
            self._add(gang)
        if old is None or old != gang.key or _names_in(member.pod) != _names_in(pod):
            if old is not None:
                self.workloads.drop_pod(member.pod, old)
            self.workloads.add_pod(pod, gang.key)
        self._priorities[pod.priority] += 1
        joins = pod.uid not in gang.members
        membership, submitted = _shared(gang, membership), self._submitted(pod)
        member = gang.put(replace(member, pod=pod, membership=membership, submitted=submitted))
        if joins:
            gang.note(HistoryKind.SEEN, pod.name)
        if old != gang.key:
            self._gang_of = self._gang_of.set(pod.uid, gang.key)
        self._touch(gang.key)
        return member

    def take_over(self, uid: str, pod: Pod) -> bool:
        """Let ``pod`` become the member that was expected as ``uid``; return False if it belongs to another gang.

        If each of them is a gang by itself, the expected pod's gang becomes that of ``pod``.
        """
        found = self.member(uid)
        if found is None:
            return False
        gang, member = found
        membership, before = self.workloads.membership(pod), gang.key
        if membership.key != before:
            if not membership.key.convention is before.convention is Convention.ALONE:
                return False
            self._remove(gang)
            gang.key = membership.key
            self._add(gang)
            self.dirty.add(gang.key)
            if member.record is not None:
                member = replace(member, record=dataclasses.replace(member.record, gang=gang.key))
        self.workloads.drop_pod(member.pod, before)
        gang.remove(uid)
        renamed = dataclasses.replace(member.pod, uid=pod.uid)
        self.workloads.add_pod(renamed, gang.key)
        place = member.assignment
        if place is not None:
            place = dataclasses.replace(place, uid=pod.uid)
        gang.put(replace(member, pod=renamed, assignment=place, membership=membership))
        self._gang_of = self._gang_of.delete(uid).set(pod.uid, gang.key)
        return True

    def drop_pod(self, uid: str) -> None:
        """Forget a pod of ours that is gone."""
        key = self._gang_of.get(uid)
        if key is None:
            return
        self._gang_of = self._gang_of.delete(uid)
        gang = self.gangs[key]
        pod = gang.remove(uid).pod
        self.workloads.drop_pod(pod, key)
        self._priorities[pod.priority] -= 1
        why = "its pod wasn't created" if pod.expected else "the pod was deleted"
        gang.note(HistoryKind.RELEASED, pod.name, why)
        self._touch(key, lineage_left(gang, pod))

    def put_foreign_pod(self, pod: Pod) -> None:
        """Record a foreign pod, which may name a gang of ours."""
        key = None if pod.finished or pod.deleting else named_gang(pod)
        if key is None:
            self.drop_foreign_pod(pod.uid)
        elif self._foreign.get(pod.uid) != (key, pod.scheduler):
            self.drop_foreign_pod(pod.uid)
            self._foreign[pod.uid] = key, pod.scheduler
            self._foreign_by_name.add((key.namespace, key.name), pod.uid)
            self.look_at(self._by_name.of((key.namespace, key.name)))

    def drop_foreign_pod(self, uid: str) -> None:
        """Forget a foreign pod."""
        key, _ = self._foreign.pop(uid, (None, ""))
        if key is not None:
            self._foreign_by_name.discard((key.namespace, key.name), uid)
            self.look_at(self._by_name.of((key.namespace, key.name)))

    def treat_all_as_old(self) -> None:
        """Treat all pods and workloads that are known now as older than those that come later.

        After a restart, a resourceVersion doesn't tell what was created first, because later writes have changed it. So
        known pods that were created in the same second are ordered by their names.
        """
        self.catch_up()
        self.workloads.treat_all_as_old()
        for gang, member in list(self.members()):
            gang.change(member.pod.uid, first_seen=0, submitted=self._submitted(member.pod))

    def _submitted(self, pod: Pod) -> tuple[float, int] | None:
        """Return the place in line of the pod's owner, None if the pod has a place of its own.

        An owner has one if it was sent back in line, or if it was resumed before its pods existed: then it was in line
        before them.
        """
        job = owning(pod.owner, pod.namespace, self.workloads) if pod.owner is not None else None
        if not isinstance(job, Resumable):
            return None
        return job.queued_since or ((job.created, self.workloads.first_seen(job)) if job.queued else None)

    # Gangs.

    def look_at(self, keys: Iterable[GangKey]) -> None:
        """Mark those of ``keys`` that exist to be looked at again."""
        self.dirty.update(key for key in keys if key in self.gangs)

    def _add(self, gang: Gang) -> None:
        key = gang.key
        gang.uncopied = self.uncopied
        self.gangs[key] = gang
        self._by_name.add((key.namespace, key.name), key)
        self._gang_changed(key)

    def _remove(self, gang: Gang) -> None:
        key = gang.key
        del self.gangs[key]
        self.left.add(key)
        self.dirty.discard(key)
        self._by_name.discard((key.namespace, key.name), key)
        self._gang_changed(key)

    def _gang_changed(self, key: GangKey) -> None:
        self.uncopied.add(key)
        self.on_dependee(key.namespace, Target("gang", str(key).removeprefix(f"{key.namespace}/")))

    def _touch(self, key: GangKey, lineage: Lineage | None = None) -> None:
        """Note that a gang has changed.

        A gang without members is gone. If it has an heir of that ``lineage``, the heir takes over its history.
        """
        self.revision += 1
        if key.convention is Convention.COSCHEDULING:
            self.touched_groups.add((key.namespace, key.name))
        gang = self.gangs[key]
        if gang.members:
            self.dirty.add(key)
            return
        self._remove(gang)
        gang.fail_waits("the gang is gone")
        gang.note(HistoryKind.GONE)
        self.gone.keep(gang, lineage)
        heir = self._heir(gang, lineage) if lineage is not None else None
        if heir is not None:
            self.gone.hand_over(key, heir.history)

    def _heir(self, gone: Gang, lineage: Lineage) -> Gang | None:
        """Return the gang that takes over the history of ``gone``, None if no such gang exists yet."""
        if len(self.workloads.naming(*lineage[:2])) > MOST_HEIRS:
            return None
        gangs = [self.gangs[key] for key in sorted(self.gangs_of(*lineage[:2]))]
        same_lineage = (
            gang
            for gang in gangs
            if lineage in (lineage_of(gang.key, member.pod) for member in gang.members.values())
        )
        return next((gang for gang in same_lineage if gang.history.replaces(gone.history)), None)

    # Workloads.

    def put_workload(self, workload: Workload) -> None:
        """Record an object that may state how large gangs are."""
        before = self.workloads.find(type(workload), workload.namespace, workload.name)
        affected = self.workloads.put(workload)
        if before is None or _stated_besides_size(before) != _stated_besides_size(workload):
            affected = self.workloads.pods_of(workload)
            self._job_changed(workload)
        self._recompute_soon(workload.namespace, affected)
        if isinstance(workload, CoschedulingGroup):
            self.touched_groups.add((workload.namespace, workload.name))

    def drop_workload(self, workload: Workload) -> None:
        """Forget an object that may state how large gangs are."""
        self._recompute_soon(workload.namespace, self.workloads.drop(workload))
        self._job_changed(workload)

    def replace_workloads(
        self, kind: type[Workload], workloads: Iterable[Workload], served: bool = True
    ) -> None:
        """Take in a whole list of one kind of workload; ``served`` tells whether the cluster serves that kind."""
        listed = {(workload.namespace, workload.name): workload for workload in workloads}
        for name, workload in self.workloads.all(kind).items():
            if name not in listed:
                self.drop_workload(workload)
        for workload in listed.values():
            self.put_workload(workload)
        self._recompute(self.workloads.set_served(kind, served))

    def _job_changed(self, workload: Workload) -> None:
        if isinstance(workload, Job):
            self.on_dependee(workload.namespace, Target("job", workload.name))
        elif isinstance(workload, JobSet):
            self.touched_job_sets.add((workload.namespace, workload.name))

    def _recompute_soon(self, namespace: str, uids: Collection[str]) -> None:
        """Compute again to which gangs pods belong: now if there are few, else when `recompute_late` is called."""
        if len(uids) < MANY:
            self._recompute(uids)
        else:
            self.late.setdefault(namespace, set()).update(uids)

    def catch_up(self) -> None:
        """Compute again to which gangs all pods in ``late`` belong."""
        for namespace in [*self.late]:
            self.recompute_late(namespace)

    def recompute_late(self, namespace: str) -> int:
        """Compute again to which gangs the pods in ``late`` of a namespace belong; return how many pods these are."""
        uids = self.late.pop(namespace, set())
        self._recompute(sorted(uids))
        return len(uids)

    def _recompute(self, uids: Iterable[str]) -> None:
        """Compute again to which gangs pods belong and their places in line, and have these gangs looked at."""
        for uid in uids:
            found = self.member(uid)
            if found is None:
                continue
            gang, member = found
            self.on_restated(member.pod)
            membership = self.workloads.membership(member.pod)
            gang.change(uid, submitted=self._submitted(member.pod))
            if membership != member.membership:
                self._put(member.pod, membership)
                self.gangs[membership.key].remember(group_scheduled=False)
            self.dirty.add(membership.key)


def _shared(gang: Gang, membership: Membership) -> Membership:
    """Return the membership of the gang's first member if it is equal, so that the pods of a gang share one object."""
    first = next(iter(gang.members.values()), None)
    return first.membership if first is not None and first.membership == membership else membership


def _stated_besides_size(workload: Workload) -> tuple[object, ...]:
    """Return what a workload states besides sizes: its place in line, its submission, and whether a Job has ended."""
    in_line: tuple[object, ...] = (workload.suspended,) if isinstance(workload, JobSet | Resumable) else ()
    in_line += (workload.queued_since,) if isinstance(workload, Resumable) else ()
    return (
        workload.uid,
        workload.submission,
        in_line,
        workload.outcome if isinstance(workload, Job) else None,
    )


def _names_in(pod: Pod) -> tuple[object, ...]:
    """Return the parts of a pod that name objects."""
    return pod.labels, pod.group, pod.owner
