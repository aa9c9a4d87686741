"""Pinned members that have no room on their nodes, and when they are replaced.

A pin can't be changed (module `pins`). While its gang waits, a pinned member holds nothing and is left alone. It is
displaced if the gang would have its places at once without any pin. A member that stays displaced for a while is
evicted. Its controller creates a successor, which is planned anew.

Invariants: a member that has room beside the others is displaced only if the rest of the gang needs that room. After
the first replacement no other member of the gang is pinned, so no member is replaced twice. No member is replaced whose
Job would count it as failed (`requeues`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fluence_extender.cluster.port import Pin
from fluence_extender.gangs.execution.actions import Evict
from fluence_extender.gangs.lifecycle.limits import NEVER, Limits
from fluence_extender.gangs.lifecycle.member_states import update
from fluence_extender.gangs.lifecycle.pins import (
    may_be_pinned,
    outlived,
    outlived_at,
    pinned,
    pinning,
    replacing,
    spare_nodes,
    unpinned,
)
from fluence_extender.gangs.lifecycle.places import Places
from fluence_extender.gangs.membership.gang import Gang, Member
from fluence_extender.gangs.membership.workloads import WorkloadIndex
from fluence_extender.ledger.ledger import Ledger
from fluence_extender.model.notation import first_few, natural_order
from fluence_extender.model.pod import Pod
from fluence_extender.model.reason import Reason, ReasonCode
from fluence_extender.placement.demand import Demand, SettledMember
from fluence_extender.placement.plan import Planner
from fluence_extender.placement.trial import Trial

MOST_PARTS = 16
"""The number of members, beyond those that make a gang whole, that are examined, each by itself."""

SHOWN = 4
"""The number of members, and of nodes, that a reason names."""


class Displacement:
    """Pins members, finds displaced ones and has them replaced."""

    def __init__(
        self,
        places: Places,
        planner: Planner,
        ledger: Ledger,
        workloads: WorkloadIndex,
        limits: Limits,
    ) -> None:
        self._places = places
        self._planner = planner
        self._ledger = ledger
        self._workloads = workloads
        self._limits = limits

    def look(
        self, gang: Gang, lacking: Sequence[Sequence[Member]], reason: Reason, now: float
    ) -> tuple[Reason, bool]:
        """Find the displaced members among those ``lacking`` a place; the members of each part need theirs together.

        Return why the gang waits (``reason`` if pins aren't the cause) and whether members will be replaced. The search
        runs when a gang turns out to have no place, and again before a member is replaced. It makes two plans of all
        members, and one of each pinned member.
        """
        parts = [part for part in lacking if any(map(pinned, part))][:MOST_PARTS]
        waiting = [member for part in parts for member in part if pinned(member)]
        patience = self._limits.unasked
        if not any(one.displaced_since <= now < one.displaced_since + patience for one in waiting):
            found = {uid for part in parts for uid in self._displaced(gang, part, now)}
            for member in waiting:
                since = min(member.displaced_since, now) if member.pod.uid in found else NEVER
                update(member, displaced_since=since)
        displaced = [member for member in waiting if member.displaced_since < NEVER]
        if not displaced:
            return reason, False
        gang.attempt.again_at = min(gang.attempt.again_at, outlived_at(gang, self._limits))
        pods = sorted((member.pod for member in displaced), key=lambda pod: natural_order(pod.name))
        job = self._counted_by(pods)
        if job:
            return reason.followed_by(_waiting_text(pods, job)), False
        return Reason(ReasonCode.BUSY, f"busy: {_replaced_text(pods)}"), True

    def replacements(self, gang: Gang, now: float) -> list[Evict]:
        """Return the evictions of members of ``gang`` to replace now; none if a Job would count one as failed."""
        pods = [member.pod for member in outlived(gang, now, self._limits)]
        if not pods or self._counted_by(pods):
            return []
        gang.unpinned = True
        return [replacing(pod) for pod in pods]

    def pin(self, gang: Gang, pod: Pod, node: str, names: Sequence[str]) -> Pin | None:
        """Return the pin for the write that ungates the pod, or None if the pod may not be pinned.

        A pinned pod may have to be replaced because of it. ``names`` are those of all nodes.
        """
        if gang.unpinned or not may_be_pinned(pod) or self._counted_by((pod,)):
            return None
        if pod.affinity:
            return Pin(node, pinning(pod, node, ()))
        nodes, requested = self._planner.eligibility.nodes, self._ledger.rounded(pod.requests)
        spares = spare_nodes(pod, node, names, nodes, self._ledger.accounts, requested)
        return Pin(node, pinning(pod, node, spares))

    def _counted_by(self, pods: Iterable[Pod]) -> str:
        """Return the name of a Job that would count an eviction of these pods as a failure, "" if none would."""
        jobs = map(self._workloads.owning_job, pods)
        return next((job.name for job in jobs if job is not None and job.counts_evictions), "")

    def _displaced(self, gang: Gang, members: Sequence[Member], now: float) -> frozenset[str]:
        """Return those of ``members``, by uid, whose pins keep all of them from being placed together."""
        eligibility, topology = self._planner.eligibility, self._planner.topology
        trial = Trial(self._ledger, eligibility, topology, any(one.pod.devices for one in members))
        with self._ledger.preemptor_holds.ignoring(self._places.passes(gang)):
            return displaced(trial, self._places.demands(members, now), gang.key, self._places.settled(gang))


def displaced(
    trial: Trial, demands: Sequence[Demand], gang: object, settled: Sequence[SettledMember]
) -> frozenset[str]:
    """Return the pods, by uid, whose pins keep ``demands`` from being placed; none if the pins aren't the obstacle.

    The pinned pods are put on their nodes one by one, and those that find no room there are displaced. If the others
    have no place beside that even without pins, all pods are displaced that would be elsewhere if no pod were pinned.
    """
    free = [replace(demand, pod=unpinned(demand.pod)) for demand in demands]
    anywhere = trial.place(free, gang, settled, frozenset())
    if anywhere is None:
        return frozenset()
    staying, others, homeless = list(settled), [], set()
    unconstrained = [demand for demand in demands if demand.pod.pinned_to and not demand.constraints]
    found = trial.put_where_confined(unconstrained, gang)
    examined = {demand.pod.uid for demand in unconstrained}
    for demand, without_pin in zip(demands, free, strict=True):
        uid = demand.pod.uid
        if demand.pod.pinned_to and uid not in examined:
            near = trial.put([demand], gang, staying)
            found.update({uid: near[0].node} if near is not None else {})
        if uid in found:
            staying.append(SettledMember(demand, found[uid]))
            continue
        others.append(without_pin)
        if demand.pod.pinned_to:
            homeless.add(demand.pod.uid)
    if not others or trial.place(others, gang, staying, frozenset()) is not None:
        return frozenset(homeless)
    nodes = {one.uid: one.node for one in anywhere}
    return frozenset(
        demand.pod.uid
        for demand in demands
        if demand.pod.pinned_to and nodes[demand.pod.uid] not in demand.pod.confined_to
    )


def _replaced_text(pods: Sequence[Pod]) -> str:
    was, they, are = ("was", "it", "is") if len(pods) == 1 else ("were", "they", "are")
    return (
        f"{first_few([pod.name for pod in pods], SHOWN)} {was} confined to {_nodes(pods)} when {they} {was} ungated, "
        f"without room there now; {they} {are} replaced unless that changes"
    )


def _waiting_text(pods: Sequence[Pod], job: str) -> str:
    return (
        f"{first_few([pod.name for pod in pods], SHOWN)} could be placed elsewhere, but Job {job} counts evicted pods "
        f"as failed: {'it waits' if len(pods) == 1 else 'they wait'} for {_nodes(pods)}"
    )


def _nodes(pods: Iterable[Pod]) -> str:
    return first_few(sorted({name for pod in pods for name in pod.confined_to}, key=natural_order), SHOWN)
