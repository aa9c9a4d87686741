"""Evicting victims, a limited number of pods per step, for as long as their capacity is wanted.

Much can change before the last of thousands of pods is evicted. Invariants: the eviction of a gang begins only if the
nodes of the preemptor's projection, or its quota, still lack room at that moment. The gang's priority must still be
lower, or its queue must still have to give back. Once its eviction has begun, a gang is evicted to its last bound
member, unless it can run without the evicted ones.

Pods that are terminating or being evicted free their capacity without further action, so no other gang has to be
evicted for it. Such pods are *departing*.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import chain, takewhile

from fluence_extender.gangs.execution.actions import Evict, Requeue
from fluence_extender.gangs.lifecycle.limits import NEVER, Limits
from fluence_extender.gangs.lifecycle.member_states import BOUND, MOVABLE
from fluence_extender.gangs.lifecycle.places import Places
from fluence_extender.gangs.lifecycle.requeues import Requeues
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.registry import Registry
from fluence_extender.gangs.preemption.preemptions import Preemption, Preemptions
from fluence_extender.gangs.preemption.victims import priority_as_victim
from fluence_extender.model.gang import GangKey
from fluence_extender.model.reason import Reason

AT_ONCE = 500
"""The most pods that are evicted in one step, so that a step stays short."""


class TerminatingPods:
    """Bound pods that are being deleted, by uid, each with the time when that was first seen.

    ``held`` are the uids of pods that hold something. A pod that takes longer than ``patience`` seconds is late.
    """

    def __init__(self, held: Container[str], patience: float, clock: Callable[[], float]) -> None:
        self._held = held
        self._patience = patience
        self._clock = clock
        self._since: dict[str, float] = {}

    def copy(self, held: Container[str]) -> TerminatingPods:
        """Return an independent copy for other pods that hold something."""
        copied = TerminatingPods(held, self._patience, self._clock)
        copied._since = dict(self._since)
        return copied

    def __contains__(self, uid: str) -> bool:
        return uid in self._since

    def add(self, uid: str) -> None:
        """Note that a bound pod is being deleted."""
        self._since.setdefault(uid, self._clock())

    def uids(self) -> Collection[str]:
        """Return the pods that are still terminating, and forget those that are gone."""
        self._since = {uid: since for uid, since in self._since.items() if uid in self._held}
        return self._since.keys()

    def in_time(self, uid: str, now: float) -> bool:
        """Return whether a terminating pod is not late yet."""
        return self._since[uid] > now - self._patience

    def late(self, now: float) -> list[str]:
        """Return the pods that are late."""
        # They are in the order in which they were added.
        last = now - self._patience
        return [uid for uid, _ in takewhile(lambda item: item[1] <= last, self._since.items())]

    def next_late(self, uids: Iterable[str], now: float) -> float:
        """Return when the next of ``uids`` will be late."""
        ends = (self._since[uid] + self._patience for uid in uids if uid in self._since)
        return min((end for end in ends if end > now), default=NEVER)


@dataclass(slots=True)
class GangEviction:
    """The eviction of one gang; ``why`` is the reason for its users.

    ``surplus`` means that only the pods ``uids`` go and the gang runs on; otherwise all of its members go, including
    those that joined later. ``counted`` means that ``on_preempted`` was called for it. ``sent`` are the pods for which
    an eviction was sent. ``refused_since`` says by uid since when the eviction of a pod has failed. ``suspended`` has
    by uid the Jobs whose suspension was sent, each with its version at that time.
    """

    why: Reason
    preemptor: GangKey
    surplus: bool
    uids: frozenset[str] = frozenset()
    sent: set[str] = field(default_factory=set)
    counted: bool = False
    refused_since: dict[str, float] = field(default_factory=dict)
    suspended: dict[str, str] = field(default_factory=dict)

    def copy(self) -> GangEviction:
        """Return an independent copy."""
        return replace(self, sent=set(self.sent), refused_since=dict(self.refused_since))

    def remaining(self, gang: Gang) -> list[Member]:
        """Return the members that still have to go, by name; none if the gang can no longer run without them."""
        holding = [one for one in gang.alive() if one.assignment is not None or one.state is BOUND]
        staying = sum(1 for one in holding if one.state is BOUND and one.pod.uid not in self.uids)
        if self.surplus and staying + gang.ended < gang.size:
            return []
        found = (one for one in holding if not self.surplus or one.pod.uid in self.uids)
        return sorted(found, key=lambda one: one.pod.name)


class Evictions:
    """The gangs that are being evicted for preemptors, and the pods that depart.

    ``held`` are the uids of pods that hold something. ``on_preempted`` is called when the eviction of a gang begins.
    """

    def __init__(
        self,
        registry: Registry,
        places: Places,
        limits: Limits,
        preemptions: Preemptions,
        requeues: Requeues,
        terminating: TerminatingPods,
        held: Container[str],
        on_preempted: Callable[[], None],
    ) -> None:
        self._registry = registry
        self._requeues = requeues
        self._places = places
        self._limits = limits
        self._preemptions = preemptions
        self.terminating = terminating
        self._held = held
        self._on_preempted = on_preempted
        self._by_gang: dict[GangKey, GangEviction] = {}
        self._by_pod: dict[str, GangEviction] = {}
        self._to_look_at: dict[GangKey, None] = {}

    def copy(self, preemptions: Preemptions, held: Container[str]) -> Evictions:
        """Return a copy for a pass with copies of ``preemptions``, in whose room the pods ``held`` hold something."""
        copied = copy(self)
        copied._preemptions = preemptions
        copied._held, copied.terminating = held, self.terminating.copy(held)
        copied._by_gang = {key: one.copy() for key, one in self._by_gang.items()}
        copies = {id(one): copied._by_gang[key] for key, one in self._by_gang.items()}
        copied._by_pod = {uid: copies[id(one)] for uid, one in self._by_pod.items() if id(one) in copies}
        return copied

    @property
    def unfinished(self) -> bool:
        """Return whether the last step left evictions to do."""
        return bool(self._to_look_at)

    @property
    def idle(self) -> bool:
        """Return whether no gang is being evicted."""
        return not self._by_gang

    @property
    def gangs(self) -> frozenset[GangKey]:
        """Return the gangs that are being evicted."""
        return frozenset(self._by_gang)

    def __contains__(self, key: GangKey) -> bool:
        return key in self._by_gang

    def of_gang(self, key: GangKey) -> GangEviction | None:
        """Return the eviction of the gang, None if there is none."""
        return self._by_gang.get(key)

    def request(
        self, key: GangKey, preemptor: GangKey, why: Reason, uids: frozenset[str], surplus: bool
    ) -> None:
        """Evict these pods of a gang, which are its ``surplus`` members or all of it."""
        eviction = self._by_gang.setdefault(key, GangEviction(why, preemptor, surplus))
        eviction.surplus = eviction.surplus and surplus
        eviction.uids |= uids
        self._by_pod.update(dict.fromkeys(uids, eviction))
        self._to_look_at[key] = None

    def clear(self) -> None:
        """Stop all evictions."""
        self._by_gang.clear()
        self._by_pod.clear()
        self._to_look_at.clear()

    def reconsider(self, preemptor: GangKey) -> None:
        """Note that the preemptor no longer waits: gangs may stay if their eviction has not begun."""
        self._to_look_at.update(
            (key, None) for key, one in self._by_gang.items() if one.preemptor == preemptor
        )

    def retry(self, uid: str, now: float) -> GangEviction | None:
        """Try a failed eviction of a pod again; return the eviction of its gang, None if that is no longer wanted."""
        found = self._registry.member(uid)
        eviction = self._by_gang.get(found[0].key) if found is not None else None
        if found is None or eviction is None:
            return None
        eviction.sent.discard(uid)
        eviction.suspended.clear()
        eviction.refused_since.setdefault(uid, now)
        self._to_look_at[found[0].key] = None
        return eviction

    def accepted(self, uid: str) -> None:
        """Note that the eviction of a pod was accepted."""
        eviction = self._by_pod.get(uid)
        if eviction is not None:
            eviction.refused_since.pop(uid, None)

    # Departing pods. ``preemption`` is that of the gang in question, None if it has none.

    def departs(self, uid: str, preemption: Preemption | None, now: float, patient: bool = False) -> bool:
        """Return whether a pod departs; with ``patient``, late pods count too."""
        if uid in self.terminating:
            return patient or self.terminating.in_time(uid, now)
        return uid in _not_granted(preemption) or self._will_be_evicted(uid, now)

    def departing(self, preemption: Preemption | None, now: float, patient: bool = False) -> frozenset[str]:
        """Return the uids of all pods that depart."""
        terminating = self.terminating.uids()
        evicted = chain.from_iterable(one.uids for one in self._by_gang.values())
        uids = set(filter(self._held.__contains__, chain(terminating, _not_granted(preemption), evicted)))
        # There may be thousands. Only terminating pods and refused evictions need the check; the rest always count.
        refused = chain.from_iterable(one.refused_since for one in self._by_gang.values())
        uids.difference_update(
            uid for uid in chain(terminating, refused) if not self.departs(uid, preemption, now, patient)
        )
        return frozenset(uids)

    def _will_be_evicted(self, uid: str, now: float) -> bool:
        """Return whether a pod is being evicted, and its eviction has not been refused for too long."""
        eviction = self._by_pod.get(uid)
        if eviction is None or uid not in eviction.uids:
            return False
        return now - eviction.refused_since.get(uid, now) < self._limits.barred_for

    # Evicting.

    def actions(self, looked_at: Collection[GangKey]) -> list[Evict | Requeue]:
        """Return the evictions to send now; ``looked_at`` are the gangs that may have changed."""
        changed = [key for key in looked_at if key in self._by_gang]
        gone = [key for key in self._by_gang if key not in self._registry.gangs]
        self._to_look_at.update(dict.fromkeys((*sorted(changed), *gone)))
        found: list[Evict | Requeue] = []
        for key in list(self._to_look_at):
            if len(found) >= AT_ONCE:
                break
            del self._to_look_at[key]
            found.extend(self._evict(key, AT_ONCE - len(found)))
        return found

    def _evict(self, key: GangKey, most: int) -> Sequence[Evict | Requeue]:
        gang, eviction = self._registry.gangs.get(key), self._by_gang[key]
        remaining = [] if gang is None else eviction.remaining(gang)
        if gang is None or not remaining or not self._still_wanted(gang, eviction, remaining):
            self._end(key, eviction)
            return []
        if not eviction.counted:
            eviction.counted = True
            gang.history.preempt()
            self._on_preempted()
        if not gang.has_nodes:
            self._places.withdraw(gang)
            self._registry.dirty.add(key)
            return []
        requeue = None if eviction.surplus else self._requeue(gang, eviction)
        found: list[Evict | Requeue] = []
        if requeue is not None:
            found.extend(self._suspensions(requeue, eviction))
        for member in remaining:
            if requeue is None and member.state is BOUND and member.pod.uid not in eviction.sent:
                if len(found) == most:
                    self._to_look_at[key] = None
                    break
                eviction.sent.add(member.pod.uid)
                self._by_pod[member.pod.uid] = eviction
                found.append(Evict(member.pod, eviction.why.text, True, eviction.why.with_names))
            elif member.state in MOVABLE:
                self._places.drop(gang, member)
                self._registry.dirty.add(key)
        return found

    def _requeue(self, gang: Gang, eviction: GangEviction) -> Requeue | None:
        bound = [member.pod for member in gang.alive() if member.state is BOUND]
        return self._requeues.requeue(gang, bound, eviction.why.text, eviction.why.with_names, True)

    def _suspensions(self, requeue: Requeue, eviction: GangEviction) -> Iterable[Requeue]:
        """Yield the suspension of those Jobs for which none was sent, or that were resumed since."""
        jobs = tuple(job for job in requeue.jobs if eviction.suspended.get(job.uid) != job.version)
        for pod in requeue.pods:
            eviction.sent.add(pod.uid)
            self._by_pod[pod.uid] = eviction
        if jobs:
            eviction.suspended.update((job.uid, job.version) for job in jobs)
            yield replace(requeue, jobs=jobs)

    def _still_wanted(self, gang: Gang, eviction: GangEviction, remaining: list[Member]) -> bool:
        """Return whether the eviction of the gang has to begin, or to go on. A gang that may stay is spared."""
        preemption = self._preemptions.get(eviction.preemptor)
        if preemption is None:
            return bool(eviction.sent) and not eviction.surplus
        if eviction.sent:
            return True
        if gang.key in preemption.owed or priority_as_victim(gang) < preemption.priority:
            projection = preemption.projection
            nodes = {one.assignment.node for one in remaining if one.assignment is not None}
            if projection is None or any(projection.short(name, self._surely_departs) for name in nodes):
                return True
            if preemption.allowed is not None and not preemption.allowed(self._sure()):
                return True
        preemption.spare(gang.key)
        return False

    def _sure(self) -> set[str]:
        """Return the pods that depart regardless of what is decided now."""
        return set(self.terminating.uids()).union(*(one.sent for one in self._by_gang.values()))

    def _surely_departs(self, uid: str) -> bool:
        """Return whether a pod departs regardless of what is decided now."""
        eviction = self._by_pod.get(uid)
        return (eviction is not None and uid in eviction.sent) or uid in self.terminating

    def _end(self, key: GangKey, eviction: GangEviction) -> None:
        del self._by_gang[key]
        for uid in eviction.uids | eviction.sent:
            self._by_pod.pop(uid, None)
        self._registry.dirty.update({key, eviction.preemptor} & self._registry.gangs.keys())


def _not_granted(preemption: Preemption | None) -> frozenset[str]:
    """Return the victims' pods as long as the budgets haven't allowed their evictions."""
    return frozenset() if preemption is None or preemption.granted else preemption.uids
