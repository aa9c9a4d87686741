"""Every pod of ours and its gang, as last observed.

A new list of a kind replaces all earlier observations of that kind, so missed changes do no harm. The registry decides
nothing; it records which gangs an observation affects.
"""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator

from immutables import Map
from msgspec.structs import replace

from fluence_extender.gangs.membership.changed_gangs import ChangedGangs
from fluence_extender.gangs.membership.conventions import named_gang
from fluence_extender.gangs.membership.conventions.membership import Membership
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.workloads import WorkloadIndex, owning
from fluence_extender.gangs.reporting.past_gangs import Line, PastGangs, line_left, line_of
from fluence_extender.model.dependency import Target
from fluence_extender.model.gang import Convention, GangKey, HistoryKind
from fluence_extender.model.multimap import Multimap
from fluence_extender.model.names import GROUP_LABEL
from fluence_extender.model.pod import Pod
from fluence_extender.model.seal import Seal
from fluence_extender.model.workload import (
    CoschedulingGroup,
    Job,
    JobSet,
    Resumable,
    Workload,
)

MANY = 500
"""If a workload with this many pods changes, the pods aren't looked at at once but at the pace of their namespace."""

LINKED = (Convention.POD_GROUP, Convention.COSCHEDULING)
"""The conventions of the PodGroups to which admission links pods with our label, under the label's name."""

MOST_HEIRS = 64
"""If a Job has more pods than this, the history of one that was sent back waits for a pod that comes later."""


