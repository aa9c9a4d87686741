"""What the members of gangs demand of a planner: their pods, the nodes that they may not use, and their topology.

A demand is made in the state of one moment: that of the ledger, or that of a pass.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.workloads import WorkloadIndex, owner_topology
from fluence_extender.model.gang import GangKey
from fluence_extender.model.pod import Pod, PodTerm
from fluence_extender.model.reason import Reason
from fluence_extender.placement.demand import Demand, SettledMember
from fluence_extender.placement.eligibility import signature
from fluence_extender.placement.topology_constraints import topology_constraints
from fluence_extender.room.holds import HeldNodes, HoldKind
from fluence_extender.room.kept_apart import NO_NODES, KeptApart

DemandKey = frozenset[tuple[object, int]]


@dataclass(slots=True, eq=False)
class Demanded:
    """The demand of members, as its ``key``, and the ``priority`` with which they could preempt.

    Members with equal demands get equal answers. Equal demands are one object (`PassMemory.same`). ``group`` are pods
    with this demand if a count tells how many of them have room, because only amounts decide; else it is empty.
    ``counted`` is the last reason that a count gave, after all that the reason depends on.
    """

    key: Hashable
    priority: float
    group: list[Pod]
    counted: tuple[object, Reason | None] = None, None


class Demands:
    """Makes the demands of members of ``gangs``.

    ``held`` are the nodes that are held for gangs, and ``kept_apart`` has the rules of placed pods. ``overtaken_by``
    returns the gangs that hold nodes and that a gang is ahead of; nodes that are held for them are open to it.
    """

    def __init__(
        self,
        workloads: WorkloadIndex,
        gangs: Mapping[GangKey, Gang],
        held: HeldNodes,
        kept_apart: KeptApart,
        overtaken_by: Callable[[Gang], frozenset[object]],
    ) -> None:
        self._workloads = workloads
        self._gangs = gangs
        self._held = held
        self._kept_apart = kept_apart
        self.overtaken_by = overtaken_by
        self._awaited: tuple[int, dict[frozenset[object], AwaitedPlaces]] = -1, {}

    def of(
        self, gang: Gang, members: Sequence[Member], now: float, avoided: frozenset[str] = frozenset()
    ) -> list[Demand]:
        """Return the demands of ``members``, which use no nodes that are ``avoided``."""
        awaited = self._awaited_places(gang)
        return [
            Demand(member.pod, _excluded_nodes(member, now, awaited) | avoided, *self.topology(member.pod))
            for member in members
        ]

    def settled(self, gang: Gang) -> list[SettledMember]:
        """Return the members that have a place already."""
        return [
            SettledMember(Demand(member.pod, frozenset(), *self.topology(member.pod)), member.assignment.node)
            for member in gang.alive()
            if member.assignment is not None
        ]

    def key(self, gang: Gang, members: Iterable[Member], now: float) -> DemandKey:
        """Return a key for the demand of ``members``. Demands with equal keys either all fit or all don't."""
        # Under a node-exclusive policy a gang may use the nodes that it has already, and no other gang may.
        members = list(members)
        awaited = self._awaited_places(gang)
        ruled = any(member.pod.ruled for member in members)
        own = gang.key if any(member.assignment is not None for member in gang.members.values()) else None
        counts: dict[object, int] = {}
        for member in members:
            pod = member.pod
            alike = (
                pod.requests,
                signature(pod),
                pod.claims,
                tuple(sorted(pod.devices.items())) if pod.devices else (),
                tuple(pod.requires.items()) if pod.devices else (),
                pod.host_ports,
                _by_rules(pod) if ruled else None,
                _excluded_nodes(member, now, awaited) | self._kept_apart.nodes(pod),
                topology_constraints(pod, *self.topology(pod)),
                own,
            )
            counts[alike] = counts.get(alike, 0) + 1
        return frozenset(counts.items())

    def topology(self, pod: Pod) -> tuple[tuple[str, ...], int]:
        """Return what the pod's owners require of its gang's placement."""
        return owner_topology(self._workloads, pod)

    def _awaited_places(self, gang: Gang) -> AwaitedPlaces | None:
        """Return the places that are held for preemptors which the gang can't preempt, None if there are none."""
        holders = self._held.holders(HoldKind.PREEMPTION)
        others = frozenset(holders - {gang.key} - self.overtaken_by(gang)) if holders else frozenset()
        if not others:
            return None
        if self._awaited[0] != self._held.revision:
            self._awaited = self._held.revision, {}
        by_holders = self._awaited[1]
        if others not in by_holders:
            waiting = (
                (member.pod, member.held_node)
                for key, preemptor in self._gangs.items()
                if key in others
                for member in preemptor.members.values()
                if member.held_node
            )
            by_holders[others] = AwaitedPlaces(self._kept_apart, waiting)
        return by_holders[others]


class AwaitedPlaces:
    """The places for which the pods ``waiting`` of preemptors wait, each with its node.

    The nodes are held. But required anti-affinity may reach beyond a node: a pod that is placed elsewhere in the zone
    may keep a preemptor from its nodes, and would have to be evicted, too. If it came back each time, the preemptor
    would evict it again and again.
    """

    def __init__(self, kept_apart: KeptApart, waiting: Iterable[tuple[Pod, str]]) -> None:
        self._kept_apart = kept_apart
        self._waiting = list(waiting)
        self._of_waiting: dict[PodTerm, set[str]] = {}
        for pod, node in self._waiting:
            for term in pod.apart:
                self._of_waiting.setdefault(term, set()).add(node)
        self._of_others: dict[PodTerm, set[str]] = {}

    def kept_from(self, pod: Pod) -> frozenset[str]:
        """Return the nodes on which a pod and one that waits would exclude each other by anti-affinity."""
        excluded = NO_NODES
        for term, nodes in self._of_waiting.items():
            if self._kept_apart.selects(term, pod):
                excluded |= self._kept_apart.around(term.key, nodes)
        for term in pod.apart:
            if term not in self._of_others:
                counts = self._kept_apart.counts
                self._of_others[term] = {node for other, node in self._waiting if counts(term, other)}
            excluded |= self._kept_apart.around(term.key, self._of_others[term])
        return excluded


def _excluded_nodes(member: Member, now: float, awaited: AwaitedPlaces | None) -> frozenset[str]:
    """Return the nodes that have refused the member, and those where it would keep a preemptor away."""
    refused = member.refusals.excluded_nodes(now)
    return refused if awaited is None else refused | awaited.kept_from(member.pod)


def _by_rules(pod: Pod) -> object:
    """Return everything about a pod that rules about other pods depend on, its own rules included."""
    return pod.namespace, pod.apart, pod.near, pod.spread, frozenset(pod.labels.items())
