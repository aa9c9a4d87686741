"""Evicting the gangs that make way, some pods at a step, and only for as long as their room is wanted.

Between the decision and the eviction of the last of thousands much happens. Invariants: a gang is asked to go only if,
as things are at that moment, its room is lacking where the one that it is for is to go, and its priority is lower; a
gang whose eviction has begun is evicted to its last bound member, unless it can do without the evicted ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import chain

from fluence_extender.gangs.execution.actions import Evict
from fluence_extender.gangs.lifecycle.limits import Limits
from fluence_extender.gangs.lifecycle.places import Places
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.preemption.making_way import MakingWay
from fluence_extender.gangs.preemption.preempting import Preempting
from fluence_extender.model.gang import GangKey

AT_ONCE = 500
"""Pods: so many are evicted in one step, which thousands would make a long one."""


class Evictions:
    """See the module docstring.

    ``for_whom`` are the gangs for which others make way; ``leaving`` says whether a pod is being deleted;
    ``on_preempted`` is told of each gang that is made to make way.
    """

    def __init__(
        self,
        registry: Registry,
        places: Places,
        limits: Limits,
        for_whom: Mapping[GangKey, Preempting],
        leaving: Callable[[str], bool],
    ) -> None:
        self._registry = registry
        self._places = places
        self._limits = limits
        self._for_whom = for_whom
        self._leaving = leaving
        self._ways: dict[GangKey, MakingWay] = {}
        self._way_of: dict[str, MakingWay] = {}
        self._due: dict[GangKey, None] = {}
        self.on_preempted: Callable[[], None] = lambda: None

    @property
    def due(self) -> bool:
        """Whether there is more to be done than the last step did."""
        return bool(self._due)

    @property
    def gangs(self) -> frozenset[GangKey]:
        """The gangs that make way."""
        return frozenset(self._ways)

    def __contains__(self, key: GangKey) -> bool:
        return key in self._ways

    def way(self, key: GangKey) -> MakingWay | None:
        """What the gang has to do to make way; None when it needn't."""
        return self._ways.get(key)

    def ask(self, key: GangKey, preemptor: GangKey, why: str, uids: frozenset[str], surplus: bool) -> None:
        """Let these pods of a gang go, its ``surplus`` members or all of it; ``why`` is what its users are told."""
        way = self._ways.setdefault(key, MakingWay(why, preemptor, surplus))
        way.surplus = way.surplus and surplus
        way.uids |= uids
        self._way_of.update(dict.fromkeys(uids, way))
        self._due[key] = None

    def clear(self) -> None:
        """Evict nobody any more."""
        self._ways.clear()
        self._way_of.clear()
        self._due.clear()

    def nobody_waits(self, preemptor: GangKey) -> None:
        """That gang doesn't wait any more: who hasn't begun to go for it may stay."""
        self._due.update((key, None) for key, way in self._ways.items() if way.preemptor == preemptor)

    def refused(self, uid: str, now: float) -> MakingWay | None:
        """An eviction failed, to be tried again for as long as it is wanted; for whom it was, if it still is."""
        found = self._registry.member(uid)
        way = self._ways.get(found[0].key) if found is not None else None
        if found is None or way is None:
            return None
        way.sent.discard(uid)
        way.refused.setdefault(uid, now)
        self._due[found[0].key] = None
        return way

    def accepted(self, uid: str) -> None:
        """An eviction was accepted."""
        way = self._way_of.get(uid)
        if way is not None:
            way.refused.pop(uid, None)

    def uids(self) -> Iterator[str]:
        """The pods of all gangs that make way."""
        return chain.from_iterable(way.uids for way in self._ways.values())

    def refused_uids(self) -> Iterator[str]:
        """Those of them whose eviction has failed so far."""
        return chain.from_iterable(way.refused for way in self._ways.values())

    def is_going(self, uid: str, now: float) -> bool:
        """Whether a pod is among them and is reckoned to go: not if it can't be evicted for long."""
        way = self._way_of.get(uid)
        if way is None or uid not in way.uids:
            return False
        return now - way.refused.get(uid, now) < self._limits.barred_for

    def actions(self, looked_at: Collection[GangKey]) -> list[Evict]:
        """Whom to evict now, given the gangs of which something may have changed."""
        changed = [key for key in looked_at if key in self._ways]
        gone = [key for key in self._ways if key not in self._registry.gangs]
        self._due.update(dict.fromkeys((*sorted(changed), *gone)))
        found: list[Evict] = []
        for key in list(self._due):
            if len(found) >= AT_ONCE:
                break
            del self._due[key]
            found.extend(self._evict(key, AT_ONCE - len(found)))
        return found

    def _evict(self, key: GangKey, most: int) -> list[Evict]:
        gang, way = self._registry.gangs.get(key), self._ways[key]
        wanted = [] if gang is None else way.members(gang)
        if gang is None or not wanted or not self._must(gang, way, wanted):
            self._end(key, way)
            return []
        if not way.begun:
            way.begun = True
            self.on_preempted()
        if not gang.begun:
            self._places.withdraw(gang)
            self._registry.dirty.add(key)
            return []
        found: list[Evict] = []
        for member in wanted:
            if member.bound and member.pod.uid not in way.sent:
                if len(found) == most:
                    self._due[key] = None
                    break
                way.sent.add(member.pod.uid)
                self._way_of[member.pod.uid] = way
                found.append(Evict(member.pod, way.why, again=True))
            elif not member.bound and not member.binding and member.assignment is not None:
                self._places.drop(member)
                self._registry.dirty.add(key)
        return found

    def _must(self, gang: Gang, way: MakingWay, wanted: list[Member]) -> bool:
        """Whether the gang has to go (on)."""
        preempting = self._for_whom.get(way.preemptor)
        if preempting is None:
            return bool(way.sent) and not way.surplus
        if way.sent:
            return True
        if gang.priority < preempting.priority:
            hope = preempting.hope
            nodes = {one.assignment.node for one in wanted if one.assignment is not None}
            if hope is None or any(hope.short(name, self._is_on_its_way) for name in nodes):
                return True
        preempting.spare(gang.key)
        return False

    def _is_on_its_way(self, uid: str) -> bool:
        """Whether a pod goes whatever is decided now."""
        way = self._way_of.get(uid)
        return (way is not None and uid in way.sent) or self._leaving(uid)

    def _end(self, key: GangKey, way: MakingWay) -> None:
        del self._ways[key]
        for uid in way.uids | way.sent:
            self._way_of.pop(uid, None)
        self._registry.dirty.update({key, way.preemptor} & self._registry.gangs.keys())
