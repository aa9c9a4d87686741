"""The PodGroups that linked pods name: which are to be made, resized and removed.

A pod is linked to its PodGroup at admission; the object follows once the pod exists, whatever comes first. Its size is
what the members' label says (`gangs.conventions.labelled`), so that the extender and kube-scheduler agree on it.

Invariants: only what carries our mark is ever changed or removed; a group is made when its size is known, never for a
pod that doesn't exist; two replicas that see the same cluster want the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from fluence_extender.cluster.pods_seen import follow_pods
from fluence_extender.cluster.port import WORKLOADS, Changed, Kind, Listed, Observation
from fluence_extender.gangs.membership.assembly import required_size
from fluence_extender.gangs.membership.conventions import labelled
from fluence_extender.gangs.membership.conventions.membership import Membership, Workloads
from fluence_extender.gangs.membership.workloads import WorkloadIndex
from fluence_extender.model.gang import Convention, GangKey
from fluence_extender.model.names import COSCHEDULING_GROUP, GROUP_LABEL, WEBHOOK_NAME
from fluence_extender.model.pod import Owner, Pod
from fluence_extender.model.reason import Reason
from fluence_extender.model.workload import CoschedulingGroup, PodGroup, Workload

LINGER = 5.0
"""Seconds that a group without members stays: an owner that replaces its pods needs a moment."""

Name = tuple[str, str]
"""Namespace and name."""

Group = PodGroup | CoschedulingGroup
Ref = tuple[type[Group], Name]
KINDS: dict[Kind, type[Group]] = {Kind.POD_GROUP: PodGroup, Kind.COSCHEDULING_GROUP: CoschedulingGroup}
NEEDED = frozenset((Kind.POD, *KINDS))
"""What must have been listed before a group is believed to have no members, or not to be there."""


class _Member(NamedTuple):
    pod: Pod
    membership: Membership


@dataclass(frozen=True, slots=True)
class Make:
    """Make the group of that kind; ``owner`` is what all its members have in common, if anything."""

    kind: type[Group]
    name: Name
    size: int
    owner: Owner | None = None


@dataclass(frozen=True, slots=True)
class Resize:
    """Let a group of ours have another size."""

    group: Group
    size: int


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove a group of ours, as it was seen."""

    group: Group


Action = Make | Resize | Remove


def linked_group(pod: Pod) -> Ref | None:
    """The PodGroup that admission has linked the pod to; None where it hasn't, or the link is somebody else's."""
    group = pod.labels.get(GROUP_LABEL)
    if not group or not pod.ours:
        return None
    if pod.group == group:
        return PodGroup, (pod.namespace, group)
    linked = pod.labels.get(COSCHEDULING_GROUP) == group
    return (CoschedulingGroup, (pod.namespace, group)) if linked else None


def _by_label(pod: Pod, workloads: Workloads) -> Membership:
    return labelled.sized(pod, workloads, GangKey(pod.namespace, pod.labels[GROUP_LABEL], Convention.LABEL))


