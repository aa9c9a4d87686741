"""The preemptions under way: for which preemptors nodes and devices are held, and how victims are evicted.

Invariants: a gang that could not preempt a preemptor is neither placed on its nodes nor given devices of its types. The
reason of a preemptor changes only when a pod is gone or late, or when a problem appears or ends, and never with time
alone. The text of a reason, which Events show, names no object of another namespace.

**Evictions.** A limited number of pods is evicted per step, for as long as their capacity is wanted. Much can change
before the last of thousands of pods is evicted. Invariants: the eviction of a gang begins only if the nodes that are
held for the preemptor, or its quota, still lack room at that moment. The gang's priority must still be lower, or its
queue must still have to give back. Once its eviction has begun, a gang is evicted to its last bound member, unless it
can run without the evicted ones.

Pods that are terminating or being evicted free their capacity without further action, so no other gang has to be
evicted for it. Such pods are *departing*.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import chain

from fluence_extender.gangs.execution.actions import Evict, Requeue
from fluence_extender.gangs.lifecycle.limits import NEVER
from fluence_extender.gangs.lifecycle.places import CoreParts, Places, Requeues
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.preemption.search import Victim, priority_as_victim
from fluence_extender.gangs.queue.guarantees import QuotaRoom
from fluence_extender.gangs.queue.submissions import precedence
from fluence_extender.model.gang import GangKey
from fluence_extender.model.notation import first_few
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.model.resources import Resources
from fluence_extender.model.wording import WithNames
from fluence_extender.queueing.entry import Rank
from fluence_extender.room.holds import HeldNodes, HoldKind
from fluence_extender.room.ledger import Ledger

# Preemptors.

NAMED_GANGS = 4
"""The most victims that a reason names."""


@dataclass(slots=True, kw_only=True)
class PreemptorDemand:
    """What other gangs have to know of a preemptor.

    ``order`` is its precedence. ``priority`` is the lowest priority of its pods that need a place. ``device_types`` are
    the types of devices that it asks for. ``reclaimed`` are its victims by the guarantee of its queue.
    """

    order: Rank
    priority: int
    device_types: frozenset[str] = frozenset()
    reclaimed: frozenset[GangKey] = frozenset()


@dataclass(slots=True, kw_only=True)
class Preemption(PreemptorDemand):
    """The preemption for one gang, the preemptor.

    ``victims`` are its victims, and ``pods`` those of their pods that were bound when it was decided. Disruption
    budgets are ``asked`` first, and the evictions begin once these have ``granted`` them. ``problems`` has by uid the
    pods that couldn't be evicted, and why.

    ``wanted`` is what its pods need on each of the nodes that are held for it, None if more than amounts decides
    whether they fit there. ``allowed`` says whether its quota has room once pods are gone, if the victims are also to
    free quota.
    """

    victims: tuple[Victim, ...] = ()
    pods: dict[str, Pod] = field(default_factory=dict)
    asked: bool = False
    granted: bool = False
    problems: dict[str, tuple[Pod, str]] = field(default_factory=dict)
    wanted: Mapping[str, Resources] | None = None
    allowed: QuotaRoom | None = None

    def copy(self) -> Preemption:
        """Return a copy whose pods and problems stay as they are."""
        return replace(self, pods=dict(self.pods), problems=dict(self.problems))

    @property
    def uids(self) -> frozenset[str]:
        """The pods of the victims."""
        return frozenset().union(*(victim.uids for victim in self.victims))

    def drop_victim(self, gang: GangKey) -> None:
        """Drop a gang from the victims, because its eviction hasn't begun and isn't needed."""
        for uid in frozenset().union(*(victim.uids for victim in self.victims if victim.gang == gang)):
            self.pods.pop(uid, None)
            self.problems.pop(uid, None)
        self.victims = tuple(victim for victim in self.victims if victim.gang != gang)

    def bound_victims(self) -> dict[GangKey, tuple[Pod, ...]]:
        """Return the pods to evict, by their gang."""
        pods_by_gang: dict[GangKey, tuple[Pod, ...]] = {}
        for victim in self.victims:
            pods = tuple(self.pods[uid] for uid in sorted(victim.uids) if uid in self.pods)
            if pods:
                pods_by_gang[victim.gang] = pods_by_gang.get(victim.gang, ()) + pods
        return pods_by_gang

    def reason(self, namespace: str, held: Container[str], late: Collection[str], patience: float) -> Reason:
        """Return why the preemptor, a gang of ``namespace``, waits.

        ``held`` are the uids of pods that hold something, ``late`` those that have been terminating for longer than
        ``patience`` seconds.
        """
        if not self.victims:
            return Reason(ReasonCode.PREEMPTING, "preempting: waits for pods that are being deleted")
        gone = f"{sum(uid not in held for uid in self.pods)} of {len(self.pods)} pods gone"
        victims = {victim.gang for victim in self.victims}
        own = sorted(str(key) for key in victims if key.namespace == namespace)
        text = f"{_with_others(own, len(victims) - len(own))}: {gone}"
        listed = sorted(victims, key=str)
        full = WithNames(
            f"preempting {first_few(list(map(str, listed)), NAMED_GANGS)}: {gone}",
            frozenset(key.namespace for key in listed[:NAMED_GANGS]),
        )
        reason = Reason(ReasonCode.PREEMPTING, f"preempting {text}", with_names=full)
        late_pods = [self.pods[uid] for uid in late if uid in self.pods]
        if late_pods:
            pod, problem = min(late_pods, key=lambda pod: pod.key), f"has not gone within {patience:g} s"
        elif self.problems:
            pod, problem = self.problems[min(self.problems)]
            if pod.namespace == namespace:
                return reason.followed_by(problem)
            # The API server's words may name other objects of that namespace.
            problem = "can't be evicted now"
        else:
            return reason
        shown = pod.key if pod.namespace == namespace else "a pod of another namespace"
        names = WithNames(f"{pod.key} {problem}", frozenset({pod.namespace}))
        return reason.followed_by(f"{shown} {problem}", names)


class Preemptions(dict[GangKey, Preemption]):
    """The preemptions under way, by the gang that each is for; ``holds`` are the nodes that are held for them."""

    def __init__(self, holds: HeldNodes) -> None:
        super().__init__()
        self._holds = holds
        self.askers: Callable[[Gang], frozenset[object]] = lambda _: frozenset()
        """Returns the gangs for which new nodes are held and that a gang is ahead of."""

    def overtaken_by(self, gang: Gang) -> frozenset[object]:
        """Return the preemptors that ``gang`` could preempt itself; nodes held for them are open to it."""
        askers = self.askers(gang)
        return preemptable_by([member.pod for member in gang.alive()], self) | askers if self else askers

    def device_conflict(self, gang: Gang, members: Iterable[Member]) -> Reason | None:
        """Return why ``gang`` may not be tried now: devices that its ``members`` need are held for a preemptor."""
        if not self:
            return None
        device_types = {kind for member in members for kind in member.pod.devices}
        order, overtaken = precedence(gang), self.overtaken_by(gang)

        def is_ahead(key: GangKey) -> bool:
            comes_first = gang.key not in self or self[key].order < order
            return key != gang.key and key not in overtaken and comes_first

        return devices_held_for(device_types, gang.key.namespace, self, is_ahead)

    def behind(self, gang: Gang, reason: Reason) -> Reason:
        """Return ``reason`` extended by the first preemptor for which nodes are held from ``gang``."""
        if reason.code is not ReasonCode.BUSY or not self:
            return reason
        return behind(reason, gang.key, self, self.overtaken_by(gang), self._holds)


def preemptable_by(pods: Sequence[Pod], preemptors: Mapping[GangKey, PreemptorDemand]) -> frozenset[object]:
    """Return those of ``preemptors`` that a gang of these pods could preempt by priority. None of them reclaims."""
    if not pods or not all(pod.preempts for pod in pods):
        return frozenset()
    priority = min(pod.priority for pod in pods)
    return frozenset(
        key
        for key, preemptor in preemptors.items()
        if preemptor.priority < priority and not preemptor.reclaimed
    )


def devices_held_for(
    device_types: Collection[str],
    namespace: str,
    preemptors: Mapping[GangKey, PreemptorDemand],
    is_ahead: Callable[[GangKey], bool],
) -> Reason | None:
    """Return why a gang of ``namespace`` that asks for devices of these types isn't tried.

    The reason names the first preemptor ahead of it that also needs such devices.
    """
    for key, preemptor in sorted(preemptors.items(), key=lambda item: item[1].order):
        shared = sorted(preemptor.device_types.intersection(device_types))
        if shared and is_ahead(key):
            text = f"busy: {', '.join(shared)} held for"
            names = WithNames(f"{text} {named(key, preemptor)}", frozenset({key.namespace}))
            return Reason(ReasonCode.BUSY, f"{text} {named(key, preemptor, namespace)}", with_names=names)
    return None


def behind(
    reason: Reason,
    gang: GangKey,
    preemptors: Mapping[GangKey, PreemptorDemand],
    ignored: Collection[object],
    holds: HeldNodes,
) -> Reason:
    """Return the ``reason`` of ``gang``; a busy one is extended by the first preemptor for which nodes are held."""
    ahead = [
        key
        for key in preemptors
        if key != gang and key not in ignored and holds.nodes(HoldKind.PREEMPTION, key)
    ]
    if reason.code is not ReasonCode.BUSY or not ahead:
        return reason
    first = min(ahead, key=lambda key: preemptors[key].order)
    return reason.followed_by(
        f"behind {named(first, preemptors[first], gang.namespace)}",
        WithNames(f"behind {named(first, preemptors[first])}", frozenset({first.namespace})),
    )


def named(key: GangKey, preemptor: PreemptorDemand, namespace: str = "") -> str:
    """Return how a preemptor is named to users of ``namespace``. If that is "", its own name is used in any case."""
    name = str(key) if namespace in ("", key.namespace) else "a gang of another namespace"
    return f"{name} (priority {preemptor.priority})"


def _with_others(own: Sequence[str], others: int) -> str:
    """Return in words the gangs of the user's ``own`` namespace, and the number of gangs of other namespaces."""
    counted = "a gang of another namespace" if others == 1 else f"{others} gangs of other namespaces"
    listed = [first_few(own, NAMED_GANGS)] if own else []
    return " and ".join([*listed, counted] if others else listed)


