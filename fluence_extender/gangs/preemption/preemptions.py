"""The preemptions that are under way, and their precedence: for which preemptors nodes and devices are held.

Invariants: a gang that could not preempt a preemptor is neither placed on its nodes nor given devices of its types. The
reason of a preemptor changes only when a pod is gone or late, or when a problem appears or ends, and never with time
alone. The text of a reason, which Events show, names no object of another namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.preemption.victims import Victim
from fluence_extender.gangs.queue.reclaims import QuotaRoom
from fluence_extender.gangs.queue.turns import precedence
from fluence_extender.model.gang import GangKey
from fluence_extender.model.notation import first_few
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.model.resources import Resources
from fluence_extender.model.wording import WithNames
from fluence_extender.queueing.order import Rank
from fluence_extender.room.holds import HeldNodes, HoldKind

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
    budgets are ``asked`` first, and the evictions begin once they have ``granted`` them. By uid, ``problems`` has the
    pods that could not be evicted and why.

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

    def let_stay(self, gang: GangKey) -> None:
        """Drop a gang from the victims, because its eviction has not begun and isn't needed."""
        for uid in frozenset().union(*(victim.uids for victim in self.victims if victim.gang == gang)):
            self.pods.pop(uid, None)
            self.problems.pop(uid, None)
        self.victims = tuple(victim for victim in self.victims if victim.gang != gang)

    def bound_victims(self) -> dict[GangKey, tuple[Pod, ...]]:
        """Return the pods to evict, by their gang."""
        found: dict[GangKey, tuple[Pod, ...]] = {}
        for victim in self.victims:
            pods = tuple(self.pods[uid] for uid in sorted(victim.uids) if uid in self.pods)
            if pods:
                found[victim.gang] = found.get(victim.gang, ()) + pods
        return found

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
        self.keepers: Callable[[Gang], frozenset[object]] = lambda _: frozenset()
        """Returns the gangs for which new nodes are held and that a gang is ahead of."""

    def passes(self, gang: Gang) -> frozenset[object]:
        """Return the preemptors that ``gang`` could preempt itself; nodes held for them are open to it."""
        passed = self.keepers(gang)
        return preemptable_by([one.pod for one in gang.alive()], self) | passed if self else passed

    def device_conflict(self, gang: Gang, members: Iterable[Member]) -> Reason | None:
        """Return why ``gang`` may not be tried now: devices that its ``members`` need are held for a preemptor."""
        if not self:
            return None
        device_types = {kind for member in members for kind in member.pod.devices}
        order, passed = precedence(gang), self.passes(gang)

        def is_ahead(key: GangKey) -> bool:
            first = gang.key not in self or self[key].order < order
            return key != gang.key and key not in passed and first

        return devices_held_for(device_types, gang.key.namespace, self, is_ahead)

    def behind(self, gang: Gang, reason: Reason) -> Reason:
        """Return ``reason`` extended by the first preemptor for which nodes are held from ``gang``."""
        if reason.code is not ReasonCode.BUSY or not self:
            return reason
        return behind(reason, gang.key, self, self.passes(gang), self._holds)


def preemptable_by(pods: Sequence[Pod], preemptors: Mapping[GangKey, PreemptorDemand]) -> frozenset[object]:
    """Return those of ``preemptors`` that a gang of these pods could preempt by priority; none that takes back."""
    if not pods or not all(pod.preempts for pod in pods):
        return frozenset()
    priority = min(pod.priority for pod in pods)
    return frozenset(key for key, one in preemptors.items() if one.priority < priority and not one.reclaimed)


def devices_held_for(
    device_types: Collection[str],
    namespace: str,
    preemptors: Mapping[GangKey, PreemptorDemand],
    is_ahead: Callable[[GangKey], bool],
) -> Reason | None:
    """Return why a gang of ``namespace`` that asks for devices of these types isn't tried.

    The reason names the first preemptor ahead of it that also needs such devices.
    """
    for key, one in sorted(preemptors.items(), key=lambda item: item[1].order):
        shared = sorted(one.device_types.intersection(device_types))
        if shared and is_ahead(key):
            text = f"busy: {', '.join(shared)} held for"
            names = WithNames(f"{text} {named(key, one)}", frozenset({key.namespace}))
            return Reason(ReasonCode.BUSY, f"{text} {named(key, one, namespace)}", with_names=names)
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
    """Return how a preemptor is named to users of ``namespace``. If that is "", use its name in any case."""
    name = str(key) if namespace in ("", key.namespace) else "a gang of another namespace"
    return f"{name} (priority {preemptor.priority})"


def _with_others(own: Sequence[str], others: int) -> str:
    """Return a list in words: the gangs of the user's ``own`` namespace, and the number of gangs of others."""
    counted = "a gang of another namespace" if others == 1 else f"{others} gangs of other namespaces"
    listed = [first_few(own, NAMED_GANGS)] if own else []
    return " and ".join([*listed, counted] if others else listed)


def preempting_priority(members: Iterable[Member]) -> int:
    """Return the priority that counts for preempting: the lowest of the members that need a place."""
    return min((member.pod.priority for member in members), default=0)


def may_preempt(members: Iterable[Member]) -> bool:
    """Return whether none of the members has the preemptionPolicy Never."""
    return all(member.pod.preempts for member in members)
