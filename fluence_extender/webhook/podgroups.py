"""Keep the PodGroups that pods name: create them, keep their size equal to the gang's, and remove them after
their last pod.

Admission links a pod to its PodGroup. The PodGroup itself follows once the pod exists. Its size follows from the
convention of our own group label (`conventions.labelled`), so the extender and kube-scheduler agree on it.

Invariants: only a PodGroup with our mark is ever changed or removed. A PodGroup is created once its size is known, and
never for a pod that doesn't exist. Two replicas with the same observations decide the same, and a write that the other
one has made already counts as done.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from typing import Protocol

import structlog

from fluence_extender.cluster.errors import Invalid
from fluence_extender.cluster.port import Changed, Kind, Listed, Observation, follow_pods
from fluence_extender.cluster.reconciler import Reconciler
from fluence_extender.gangs.membership.gang import Member, required_size
from fluence_extender.gangs.membership.workloads import WorkloadIndex
from fluence_extender.kinds.labels import sized
from fluence_extender.kinds.membership import Membership, Workloads
from fluence_extender.kinds.podgroups import CoschedulingGroup, PodGroup
from fluence_extender.kinds.workload import Workload
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.names import COSCHEDULING_GROUP, GROUP_LABEL, WEBHOOK_NAME
from fluence_extender.model.pod import Owner, Pod
from fluence_extender.model.reason import Reason

log = structlog.get_logger(__name__)

LINGER = 5.0
"""Seconds for which a PodGroup without members stays, because an owner that replaces its pods needs a moment."""

SYSTEM = "system-"
"""How the names of PriorityClasses begin whose values are above those that a PodGroup may have."""

Name = tuple[str, str]
"""Namespace and name."""

Group = PodGroup | CoschedulingGroup
Ref = tuple[type[Group], Name]
KINDS: tuple[type[Group], ...] = (PodGroup, CoschedulingGroup)
NEEDED: frozenset[Kind] = frozenset((Pod, *KINDS))
"""The kinds that must be listed before it is certain that a group has no members or doesn't exist."""


@dataclass(frozen=True, slots=True)
class Make:
    """Create a PodGroup of that kind.

    ``owner`` and ``priority_class`` are the owner and the PriorityClass that all its members have in common, if any.
    """

    kind: type[Group]
    name: Name
    size: int
    owner: Owner | None = None
    priority_class: str = ""


@dataclass(frozen=True, slots=True)
class Resize:
    """Change the size of a PodGroup of ours."""

    group: Group
    size: int


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete a PodGroup of ours, provided that it hasn't changed since it was observed."""

    group: Group


Action = Make | Resize | Remove


class PodGroupWrites(Protocol):
    """Writes PodGroups. Each call raises a `ClusterError` subclass unless the API server has accepted the write."""

    async def make(
        self, kind: type[Group], name: Name, size: int, owner: Owner | None, priority_class: str
    ) -> None:
        """Create a PodGroup with our mark. Raises `Conflict` if there is one of that name."""
        ...

    async def resize(self, group: Group, size: int) -> None:
        """Change the size. Raises `errors.Invalid` if the size can't be changed, `Gone` if the PodGroup is gone."""
        ...

    async def remove(self, group: Group) -> None:
        """Delete the PodGroup. Raises `Conflict` if it has changed since it was observed, `Gone` if it is gone."""
        ...


class PodGroupReconciler(Reconciler[Ref]):
    """Brings each PodGroup to the state that `PodGroups` wants."""

    def __init__(self, writes: PodGroupWrites) -> None:
        super().__init__("a PodGroup")
        self._writes = writes
        self._groups = PodGroups(time.monotonic)

    def observe(self, seen: Observation) -> None:
        """Note an observation, of whatever kind."""
        self.enqueue(self._groups.observe(seen))

    async def reconcile(self, ref: Ref) -> float | None:
        """Carry out the action for one PodGroup."""
        action = self._groups.action(ref)
        match action:
            case None:
                return self._groups.removal_due_in(ref)
            case Make():
                await self._writes.make(
                    action.kind, action.name, action.size, action.owner, action.priority_class
                )
            case Resize():
                try:
                    await self._writes.resize(action.group, action.size)
                except Invalid as error:
                    log.info("a PodGroup keeps its size", problem=str(error))
                    self._groups.size_is_fixed(action)
            case Remove():
                await self._writes.remove(action.group)
                self._groups.removed(action.group)
        return None