def preempting_priority(members: Iterable[Member]) -> int:
    """Return the priority that counts for preempting: the lowest of the members that need a place."""
    return min((member.pod.priority for member in members), default=0)


def may_preempt(members: Iterable[Member]) -> bool:
    """Return whether none of the members has the preemptionPolicy Never."""
    return all(member.pod.preempts for member in members)


# Evictions.

AT_ONCE = 500
"""The most pods that are evicted in one step, so that a step stays short."""


@dataclass(frozen=True, slots=True)
class Departures:
    """The pods that depart at one moment, and why gangs are ``evicted``.

    The pods ``held`` hold something. The pods ``in_time`` are terminating or being evicted. ``late`` are those that
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
        """Return the members that still have to go, by name; none if by now the gang couldn't run without them."""
        holding = [member for member in gang.alive() if member.assignment is not None or member.runs]
        staying = sum(1 for member in holding if member.runs and member.pod.uid not in self.uids)
        if self.surplus and staying + gang.ended < gang.size:
            return []
        going = (member for member in holding if not self.surplus or member.pod.uid in self.uids)
        return sorted(going, key=lambda member: member.pod.name)


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
        """Whether the last step has left evictions to do."""
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
        """Note that the preemptor has stopped waiting, so gangs may stay if their eviction hasn't begun."""
        self._to_look_at.update(
            (key, None) for key, eviction in self._by_gang.items() if eviction.preemptor == preemptor
        )

    def retry(self, key: GangKey, uid: str) -> GangKey | None:
        """Try a failed eviction of a pod again; return the preemptor, None if the eviction isn't wanted now."""
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
        actions: list[Evict | Requeue] = []
        if not self._to_look_at:
            return actions
        departing = set(self._present_terminating()).union(
            *(eviction.sent for eviction in self._by_gang.values())
        )
        for key in list(self._to_look_at):
            if len(actions) >= AT_ONCE:
                break
            del self._to_look_at[key]
            actions.extend(self._evict(key, AT_ONCE - len(actions), departing))
            if key in self._by_gang:
                departing |= self._by_gang[key].sent
        return actions

    def _evict(self, key: GangKey, most: int, departing: Set[str]) -> Sequence[Evict | Requeue]:
        """Evict up to ``most`` pods of a gang. The pods ``departing`` depart whatever is decided now."""
        gang, eviction = self._registry.gangs.get(key), self._by_gang[key]
        remaining = [] if gang is None else eviction.remaining(gang)
        if gang is None or not remaining or not self._is_wanted(gang, eviction, remaining, departing):
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
        actions: list[Evict | Requeue] = []
        if requeue is not None:
            actions.extend(_suspensions(requeue, eviction))
        for member in remaining:
            if requeue is None and member.runs and member.pod.uid not in eviction.sent:
                if len(actions) == most:
                    self._to_look_at[key] = None
                    break
                eviction.sent.add(member.pod.uid)
                actions.append(Evict(member.pod, eviction.why.text, True, eviction.why.with_names))
            elif member.movable:
                self._places.drop(gang, member.pod.uid)
                self._registry.dirty.add(key)
        return actions

    def _requeue(self, gang: Gang, eviction: GangEviction) -> Requeue | None:
        bound = [member.pod for member in gang.alive() if member.bound]
        return self._requeues.requeue(gang, bound, eviction.why.text, eviction.why.with_names, True)

    def _is_wanted(
        self, gang: Gang, eviction: GangEviction, remaining: Sequence[Member], departing: Set[str]
    ) -> bool:
        """Return whether the eviction of a gang has to begin or go on; if not, drop the gang from the victims."""
        preemption = self._preemptions.get(eviction.preemptor)
        if preemption is None:
            return bool(eviction.sent) and not eviction.surplus
        if eviction.sent:
            return True
        if gang.key in preemption.reclaimed or priority_as_victim(gang) < preemption.priority:
            nodes = {member.assignment.node for member in remaining if member.assignment is not None}
            if lacks_room(self._core.ledger, eviction.preemptor, preemption, nodes, departing):
                return True
            if preemption.allowed is not None and not preemption.allowed(departing):
                return True
        preemption.drop_victim(gang.key)
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
    """Yield the suspension of the Jobs for which none was sent, and of those that were resumed since."""
    jobs = tuple(job for job in requeue.jobs if eviction.suspended.get(job.uid) != job.version)
    eviction.sent.update(pod.uid for pod in requeue.pods)
    if jobs:
        eviction.suspended.update((job.uid, job.version) for job in jobs)
        yield replace(requeue, jobs=jobs)