class PodGroups:
    """What is seen of linked pods and of PodGroups; ``clock`` gives seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._workloads = WorkloadIndex(_by_label)
        self._members: dict[Ref, dict[str, Pod]] = {}
        self._of: dict[str, Ref] = {}
        self._groups: dict[Ref, Group] = {}
        self._dirty: set[Ref] = set()
        self._empty_since: dict[Ref, float] = {}
        self._fixed: set[tuple[str, int]] = set()
        self._listed: set[Kind] = set()

    def take(self, seen: Observation) -> None:
        """Take note of what was seen; kinds that don't matter here are passed over."""
        follow_pods(seen, self._of, self._put_pod, self._drop_pod)
        if isinstance(seen, Listed):
            self._take_list(seen)
        elif isinstance(seen.object, Group):
            (self._put_group if isinstance(seen, Changed) else self._drop_group)(seen.object)
        elif isinstance(seen.object, Workload):
            index = self._workloads
            self._look_at((index.put if isinstance(seen, Changed) else index.drop)(seen.object))

    def _take_list(self, seen: Listed) -> None:
        self._listed.add(seen.kind)
        if seen.kind in KINDS:
            groups = {_ref(one): one for one in seen.objects if isinstance(one, Group)}
            for ref, group in list(self._groups.items()):
                if ref[0] is KINDS[seen.kind] and ref not in groups:
                    self._drop_group(group)
            for group in groups.values():
                self._put_group(group)
        elif seen.kind in WORKLOADS:
            kind = WORKLOADS[seen.kind]
            listed = [one for one in seen.objects if isinstance(one, kind)]
            self._look_at(self._workloads.replace(kind, listed, seen.served))

    def _put_pod(self, pod: Pod) -> None:
        ref = linked_group(pod)
        if ref is None or pod.finished or self._of.get(pod.uid, ref) != ref:
            self._drop_pod(pod.uid)
        if ref is not None and not pod.finished:
            self._of[pod.uid] = ref
            self._members.setdefault(ref, {})[pod.uid] = pod
            self._dirty.add(ref)

    def _drop_pod(self, uid: str) -> None:
        ref = self._of.pop(uid, None)
        if ref is None:
            return
        self._workloads.forget(uid)
        members = self._members[ref]
        del members[uid]
        if not members:
            del self._members[ref]
        self._dirty.add(ref)

    def _put_group(self, group: Group) -> None:
        self._groups[_ref(group)] = group
        self._dirty.add(_ref(group))

    def _drop_group(self, group: Group) -> None:
        self._groups.pop(_ref(group), None)
        self._dirty.add(_ref(group))

    def _look_at(self, uids: Iterable[str]) -> None:
        self._dirty.update(self._of[uid] for uid in uids if uid in self._of)

    # What is to be done.

    def actions(self) -> list[Action]:
        """What is to be done now; asked again before anything more was seen, it isn't said again."""
        if not self._listed >= NEEDED:
            return []
        now = self._clock()
        due = {ref for ref, since in self._empty_since.items() if now - since >= LINGER}
        looked_at, self._dirty = self._dirty | due, set()
        wanted = (self._action(ref, now) for ref in sorted(looked_at, key=_order))
        return [one for one in wanted if one is not None]

    @property
    def next_due(self) -> float | None:
        """When the first of the groups without members is to be removed, None where there is none."""
        return min((since + LINGER for since in self._empty_since.values()), default=None)

    def done(self, action: Action) -> None:
        """Take note that the API server has done it; the watch shows the rest."""
        if isinstance(action, Remove):
            self._empty_since.pop(_ref(action.group), None)

    def refused(self, action: Action) -> None:
        """Take note that the API server will not do it: a size that can't be changed stays."""
        if isinstance(action, Resize):
            self._fixed.add((action.group.uid, action.size))

    def failed(self, action: Action) -> None:
        """Take note that it didn't come about, and is to be thought of again."""
        self._dirty.add((action.kind, action.name) if isinstance(action, Make) else _ref(action.group))

    def _action(self, ref: Ref, now: float) -> Action | None:
        group, members = self._groups.get(ref), self._members.get(ref)
        mine = group is not None and group.provenance.by == WEBHOOK_NAME
        if members or not mine or group is None or group.provenance.deleting:
            self._empty_since.pop(ref, None)
        if not members:
            return self._removal(ref, group, now) if mine and group is not None else None
        size = self._size(members.values())
        if size is None or (group is not None and (not mine or group.provenance.deleting)):
            return None
        if group is None:
            return Make(ref[0], ref[1], size, _common_owner(members.values()))
        if _size_of(group) == size or (group.uid, size) in self._fixed:
            return None
        return Resize(group, size)

    def _removal(self, ref: Ref, group: Group, now: float) -> Remove | None:
        if group.provenance.deleting:
            return None
        since = self._empty_since.setdefault(ref, now)
        return Remove(group) if now - since >= LINGER else None

    def _size(self, members: Iterable[Pod]) -> int | None:
        """The size that all members say; of parts that come one after the other the smallest. None: not known yet."""
        parts: dict[GangKey, list[_Member]] = {}
        for pod in members:
            membership = self._workloads.membership(pod)
            parts.setdefault(membership.key, []).append(_Member(pod, membership))
        sizes = [required_size(key, alike) for key, alike in parts.items()]
        known = [size for size in sizes if not isinstance(size, Reason)]
        return min(known) if len(known) == len(sizes) else None


def _ref(group: Group) -> Ref:
    return type(group), (group.namespace, group.name)


def _order(ref: Ref) -> tuple[str, Name]:
    return ref[0].__name__, ref[1]


def _size_of(group: Group) -> int:
    return group.min_count if isinstance(group, PodGroup) else group.min_member


def _common_owner(members: Iterable[Pod]) -> Owner | None:
    """The owner of all members; None where they have none or several, or it can't be referred to."""
    owners = {pod.owner for pod in members}
    owner = owners.pop() if len(owners) == 1 else None
    return owner if owner is not None and owner.api_version else None
