"""Evicting victims, a limited number of pods per step, for as long as their capacity is wanted.

Much can change before the last of thousands of pods is evicted. Invariants: the eviction of a gang begins only if the
nodes that are held for the preemptor, or its quota, still lack room at that moment. The gang's priority must still be
lower, or its queue must still have to give back. Once its eviction has begun, a gang is evicted to its last bound
member, unless it can run without the evicted ones.

Pods that are terminating or being evicted free their capacity without further action, so no other gang has to be
evicted for it. Such pods are *departing*.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import chain

from fluence_extender.gangs.execution.actions import Evict, Requeue
from fluence_extender.gangs.lifecycle.core_parts import CoreParts
from fluence_extender.gangs.lifecycle.limits import NEVER
from fluence_extender.gangs.lifecycle.places import Places
from fluence_extender.gangs.lifecycle.requeues import Requeues
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.preemption.preemptions import Preemption, Preemptions
from fluence_extender.gangs.preemption.victims import priority_as_victim
from fluence_extender.model.gang import GangKey
from fluence_extender.model.reason import Reason
from fluence_extender.model.resources import Resources
from fluence_extender.room.ledger import Ledger

AT_ONCE = 500
"""The most pods that are evicted in one step, so that a step stays short."""


@dataclass(frozen=True, slots=True)
class Departures:
    """The pods that depart at one moment, and why gangs are ``evicted``.

    The pods ``held`` hold something. Those ``in_time`` are terminating or being evicted. ``late`` are the pods that
    have been terminating for too long, in the order in which that began. ``late_at`` says by uid when a terminating pod
    will be late.
    """

    held: Container[str]
    in_time: frozenset[str]
    late: tuple[str, ...]
    late_at: Mapping[str, float]
    evicted: Mapping[GangKey, Reason]

    def pods(self, preemption: Preemption | None = None, patient: bool = False) -> frozenset[str]:
        """Return the pods that depart; late ones count only with ``patient``.

        The victims of ``preemption`` count, too, before their eviction is allowed.
        """
        uids = set(self.in_time)
        if preemption is not None and not preemption.granted:
            uids.update(uid for uid in preemption.uids if uid in self.held)
        return frozenset(uids.union(self.late) if patient else uids.difference(self.late))

    def next_late(self, uids: Iterable[str], now: float) -> float:
        """Return when the next of ``uids`` will be late."""
        ends = (self.late_at[uid] for uid in uids if uid in self.late_at)
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

    def remaining(self, gang: Gang) -> list[Member]:
        """Return the members that still have to go, by name; none if the gang couldn't run without them any more."""
        holding = [one for one in gang.alive() if one.assignment is not None or one.runs]
        staying = sum(1 for one in holding if one.runs and one.pod.uid not in self.uids)
        if self.surplus and staying + gang.ended < gang.size:
            return []
        going = (one for one in holding if not self.surplus or one.pod.uid in self.uids)
        return sorted(going, key=lambda one: one.pod.name)


