"""All that is known of pods and their gangs, by level.

A new list of a kind replaces what was known of it, however many changes were missed in between. The registry decides
nothing; it says which gangs are touched by what was seen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

from fluence_extender.gangs.assembly import gang_key
from fluence_extender.gangs.gang import Gang, Member
from fluence_extender.gangs.history import History, Memory, What
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.pod import Pod
from fluence_extender.model.workload import Job, PodGroup


class Registry:
    """Gangs by key, members by pod uid, PodGroups and Jobs by name; ``dirty`` are the gangs to look at again.

    ``gone`` are gangs without any member left, for those who ask what became of them; ``revision`` grows with every
    change of any gang; ``clock`` gives seconds since the epoch.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.gangs: dict[GangKey, Gang] = {}
        self.gone: Memory[Gang] = Memory(clock)
        self.revision = 0
        self._named: dict[tuple[str, str], set[GangKey]] = {}
        self.dirty: set[GangKey] = set()
        self._of: dict[str, GangKey] = {}
        self._groups: dict[tuple[str, str], PodGroup] = {}
        self._jobs: dict[tuple[str, str], Job] = {}
        self._of_job: dict[str, set[GangKey]] = {}

    def member(self, uid: str) -> tuple[Gang, Member] | None:
        """The gang and member of a pod of ours."""
        key = self._of.get(uid)
        if key is None:
            return None
        gang = self.gangs[key]
        return gang, gang.members[uid]

    def members(self) -> Iterator[tuple[Gang, Member]]:
        """Every member of every gang."""
        for gang in self.gangs.values():
            for member in gang.members.values():
                yield gang, member

    def named(self, namespace: str, name: str) -> list[Gang]:
        """The gangs of that name, one for each convention at most but for pods alone; in the order of their keys."""
        return [self.gangs[key] for key in sorted(self._named.get((namespace, name), ()))]

    def pod_group(self, namespace: str, name: str) -> PodGroup | None:
        """A native PodGroup, None when there is none of that name."""
        return self._groups.get((namespace, name))

    def job(self, namespace: str, name: str) -> Job | None:
        """A Job, None when there is none of that name."""
        return self._jobs.get((namespace, name))

    def put_pod(self, pod: Pod) -> Member:
        """Take note of a pod of ours, new or changed."""
        key = gang_key(pod)
        old = self._of.get(pod.uid)
        if old is not None and old != key:
            member = self.gangs[old].members.pop(pod.uid)
            self._touch(old)
        elif old is not None:
            member = self.gangs[old].members[pod.uid]
        else:
            member = Member(pod)
        gang = self._gang(key)
        member.pod = pod
        if pod.uid not in gang.members:
            gang.members[pod.uid] = member
            gang.note(What.SEEN, pod.name)
        self._of[pod.uid] = key
        self.revision += 1
        if pod.owner is not None and pod.owner.kind == "Job":
            self._of_job.setdefault(pod.owner.uid, set()).add(key)
        self.dirty.add(key)
        return member

    def _gang(self, key: GangKey) -> Gang:
        """The gang of that key; one that was gone goes on with its history."""
        found = self.gangs.get(key)
        if found is None:
            before = self.gone.take(key)
            history = History(self.gone.clock) if before is None else before.history
            found = self.gangs[key] = Gang(key, history=history)
            self._named.setdefault((key.namespace, key.name), set()).add(key)
        return found

    def drop_pod(self, uid: str) -> None:
        """Forget a pod that is gone."""
        key = self._of.pop(uid, None)
        if key is None:
            return
        gang = self.gangs[key]
        member = gang.members.pop(uid)
        gang.note(What.RELEASED, member.pod.name, "the pod was deleted")
        self._touch(key)

    def _touch(self, key: GangKey) -> None:
        self.revision += 1
        if self.gangs[key].members:
            self.dirty.add(key)
            return
        gang = self.gangs.pop(key)
        gang.barrier.fail("the gang is gone")
        self.dirty.discard(key)
        names = self._named[key.namespace, key.name]
        names.discard(key)
        if not names:
            del self._named[key.namespace, key.name]
        gang.note(What.GONE)
        self.gone.keep(key, gang)

    def put_group(self, group: PodGroup) -> None:
        """Take note of a PodGroup."""
        if self._groups.get((group.namespace, group.name)) == group:
            return
        self._groups[group.namespace, group.name] = group
        self._look_at(GangKey(group.namespace, group.name, Convention.POD_GROUP))

    def drop_group(self, group: PodGroup) -> None:
        """Forget a PodGroup."""
        self._groups.pop((group.namespace, group.name), None)
        self._look_at(GangKey(group.namespace, group.name, Convention.POD_GROUP))

    def _look_at(self, key: GangKey) -> None:
        if key in self.gangs:
            self.gangs[key].group_reported = False
            self.dirty.add(key)

    def put_job(self, job: Job) -> None:
        """Take note of a Job; the gangs its pods are in may have another size now."""
        if self._jobs.get((job.namespace, job.name)) == job:
            return
        self._jobs[job.namespace, job.name] = job
        self.dirty.update(key for key in self._of_job.get(job.uid, ()) if key in self.gangs)

    def drop_job(self, job: Job) -> None:
        """Forget a Job."""
        if self._jobs.pop((job.namespace, job.name), None) is not None:
            self.dirty.update(key for key in self._of_job.pop(job.uid, ()) if key in self.gangs)

    def replace_groups(self, groups: Iterable[PodGroup]) -> None:
        """Take a whole list of PodGroups."""
        seen = {(group.namespace, group.name): group for group in groups}
        for group in [old for key, old in self._groups.items() if key not in seen]:
            self.drop_group(group)
        for group in seen.values():
            self.put_group(group)

    def replace_jobs(self, jobs: Iterable[Job]) -> None:
        """Take a whole list of Jobs."""
        seen = {(job.namespace, job.name): job for job in jobs}
        for job in [old for key, old in self._jobs.items() if key not in seen]:
            self.drop_job(job)
        for job in seen.values():
            self.put_job(job)