class Registry:
    """Gangs by key, members by pod uid.

    ``dirty`` are the gangs to look at again. ``workloads`` are the objects that state how large gangs are.
    ``touched_groups`` are the PodGroups of scheduling.x-k8s.io with a change since the last report, and
    ``touched_job_sets`` the JobSets that came, went, or were suspended or resumed since the last step. ``gone`` keeps
    the gangs without any member left, so that users can look up what happened to them. ``left`` are the keys of gangs
    that have gone since the last step took them up. ``changed`` are those of gangs that have changed or gone since the
    last view. ``revision`` grows with every change of any gang. ``late`` are, by namespace, the uids of pods that
    weren't looked at since their workload with many pods changed.

    ``on_restated`` is called for each pod of which a workload has changed. ``on_dependee`` is called with the namespace
    and the name of each Job or gang that has come, has ended or is gone. ``clock`` returns seconds since the epoch.
    ``seal`` tells which records on pods and Jobs are the service's own; it is set before anything is observed.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.seal = Seal.of_this_process()
        self.gangs: dict[GangKey, Gang] = {}
        self.gone = PastGangs(clock)
        self.left: set[GangKey] = set()
        self.changed: set[GangKey] = set()
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
        """Return the gangs of that name (with the part, if they have one), in the order of their keys."""
        keys = sorted(self._by_name.of((namespace, name.partition("/")[0])))
        return [self.gangs[key] for key in keys if str(key) == f"{namespace}/{name}"]

    def in_group(self, namespace: str, name: str) -> list[Gang]:
        """Return the gangs of a PodGroup of scheduling.x-k8s.io in the order of their keys; each part is a gang."""
        keys = sorted(self._by_name.of((namespace, name)))
        return [self.gangs[key] for key in keys if key.convention is Convention.COSCHEDULING]

    def gangs_of(self, namespace: str, owner: str) -> set[GangKey]:
        """Return the gangs with pods of the owner with that uid, in one namespace: pods may name any owner."""
        return {self._gang_of[uid] for uid in self.workloads.naming(namespace, owner)}

    @property
    def lowest_priority(self) -> int:
        """Return the lowest priority of any pod of ours; 0 if there are no pods."""
        return min((priority for priority, count in self._priorities.items() if count), default=0)

    def foreign_members(self, gang: Gang) -> Counter[str]:
        """Return how many foreign pods name the gang, or the label that its own pods have, by scheduler.

        Admission links labelled pods of ours to a PodGroup of the same name, but not foreign pods. Whether a foreign
        pod's owner comes in stages isn't known, so the pod counts both for its stage and for a gang of all stages.
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
            for named, scheduler in (self._foreign[uid] for uid in uids)
            if named.convention in conventions and named.uid == key.uid and key.part in ("", named.part)
        )

    # Pods.

    def put_pod(self, pod: Pod) -> Member:
        """Record a pod of ours, new or changed; return its member."""
        found = self.member(pod.uid)
        if found is not None:
            before, membership = found[1].pod, found[1].membership
            if before.annotations == pod.annotations and _naming(before) == _naming(pod):
                return self._put(pod, membership)
        return self._put(pod, self.workloads.membership(pod))

    def _put(self, pod: Pod, membership: Membership) -> Member:
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
        if old is None or old != gang.key or _naming(member.pod) != _naming(pod):
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
        self._touch(key, line_left(gang, pod))

    def put_foreign_pod(self, pod: Pod) -> None:
        """Record a foreign pod, which may name a gang of ours."""
        named = None if pod.finished or pod.deleting else named_gang(pod)
        if named is None:
            self.drop_foreign_pod(pod.uid)
        elif self._foreign.get(pod.uid) != (named, pod.scheduler):
            self.drop_foreign_pod(pod.uid)
            self._foreign[pod.uid] = named, pod.scheduler
            self._foreign_by_name.add((named.namespace, named.name), pod.uid)
            self.look_at(self._by_name.of((named.namespace, named.name)))

    def drop_foreign_pod(self, uid: str) -> None:
        """Forget a foreign pod."""
        named, _ = self._foreign.pop(uid, (None, ""))
        if named is not None:
            self._foreign_by_name.discard((named.namespace, named.name), uid)
            self.look_at(self._by_name.of((named.namespace, named.name)))

    def begin(self) -> None:
        """Take all that is known as older than what is to come: of the same second, names order it.

        What was written since has changed resourceVersions, so after a restart they don't tell what was created first.
        """
        self.catch_up()
        self.workloads.begin()
        for gang, member in list(self.members()):
            gang.change(member.pod.uid, first_seen=0, submitted=self._submitted(member.pod))

    def _submitted(self, pod: Pod) -> tuple[float, int] | None:
        """Return the place in line that its owner keeps or has in a queue, None if the pod has its own.

        An owner that was resumed before its pods existed was in line before them.
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
        gang.changed = self.changed
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
        self.changed.add(key)
        self.on_dependee(key.namespace, Target("gang", str(key).removeprefix(f"{key.namespace}/")))

    def _touch(self, key: GangKey, line: Line | None = None) -> None:
        """Note that a gang has changed. If it has no members left, it is gone, and may have an heir in ``line``."""
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
        self.gone.keep(gang, line)
        heir = self._heir(gang, line) if line is not None else None
        if heir is not None:
            self.gone.hand_over(key, heir.history)

    def _heir(self, gone: Gang, line: Line) -> Gang | None:
        """Return the gang that takes over the history of ``gone``, None if no such gang exists yet."""
        if len(self.workloads.naming(*line[:2])) > MOST_HEIRS:
            return None
        gangs = [self.gangs[key] for key in sorted(self.gangs_of(*line[:2]))]
        same_line = (
            gang for gang in gangs if line in (line_of(gang.key, one.pod) for one in gang.members.values())
        )
        return next((gang for gang in same_line if gang.history.replaces(gone.history)), None)

    # Workloads.

    def put_workload(self, workload: Workload) -> None:
        """Record an object that may state how large gangs are."""
        before = self.workloads.find(type(workload), workload.namespace, workload.name)
        concerned = self.workloads.put(workload)
        if before is None or _standing(before) != _standing(workload):
            concerned = self.workloads.pods_of(workload)
            self._job_changed(workload)
        self._recompute_soon(workload.namespace, concerned)
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
        """Find out again to which gangs pods belong and what their place in line is, and have the gangs looked at."""
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
    """Return the equal membership of the gang's first member, if it has one: the pods of a gang share it."""
    first = next(iter(gang.members.values()), None)
    return first.membership if first is not None and first.membership == membership else membership


def _standing(workload: Workload) -> tuple[object, ...]:
    """Return what is stated besides sizes: the place in line, the submission, and whether a Job has ended."""
    line: tuple[object, ...] = (workload.suspended,) if isinstance(workload, JobSet | Resumable) else ()
    line += (workload.queued_since,) if isinstance(workload, Resumable) else ()
    return (workload.uid, workload.submission, line, workload.outcome if isinstance(workload, Job) else None)


def _naming(pod: Pod) -> tuple[object, ...]:
    """Return what of a pod names objects."""
    return pod.labels, pod.group, pod.owner