class Evictions:
    """The gangs that are being evicted for preemptors, and the pods that depart.

    ``on_preempted`` is called when the eviction of a gang begins.
    """

    def __init__(
        self,
        core: CoreParts,
        places: Places,
        preemptions: Preemptions,
        requeues: Requeues,
        on_preempted: Callable[[], None],
    ) -> None:
        self._core = core
        self._registry = core.registry
        self._places = places
        self._preemptions = preemptions
        self._requeues = requeues
        self._on_preempted = on_preempted
        self._by_gang: dict[GangKey, GangEviction] = {}
        self._terminating: dict[str, float] = {}
        """Bound pods that are being deleted, by uid, each with the time when that was first seen."""
        self._to_look_at: dict[GangKey, None] = {}

    @property
    def unfinished(self) -> bool:
        """Return whether the last step left evictions to do."""
        return bool(self._to_look_at)

    def terminating(self, uid: str) -> None:
        """Note that a bound pod is being deleted."""
        self._terminating.setdefault(uid, self._core.clock())

    def departures(self, held: Container[str]) -> Departures:
        """Return which of the pods ``held`` depart."""
        now, limits = self._core.clock(), self._core.limits
        late_at = {uid: since + limits.leaving for uid, since in self._present_terminating().items()}
        late = tuple(uid for uid, end in late_at.items() if end <= now)
        going = {uid for uid, end in late_at.items() if end > now}
        for eviction in self._by_gang.values():
            since = eviction.refused_since
            going.update(uid for uid in eviction.uids if now - since.get(uid, now) < limits.excluded_for)
        in_time = frozenset(filter(held.__contains__, going.difference(late)))
        why = {key: eviction.why for key, eviction in self._by_gang.items()}
        return Departures(held, in_time, late, late_at, why)

    def _present_terminating(self) -> Mapping[str, float]:
        """Return the terminating pods with the time when that was first seen, and forget those that are gone."""
        held = self._core.ledger.holdings
        self._terminating = {uid: since for uid, since in self._terminating.items() if uid in held}
        return self._terminating

    def request(
        self, key: GangKey, preemptor: GangKey, why: Reason, uids: frozenset[str], surplus: bool
    ) -> None:
        """Evict these pods of a gang, which are its ``surplus`` members or all of it."""
        eviction = self._by_gang.setdefault(key, GangEviction(why, preemptor, surplus))
        eviction.surplus = eviction.surplus and surplus
        eviction.uids |= uids
        self._to_look_at[key] = None

    def clear(self) -> None:
        """Stop all evictions."""
        self._by_gang.clear()
        self._to_look_at.clear()

    def reconsider(self, preemptor: GangKey) -> None:
        """Note that the preemptor doesn't wait any more: gangs may stay if their eviction has not begun."""
        self._to_look_at.update(
            (key, None) for key, one in self._by_gang.items() if one.preemptor == preemptor
        )

    def retry(self, key: GangKey, uid: str) -> GangKey | None:
        """Try a failed eviction of a pod again; return the preemptor, None if the eviction isn't wanted any more."""
        eviction = self._by_gang.get(key)
        if eviction is None:
            return None
        eviction.sent.discard(uid)
        eviction.suspended.clear()
        eviction.refused_since.setdefault(uid, self._core.clock())
        self._to_look_at[key] = None
        return eviction.preemptor

    def accepted(self, uid: str) -> None:
        """Note that the eviction of a pod was accepted."""
        for eviction in self._by_gang.values():
            eviction.refused_since.pop(uid, None)

    # Evicting.

    def actions(self, looked_at: Collection[GangKey]) -> list[Evict | Requeue]:
        """Return the evictions to send now; ``looked_at`` are the gangs that may have changed."""
        changed = [key for key in looked_at if key in self._by_gang]
        gone = [key for key in self._by_gang if key not in self._registry.gangs]
        self._to_look_at.update(dict.fromkeys((*sorted(changed), *gone)))
        found: list[Evict | Requeue] = []
        if not self._to_look_at:
            return found
        sure = set(self._present_terminating()).union(*(one.sent for one in self._by_gang.values()))
        for key in list(self._to_look_at):
            if len(found) >= AT_ONCE:
                break
            del self._to_look_at[key]
            found.extend(self._evict(key, AT_ONCE - len(found), sure))
            if key in self._by_gang:
                sure |= self._by_gang[key].sent
        return found

    def _evict(self, key: GangKey, most: int, sure: Set[str]) -> Sequence[Evict | Requeue]:
        """Evict up to ``most`` pods of a gang. The pods ``sure`` depart regardless of what is decided now."""
        gang, eviction = self._registry.gangs.get(key), self._by_gang[key]
        remaining = [] if gang is None else eviction.remaining(gang)
        if gang is None or not remaining or not self._is_wanted(gang, eviction, remaining, sure):
            del self._by_gang[key]
            self._registry.dirty.update({key, eviction.preemptor} & self._registry.gangs.keys())
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
            found.extend(_suspensions(requeue, eviction))
        for member in remaining:
            if requeue is None and member.runs and member.pod.uid not in eviction.sent:
                if len(found) == most:
                    self._to_look_at[key] = None
                    break
                eviction.sent.add(member.pod.uid)
                found.append(Evict(member.pod, eviction.why.text, True, eviction.why.with_names))
            elif member.movable:
                self._places.drop(gang, member.pod.uid)
                self._registry.dirty.add(key)
        return found

    def _requeue(self, gang: Gang, eviction: GangEviction) -> Requeue | None:
        bound = [member.pod for member in gang.alive() if member.bound]
        return self._requeues.requeue(gang, bound, eviction.why.text, eviction.why.with_names, True)

    def _is_wanted(
        self, gang: Gang, eviction: GangEviction, remaining: Sequence[Member], sure: Set[str]
    ) -> bool:
        """Return whether the eviction of a gang has to begin or to go on. A gang that may stay is no victim then."""
        preemption = self._preemptions.get(eviction.preemptor)
        if preemption is None:
            return bool(eviction.sent) and not eviction.surplus
        if eviction.sent:
            return True
        if gang.key in preemption.reclaimed or priority_as_victim(gang) < preemption.priority:
            nodes = {one.assignment.node for one in remaining if one.assignment is not None}
            if lacks_room(self._core.ledger, eviction.preemptor, preemption, nodes, sure):
                return True
            if preemption.allowed is not None and not preemption.allowed(sure):
                return True
        preemption.let_stay(gang.key)
        return False


def lacks_room(
    ledger: Ledger, preemptor: GangKey, preemption: Preemption, nodes: Set[str], gone: Set[str]
) -> bool:
    """Return whether one of these nodes lacks room for the preemptor even once the pods ``gone`` are gone."""
    if preemption.wanted is None:
        return True
    for name in nodes & preemption.wanted.keys():
        account = ledger.accounts.get(name)
        if account is None or not gone >= {*ledger.gang_nodes.of_others(account.users, preemptor)}:
            return True
        freed = (use for uid, use in account.users.items() if uid in gone)
        if not preemption.wanted[name].fits(Resources.total(chain((account.free,), freed))):
            return True
    return False


def _suspensions(requeue: Requeue, eviction: GangEviction) -> Iterable[Requeue]:
    """Yield the suspension of those Jobs for which none was sent, or that were resumed since."""
    jobs = tuple(job for job in requeue.jobs if eviction.suspended.get(job.uid) != job.version)
    eviction.sent.update(pod.uid for pod in requeue.pods)
    if jobs:
        eviction.suspended.update((job.uid, job.version) for job in jobs)
        yield replace(requeue, jobs=jobs)