class PodGroups:
    """Decides the action for each PodGroup, from pods, PodGroups and workloads; ``clock`` counts seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._workloads = WorkloadIndex(_by_label)
        self._members: dict[Ref, dict[str, Pod]] = {}
        self._ref_of: dict[str, Ref] = {}
        self._groups: dict[Ref, Group] = {}
        self._changed: set[Ref] = set()
        self._empty_since: dict[Ref, float] = {}
        self._fixed_sizes: set[tuple[str, int]] = set()
        self._listed: set[Kind] = set()

    def observe(self, seen: Observation) -> Set[Ref]:
        """Note an observation of any kind. Return the PodGroups that may need an action."""
        follow_pods(seen, self._ref_of, self._put_pod, self._drop_pod)
        if isinstance(seen, Listed):
            self._observe_list(seen)
        elif isinstance(seen.object, Group):
            (self._put_group if isinstance(seen, Changed) else self._drop_group)(seen.object)
        elif isinstance(seen.object, Workload):
            index = self._workloads
            self._touch((index.put if isinstance(seen, Changed) else index.drop)(seen.object))
        if not self._listed >= NEEDED:
            return frozenset()
        changed, self._changed = self._changed, set()
        return changed

    def action(self, ref: Ref) -> Action | None:
        """Return the action for a PodGroup that is due now, None if there is none."""
        group, members = self._groups.get(ref), self._members.get(ref)
        if group is not None and (group.provenance.by != WEBHOOK_NAME or group.provenance.deleting):
            self._empty_since.pop(ref, None)
            return None
        if not members:
            return None if group is None else self._removal(ref, group)
        self._empty_since.pop(ref, None)
        size = self._size(members.values())
        if size is None:
            return None
        if group is None:
            pods = members.values()
            return Make(ref[0], ref[1], size, _common_owner(pods), _common_class(pods))
        if _size_of(group) == size or (group.uid, size) in self._fixed_sizes:
            return None
        return Resize(group, size)

    def removal_due_in(self, ref: Ref) -> float | None:
        """Return the seconds until a PodGroup without members is to be removed, None if nothing is to be removed."""
        since = self._empty_since.get(ref)
        return None if since is None else since + LINGER - self._clock()

    def removed(self, group: Group) -> None:
        """Note that the API server has accepted the removal."""
        self._empty_since.pop(_ref(group), None)

    def size_is_fixed(self, action: Resize) -> None:
        """Note that the API server refuses this size, so it isn't requested again."""
        self._fixed_sizes.add((action.group.uid, action.size))

    def _removal(self, ref: Ref, group: Group) -> Remove | None:
        since = self._empty_since.setdefault(ref, self._clock())
        return Remove(group) if self._clock() - since >= LINGER else None

    def _size(self, members: Iterable[Pod]) -> int | None:
        """Return the size on which all members agree, None if it isn't known yet.

        If the parts start one after the other, the size of the smallest counts.
        """
        parts: dict[GangKey, list[Member]] = {}
        for pod in members:
            membership = self._workloads.membership(pod)
            parts.setdefault(membership.key, []).append(Member(pod, membership))
        sizes = [required_size(key, part) for key, part in parts.items()]
        known = [size for size in sizes if not isinstance(size, Reason)]
        return min(known) if len(known) == len(sizes) else None

    def _observe_list(self, seen: Listed) -> None:
        self._listed.add(seen.kind)
        if seen.kind in KINDS:
            groups = {_ref(one): one for one in seen.objects if isinstance(one, Group)}
            for ref, group in list(self._groups.items()):
                if ref[0] is seen.kind and ref not in groups:
                    self._drop_group(group)
            for group in groups.values():
                self._put_group(group)
        elif issubclass(seen.kind, Workload):
            kind = seen.kind
            listed = {(one.namespace, one.name): one for one in seen.objects if isinstance(one, kind)}
            for name, workload in self._workloads.all(kind).items():
                if name not in listed:
                    self._touch(self._workloads.drop(workload))
            for workload in listed.values():
                self._touch(self._workloads.put(workload))
            self._touch(self._workloads.set_served(kind, seen.served))

    def _put_pod(self, pod: Pod) -> None:
        ref = linked_group(pod)
        if ref is None or pod.finished or self._ref_of.get(pod.uid, ref) != ref:
            self._drop_pod(pod.uid)
        if ref is not None and not pod.finished:
            members = self._members.setdefault(ref, {})
            if pod.uid in members:
                self._workloads.drop_pod(members[pod.uid])
            self._workloads.add_pod(pod)
            self._ref_of[pod.uid] = ref
            members[pod.uid] = pod
            self._changed.add(ref)

    def _drop_pod(self, uid: str) -> None:
        ref = self._ref_of.pop(uid, None)
        if ref is None:
            return
        members = self._members[ref]
        self._workloads.drop_pod(members.pop(uid))
        if not members:
            del self._members[ref]
        self._changed.add(ref)

    def _put_group(self, group: Group) -> None:
        self._groups[_ref(group)] = group
        self._changed.add(_ref(group))

    def _drop_group(self, group: Group) -> None:
        ref = _ref(group)
        self._groups.pop(ref, None)
        self._empty_since.pop(ref, None)
        self._changed.add(ref)

    def _touch(self, uids: Iterable[str]) -> None:
        self._changed.update(self._ref_of[uid] for uid in uids if uid in self._ref_of)


def linked_group(pod: Pod) -> Ref | None:
    """Return the PodGroup to which admission has linked the pod, None if there is no such link.

    Links that admission hasn't made don't count.
    """
    group = pod.labels.get(GROUP_LABEL)
    if not group or not pod.ours:
        return None
    if pod.group == group:
        return PodGroup, (pod.namespace, group)
    linked = pod.labels.get(COSCHEDULING_GROUP) == group
    return (CoschedulingGroup, (pod.namespace, group)) if linked else None


def _by_label(pod: Pod, workloads: Workloads) -> Membership:
    return sized(pod, workloads, GangKey(pod.namespace, pod.labels[GROUP_LABEL], Convention.LABEL))


def _ref(group: Group) -> Ref:
    return type(group), (group.namespace, group.name)


def _size_of(group: Group) -> int | None:
    return group.min_count if isinstance(group, PodGroup) else group.min_member


def _common_owner(members: Iterable[Pod]) -> Owner | None:
    """Return the one owner of all members, None if they have none or several, or if it can't be referred to."""
    owners = {pod.owner for pod in members}
    owner = owners.pop() if len(owners) == 1 else None
    return owner if owner is not None and owner.api_version else None


def _common_class(members: Iterable[Pod]) -> str:
    """Return the PriorityClass of all members, "" if they have none or several, or if a PodGroup may not have it."""
    names = {pod.priority_class for pod in members}
    name = names.pop() if len(names) == 1 else ""
    return "" if name.startswith(SYSTEM) else name
